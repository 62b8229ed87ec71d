//! `capjudge decode-worker`: decodes for another process of this program; not for people.

use anyhow::Result;

use super::End;
use crate::media::worker::serve;

/// Runs.
pub fn run() -> Result<End> {
    serve()?;
    Ok(End::Done)
}
