//! What is wrong with a file, as far as it can be read all the same.
//!
//! Invariant: a short list without repetitions, however broken the file is.

/// As many as a person reads.
const MOST: usize = 16;

/// Sentences on what is wrong.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<String>);

impl Faults {
    /// Adds a sentence that is not there yet.
    pub(super) fn add(&mut self, what: impl Into<String>) {
        let what = what.into();
        if self.0.len() < MOST && !self.0.contains(&what) {
            self.0.push(what);
        }
    }

    /// The sentences.
    pub(super) fn into_vec(self) -> Vec<String> {
        self.0
    }
}
