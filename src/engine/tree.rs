//! Beginnings of prompts that were read already: the rubric, and behind it the frames of some videos.
//!
//! ```text
//!  rubric ──▶ frames of a video ──▶ record
//!        └──▶ frames of another ──▶ record
//! ```
//!
//! Invariant: a beginning is found by a digest of all that decides it. So what is kept, and for how long, changes the time
//! that a prompt takes and no bit of what is read.

use super::kv::Prefix;

/// A digest of all that decides a beginning: its tokens, and the pixels of what it shows.
pub type Key = [u8; 32];

/// How much the frames of videos may take, unless somebody says otherwise.
pub const DEFAULT_BYTES: u64 = 1 << 30;

/// The end of a beginning that other prompts may have too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// How many rows it has; it does not end inside a picture.
    pub at: usize,
    /// What it is.
    pub key: Key,
    /// Whether all prompts have it: it is kept until another such one comes.
    pub rubric: bool,
}

/// Beginnings that are kept.
#[derive(Debug)]
pub struct Tree {
    rubric: Option<(Key, Prefix)>,
    /// What was used last stands last.
    videos: Vec<(Key, Prefix, u64)>,
    most: u64,
}

impl Tree {
    /// A tree whose videos take at most so many bytes; its rubric is kept whatever it takes.
    pub fn new(most: u64) -> Self {
        Self { rubric: None, videos: Vec::new(), most }
    }

    /// A beginning, if it is kept.
    pub fn get(&mut self, key: &Key) -> Option<Prefix> {
        if let Some((_, prefix)) = self.rubric.as_ref().filter(|(kept, _)| kept == key) {
            return Some(prefix.clone());
        }
        let found = self.videos.remove(self.videos.iter().position(|(kept, ..)| kept == key)?);
        let prefix = found.1.clone();
        self.videos.push(found);
        Some(prefix)
    }

    /// Keeps a beginning whose last `rows` rows no other has.
    pub fn keep(&mut self, mark: &Mark, prefix: &Prefix, rows: usize) {
        if mark.rubric {
            // Frames behind another rubric are never asked for again.
            if self.rubric.as_ref().is_none_or(|(key, _)| *key != mark.key) {
                self.videos.clear();
            }
            self.rubric = Some((mark.key, prefix.clone()));
            return;
        }
        let bytes = prefix.bytes_of_last(rows);
        if bytes > self.most {
            return;
        }
        self.videos.retain(|(key, ..)| *key != mark.key);
        self.videos.push((mark.key, prefix.clone(), bytes));
        while self.videos.iter().map(|(.., bytes)| bytes).sum::<u64>() > self.most {
            self.videos.remove(0);
        }
    }

    /// How many beginnings are kept.
    pub fn len(&self) -> usize {
        usize::from(self.rubric.is_some()) + self.videos.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
