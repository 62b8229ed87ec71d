//! Several pictures at a time.
//!
//! The crate's threaded decoder gives pictures in an order of its own, without a word on where they come from. So what
//! it will give next is worked out here, and each picture has to be the one that is expected: at its place, and with
//! its picture order count. At the first that is not, or the first sign of damage, the pictures that are not out yet are
//! decoded again, one by one, and so is everything after them.
//!
//! Invariant: the packets of all pictures that are not out yet are kept, back to one where decoding can start.

use std::collections::VecDeque;

use rust_h264::decoder::Frame;
use rust_h264::error::DecodeError;
use rust_h264::nal::NalUnit;
use rust_h264::threading::ThreadedDecoder;

use super::decode::{Pictures, Shape};
use super::params::{Order, Sps};
use super::sets::Sets;
use super::slice::Header;
use crate::media::Limits;
use crate::media::codec::{Broken, Decoder, Out, order_count};
use crate::media::picture::ColourHint;

/// The most bytes of packets that are kept.
const KEPT: usize = 256 << 20;

/// The crate's threaded decoder, and what is expected of it.
pub struct Threads {
    inner: ThreadedDecoder,
    frames: Vec<Frame>,
    /// Pictures that went in and do not have to come out yet.
    held: Vec<Expected>,
    /// Pictures in the order in which they come out.
    next: VecDeque<Expected>,
    /// How many IDR pictures there were: what comes after one comes out after all before it.
    period: u64,
    count: Count,
}

/// A picture that is expected.
struct Expected {
    period: u64,
    order: i64,
    packet: usize,
    shape: Shape,
}

/// What the picture order count is reckoned from (ITU-T H.264, 8.2.1).
#[derive(Default)]
struct Count {
    /// The count of the last reference picture.
    last: i64,
    frame_num: i64,
    offset: i64,
}

impl Threads {
    /// With this many pictures at a time.
    pub fn new(threads: usize) -> Self {
        Self {
            inner: ThreadedDecoder::with_max_depth(threads, 1),
            frames: Vec::new(),
            held: Vec::new(),
            next: VecDeque::new(),
            period: 0,
            count: Count::default(),
        }
    }

    /// Takes a unit.
    pub fn feed(&mut self, unit: &NalUnit<'_>) -> Result<(), DecodeError> {
        self.frames.extend(self.inner.decode_nal(unit)?);
        Ok(())
    }

    /// Takes note of a picture that went in; `false` if it is of a kind that is left to the serial decoder.
    pub fn expect(&mut self, packet: usize, header: &Header, sps: &Sps, shape: Shape) -> bool {
        if header.picture.idr.is_some() {
            self.period += 1;
        }
        let Some(order) = self.count.order(header, sps) else { return false };
        let period = self.period;
        // As the crate does it: what is before an IDR picture comes out first, and then, one picture is held back.
        self.held.sort_by_key(|held| (held.period, held.order));
        let before = self.held.iter().take_while(|held| held.period < period).count();
        self.next.extend(self.held.drain(..before));
        self.held.push(Expected { period, order, packet, shape });
        if self.held.len() > 1 {
            self.held.sort_by_key(|held| (held.period, held.order));
            self.next.push_back(self.held.remove(0));
        }
        true
    }

    /// Gives out the pictures that are ready; `false` if one is not what was expected.
    pub fn give(&mut self, out: &mut Out<'_>) -> bool {
        for frame in self.frames.drain(..) {
            let order = i64::from(frame.pic_order_cnt);
            let expected = self.next.pop_front().filter(|expected| expected.order == order);
            let Some((packet, picture)) = expected.and_then(|it| Some((it.packet, it.shape.picture(frame)?))) else {
                return false;
            };
            out(packet, picture);
        }
        true
    }

    /// Gives out all the others; `false` if they are not what was expected.
    pub fn finish(&mut self, out: &mut Out<'_>) -> bool {
        self.frames.extend(self.inner.flush());
        self.held.sort_by_key(|held| (held.period, held.order));
        self.next.extend(self.held.drain(..));
        self.give(out) && self.next.is_empty()
    }
}

impl Count {
    /// The picture order count of a frame; `None` where it takes more to tell.
    fn order(&mut self, header: &Header, sps: &Sps) -> Option<i64> {
        let picture = &header.picture;
        let reset = header.marking.iter().any(|mark| mark.operation == 5);
        if reset || !sps.frames_only {
            return None;
        }
        if picture.idr.is_some() {
            *self = Self::default();
        }
        match sps.order {
            Order::Bits(bits) => {
                let [low, bottom] = picture.order;
                let order = order_count(low, self.last, 1 << bits);
                if picture.reference {
                    self.last = order;
                }
                Some(order + bottom.min(0))
            }
            Order::Decoding => {
                let frame_num = i64::from(picture.frame_num);
                if self.frame_num > frame_num {
                    self.offset += 1 << sps.frame_num_bits;
                }
                self.frame_num = frame_num;
                Some(2 * (self.offset + frame_num) - i64::from(!picture.reference))
            }
            Order::Cycle { .. } => None,
        }
    }
}

/// Decodes packets, several at a time as long as all is well.
pub struct Parallel {
    front: Option<Pictures>,
    serial: Option<Pictures>,
    kept: VecDeque<Kept>,
    hint: ColourHint,
    limits: Limits,
    length: usize,
    /// How many bytes are kept.
    bytes: usize,
}

/// Packets from a place where decoding can start to the next.
struct Kept {
    /// The parameter sets as they were.
    sets: Sets,
    packets: Vec<(usize, Vec<u8>)>,
    /// The packets whose pictures are not out yet.
    inside: Vec<usize>,
}

impl Parallel {
    /// With `front` as long as all is well.
    pub fn new(front: Pictures, length: usize, hint: ColourHint, limits: Limits) -> Self {
        Self { front: Some(front), serial: None, kept: VecDeque::new(), hint, limits, length, bytes: 0 }
    }

    /// Keeps a packet.
    fn keep(&mut self, number: usize, packet: &[u8], front: &Pictures) {
        if front.starts(packet) || self.kept.is_empty() {
            while let Some(kept) = self.kept.pop_front_if(|kept| kept.inside.is_empty()) {
                self.bytes -= kept.packets.iter().map(|(_, packet)| packet.len()).sum::<usize>();
            }
            let sets = front.sets().clone();
            self.kept.push_back(Kept { sets, packets: Vec::new(), inside: Vec::new() });
        }
        if let Some(kept) = self.kept.back_mut() {
            self.bytes += packet.len();
            kept.packets.push((number, packet.to_vec()));
            kept.inside.push(number);
        }
    }

    /// Decodes what is kept once more, and gives out what is not out yet. What is wrong with the last packet is the
    /// result: nothing was wrong with those before it.
    fn again(&mut self, out: &mut Out<'_>) -> Result<(), Broken> {
        let kept = std::mem::take(&mut self.kept);
        let Some(first) = kept.front() else { return Ok(()) };
        let mut serial = Pictures::new(self.length, first.sets.clone(), self.hint, self.limits, 1)?;
        let mut result = Ok(());
        for kept in &kept {
            for (number, packet) in &kept.packets {
                let mut fresh = |packet: usize, picture| {
                    if kept.inside.contains(&packet) {
                        out(packet, picture);
                    }
                };
                result = serial.decode(*number, packet, &mut fresh);
                if matches!(result, Err(Broken::Stop(_))) {
                    return result;
                }
            }
        }
        self.serial = Some(serial);
        result
    }
}

impl Decoder for Parallel {
    fn decode(&mut self, number: usize, packet: &[u8], out: &mut Out<'_>) -> Result<(), Broken> {
        if let Some(serial) = &mut self.serial {
            return serial.decode(number, packet, out);
        }
        let Some(mut front) = self.front.take() else { return Ok(()) };
        self.keep(number, packet, &front);
        let kept = &mut self.kept;
        let mut noted = |packet: usize, picture| {
            for kept in kept.iter_mut() {
                kept.inside.retain(|&inside| inside != packet);
            }
            out(packet, picture);
        };
        match front.decode(number, packet, &mut noted) {
            Err(Broken::Stop(error)) => Err(error.into()),
            Ok(()) if self.bytes <= KEPT => {
                self.front = Some(front);
                Ok(())
            }
            _ => self.again(out),
        }
    }

    fn finish(&mut self, out: &mut Out<'_>) -> Result<(), Broken> {
        if let Some(mut front) = self.front.take() {
            let kept = &mut self.kept;
            let mut noted = |packet: usize, picture| {
                for kept in kept.iter_mut() {
                    kept.inside.retain(|&inside| inside != packet);
                }
                out(packet, picture);
            };
            if front.finish(&mut noted).is_ok() {
                return Ok(());
            }
            self.again(out)?;
        }
        self.serial.as_mut().map_or(Ok(()), |serial| serial.finish(out))
    }
}
