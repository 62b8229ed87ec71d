//! The conversion to RGB, against known colours and against the exact formula.

use capjudge::media::MediaError;
use capjudge::media::colour::to_rgb;
use capjudge::media::container::Turn;
use capjudge::media::picture::{Colour, Layout, Matrix, Picture, Planes};

const MATRICES: [(Matrix, f64, f64); 5] = [
    (Matrix::Bt601, 0.299, 0.114),
    (Matrix::Bt709, 0.2126, 0.0722),
    (Matrix::Bt2020, 0.2627, 0.0593),
    (Matrix::Smpte240m, 0.212, 0.087),
    (Matrix::Fcc, 0.30, 0.11),
];

fn picture(
    (width, height): (u32, u32),
    depth: u8,
    layout: Layout,
    planes: [Vec<u16>; 3],
    matrix: Matrix,
    full_range: bool,
) -> Picture {
    let planes = match depth {
        8 => Planes::U8(planes.map(|plane| plane.into_iter().map(|sample| sample as u8).collect())),
        _ => Planes::U16(planes),
    };
    Picture { width, height, depth, layout, planes, colour: Colour { matrix, full_range } }
}

fn rgb(picture: &Picture) -> Vec<u8> {
    to_rgb(picture, Turn::default()).unwrap().2
}

/// Luma or chroma for a value from 0 to 1 (-0.5 to 0.5 for chroma).
fn code(value: f64, chroma: bool, depth: u8, full: bool) -> u16 {
    let step = f64::from(1_u32 << (depth - 8));
    let largest = 256.0 * step - 1.0;
    let code = match (chroma, full) {
        (false, false) => step * (16.0 + 219.0 * value),
        (true, false) => step * (128.0 + 224.0 * value),
        (false, true) => largest * value,
        (true, true) => step * 128.0 + largest * value,
    };
    code.round().clamp(0.0, largest) as u16
}

/// The exact RGB of a sample triple, not rounded.
fn exact(sample: [u16; 3], (kr, kb): (f64, f64), depth: u8, full: bool) -> [f64; 3] {
    let step = f64::from(1_u32 << (depth - 8));
    let [y, cb, cr] = sample.map(f64::from);
    let largest = 256.0 * step - 1.0;
    let (y, cb, cr) = match full {
        true => (y / largest, (cb - 128.0 * step) / largest, (cr - 128.0 * step) / largest),
        false => (
            (y - 16.0 * step) / (219.0 * step),
            (cb - 128.0 * step) / (224.0 * step),
            (cr - 128.0 * step) / (224.0 * step),
        ),
    };
    let red = y + 2.0 * (1.0 - kr) * cr;
    let blue = y + 2.0 * (1.0 - kb) * cb;
    let green = (y - kr * red - kb * blue) / (1.0 - kr - kb);
    [red, green, blue].map(|colour| (255.0 * colour).clamp(0.0, 255.0))
}

/// The largest distance from the exact values over a grid of samples.
fn distance(values: &[u16], depth: u8, full: bool, (matrix, kr, kb): (Matrix, f64, f64)) -> f64 {
    let mut planes: [Vec<u16>; 3] = Default::default();
    for y in values {
        for cb in values {
            for cr in values {
                for (plane, value) in planes.iter_mut().zip([y, cb, cr]) {
                    plane.push(*value);
                }
            }
        }
    }
    let triples: Vec<[u16; 3]> = (0..planes[0].len()).map(|i| [planes[0][i], planes[1][i], planes[2][i]]).collect();
    let size = (values.len() as u32, (values.len() * values.len()) as u32);
    let rgb = rgb(&picture(size, depth, Layout::Yuv444, planes, matrix, full));
    triples
        .iter()
        .zip(rgb.chunks_exact(3))
        .flat_map(|(triple, rgb)| {
            let exact = exact(*triple, (kr, kb), depth, full);
            [0, 1, 2].map(|i| (exact[i] - f64::from(rgb[i])).abs())
        })
        .fold(0.0, f64::max)
}

#[test]
fn black_white_and_primaries_come_out_in_every_matrix_range_and_depth() {
    let colours: [[u8; 3]; 8] = [
        [0, 0, 0],
        [255, 255, 255],
        [255, 0, 0],
        [0, 255, 0],
        [0, 0, 255],
        [255, 255, 0],
        [0, 255, 255],
        [255, 0, 255],
    ];
    for (matrix, kr, kb) in MATRICES {
        for full in [false, true] {
            for depth in [8, 9, 10, 12, 14, 16] {
                for colour in colours {
                    let [r, g, b] = colour.map(|colour| f64::from(colour) / 255.0);
                    let y = kr * r + (1.0 - kr - kb) * g + kb * b;
                    let (cb, cr) = ((b - y) / (2.0 - 2.0 * kb), (r - y) / (2.0 - 2.0 * kr));
                    let planes = [(y, false), (cb, true), (cr, true)]
                        .map(|(value, chroma)| vec![code(value, chroma, depth, full)]);
                    let got = rgb(&picture((1, 1), depth, Layout::Yuv444, planes, matrix, full));
                    // A code is up to half a step off, which is up to 1.5 in blue at 8 bits.
                    let most = if depth == 8 { 2 } else { 1 };
                    assert!(
                        got.iter().zip(colour).all(|(got, colour)| got.abs_diff(colour) <= most),
                        "{matrix:?} full {full} depth {depth}: {colour:?} came out as {got:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn known_codes_give_known_colours() {
    // Codes of BT.601 and BT.709 colour bars, limited range, and what they show.
    let bars: [(Matrix, bool, [u16; 3], [u8; 3]); 10] = [
        (Matrix::Bt601, false, [16, 128, 128], [0, 0, 0]),
        (Matrix::Bt601, false, [235, 128, 128], [255, 255, 255]),
        (Matrix::Bt601, false, [81, 90, 240], [254, 0, 0]),
        (Matrix::Bt601, false, [145, 54, 34], [0, 255, 1]),
        (Matrix::Bt601, false, [41, 240, 110], [0, 0, 255]),
        (Matrix::Bt709, false, [63, 102, 240], [255, 1, 0]),
        (Matrix::Bt709, false, [173, 42, 26], [0, 255, 1]),
        (Matrix::Bt709, false, [32, 240, 118], [1, 0, 255]),
        (Matrix::Bt601, true, [76, 85, 255], [254, 0, 0]),
        (Matrix::Bt601, true, [128, 128, 128], [128, 128, 128]),
    ];
    for (matrix, full, codes, colour) in bars {
        let got = rgb(&picture((1, 1), 8, Layout::Yuv444, codes.map(|code| vec![code]), matrix, full));
        assert_eq!(got, colour, "{matrix:?} full {full} {codes:?}");
    }
}

#[test]
fn eight_bits_are_the_exact_formula_rounded() {
    let values: Vec<u16> = (0..=255).step_by(9).chain([1, 16, 127, 128, 129, 235, 254, 255]).collect();
    for matrix in MATRICES {
        for full in [false, true] {
            let distance = distance(&values, 8, full, matrix);
            assert!(distance <= 0.501, "{matrix:?} full {full}: {distance} off");
        }
    }
}

#[test]
fn more_bits_are_the_exact_formula_rounded() {
    for (depth, step) in [(9, 37), (10, 41), (12, 293), (14, 1171), (16, 4673)] {
        let largest = (1_u32 << depth) - 1;
        let values: Vec<u16> = (0..=largest).step_by(step).chain([largest]).map(|value| value as u16).collect();
        for matrix in MATRICES {
            for full in [false, true] {
                let distance = distance(&values, depth, full, matrix);
                assert!(distance <= 0.57, "{matrix:?} full {full} depth {depth}: {distance} off");
            }
        }
    }
}

#[test]
fn the_lowest_and_highest_samples_do_not_overflow_at_any_depth() {
    for depth in 8..=16 {
        for matrix in MATRICES {
            for full in [false, true] {
                let distance = distance(&[0, ((1_u32 << depth) - 1) as u16], depth, full, matrix);
                assert!(distance <= 0.57, "{matrix:?} full {full} depth {depth}: {distance} off");
            }
        }
    }
    // Bits above the depth count as the largest sample.
    let white = picture((1, 1), 10, Layout::Yuv444, [vec![65_535], vec![512], vec![512]], Matrix::Bt709, false);
    assert_eq!(rgb(&white), [255, 255, 255]);
}

#[test]
fn green_blue_and_red_planes_are_taken_as_they_are() {
    let of = |planes, depth, full| rgb(&picture((2, 1), depth, Layout::Yuv444, planes, Matrix::Identity, full));
    assert_eq!(of([vec![1, 2], vec![3, 4], vec![5, 6]], 8, true), [5, 1, 3, 6, 2, 4]);
    assert_eq!(of([vec![16, 235], vec![126, 0], vec![255, 17]], 8, false), [255, 0, 128, 1, 255, 0]);
    assert_eq!(of([vec![0, 1023], vec![512, 2], vec![3, 1021]], 10, true), [1, 0, 128, 255, 255, 0]);
}

#[test]
fn smaller_chroma_planes_are_no_blue_and_red_whatever_the_file_says() {
    let of = |matrix| {
        let planes = [vec![81, 90, 100, 110], vec![90], vec![240]];
        rgb(&picture((2, 2), 8, Layout::Yuv420, planes, matrix, false))
    };
    assert_eq!(of(Matrix::Identity), of(Matrix::Bt601));
    assert_eq!(of(Matrix::Identity)[..3], [254, 0, 0]);
}

#[test]
fn gray_follows_its_range() {
    let of = |full| {
        let planes = [vec![0, 16, 126, 235, 255], vec![], vec![]];
        rgb(&picture((5, 1), 8, Layout::Gray, planes, Matrix::Bt601, full))
    };
    let thrice = |values: [u8; 5]| values.into_iter().flat_map(|value| [value; 3]).collect::<Vec<_>>();
    assert_eq!(of(false), thrice([0, 0, 128, 255, 255]));
    assert_eq!(of(true), thrice([0, 16, 126, 235, 255]));
}

#[test]
fn each_chroma_sample_serves_its_block_in_odd_sizes_too() {
    let (width, height) = (5, 3);
    for layout in [Layout::Yuv420, Layout::Yuv422, Layout::Yuv440, Layout::Yuv444] {
        let (wide, high) = layout.chroma(width, height);
        let luma: Vec<u16> = (0..15).map(|i| 60 + 9 * i).collect();
        let cb: Vec<u16> = (0..wide * high).map(|i| 40 + 13 * i as u16).collect();
        let cr: Vec<u16> = (0..wide * high).map(|i| 210 - 11 * i as u16).collect();
        let got =
            rgb(&picture((width, height), 8, layout, [luma.clone(), cb.clone(), cr.clone()], Matrix::Bt709, false));
        for y in 0..height {
            for x in 0..width {
                let at = (y * width + x) as usize;
                let row = if high < height { (y / 2 * wide) as usize } else { (y * wide) as usize };
                let column = if wide < width { x / 2 } else { x } as usize;
                let triple = [luma[at], cb[row + column], cr[row + column]];
                let exact = exact(triple, (0.2126, 0.0722), 8, false);
                for i in 0..3 {
                    let off = (exact[i] - f64::from(got[at * 3 + i])).abs();
                    assert!(off <= 0.51, "{layout:?} at {x}, {y}: {off} off");
                }
            }
        }
    }
}

#[test]
fn pictures_are_mirrored_first_and_then_turned_clockwise() {
    // 0 1 2
    // 3 4 5
    let planes = [(0..6).collect(), vec![], vec![]];
    let picture = picture((3, 2), 8, Layout::Gray, planes, Matrix::Bt601, true);
    let of = |quarters, mirrored| {
        let (width, height, rgb) = to_rgb(&picture, Turn { quarters, mirrored }).unwrap();
        (width, height, rgb.chunks_exact(3).map(|pixel| pixel[0]).collect::<Vec<_>>())
    };
    assert_eq!(of(0, false), (3, 2, vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(of(1, false), (2, 3, vec![3, 0, 4, 1, 5, 2]));
    assert_eq!(of(2, false), (3, 2, vec![5, 4, 3, 2, 1, 0]));
    assert_eq!(of(3, false), (2, 3, vec![2, 5, 1, 4, 0, 3]));
    assert_eq!(of(0, true), (3, 2, vec![2, 1, 0, 5, 4, 3]));
    assert_eq!(of(1, true), (2, 3, vec![5, 2, 4, 1, 3, 0]));
    assert_eq!(of(2, true), (3, 2, vec![3, 4, 5, 0, 1, 2]));
    assert_eq!(of(3, true), (2, 3, vec![0, 3, 1, 4, 2, 5]));
}

#[test]
fn a_large_picture_is_turned_like_a_small_one() {
    let (width, height) = (67_u32, 45_u32);
    let luma: Vec<u16> = (0..width * height).map(|i| (i * 7 % 251) as u16).collect();
    let picture = picture((width, height), 8, Layout::Gray, [luma.clone(), vec![], vec![]], Matrix::Bt601, true);
    let (columns, rows, rgb) = to_rgb(&picture, Turn { quarters: 1, mirrored: false }).unwrap();
    assert_eq!((columns, rows), (height, width));
    for y in 0..rows {
        for x in 0..columns {
            let from = luma[((height - 1 - x) * width + y) as usize];
            assert_eq!(u16::from(rgb[((y * columns + x) * 3) as usize]), from, "at {x}, {y}");
        }
    }
}

#[test]
fn planes_that_do_not_fit_are_an_error() {
    let damaged = |size, depth, layout, lengths: [usize; 3]| {
        let planes = lengths.map(|length| vec![0; length]);
        let result = to_rgb(&picture(size, depth, layout, planes, Matrix::Bt601, false), Turn::default());
        assert!(matches!(result, Err(MediaError::Damaged(_))), "{size:?} {layout:?} {lengths:?}");
    };
    damaged((4, 4), 8, Layout::Yuv420, [15, 4, 4]);
    damaged((4, 4), 8, Layout::Yuv420, [17, 4, 4]);
    damaged((4, 4), 8, Layout::Yuv420, [16, 3, 4]);
    damaged((5, 5), 8, Layout::Yuv420, [25, 9, 4]);
    damaged((4, 4), 10, Layout::Yuv422, [16, 4, 4]);
    damaged((4, 4), 8, Layout::Gray, [16, 4, 4]);
    damaged((0, 4), 8, Layout::Yuv420, [0, 0, 0]);
    damaged((4, 0), 8, Layout::Yuv444, [0, 0, 0]);
    damaged((u32::MAX, u32::MAX), 8, Layout::Yuv444, [0, 0, 0]);
}

#[test]
fn depths_that_no_picture_has_are_an_error() {
    for (depth, planes) in [
        (7, Planes::U16([vec![0], vec![], vec![]])),
        (17, Planes::U16([vec![0], vec![], vec![]])),
        (10, Planes::U8([vec![0], vec![], vec![]])),
    ] {
        let colour = Colour { matrix: Matrix::Bt601, full_range: false };
        let picture = Picture { width: 1, height: 1, depth, layout: Layout::Gray, planes, colour };
        assert!(matches!(to_rgb(&picture, Turn::default()), Err(MediaError::Unsupported(_))), "{depth}");
    }
}
