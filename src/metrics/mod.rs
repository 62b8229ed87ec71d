//! From verdicts to numbers per system: means, coverage, intervals.
//!
//! Invariant: an unscored verdict is never averaged in, as 0 or as anything else; it lowers the coverage that stands
//! beside every mean. Memory grows with the number of different values, not with the number of verdicts.

mod bootstrap;
mod facts;
mod sample;
mod summary;
mod tally;

pub use bootstrap::Bootstrap;
pub(crate) use bootstrap::quantile;
pub use facts::{Facts, Numbers, value};
pub use sample::Sample;
pub use summary::{Bin, Disagreements, MetricSummary, RunSummary, Summary, SystemSummary};
pub use tally::Tally;
