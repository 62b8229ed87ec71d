//! Slice headers.
//!
//! Invariant: a header that was read has every number in the range of the standard.

use super::nal::Nal;
use super::params::{Order, Pps, Sps, unsupported};
use super::sets::Sets;
use crate::media::MediaError;
use crate::media::codec::bits::Bits;

/// What a slice is predicted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prediction {
    /// Its own picture only.
    I,
    /// One picture for each part.
    P,
    /// Up to two.
    B,
}

/// Which lines of a frame a picture has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// All.
    Frame,
    /// The even ones.
    Top,
    /// The odd ones.
    Bottom,
}

/// A slice header, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The number of its first macroblock (of its first pair, in a frame with fields).
    pub first: u32,
    /// What it is predicted from.
    pub prediction: Prediction,
    /// What makes slices of one picture.
    pub picture: PictureId,
    /// How many references it has, for both lists.
    pub active: [u32; 2],
    /// Whether direct macroblocks are predicted in space, not time.
    pub direct_spatial: bool,
    /// Which of the three sets of CABAC contexts it starts with.
    pub cabac_init: u32,
    /// Its quantizer.
    pub qp: i32,
    /// How its picture changes what is kept for reference; only of reference pictures that are not IDR.
    pub marking: Vec<Marking>,
    /// Where its data begins, in bits.
    pub data: usize,
}

/// What is the same in all slices of a picture, and not in those of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureId {
    /// `frame_num`.
    pub frame_num: u32,
    /// Its picture parameter set. Slices of a picture may have different ones; their sequence parameter set is one.
    pub sps: u32,
    /// Its lines.
    pub lines: Lines,
    /// Whether other pictures may need it.
    pub reference: bool,
    /// The number of an IDR picture.
    pub idr: Option<u32>,
    /// What it says of its order.
    pub order: [i64; 2],
}

/// A memory management control operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marking {
    /// 1 to 6.
    pub operation: u32,
    /// Its numbers.
    pub numbers: [u32; 2],
}

/// Why a header is not there.
pub enum HeaderError {
    /// It is damaged.
    Damaged(&'static str),
    /// It is of a kind that is not supported.
    Stop(MediaError),
}

impl Header {
    /// Reads the header of a slice with its parameter sets.
    pub fn parse<'s>(nal: &Nal<'_>, payload: &[u8], sets: &'s Sets) -> Result<(Self, &'s Sps, &'s Pps), HeaderError> {
        let mut peek = Bits::new(payload);
        let cut = || HeaderError::Damaged("a slice header is cut off");
        peek.ue().ok_or_else(cut)?;
        peek.ue().ok_or_else(cut)?;
        let pps = peek.ue().and_then(|id| sets.pps(id));
        let pps = pps.ok_or(HeaderError::Damaged("a slice refers to a picture parameter set that is not there"))?;
        let sps = sets.sps(pps.sps);
        let sps = sps.ok_or(HeaderError::Damaged("a slice refers to a sequence parameter set that is not there"))?;
        if pps.slice_groups {
            return Err(HeaderError::Stop(unsupported("with slice groups")));
        }
        if pps.redundant {
            return Err(HeaderError::Stop(unsupported("with redundant slices")));
        }
        let idr = matches!(nal.kind, super::nal::Type::Slice { idr: true });
        match read(nal.reference != 0, idr, &mut Bits::new(payload), sps, pps) {
            Some(Some(header)) => Ok((header, sps, pps)),
            Some(None) => Err(HeaderError::Stop(unsupported("with switching slices"))),
            None => Err(HeaderError::Damaged("a slice header is damaged")),
        }
    }

    /// Whether the slice is in a frame whose macroblock pairs can be fields.
    pub fn mbaff(&self, sps: &Sps) -> bool {
        sps.mbaff && self.picture.lines == Lines::Frame
    }

    /// How many macroblocks its picture has.
    pub fn macroblocks(&self, sps: &Sps) -> u32 {
        let whole = sps.mb_width * sps.mb_height;
        if self.picture.lines == Lines::Frame { whole } else { whole / 2 }
    }
}

/// Reads a header; the inner `None` is a slice type of the Extended profile.
fn read(reference: bool, idr: bool, r: &mut Bits<'_>, sps: &Sps, pps: &Pps) -> Option<Option<Header>> {
    let first = r.ue()?;
    let prediction = match r.ue()? {
        0 | 5 => Prediction::P,
        1 | 6 => Prediction::B,
        2 | 7 => Prediction::I,
        3 | 4 | 8 | 9 => return Some(None),
        _ => return None,
    };
    r.ue()?;
    let frame_num = r.bits(sps.frame_num_bits)?;
    let lines = match (sps.frames_only || !r.bit()?).then_some(()) {
        Some(()) => Lines::Frame,
        None if r.bit()? => Lines::Bottom,
        None => Lines::Top,
    };
    let id = match idr {
        // An IDR picture is a reference, starts the numbers anew, and needs nothing.
        true if !reference || frame_num != 0 || (prediction != Prediction::I && lines == Lines::Frame) => return None,
        true => Some(r.ue().filter(|&id| id <= 65535)?),
        false => None,
    };
    let two = pps.bottom_order && lines == Lines::Frame;
    let order = match sps.order {
        Order::Bits(bits) => [r.bits(bits)?.into(), if two { r.se()?.into() } else { 0 }],
        Order::Cycle { coded: true } => [r.se()?.into(), if two { r.se()?.into() } else { 0 }],
        Order::Cycle { coded: false } | Order::Decoding => [0, 0],
    };
    let direct_spatial = prediction == Prediction::B && r.bit()?;
    let mut active = match prediction {
        Prediction::I => [0, 0],
        Prediction::P => [pps.active[0], 0],
        Prediction::B => pps.active,
    };
    let lists = match prediction {
        Prediction::I => 0,
        Prediction::P => 1,
        Prediction::B => 2,
    };
    if lists > 0 && r.bit()? {
        for count in active.iter_mut().take(lists) {
            *count = r.ue()?.checked_add(1)?;
        }
    }
    let most = if lines == Lines::Frame { 16 } else { 32 };
    if active.iter().any(|&count| count > most) {
        return None;
    }
    for &count in active.iter().take(lists) {
        if r.bit()? {
            modification(r, count, sps, lines)?;
        }
    }
    let explicit = match prediction {
        Prediction::I => false,
        Prediction::P => pps.weighted,
        Prediction::B => pps.weighted_b == 1,
    };
    if explicit {
        weights(r, sps, active.iter().take(lists))?;
    }
    let mut marking = Vec::new();
    if idr {
        r.skip(2)?;
    } else if reference && r.bit()? {
        marks(r, &mut marking)?;
    }
    let cabac_init = if pps.cabac && lists > 0 { r.ue().filter(|&set| set <= 2)? } else { 0 };
    let qp = pps.qp.checked_add(r.se()?)?;
    if !(-6 * (sps.depth as i32 - 8)..=51).contains(&qp) {
        return None;
    }
    if pps.deblocking {
        let mode = r.ue()?;
        if mode > 2 || (mode != 1 && !((-6..=6).contains(&r.se()?) && (-6..=6).contains(&r.se()?))) {
            return None;
        }
    }
    let picture = PictureId { frame_num, sps: sps.id, lines, reference, idr: id, order };
    let data = r.position();
    Some(Some(Header { first, prediction, picture, active, direct_spatial, cabac_init, qp, marking, data }))
}

/// Reads over changes to a reference list.
fn modification(r: &mut Bits<'_>, active: u32, sps: &Sps, lines: Lines) -> Option<()> {
    let numbers = 1u32 << (sps.frame_num_bits + u32::from(lines != Lines::Frame));
    // Each command but the last gives one entry of the list.
    for _ in 0..=active {
        match r.ue()? {
            0 | 1 => {
                if r.ue()? >= numbers {
                    return None;
                }
            }
            2 => {
                if r.ue()? > 31 {
                    return None;
                }
            }
            3 => return Some(()),
            _ => return None,
        }
    }
    None
}

/// Reads over weights.
fn weights<'c>(r: &mut Bits<'_>, sps: &Sps, active: impl Iterator<Item = &'c u32>) -> Option<()> {
    let range = -128..=127;
    let chroma = sps.chroma != 0;
    if r.ue()? > 7 || (chroma && r.ue()? > 7) {
        return None;
    }
    for &count in active {
        for _ in 0..count {
            let luma = if r.bit()? { 2 } else { 0 };
            for _ in 0..luma {
                range.contains(&r.se()?).then_some(())?;
            }
            let both = if chroma && r.bit()? { 4 } else { 0 };
            for _ in 0..both {
                range.contains(&r.se()?).then_some(())?;
            }
        }
    }
    Some(())
}

/// Reads memory management control operations.
fn marks(r: &mut Bits<'_>, marking: &mut Vec<Marking>) -> Option<()> {
    // Sixteen frames in fields, each to be marked twice, and one of each other kind: no list is longer.
    for _ in 0..70 {
        let operation = r.ue()?;
        let numbers = match operation {
            0 => return Some(()),
            1 | 2 | 4 | 6 => [r.ue()?, 0],
            3 => [r.ue()?, r.ue()?],
            5 => [0, 0],
            _ => return None,
        };
        if numbers.iter().any(|&number| number > 1 << 17) {
            return None;
        }
        marking.push(Marking { operation, numbers });
    }
    None
}

impl PictureId {
    /// Whether the other is this field's second one.
    pub fn pairs_with(&self, other: &Self) -> bool {
        let opposite = matches!((self.lines, other.lines), (Lines::Top, Lines::Bottom) | (Lines::Bottom, Lines::Top));
        // A reference field can be paired with one that is none; only the first can be IDR alone.
        opposite
            && self.frame_num == other.frame_num
            && self.sps == other.sps
            && (other.idr.is_none() || self.idr == other.idr)
    }
}
