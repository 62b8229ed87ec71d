//! One pass over a template.
//!
//! Invariant: a template is cut into parts once, when it is loaded; rendering only puts values between the parts. So a
//! value that contains `{reference}` comes out as it went in, and braces that are not declared stay text.

use std::borrow::Cow;
use std::ops::Range;

use thiserror::Error;

use super::{Prompt, Segment, Value};

/// A template cut at its placeholders.
#[derive(Debug, Clone)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Range<usize>),
    Slot(String),
    Frames,
}

/// What can be wrong with a template.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TemplateError {
    /// A declared placeholder is not there.
    #[error("placeholder {{{0}}} is declared, but the template does not contain it; remove it or write it in the text")]
    Unused(String),
    /// The text that the frames stand before is not there exactly once.
    #[error("frames stand before {anchor:?}, which occurs {found} times in the template; it has to occur once")]
    Anchor {
        /// The text that was looked for.
        anchor: String,
        /// How often it occurs.
        found: usize,
    },
    /// The text that the frames stand before begins inside a placeholder.
    #[error("frames stand before {0:?}, which begins inside a placeholder; choose text outside of it")]
    AnchorInSlot(String),
}

impl Template {
    /// Cuts `text` at the given placeholders (names without braces) and at the place of the frames.
    pub fn new<'n>(
        text: String,
        placeholders: impl IntoIterator<Item = &'n str>,
        frames_before: Option<&str>,
    ) -> Result<Self, TemplateError> {
        let names: Vec<&str> = placeholders.into_iter().collect();
        let anchor = frames_before.map(|anchor| find_once(&text, anchor)).transpose()?;
        let mut parts = Vec::new();
        let mut start = 0;
        let mut at = 0;
        while at < text.len() {
            if anchor == Some(at) {
                push_text(&mut parts, start..at);
                parts.push(Part::Frames);
                start = at;
            }
            if let Some(name) = names.iter().find(|name| is_slot(&text[at..], name)) {
                let end = at + name.len() + 2;
                if anchor.is_some_and(|anchor| anchor > at && anchor < end) {
                    return Err(TemplateError::AnchorInSlot(frames_before.unwrap_or_default().to_owned()));
                }
                push_text(&mut parts, start..at);
                parts.push(Part::Slot((*name).to_owned()));
                start = end;
                at = end;
            } else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
            }
        }
        push_text(&mut parts, start..text.len());
        for name in names {
            if !parts.iter().any(|part| matches!(part, Part::Slot(slot) if slot == name)) {
                return Err(TemplateError::Unused(name.to_owned()));
            }
        }
        Ok(Self { text, parts })
    }

    /// The text as it was given, byte for byte.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Words in braces that could be meant as placeholders and are not declared.
    pub fn undeclared(&self) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        for part in &self.parts {
            let Part::Text(range) = part else { continue };
            for piece in self.text[range.clone()].split('{').skip(1) {
                let Some((word, _)) = piece.split_once('}') else { continue };
                let is_word = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_');
                if is_word && !found.contains(&word) {
                    found.push(word);
                }
            }
        }
        found
    }

    /// Puts values between the parts. `fill` gives each placeholder's value; the first error ends the rendering.
    pub fn render<'a, E>(&'a self, mut fill: impl FnMut(&str) -> Result<Value<'a>, E>) -> Result<Prompt<'a>, E> {
        let mut segments = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            segments.push(match part {
                Part::Text(range) => Segment::Trusted(Cow::Borrowed(&self.text[range.clone()])),
                Part::Frames => Segment::Frames,
                Part::Slot(name) => match fill(name)? {
                    Value::FromTask(text) if text.is_empty() => continue,
                    Value::FromRecord(text) if text.is_empty() => continue,
                    Value::FromTask(text) => Segment::Trusted(text),
                    Value::FromRecord(text) => Segment::Untrusted(text),
                },
            });
        }
        Ok(Prompt { segments })
    }
}

fn is_slot(text: &str, name: &str) -> bool {
    text.strip_prefix('{').and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('}'))
}

fn push_text(parts: &mut Vec<Part>, range: Range<usize>) {
    if !range.is_empty() {
        parts.push(Part::Text(range));
    }
}

fn find_once(text: &str, anchor: &str) -> Result<usize, TemplateError> {
    let mut found = text.match_indices(anchor);
    match (anchor.is_empty(), found.next(), found.count()) {
        (false, Some((at, _)), 0) => Ok(at),
        (_, first, more) => {
            Err(TemplateError::Anchor { anchor: anchor.to_owned(), found: usize::from(first.is_some()) + more })
        }
    }
}
