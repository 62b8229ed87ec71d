//! Codecs: packets in, pictures out.
//!
//! Invariant: a decoder gives a picture for each packet that shows one, says which packet it was, and reports what it
//! found wrong. It never gives another packet's picture for it.

pub mod av1;
mod bits;
mod cabac;
pub mod h264;
pub mod h265;
pub mod vp9;

use super::container::Codec;
use super::picture::{ColourHint, Picture};
use super::{Limits, MediaError};

/// What can be said of a packet without decoding it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Whether decoding can start here: every later packet whose picture is shown later than this one's is then right.
    pub start: bool,
    /// Whether it needs pictures from before the last start (HEVC's RASL): not decodable, and not shown, if decoding
    /// started at that one.
    pub leading: bool,
    /// Whether any other picture may need it. If not, it can be left out.
    pub reference: bool,
    /// Whether it shows a picture.
    pub shows: bool,
}

/// Looks at packets without decoding them. One for a stream; packets come in decoding order.
pub trait Inspector {
    /// What a packet is. The container's word (`key`) counts where the stream has none. `Err` is what is wrong with a
    /// packet's structure; the packet is then taken for one like any other.
    fn inspect(&mut self, packet: &[u8], key: bool) -> Result<Kind, String>;

    /// Where the picture of the packet that was inspected last stands among those of its sequence, if the stream itself
    /// says so.
    fn place(&self) -> Option<Place> {
        None
    }
}

/// Where a picture stands by its stream's own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The sequence, which ends where counting starts anew.
    pub sequence: u32,
    /// The picture order count.
    pub order: i64,
}

/// Decodes packets.
pub trait Decoder {
    /// Takes the next packet in decoding order; `number` is its place in the index. Pictures that are ready go to
    /// `out` with the number of their packet, in any order, at the latest from [`Decoder::finish`]. `Err` is what is wrong with
    /// this packet (or one of those before it that is not out yet); decoding goes on as well as it can.
    fn decode(&mut self, number: usize, packet: &[u8], out: &mut Out<'_>) -> Result<(), Broken>;

    /// The pictures that are still inside.
    fn finish(&mut self, out: &mut Out<'_>) -> Result<(), Broken>;
}

/// Takes pictures as they come.
pub type Out<'a> = dyn FnMut(usize, Picture) + 'a;

/// What a decoder found wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// The stream is damaged here: the number of the packet, and what is wrong with it.
    Damaged(usize, String),
    /// Nothing more can be had: not supported, or over a limit.
    Stop(MediaError),
}

/// The picture order count with these low bits, of which there are `range`, that is nearest to the last one: the same
/// reckoning in H.264 (8.2.1.1) and HEVC (8.3.1). Of two that are as near, the later one.
fn order_count(low: i64, last: i64, range: i64) -> i64 {
    let ahead = (low - last).rem_euclid(range);
    last + if ahead > range / 2 { ahead - range } else { ahead }
}

/// The earliest packet that something is wrong with: those after it need it, and one word is enough.
#[derive(Debug, Default)]
struct Earliest(Option<(usize, String)>);

impl Earliest {
    /// Takes note of what is wrong with a packet.
    fn note(&mut self, number: usize, what: String) {
        if self.0.as_ref().is_none_or(|(earliest, _)| number < *earliest) {
            self.0 = Some((number, what));
        }
    }

    /// Tells what was noted, once.
    fn tell(&mut self) -> Result<(), Broken> {
        self.0.take().map_or(Ok(()), |(number, what)| Err(Broken::Damaged(number, what)))
    }
}

impl From<MediaError> for Broken {
    fn from(error: MediaError) -> Self {
        Broken::Stop(error)
    }
}

/// An inspector for a stream with this codec header.
pub fn inspector(codec: Codec, config: &[u8]) -> Result<Box<dyn Inspector>, MediaError> {
    match codec {
        Codec::H264 => h264::inspector(config),
        Codec::H265 => h265::inspector(config),
        Codec::Vp9 => vp9::inspector(config),
        Codec::Av1 => av1::inspector(config),
    }
}

/// A decoder for a stream with this codec header. `colour` is what the container says; the stream's own word goes before it.
/// It uses up to `threads` threads.
pub fn decoder(
    codec: Codec,
    config: &[u8],
    colour: ColourHint,
    limits: &Limits,
    threads: usize,
) -> Result<Box<dyn Decoder + Send>, MediaError> {
    match codec {
        Codec::H264 => h264::decoder(config, colour, limits, threads),
        Codec::H265 => h265::decoder(config, colour, limits, threads),
        Codec::Vp9 => vp9::decoder(config, colour, limits, threads),
        Codec::Av1 => av1::decoder(config, colour, limits, threads),
    }
}
