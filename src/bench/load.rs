//! How long a model takes to load: from the disk, and from what the kernel remembers of it.

use std::fs::File;
use std::time::Instant;

use super::BenchError;
use super::result::Load;
use crate::model::files::deciding;
use crate::model::locate::locate;
use crate::model::synthetic::Shape;
use crate::model::{LoadOptions, Model};

/// Loads a model once cold and `warm` times warm.
pub fn time_loads(name: &str, quant: &str, options: &LoadOptions, warm: usize) -> Result<Load, BenchError> {
    let time = || {
        let start = Instant::now();
        Model::load(name, options).map(|_| start.elapsed().as_secs_f64())
    };
    let (cold_seconds, note) = if Shape::of_model(name).is_some() {
        (None, "the weights are drawn, not read: a model from files loads in another time")
    } else if forget(name)? {
        (Some(time()?), "weights of a file are mapped: what was not quantised is read when it is first used")
    } else {
        (None, "the kernel could not be asked to forget the model's files, so no cold time is known")
    };
    let warm_seconds = (0..warm).map(|_| time()).collect::<Result<_, _>>()?;
    Ok(Load { quant: quant.to_owned(), cold_seconds, warm_seconds, note: note.to_owned(), first_verdict_seconds: 0.0 })
}

/// Asks the kernel to forget a model's files; `false` if that is not possible. It keeps what other programs use, and what
/// is not yet on the disk.
fn forget(name: &str) -> Result<bool, BenchError> {
    let files = deciding(&locate(name)?)?;
    Ok(files.iter().all(|path| File::open(path).is_ok_and(|file| advise(&file))))
}

#[cfg(target_os = "linux")]
fn advise(file: &File) -> bool {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn advise(_: &File) -> bool {
    false
}
