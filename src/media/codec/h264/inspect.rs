//! What can be said of a packet without decoding it.

use super::nal::{self, Config, Nal, Type};
use super::params::Order;
use super::sets::Sets;
use super::slice::{Header, Lines, PictureId, Prediction};
use crate::media::codec::bits::Bits;
use crate::media::codec::{Inspector, Kind, Place, order_count};

/// Looks at packets.
pub struct Looker {
    length: usize,
    sets: Sets,
    /// Whether a place to start was seen.
    started: bool,
    /// The field of the packet before that waits for its other one.
    field: Option<PictureId>,
    count: Count,
}

impl Looker {
    /// For a stream with this header.
    pub fn new(config: &Config<'_>) -> Self {
        Self { length: config.length, sets: Sets::of(config), started: false, field: None, count: Count::default() }
    }
}

impl Inspector for Looker {
    fn inspect(&mut self, packet: &[u8], key: bool) -> Result<Kind, String> {
        let (nals, mut fault) = nal::split(packet, self.length);
        let (mut idr, mut intra, mut recovery, mut reference, mut slices) = (false, true, false, false, 0u32);
        // One that has nothing but delimiters and parameter sets is no picture, and not wrong.
        let mut plain = true;
        let mut fields: Vec<PictureId> = Vec::new();
        self.count.place = None;
        for nal in &nals {
            match nal.kind {
                Type::Sps | Type::Pps => {
                    if let Err(what) = self.sets.store(nal) {
                        fault.get_or_insert(what.into());
                    }
                }
                Type::Sei => {
                    plain = false;
                    recovery |= recovers(nal).unwrap_or(false);
                }
                Type::Slice { idr: is } => {
                    slices += 1;
                    reference |= nal.reference != 0;
                    let field = slices > 1 && self.field.is_none() && fields.len() > 1;
                    match Header::parse(nal, &nal.head(), &self.sets) {
                        Ok((header, ..)) => {
                            if fields.last() != Some(&header.picture) {
                                fields.push(header.picture);
                            }
                            if fields.len() == 1 && slices == 1 {
                                self.count.take(&header, self.sets.sps(header.picture.sps).map(|sps| sps.order));
                            }
                            // The second field may be predicted from the first.
                            if fields.len() == 1 {
                                idr |= is;
                                intra &= header.prediction == Prediction::I;
                            }
                        }
                        Err(super::slice::HeaderError::Damaged(what)) if !field => {
                            intra = false;
                            idr |= is;
                            fault.get_or_insert(what.into());
                        }
                        Err(_) => idr |= is,
                    }
                }
                Type::Empty => {}
                Type::Partition | Type::Other(_) => plain = false,
            }
        }
        if slices == 0 && !plain {
            fault.get_or_insert("it has no picture".into());
        }
        let second = self.field.take().zip(fields.first()).is_some_and(|(first, second)| first.pairs_with(second));
        if let ([only], false) = (fields.as_slice(), second) {
            self.field = (only.lines != Lines::Frame).then_some(*only);
        }
        if let Some(what) = fault {
            return Err(what);
        }
        let start = slices > 0 && !second && (idr || (intra && (recovery || (key && !self.started))));
        self.started |= start;
        Ok(Kind { start, leading: false, reference, shows: slices > 0 && !second })
    }

    fn place(&self) -> Option<Place> {
        self.count.place
    }
}

/// Counts pictures as the stream does, where each slice header has the low bits of the count.
#[derive(Default)]
struct Count {
    sequence: u32,
    /// The count of the last reference picture.
    last: i64,
    place: Option<Place>,
}

impl Count {
    fn take(&mut self, header: &Header, order: Option<Order>) {
        let Some(Order::Bits(bits)) = order else { return };
        let range = 1_i64 << bits.min(32);
        if header.picture.idr.is_some() {
            self.sequence = self.sequence.wrapping_add(1);
            self.last = 0;
        }
        let [low, _] = header.picture.order;
        let order = order_count(low, self.last, range);
        self.place = Some(Place { sequence: self.sequence, order });
        if header.picture.reference {
            self.last = order;
        }
        // This operation starts the count anew behind the picture.
        if header.marking.iter().any(|mark| mark.operation == 5) {
            self.sequence = self.sequence.wrapping_add(1);
            self.last = 0;
        }
    }
}

/// Whether a unit of supplemental information says that all pictures shown from here on are exact.
fn recovers(nal: &Nal<'_>) -> Option<bool> {
    let payload = nal.payload();
    let mut rest: &[u8] = &payload;
    let number = |rest: &mut &[u8]| -> Option<usize> {
        let mut sum = 0usize;
        loop {
            let (&byte, after) = rest.split_first()?;
            *rest = after;
            sum += usize::from(byte);
            if byte != 255 {
                return Some(sum);
            }
        }
    };
    // The last byte is the stop bit.
    while rest.len() > 1 {
        let kind = number(&mut rest)?;
        let size = number(&mut rest)?;
        let (body, after) = rest.split_at_checked(size)?;
        rest = after;
        if kind == 6 {
            let mut r = Bits::new(body);
            return Some(r.ue()? == 0 && r.bit()? && !r.bit()?);
        }
    }
    Some(false)
}
