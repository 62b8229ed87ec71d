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
    /// Whether the container has a matrix that turns the picture.
    pub(super) has_matrix: bool,
    /// Whether the program says what colours frames have. Old ones do not.
    pub(super) tells_colours: bool,
    codec: String,
}

impl Facts {
    /// Whether each packet of this codec gives a frame, so that one without is a fault. Others have packets that only
    /// help to decode.
    pub(super) fn frame_each_packet(&self) -> bool {
        let codecs = ["h264", "mpeg1video", "mpeg2video", "prores", "mjpeg", "ffv1", "dvvideo", "rawvideo", "flv1"];
        codecs.contains(&self.codec.as_str())
    }

    /// What samples mean, by the program's names for their range and their matrix.
    pub(super) fn colour(&self, range: &str, space: &str) -> Result<Colour, MediaError> {
        let full_range = match range {
            "pc" | "full" | "jpeg" => Some(true),
            "tv" | "limited" | "mpeg" => Some(false),
            _ => None,
        };
        // Codecs of video have limited range unless they say otherwise; gray from others is that of images.
        let video = ["h264", "hevc", "vp9", "av1", "vvc"].contains(&self.codec.as_str());
        let hint = if self.form.is_rgb() {
            ColourHint { matrix: Some(0), full_range: Some(full_range.unwrap_or(true)) }
        } else if self.form.is_full_range() || (self.form.is_gray() && full_range.is_none() && !video) {
            ColourHint { matrix: Some(matrix(space)), full_range: Some(true) }
        } else {
            ColourHint { matrix: Some(matrix(space)), full_range }
        };
        hint.resolve()
            .ok_or_else(|| MediaError::Unsupported(format!("the colours are `{space}`, which is not supported")))
    }
}

/// Decodes the first frame to see what it is.
pub(super) fn facts(program: &mut Program, input: &Input) -> Result<Facts, MediaError> {
    let (log, status) = program.show(input)?.finish()?;
    program.version = log.version;
    let (Some(config), Some((_, codec))) = (log.config(), &log.mapped) else {
        let why = log.first_error(input).or(status).unwrap_or_else(|| "there is no frame in it".to_owned());
        return Err(cannot_decode(&why));
    };
    let Some(form) = Form::named(&config.format) else {
        return Err(MediaError::Unsupported(format!(
            "the pictures are `{}`, which is not supported; convert the video to H.264 first",
            config.format
        )));
    };
    let (width, height, has_matrix) = (config.width, config.height, log.has_matrix());
    let tells_colours = !log.colours.is_empty();
    let facts = Facts { width, height, form, has_matrix, tells_colours, codec: codec.clone() };
    // What is not supported is said before everything is decoded.
    log.colours.first().map(|first| facts.colour(&first.range, &first.space)).transpose()?;
    Ok(facts)
}

/// Why the program cannot open a file, from its first error.
fn cannot_decode(why: &str) -> MediaError {
    // The list of formats is long, and says nothing to anybody.
    if let Some((before, _)) = why.split_once("Format not on whitelist") {
        let format = before.trim_end().trim_end_matches(':');
        let lists = ["hls", "applehttp", "concat", "dash", "imf", "sdp", "rtsp", "image2", "redir", "asx"];
        return MediaError::Unsupported(match format {
            "" => "it is of a kind that is not read".to_owned(),
            _ if lists.iter().any(|list| format.split(',').any(|name| name == *list)) => {
                format!("it is a playlist ({format}) that names other files; name the video file itself")
            }
            _ => format!("it is of a kind that is not read ({format})"),
        });
    }
    let what = format!("ffmpeg cannot decode it: {why}");
    let foreign = ["whitelist", "matches no streams", "Invalid data found when processing input", "Decoder"];
    match foreign.iter().any(|word| why.contains(word)) {
        true => MediaError::Unsupported(what),
        false => MediaError::Damaged(what),
    }
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
