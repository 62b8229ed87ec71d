//! Pictures at other sizes and the floats of their levels, against torchvision and transformers.

use std::fs;
use std::path::Path;

use capjudge::kernels::{Level, set_threads};
use capjudge::model::vision::pixels::{Filter, Levels, Picture, View, resize, resize_all, resize_at};
use proptest::prelude::*;
use serde_json::Value;
use sha2::{Digest, Sha256};

const FILTERS: [Filter; 3] = [Filter::Bilinear, Filter::Bicubic, Filter::Lanczos];

fn kernels() -> Vec<Level> {
    let mut levels = vec![Level::Portable, Level::detect()];
    levels.dedup();
    levels
}

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/resize/golden.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The picture that the script of the goldens makes.
fn picture(width: usize, height: usize, sharp: bool) -> Picture {
    let byte = |i: u64| {
        let noise = ((i * 2_654_435_761) % (1 << 32)) >> 11;
        let noise = ((noise * noise) >> 7) as u8;
        if sharp { if noise > 127 { 255 } else { 0 } } else { noise }
    };
    Picture { width, height, rgb: (0..(width * height * 3) as u64).map(byte).collect() }
}

fn size(value: &Value) -> (usize, usize) {
    (value[0].as_u64().unwrap() as usize, value[1].as_u64().unwrap() as usize)
}

fn resized(level: Level, picture: &Picture, width: usize, height: usize, filter: Filter) -> Picture {
    resize_at(level, &[picture.view().unwrap()], width, height, filter).pop().unwrap()
}

#[test]
fn every_picture_has_the_bytes_that_torchvision_gives() {
    for entry in golden()["pictures"].as_array().unwrap() {
        let ((width, height), (new_width, new_height)) = (size(&entry["size"]), size(&entry["new"]));
        let picture = picture(width, height, entry["sharp"].as_bool().unwrap());
        let filter = Filter::from_pil(entry["filter"].as_u64().unwrap()).unwrap();
        for level in kernels() {
            let resized = resized(level, &picture, new_width, new_height, filter);
            assert_eq!((resized.width, resized.height), (new_width, new_height));
            match entry["rgb"].as_str() {
                Some(rgb) => assert_eq!(hex(&resized.rgb), rgb, "{level} {entry}"),
                None => assert_eq!(sha256(&resized.rgb), entry["sha256"], "{level} {entry}"),
            }
        }
    }
}

#[test]
fn every_level_has_the_float_that_transformers_gives() {
    for entry in golden()["levels"].as_array().unwrap() {
        let three = |name: &str| [0, 1, 2].map(|channel| entry[name][channel].as_f64().unwrap());
        let normalise = entry["normalise"].as_bool().unwrap();
        let levels = Levels::new(three("mean"), three("std"), entry["rescale"].as_f64(), normalise);
        let floats = (0..3).flat_map(|channel| (0..=255).map(move |byte| (channel, byte)));
        let bytes: Vec<u8> = floats.flat_map(|(channel, byte)| levels.of(channel, byte).to_le_bytes()).collect();
        assert_eq!(sha256(&bytes), entry["sha256"], "{entry}");
    }
}

#[test]
fn a_run_of_pixels_is_spread_to_the_floats_of_its_channels() {
    for (rescale, normalise) in [(Some(1.0 / 255.0), true), (None, true), (Some(1.0 / 255.0), false)] {
        let levels = Levels::new([0.5, 0.4, 0.3], [0.2, 0.3, 0.4], rescale, normalise);
        for pixels in 1..50 {
            let picture = picture(pixels, 1, false);
            let mut planes = [0; 3].map(|_| vec![0.0; pixels]);
            levels.spread(&picture.rgb, planes.each_mut().map(Vec::as_mut_slice));
            for (channel, plane) in planes.iter().enumerate() {
                let bytes = picture.rgb.iter().skip(channel).step_by(3);
                let expected: Vec<f32> = bytes.map(|byte| levels.of(channel, *byte)).collect();
                assert_eq!(*plane, expected);
            }
        }
    }
}

#[test]
fn frames_of_several_sizes_come_out_as_each_alone() {
    let pictures = [picture(40, 30, false), picture(40, 30, true), picture(31, 50, false), picture(40, 30, false)];
    let views: Vec<View> = pictures.iter().map(|picture| picture.view().unwrap()).collect();
    let together = resize_all(&views, 28, 28, Filter::Bicubic);
    assert_eq!(together.len(), views.len());
    for (view, together) in views.into_iter().zip(together) {
        assert_eq!(resize(view, 28, 28, Filter::Bicubic), together);
    }
}

#[test]
fn the_number_of_threads_does_not_show() {
    let pictures = [picture(700, 500, false), picture(700, 500, true)];
    let views: Vec<View> = pictures.iter().map(|picture| picture.view().unwrap()).collect();
    for filter in FILTERS {
        // Other tests run meanwhile, with whatever number is set: theirs must not show either.
        let results = [1, 2, 0].map(|threads| {
            set_threads(threads);
            resize_all(&views, 291, 333, filter)
        });
        set_threads(0);
        assert_eq!(results[0], results[1]);
        assert_eq!(results[0], results[2]);
    }
}

#[test]
fn what_is_no_picture_is_not_looked_at() {
    assert_eq!(View::new(2, 2, &[0; 11]), None);
    assert_eq!(View::new(0, 2, &[]), None);
    assert_eq!(View::new(usize::MAX, 2, &[0; 6]), None);
    let picture = picture(3, 3, false);
    for (width, height) in [(0, 5), (5, 0), (0, 0)] {
        let empty = resize(picture.view().unwrap(), width, height, Filter::Lanczos);
        assert_eq!(empty, Picture { width, height, rgb: Vec::new() });
    }
}

#[test]
fn a_filter_is_called_by_its_number_in_pil() {
    let filters = [0, 1, 2, 3, 4].map(Filter::from_pil);
    assert_eq!(filters, [None, Some(Filter::Lanczos), Some(Filter::Bilinear), Some(Filter::Bicubic), None]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_kernel_gives_the_same_bytes(
        old in (1..120usize, 1..120usize),
        new in (1..120usize, 1..120usize),
        sharp: bool,
        filter in 0..3usize,
    ) {
        let picture = picture(old.0, old.1, sharp);
        let results: Vec<Picture> =
            kernels().into_iter().map(|level| resized(level, &picture, new.0, new.1, FILTERS[filter])).collect();
        prop_assert!(results.iter().all(|result| *result == results[0]));
    }

    #[test]
    fn the_same_size_is_the_same_picture(width in 1..60usize, height in 1..60usize, filter in 0..3usize) {
        let picture = picture(width, height, false);
        prop_assert_eq!(&resize(picture.view().unwrap(), width, height, FILTERS[filter]), &picture);
    }

    #[test]
    fn a_picture_of_one_colour_stays_so(
        old in (1..90usize, 1..90usize),
        new in (1..90usize, 1..90usize),
        colour: [u8; 3],
        filter in 0..3usize,
    ) {
        let picture = Picture { width: old.0, height: old.1, rgb: colour.repeat(old.0 * old.1) };
        for level in kernels() {
            let resized = resized(level, &picture, new.0, new.1, FILTERS[filter]);
            prop_assert_eq!(&resized.rgb, &colour.repeat(new.0 * new.1));
        }
    }
}
