//! How fast frames are brought to a model's size and scale, in pixels that come in a second: `cargo bench --bench pixels`.
//!
//! Eight frames of 1280 × 720, as a judge sees a video.

use capjudge::model::vision::pixels::{Filter, Levels, Picture, View, resize_all};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

const FRAMES: usize = 8;

fn frames() -> Vec<Picture> {
    let (width, height) = (1280, 720);
    let rgb: Vec<u8> = (0..width * height * 3).map(|i| (i * 7 % 251) as u8).collect();
    vec![Picture { width, height, rgb }; FRAMES]
}

fn views(frames: &[Picture]) -> Vec<View<'_>> {
    frames.iter().filter_map(Picture::view).collect()
}

/// From 1280 × 720 to a new size.
fn resized(bencher: Bencher, width: usize, height: usize, filter: Filter) {
    let frames = frames();
    let views = views(&frames);
    bencher
        .counter(ItemsCount::new(FRAMES * 1280 * 720))
        .bench_local(|| resize_all(black_box(&views), width, height, filter));
}

/// As Qwen2.5-VL sees them.
#[divan::bench]
fn bicubic_644_364(bencher: Bencher) {
    resized(bencher, 644, 364, Filter::Bicubic);
}

/// As SmolVLM2 sees them, at first.
#[divan::bench]
fn lanczos_512_288(bencher: Bencher) {
    resized(bencher, 512, 288, Filter::Lanczos);
}

#[divan::bench]
fn bilinear_448_448(bencher: Bencher) {
    resized(bencher, 448, 448, Filter::Bilinear);
}

/// One resized frame through the table of levels, into planes.
#[divan::bench]
fn levels(bencher: Bencher) {
    let picture = Picture { width: 644, height: 364, rgb: (0..644 * 364 * 3).map(|i| (i % 251) as u8).collect() };
    let levels = Levels::new([0.5; 3], [0.5; 3], Some(1.0 / 255.0), true);
    let mut planes = [const { Vec::new() }; 3].map(|_: Vec<f32>| vec![0.0; 644 * 364]);
    bencher.counter(ItemsCount::new(644 * 364usize)).bench_local(|| {
        levels.spread(black_box(&picture.rgb), planes.each_mut().map(Vec::as_mut_slice));
    });
}
