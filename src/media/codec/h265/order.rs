//! Picture order counts and reference pictures, by headers alone.
//!
//! A decoder that misses a reference picture puts grey in its place and says nothing. This keeps the list of pictures
//! that a decoder must have, so that it can be said.
//!
//! Invariant: for a stream that keeps to the standard, counts are those of the standard and nothing is missing, wherever
//! decoding started.

use std::collections::BTreeMap;

use super::super::bits::Bits;
use super::super::order_count;
use super::nal::{self, Nal};
use super::sets::{Pps, RefSet, Sps};

/// How much of a slice is looked at: no header is longer up to where the reference pictures stand.
const HEADER: usize = 1024;

/// The parameter sets that came so far.
#[derive(Debug, Default)]
pub(super) struct Sets {
    sps: BTreeMap<u32, Sps>,
    pps: BTreeMap<u32, Pps>,
}

/// What the header of a picture's first slice says.
#[derive(Debug)]
pub(super) struct Header<'a> {
    pub sps: &'a Sps,
    /// `pic_output_flag`.
    pub output: bool,
    order_low: i32,
    near: RefSet,
    /// Order counts (the low bits, or all of them) and whether this picture needs it.
    far: Vec<(i32, Option<i32>, bool)>,
}

impl Sets {
    /// Takes a parameter set; what it is not is left alone. `Err` is what is wrong with it.
    pub(super) fn take(&mut self, nal: &Nal<'_>) -> Result<Option<&Sps>, String> {
        match nal.kind {
            nal::SPS => {
                let sps = Sps::read(&nal.payload(usize::MAX)).ok_or("a sequence parameter set cannot be read")?;
                let id = sps.id;
                self.sps.insert(id, sps);
                Ok(self.sps.get(&id))
            }
            nal::PPS => {
                let pps = Pps::read(&nal.payload(usize::MAX)).ok_or("a picture parameter set cannot be read")?;
                self.pps.insert(pps.id, pps);
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The most sub-layers that any parameter set allows, less one.
    pub(super) fn sub_layers(&self) -> Option<u8> {
        self.sps.values().map(|sps| sps.sub_layers).max()
    }

    /// The header of a picture's first slice.
    pub(super) fn header(&self, nal: &Nal<'_>) -> Option<Header<'_>> {
        let payload = nal.payload(HEADER);
        let bits = &mut Bits::new(&payload);
        let (pps, sps) = self.begin(nal, bits)?;
        bits.skip(pps.extra_bits as usize)?;
        bits.ue().filter(|&kind| kind < 3)?;
        let output = !pps.output_flag || bits.bit()?;
        if sps.separate_planes {
            bits.skip(2)?;
        }
        let mut header = Header { sps, output, order_low: 0, near: RefSet::default(), far: Vec::new() };
        if nal.is_idr() {
            return Some(header);
        }
        header.order_low = bits.bits(sps.order_bits)? as i32;
        header.near = if bits.bit()? {
            let place = bits.bits(log2_up(sps.ref_sets.len() as u64))?;
            sps.ref_sets.get(place as usize)?.clone()
        } else {
            RefSet::read(bits, &sps.ref_sets, true)?
        };
        if let Some(known) = &sps.long_term {
            header.far = far(bits, sps, known, header.order_low)?;
        }
        Some(header)
    }

    /// Where in the picture a slice that is not its first begins.
    pub(super) fn address(&self, nal: &Nal<'_>) -> Option<u32> {
        let payload = nal.payload(64);
        let bits = &mut Bits::new(&payload);
        let (pps, sps) = self.begin(nal, bits)?;
        if pps.dependent_slices {
            bits.skip(1)?;
        }
        bits.bits(log2_up(sps.blocks)).filter(|&address| u64::from(address) < sps.blocks)
    }

    /// Whether a slice's picture is cut into tiles.
    pub(super) fn has_tiles(&self, nal: &Nal<'_>) -> bool {
        let payload = nal.payload(64);
        let sets = self.begin(nal, &mut Bits::new(&payload));
        sets.is_some_and(|(pps, _)| pps.slices.as_ref().is_some_and(|slices| slices.tiles.is_some()))
    }

    /// The size of a slice's picture.
    pub(super) fn size(&self, nal: &Nal<'_>) -> Option<(u64, u64)> {
        let payload = nal.payload(64);
        let (_, sps) = self.begin(nal, &mut Bits::new(&payload))?;
        Some((sps.width.into(), sps.height.into()))
    }

    /// The sets of a slice, whose header is read up to where it names them.
    pub(super) fn begin(&self, nal: &Nal<'_>, bits: &mut Bits<'_>) -> Option<(&Pps, &Sps)> {
        bits.skip(if nal.is_start() { 2 } else { 1 })?;
        let pps = self.pps.get(&bits.ue()?)?;
        Some((pps, self.sps.get(&pps.sps)?))
    }
}

/// Whether a slice is the first one of its picture.
pub(super) fn is_first(nal: &Nal<'_>) -> bool {
    nal.bytes.get(2).is_some_and(|byte| byte & 0x80 != 0)
}

/// The bits that a number below `count` takes.
pub(super) fn log2_up(count: u64) -> u32 {
    count.saturating_sub(1).checked_ilog2().map_or(0, |log| log + 1)
}

/// The long-term reference pictures of a slice header.
pub(super) fn far(
    bits: &mut Bits<'_>,
    sps: &Sps,
    known: &[(u32, bool)],
    order_low: i32,
) -> Option<Vec<(i32, Option<i32>, bool)>> {
    let by_place = if known.is_empty() { 0 } else { bits.ue()? };
    let count = by_place.checked_add(bits.ue()?).filter(|&count| count <= 33)?;
    let mut far = Vec::new();
    let mut cycle = 0i32;
    for number in 0..count {
        let (low, used) = if number < by_place {
            let place = bits.bits(log2_up(known.len() as u64))?;
            *known.get(place as usize)?
        } else {
            (bits.bits(sps.order_bits)?, bits.bit()?)
        };
        let low = low as i32;
        // Counts add up, but for the first of each of the two lists.
        if number == 0 || number == by_place {
            cycle = 0;
        }
        let full = bits.bit()?;
        if full {
            cycle = cycle.checked_add(i32::try_from(bits.ue()?).ok()?)?;
        }
        // How far from this picture's count it is, once that is known.
        let distance = cycle.checked_mul(1 << sps.order_bits)?.checked_add(order_low)?.checked_sub(low)?;
        far.push((low, full.then_some(distance), used));
    }
    Some(far)
}

/// What became of a picture.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The sequence, which ends where counting starts anew.
    pub sequence: u32,
    /// Its order count.
    pub order: i32,
    /// Whether a decoder leaves it out: it needs pictures from before the place where decoding started.
    pub skipped: bool,
    /// Whether a picture that it needs was not there.
    pub missing: bool,
}

/// The pictures that a decoder has.
#[derive(Debug, Default)]
pub(super) struct Order {
    started: bool,
    ended: bool,
    skip_leading: bool,
    sequence: u32,
    last_order: i32,
    held: Vec<i32>,
}

impl Order {
    /// The sequence ends here: the next picture starts a new one.
    pub(super) fn end_sequence(&mut self) {
        self.ended = true;
    }

    /// The next picture.
    pub(super) fn next(&mut self, nal: &Nal<'_>, header: &Header<'_>) -> Place {
        let fresh = nal.is_start() && (!nal.is_cra() || !self.started || self.ended);
        if nal.is_start() {
            self.skip_leading = fresh;
        }
        (self.started, self.ended) = (true, false);
        self.sequence = self.sequence.wrapping_add(u32::from(fresh));
        let sequence = self.sequence;
        if nal.is_rasl() && self.skip_leading {
            return Place { sequence, order: 0, skipped: true, missing: false };
        }
        let range = 1i32 << header.sps.order_bits;
        let low = header.order_low;
        let order = if fresh { low } else { order_count(low.into(), self.last_order.into(), range.into()) as i32 };
        if nal.temporal == 0 && !nal.is_rasl() && !nal.is_radl() && !nal.is_sub_layer_non_reference() {
            self.last_order = order;
        }
        let missing = if nal.is_start() {
            // All that follow a start need nothing from before it, but for RASL pictures.
            if fresh {
                self.held.clear();
            } else {
                self.keep(order, header, range);
            }
            false
        } else {
            self.keep(order, header, range)
        };
        self.held.push(order);
        Place { sequence, order, skipped: false, missing }
    }

    /// Lets go of the pictures that this one's header does not name; whether one that it needs is not there.
    fn keep(&mut self, order: i32, header: &Header<'_>, range: i32) -> bool {
        let mut named = Vec::new();
        let mut missing = false;
        let near = header.near.before.iter().chain(&header.near.after);
        let near = near.map(|&(delta, used)| (order.wrapping_add(delta), i32::MAX, used));
        let far = header.far.iter().map(|&(low, distance, used)| match distance {
            Some(distance) => (order.wrapping_sub(distance), i32::MAX, used),
            None => (low, range - 1, used),
        });
        for (wanted, mask, used) in near.chain(far) {
            let held =
                self.held.iter().find(|&&held| if mask == i32::MAX { held == wanted } else { held & mask == wanted });
            match held {
                Some(&held) => named.push(held),
                None => missing |= used,
            }
        }
        self.held = named;
        missing
    }
}
