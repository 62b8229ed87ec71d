//! How SmolVLM reads a picture or a video.
//!
//! ```text
//!  a picture in parts    <fake><row_1_col_1>…<fake><row_1_col_2>…⏎ … ⏎⏎<fake><global-img>…<fake>
//!  a picture in one      <fake><global-img>…<fake>
//!  a video               how many frames, how long, and each frame in one behind its time
//! ```
//!
//! The words around the frames of a video are those of the reference's processor, not of a checkpoint: frames are counted
//! in words, and times are cut to whole seconds. So is the chat template where there is a video.

use super::parts::Preparation;
use super::words;
use crate::model::config::Fields;
use crate::model::vision::{Clip, Marker, Markers, Medium, Placeholder, Plan, Run, check_rows};

const IMAGE: &str = "<image>";
const AROUND: &str = "<fake_token_around_image>";
const WHOLE: &str = "<global-img>";

/// What the reference's processor does with messages where there is a video, whatever the checkpoint's own template.
const VIDEO_TEMPLATE: &str = "\
<|im_start|>\
{%- for message in messages %}\
{{- message.role | capitalize ~ ':' }}\
{%- if message.content[0].type != 'image' %}{{ ' ' }}{% endif %}\
{%- for part in message.content %}\
{%- if part.type == 'text' %}{{ part.text }}\
{%- elif part.type in ['image', 'video'] %}{{ '<' ~ part.type ~ '>' }}{% endif %}\
{%- endfor %}\
{{- '<end_of_utterance>\\n' }}\
{%- endfor %}\
{%- if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

/// What stands for pictures in prompts.
pub fn markers(config: &Fields<'_>, videos: bool) -> Result<Markers, String> {
    let token =
        u32::try_from(config.size_or("image_token_id", 128_257)?).map_err(|_| "`image_token_id` is no token")?;
    let marker = |written: &str| Marker {
        written: written.to_owned(),
        around: ("", ""),
        placeholder: Placeholder { text: IMAGE, token },
    };
    let (video, video_template) = if videos { (Some(marker("<video>")), Some(VIDEO_TEMPLATE)) } else { (None, None) };
    Ok(Markers { image: marker(IMAGE), video, video_template })
}

/// The plan for a medium whose parts have so many rows each.
pub fn plan(medium: &Medium<'_>, preparation: &Preparation, rows: usize, in_words: bool) -> Result<Plan, String> {
    let Some(first) = medium.frames().first() else { return Err("there are no frames to show".to_owned()) };
    let (sizes, (down, across)) = match medium {
        Medium::Image(_) => preparation.sizes(first.width(), first.height()),
        Medium::Video(_) => (preparation.uncut(first.width(), first.height()), (0, 0)),
    };
    let parts = down * across + medium.frames().len();
    check_rows(parts.saturating_mul(rows))?;
    let layout = match medium {
        Medium::Image(_) => picture(down, across, rows),
        Medium::Video(clip) if in_words => video(clip, rows),
        // Idefics3 knows no videos: frames are pictures, one behind the other.
        Medium::Video(clip) => picture(0, 0, rows).repeat(clip.frames().len()),
    };
    let run = Run { positions: (0..rows as u32).map(|at| [at; 3]).collect() };
    Ok(Plan { layout, runs: vec![run; parts], sizes, grid: [parts, down, across] })
}

fn picture(down: usize, across: usize, rows: usize) -> String {
    let images = IMAGE.repeat(rows);
    let mut text = String::new();
    for row in 1..=down {
        for column in 1..=across {
            text.push_str(&format!("{AROUND}<row_{row}_col_{column}>{images}"));
        }
        text.push('\n');
    }
    if down > 0 {
        text.push('\n');
    }
    text + &format!("{AROUND}{WHOLE}{images}{AROUND}")
}

fn video(clip: &Clip<'_>, rows: usize) -> String {
    let (count, length) = (words::number(clip.frames().len()), words::duration(clip.duration()));
    let intro = format!("You are provided the following series of {count} frames from a {length} [H:MM:SS] video.\n");
    let frame = |time: &f64| format!("\nFrame from {}:{}", words::moment(*time), picture(0, 0, rows));
    let frames: String = clip.times().iter().map(frame).collect();
    format!("{intro}{frames}\n\n")
}
