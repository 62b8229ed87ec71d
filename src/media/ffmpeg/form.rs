//! The forms in which the program gives raw pictures, by its names for them, and how they become planes.
//!
//! Invariant: samples are moved, never computed. What is not three planes of samples in the program is taken apart
//! here, so that no conversion of the program's can change a value.

use super::MediaError;
use crate::media::picture::{Colour, Layout, Picture, Planes};

/// The form of a raw picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form {
    kind: Kind,
    depth: u8,
    big_endian: bool,
    /// Bits below each sample in its two bytes.
    shift: u8,
    full_range: bool,
    /// The form to which the program has to convert first.
    convert: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Planes one after the other; an alpha plane at the end is left out. Chroma has a width and a height of the luma's
    /// shifted right by these.
    Planar { chroma: Option<(u8, u8)>, alpha: bool, rgb: bool },
    /// A luma plane, then one with both chroma samples; Cr first if `swapped`.
    Paired { chroma: (u8, u8), swapped: bool },
    /// Two pixels in four samples: the places of the first luma, Cb and Cr.
    Packed422 { luma: usize, cb: usize, cr: usize },
    /// All samples of a pixel together: how many, and the places of red, green and blue.
    Packed { samples: usize, red: usize, green: usize, blue: usize },
    /// As above, of which only the first, gray, counts.
    PackedGray { samples: usize },
}

impl Form {
    /// The form by its name, or `None` if it is not supported.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (base, big_endian) = match (name.strip_suffix("be"), name.strip_suffix("le")) {
            (Some(base), _) => (base, true),
            (_, Some(base)) => (base, false),
            _ => (name, false),
        };
        let form = |kind, depth| Some(Self { kind, depth, big_endian, shift: 0, full_range: false, convert: None });
        let packed = |order: &str| {
            let place = |c| order.find(c).unwrap_or(0);
            Kind::Packed { samples: order.len(), red: place('r'), green: place('g'), blue: place('b') }
        };
        let high = |depth: u8, chroma| {
            let kind = Kind::Paired { chroma, swapped: false };
            Some(Self { shift: 16 - depth, ..form(kind, depth)? })
        };
        match base {
            "gray" => form(Kind::Planar { chroma: None, alpha: false, rgb: false }, 8),
            "ya8" | "ya16" => form(Kind::PackedGray { samples: 2 }, if base == "ya8" { 8 } else { 16 }),
            "nv12" | "nv21" => form(Kind::Paired { chroma: (1, 1), swapped: base == "nv21" }, 8),
            "nv16" => form(Kind::Paired { chroma: (1, 0), swapped: false }, 8),
            "nv24" | "nv42" => form(Kind::Paired { chroma: (0, 0), swapped: base == "nv42" }, 8),
            "nv20" => form(Kind::Paired { chroma: (1, 0), swapped: false }, 10),
            "p010" | "p012" | "p016" => high(depth_after(base, "p0")?, (1, 1)),
            "p210" | "p212" | "p216" => high(depth_after(base, "p2")?, (1, 0)),
            "p410" | "p412" | "p416" => high(depth_after(base, "p4")?, (0, 0)),
            "yuyv422" => form(Kind::Packed422 { luma: 0, cb: 1, cr: 3 }, 8),
            "yvyu422" => form(Kind::Packed422 { luma: 0, cb: 3, cr: 1 }, 8),
            "uyvy422" => form(Kind::Packed422 { luma: 1, cb: 0, cr: 2 }, 8),
            "rgb24" | "bgr24" => form(packed(&base[..3]), 8),
            "rgba" | "bgra" | "argb" | "abgr" | "rgb0" | "bgr0" | "0rgb" | "0bgr" => form(packed(base), 8),
            "rgb48" | "bgr48" => form(packed(&base[..3]), 16),
            "rgba64" | "bgra64" => form(packed(&base[..4]), 16),
            // Few bits or a palette: every one of their colours has an exact place in 24 bits.
            "pal8" | "rgb8" | "bgr8" | "rgb4_byte" | "bgr4_byte" | "rgb565" | "bgr565" | "rgb555" | "bgr555"
            | "rgb444" | "bgr444" => {
                Some(Self { convert: Some("rgb24"), big_endian: false, ..form(packed("rgb"), 8)? })
            }
            "monow" | "monob" => {
                let gray = Kind::Planar { chroma: None, alpha: false, rgb: false };
                Some(Self { convert: Some("gray"), ..form(gray, 8)? })
            }
            _ => Self::planar(base, big_endian),
        }
    }

    /// `yuv420p`, `yuva444p12`, `yuvj422p`, `gbrp10`, `gray14` and so on.
    fn planar(base: &str, big_endian: bool) -> Option<Self> {
        let form = |chroma, alpha, rgb, depth: &str, full_range| {
            let depth = if depth.is_empty() { 8 } else { depth.parse().ok()? };
            let kind = Kind::Planar { chroma, alpha, rgb };
            let known = (8..=16).contains(&depth);
            known.then_some(Self { kind, depth, big_endian, shift: 0, full_range, convert: None })
        };
        if let Some(depth) = base.strip_prefix("gray") {
            return form(None, false, false, depth, false);
        }
        if let Some(depth) = base.strip_prefix("gbrap") {
            return form(Some((0, 0)), true, true, depth, true);
        }
        if let Some(depth) = base.strip_prefix("gbrp") {
            return form(Some((0, 0)), false, true, depth, true);
        }
        let rest = base.strip_prefix("yuv")?;
        let (alpha, rest) = rest.strip_prefix('a').map_or((false, rest), |rest| (true, rest));
        let (full, rest) = rest.strip_prefix('j').map_or((false, rest), |rest| (true, rest));
        let (layout, depth) = rest.split_once('p')?;
        let chroma = match layout {
            "444" => (0, 0),
            "422" => (1, 0),
            "420" => (1, 1),
            "440" => (0, 1),
            "411" => (2, 0),
            "410" => (2, 2),
            _ => return None,
        };
        form(Some(chroma), alpha, false, depth, full)
    }

    /// Whether the samples are red, green and blue.
    pub(super) fn is_rgb(&self) -> bool {
        matches!(self.kind, Kind::Packed { .. } | Kind::Planar { rgb: true, .. })
    }

    /// Whether there is no colour.
    pub(super) fn is_gray(&self) -> bool {
        matches!(self.kind, Kind::PackedGray { .. } | Kind::Planar { chroma: None, .. })
    }

    /// Whether the name says that samples have the full range.
    pub(super) fn is_full_range(&self) -> bool {
        self.full_range
    }

    /// What a filter chain needs at its end to give this form.
    pub(super) fn filter(&self) -> String {
        self.convert.map(|name| format!(",format={name}")).unwrap_or_default()
    }

    /// The size of a raw picture.
    pub(super) fn bytes(&self, width: u32, height: u32) -> Result<usize, MediaError> {
        let (width, height) = (u64::from(width), u64::from(height));
        let pixels = u128::from(width) * u128::from(height);
        let part = |(x, y): (u8, u8)| u128::from(shrunk(width, x)) * u128::from(shrunk(height, y));
        let samples = match &self.kind {
            Kind::Planar { chroma, alpha, .. } => {
                pixels * if *alpha { 2 } else { 1 } + chroma.map_or(0, |chroma| 2 * part(chroma))
            }
            Kind::Paired { chroma, .. } => pixels + 2 * part(*chroma),
            Kind::Packed422 { .. } => 4 * part((1, 0)),
            Kind::Packed { samples, .. } | Kind::PackedGray { samples } => pixels * *samples as u128,
        };
        usize::try_from(samples * if self.depth > 8 { 2 } else { 1 })
            .map_err(|_| MediaError::Limit("the picture is larger than memory can be".to_owned()))
    }

    /// A raw picture as planes.
    pub(super) fn picture(&self, width: u32, height: u32, colour: Colour, raw: &[u8]) -> Result<Picture, MediaError> {
        if raw.len() != self.bytes(width, height)? {
            return Err(MediaError::Crashed("ffmpeg gave a picture of another size".to_owned()));
        }
        let planes = if self.depth == 8 {
            Planes::U8(self.planes(width, height, raw))
        } else {
            let samples: Vec<u16> = raw
                .as_chunks::<2>()
                .0
                .iter()
                .map(|pair| {
                    let sample = if self.big_endian { u16::from_be_bytes(*pair) } else { u16::from_le_bytes(*pair) };
                    sample >> self.shift
                })
                .collect();
            Planes::U16(self.planes(width, height, &samples))
        };
        Ok(Picture { width, height, depth: self.depth, layout: self.layout(), planes, colour })
    }

    fn layout(&self) -> Layout {
        match &self.kind {
            Kind::PackedGray { .. } | Kind::Planar { chroma: None, .. } => Layout::Gray,
            Kind::Packed { .. } => Layout::Yuv444,
            Kind::Packed422 { .. } => Layout::Yuv422,
            Kind::Planar { chroma: Some(chroma), .. } | Kind::Paired { chroma, .. } => match chroma {
                (0, 0) => Layout::Yuv444,
                (0, _) => Layout::Yuv440,
                (_, 0) => Layout::Yuv422,
                _ => Layout::Yuv420,
            },
        }
    }

    /// Takes samples apart. There are as many as the form needs.
    fn planes<S: Copy>(&self, width: u32, height: u32, raw: &[S]) -> [Vec<S>; 3] {
        let pixels = width as usize * height as usize;
        let (luma, rest) = raw.split_at(pixels.min(raw.len()));
        match &self.kind {
            Kind::Planar { chroma: None, .. } => [luma.to_vec(), Vec::new(), Vec::new()],
            Kind::Planar { chroma: Some((x, y)), .. } => {
                let (columns, rows) = (shrunk(width.into(), *x) as usize, shrunk(height.into(), *y) as usize);
                let (cb, cr) = rest.split_at((columns * rows).min(rest.len()));
                let cr = cr.get(..columns * rows).unwrap_or(cr);
                let (wide, high) = self.layout().chroma(width, height);
                let whole = |plane: &[S]| match (*x > 1, *y > 1) {
                    (false, false) => plane.to_vec(),
                    (_, tall) => doubled(plane, columns, wide as usize, high as usize, tall),
                };
                [luma.to_vec(), whole(cb), whole(cr)]
            }
            Kind::Paired { swapped, .. } => {
                let (first, second) = (every(rest, 2, 0), every(rest, 2, 1));
                if *swapped { [luma.to_vec(), second, first] } else { [luma.to_vec(), first, second] }
            }
            Kind::Packed422 { luma, cb, cr } => {
                // With an odd width, the last pixel of a row is there twice.
                let row = width.div_ceil(2) as usize * 4;
                let lumas = raw
                    .chunks_exact(row.max(1))
                    .flat_map(|row| row.iter().copied().skip(*luma).step_by(2).take(width as usize));
                [lumas.collect(), every(raw, 4, *cb), every(raw, 4, *cr)]
            }
            Kind::Packed { samples, red, green, blue } => {
                [every(raw, *samples, *green), every(raw, *samples, *blue), every(raw, *samples, *red)]
            }
            Kind::PackedGray { samples } => [every(raw, *samples, 0), Vec::new(), Vec::new()],
        }
    }
}

/// The depth in a name.
fn depth_after(name: &str, prefix: &str) -> Option<u8> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// A size shifted right, rounded up.
fn shrunk(size: u64, shift: u8) -> u64 {
    size.div_ceil(1 << shift)
}

/// One of each `step` samples.
fn every<S: Copy>(samples: &[S], step: usize, place: usize) -> Vec<S> {
    samples.iter().copied().skip(place).step_by(step.max(1)).collect()
}

/// A plane with each sample twice in a row, and each row twice if `tall`: chroma of a quarter width as if it was of
/// half.
fn doubled<S: Copy>(plane: &[S], columns: usize, wide: usize, high: usize, tall: bool) -> Vec<S> {
    let mut whole = Vec::with_capacity(wide * high);
    for row in 0..high {
        let row = if tall { row / 2 } else { row };
        let from = plane.get(row * columns..(row + 1) * columns).unwrap_or_default();
        whole.extend((0..wide).filter_map(|column| from.get(column / 2).copied()));
    }
    whole
}
