//! Pictures at another size, to the byte as torchvision resizes a tensor of bytes on a CPU, with `antialias=True`.
//!
//! Invariant: the weights are reckoned in double precision, in the reference's order, and rounded to 16 bits before a
//! pixel is touched. From there on all is integers. (The one thing left to the machine is the sine of Lanczos: a
//! difference in its last bit, where a C library has one, is some 2^38 times smaller than the step of a weight.)
//!
//! Pillow, with finer weights, differs from this by up to 2 levels in about 0.5 % of the bytes; by more where the width
//! grows and the height shrinks, because it then begins with the columns. The reference always begins with the rows.

use crate::kernels::{Level, Resample, Taps};

use super::{Picture, View};

/// How the pixels around a place are weighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// A triangle, two pixels wide.
    Bilinear,
    /// A cubic spline with a = -1/2, four pixels wide.
    Bicubic,
    /// A sine cardinal under another, six pixels wide.
    Lanczos,
}

impl Filter {
    /// By the number that PIL has for it, which is how a processor's configuration calls it (`resample`).
    pub fn from_pil(resample: u64) -> Option<Self> {
        match resample {
            1 => Some(Self::Lanczos),
            2 => Some(Self::Bilinear),
            3 => Some(Self::Bicubic),
            _ => None,
        }
    }

    /// How far from its middle it reaches.
    fn support(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    /// The weight of a place so far from the middle.
    fn weight(self, x: f64) -> f64 {
        match self {
            Self::Bilinear => (1.0 - x.abs()).max(0.0),
            Self::Bicubic => match x.abs() {
                x if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
                x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5,
                _ => 0.0,
            },
            Self::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Self::Lanczos => 0.0,
        }
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    let x = x * std::f64::consts::PI;
    x.sin() / x
}

/// A picture at a new size; an empty one if a side of that is 0.
pub fn resize(picture: View<'_>, new_width: usize, new_height: usize, filter: Filter) -> Picture {
    let plan = plan((picture.width, picture.height), (new_width, new_height), filter);
    let rgb = plan.run(Level::detect(), &[picture.rgb]).pop().unwrap_or_default();
    Picture { width: new_width, height: new_height, rgb }
}

/// Several pictures at a new size, which keeps more threads busy than one after the other does.
pub fn resize_all(pictures: &[View<'_>], new_width: usize, new_height: usize, filter: Filter) -> Vec<Picture> {
    resize_at(Level::detect(), pictures, new_width, new_height, filter)
}

/// As [`resize_all`], with these kernels.
pub fn resize_at(
    level: Level,
    pictures: &[View<'_>],
    new_width: usize,
    new_height: usize,
    filter: Filter,
) -> Vec<Picture> {
    let mut resized = Vec::with_capacity(pictures.len());
    for same in pictures.chunk_by(|a, b| (a.width, a.height) == (b.width, b.height)) {
        let plan = plan((same[0].width, same[0].height), (new_width, new_height), filter);
        let pixels: Vec<&[u8]> = same.iter().map(|picture| picture.rgb).collect();
        let picture = |rgb| Picture { width: new_width, height: new_height, rgb };
        resized.extend(plan.run(level, &pixels).into_iter().map(picture));
    }
    resized
}

/// Pictures that go from size to size together: enough for all threads, and few enough for what is between two sizes to
/// stay near.
const TOGETHER: usize = 2;

/// Several pictures through some sizes (width, height), one after the other.
pub fn resize_through(pictures: &[View<'_>], sizes: &[(usize, usize)], filter: Filter) -> Vec<Picture> {
    let Some((last_width, last_height)) = sizes.last().copied() else { return Vec::new() };
    let mut resized = Vec::with_capacity(pictures.len());
    for same in pictures.chunk_by(|a, b| (a.width, a.height) == (b.width, b.height)) {
        let mut from = (same[0].width, same[0].height);
        let plans = sizes.iter().map(|to| plan(std::mem::replace(&mut from, *to), *to, filter));
        let plans: Vec<Resample> = plans.collect();
        for few in same.chunks(TOGETHER) {
            let mut between: Vec<Vec<u8>> = Vec::new();
            for plan in &plans {
                let bytes: Vec<&[u8]> = match between.is_empty() {
                    true => few.iter().map(|picture| picture.rgb).collect(),
                    false => between.iter().map(Vec::as_slice).collect(),
                };
                between = plan.run(Level::detect(), &bytes);
            }
            let picture = |rgb| Picture { width: last_width, height: last_height, rgb };
            resized.extend(between.into_iter().map(picture));
        }
    }
    resized
}

fn plan((width, height): (usize, usize), (new_width, new_height): (usize, usize), filter: Filter) -> Resample {
    let across = (width != new_width).then(|| taps(width, new_width, filter));
    let down = (height != new_height).then(|| taps(height, new_height, filter));
    Resample::new(width, height, across, down).expect("taps are made for these sides")
}

/// A weight has at most so many bits behind the point.
const MOST_PRECISION: u32 = 22;

/// The weights from a side of `source` pixels to one of `target`.
fn taps(source: usize, target: usize, filter: Filter) -> Taps {
    let windows: Vec<(usize, Vec<f64>)> = windows(source, target, filter);
    let largest = windows.iter().flat_map(|(_, weights)| weights).fold(0.0, |a: f64, b| a.max(*b));
    // As many bits as there can be without the largest weight leaving 16.
    let fits = |bits: &u32| ((0.5 + largest * f64::from(1u32 << bits)) as i64) < 1 << 15;
    let precision = (1..=MOST_PRECISION).take_while(fits).last().unwrap_or(1);
    let whole = |weight: f64| {
        let scaled = weight * f64::from(1u32 << precision);
        (if weight < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i16
    };
    let windows: Vec<(usize, Vec<i16>)> =
        windows.into_iter().map(|(start, weights)| (start, weights.into_iter().map(whole).collect())).collect();
    Taps::new(source, precision, &windows).expect("windows end with the side")
}

/// Where the window of each new pixel begins, and its weights, whose sum is 1.
fn windows(source: usize, target: usize, filter: Filter) -> Vec<(usize, Vec<f64>)> {
    let scale = source as f64 / target as f64;
    // A smaller picture is made with a wider filter.
    let (support, shrink) =
        if scale >= 1.0 { (filter.support() * scale, 1.0 / scale) } else { (filter.support(), 1.0) };
    let most = (support.ceil() as usize).saturating_mul(2).saturating_add(1);
    let window = |at: usize| {
        let centre = scale * (at as f64 + 0.5);
        let start = (centre - support + 0.5).max(0.0) as usize;
        let end = source.min((centre + support + 0.5) as usize).min(start.saturating_add(most));
        let from_centre = start as f64 - centre;
        let mut weights: Vec<f64> =
            (0..end - start).map(|i| filter.weight((i as f64 + from_centre + 0.5) * shrink)).collect();
        let sum: f64 = weights.iter().sum();
        if sum != 0.0 {
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        (start, weights)
    };
    (0..target).map(window).collect()
}
