//! All integration tests, in one binary: one link, one place to look.

mod answers;
mod chat;
mod crashes;
mod engine;
mod gguf_bytes;
mod import;
mod kernels;
mod length;
mod metrics;
mod model_files;
mod model_judge;
mod models;
mod prompts;
mod records;
mod run;
mod tokens;
mod workspace;
