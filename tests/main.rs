//! All integration tests, in one binary: one link, one place to look.

mod answers;
mod chat;
mod crashes;
mod gguf_bytes;
mod import;
mod length;
mod metrics;
mod models;
mod model_files;
mod prompts;
mod records;
mod run;
mod tokens;
mod workspace;
