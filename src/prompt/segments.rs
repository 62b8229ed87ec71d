//! The parts of a prompt, kept apart by where they come from.
//!
//! A tokenizer may read special tokens in trusted text only. That is why a prompt is not one string: once the parts
//! are joined, a caption that contains `<|im_end|>` cannot be told from a template that does.

use std::borrow::Cow;

use serde::Serialize;

/// A span of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Segment<'a> {
    /// Text that the task's author wrote.
    Trusted(Cow<'a, str>),
    /// Text that comes from a record: data, whatever it says.
    Untrusted(Cow<'a, str>),
    /// The place where the video's frames stand.
    Frames,
}

/// What a judge is asked: segments in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Prompt<'a> {
    /// The segments, none of them empty text.
    pub segments: Vec<Segment<'a>>,
}

impl Prompt<'_> {
    /// The same prompt, with texts of its own: it outlives the record that it was made from.
    pub fn into_owned(self) -> Prompt<'static> {
        let own = |segment| match segment {
            Segment::Trusted(text) => Segment::Trusted(Cow::Owned(text.into_owned())),
            Segment::Untrusted(text) => Segment::Untrusted(Cow::Owned(text.into_owned())),
            Segment::Frames => Segment::Frames,
        };
        Prompt { segments: self.segments.into_iter().map(own).collect() }
    }

    /// The texts that come from the record, in order.
    pub fn untrusted(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Untrusted(text) => Some(text.as_ref()),
            _ => None,
        })
    }

    /// The prompt as a person reads it. Never feed this to a tokenizer: it no longer says what is data.
    pub fn to_display(&self, frames: &str) -> String {
        self.segments
            .iter()
            .map(|segment| match segment {
                Segment::Trusted(text) | Segment::Untrusted(text) => text.as_ref(),
                Segment::Frames => frames,
            })
            .collect()
    }
}
