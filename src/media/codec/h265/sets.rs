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
    /// How blocks are coded; `None` if with tools that are not known here.
    pub coding: Option<Coding>,
}

/// What a sequence parameter set says of how blocks are coded. Sizes are powers of two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coding {
    /// The smallest coding block.
    pub least_unit: u32,
    /// The smallest and the largest transform block.
    pub least_transform: u32,
    pub most_transform: u32,
    /// How often transform blocks may be split in inter and in intra units.
    pub inter_depth: u32,
    pub intra_depth: u32,
    /// Whether units may be cut at a quarter.
    pub quarters: bool,
    /// Whether there are sample adaptive offsets.
    pub offsets: bool,
    /// Raw samples.
    pub raw: Option<Raw>,
    /// Whether motion may be taken from other pictures.
    pub temporal_motion: bool,
}

/// Units of raw samples: the bits of luma and of chroma samples, and the sizes of such units.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw {
    pub depth: u32,
    pub chroma_depth: u32,
    pub least: u32,
    pub most: u32,
}

/// A picture parameter set.
#[derive(Debug, Clone)]
pub(super) struct Pps {
    pub id: u32,
    pub sps: u32,
    pub dependent_slices: bool,
    pub output_flag: bool,
    pub extra_bits: u32,
    /// What slices are like; `None` if that cannot be read.
    pub slices: Option<Slices>,
}

/// What a picture parameter set says of slices.
#[derive(Debug, Clone)]
pub(super) struct Slices {
    pub sign_hiding: bool,
    pub context_choice: bool,
    /// How many pictures the two lists have if a slice does not say.
    pub list_sizes: [u32; 2],
    pub qp: i32,
    pub transform_skip: bool,
    /// How much smaller than the largest block a block with its own quantizer can be, as a power of two.
    pub qp_depth: Option<u32>,
    pub chroma_qp: bool,
    pub weights: bool,
    pub weights_two: bool,
    pub lossless_units: bool,
    pub tiles: Option<Tiles>,
    pub wavefront: bool,
    pub filter_across: bool,
    pub filter_choice: bool,
    pub filter_off: bool,
    pub list_changes: bool,
    pub more_header: bool,
    /// Whether there are tools that are not known here.
    pub unknown_tools: bool,
}

/// How a picture is cut into tiles.
#[derive(Debug, Clone)]
pub(super) enum Tiles {
    /// So many columns and rows of about the same size.
    Even(u32, u32),
    /// The sizes of all columns and all rows but the last, in blocks.
    Sizes(Vec<u32>, Vec<u32>),
}

impl Pps {
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let bits = &mut Bits::new(payload);
        Some(Self {
            id: bits.ue().filter(|&id| id < 64)?,
            sps: bits.ue().filter(|&id| id < 16)?,
            dependent_slices: bits.bit()?,
            output_flag: bits.bit()?,
            extra_bits: bits.bits(3)?,
            slices: Slices::read(bits),
        })
    }
}

impl Slices {
    fn read(bits: &mut Bits<'_>) -> Option<Self> {
        let sign_hiding = bits.bit()?;
        let context_choice = bits.bit()?;
        let mut size = || bits.ue().filter(|&size| size < 15).map(|size| size + 1);
        let list_sizes = [size()?, size()?];
        let qp = 26 + bits.se().filter(|qp| (-62..=25).contains(qp))?;
        bits.skip(1)?;
        let transform_skip = bits.bit()?;
        let qp_depth = if bits.bit()? { Some(bits.ue().filter(|&depth| depth < 4)?) } else { None };
        bits.se()?;
        bits.se()?;
        let chroma_qp = bits.bit()?;
        let (weights, weights_two) = (bits.bit()?, bits.bit()?);
        let lossless_units = bits.bit()?;
        let (has_tiles, wavefront) = (bits.bit()?, bits.bit()?);
        let tiles = if has_tiles { Some(Tiles::read(bits)?) } else { None };
        let filter_across = bits.bit()?;
        let (mut filter_choice, mut filter_off) = (false, false);
        if bits.bit()? {
            (filter_choice, filter_off) = (bits.bit()?, bits.bit()?);
            if !filter_off {
                bits.se()?;
                bits.se()?;
            }
        }
        if bits.bit()? {
            scaling_lists(bits)?;
        }
        let list_changes = bits.bit()?;
        bits.ue()?;
        let more_header = bits.bit()?;
        let unknown_tools = bits.bit()? && {
            let (range, others) = (bits.bit()?, bits.bits(7)?);
            // Larger blocks without transform, prediction across components, lists of chroma quantizers, offset scales.
            let mut in_range = || {
                Some(
                    transform_skip && bits.ue()? != 0
                        || bits.bit()?
                        || bits.bit()?
                        || bits.ue()? != 0
                        || bits.ue()? != 0,
                )
            };
            others != 0 || range && in_range().unwrap_or(true)
        };
        Some(Self {
            sign_hiding,
            context_choice,
            list_sizes,
            qp,
            transform_skip,
            qp_depth,
            chroma_qp,
            weights,
            weights_two,
            lossless_units,
            tiles,
            wavefront,
            filter_across,
            filter_choice,
            filter_off,
            list_changes,
            more_header,
            unknown_tools,
        })
    }
}

impl Tiles {
    fn read(bits: &mut Bits<'_>) -> Option<Self> {
        // More than a level allows, less than what takes long.
        let mut count = || bits.ue().filter(|&count| count < 64);
        let (columns, rows) = (count()?, count()?);
        let tiles = if bits.bit()? {
            Self::Even(columns + 1, rows + 1)
        } else {
            let mut sizes = |count: u32| (0..count).map(|_| bits.ue()?.checked_add(1)).collect::<Option<Vec<u32>>>();
            Self::Sizes(sizes(columns)?, sizes(rows)?)
        };
        bits.skip(1)?;
        Some(tiles)
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
        let least_unit = bits.ue().filter(|&log| log <= 3)? + 3;
        let block = least_unit + bits.ue().filter(|&more| more <= 3)?;
        let least_transform = bits.ue()?.checked_add(2)?;
        let most_transform = bits.ue()?.checked_add(least_transform)?;
        let (inter_depth, intra_depth) = (bits.ue()?, bits.ue()?);
        if bits.bit()? && bits.bit()? {
            scaling_lists(bits)?;
        }
        let (quarters, offsets) = (bits.bit()?, bits.bit()?);
        let mut raw = None;
        if bits.bit()? {
            let (depth, chroma_depth) = (bits.bits(4)? + 1, bits.bits(4)? + 1);
            let least = bits.ue()?.checked_add(3)?;
            raw = Some(Raw { depth, chroma_depth, least, most: bits.ue()?.checked_add(least)? });
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
        let temporal_motion = bits.bit()?;
        bits.skip(1)?;
        let usable = bits.bit()?;
        let colour = if usable { colour(bits)? } else { ColourHint::default() };
        let coding = Coding {
            least_unit,
            least_transform,
            most_transform,
            inter_depth,
            intra_depth,
            quarters,
            offsets,
            raw,
            temporal_motion,
        };
        let known = (!usable || rest_of_usability(bits, sub_layers).is_some()) && !has_extensions(bits).unwrap_or(true);
        let fits = coding.fits(block, width, height);
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
            coding: (known && fits).then_some(coding),
        })
    }
}

impl Coding {
    /// Whether the sizes are such as the standard allows for blocks of this size.
    fn fits(&self, block: u32, width: u32, height: u32) -> bool {
        let deepest = block.saturating_sub(self.least_transform);
        (4..=6).contains(&block)
            && self.least_transform < self.least_unit
            && (self.least_transform..=block.min(5)).contains(&self.most_transform)
            && self.inter_depth <= deepest
            && self.intra_depth <= deepest
            && (width | height).trailing_zeros() >= self.least_unit
            && self.raw.is_none_or(|raw| raw.least >= self.least_unit.min(5) && raw.most <= block.min(5))
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

/// What a VUI has behind the colour.
fn rest_of_usability(bits: &mut Bits<'_>, sub_layers: u8) -> Option<()> {
    if bits.bit()? {
        bits.ue()?;
        bits.ue()?;
    }
    bits.skip(3)?;
    if bits.bit()? {
        for _ in 0..4 {
            bits.ue()?;
        }
    }
    if bits.bit()? {
        bits.skip(64)?;
        if bits.bit()? {
            bits.ue()?;
        }
        if bits.bit()? {
            buffer(bits, sub_layers)?;
        }
    }
    if bits.bit()? {
        bits.skip(3)?;
        for _ in 0..5 {
            bits.ue()?;
        }
    }
    Some(())
}

/// `hrd_parameters`.
fn buffer(bits: &mut Bits<'_>, sub_layers: u8) -> Option<()> {
    let (network, video) = (bits.bit()?, bits.bit()?);
    let mut parts = false;
    if network || video {
        parts = bits.bit()?;
        bits.skip(if parts { 19 } else { 0 } + 8)?;
        bits.skip(if parts { 4 } else { 0 } + 15)?;
    }
    for _ in 0..=sub_layers {
        // Fixed rates, and low delay, have a say in what follows.
        let fixed = bits.bit()? || bits.bit()?;
        let mut low_delay = false;
        if fixed {
            bits.ue()?;
        } else {
            low_delay = bits.bit()?;
        }
        let count = if low_delay { 0 } else { bits.ue().filter(|&count| count < 32)? } + 1;
        for _ in 0..count * (u32::from(network) + u32::from(video)) {
            for _ in 0..if parts { 4 } else { 2 } {
                bits.ue()?;
            }
            bits.skip(1)?;
        }
    }
    Some(())
}

/// Whether a sequence has tools of later editions of the standard.
fn has_extensions(bits: &mut Bits<'_>) -> Option<bool> {
    if !bits.bit()? {
        return Some(false);
    }
    let (range, others) = (bits.bit()?, bits.bits(7)?);
    Some(others != 0 || range && bits.bits(9)? != 0)
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
