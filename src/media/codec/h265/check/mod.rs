//! Reads the data of a slice without making pixels of it.
//!
//! A bit that is wrong puts everything after it out of step: sooner or later there is a value that cannot be, or the
//! slice ends at the wrong block or the wrong bit. Only among the bits that are coded without a context (signs, the low
//! bits of levels and of motion) can a change be such that what follows is as it was. Raw samples, and some values in
//! headers, can be others without a trace. No decoder can tell those.
//!
//! What is checked: every element's range, that the slice and each part of it (tiles, rows that are decoded side by
//! side) ends at its stop bit and where the header says, and that slices follow each other and cover the picture.
//!
//! What is not: slices with tools of the standard's extensions (range, screen content, layers), 4:2:2 and gray. They pass.
//!
//! Invariant: a sound slice passes. What is not certain is let through.

mod contexts;
mod header;
mod residual;
mod tiles;
mod transform;
mod unit;

use super::super::bits::Bits;
use super::nal::Nal;
use super::order::Sets;
use crate::media::codec::cabac::Engine;
use contexts::Contexts;
use header::{Header, Known, Own};
use residual::Coder;
use tiles::Map;
use unit::{Edges, Parser, Tools};

/// The slice of blocks that were not read.
const NO_SLICE: u32 = u32::MAX;

/// Checks the slices of pictures; keeps the memory for it.
#[derive(Default)]
pub(super) struct Checker {
    picture: Option<Picture>,
    edges: Edges,
    /// For each block, the first one of its slice.
    owners: Vec<u32>,
    payload: Vec<u8>,
    /// The places of bytes that are in the slice, but not in its payload.
    left_out: Vec<usize>,
}

/// A picture of which all slices so far are sound.
struct Picture {
    map: Map,
    /// The next block, in the order of decoding.
    next: u32,
    /// The last slice that was not dependent: what its header says, and its first block.
    own: Own,
    first: u32,
    /// The contexts at the end of the last slice, for one that depends on it.
    last: Contexts,
    /// The contexts behind the second block of a row.
    row: Contexts,
}

impl Checker {
    /// Leaves the picture alone until the next one begins.
    pub(super) fn give_up(&mut self) {
        self.picture = None;
    }

    /// Checks the next slice.
    pub(super) fn slice(&mut self, sets: &Sets, nal: &Nal<'_>) -> Result<(), String> {
        let first = super::order::is_first(nal);
        let before = self.picture.take().filter(|_| !first);
        if !first && before.is_none() {
            return Ok(());
        }
        self.unpack(nal);
        let payload = std::mem::take(&mut self.payload);
        let checked = self.check(sets, nal, &payload, before);
        self.payload = payload;
        self.picture = checked?;
        Ok(())
    }

    /// The picture has no more slices.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        match self.picture.take() {
            Some(picture) if picture.next < picture.map.count() => {
                let (next, count) = (picture.next, picture.map.count());
                Err(format!("the slices do not cover the picture: {next} of {count} blocks are there"))
            }
            _ => Ok(()),
        }
    }

    /// The payload, without the bytes that keep start codes out of it.
    fn unpack(&mut self, nal: &Nal<'_>) {
        self.payload.clear();
        self.left_out.clear();
        let mut rest = nal.bytes.get(2..).unwrap_or_default();
        let mut at = 0;
        while let Some(place) = rest.windows(3).position(|bytes| matches!(bytes, [0, 0, 3])) {
            self.payload.extend(rest.iter().take(place + 2));
            self.left_out.push(at + place + 2);
            at += place + 3;
            rest = rest.get(place + 3..).unwrap_or_default();
        }
        self.payload.extend(rest);
    }

    fn check(
        &mut self,
        sets: &Sets,
        nal: &Nal<'_>,
        payload: &[u8],
        before: Option<Picture>,
    ) -> Result<Option<Picture>, String> {
        let bits = &mut Bits::new(payload);
        let Some(known) = Known::of(sets, nal, bits) else {
            return Ok(None);
        };
        let own = before.as_ref().map(|picture| picture.own);
        let header = known.header(nal, bits, own).ok_or("a slice's header is damaged")?;
        let mut picture = match before {
            Some(picture) => picture,
            None => {
                let Some(map) = Map::new(known.sps, known.slices.tiles.as_ref()) else {
                    return Ok(None);
                };
                self.edges.reset(known.sps.width);
                self.owners.clear();
                self.owners.resize(map.count() as usize, NO_SLICE);
                Picture { map, next: 0, own: header.own, first: 0, last: [0; 256], row: [0; 256] }
            }
        };
        if picture.map.raster(picture.next) != Some(header.address) {
            let (next, count) = (picture.next, picture.map.count());
            return Err(format!("slices do not follow each other: none begins at block {next} of {count}"));
        }
        if !header.dependent {
            (picture.own, picture.first) = (header.own, header.address);
        }
        self.data(&mut picture, &header, known, payload)?;
        Ok(Some(picture))
    }

    /// `slice_segment_data`.
    fn data(&mut self, picture: &mut Picture, header: &Header, known: Known<'_>, payload: &[u8]) -> Result<(), String> {
        let tools = known.tools(&header.own);
        let start = contexts::start(header.own.contexts, header.own.qp);
        let count = picture.map.count();
        let mut coder = Coder { engine: Engine::new(payload, header.data), contexts: start };
        let mut ends = Vec::new();
        if header.dependent {
            coder.contexts = picture.last;
        }
        let mut begins = true;
        loop {
            let next = picture.next;
            let wrong = || format!("a slice is damaged at or before block {next} of {count}");
            let place = picture.map.place(next).ok_or("a slice has more blocks than its picture")?;
            let owner = |address: Option<u32>| self.owners.get(address? as usize).copied();
            let same = |address: Option<u32>| owner(address) == Some(picture.first);
            if place.begins_tile {
                coder.contexts = start;
            } else if known.slices.wavefront && place.begins_row {
                coder.contexts = if same(place.above_right) { picture.row } else { start };
            } else if begins && !header.dependent {
                coder.contexts = start;
            }
            begins = false;
            let (has_left, has_above) = (same(place.left), same(place.above));
            let edges = &mut self.edges;
            let mut parser = Parser { coder: &mut coder, tools: &tools, edges, has_left, has_above, qp_known: false };
            parser.block(place.x << tools.block, place.y << tools.block).ok_or_else(wrong)?;
            if let Some(owner) = self.owners.get_mut(place.raster as usize) {
                *owner = picture.first;
            }
            if place.is_second {
                picture.row = coder.contexts;
            }
            picture.next += 1;
            if coder.engine.terminate() {
                break;
            }
            if coder.engine.overrun() {
                return Err(wrong());
            }
            let after = picture.map.place(picture.next).ok_or("a slice has more blocks than its picture")?;
            if after.begins_tile || known.slices.wavefront && after.begins_row {
                let end = coder.engine.terminate().then(|| coder.engine.end()).flatten().ok_or_else(wrong)?;
                ends.push(end);
                coder.engine = Engine::new(payload, end);
            }
        }
        picture.last = coder.contexts;
        let rest = coder.engine.end().and_then(|end| payload.get(end..));
        if rest.is_none_or(|rest| rest.iter().any(|&byte| byte != 0)) {
            let next = picture.next;
            return Err(format!("a slice is damaged: its data does not end with block {next} of {count}"));
        }
        // Some encoders give the sizes of a whole picture's parts in its first slice, or none.
        if header.parts.len() == ends.len() && self.ends(header) != ends {
            return Err("a slice is damaged: its parts do not end where its header says".into());
        }
        Ok(())
    }

    /// Where the parts of the data end, by the header, which counts bytes as they are in the slice.
    fn ends(&self, header: &Header) -> Vec<usize> {
        let before = self.left_out.iter().enumerate().take_while(|(number, at)| *at - number <= header.data).count();
        let mut at = header.data.saturating_add(before);
        let end = |&size: &u32| {
            at = at.saturating_add(size as usize);
            at.saturating_sub(self.left_out.iter().take_while(|&&place| place < at).count())
        };
        header.parts.iter().map(end).collect()
    }
}

impl Known<'_> {
    /// What a slice's data is like.
    fn tools(self, own: &Own) -> Tools {
        let Self { sps, coding, slices, .. } = self;
        Tools {
            width: sps.width,
            height: sps.height,
            depth: sps.depth,
            full_chroma: sps.chroma == 3,
            block: sps.block_bits,
            least_unit: coding.least_unit,
            least_transform: coding.least_transform,
            most_transform: coding.most_transform,
            inter_depth: coding.inter_depth,
            intra_depth: coding.intra_depth,
            quarters: coding.quarters,
            raw: coding.raw,
            offsets: own.offsets,
            qp_size: slices.qp_depth.map(|depth| sps.block_bits.saturating_sub(depth)),
            transform_skip: slices.transform_skip,
            sign_hiding: slices.sign_hiding,
            lossless_units: slices.lossless_units,
            slice: own.slice,
        }
    }
}
