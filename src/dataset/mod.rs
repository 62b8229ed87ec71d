//! A data set: JSON Lines, one record a line, read as a stream.
//!
//! Invariant: at most one line of the data set is in memory. What is kept of all records is a 16-byte digest of each
//! id, to find duplicates, an 8-byte hash of each line, to notice a file that changes while it is judged, and, where the
//! records of a video are judged together, 32 bytes that say where each stands.

mod check;
mod digest;
pub mod import;
mod reader;
mod record;
mod survey;

pub use check::{Problem, ProblemKind, check, empty_caption};
pub use digest::{HashingReader, IdDigest, SeenIds, sha256_bytes, sha256_text};
pub use reader::{DataError, Entry, Limits, RecordReader};
pub use record::{Broken, GroundTruthEvent, Record, Video};
pub use survey::{Place, Places, Survey, survey};
