//! Ctrl-C and its kin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow};

/// The first Ctrl-C lets the work in hand be put away; a second one ends the process at once.
pub fn listen_for_interrupt() -> Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupt);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .map_err(|error| anyhow!("cannot listen for Ctrl-C: {error}"))?;
    Ok(interrupt)
}
