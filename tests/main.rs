//! All integration tests, in one binary: one link, one place to look.

mod answers;
mod crashes;
mod import;
mod length;
mod metrics;
mod prompts;
mod records;
mod run;
mod workspace;
