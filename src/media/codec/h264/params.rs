//! Parameter sets: what the slices of a stream have in common.
//!
//! Invariant: a set that was read has every number in the range of the standard, so that sizes and shifts made of them
//! are safe.

use crate::media::codec::bits::Bits;
use crate::media::picture::{ColourHint, Layout};
use crate::media::{Limits, MediaError};

/// A sequence parameter set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sps {
    /// Its number, 0 to 31.
    pub id: u32,
    /// `chroma_format_idc`: 0 gray, 1 4:2:0, 2 4:2:2, 3 4:4:4.
    pub chroma: u32,
    /// Bits of a luma sample.
    pub depth: u32,
    /// Bits of a chroma sample.
    pub chroma_depth: u32,
    /// Whether macroblocks can be lossless.
    pub lossless: bool,
    /// Bits of `frame_num`.
    pub frame_num_bits: u32,
    /// How the order of pictures is coded.
    pub order: Order,
    /// `max_num_ref_frames`.
    pub references: u32,
    /// Whether frame numbers can be left out.
    pub gaps: bool,
    /// Width in macroblocks.
    pub mb_width: u32,
    /// Height of a frame in macroblocks.
    pub mb_height: u32,
    /// Whether there are frames only, and no fields.
    pub frames_only: bool,
    /// Whether a frame's macroblock pairs can be fields.
    pub mbaff: bool,
    /// `direct_8x8_inference_flag`.
    pub direct_8x8: bool,
    /// Width of what is shown.
    pub width: u32,
    /// Height of what is shown.
    pub height: u32,
    /// What the stream says of its colour.
    pub colour: ColourHint,
}

/// How the order of pictures is coded (`pic_order_cnt_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Its low bits in each slice header: how many.
    Bits(u32),
    /// As differences, which are in slice headers only if `coded`.
    Cycle {
        /// Whether they are.
        coded: bool,
    },
    /// It is that of decoding.
    Decoding,
}

const NOT_SUPPORTED: &str = "ffmpeg can decode it (--decoder ffmpeg)";

/// The error for what this decoder does not know.
pub fn unsupported(what: &str) -> MediaError {
    MediaError::Unsupported(format!("H.264 {what} is not supported; {NOT_SUPPORTED}"))
}

impl Sps {
    /// Reads a payload.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut r = Bits::new(payload);
        let profile = r.bits(8)?;
        r.skip(16)?;
        let id = at_most(r.ue()?, 31)?;
        let (mut chroma, mut depth, mut chroma_depth, mut lossless) = (1, 8, 8, false);
        if matches!(profile, 100 | 110 | 122 | 244 | 44 | 83 | 86 | 118 | 128 | 138 | 139 | 134 | 135) {
            chroma = at_most(r.ue()?, 3)?;
            if chroma == 3 {
                r.bit()?;
            }
            depth = at_most(r.ue()?, 6)? + 8;
            chroma_depth = at_most(r.ue()?, 6)? + 8;
            lossless = r.bit()?;
            if r.bit()? {
                scaling(&mut r, if chroma == 3 { 12 } else { 8 })?;
            }
        }
        let frame_num_bits = at_most(r.ue()?, 12)? + 4;
        let order = match r.ue()? {
            0 => Order::Bits(at_most(r.ue()?, 12)? + 4),
            1 => {
                let coded = !r.bit()?;
                r.se()?;
                r.se()?;
                for _ in 0..at_most(r.ue()?, 255)? {
                    r.se()?;
                }
                Order::Cycle { coded }
            }
            2 => Order::Decoding,
            _ => return None,
        };
        let references = at_most(r.ue()?, 16)?;
        let gaps = r.bit()?;
        let mb_width = at_most(r.ue()?, 1023)? + 1;
        let units = at_most(r.ue()?, 1023)? + 1;
        let frames_only = r.bit()?;
        let mbaff = !frames_only && r.bit()?;
        let direct_8x8 = r.bit()?;
        let tall = if frames_only { 1 } else { 2 };
        let mb_height = at_most(units * tall, 1024)?;
        let (mut width, mut height) = (mb_width * 16, mb_height * 16);
        if r.bit()? {
            let step_x = if matches!(chroma, 1 | 2) { 2 } else { 1 };
            let step_y = if chroma == 1 { 2 * tall } else { tall };
            let x = r.ue()?.checked_add(r.ue()?)?.checked_mul(step_x)?;
            let y = r.ue()?.checked_add(r.ue()?)?.checked_mul(step_y)?;
            width = width.checked_sub(x)?;
            height = height.checked_sub(y)?;
        }
        let colour = if r.bit()? { colour(&mut r)? } else { ColourHint::default() };
        Some(Self {
            id,
            chroma,
            depth,
            chroma_depth,
            lossless,
            frame_num_bits,
            order,
            references,
            gaps,
            mb_width,
            mb_height,
            frames_only,
            mbaff,
            direct_8x8,
            width,
            height,
            colour,
        })
    }

    /// Refuses what is too large or not supported.
    pub fn check(&self, limits: &Limits) -> Result<(), MediaError> {
        // What is cropped away costs as much as what is shown.
        limits.check_size(u64::from(self.mb_width) * 16, u64::from(self.mb_height) * 16)?;
        limits.check_size(self.width.into(), self.height.into())?;
        if self.chroma == 3 {
            return Err(unsupported("with 4:4:4 chroma"));
        }
        if self.lossless {
            return Err(unsupported("with lossless coding"));
        }
        if !matches!(self.depth, 8 | 10) || (self.chroma != 0 && self.chroma_depth != self.depth) {
            return Err(unsupported(&format!("with {} bits for luma, {} for chroma", self.depth, self.chroma_depth)));
        }
        Ok(())
    }

    /// How chroma planes relate to the luma plane.
    pub fn layout(&self) -> Layout {
        match self.chroma {
            0 => Layout::Gray,
            1 => Layout::Yuv420,
            2 => Layout::Yuv422,
            _ => Layout::Yuv444,
        }
    }
}

/// A picture parameter set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pps {
    /// Its number, 0 to 255.
    pub id: u32,
    /// The number of its sequence parameter set.
    pub sps: u32,
    /// Whether slices are coded with CABAC, and not CAVLC.
    pub cabac: bool,
    /// Whether frames code the order of their second field.
    pub bottom_order: bool,
    /// Whether there is more than one slice group.
    pub slice_groups: bool,
    /// How many references a slice has that does not say, for both lists.
    pub active: [u32; 2],
    /// Whether P slices have weights.
    pub weighted: bool,
    /// Whether B slices have weights: 0 no, 1 in their headers, 2 by distance.
    pub weighted_b: u32,
    /// The quantizer that slices start from.
    pub qp: i32,
    /// Whether slices have the deblocking filter's settings.
    pub deblocking: bool,
    /// Whether intra macroblocks are predicted from intra macroblocks only.
    pub constrained_intra: bool,
    /// Whether there can be redundant slices.
    pub redundant: bool,
    /// Whether macroblocks can use the 8×8 transform.
    pub transform_8x8: bool,
}

impl Pps {
    /// Reads a payload.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut r = Bits::new(payload);
        let id = at_most(r.ue()?, 255)?;
        let sps = at_most(r.ue()?, 31)?;
        let cabac = r.bit()?;
        let bottom_order = r.bit()?;
        let slice_groups = at_most(r.ue()?, 7)? > 0;
        let mut set = Self {
            id,
            sps,
            cabac,
            bottom_order,
            slice_groups,
            active: [1, 1],
            weighted: false,
            weighted_b: 0,
            qp: 26,
            deblocking: false,
            constrained_intra: false,
            redundant: false,
            transform_8x8: false,
        };
        if slice_groups {
            // Nothing else matters: it is not supported.
            return Some(set);
        }
        set.active = [at_most(r.ue()?, 31)? + 1, at_most(r.ue()?, 31)? + 1];
        set.weighted = r.bit()?;
        set.weighted_b = at_most(r.bits(2)?, 2)?;
        let qp = r.se()?;
        let qs = r.se()?;
        let chroma_qp = r.se()?;
        if !(-62..=25).contains(&qp) || !(-26..=25).contains(&qs) || !(-12..=12).contains(&chroma_qp) {
            return None;
        }
        set.qp = 26 + qp;
        set.deblocking = r.bit()?;
        set.constrained_intra = r.bit()?;
        set.redundant = r.bit()?;
        if r.more() {
            set.transform_8x8 = r.bit()?;
            if r.bit()? {
                // The number of lists is one for 4:2:0; 4:4:4 has more and is not supported.
                scaling(&mut r, if set.transform_8x8 { 8 } else { 6 })?;
            }
            if !(-12..=12).contains(&r.se()?) {
                return None;
            }
        }
        Some(set)
    }
}

/// The value, if it is not over its limit.
fn at_most(value: u32, limit: u32) -> Option<u32> {
    (value <= limit).then_some(value)
}

/// Reads over scaling lists.
fn scaling(r: &mut Bits<'_>, lists: u32) -> Option<()> {
    for list in 0..lists {
        if !r.bit()? {
            continue;
        }
        let (mut last, mut next) = (8, 8);
        for _ in 0..if list < 6 { 16 } else { 64 } {
            if next != 0 {
                let delta = r.se()?;
                if !(-128..=127).contains(&delta) {
                    return None;
                }
                next = (last + delta + 256) % 256;
            }
            if next != 0 {
                last = next;
            }
        }
    }
    Some(())
}

/// Reads the colour from the beginning of the usability information.
fn colour(r: &mut Bits<'_>) -> Option<ColourHint> {
    let mut hint = ColourHint::default();
    if r.bit()? && r.bits(8)? == 255 {
        r.skip(32)?;
    }
    if r.bit()? {
        r.skip(1)?;
    }
    if r.bit()? {
        r.skip(3)?;
        hint.full_range = Some(r.bit()?);
        if r.bit()? {
            r.skip(16)?;
            hint.matrix = Some(r.bits(8)? as u8);
        }
    }
    Some(hint)
}
