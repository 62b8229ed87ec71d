//! Percentile bootstrap of a mean, from counted values.
//!
//! Drawing n values with replacement is drawing how often each different value comes up, a multinomial, and that is a
//! chain of binomials. So a million verdicts with a hundred different values cost a hundred draws a resample.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_distr::{Binomial, Distribution};
use sha2::{Digest, Sha256};

use super::Sample;

/// How intervals are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bootstrap {
    /// The seed: the same seed and verdicts give the same intervals.
    pub seed: u64,
    /// How many resamples.
    pub resamples: u32,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { seed: 0, resamples: 2_000 }
    }
}

impl Bootstrap {
    /// The 95% interval of a sample's mean. `name` makes the draws of one metric independent of all others, so that
    /// adding a system does not move another one's interval.
    pub fn interval(&self, sample: &Sample, name: &[&str]) -> Option<(f64, f64)> {
        let values: Vec<(f64, u64)> = sample.iter().collect();
        let n = sample.len();
        let (first, last) = (values.first()?.0, values.last()?.0);
        if values.len() == 1 || self.resamples == 0 {
            return (values.len() == 1).then_some((first, last));
        }
        let mut random = self.random(name);
        let mut means: Vec<f64> = (0..self.resamples).map(|_| resampled_mean(&values, n, &mut random)).collect();
        means.sort_by(f64::total_cmp);
        Some((quantile(&means, 0.025), quantile(&means, 0.975)))
    }

    /// A statistic of as many values, drawn with replacement, for each resample; in the order of the draws.
    pub(crate) fn drawn(&self, values: &[f64], name: &[&str], statistic: impl Fn(&mut [f64]) -> f64) -> Vec<f64> {
        let mut random = self.random(name);
        let mut sample = vec![0.0; values.len()];
        let resample = |_| {
            // The share of each value is off by less than one in 2^64 divided by their number.
            sample.fill_with(|| values[((u128::from(random.next_u64()) * values.len() as u128) >> 64) as usize]);
            statistic(&mut sample)
        };
        (0..self.resamples).map(resample).collect()
    }

    /// The same in ascending order.
    pub(crate) fn resampled(&self, values: &[f64], name: &[&str], statistic: impl Fn(&mut [f64]) -> f64) -> Vec<f64> {
        let mut drawn = self.drawn(values, name, statistic);
        drawn.sort_by(f64::total_cmp);
        drawn
    }

    fn random(&self, name: &[&str]) -> ChaCha8Rng {
        let mut hasher = Sha256::new();
        hasher.update(self.seed.to_le_bytes());
        for part in name {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        ChaCha8Rng::from_seed(hasher.finalize().into())
    }
}

fn resampled_mean(values: &[(f64, u64)], n: u64, random: &mut ChaCha8Rng) -> f64 {
    let mut draws_left = n;
    let mut weight_left = n;
    let mut sum = 0.0;
    for (value, weight) in values {
        let draws = if *weight >= weight_left {
            draws_left
        } else {
            let share = *weight as f64 / weight_left as f64;
            // `share` is in (0, 1): the weights are positive, and the last value takes the branch above.
            Binomial::new(draws_left, share).map_or(0, |binomial| binomial.sample(random))
        };
        sum += value * draws as f64;
        draws_left -= draws;
        weight_left -= (*weight).min(weight_left);
    }
    sum / n as f64
}

/// The quantile of sorted values, linear between neighbours.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}
