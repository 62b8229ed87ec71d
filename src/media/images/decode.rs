//! Image files to RGB.
//!
//! Invariant: a picture comes out whole or not at all. Every error names its file.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read};
use std::path::Path;

use image::codecs::gif::GifDecoder;
use image::codecs::png::PngDecoder;
use image::metadata::Orientation;
use image::{AnimationDecoder, DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, RgbImage, RgbaImage};

use super::{list, webp};
use crate::media::{Limits, MediaError};

/// Delays up to this many milliseconds mean that nobody chose one …
const NO_DELAY: f64 = 10.0;
/// … and are this long then.
const USUAL_DELAY: f64 = 100.0;

/// One composed picture after another, and for how many milliseconds it is shown.
pub(super) type Animation = Box<dyn Iterator<Item = Result<(RgbImage, f64), MediaError>>>;

/// Decodes the only, or the first, picture of a file, and turns it upright.
pub(super) fn still(path: &Path, limits: &Limits) -> Result<RgbImage, MediaError> {
    let Some(format) = list::format(path)? else {
        return Err(MediaError::Damaged(format!("{}: was an image, and is none any more", path.display())));
    };
    // A GIF's only picture is composed as an animation's first one is.
    if format == ImageFormat::Gif
        && let Some(mut frames) = animation(path, format, limits)?
    {
        let none = || Err(MediaError::Damaged(format!("{}: there is no picture in it", path.display())));
        return frames.next().unwrap_or_else(none).map(|(image, _)| image);
    }
    let bytes = read(path, limits)?;
    if format == ImageFormat::Jpeg && !jpeg_ends(&bytes) {
        return Err(MediaError::Damaged(format!("{}: the JPEG is cut off", path.display())));
    }
    let broken = |error| broken(path, error);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(memory(limits));
    let mut decoder = reader.into_decoder().map_err(broken)?;
    check(path, &decoder, limits)?;
    // A note on the picture that cannot be read is no reason to refuse it.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder).map_err(broken)?;
    image.apply_orientation(orientation);
    Ok(rgb(image))
}

/// Starts to decode an animation; `None` if the file has but one picture.
pub(super) fn animation(path: &Path, format: ImageFormat, limits: &Limits) -> Result<Option<Animation>, MediaError> {
    if !matches!(format, ImageFormat::Gif | ImageFormat::Png | ImageFormat::WebP) {
        return Ok(None);
    }
    let bytes = read(path, limits)?;
    let broken = |error| broken(path, error);
    let frames = match format {
        ImageFormat::Gif => {
            let mut decoder = GifDecoder::new(Cursor::new(bytes)).map_err(broken)?;
            check(path, &decoder, limits)?;
            decoder.set_limits(memory(limits)).map_err(broken)?;
            decoder.into_frames()
        }
        ImageFormat::Png => {
            let decoder = PngDecoder::with_limits(Cursor::new(bytes), memory(limits)).map_err(broken)?;
            if !decoder.is_apng().map_err(broken)? {
                return Ok(None);
            }
            check(path, &decoder, limits)?;
            decoder.apng().map_err(broken)?.into_frames()
        }
        _ => {
            let Some((width, height)) = webp::canvas(&bytes) else { return Ok(None) };
            check_size(path, (width, height), u64::from(width) * u64::from(height) * 4, limits)?;
            let frames = webp::Animation::new(path.to_owned(), bytes, (width, height));
            return Ok(Some(Box::new(frames.map(|frame| frame.map(|(image, ms)| shown(image, f64::from(ms)))))));
        }
    };
    let path = path.to_owned();
    Ok(Some(Box::new(frames.map(move |frame| {
        let frame = frame.map_err(|error| self::broken(&path, error))?;
        let (milliseconds, parts) = frame.delay().numer_denom_ms();
        Ok(shown(frame.into_buffer(), f64::from(milliseconds) / f64::from(parts.max(1))))
    }))))
}

/// A composed picture with its delay, or the usual one.
fn shown(image: RgbaImage, milliseconds: f64) -> (RgbImage, f64) {
    let delay = if milliseconds <= NO_DELAY { USUAL_DELAY } else { milliseconds };
    (rgb(DynamicImage::ImageRgba8(image)), delay)
}

/// Refuses a picture by what its header says, before there is memory for its pixels.
fn check(path: &Path, decoder: &impl ImageDecoder, limits: &Limits) -> Result<(), MediaError> {
    check_size(path, decoder.dimensions(), decoder.total_bytes(), limits)
}

fn check_size(path: &Path, (width, height): (u32, u32), bytes: u64, limits: &Limits) -> Result<(), MediaError> {
    limits.check_size(u64::from(width), u64::from(height)).map_err(|error| named(path, error))?;
    if bytes > limits.memory {
        return Err(too_much(path, limits));
    }
    Ok(())
}

fn memory(limits: &Limits) -> image::Limits {
    let mut memory = image::Limits::no_limits();
    memory.max_alloc = Some(limits.memory);
    memory
}

/// A whole file: some decoders would read it all anyway, without asking how large it is.
fn read(path: &Path, limits: &Limits) -> Result<Vec<u8>, MediaError> {
    let io = |error: std::io::Error| MediaError::io(path, &error);
    let file = File::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    limits.check_file(size).map_err(|error| named(path, error))?;
    if size > limits.memory / 2 {
        return Err(too_much(path, limits));
    }
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// Whether a JPEG has an end. The decoder fills what is missing with gray and says nothing, so this has to be asked
/// apart. After the first scan begins, the marker can be nothing but the end; before that, it may be a thumbnail's.
fn jpeg_ends(bytes: &[u8]) -> bool {
    let mut at = 2usize;
    while let Some([0xff, marker, high, low]) = bytes.get(at..at.saturating_add(4)) {
        if *marker == 0xda {
            return bytes.get(at..).is_some_and(|scans| scans.windows(2).any(|pair| pair == [0xff, 0xd9]));
        }
        // Any number of 0xff may stand before a marker.
        at = match *marker {
            0xff => at + 1,
            _ => at + 2 + usize::from(u16::from_be_bytes([*high, *low])),
        };
    }
    // No scan where one should be: the decoder will say what is wrong.
    true
}

/// The pixels as PIL's `convert("RGB")` gives them.
fn rgb(image: DynamicImage) -> RgbImage {
    let (width, height) = (image.width(), image.height());
    let high = |sample: &u16| (sample >> 8) as u8;
    let gray = |samples: &[u16], each: usize| -> Vec<u8> {
        samples.chunks_exact(each).filter_map(|pixel| pixel.first()).flat_map(|luma| [high(luma); 3]).collect()
    };
    let pixels: Vec<u8> = match &image {
        DynamicImage::ImageLuma16(image) => gray(image.as_raw(), 1),
        DynamicImage::ImageLumaA16(image) => gray(image.as_raw(), 2),
        DynamicImage::ImageRgb16(image) => image.as_raw().iter().map(high).collect(),
        DynamicImage::ImageRgba16(image) => {
            image.as_raw().chunks_exact(4).flat_map(|pixel| pixel.iter().take(3).map(high)).collect()
        }
        _ => return image.into_rgb8(),
    };
    // As many as there were pixels, so this is never the empty picture.
    RgbImage::from_raw(width, height, pixels).unwrap_or_default()
}

/// An error of a file that does not say which.
pub(super) fn named(path: &Path, error: MediaError) -> MediaError {
    let name = path.display();
    match error {
        MediaError::Limit(what) => MediaError::Limit(format!("{name}: {what}")),
        MediaError::Damaged(what) => MediaError::Damaged(format!("{name}: {what}")),
        other => other,
    }
}

fn too_much(path: &Path, limits: &Limits) -> MediaError {
    let what = format!("takes more than the {} bytes of memory that are allowed (--max-decode-memory)", limits.memory);
    MediaError::Limit(format!("{}: {what}", path.display()))
}

/// What the `image` crate found wrong with a file.
pub(super) fn broken(path: &Path, error: ImageError) -> MediaError {
    let name = path.display();
    match error {
        ImageError::Limits(what) => MediaError::Limit(format!("{name}: {what} (--max-pixels, --max-decode-memory)")),
        ImageError::Unsupported(what) => MediaError::Unsupported(format!("{name}: {what}")),
        ImageError::IoError(what) if what.kind() == ErrorKind::UnexpectedEof => {
            MediaError::Damaged(format!("{name}: the image is cut off"))
        }
        other => MediaError::Damaged(format!("{name}: {other}")),
    }
}
