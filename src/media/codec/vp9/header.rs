//! VP9's superframes and the uncompressed header of its frames, as far as sizes, colours and references go.
//!
//! Invariant: what is read is what the standard has at that place, or it is an error.

use super::super::bits::Bits;
use crate::media::picture::ColourHint;

/// What every frame that carries its own format begins with.
const SYNC: u32 = 0x49_83_42;

/// Bits a sample, and whether chroma has half the width and half the height.
type Format = (u8, bool, bool);

/// A frame that later ones can refer to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub width: u32,
    pub height: u32,
    pub colour: ColourHint,
    /// What frames must share with those that they refer to.
    format: Format,
}

/// The eight frames that can be referred to.
#[derive(Debug, Default)]
pub(super) struct Slots([Option<Slot>; 8]);

impl Slots {
    /// Puts a decoded frame where its header says.
    pub(super) fn update(&mut self, coded: &Coded) {
        for (place, slot) in self.0.iter_mut().enumerate() {
            if coded.refresh >> place & 1 == 1 {
                *slot = Some(coded.slot);
            }
        }
    }

    fn get(&self, place: u32) -> Result<Slot, String> {
        let slot = self.0.get(place as usize).copied().flatten();
        slot.ok_or_else(|| "a picture that it needs is missing".to_string())
    }
}

/// A frame's header.
pub(super) enum Header {
    /// A frame that was decoded before is shown.
    Existing(Slot),
    /// A frame.
    Coded(Coded),
}

/// The header of a frame with data of its own.
pub(super) struct Coded {
    pub key: bool,
    pub shown: bool,
    pub slot: Slot,
    refresh: u32,
}

/// The frames of a packet.
pub(super) fn split(packet: &[u8]) -> Result<Vec<&[u8]>, String> {
    let Some((&mark, before)) = packet.split_last() else {
        return Err("the packet is empty".into());
    };
    let bytes = usize::from(mark >> 3 & 3) + 1;
    let count = usize::from(mark & 7) + 1;
    let index = before.len().checked_sub(count * bytes);
    let index = index.and_then(|at| before.split_at_checked(at));
    let (Some((frames, index)), 6) = (index, mark >> 5) else {
        return Ok(vec![packet]);
    };
    let Some((&first, frames)) = frames.split_last() else {
        return Ok(vec![packet]);
    };
    if first != mark {
        return Ok(vec![packet]);
    }
    let mut rest = frames;
    let mut split = Vec::new();
    for size in index.chunks_exact(bytes) {
        let size = size.iter().rev().fold(0usize, |size, &byte| size << 8 | usize::from(byte));
        let Some((frame, after)) = rest.split_at_checked(size) else {
            return Err(format!("a superframe's frame claims {size} bytes where {} are left", rest.len()));
        };
        rest = after;
        // Encoders drop a frame by leaving nothing of it.
        if !frame.is_empty() {
            split.push(frame);
        }
    }
    if !rest.is_empty() {
        return Err(format!("a superframe has {} bytes that belong to no frame", rest.len()));
    }
    Ok(split)
}

/// Reads a header. Without `slots`, what it refers to is not looked up and sizes from there are 0.
pub(super) fn read(frame: &[u8], slots: Option<&Slots>) -> Result<Header, String> {
    let bits = &mut Bits::new(frame);
    header(bits, slots).unwrap_or_else(|| Err("the frame ends inside of its header".into()))
}

/// `None` if it ends too early.
fn header(bits: &mut Bits<'_>, slots: Option<&Slots>) -> Option<Result<Header, String>> {
    if bits.bits(2)? != 2 {
        return Some(Err("a frame does not begin as one".into()));
    }
    let profile = bits.bits(1)? | bits.bits(1)? << 1;
    if profile == 3 && bits.bit()? {
        return Some(Err("a frame has a profile that does not exist".into()));
    }
    let none = Slot { width: 0, height: 0, colour: ColourHint::default(), format: (8, true, true) };
    if bits.bit()? {
        let place = bits.bits(3)?;
        return Some(slots.map_or(Ok(none), |slots| slots.get(place)).map(Header::Existing));
    }
    let key = !bits.bit()?;
    let shown = bits.bit()?;
    let resilient = bits.bit()?;
    let intra = key || (!shown && bits.bit()?);
    if !key && !resilient {
        bits.skip(2)?;
    }
    if !intra {
        let refresh = bits.bits(8)?;
        return Some(inter(bits, slots, none)?.map(|slot| Header::Coded(Coded { key, shown, slot, refresh })));
    }
    if bits.bits(24)? != SYNC {
        return Some(Err("a frame's sync code is wrong".into()));
    }
    let (format, colour) = if key || profile > 0 {
        match format(bits, profile)? {
            Ok(format) => format,
            Err(what) => return Some(Err(what)),
        }
    } else {
        ((8, true, true), ColourHint { matrix: Some(5), full_range: Some(false) })
    };
    let refresh = if key { 0xff } else { bits.bits(8)? };
    let (width, height) = (bits.bits(16)? + 1, bits.bits(16)? + 1);
    Some(Ok(Header::Coded(Coded { key, shown, slot: Slot { width, height, colour, format }, refresh })))
}

/// The frame's own size or that of a frame that it refers to.
fn inter(bits: &mut Bits<'_>, slots: Option<&Slots>, none: Slot) -> Option<Result<Slot, String>> {
    let mut references = Vec::new();
    for _ in 0..3 {
        let place = bits.bits(3)?;
        bits.skip(1)?;
        match slots.map_or(Ok(none), |slots| slots.get(place)) {
            Ok(slot) => references.push(slot),
            Err(what) => return Some(Err(what)),
        }
    }
    let first = *references.first()?;
    if references.iter().any(|slot| slot.format != first.format) {
        return Some(Err("the pictures that it needs are of different formats".into()));
    }
    for slot in &references {
        if bits.bit()? {
            return Some(Ok(Slot { width: slot.width, height: slot.height, ..first }));
        }
    }
    let (width, height) = (bits.bits(16)? + 1, bits.bits(16)? + 1);
    Some(Ok(Slot { width, height, ..first }))
}

/// A frame's format, and its colour by the numbers of ITU-T H.273.
fn format(bits: &mut Bits<'_>, profile: u32) -> Option<Result<(Format, ColourHint), String>> {
    let depth = match profile {
        0 | 1 => 8,
        _ if bits.bit()? => 12,
        _ => 10,
    };
    let matrix = match bits.bits(3)? {
        1 => 5,
        2 => 1,
        3 => 6,
        4 => 7,
        5 => 9,
        7 => 0,
        _ => 2,
    };
    let free = profile & 1 == 1;
    let (full_range, across, down) = match (matrix, free) {
        (0, false) => return Some(Err("a frame is RGB in a profile that has none".into())),
        (0, true) => (true, false, false),
        (_, true) => (bits.bit()?, bits.bit()?, bits.bit()?),
        (_, false) => (bits.bit()?, true, true),
    };
    if free && bits.bit()? {
        return Some(Err("a frame's format has a bit set that is reserved".into()));
    }
    if free && across && down {
        return Some(Err("a frame is 4:2:0 in a profile that has none".into()));
    }
    Some(Ok(((depth, across, down), ColourHint { matrix: Some(matrix), full_range: Some(full_range) })))
}
