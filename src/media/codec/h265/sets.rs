//! Parameter sets, as far as sizes, colours and reference pictures go.
//!
//! Invariant: a set is read whole up to what is needed of it, or it is `None`.

use super::super::bits::Bits;
use crate::media::picture::ColourHint;

/// The pictures that one picture and those after it may need: differences of order counts.
#[derive(Debug, Clone, Default)]
pub(super) struct RefSet {
    /// Before it, nearest first, and whether this picture needs them.
    pub before: Vec<(i32, bool)>,
    /// After it, nearest first.
    pub after: Vec<(i32, bool)>,
}

/// A sequence parameter set.
#[derive(Debug, Clone)]
pub(super) struct Sps {
    pub id: u32,
    pub sub_layers: u8,
    pub chroma: u32,
    pub separate_planes: bool,
    pub width: u32,
    pub height: u32,
    pub depth: u32,
    pub chroma_depth: u32,
    pub order_bits: u32,
    /// The size of a block (a coding tree block), as a power of two, and how many a picture has.
    pub block_bits: u32,
    pub blocks: u64,
    /// Whether the picture is shown from its first row and column on.
    pub uncut: bool,
    pub ref_sets: Vec<RefSet>,
    pub long_term: Option<Vec<(u32, bool)>>,
    pub colour: ColourHint,
}

/// A picture parameter set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pps {
    pub id: u32,
    pub sps: u32,
    pub dependent_slices: bool,
    pub output_flag: bool,
    pub extra_bits: u32,
}

impl Pps {
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let mut bits = Bits::new(payload);
        Some(Self {
            id: bits.ue().filter(|&id| id < 64)?,
            sps: bits.ue().filter(|&id| id < 16)?,
            dependent_slices: bits.bit()?,
            output_flag: bits.bit()?,
            extra_bits: bits.bits(3)?,
        })
    }
}

impl Sps {
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let bits = &mut Bits::new(payload);
        bits.skip(4)?;
        let sub_layers = bits.bits(3).filter(|&layers| layers < 7)? as u8;
        bits.skip(1)?;
        profile(bits, sub_layers)?;
        let id = bits.ue().filter(|&id| id < 16)?;
        let chroma = bits.ue().filter(|&chroma| chroma < 4)?;
        let separate_planes = chroma == 3 && bits.bit()?;
        let (width, height) = (bits.ue()?, bits.ue()?);
        let mut uncut = true;
        if bits.bit()? {
            let (left, _right, top, _bottom) = (bits.ue()?, bits.ue()?, bits.ue()?, bits.ue()?);
            uncut = left == 0 && top == 0;
        }
        let depth = bits.ue().filter(|&more| more <= 8)? + 8;
        let chroma_depth = bits.ue().filter(|&more| more <= 8)? + 8;
        let order_bits = bits.ue().filter(|&more| more <= 12)? + 4;
        let all_layers = bits.bit()?;
        for _ in if all_layers { 0 } else { sub_layers }..=sub_layers {
            for _ in 0..3 {
                bits.ue()?;
            }
        }
        let block = bits.ue().filter(|&log| log <= 3)? + 3;
        let block = block + bits.ue().filter(|&more| more <= 3)?;
        for _ in 0..4 {
            bits.ue()?;
        }
        if bits.bit()? && bits.bit()? {
            scaling_lists(bits)?;
        }
        bits.skip(2)?;
        if bits.bit()? {
            bits.skip(8)?;
            bits.ue()?;
            bits.ue()?;
            bits.skip(1)?;
        }
        let count = bits.ue().filter(|&count| count <= 64)?;
        let mut ref_sets = Vec::new();
        for _ in 0..count {
            ref_sets.push(RefSet::read(bits, &ref_sets, false)?);
        }
        let mut long_term = None;
        if bits.bit()? {
            let count = bits.ue().filter(|&count| count <= 32)?;
            let entry = |_| Some((bits.bits(order_bits)?, bits.bit()?));
            long_term = Some((0..count).map(entry).collect::<Option<Vec<_>>>()?);
        }
        bits.skip(2)?;
        let colour = if bits.bit()? { colour(bits)? } else { ColourHint::default() };
        let blocks = |size: u32| u64::from(size).div_ceil(1 << block);
        Some(Self {
            id,
            sub_layers,
            chroma,
            separate_planes,
            width,
            height,
            depth,
            chroma_depth,
            order_bits,
            block_bits: block,
            blocks: blocks(width) * blocks(height),
            uncut,
            ref_sets,
            long_term,
            colour,
        })
    }
}

/// `profile_tier_level`.
fn profile(bits: &mut Bits<'_>, sub_layers: u8) -> Option<()> {
    bits.skip(96)?;
    let present = (0..sub_layers).map(|_| Some((bits.bit()?, bits.bit()?))).collect::<Option<Vec<(bool, bool)>>>()?;
    if sub_layers > 0 {
        bits.skip(2 * (8 - usize::from(sub_layers)))?;
    }
    for (profile, level) in present {
        bits.skip(if profile { 88 } else { 0 } + if level { 8 } else { 0 })?;
    }
    Some(())
}

/// `scaling_list_data`.
fn scaling_lists(bits: &mut Bits<'_>) -> Option<()> {
    for size in 0..4 {
        for _ in (0..6).step_by(if size == 3 { 3 } else { 1 }) {
            if !bits.bit()? {
                bits.ue()?;
                continue;
            }
            let count = if size == 0 { 16 } else { 64 };
            for _ in 0..count + usize::from(size > 1) {
                bits.se()?;
            }
        }
    }
    Some(())
}

/// The colour that a VUI begins with.
fn colour(bits: &mut Bits<'_>) -> Option<ColourHint> {
    if bits.bit()? && bits.bits(8)? == 255 {
        bits.skip(32)?;
    }
    if bits.bit()? {
        bits.skip(1)?;
    }
    let mut hint = ColourHint::default();
    if bits.bit()? {
        bits.skip(3)?;
        hint.full_range = Some(bits.bit()?);
        if bits.bit()? {
            bits.skip(16)?;
            hint.matrix = Some(bits.bits(8)? as u8);
        }
    }
    Some(hint)
}

impl RefSet {
    /// `st_ref_pic_set`. `sets` are those of the SPS so far; `in_slice` if it is a slice header's own.
    pub(super) fn read(bits: &mut Bits<'_>, sets: &[Self], in_slice: bool) -> Option<Self> {
        if !sets.is_empty() && bits.bit()? {
            return Self::read_predicted(bits, sets, in_slice);
        }
        let (before, after) = (bits.ue()?, bits.ue()?);
        if before > 16 || after > 16 {
            return None;
        }
        let mut list = |count: u32, sign: i32| {
            let mut delta = 0i32;
            let entry = |_| {
                delta = delta.checked_add(i32::try_from(bits.ue()?).ok()?.checked_add(1)?)?;
                Some((sign * delta, bits.bit()?))
            };
            (0..count).map(entry).collect::<Option<Vec<_>>>()
        };
        Some(Self { before: list(before, -1)?, after: list(after, 1)? })
    }

    /// A set that is another one moved by some pictures, with some of its entries left out.
    fn read_predicted(bits: &mut Bits<'_>, sets: &[Self], in_slice: bool) -> Option<Self> {
        let back = if in_slice { usize::try_from(bits.ue()?).ok()?.checked_add(1)? } else { 1 };
        let base = sets.get(sets.len().checked_sub(back)?)?;
        let negative = bits.bit()?;
        let moved = i32::try_from(bits.ue()?).ok().filter(|&moved| moved < 1 << 15)? + 1;
        let moved = if negative { -moved } else { moved };
        let count = base.before.len() + base.after.len() + 1;
        let mut flags = Vec::with_capacity(count);
        for _ in 0..count {
            let used = bits.bit()?;
            flags.push((used, used || bits.bit()?));
        }
        // The base's entries with their flags, the base picture itself being the last one.
        let base: Vec<i32> = base.before.iter().chain(&base.after).map(|entry| entry.0).chain([0]).collect();
        let mut entries = Vec::new();
        for (delta, (used, kept)) in base.into_iter().zip(flags) {
            let delta = delta.checked_add(moved)?;
            if kept && delta != 0 {
                entries.push((delta, used));
            }
        }
        entries.sort_by_key(|entry| entry.0.unsigned_abs());
        let (before, after): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.0 < 0);
        (before.len() <= 16 && after.len() <= 16).then_some(Self { before, after })
    }
}
