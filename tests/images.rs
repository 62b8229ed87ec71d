//! Images, lists, folders and animations against PIL, and what is broken or too large.

use std::fs;
use std::path::{Path, PathBuf};

use capjudge::media::images::{Reel, open};
use capjudge::media::{Frames, Limits, MediaError};
use serde_json::Value;
use sha2::{Digest, Sha256};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/media/images").join(name)
}

fn opened(paths: &[PathBuf]) -> Reel {
    open(paths, 1.0, &Limits::default()).unwrap().unwrap()
}

fn all(reel: &Reel) -> Frames {
    reel.read(&(0..reel.total()).collect::<Vec<_>>()).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn refused(paths: &[PathBuf], limits: &Limits) -> MediaError {
    match open(paths, 1.0, limits) {
        Err(error) => error,
        Ok(None) => panic!("taken for no image"),
        Ok(Some(reel)) => reel.read(&[0]).unwrap_err(),
    }
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9)
}

#[test]
fn every_image_has_the_pixels_that_pil_gives() {
    let golden: Value = serde_json::from_str(&fs::read_to_string(data("golden.json")).unwrap()).unwrap();
    let golden = golden.as_object().unwrap();
    assert!(golden.len() >= 21);
    for (name, expected) in golden {
        let frames = all(&opened(&[data(name)]));
        for frame in &frames.frames {
            assert_eq!(expected["size"], serde_json::json!([frame.width, frame.height]), "{name}");
            assert_eq!(frame.rgb.len(), (frame.width * frame.height * 3) as usize, "{name}");
        }
        if let Some(hashes) = expected["sha256"].as_array() {
            let found: Vec<Value> = frames.frames.iter().map(|frame| sha256(&frame.rgb).into()).collect();
            assert_eq!(&found, hashes, "{name}");
        } else {
            let hex = expected["rgb"].as_str().unwrap();
            let furthest = frames.frames[0]
                .rgb
                .iter()
                .enumerate()
                .map(|(at, level)| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap().abs_diff(*level));
            let furthest = furthest.max().unwrap();
            assert!(furthest <= 3, "{name} is {furthest} levels off");
        }
    }
}

#[test]
fn animations_keep_their_delays_and_very_short_ones_are_a_tenth_of_a_second() {
    for (name, times, duration) in [
        ("moving.gif", [0.0, 0.1, 0.2, 0.22, 0.47], 0.51),
        ("moving.png", [0.0, 0.1, 0.13, 0.23, 0.48], 0.52),
        ("moving.webp", [0.0, 0.1, 0.13, 0.23, 0.48], 0.52),
    ] {
        let reel = opened(&[data(name)]);
        assert!(close(reel.times(), &times), "{name}: {:?}", reel.times());
        assert!(close(&[reel.duration()], &[duration]), "{name}: {}", reel.duration());
        assert!(reel.faults().is_empty());
    }
}

#[test]
fn frames_come_in_the_order_asked_for_and_more_than_once() {
    for paths in [vec![data("moving.gif")], ["rgb.png", "gray.png", "rgba.png"].map(data).to_vec()] {
        let reel = opened(&paths);
        let every = all(&reel).frames;
        let some = reel.read(&[2, 0, 2]).unwrap();
        assert_eq!(some.frames, [every[2].clone(), every[0].clone(), every[2].clone()]);
        assert_eq!(some.total, reel.total());
        assert!(matches!(reel.read(&[reel.total()]), Err(MediaError::Usage(_))));
        assert!(reel.read(&[]).unwrap().frames.is_empty());
        let mut visited = Vec::new();
        let mut keep = |frame| {
            visited.push(frame);
            Ok(())
        };
        reel.visit(&[2, 0, 2], &mut keep).unwrap();
        assert_eq!(visited, [every[0].clone(), every[2].clone()]);
    }
}

#[test]
fn only_the_files_that_are_asked_for_are_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("b.png");
    fs::write(&broken, &fs::read(data("rgb.png")).unwrap()[..40]).unwrap();
    let reel = opened(&[data("rgb.png"), broken]);
    assert_eq!(reel.read(&[0]).unwrap().frames.len(), 1);
    let error = reel.read(&[0, 1]).unwrap_err();
    assert!(matches!(&error, MediaError::Damaged(what) if what.contains("b.png")), "{error:?}");
}

#[test]
fn lists_are_shown_at_the_rate_that_was_given() {
    let paths = ["rgb.png", "gray.png", "rgb.bmp"].map(data);
    let reel = open(&paths, 4.0, &Limits::default()).unwrap().unwrap();
    assert_eq!((reel.times(), reel.duration()), ([0.0, 0.25, 0.5].as_slice(), 0.75));
    assert_eq!(reel.clip().times.len(), 3);
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(open(&paths, rate, &Limits::default()), Err(MediaError::Usage(_))));
    }
    assert!(matches!(open(&[], 1.0, &Limits::default()), Err(MediaError::Usage(_))));
}

#[test]
fn a_folder_is_read_in_the_order_of_its_numbers_and_other_files_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, from: &str| fs::copy(data(from), folder.path().join(name)).unwrap();
    put("img10.png", "gray.png");
    put("img2.png", "rgb.png");
    put("img1", "rgba.png");
    put("img02.png", "palette.png");
    put(".img0.png", "gray.png");
    fs::write(folder.path().join("notes.txt"), "BM, and other letters that do not make a bitmap").unwrap();
    fs::create_dir(folder.path().join("img3.png")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("loop.png", folder.path().join("loop.png")).unwrap();
        let pipe = std::process::Command::new("mkfifo").arg(folder.path().join("img4.png")).status();
        assert!(pipe.is_ok_and(|status| status.success()));
    }
    let order = ["rgba.png", "palette.png", "rgb.png", "gray.png"].map(data);
    let (found, expected) = (all(&opened(&[folder.path().to_owned()])), all(&opened(&order)));
    assert_eq!(found.frames, expected.frames);
}

#[test]
fn what_is_no_image_is_left_to_the_video_decoders() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.png");
    fs::write(&file, b"\0\0\0\x20ftypisom").unwrap();
    assert_eq!(open(std::slice::from_ref(&file), 1.0, &Limits::default()), Ok(None));
    fs::write(&file, b"").unwrap();
    assert_eq!(open(std::slice::from_ref(&file), 1.0, &Limits::default()), Ok(None));
    let limits = Limits::default();
    assert!(matches!(refused(&[folder.path().to_owned()], &limits), MediaError::Unsupported(_)));
    let error = refused(&[data("rgb.png"), file.clone()], &limits);
    assert!(matches!(&error, MediaError::Unsupported(what) if what.contains("a.png")), "{error:?}");
    assert!(matches!(refused(&[file.with_file_name("none.png")], &limits), MediaError::Io { .. }));
    assert!(matches!(refused(&[PathBuf::from("/dev/zero")], &limits), MediaError::Io { .. }));
}

#[test]
fn a_broken_image_names_its_file_and_no_cut_makes_it_panic() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["rgb.png", "rgba.webp", "rgb.tif", "rgb.bmp", "turned.jpg", "cmyk.jpg", "one.gif", "palette.png"] {
        let whole = fs::read(data(name)).unwrap();
        let path = folder.path().join(name);
        for length in (24..whole.len() - 4).step_by(7) {
            fs::write(&path, &whole[..length]).unwrap();
            if let Err(error) = opened_or(&path).and_then(|reel| reel.read(&[0])) {
                assert!(error.to_string().contains(name), "{error}");
            } else {
                // Formats whose end carries no pixels may be whole without it.
                assert!(whole.len() - length <= 30, "{name} cut to {length} of {} passes", whole.len());
            }
        }
    }
}

fn opened_or(path: &Path) -> Result<Reel, MediaError> {
    open(&[path.to_owned()], 1.0, &Limits::default()).map(|reel| reel.expect("an image"))
}

#[test]
fn flipped_bytes_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["moving.gif", "moving.png", "moving.webp", "rgb.png", "rgb.tif", "rgb.bmp", "cmyk.jpg", "rgba.webp"] {
        let whole = fs::read(data(name)).unwrap();
        let path = folder.path().join(name);
        for at in (0..whole.len()).step_by(11) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x81;
            fs::write(&path, &bytes).unwrap();
            let limits = Limits { pixels: 1 << 20, memory: 64 << 20, ..Limits::default() };
            if let Ok(Some(reel)) = open(std::slice::from_ref(&path), 1.0, &limits) {
                let _ = reel.read(&[0, reel.total() - 1]);
            }
        }
    }
}

#[test]
fn a_cut_animation_gives_the_frames_that_are_there_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["moving.gif", "moving.png", "moving.webp"] {
        let whole = fs::read(data(name)).unwrap();
        let path = folder.path().join(name);
        let every = all(&opened(&[data(name)])).frames;
        let mut partial = 0;
        for length in (24..whole.len()).step_by(5) {
            fs::write(&path, &whole[..length]).unwrap();
            // A file that ends before its first frame is an error, at the latest when that frame is read.
            let Ok(reel) = opened_or(&path) else { continue };
            let Ok(there) = reel.read(&(0..reel.total()).collect::<Vec<_>>()) else { continue };
            assert_eq!(there.frames, every[..there.frames.len()], "{name} cut to {length}");
            if there.frames.len() < every.len() {
                partial += 1;
                assert!(!there.faults.is_empty(), "{name} cut to {length} has {} frames", there.frames.len());
            }
        }
        assert!(partial > 0, "{name} is never partly there");
    }
}

#[test]
fn limits_hold_before_pixels_are_decoded() {
    let limit = |name: &str, limits: Limits, flag: &str| {
        let error = refused(&[data(name)], &limits);
        assert!(matches!(&error, MediaError::Limit(what) if what.contains(name) && what.contains(flag)), "{error:?}");
    };
    for name in ["rgb.png", "turned.jpg", "moving.gif", "moving.png", "moving.webp", "rgb.bmp", "rgb.tif", "one.gif"] {
        limit(name, Limits { pixels: 100, ..Limits::default() }, "--max-pixels");
        limit(name, Limits { file_bytes: 60, ..Limits::default() }, "--max-video-bytes");
        limit(name, Limits { memory: 100, ..Limits::default() }, "--max-decode-memory");
    }
    for name in ["moving.gif", "moving.png", "moving.webp"] {
        limit(name, Limits { frames: 4, ..Limits::default() }, "--max-video-frames");
        limit(name, Limits { decoded: 4, ..Limits::default() }, "--max-decoded");
    }
    let two = Limits { frames: 1, ..Limits::default() };
    assert!(matches!(refused(&[data("rgb.png"), data("rgb.bmp")], &two), MediaError::Limit(_)));
    // A header that claims a huge picture, with nothing behind it.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.bmp");
    let mut bytes = fs::read(data("rgb.bmp")).unwrap();
    bytes[18..22].copy_from_slice(&60_000u32.to_le_bytes());
    bytes[22..26].copy_from_slice(&60_000u32.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    assert!(matches!(refused(&[path], &Limits::default()), MediaError::Limit(_)));
}
