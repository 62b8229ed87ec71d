//! All integration tests, in one binary: one link, one place to look.

mod answers;
