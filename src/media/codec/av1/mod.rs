//! AV1.
//!
//! ```text
//!  packet ──▶ obu ──▶ dav1d ──▶ picture with its packet's number
//!             sizes   rav1d
//! ```
//!
//! Invariant: a picture goes out with the number that its packet was sent with, and a packet that shows a picture either
//! gives one or is reported.

mod dav1d;
mod obu;

use std::collections::BTreeSet;

use self::dav1d::{Decoded, Failure, Library, Settings};
use self::obu::Still;
use super::{Broken, Decoder, Earliest, Inspector, Kind, Out};
use crate::media::picture::{ColourHint, Picture};
use crate::media::{Limits, MediaError};

/// The fewest threads and pictures at once. With one, the library takes another way through a frame that is not valid, on
/// which it ends the process.
const FEWEST: usize = 2;
/// The most pictures that are decoded at once. Each takes the memory of a whole picture.
const MOST_DELAY: usize = 4;
/// How often the library is asked for a picture before it is given up: more than a packet can have frames that are shown.
const MOST_TRIES: usize = 256;

/// An inspector for a stream with this `av1C` record.
pub fn inspector(config: &[u8]) -> Result<Box<dyn Inspector>, MediaError> {
    let mut still = Still::default();
    let sequence = sequence(config, &mut still).is_some();
    Ok(Box::new(Look { still, sequence }))
}

/// A decoder for a stream with this `av1C` record.
pub fn decoder(
    config: &[u8],
    colour: ColourHint,
    limits: &Limits,
    threads: usize,
) -> Result<Box<dyn Decoder + Send>, MediaError> {
    let threads = threads.max(FEWEST);
    let settings = Settings { threads, delay: threads.min(MOST_DELAY), pixels: limits.pixels };
    let library = Library::open(&settings);
    let library = library.ok_or_else(|| MediaError::Crashed("the AV1 decoder cannot be opened".into()))?;
    let mut still = Still::default();
    let sequence = sequence(config, &mut still).map(<[u8]>::to_vec);
    Ok(Box::new(Av1 {
        library,
        limits: *limits,
        colour,
        still,
        sequence,
        waiting: BTreeSet::new(),
        fault: Earliest::default(),
    }))
}

/// The OBUs of an `av1C` record if there is a sequence header among them.
fn sequence<'a>(config: &'a [u8], still: &mut Still) -> Option<&'a [u8]> {
    let obus = config.get(4..)?;
    let summary = obu::look(&obu::split(obus).ok()?, still).ok()?;
    summary.sequence.then_some(obus)
}

/// Looks at packets.
struct Look {
    still: Still,
    sequence: bool,
}

impl Inspector for Look {
    fn inspect(&mut self, packet: &[u8], key: bool) -> Result<Kind, String> {
        let summary = obu::look(&obu::split(packet)?, &mut self.still)?;
        let start = key && summary.key && (summary.sequence || self.sequence);
        Ok(Kind { start, leading: false, reference: true, shows: summary.shows })
    }
}

/// The decoder.
struct Av1 {
    library: Library,
    limits: Limits,
    colour: ColourHint,
    still: Still,
    /// The sequence header of the configuration, until the first packet came.
    sequence: Option<Vec<u8>>,
    /// The packets whose pictures are not out yet.
    waiting: BTreeSet<usize>,
    fault: Earliest,
}

impl Decoder for Av1 {
    fn decode(&mut self, number: usize, packet: &[u8], out: &mut Out<'_>) -> Result<(), Broken> {
        // The library reads OBUs whose sizes were checked here, or none.
        let damaged = |what| Broken::Damaged(number, what);
        let summary = obu::split(packet).and_then(|obus| obu::look(&obus, &mut self.still)).map_err(damaged)?;
        if let Some(sequence) = self.sequence.take()
            && !summary.sequence
        {
            self.send(number, &sequence, out)?;
        }
        if summary.shows {
            self.waiting.insert(number);
        } else {
            // The standard has one shown frame in each packet.
            self.fault.note(number, "the packet shows no picture".into());
        }
        self.send(number, packet, out)?;
        // Once: if it is asked again, the library waits for all the pictures inside.
        self.take_one(number, out)?;
        self.fault.tell()
    }

    fn finish(&mut self, out: &mut Out<'_>) -> Result<(), Broken> {
        let last = self.waiting.last().copied().unwrap_or(0);
        self.take_all(last, out)?;
        self.lost(usize::MAX);
        self.fault.tell()
    }
}

impl Av1 {
    /// Gives the library a packet. As long as it has no room for it, it goes on with what it has if a picture is asked for.
    fn send(&mut self, number: usize, packet: &[u8], out: &mut Out<'_>) -> Result<(), Broken> {
        let mark = i64::try_from(number).unwrap_or(i64::MAX);
        for _ in 0..MOST_TRIES {
            match self.library.send(mark, packet) {
                Ok(()) => return Ok(()),
                Err(Failure::Again) => self.take_one(number, out)?,
                Err(failure) => return self.failed(number, failure),
            };
        }
        self.fault.note(number, "the decoder takes no more packets".into());
        Ok(())
    }

    /// Takes all the pictures inside.
    fn take_all(&mut self, number: usize, out: &mut Out<'_>) -> Result<(), Broken> {
        // The library only waits for pictures if it had none the time before, and each failure is about one of them too.
        let mut empty = 0;
        for _ in 0..MOST_TRIES {
            if !self.take_one(number, out)? {
                empty += 1;
            }
            if empty > 1 {
                break;
            }
        }
        Ok(())
    }

    /// Takes a picture or a failure; whether there was one.
    fn take_one(&mut self, number: usize, out: &mut Out<'_>) -> Result<bool, Broken> {
        match self.library.take() {
            Ok(Some(decoded)) => self.give(decoded, out)?,
            Ok(None) => self.fault.note(number, "no picture that can be used came of it".into()),
            Err(Failure::Again) => return Ok(false),
            Err(failure) => self.failed(number, failure)?,
        }
        Ok(true)
    }

    /// Hands a picture out.
    fn give(&mut self, decoded: Decoded, out: &mut Out<'_>) -> Result<(), Broken> {
        let Ok(number) = usize::try_from(decoded.number) else {
            return Ok(());
        };
        // Pictures come in the order of their packets.
        self.lost(number);
        if !self.waiting.remove(&number) {
            self.fault.note(number, "the packet shows more than one picture".into());
            return Ok(());
        }
        let Decoded { width, height, depth, layout, planes, colour, .. } = decoded;
        self.limits.check_size(width.into(), height.into())?;
        let Some(colour) = colour.or(self.colour).resolve() else {
            let what = "the video's colour matrix is not supported; ffmpeg can decode it (--decoder ffmpeg)";
            return Err(Broken::Stop(MediaError::Unsupported(what.into())));
        };
        out(number, Picture { width, height, depth, layout, planes, colour });
        Ok(())
    }

    /// No picture comes of the packets before this one that still wait for theirs.
    fn lost(&mut self, number: usize) {
        while let Some(&first) = self.waiting.first()
            && first < number
        {
            self.waiting.remove(&first);
            self.fault.note(first, "no picture came of it".into());
        }
    }

    fn failed(&mut self, number: usize, failure: Failure) -> Result<(), Broken> {
        if failure == Failure::TooLarge {
            let most = self.limits.pixels;
            let what = format!("the picture has more pixels than the {most} that are allowed (--max-pixels)");
            return Err(Broken::Stop(MediaError::Limit(what)));
        }
        let oldest = self.waiting.first().copied().unwrap_or(number);
        let known = self.library.failed().and_then(|number| usize::try_from(number).ok());
        let number = known.unwrap_or(oldest);
        self.waiting.remove(&number);
        self.fault.note(number, "the frame is not valid".into());
        Ok(())
    }
}
