//! NAL units: from a packet to what is in it.
//!
//! Invariant: the lengths of a packet's units add up to the packet, or it is said that they do not.

use std::borrow::Cow;

use crate::media::MediaError;

/// The `avcC` record: how packets are cut, and the parameter sets.
#[derive(Debug, Clone)]
pub struct Config<'a> {
    /// How many bytes a unit's length has.
    pub length: usize,
    /// The parameter sets, the sequence's first.
    pub sets: Vec<&'a [u8]>,
}

impl<'a> Config<'a> {
    /// Reads the record.
    pub fn parse(record: &'a [u8]) -> Result<Self, MediaError> {
        Self::read(record).ok_or_else(|| MediaError::Damaged("the H.264 header (avcC) is damaged".into()))
    }

    fn read(record: &'a [u8]) -> Option<Self> {
        let [1, _, _, _, length, sequences, rest @ ..] = record else { return None };
        let mut sets = Vec::new();
        let mut rest = take(rest, sequences & 31, &mut sets)?;
        // Some writers leave the picture parameter sets to the packets, and their count with them.
        if let Some((&pictures, after)) = rest.split_first() {
            rest = after;
            take(rest, pictures, &mut sets)?;
        }
        let length = usize::from(length & 3) + 1;
        (length != 3).then_some(Self { length, sets })
    }
}

/// Takes `count` units with two bytes of length each; what follows them.
fn take<'a>(mut rest: &'a [u8], count: u8, sets: &mut Vec<&'a [u8]>) -> Option<&'a [u8]> {
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        sets.push(after.get(..length).filter(|set| !set.is_empty())?);
        rest = after.get(length..)?;
    }
    Some(rest)
}

/// What is in a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A slice, and whether it is of an IDR picture.
    Slice {
        /// Whether it is.
        idr: bool,
    },
    /// A slice whose data is in three units, of the Extended profile.
    Partition,
    /// Supplemental information.
    Sei,
    /// A sequence parameter set.
    Sps,
    /// A picture parameter set.
    Pps,
    /// Delimiters, end marks and filler.
    Empty,
    /// Extensions that the base decoder leaves out, and what nobody specified.
    Other(u8),
}

/// A unit.
#[derive(Debug, Clone)]
pub struct Nal<'a> {
    /// What is in it.
    pub kind: Type,
    /// `nal_ref_idc`: not 0 if other pictures may need it.
    pub reference: u8,
    /// All of it, with its header.
    pub bytes: &'a [u8],
}

impl<'a> Nal<'a> {
    /// Reads the header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let Some(&header) = bytes.first() else { return Err("a NAL unit is empty".into()) };
        if header & 0x80 != 0 {
            return Err("a NAL unit has its forbidden bit set".into());
        }
        let kind = match header & 31 {
            1 => Type::Slice { idr: false },
            2..=4 => Type::Partition,
            5 => Type::Slice { idr: true },
            6 => Type::Sei,
            7 => Type::Sps,
            8 => Type::Pps,
            9..=12 => Type::Empty,
            other => Type::Other(other),
        };
        Ok(Self { kind, reference: header >> 5 & 3, bytes })
    }

    /// Its payload, without the bytes that keep start codes out of it.
    pub fn payload(&self) -> Cow<'a, [u8]> {
        unescape(self.bytes.get(1..).unwrap_or_default())
    }

    /// The beginning of its payload: long enough for any slice header that is not meant to be a burden.
    pub fn head(&self) -> Cow<'a, [u8]> {
        unescape(self.bytes.get(1..self.bytes.len().min(1024)).unwrap_or_default())
    }
}

/// Takes out the bytes that keep start codes out.
fn unescape(bytes: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = escape(bytes, 0) else { return Cow::Borrowed(bytes) };
    let mut out = Vec::with_capacity(bytes.len());
    let (mut from, mut next) = (0, Some(first));
    while let Some(at) = next {
        out.extend_from_slice(bytes.get(from..at).unwrap_or_default());
        from = at + 1;
        next = escape(bytes, from);
    }
    out.extend_from_slice(bytes.get(from..).unwrap_or_default());
    Cow::Owned(out)
}

/// Where two zeros stand side by side, from `from` on.
fn zeros(bytes: &[u8], from: usize) -> impl Iterator<Item = usize> + '_ {
    let rest = bytes.get(from..).unwrap_or_default();
    rest.windows(2).enumerate().filter(|(_, pair)| *pair == [0, 0]).map(move |(at, _)| from + at)
}

/// The place of the next 3 after two zeros.
fn escape(bytes: &[u8], from: usize) -> Option<usize> {
    zeros(bytes, from).map(|at| at + 2).find(|&at| bytes.get(at) == Some(&3))
}

/// Cuts a packet into its units. The units before the place where it goes wrong are there even so.
pub fn split(packet: &[u8], length: usize) -> (Vec<Nal<'_>>, Option<String>) {
    let mut nals = Vec::new();
    let mut fault = None;
    let mut rest = packet;
    while !rest.is_empty() {
        let Some((head, after)) = rest.split_at_checked(length) else {
            fault = Some("bytes are left over after its last NAL unit".into());
            break;
        };
        let size = head.iter().fold(0usize, |size, &byte| size << 8 | usize::from(byte));
        let Some((bytes, after)) = after.split_at_checked(size) else {
            fault = Some("a NAL unit is longer than the packet".into());
            break;
        };
        rest = after;
        match Nal::parse(bytes) {
            Ok(nal) => nals.push(nal),
            Err(what) => fault = fault.or(Some(what)),
        }
    }
    (nals, fault)
}
