//! capjudge: an offline judge of video captions.
//!
//! One way through, each arrow one function from one type to the next:
//!
//! ```text
//!  Record ──▶ Prompt + Frames ──▶ text stream ──▶ Reading ──▶ Verdict ──▶ journal ──▶ Summary ──▶ report
//!  dataset    prompt   media      judge           answer      verdict     run         metrics     report
//!             task
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | [`dataset`] | records as a stream, what is wrong with them, importers |
//! | [`task`] | what a judge prompt is: a template and its declaration, both data |
//! | [`prompt`] | one pass over the template; trusted and untrusted text kept apart |
//! | [`media`] | videos and images: exactly the frames that were asked for, or why there are none |
//! | [`judge`] | who answers: a model on this machine, or recorded answers |
//! | [`model`] | a judge model's files: weights, tokenizer, chat template; the eyes of those that see |
//! | [`engine`] | a batched step over sequences that share their beginnings; tokens in, answers out |
//! | [`guide`] | the answer format as a grammar, and what keeps an answer to it |
//! | [`kernels`] | the arithmetic of the CPU, row by row |
//! | [`answer`] | reads an answer while it streams, and never guesses |
//! | [`length`] | words, sentences, and rules about them |
//! | [`verdict`] | the only result type: numbers, or the reason why there are none |
//! | [`run`] | the loop, the journal, the fingerprint, the lock |
//! | [`metrics`] | means, coverage, intervals |
//! | [`report`] | one exporter a file |
//! | [`mod@bench`] | how fast a judge is: sweeps, samples, percentiles, comparisons |
//! | [`cli`] | one file a verb |

/// Files of the repository that are compiled in: their names and bytes.
macro_rules! embed {
    ($folder:literal: $($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $folder, "/", $name)) as &[u8])),*]
    };
}

pub mod answer;
pub mod bench;
pub mod cli;
pub mod dataset;
pub mod engine;
pub mod guide;
pub mod judge;
pub mod length;
pub mod media;
pub mod metrics;
pub mod model;
pub mod prompt;
pub mod report;
pub mod run;
pub mod task;
pub mod verdict;

pub use capjudge_kernels as kernels;
