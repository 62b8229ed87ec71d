//! `capjudge models synth`: a shape with random weights as a Hugging Face folder.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::Result;
use serde_json::json;

use super::End;
use super::interrupt::listen_for_interrupt;
use super::output::{print, printable_lines};
use super::progress::Waiting;
use crate::model::manifest::Stored;
use crate::model::synthetic::{Shape, write_folder};

/// Writes the folder.
pub fn synth(name: &str, out: &Path, seed: u64, stored: Stored, as_json: bool) -> Result<End> {
    let shape = Shape::find(name)?;
    let interrupt = listen_for_interrupt()?;
    let mut waiting = Waiting::new(&format!("writing {}", out.display()), as_json);
    let mut bytes = 0;
    let written = write_folder(&shape, seed, stored, out, &mut |more| {
        bytes += more;
        waiting.say(&format!("writing {}: {} MB", out.display(), bytes / 1_000_000));
        if interrupt.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    waiting.end();
    let Some(written) = written? else { return Ok(End::Interrupted) };
    let text = if as_json {
        let report = json!({
            "shape": shape.name(), "seed": seed, "path": out.display().to_string(),
            "parameters": written.parameters, "bytes": written.bytes, "shards": written.shards,
        });
        format!("{report:#}\n")
    } else {
        let files = if written.shards == 1 { "file" } else { "files" };
        printable_lines(&format!(
            "{}: {} random parameters, {} bytes in {} {files}; its answers mean nothing\n",
            out.display(),
            written.parameters,
            written.bytes,
            written.shards
        ))
    };
    print(&text)?;
    Ok(End::Done)
}
