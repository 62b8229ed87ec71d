//! Thoughts before the answer: `<think> … </think>`.
//!
//! Invariant: only a thought at the very start of an answer opens, so that a caption that contains `<think>` and is
//! quoted later cannot hide the rest of the answer.

const OPENING: [&str; 2] = ["<think>", "<thinking>"];
const CLOSING: [&str; 2] = ["</think>", "</thinking>"];

/// What follows the opening tag, if `text` starts with one.
pub fn opens(text: &str) -> Option<&str> {
    OPENING.iter().find_map(|tag| text.trim_start().strip_prefix(tag))
}

/// The end of the first closing tag in `text`.
pub fn closes(text: &str) -> Option<usize> {
    CLOSING.iter().filter_map(|tag| text.find(tag).map(|at| at + tag.len())).min()
}

/// What follows the closing tag, if `text` starts with one.
pub fn starts_with_close(text: &str) -> Option<&str> {
    CLOSING.iter().find_map(|tag| text.trim_start().strip_prefix(tag))
}
