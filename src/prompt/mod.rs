//! A record and a task become a prompt.
//!
//! Invariant: what comes from the record is never mixed with what comes from the task. A prompt is a list of segments,
//! not a string, and the values of a record are never searched for placeholders.

mod fields;
mod segments;
mod template;

pub(crate) use fields::raw_text;
pub use fields::{Value, canonical, event_block, ground_truth_block, value_of};
pub use segments::{Prompt, Segment};
pub use template::{Template, TemplateError};
