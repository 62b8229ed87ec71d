//! Which files are the images.
//!
//! Invariant: only regular files are opened, so that no pipe, device or loop of links is ever waited for.

use std::cmp::Ordering;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use image::ImageFormat;

use super::decode::named;
use crate::media::{Limits, MediaError};

/// How many bytes tell what a file is.
const HEAD: u64 = 32;

/// What kind of image a file is, by its first bytes; `None` if it is none that is known here.
pub(super) fn format(path: &Path) -> Result<Option<ImageFormat>, MediaError> {
    let io = |error: std::io::Error| MediaError::io(path, &error);
    // Asked before it is opened: opening a named pipe would wait for ever.
    if !path.metadata().map_err(io)?.is_file() {
        return Err(MediaError::Io {
            path: path.to_owned(),
            what: "is no file; name a video file, a folder of images, or images".to_owned(),
        });
    }
    let mut head = Vec::new();
    File::open(path).map_err(io)?.take(HEAD).read_to_end(&mut head).map_err(io)?;
    Ok(sniff(&head))
}

fn sniff(head: &[u8]) -> Option<ImageFormat> {
    let at = |from: usize, bytes: &[u8]| head.get(from..from + bytes.len()) == Some(bytes);
    if at(0, b"\x89PNG\r\n\x1a\n") {
        Some(ImageFormat::Png)
    } else if at(0, b"\xff\xd8\xff") {
        Some(ImageFormat::Jpeg)
    } else if at(0, b"GIF87a") || at(0, b"GIF89a") {
        Some(ImageFormat::Gif)
    } else if at(0, b"RIFF") && at(8, b"WEBP") {
        Some(ImageFormat::WebP)
    } else if at(0, b"II*\0") || at(0, b"MM\0*") {
        Some(ImageFormat::Tiff)
    } else if at(0, b"BM") && matches!(head.get(14..18), Some([12 | 40 | 52 | 56 | 64 | 108 | 124, 0, 0, 0])) {
        // Two letters are too few to tell: the size of the next header has to be one of those that there are.
        Some(ImageFormat::Bmp)
    } else {
        None
    }
}

/// Files that were listed: all of them have to be images.
pub(super) fn files(paths: &[PathBuf], limits: &Limits) -> Result<Vec<PathBuf>, MediaError> {
    limits.check_frames(paths.len() as u64)?;
    for path in paths {
        if format(path)?.is_none() {
            let what = "is no PNG, JPEG, GIF, WebP, BMP or TIFF; a list of files has to be images";
            return Err(MediaError::Unsupported(format!("{}: {what}", path.display())));
        }
    }
    Ok(paths.to_vec())
}

/// The images of a folder, in the order that people give numbers: `img2` before `img10`. Hidden files, folders and
/// what is no image are left out.
pub(super) fn folder(folder: &Path, limits: &Limits) -> Result<Vec<PathBuf>, MediaError> {
    let io = |error: std::io::Error| MediaError::io(folder, &error);
    let mut named_files = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        // A link that leads nowhere, or to itself, is no file either.
        if name.starts_with('.') || !path.metadata().is_ok_and(|found| found.is_file()) || format(&path)?.is_none() {
            continue;
        }
        named_files.push((name, path));
        limits.check_frames(named_files.len() as u64).map_err(|error| named(folder, error))?;
    }
    if named_files.is_empty() {
        return Err(MediaError::Unsupported(format!("{}: there is no image in the folder", folder.display())));
    }
    named_files.sort_by(|(a, x), (b, y)| natural(a, b).then_with(|| x.cmp(y)));
    Ok(named_files.into_iter().map(|(_, path)| path).collect())
}

/// Compares names so that runs of digits count as numbers; of two that differ only in leading zeros, the plain order
/// of their letters decides.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a, b);
    while !x.is_empty() && !y.is_empty() {
        let (left, right) = (digits(x), digits(y));
        let order = if left > 0 && right > 0 {
            let (p, q) = (x[..left].trim_start_matches('0'), y[..right].trim_start_matches('0'));
            (x, y) = (&x[left..], &y[right..]);
            p.len().cmp(&q.len()).then_with(|| p.cmp(q))
        } else {
            let (mut p, mut q) = (x.chars(), y.chars());
            let order = p.next().cmp(&q.next());
            (x, y) = (p.as_str(), q.as_str());
            order
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    x.len().cmp(&y.len()).then_with(|| a.cmp(b))
}

/// How many ASCII digits a text begins with, which is also how many bytes they take.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}
