//! The one place that talks to the rav1d library, which has the interface of dav1d and no other.
//!
//! Invariant: what this module hands out is safe to use. Each data and picture that the library lends is given back once,
//! and nothing of it is used afterwards; the samples are copied out before.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use rav1d::include::dav1d::common::Dav1dDataProps;
use rav1d::include::dav1d::data::Dav1dData;
use rav1d::include::dav1d::dav1d::{Dav1dContext, Dav1dLogger, Dav1dSettings};
use rav1d::include::dav1d::headers::{
    DAV1D_PIXEL_LAYOUT_I400, DAV1D_PIXEL_LAYOUT_I420, DAV1D_PIXEL_LAYOUT_I422, DAV1D_PIXEL_LAYOUT_I444,
};
use rav1d::include::dav1d::picture::Dav1dPicture;
use rav1d::src::lib::{
    dav1d_close, dav1d_data_create, dav1d_data_props_unref, dav1d_data_unref, dav1d_default_settings,
    dav1d_get_decode_error_data_props, dav1d_get_picture, dav1d_open, dav1d_picture_unref, dav1d_send_data,
};

use crate::media::picture::{ColourHint, Layout, Planes};

/// What the library says when it wants a picture taken, or has none.
const AGAIN: c_int = -11;
/// What it says of a picture over the size limit.
const RANGE: c_int = -34;

/// A decoder.
pub(super) struct Library {
    context: Option<Dav1dContext>,
}

// SAFETY: the context is the library's reference-counted pointer to a struct that its own worker threads share; nothing
// in it belongs to the thread that opened it. It is only used through `&mut self` here, so by one thread at a time.
unsafe impl Send for Library {}

/// What the library is to do.
pub(super) struct Settings {
    pub threads: usize,
    pub delay: usize,
    pub pixels: u64,
}

/// Why the library gave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// It has to be asked for pictures first, or has none yet.
    Again,
    /// The picture is larger than the limit.
    TooLarge,
    /// The stream is not valid; the number is the library's.
    Invalid(c_int),
}

impl Failure {
    fn check(code: c_int) -> Result<(), Self> {
        match code {
            0 => Ok(()),
            AGAIN => Err(Failure::Again),
            RANGE => Err(Failure::TooLarge),
            code => Err(Failure::Invalid(code)),
        }
    }
}

/// A picture.
pub(super) struct Decoded {
    /// The number that its packet was sent with.
    pub number: i64,
    pub width: u32,
    pub height: u32,
    pub depth: u8,
    pub layout: Layout,
    pub planes: Planes,
    pub colour: ColourHint,
}

impl Library {
    /// Opens a decoder. `None` if the library refuses.
    pub(super) fn open(settings: &Settings) -> Option<Self> {
        let mut values = MaybeUninit::<Dav1dSettings>::uninit();
        // SAFETY: the pointer is valid for writes, and the function writes all of it.
        let mut values = unsafe {
            dav1d_default_settings(NonNull::from(&mut values).cast());
            values.assume_init()
        };
        values.n_threads = c_int::try_from(settings.threads.clamp(1, 256)).ok()?;
        values.max_frame_delay = c_int::try_from(settings.delay.clamp(1, 256)).ok()?;
        values.frame_size_limit = u32::try_from(settings.pixels).unwrap_or(u32::MAX);
        values.apply_grain = 1;
        values.all_layers = 0;
        values.operating_point = 0;
        values.strict_std_compliance = 0;
        // SAFETY: without a callback there is nothing that could be called in a wrong way; it means no messages.
        values.logger = unsafe { Dav1dLogger::new(None, None) };
        let mut context = None;
        // SAFETY: both pointers are to live local values; the settings are read, the context is written.
        let code = unsafe { dav1d_open(Some(NonNull::from(&mut context)), Some(NonNull::from(&mut values))) };
        Failure::check(code.0).ok()?;
        context.is_some().then_some(Self { context })
    }

    /// Sends a packet. With `Failure::Again` it was not taken; pictures have to be taken first.
    pub(super) fn send(&mut self, number: i64, packet: &[u8]) -> Result<(), Failure> {
        if packet.is_empty() {
            return Ok(());
        }
        let mut data = Dav1dData::default();
        // SAFETY: the pointer is to a live local value, which the function overwrites. An empty `Dav1dData` owns nothing.
        let bytes = unsafe { dav1d_data_create(Some(NonNull::from(&mut data)), packet.len()) };
        let bytes = NonNull::new(bytes).ok_or(Failure::Invalid(0))?;
        // SAFETY: the library just made a buffer of this length, which nobody else knows of; it cannot overlap the packet.
        unsafe { bytes.as_ptr().copy_from_nonoverlapping(packet.as_ptr(), packet.len()) };
        data.m.timestamp = number;
        // SAFETY: the context is open (it closes on drop only) and the pointer is to a live local value.
        let code = unsafe { dav1d_send_data(self.context, Some(NonNull::from(&mut data))) };
        // SAFETY: the pointer is to a live local value; what the library did not take is given back, which is nothing
        // where it took it.
        unsafe { dav1d_data_unref(Some(NonNull::from(&mut data))) };
        Failure::check(code.0)
    }

    /// Takes a picture.
    pub(super) fn take(&mut self) -> Result<Option<Decoded>, Failure> {
        let mut picture = Dav1dPicture::default();
        // SAFETY: the context is open and the pointer is to a live local value. An empty picture owns nothing.
        let code = unsafe { dav1d_get_picture(self.context, Some(NonNull::from(&mut picture))) };
        let result = Failure::check(code.0);
        let decoded = result.map(|()| copy(&picture));
        // SAFETY: the pointer is to a live local value that came from the library; it is not used after this.
        unsafe { dav1d_picture_unref(Some(NonNull::from(&mut picture))) };
        decoded
    }

    /// The number of the packet that the last failure was in, if the library knows.
    pub(super) fn failed(&mut self) -> Option<i64> {
        let mut props = Dav1dDataProps::default();
        // SAFETY: the context is open and the pointer is to a live local value that owns nothing.
        let code = unsafe { dav1d_get_decode_error_data_props(self.context, Some(NonNull::from(&mut props))) };
        let number = props.timestamp;
        // SAFETY: the pointer is to a live local value that came from the library; it is not used after this.
        unsafe { dav1d_data_props_unref(Some(NonNull::from(&mut props))) };
        (code.0 == 0 && number >= 0).then_some(number)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the pointer is to the field that `dav1d_open` filled; the function leaves `None` there.
        unsafe { dav1d_close(Some(NonNull::from(&mut self.context))) };
    }
}

/// Copies a picture out. `None` if it is not one that this program knows.
fn copy(picture: &Dav1dPicture) -> Option<Decoded> {
    let (width, height) = (u32::try_from(picture.p.w).ok()?, u32::try_from(picture.p.h).ok()?);
    let layout = match picture.p.layout {
        DAV1D_PIXEL_LAYOUT_I400 => Layout::Gray,
        DAV1D_PIXEL_LAYOUT_I420 => Layout::Yuv420,
        DAV1D_PIXEL_LAYOUT_I422 => Layout::Yuv422,
        DAV1D_PIXEL_LAYOUT_I444 => Layout::Yuv444,
        _ => return None,
    };
    let depth = u8::try_from(picture.p.bpc).ok().filter(|depth| matches!(depth, 8 | 10 | 12))?;
    // SAFETY: a picture that the library gave holds a reference to its sequence header until it is given back, which the
    // caller does after this.
    let sequence = unsafe { picture.seq_hdr?.as_ref() };
    let colour = ColourHint { matrix: u8::try_from(sequence.mtrx).ok(), full_range: Some(sequence.color_range != 0) };
    let planes = if depth == 8 {
        Planes::U8(planes(picture, (width, height), layout)?)
    } else {
        Planes::U16(planes(picture, (width, height), layout)?)
    };
    Some(Decoded { number: picture.m.timestamp, width, height, depth, layout, planes, colour })
}

/// Copies the planes out. `Sample` must be `u8` for pictures of 8 bits and `u16` for others.
fn planes<Sample: Copy>(picture: &Dav1dPicture, size: (u32, u32), layout: Layout) -> Option<[Vec<Sample>; 3]> {
    let mut planes = [const { Vec::new() }; 3];
    for (place, plane) in planes.iter_mut().enumerate() {
        let (width, height) = if place == 0 { size } else { layout.chroma(size.0, size.1) };
        if width == 0 || height == 0 {
            continue;
        }
        let (width, height) = (usize::try_from(width).ok()?, usize::try_from(height).ok()?);
        let start = (*picture.data.get(place)?)?.cast::<Sample>();
        let stride = *picture.stride.get(usize::from(place > 0))?;
        plane.try_reserve_exact(width.checked_mul(height)?).ok()?;
        for row in 0..height {
            let offset = stride.checked_mul(isize::try_from(row).ok()?)?;
            // SAFETY: the library's planes have `stride` bytes from row to row and at least as many rows, and samples in
            // each row, as the size and layout say; samples are aligned, as rows are to 64 bytes. The picture is not given
            // back before this returns, and the library no longer writes to one that it gave out.
            let samples = unsafe { std::slice::from_raw_parts(start.as_ptr().byte_offset(offset), width) };
            plane.extend_from_slice(samples);
        }
    }
    Some(planes)
}
