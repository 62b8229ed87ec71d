//! What the pictures of a video are, from its first frame.

use std::io::Read;

use super::form::Form;
use super::program::{Input, Program};
use super::{MediaError, Turn};
use crate::media::picture::{Colour, ColourHint};

/// What is known of the pictures.
pub(super) struct Facts {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) form: Form,
    pub(super) colour: Colour,
    /// Whether the container has a matrix that turns the picture.
    pub(super) has_matrix: bool,
    codec: String,
}

impl Facts {
    /// Whether each packet of this codec gives a frame, so that one without is a fault. Others have packets that only
    /// help to decode.
    pub(super) fn frame_each_packet(&self) -> bool {
        let codecs = ["h264", "mpeg1video", "mpeg2video", "prores", "mjpeg", "ffv1", "dvvideo", "rawvideo", "flv1"];
        codecs.contains(&self.codec.as_str())
    }
}

/// Decodes the first frame to see what it is.
pub(super) fn facts(program: &mut Program, input: &Input) -> Result<Facts, MediaError> {
    let (log, status) = program.show(input)?.finish()?;
    program.version = log.version;
    let (Some(config), Some((_, codec))) = (log.config(), &log.mapped) else {
        let why = log.first_error(input).or(status).unwrap_or_else(|| "there is no frame in it".to_owned());
        let foreign = ["whitelist", "matches no streams", "Invalid data found when processing input", "Decoder"];
        // The list is long, and says nothing to anybody.
        let short = why.split(" not on whitelist").next().unwrap_or(&why);
        let why_not = match short.len() < why.len() {
            true => format!("it is a list of other files, or of a kind that is not read ({short})"),
            false => format!("ffmpeg cannot decode it: {why}"),
        };
        return Err(match foreign.iter().any(|word| why.contains(word)) {
            true => MediaError::Unsupported(why_not),
            false => MediaError::Damaged(why_not),
        });
    };
    let unknown = ("unknown".to_owned(), "unknown".to_owned());
    let (range, space) = log.colour.as_ref().unwrap_or(&unknown);
    let Some(form) = Form::named(&config.format) else {
        return Err(MediaError::Unsupported(format!(
            "the pictures are `{}`, which is not supported; convert the video to H.264 first",
            config.format
        )));
    };
    let full_range = match range.as_str() {
        "pc" | "full" | "jpeg" => Some(true),
        "tv" | "limited" | "mpeg" => Some(false),
        _ => None,
    };
    // Codecs of video have limited range unless they say otherwise; gray from others is that of images.
    let video = ["h264", "hevc", "vp9", "av1", "vvc"].contains(&codec.as_str());
    let hint = if form.is_rgb() {
        ColourHint { matrix: Some(0), full_range: Some(full_range.unwrap_or(true)) }
    } else if form.is_full_range() || (form.is_gray() && full_range.is_none() && !video) {
        ColourHint { matrix: Some(matrix(space)), full_range: Some(true) }
    } else {
        ColourHint { matrix: Some(matrix(space)), full_range }
    };
    let Some(colour) = hint.resolve() else {
        return Err(MediaError::Unsupported(format!("the colours are `{space}`, which is not supported")));
    };
    let (width, height, has_matrix) = (config.width, config.height, log.has_matrix());
    Ok(Facts { width, height, form, colour, has_matrix, codec: codec.clone() })
}

/// The number of a matrix in ITU-T H.273 by ffmpeg's name for it.
fn matrix(space: &str) -> u8 {
    match space {
        "gbr" => 0,
        "bt709" => 1,
        "unknown" | "reserved" | "unspecified" => 2,
        "fcc" => 4,
        "bt470bg" => 5,
        "smpte170m" => 6,
        "smpte240m" => 7,
        "bt2020nc" => 9,
        // YCgCo, constant luminance and the like.
        _ => 8,
    }
}

/// How the picture is to be turned. The log has only the angle of the matrix, which does not tell a mirrored picture
/// from one that is not; so the program turns the first frame, and the turn that does the same is the one.
pub(super) fn turn(program: &Program, input: &Input, facts: &Facts) -> Result<Turn, MediaError> {
    let (stored, upright) = (gray(program, input, facts, false)?, gray(program, input, facts, true)?);
    let (width, height) = (facts.width as usize, facts.height as usize);
    for mirrored in [false, true] {
        for quarters in 0..4 {
            let turn = Turn { quarters, mirrored };
            if stored.len() == upright.len() && is_turned(&stored, &upright, width, height, turn) {
                return Ok(turn);
            }
        }
    }
    // By an angle that is no quarter turn, which players show as it is stored.
    Ok(Turn::default())
}

/// The luma of the first frame.
fn gray(program: &Program, input: &Input, facts: &Facts, turned: bool) -> Result<Vec<u8>, MediaError> {
    let mut running = program.gray(input, turned)?;
    let mut gray = Vec::new();
    let most = u64::from(facts.width) * u64::from(facts.height) * 2;
    let read = running.stdout().take(most).read_to_end(&mut gray);
    read.map_err(|error| MediaError::Crashed(format!("ffmpeg's pictures cannot be read: {error}")))?;
    running.finish()?;
    Ok(gray)
}

/// Whether one picture is another one turned.
fn is_turned(stored: &[u8], upright: &[u8], width: usize, height: usize, turn: Turn) -> bool {
    let columns = if turn.quarters % 2 == 1 { height } else { width };
    upright.iter().enumerate().all(|(at, sample)| {
        let (x, y) = (at % columns, at / columns);
        let from = match turn.quarters {
            0 => Some((x, y)),
            1 => (height - 1).checked_sub(x).map(|row| (y, row)),
            2 => (width - 1).checked_sub(x).zip((height - 1).checked_sub(y)),
            _ => (width - 1).checked_sub(y).map(|column| (column, x)),
        };
        let from = from.and_then(|(column, row)| {
            let column = if turn.mirrored { (width - 1).checked_sub(column)? } else { column };
            stored.get(row * width + column)
        });
        from == Some(sample)
    })
}
