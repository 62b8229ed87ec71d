//! HEVC.
//!
//! ```text
//!  packet ──▶ nal ──▶ sets, order ──▶ the rust_h265 decoder ──▶ picture of that packet
//!             cuts    what is said    what is shown
//!              └────▶ check: slices that are damaged, which the decoder does not tell
//! ```
//!
//! Invariant: a picture goes out with the number of the packet whose order count it has, and no two pictures inside the
//! decoder have the same one.

mod check;
mod cover;
mod nal;
mod order;
mod sets;

use std::collections::VecDeque;

use rust_h265::{DecodeError, DecodeLimits, Frame, PixelData};

use self::check::Checker;
use self::cover::Blocks;
use self::nal::Nal;
use self::order::{Order, Sets, is_first};
use self::sets::Sps;
use super::{Broken, Decoder, Earliest, Inspector, Kind, Out, Place};
use crate::media::picture::{Colour, ColourHint, Layout, Picture, Planes};
use crate::media::{Limits, MediaError};

/// An access unit delimiter: it ends a picture, so that its frame need not wait for the next one.
const DELIMITER: [u8; 3] = [0x46, 0x01, 0x50];

/// How many pictures have to fit in the memory that is allowed: those that a stream of the largest size may keep.
const PICTURES: u64 = 8;

/// An inspector for a stream with this `hvcC` record.
pub fn inspector(config: &[u8]) -> Result<Box<dyn Inspector>, MediaError> {
    let (length_size, nals) = open(config)?;
    let mut sets = Sets::default();
    for nal in &nals {
        // What is wrong with them is the decoder's to say.
        let _ = sets.take(nal);
    }
    Ok(Box::new(Look { length_size, sets, highest: 0, order: Order::default(), place: None }))
}

/// A decoder for a stream with this `hvcC` record.
pub fn decoder(
    config: &[u8],
    colour: ColourHint,
    limits: &Limits,
    threads: usize,
) -> Result<Box<dyn Decoder + Send>, MediaError> {
    let (length_size, nals) = open(config)?;
    let most = DecodeLimits { max_picture_pixels: limits.pixels, max_picture_memory_bytes: limits.memory / PICTURES };
    let mut decoder = H265 {
        inner: rust_h265::Decoder::with_limits(most).with_threads(threads),
        threads,
        length_size,
        limits: *limits,
        colour,
        sets: Sets::default(),
        checker: Checker::default(),
        order: Order::default(),
        waiting: VecDeque::new(),
        number: 0,
        last_address: None,
        left_out: true,
        decoded: false,
        fault: Earliest::default(),
    };
    for nal in nals.iter().filter(|nal| nal.layer == 0) {
        match decoder.feed(nal, &mut |_, _| ()) {
            Err(Broken::Stop(error)) => return Err(error),
            // Parameter sets may come again with the packets.
            Ok(()) | Err(Broken::Damaged(..)) => (),
        }
    }
    decoder.fault = Earliest::default();
    Ok(Box::new(decoder))
}

/// The length of the packets' length fields, and the NAL units of the record.
fn open(config: &[u8]) -> Result<(usize, Vec<Nal<'_>>), MediaError> {
    match config {
        [] => Ok((4, Vec::new())),
        [0, 0, 0 | 1, ..] => {
            Err(unsupported("HEVC with start codes in place of lengths is not supported by the built-in decoder"))
        }
        _ => nal::record(config).ok_or_else(|| MediaError::Damaged("the HEVC decoder configuration is cut off".into())),
    }
}

fn unsupported(what: &str) -> MediaError {
    MediaError::Unsupported(format!("{what}; ffmpeg can decode it (--decoder ffmpeg)"))
}

/// Looks at packets.
struct Look {
    length_size: usize,
    sets: Sets,
    highest: u8,
    order: Order,
    place: Option<Place>,
}

impl Inspector for Look {
    fn inspect(&mut self, packet: &[u8], _key: bool) -> Result<Kind, String> {
        let (nals, mut wrong) = nal::split(packet, self.length_size);
        let mut kind = Kind { start: false, leading: false, reference: true, shows: false };
        self.place = None;
        for nal in nals.iter().filter(|nal| nal.layer == 0) {
            if let Err(what) = self.sets.take(nal) {
                wrong.get_or_insert(what);
            }
            if !nal.is_slice() || !is_first(nal) {
                continue;
            }
            self.highest = self.highest.max(nal.temporal);
            kind.start = nal.is_start();
            kind.leading = nal.is_rasl();
            // Pictures of higher sub-layers may need it, so it must be in the highest there is.
            let top = self.sets.sub_layers().is_some_and(|top| nal.temporal >= top && self.highest <= top);
            kind.reference = !(top && nal.is_sub_layer_non_reference());
            let header = self.sets.header(nal);
            kind.shows = header.as_ref().is_none_or(|header| header.output);
            if let Some(header) = &header {
                let order::Place { sequence, order, skipped, .. } = self.order.next(nal, header);
                self.place = (!skipped).then_some(Place { sequence, order: order.into() });
            }
        }
        match wrong {
            Some(what) => Err(what),
            None => Ok(kind),
        }
    }

    fn place(&self) -> Option<Place> {
        self.place
    }
}

/// A picture that is inside the decoder.
struct Waiting {
    number: usize,
    order: i32,
    colour: Colour,
    blocks: Option<Blocks>,
}

/// The decoder.
struct H265 {
    inner: rust_h265::Decoder,
    threads: usize,
    length_size: usize,
    limits: Limits,
    colour: ColourHint,
    sets: Sets,
    checker: Checker,
    order: Order,
    waiting: VecDeque<Waiting>,
    number: usize,
    /// Where the last slice of this packet's picture begins; `None` before the first one.
    last_address: Option<u32>,
    /// Whether nothing comes of this packet's picture.
    left_out: bool,
    decoded: bool,
    fault: Earliest,
}

impl Decoder for H265 {
    fn decode(&mut self, number: usize, packet: &[u8], out: &mut Out<'_>) -> Result<(), Broken> {
        self.number = number;
        self.last_address = None;
        self.checker.give_up();
        let (nals, wrong) = nal::split(packet, self.length_size);
        if let Some(what) = wrong {
            self.fault.note(number, what);
        }
        for nal in nals.iter().filter(|nal| nal.layer == 0) {
            self.feed(nal, out)?;
        }
        if let Err(what) = self.checker.finish() {
            self.fault.note(number, what);
        }
        self.push(&DELIMITER, out)?;
        if self.threads < 2 {
            self.give_up_on_waiting();
        }
        self.fault.tell()
    }

    fn finish(&mut self, out: &mut Out<'_>) -> Result<(), Broken> {
        self.drain(out);
        self.fault.tell()
    }
}

impl H265 {
    /// Takes one NAL unit.
    fn feed(&mut self, nal: &Nal<'_>, out: &mut Out<'_>) -> Result<(), Broken> {
        if nal.is_slice() && nal.has_forbidden_bytes() {
            self.fault.note(self.number, "a slice holds bytes that no slice may".into());
        }
        match self.sets.take(nal) {
            Ok(Some(sps)) => check(sps, &self.limits, self.decoded).map_err(|error| match error {
                MediaError::Damaged(what) => Broken::Damaged(self.number, what),
                error => Broken::Stop(error),
            })?,
            Ok(None) => (),
            Err(what) => self.fault.note(self.number, what),
        }
        if nal.kind == nal::END_OF_SEQUENCE {
            self.order.end_sequence();
        }
        if nal.is_slice() {
            if is_first(nal) {
                self.begin(nal, out)?;
            } else {
                self.go_on(nal);
            }
            self.look_inside(nal);
        }
        match nal.kind {
            0..=21 | nal::VPS | nal::SPS | nal::PPS | nal::END_OF_SEQUENCE => self.push(nal.bytes, out),
            _ => Ok(()),
        }
    }

    /// Checks a slice's data, but not in pictures that are left out.
    fn look_inside(&mut self, nal: &Nal<'_>) {
        let size = self.sets.size(nal);
        let allowed = size.is_some_and(|(width, height)| self.limits.check_size(width, height).is_ok());
        if self.left_out || !allowed {
            self.checker.give_up();
        } else if let Err(what) = self.checker.slice(&self.sets, nal) {
            self.fault.note(self.number, what);
        }
    }

    /// Looks at a picture's first slice.
    fn begin(&mut self, nal: &Nal<'_>, out: &mut Out<'_>) -> Result<(), Broken> {
        if nal.is_start() && self.threads > 1 {
            // Order counts start again.
            self.drain(out);
        }
        if self.last_address.replace(0).is_some() {
            self.fault.note(self.number, "the packet has more than one picture".into());
        }
        self.left_out = true;
        let Some(header) = self.sets.header(nal) else {
            self.fault.note(self.number, "a slice's header cannot be read".into());
            return Ok(());
        };
        let hint = header.sps.colour.or(self.colour);
        let blocks = Blocks::new(header.sps).filter(|_| !self.sets.has_tiles(nal));
        let (output, place) = (header.output, self.order.next(nal, &header));
        self.left_out = place.skipped;
        if place.missing {
            self.fault.note(self.number, "a picture that it needs is missing".into());
        }
        if output && !place.skipped {
            let colour = hint.resolve().ok_or_else(|| unsupported("the video's colour matrix is not supported"))?;
            self.waiting.push_back(Waiting { number: self.number, order: place.order, colour, blocks });
        }
        Ok(())
    }

    /// Looks at another slice of a picture.
    fn go_on(&mut self, nal: &Nal<'_>) {
        let address = self.sets.address(nal);
        if self.sets.has_tiles(nal) {
            // Blocks are not in the order of rows then; the checker knows it.
            if self.last_address.is_none() || address.is_none() {
                self.fault.note(self.number, "the picture's slices do not follow each other".into());
            }
            return;
        }
        let in_order = matches!((self.last_address, address), (Some(last), Some(address)) if address > last);
        if !in_order {
            self.fault.note(self.number, "the picture's slices do not follow each other".into());
        }
        self.last_address = address.or(self.last_address);
        if let (true, Some(address), Some(waiting)) = (in_order, address, self.waiting.back_mut())
            && let Some(blocks) = waiting.blocks.as_mut().filter(|_| waiting.number == self.number)
        {
            blocks.slice(address);
        }
    }

    /// Gives the decoder a NAL unit.
    fn push(&mut self, bytes: &[u8], out: &mut Out<'_>) -> Result<(), Broken> {
        let Some(unit) = rust_h265::parse_nal(bytes) else {
            return Ok(());
        };
        match self.inner.decode_nal(&unit) {
            Ok(None) => Ok(()),
            Ok(Some(frame)) => {
                self.give(frame, out);
                Ok(())
            }
            Err(DecodeError::Unsupported(what)) if !self.decoded => {
                Err(Broken::Stop(unsupported(&format!("this HEVC is not supported ({what})"))))
            }
            Err(DecodeError::ResourceLimit(what)) => Err(Broken::Stop(MediaError::Limit(format!(
                "the picture takes more than is allowed: {what} (--max-pixels)"
            )))),
            Err(error) => {
                self.failed(&error);
                Ok(())
            }
        }
    }

    /// All pictures that are inside.
    fn drain(&mut self, out: &mut Out<'_>) {
        let oldest = self.waiting.front().map_or(self.number, |waiting| waiting.number);
        while let Some(frame) = self.inner.flush() {
            self.give(frame, out);
        }
        while let Some(error) = self.inner.next_error() {
            self.fault.note(oldest, error.to_string());
        }
        self.give_up_on_waiting();
    }

    /// Hands a picture out.
    fn give(&mut self, frame: Frame, out: &mut Out<'_>) {
        let Some(place) = self.waiting.iter().position(|waiting| waiting.order == frame.pic_order_cnt) else {
            self.fault.note(self.number, "a picture's order count is not the one of any packet".into());
            return;
        };
        for _ in 0..place {
            if let Some(lost) = self.waiting.pop_front() {
                self.fault.note(lost.number, "no picture came of it".into());
            }
        }
        let Some(waiting) = self.waiting.pop_front() else {
            return;
        };
        self.decoded = true;
        match picture(frame, waiting.colour) {
            Some(picture) => {
                if waiting.blocks.is_some_and(|blocks| blocks.uncovered(&picture)) {
                    self.fault.note(waiting.number, "the slices do not cover the picture".into());
                }
                out(waiting.number, picture);
            }
            None => self.fault.note(waiting.number, "no whole picture came of it".into()),
        }
    }

    /// No more pictures come of the packets so far.
    fn give_up_on_waiting(&mut self) {
        while let Some(lost) = self.waiting.pop_front() {
            self.fault.note(lost.number, "no picture came of it".into());
        }
    }

    /// The decoder found something. With more threads it may have been in any of the pictures that are inside.
    fn failed(&mut self, error: &DecodeError) {
        let oldest = self.waiting.front().map_or(self.number, |waiting| waiting.number);
        self.fault.note(oldest, error.to_string());
    }
}

/// Refuses what cannot be decoded. A stream that went well so far does not turn into another kind; it is damaged then.
fn check(sps: &Sps, limits: &Limits, decoded: bool) -> Result<(), MediaError> {
    let refuse = |what: &str| {
        if decoded { Err(MediaError::Damaged(what.into())) } else { Err(unsupported(what)) }
    };
    limits.check_size(sps.width.into(), sps.height.into())?;
    match sps.chroma {
        1 => (),
        3 if !sps.separate_planes => (),
        0 => return refuse("HEVC without colour is not supported by the built-in decoder"),
        2 => return refuse("HEVC with 4:2:2 chroma is not supported by the built-in decoder"),
        _ => return refuse("HEVC with separate colour planes is not supported by the built-in decoder"),
    }
    if sps.depth > 12 || sps.depth != sps.chroma_depth {
        let (luma, chroma) = (sps.depth, sps.chroma_depth);
        return refuse(&format!("HEVC with {luma} bits for luma and {chroma} for chroma is not supported"));
    }
    Ok(())
}

/// The decoder's picture as this program has it. `None` if its planes are not as large as they should be.
fn picture(frame: Frame, colour: Colour) -> Option<Picture> {
    let layout = match frame.chroma_format_idc {
        1 => Layout::Yuv420,
        3 => Layout::Yuv444,
        _ => return None,
    };
    let (width, height) = (frame.width, frame.height);
    let (across, down) = layout.chroma(width, height);
    let luma = u64::from(width) * u64::from(height);
    let chroma = u64::from(across) * u64::from(down);
    let whole = |plane: &PixelData, size: u64| plane.len() as u64 == size;
    if luma == 0 || !whole(&frame.y, luma) || !whole(&frame.u, chroma) || !whole(&frame.v, chroma) {
        return None;
    }
    let planes = match (frame.y, frame.u, frame.v) {
        (PixelData::U8(y), PixelData::U8(u), PixelData::U8(v)) => Planes::U8([y, u, v]),
        (PixelData::U16(y), PixelData::U16(u), PixelData::U16(v)) => Planes::U16([y, u, v]),
        _ => return None,
    };
    Some(Picture { width, height, depth: frame.bit_depth, layout, planes, colour })
}
