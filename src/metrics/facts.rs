//! What the metrics need to know of a verdict, and the value that a formula gives it.

use std::collections::BTreeMap;

use crate::answer::Reason;
use crate::task::{Formula, Only, Over};
use crate::verdict::Events;

/// A verdict, as far as metrics are concerned.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts<'a> {
    /// The system.
    pub system: &'a str,
    /// The caption type.
    pub caption_type: Option<&'a str>,
    /// The events.
    pub events: Events,
    /// The numbers, or why there are none.
    pub numbers: Result<Numbers<'a>, Reason>,
}

/// The numbers of a scored verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Numbers<'a> {
    /// Counts by name, and whether the labels agree with them.
    Counts(&'a BTreeMap<String, u32>, Option<bool>),
    /// A score.
    Score {
        /// After the task's rules.
        score: u32,
        /// As the judge gave it.
        raw_score: u32,
        /// The mean of the scores that the judge might have given, where that is known.
        expected: Option<f64>,
    },
}

impl Numbers<'_> {
    fn get(&self, name: &str) -> Option<f64> {
        match self {
            Numbers::Counts(counts, _) => counts.get(name).copied().map(f64::from),
            Numbers::Score { score, .. } if name == "score" => Some(f64::from(*score)),
            Numbers::Score { raw_score, .. } if name == "raw_score" => Some(f64::from(*raw_score)),
            Numbers::Score { expected, .. } if name == "expected" => *expected,
            Numbers::Score { .. } => None,
        }
    }
}

impl Facts<'_> {
    /// Whether a formula is about this record at all.
    pub fn belongs(&self, formula: &Formula) -> bool {
        match formula {
            Formula::ShareAboveZero { only: Some(Only::Inserted), .. } => self.events.inserted,
            _ => true,
        }
    }
}

/// The value that a formula gives a scored verdict; `None` if the verdict lacks what it needs.
pub fn value(formula: &Formula, numbers: &Numbers<'_>, events: Events) -> Option<f64> {
    match formula {
        Formula::ShareAboveZero { of, .. } => Some(if numbers.get(of)? > 0.0 { 1.0 } else { 0.0 }),
        Formula::Mean { of, .. } => numbers.get(of),
        Formula::MeanRatio { of, over, set_aside } => {
            let mut count = numbers.get(of)?;
            let mut total = match over {
                // Without a list it is not known how many events there are: no ratio, rather than a perfect one.
                Over::ListedEvents => events.listed?,
                Over::RecordEvents => events.record,
            };
            if let Some(aside) = set_aside
                && events.inserted
            {
                count = (count - f64::from(u8::from(numbers.get(aside)? > 0.0))).max(0.0);
                total = total.saturating_sub(1).max(1);
            }
            Some(if total == 0 { 0.0 } else { count / f64::from(total) })
        }
    }
}
