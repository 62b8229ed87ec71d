//! The values of one metric: how often each occurs.
//!
//! A mean, a histogram and a bootstrap need no more than that, whatever the number of verdicts and their order.

use std::collections::BTreeMap;

/// Values that are not negative, and how often each occurs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// How many records could have had a value, with or without one.
    pub records: u64,
    /// The bits of a non-negative float sort as the float does.
    counts: BTreeMap<u64, u64>,
}

impl Sample {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        *self.counts.entry(value.max(0.0).to_bits()).or_default() += 1;
    }

    /// How many values there are.
    pub fn len(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The mean, if there are values.
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.iter().map(|(value, count)| value * count as f64).sum();
        (!self.is_empty()).then(|| sum / self.len() as f64)
    }

    /// The different values in ascending order, and how often each occurs.
    pub fn iter(&self) -> impl Iterator<Item = (f64, u64)> {
        self.counts.iter().map(|(bits, count)| (f64::from_bits(*bits), *count))
    }
}
