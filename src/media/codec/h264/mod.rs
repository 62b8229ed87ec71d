//! H.264: the reconstruction is the `rust_h264` crate's; what is checked before and around it is here.
//!
//! ```text
//!  packet ──▶ nal ──▶ sets, slice ──▶ check ──▶ decode ──▶ pictures
//!             units   headers         data      crate
//! ```
//!
//! The crate decodes exactly and conceals what is damaged without a word. So each slice is read here first, headers and
//! data, without making pixels of it: a damaged slice ends at the wrong place, or has a value out of range.
//!
//! Invariant: a slice that is given to the crate had a sound header, and its picture's size was within the limits.

mod ahead;
mod check;
mod decode;
mod inspect;
mod nal;
mod params;
mod sets;
mod slice;

use super::{Decoder, Inspector};
use crate::media::picture::ColourHint;
use crate::media::{Limits, MediaError};

/// An inspector for a stream with this `avcC` record.
pub fn inspector(config: &[u8]) -> Result<Box<dyn Inspector>, MediaError> {
    Ok(Box::new(inspect::Looker::new(&nal::Config::parse(config)?)))
}

/// A decoder for a stream with this `avcC` record.
pub fn decoder(
    config: &[u8],
    colour: ColourHint,
    limits: &Limits,
    threads: usize,
) -> Result<Box<dyn Decoder + Send>, MediaError> {
    let config = nal::Config::parse(config)?;
    let sets = sets::Sets::of(&config);
    // Fields are left to the serial decoder: which of them make a picture is known too late.
    let threads = if sets.all().all(|sps| sps.frames_only) { threads } else { 1 };
    let pictures = decode::Pictures::new(config.length, sets, colour, *limits, threads)?;
    if threads > 1 {
        return Ok(Box::new(ahead::Parallel::new(pictures, config.length, colour, *limits)));
    }
    Ok(Box::new(pictures))
}
