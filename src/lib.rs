//! capjudge
pub mod answer;
pub mod dataset;
pub mod prompt;
pub mod task;
