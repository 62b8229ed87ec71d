//! The engine: from tokens to answers.

pub mod text;
