//! The whole header of a slice (ITU-T H.265, 7.3.6).
//!
//! Invariant: a header that is read ends at the byte where the slice's data begins, and its values are such as the
//! standard allows.

use super::super::super::bits::Bits;
use super::super::nal::Nal;
use super::super::order::{Sets, far, log2_up};
use super::super::sets::{Coding, Pps, RefSet, Slices, Sps};
use super::unit::Slice;

/// A slice segment's header.
#[derive(Debug)]
pub(super) struct Header {
    /// Whether it goes on with the slice before it.
    pub dependent: bool,
    /// The first block, in raster order.
    pub address: u32,
    /// What a slice says of itself, or, if dependent, the one before it.
    pub own: Own,
    /// The sizes of all parts of the data but the last.
    pub parts: Vec<u32>,
    /// The byte at which the data begins.
    pub data: usize,
}

/// The part of a header that dependent slices do not have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    pub slice: Slice,
    pub offsets: [bool; 2],
    /// Which start its contexts have, and the quantizer they start with.
    pub contexts: usize,
    pub qp: i32,
}

/// The parameter sets of a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    pub sps: &'a Sps,
    pub pps: &'a Pps,
    pub coding: &'a Coding,
    pub slices: &'a Slices,
}

impl<'a> Known<'a> {
    /// The sets of a slice. `None` if they are missing, or have tools that are not known here.
    pub(super) fn of(sets: &'a Sets, nal: &Nal<'_>, bits: &mut Bits<'_>) -> Option<Self> {
        let (pps, sps) = sets.begin(nal, bits)?;
        let known = matches!(sps.chroma, 1 | 3) && !sps.separate_planes && sps.depth == sps.chroma_depth;
        if !known || sps.depth > 12 {
            return None;
        }
        let slices = pps.slices.as_ref().filter(|slices| !slices.unknown_tools)?;
        Some(Self { sps, pps, coding: sps.coding.as_ref()?, slices })
    }

    /// Reads a header from behind the number of its parameter set on. `before` is the last slice that was not dependent.
    pub(super) fn header(self, nal: &Nal<'_>, bits: &mut Bits<'_>, before: Option<Own>) -> Option<Header> {
        let first = nal.bytes.get(2)? & 0x80 != 0;
        let (mut dependent, mut address) = (false, 0);
        if !first {
            dependent = self.pps.dependent_slices && bits.bit()?;
            address = bits.bits(log2_up(self.sps.blocks)).filter(|&address| u64::from(address) < self.sps.blocks)?;
        }
        let own = if dependent { before? } else { self.own(nal, bits)? };
        let mut parts = Vec::new();
        if self.slices.tiles.is_some() || self.slices.wavefront {
            let count = bits.ue().filter(|&count| u64::from(count) < self.sps.blocks)?;
            if count > 0 {
                let size = bits.ue().filter(|&size| size < 32)? + 1;
                for _ in 0..count {
                    parts.push(bits.bits(size)?.checked_add(1)?);
                }
            }
        }
        if self.slices.more_header {
            let size = bits.ue().filter(|&size| size <= 256)?;
            bits.skip(size as usize * 8)?;
        }
        // One bit that is set, then zeros up to a whole byte.
        let zeros = 7 - bits.position() as u32 % 8;
        (bits.bits(zeros + 1)? == 1 << zeros).then_some(())?;
        Some(Header { dependent, address, own, parts, data: bits.position() / 8 })
    }

    fn own(self, nal: &Nal<'_>, bits: &mut Bits<'_>) -> Option<Own> {
        let Self { sps, pps, coding, slices } = self;
        bits.skip(pps.extra_bits as usize)?;
        // B, P or I.
        let kind = bits.ue().filter(|&kind| kind < 3)?;
        let (two, one) = (kind == 0, kind == 1);
        if nal.is_start() && kind != 2 {
            return None;
        }
        bits.skip(usize::from(pps.output_flag))?;
        let (mut pictures, mut temporal_motion) = (0, false);
        if !nal.is_idr() {
            pictures = self.pictures(bits)?;
            temporal_motion = coding.temporal_motion && bits.bit()?;
        }
        let offsets = if coding.offsets { [bits.bit()?, bits.bit()?] } else { [false; 2] };
        let mut slice = Slice::default();
        let mut other_contexts = false;
        if one || two {
            slice.lists = slices.list_sizes;
            if bits.bit()? {
                let mut size = || bits.ue().filter(|&size| size < 16).map(|size| size + 1);
                slice.lists = [size()?, if two { size()? } else { 0 }];
            }
            if one {
                slice.lists[1] = 0;
            }
            if slices.list_changes && pictures > 1 {
                for &count in slice.lists.iter().filter(|&&count| count > 0) {
                    if bits.bit()? {
                        for _ in 0..count {
                            bits.bits(log2_up(pictures)).filter(|&place| u64::from(place) < pictures)?;
                        }
                    }
                }
            }
            slice.zero_difference = two && bits.bit()?;
            other_contexts = slices.context_choice && bits.bit()?;
            if temporal_motion {
                let list = usize::from(two && !bits.bit()?);
                if slice.lists[list] > 1 {
                    bits.ue().filter(|&place| place < slice.lists[list])?;
                }
            }
            if slices.weights && one || slices.weights_two && two {
                weights(bits, slice.lists)?;
            }
            slice.merges = 5u32.checked_sub(bits.ue()?).filter(|&merges| merges > 0)?;
        }
        let qp = slices.qp.checked_add(bits.se()?)?;
        if !(-6 * (sps.depth as i32 - 8)..=51).contains(&qp) {
            return None;
        }
        if slices.chroma_qp {
            for _ in 0..2 {
                bits.se().filter(|offset| (-12..=12).contains(offset))?;
            }
        }
        let mut filter_off = slices.filter_off;
        if slices.filter_choice && bits.bit()? {
            filter_off = bits.bit()?;
            if !filter_off {
                for _ in 0..2 {
                    bits.se().filter(|offset| (-6..=6).contains(offset))?;
                }
            }
        }
        if slices.filter_across && (offsets != [false; 2] || !filter_off) {
            bits.skip(1)?;
        }
        let contexts = match (one, two) {
            (true, _) => 1 + usize::from(other_contexts),
            (_, true) => 2 - usize::from(other_contexts),
            _ => 0,
        };
        Some(Own { slice, offsets, contexts, qp })
    }

    /// The reference pictures: how many this picture itself can refer to.
    fn pictures(self, bits: &mut Bits<'_>) -> Option<u64> {
        let sps = self.sps;
        let order_low = bits.bits(sps.order_bits)? as i32;
        let own;
        let near = if bits.bit()? {
            let place = bits.bits(log2_up(sps.ref_sets.len() as u64))?;
            sps.ref_sets.get(place as usize)?
        } else {
            own = RefSet::read(bits, &sps.ref_sets, true)?;
            &own
        };
        let mut count = near.before.iter().chain(&near.after).filter(|entry| entry.1).count();
        if let Some(known) = &sps.long_term {
            count += far(bits, sps, known, order_low)?.iter().filter(|entry| entry.2).count();
        }
        Some(count as u64)
    }
}

/// `pred_weight_table`.
fn weights(bits: &mut Bits<'_>, lists: [u32; 2]) -> Option<()> {
    bits.ue().filter(|&shift| shift < 8)?;
    bits.se().filter(|shift| (-7..=7).contains(shift))?;
    for count in lists.into_iter().filter(|&count| count > 0) {
        let mut flags = || (0..count).map(|_| bits.bit()).collect::<Option<Vec<bool>>>();
        let (luma, chroma) = (flags()?, flags()?);
        for (luma, chroma) in luma.into_iter().zip(chroma) {
            for _ in 0..if luma { 2 } else { 0 } + if chroma { 4 } else { 0 } {
                bits.se()?;
            }
        }
    }
    Some(())
}
