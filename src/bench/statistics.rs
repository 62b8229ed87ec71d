//! Percentiles, and how sure a median is.
//!
//! Invariant: the same samples give the same numbers, whenever and wherever they are computed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metrics::{Bootstrap, quantile};

/// Percentiles of samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// How many samples.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// 90 of 100 are not above it.
    pub p90: f64,
    /// 99 of 100 are not above it; with fewer samples than 100 it lies near the largest.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// Where the 95% interval of the median begins, by bootstrap.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

impl Summary {
    /// Of samples; `None` if there are none. `name` seeds the bootstrap.
    pub fn of(values: &[f64], name: &str) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let medians = Bootstrap::default().resampled(&sorted, &["bench", name], median);
        let at = |share| quantile(&sorted, share);
        Some(Self {
            n: sorted.len(),
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            min,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max,
            low: quantile(&medians, 0.025),
            high: quantile(&medians, 0.975),
        })
    }
}

/// A percentile as numpy's default method (`linear`, type 7 of Hyndman and Fan 1996) has it; `None` of no values.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| quantile(&sorted, (percent / 100.0).clamp(0.0, 1.0)))
}

/// The median of values in any order, which it changes; not of none. Thousands of them are wanted, so nothing is sorted.
pub fn median(values: &mut [f64]) -> f64 {
    let (below, middle, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    let (below, middle) = (below.iter().copied().max_by(f64::total_cmp), *middle);
    match below.filter(|_| values.len().is_multiple_of(2)) {
        Some(below) => below + (middle - below) * 0.5,
        None => middle,
    }
}

/// The ratio of the medians of `a` and `b`, and its 95% interval: both are drawn anew, each on its own.
pub fn ratio(a: &[f64], b: &[f64], name: &str) -> Option<(f64, f64, f64)> {
    if a.is_empty() || b.is_empty() || b.iter().chain(a).any(|value| *value <= 0.0) {
        return None;
    }
    let draws = |values: &[f64], side: &str| Bootstrap::default().drawn(values, &["compare", name, side], median);
    let mut ratios: Vec<f64> = draws(a, "A").into_iter().zip(draws(b, "B")).map(|(a, b)| a / b).collect();
    ratios.sort_by(f64::total_cmp);
    let now = median(&mut a.to_vec()) / median(&mut b.to_vec());
    Some((now, quantile(&ratios, 0.025), quantile(&ratios, 0.975)))
}
