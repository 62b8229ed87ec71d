//! What a model saw of the last videos, so that the same frames are looked at once.
//!
//! Invariant: what is found was made from the same pixels by the same plan, so it is, to the bit, what looking again would
//! give.

use sha2::{Digest, Sha256};

use super::Sight;
use crate::engine::{Key, Visual};
use crate::model::ModelPrompt;

/// The memory for what was seen, unless somebody says otherwise.
pub const SIGHT_BYTES: u64 = 256 << 20;

/// What was seen of the last videos.
#[derive(Debug)]
pub struct Sights {
    /// What was used last stands last.
    kept: Vec<(Key, Vec<Visual>)>,
    most: u64,
}

impl Sights {
    /// At most so many bytes are kept.
    pub fn new(most: u64) -> Self {
        Self { kept: Vec::new(), most }
    }

    /// What was seen of that.
    pub fn get(&mut self, key: &Key) -> Option<Vec<Visual>> {
        let found = self.kept.remove(self.kept.iter().position(|(kept, _)| kept == key)?);
        let visuals = found.1.clone();
        self.kept.push(found);
        Some(visuals)
    }

    /// Keeps what was seen.
    pub fn keep(&mut self, key: Key, visuals: Vec<Visual>) {
        let bytes = |visuals: &[Visual]| visuals.iter().map(Visual::bytes).sum::<u64>();
        if bytes(&visuals) > self.most {
            return;
        }
        self.kept.retain(|(kept, _)| *kept != key);
        self.kept.push((key, visuals));
        while self.kept.iter().map(|(_, visuals)| bytes(visuals)).sum::<u64>() > self.most {
            self.kept.remove(0);
        }
    }
}

/// A digest of all that decides what a model sees: pixels, sizes, and the plan for them.
pub fn key_of(sight: &Sight, prompt: &ModelPrompt<'_>) -> Key {
    let mut hasher = Sha256::new();
    let number = |hasher: &mut Sha256, number: u64| hasher.update(number.to_le_bytes());
    hasher.update(sight.sha256.as_bytes());
    for frame in &sight.frames.frames {
        number(&mut hasher, frame.width.into());
        number(&mut hasher, frame.height.into());
    }
    for shown in &prompt.shown {
        let plan = &shown.plan;
        number(&mut hasher, plan.layout.len() as u64);
        hasher.update(plan.layout.as_bytes());
        for size in &plan.sizes {
            number(&mut hasher, size.0 as u64);
            number(&mut hasher, size.1 as u64);
        }
        plan.grid.iter().for_each(|steps| number(&mut hasher, *steps as u64));
        for run in &plan.runs {
            number(&mut hasher, run.positions.len() as u64);
            run.positions.iter().flatten().for_each(|axis| hasher.update(axis.to_le_bytes()));
        }
    }
    hasher.finalize().into()
}
