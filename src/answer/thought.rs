//! Thoughts before the answer: `<think> … </think>`.
//!
//! Invariant: only a thought at the very start of an answer opens, so that a caption that contains `<think>` and is
//! quoted later cannot hide the rest of the answer.

const OPENING: [&str; 2] = ["<think>", "<thinking>"];
const CLOSING: [&str; 2] = ["</think>", "</thinking>"];

/// Whether `text` starts with an opening tag.
pub fn opens(text: &str) -> bool {
    let text = text.trim_start();
    OPENING.iter().any(|tag| text.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)))
}

/// The end of the first closing tag in `text`.
pub fn closes(text: &str) -> Option<usize> {
    memchr::memchr_iter(b'>', text.as_bytes()).map(|at| at + 1).find(|end| ends_with_close(&text[..*end]))
}

/// Whether `text` ends with a closing tag.
pub fn ends_with_close(text: &str) -> bool {
    CLOSING.iter().any(|tag| ends_with(text, tag))
}

/// The start of the opening tag that `text` ends with.
pub fn ends_with_open(text: &str) -> Option<usize> {
    OPENING.iter().find(|tag| ends_with(text, tag)).map(|tag| text.len() - tag.len())
}

fn ends_with(text: &str, tag: &str) -> bool {
    let start = text.len().checked_sub(tag.len());
    start.and_then(|start| text.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(tag))
}
