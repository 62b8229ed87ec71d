//! Packets to pictures.
//!
//! Invariant: a picture is taken from the crate as soon as its last slice went in, so it belongs to the packet of that
//! slice (of the first field, where the fields are in two), whatever the order in which pictures are shown.

use rust_h264::decoder::{Decoder as Crate, Frame};
use rust_h264::error::DecodeError;
use rust_h264::nal::{NalUnit, NalUnitType};

use super::ahead::Threads;
use super::check::Checker;
use super::nal::{self, Nal, Type};
use super::params::{Sps, unsupported};
use super::sets::Sets;
use super::slice::{Header, HeaderError, Lines, PictureId, Prediction};
use crate::media::codec::{Broken, Decoder, Out};
use crate::media::picture::{Colour, ColourHint, Layout, Picture, Planes};
use crate::media::{Limits, MediaError};

/// Decodes packets.
pub struct Pictures {
    length: usize,
    sets: Sets,
    hint: ColourHint,
    limits: Limits,
    inner: Inner,
    /// The sequence parameter set that the crate was given last: it has one idea of how many references there are.
    given: Option<u32>,
    /// The picture whose slices come.
    open: Option<Open>,
    /// The first field of a frame, and its packet.
    field: Option<(PictureId, usize)>,
    history: History,
    checker: Checker,
}

/// The crate's two decoders.
enum Inner {
    Serial(Box<Crate>),
    Threads(Box<Threads>),
}

impl Inner {
    fn feed(&mut self, unit: &NalUnit<'_>) -> Result<(), DecodeError> {
        match self {
            Inner::Serial(inner) => inner.decode_nal(unit).map(|_| ()),
            Inner::Threads(threads) => threads.feed(unit),
        }
    }
}

/// A picture whose slices come.
struct Open {
    id: PictureId,
    /// The header of its first slice, and its parameter set.
    header: Header,
    sps: Sps,
    shape: Shape,
    /// The macroblock that the next slice begins with.
    next: u32,
    /// Whether it has to be that one, or can be a later one.
    exact: bool,
    total: u32,
}

/// What a frame of the crate is to be made into.
#[derive(Clone, Copy)]
pub struct Shape {
    width: u32,
    height: u32,
    layout: Layout,
    colour: Colour,
}

/// What is known of the references.
#[derive(Default)]
struct History {
    /// `frame_num` of the last reference picture.
    last: Option<u32>,
    /// Whether pictures may have been left out right before the next one.
    leading_left_out: bool,
}

impl Pictures {
    /// For a stream whose units have lengths of `length` bytes, and that starts with these parameter sets.
    pub fn new(
        length: usize,
        sets: Sets,
        hint: ColourHint,
        limits: Limits,
        threads: usize,
    ) -> Result<Self, MediaError> {
        for sps in sets.all() {
            sps.check(&limits)?;
        }
        let inner = match threads {
            0 | 1 => Inner::Serial(Box::default()),
            threads => Inner::Threads(Box::new(Threads::new(threads))),
        };
        Ok(Self {
            length,
            sets,
            hint,
            limits,
            inner,
            given: None,
            open: None,
            field: None,
            history: History::default(),
            checker: Checker::default(),
        })
    }

    /// The parameter sets as they are now.
    pub fn sets(&self) -> &Sets {
        &self.sets
    }

    /// Whether a packet has an IDR picture.
    pub fn starts(&self, packet: &[u8]) -> bool {
        nal::split(packet, self.length).0.iter().any(|nal| nal.kind == Type::Slice { idr: true })
    }

    /// Takes a unit. `Ok(Some)` is what is wrong with it.
    fn unit(&mut self, number: usize, nal: &Nal<'_>, out: &mut Out<'_>) -> Result<Option<String>, Broken> {
        match nal.kind {
            Type::Sps | Type::Pps => match self.sets.store(nal) {
                Ok(changed) => {
                    if changed {
                        self.given = None;
                        for sps in self.sets.all() {
                            sps.check(&self.limits)?;
                        }
                    }
                    Ok(None)
                }
                Err(what) => Ok(Some(what.into())),
            },
            Type::Slice { .. } => self.slice(number, nal, out),
            Type::Partition => Err(unsupported("with data partitions").into()),
            Type::Sei | Type::Empty | Type::Other(_) => Ok(None),
        }
    }

    fn slice(&mut self, number: usize, nal: &Nal<'_>, out: &mut Out<'_>) -> Result<Option<String>, Broken> {
        let payload = nal.payload();
        let (header, sps, pps) = match Header::parse(nal, &payload, &self.sets) {
            Ok(parsed) => parsed,
            Err(HeaderError::Damaged(what)) => return Ok(Some(what.into())),
            Err(HeaderError::Stop(error)) => return Err(error.into()),
        };
        let (count, mut fault) = match self.checker.check(&payload, &header, sps, pps) {
            Ok(count) => (Some(count), None),
            Err(what) => (None, Some(what)),
        };
        let sps = sps.clone();
        if self.open.as_ref().is_none_or(|open| open.id != header.picture) {
            // A packet has one picture, in one frame or two fields.
            if self.open.as_ref().is_some_and(|open| header.first != 0 || !open.id.pairs_with(&header.picture)) {
                return Ok(fault.or(Some("a slice is of another picture than the one before it".into())));
            }
            fault = fault.or(self.close(number, out)?);
            fault = fault.or(self.begin(number, &header, &sps)?);
        }
        let total = header.macroblocks(&sps);
        let factor = if header.mbaff(&sps) { 2 } else { 1 };
        let first = header.first.saturating_mul(factor);
        if first >= total {
            return Ok(fault.or(Some("a slice begins outside of its picture".into())));
        }
        if let Some(open) = &mut self.open {
            if first < open.next {
                return Ok(fault.or(Some("two slices have the same macroblocks".into())));
            }
            match (first > open.next, count) {
                (true, _) if open.exact => fault = fault.or(Some("a slice is missing".into())),
                _ => {}
            }
            open.next = first + count.unwrap_or(1);
            open.exact = count.is_some();
        }
        let kind = if header.picture.idr.is_some() { NalUnitType::SliceIdr } else { NalUnitType::Slice };
        let unit = NalUnit { nal_ref_idc: nal.reference, nal_unit_type: kind, rbsp: payload };
        match self.inner.feed(&unit) {
            Ok(()) => Ok(fault),
            // What is not supported was found by the headers; the crate says so of what is damaged, too.
            Err(DecodeError::Unsupported(what)) if fault.is_none() => Err(unsupported(&format!("({what})")).into()),
            Err(error) => Ok(fault.or(Some(format!("a slice cannot be decoded: {error}")))),
        }
    }

    /// Begins a picture.
    fn begin(&mut self, number: usize, header: &Header, sps: &Sps) -> Result<Option<String>, Broken> {
        let id = header.picture;
        let mut fault = None;
        let second = match self.field.take() {
            Some((first, packet)) if first.pairs_with(&id) => {
                self.field = Some((first, packet));
                true
            }
            Some(_) => {
                fault = Some("a field is missing before it".into());
                if let Inner::Serial(inner) = &mut self.inner {
                    inner.flush();
                }
                false
            }
            None => false,
        };
        if !second {
            fault = fault.or(self.history.follows(header, sps));
            if id.idr.is_some() || self.given.is_none() {
                self.give(sps.id)?;
            } else if self.given != Some(sps.id) {
                return Ok(Some("its parameter set changes where it cannot".into()));
            }
            if id.lines != Lines::Frame {
                self.field = Some((id, number));
            }
        }
        self.history.note(header);
        let colour = sps.colour.or(self.hint).resolve();
        let colour = colour.ok_or_else(|| unsupported("with this colour matrix"))?;
        let shape = Shape { width: sps.width, height: sps.height, layout: sps.layout(), colour };
        self.open = Some(Open {
            id,
            header: header.clone(),
            sps: sps.clone(),
            shape,
            next: 0,
            exact: true,
            total: header.macroblocks(sps),
        });
        Ok(fault)
    }

    /// Gives the crate the parameter sets.
    fn give(&mut self, sps: u32) -> Result<(), Broken> {
        if self.given == Some(sps) {
            return Ok(());
        }
        for bytes in self.sets.bytes(sps) {
            let Ok(nal) = Nal::parse(&bytes) else { continue };
            let kind = if nal.kind == Type::Sps { NalUnitType::Sps } else { NalUnitType::Pps };
            let unit = NalUnit { nal_ref_idc: nal.reference, nal_unit_type: kind, rbsp: nal.payload() };
            match self.inner.feed(&unit) {
                // A set that is wrong but not used does no harm; a slice that uses it is an error.
                Ok(_) | Err(DecodeError::UnexpectedEof | DecodeError::InvalidSyntax(_)) => {}
                Err(DecodeError::Unsupported(_)) => {}
            }
        }
        self.given = Some(sps);
        Ok(())
    }

    /// Ends the picture whose slices came, if there is one, and gives it out.
    fn close(&mut self, number: usize, out: &mut Out<'_>) -> Result<Option<String>, Broken> {
        let Some(open) = self.open.take() else { return Ok(None) };
        let missing = (open.exact && open.next < open.total).then(|| "its last slice is missing".to_string());
        let packet = match self.field {
            None => number,
            Some((first, _)) if first == open.id => return Ok(missing),
            Some((_, packet)) => packet,
        };
        self.field = None;
        let inner = match &mut self.inner {
            Inner::Serial(inner) => inner,
            Inner::Threads(threads) => {
                let expected = threads.expect(packet, &open.header, &open.sps, open.shape) && threads.give(out);
                return Ok(missing.or_else(|| (!expected).then(|| "its picture is uncertain".into())));
            }
        };
        match inner.flush().map(|frame| open.shape.picture(frame)) {
            Some(Some(picture)) => out(packet, picture),
            Some(None) => return Ok(Some("its picture has another size than it says".into())),
            None => return Ok(Some("it gives no picture".into())),
        }
        Ok(missing)
    }
}

impl Decoder for Pictures {
    fn decode(&mut self, number: usize, packet: &[u8], out: &mut Out<'_>) -> Result<(), Broken> {
        let (nals, mut fault) = nal::split(packet, self.length);
        for nal in &nals {
            fault = fault.or(self.unit(number, nal, out)?);
        }
        fault = fault.or(self.close(number, out)?);
        fault.map_or(Ok(()), |what| Err(Broken::Damaged(number, what)))
    }

    fn finish(&mut self, out: &mut Out<'_>) -> Result<(), Broken> {
        let whole = match &mut self.inner {
            Inner::Serial(inner) => {
                inner.flush();
                true
            }
            Inner::Threads(threads) => threads.finish(out),
        };
        match self.field.take() {
            Some((_, number)) => Err(Broken::Damaged(number, "its second field is missing".into())),
            None if !whole => Err(Broken::Damaged(0, "pictures are uncertain".into())),
            None => Ok(()),
        }
    }
}

impl History {
    /// What is wrong with a picture that comes now.
    fn follows(&self, header: &Header, sps: &Sps) -> Option<String> {
        if header.picture.idr.is_some() {
            return None;
        }
        let Some(last) = self.last else {
            let needs = header.prediction != Prediction::I;
            return needs.then(|| "it needs pictures that are not there".into());
        };
        let now = header.picture.frame_num;
        let next = (last + 1) % (1 << sps.frame_num_bits);
        let gap = now != last && now != next && !sps.gaps;
        (gap && !self.leading_left_out).then(|| "pictures are missing before it".into())
    }

    /// Takes note of a picture.
    fn note(&mut self, header: &Header) {
        // Behind a start that is no IDR picture, pictures that are shown before it are left out, some of which count.
        self.leading_left_out = self.last.is_none() && header.picture.idr.is_none();
        if header.picture.reference {
            let reset = header.marking.iter().any(|mark| mark.operation == 5);
            self.last = Some(if reset { 0 } else { header.picture.frame_num });
        }
    }
}

impl Shape {
    /// Makes a picture of a frame, if the frame is what it should be.
    pub fn picture(self, frame: Frame) -> Option<Picture> {
        let Shape { width, height, layout, colour } = self;
        if (frame.width, frame.height) != (width, height) {
            return None;
        }
        let mut planes = [frame.y, frame.u, frame.v];
        let (chroma_width, chroma_height) = layout.chroma(width, height);
        if layout == Layout::Gray {
            planes = planes.map(|plane| plane);
            let [_, u, v] = &mut planes;
            u.clear();
            v.clear();
        }
        let depth = frame.bit_depth;
        let bytes = if depth > 8 { 2 } else { 1 };
        let sizes = [(width, height), (chroma_width, chroma_height), (chroma_width, chroma_height)];
        let whole = planes.iter().zip(sizes).all(|(plane, (w, h))| plane.len() == w as usize * h as usize * bytes);
        let planes = match bytes {
            _ if !whole => return None,
            1 => Planes::U8(planes),
            _ => Planes::U16(planes.map(words)),
        };
        Some(Picture { width, height, depth, layout, planes, colour })
    }
}

/// Samples of two bytes each, the low one first.
fn words(bytes: Vec<u8>) -> Vec<u16> {
    bytes.chunks_exact(2).map(|pair| pair.try_into().map_or(0, u16::from_le_bytes)).collect()
}
