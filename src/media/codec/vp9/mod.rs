//! VP9.
//!
//! A packet is a frame, or a superframe: a few frames of which one, as a rule the last, is shown.
//!
//! Invariant: no frame goes to the decoder whose header was not read here first, so that its size is known to be within
//! the limits and the frames that it needs are known to be there.

mod header;

use oxideav_vp9::{Vp9DecodedFrame, Vp9SequenceDecoder};

use self::header::{Header, Slot, Slots, read, split};
use super::{Broken, Decoder, Inspector, Kind, Out};
use crate::media::picture::{Colour, ColourHint, Layout, Picture, Planes};
use crate::media::{Limits, MediaError};

/// An inspector. VP9's configuration says nothing that its frames do not say.
pub fn inspector(_config: &[u8]) -> Result<Box<dyn Inspector>, MediaError> {
    Ok(Box::new(Look))
}

/// A decoder.
pub fn decoder(
    _config: &[u8],
    colour: ColourHint,
    limits: &Limits,
    _threads: usize,
) -> Result<Box<dyn Decoder + Send>, MediaError> {
    Ok(Box::new(Vp9 { inner: Vp9SequenceDecoder::new(), slots: Slots::default(), limits: *limits, colour }))
}

/// Looks at packets.
struct Look;

impl Inspector for Look {
    fn inspect(&mut self, packet: &[u8], _key: bool) -> Result<Kind, String> {
        let mut kind = Kind { start: false, leading: false, reference: true, shows: false };
        for (place, frame) in split(packet)?.into_iter().enumerate() {
            // What it refers to is the decoder's to check.
            match read(frame, None)? {
                Header::Existing(_) => kind.shows = true,
                Header::Coded(coded) => {
                    kind.start |= place == 0 && coded.key;
                    kind.shows |= coded.shown;
                }
            }
        }
        Ok(kind)
    }
}

/// The decoder.
struct Vp9 {
    inner: Vp9SequenceDecoder,
    slots: Slots,
    limits: Limits,
    colour: ColourHint,
}

impl Decoder for Vp9 {
    fn decode(&mut self, number: usize, packet: &[u8], out: &mut Out<'_>) -> Result<(), Broken> {
        let damaged = |what: String| Broken::Damaged(number, what);
        let mut shown = None;
        let mut result = Ok(());
        for frame in split(packet).map_err(damaged)? {
            match self.frame(frame) {
                Ok(None) => (),
                Ok(Some(picture)) if shown.is_none() => shown = Some(picture),
                Ok(Some(_)) => result = result.and(Err(damaged("the packet shows more than one picture".into()))),
                Err(Wrong::Damaged(what)) => result = result.and(Err(damaged(what))),
                Err(Wrong::Stop(error)) => return Err(Broken::Stop(error)),
            }
        }
        if let Some(picture) = shown {
            out(number, picture);
        }
        result
    }

    fn finish(&mut self, _out: &mut Out<'_>) -> Result<(), Broken> {
        Ok(())
    }
}

/// Why a frame gave no picture.
enum Wrong {
    Damaged(String),
    Stop(MediaError),
}

impl Vp9 {
    /// Decodes one frame; its picture if it is shown.
    fn frame(&mut self, frame: &[u8]) -> Result<Option<Picture>, Wrong> {
        let header = read(frame, Some(&self.slots)).map_err(Wrong::Damaged)?;
        let (slot, shown) = match &header {
            Header::Existing(slot) => (*slot, true),
            Header::Coded(coded) => (coded.slot, coded.shown),
        };
        self.limits.check_size(slot.width.into(), slot.height.into()).map_err(|error| match error {
            MediaError::Damaged(what) => Wrong::Damaged(what),
            error => Wrong::Stop(error),
        })?;
        let Some(colour) = slot.colour.or(self.colour).resolve() else {
            let what = "the video's colour matrix is not supported; ffmpeg can decode it (--decoder ffmpeg)";
            return Err(Wrong::Stop(MediaError::Unsupported(what.into())));
        };
        let decoded = self.inner.push_frame(frame).map_err(|error| Wrong::Damaged(said(error)))?;
        if let Header::Coded(coded) = header {
            self.slots.update(&coded);
        }
        match decoded {
            Some(decoded) if shown => match picture(decoded, slot, colour) {
                Some(picture) => Ok(Some(picture)),
                None => Err(Wrong::Damaged("no whole picture came of it".into())),
            },
            None if shown => Err(Wrong::Damaged("no picture came of it".into())),
            _ => Ok(None),
        }
    }
}

/// What the decoder found wrong.
fn said(error: oxideav_vp9::Error) -> String {
    use oxideav_vp9::Error;
    match error {
        Error::UnexpectedEof => "the frame ends too early".into(),
        Error::InvalidBitstream => "the frame is not valid".into(),
        error => error.to_string(),
    }
}

/// The decoder's picture as this program has it. `None` if it is not what the header said.
fn picture(frame: Vp9DecodedFrame, slot: Slot, colour: Colour) -> Option<Picture> {
    let (width, height) = (frame.width, frame.height);
    let layout = match (frame.subsampling_x, frame.subsampling_y) {
        (true, true) => Layout::Yuv420,
        (true, false) => Layout::Yuv422,
        (false, true) => Layout::Yuv440,
        (false, false) => Layout::Yuv444,
    };
    let (across, down) = layout.chroma(width, height);
    let whole = |plane: &[u16], across: u32, down: u32| plane.len() as u64 == u64::from(across) * u64::from(down);
    if (width, height) != (slot.width, slot.height)
        || !whole(&frame.y, width, height)
        || !whole(&frame.u, across, down)
        || !whole(&frame.v, across, down)
    {
        return None;
    }
    let planes = [frame.y, frame.u, frame.v];
    let planes = if frame.bit_depth == 8 {
        // Samples of 8 bits are at most 255.
        Planes::U8(planes.map(|plane| plane.into_iter().map(|sample| sample as u8).collect()))
    } else {
        Planes::U16(planes)
    };
    Some(Picture { width, height, depth: frame.bit_depth, layout, planes, colour })
}
