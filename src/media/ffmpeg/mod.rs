//! The other decoder: the program `ffmpeg`, where it is installed, for everything that the built-in one does not know.
//!
//! ```text
//!  probe: one frame        what the pictures are (form), how they are turned
//!  packets: none decoded   when frames will probably be shown ──▶ pick
//!  survey: all decoded     when frames are really shown, the picked pictures ──▶ pick again if the guess was wrong
//!  stream: up to the last  the pictures that were not guessed; none in most videos
//! ```
//!
//! Invariant: a picture has the bytes that ffmpeg's decoder gave, never scaled, converted or turned; its number counts
//! the frames that were really decoded, and its time is the stream's own. The program opens one local file, the named
//! one, and no network.

mod form;
mod listing;
mod log;
mod probe;
mod program;

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use self::listing::Listing;
use self::probe::Facts;
use self::program::{Input, Outputs, Program};
use super::container::Turn;
use super::picture::{Colour, Picture};
use super::{Fault, FrameIndex, Limits, MediaError};

/// The name of the program.
const NAME: &str = if cfg!(windows) { "ffmpeg.exe" } else { "ffmpeg" };

/// Where the program is: the first on the PATH, if there is one.
pub fn find() -> Option<PathBuf> {
    on_path(NAME)
}

/// The first program of a name on the PATH that can be started.
fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|program| executable(program))
}

/// Whether a path is a program that can be started.
fn executable(path: &Path) -> bool {
    let Ok(about) = fs::metadata(path) else { return false };
    #[cfg(unix)]
    let may_run = {
        use std::os::unix::fs::PermissionsExt;
        about.permissions().mode() & 0o111 != 0
    };
    #[cfg(not(unix))]
    let may_run = true;
    about.is_file() && may_run
}

/// A decoded frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// Its place in the video, counted from 0.
    pub index: u64,
    /// When it is shown, in seconds.
    pub time: f64,
    /// What it shows, not yet turned.
    pub picture: Picture,
    /// How it is to be turned.
    pub turn: Turn,
}

/// What is known of a video after it was decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// When each frame is shown, in seconds.
    pub times: Vec<f64>,
    /// From the first frame to the end of the last, in seconds.
    pub duration: f64,
    /// The frames that were picked, in the order of the pick.
    pub picked: Vec<u64>,
    /// What is wrong with the video.
    pub faults: Vec<Fault>,
}

/// Picks frames by their times and the duration.
pub type Pick<'a> = dyn FnMut(&[f64], f64) -> Result<Vec<u64>, MediaError> + 'a;

/// Takes pictures as they come.
pub type Out<'a> = dyn FnMut(Taken) -> Result<(), MediaError> + 'a;

/// Decodes a video with the program and gives the frames that `pick` picks.
///
/// `pick` may be called twice: first with times that were guessed from the packets, then with the real ones if the
/// guess was wrong. Each picked frame goes to `out` once, with its real number and time, in no fixed order.
pub fn sample(
    program: &Path,
    path: &Path,
    limits: &Limits,
    threads: usize,
    pick: &mut Pick<'_>,
    out: &mut Out<'_>,
) -> Result<Sampled, MediaError> {
    let input = Input::new(path)?;
    limits.check_file(input.bytes)?;
    let mut program = Program::new(program);
    let facts = probe::facts(&mut program, &input)?;
    limits.check_size(facts.width.into(), facts.height.into())?;
    let packets = packets(&program, &input, limits)?;
    limits.check_decoded(packets.len() as u64)?;
    let turn = if facts.has_matrix { probe::turn(&program, &input, &facts)? } else { Turn::default() };
    let bytes = facts.form.bytes(facts.width, facts.height)?;
    let hidden = packets.hidden().unwrap_or_default();
    if hidden.len() > program::MOST_RUNS {
        return Err(MediaError::Unsupported("the edit list hides pictures in too many places".to_owned()));
    }
    let film = Film { program: &program, input: &input, facts: &facts, hidden: &hidden, turn, bytes, limits };

    let guess = packets.guess();
    let guessed = if guess.is_empty() { Vec::new() } else { pick(&guess.times(), guess.duration())? };
    let mut threads = threads.max(1);
    let mut survey = film.survey(&guessed, threads)?;
    let mut wrong = survey.faults(&film);
    if threads > 1 && (!wrong.is_empty() || survey.ended.is_some()) {
        // What several threads make of a broken stream depends on which is first.
        threads = 1;
        survey = film.survey(&guessed, threads)?;
        wrong = survey.faults(&film);
    }
    let real = &mut survey.listing;
    if real.is_empty() {
        let why = survey.log.first_error(&input).unwrap_or_else(|| "there is no frame in it".to_owned());
        return Err(MediaError::Damaged(format!("ffmpeg decoded no frame: {why}")));
    }
    real.last_duration = packets.duration_of_last();
    let (times, duration) = (real.times(), real.duration());
    let right = times == guess.times() && duration == guess.duration();
    let picked = if right { guessed } else { pick(&times, duration)? };
    let wanted: BTreeSet<u64> = picked.iter().copied().collect();
    if let Some(beyond) = wanted.last().filter(|last| **last >= times.len() as u64) {
        let total = times.len();
        return Err(MediaError::Usage(format!("frame {beyond} was asked for, but the video has {total} frames")));
    }
    let known = Known { times: &times, colours: film.colours(&survey.log)? };
    let missing = film.give(survey.spilt, &wanted, &known, out)?;
    film.stream(&missing, &known, threads, out)?;

    let lost = packets.shown().saturating_sub(times.len());
    if lost > 0 && facts.frame_each_packet() {
        wrong.push(format!("{lost} of {} packets gave no frame", packets.shown()));
    }
    wrong.extend(survey.ended);
    let frames: Vec<FrameIndex> = wanted.into_iter().map(FrameIndex).collect();
    // It is not known which frames are hit, so that all may be.
    let faults = wrong.into_iter().map(|what| Fault { what, frames: frames.clone() }).collect();
    Ok(Sampled { times, duration, picked, faults })
}

/// What a decoding needs to know.
struct Film<'a> {
    program: &'a Program,
    input: &'a Input,
    facts: &'a Facts,
    /// The times, in ticks, of frames that the edit list hides.
    hidden: &'a [RangeInclusive<i64>],
    turn: Turn,
    /// The size of a raw picture.
    bytes: usize,
    limits: &'a Limits,
}

/// What a decoding of the whole video found out.
struct Survey {
    /// All frames.
    listing: Listing,
    log: log::Log,
    /// What is wrong with how the program ended.
    ended: Option<String>,
    spilt: Spilt,
}

impl Survey {
    /// What is wrong with the video.
    fn faults(&self, film: &Film<'_>) -> Vec<String> {
        let mut faults = self.log.faults(film.input);
        let uncoloured = self.log.uncoloured(self.listing.len() as u64);
        if film.facts.tells_colours && uncoloured > 0 {
            faults.push(format!("ffmpeg did not say what colours {uncoloured} of the frames have"));
        }
        faults
    }
}

/// What is known of the frames before their pictures come.
struct Known<'a> {
    times: &'a [f64],
    /// From which frame on samples mean what; there is one for frame 0.
    colours: Vec<(u64, Colour)>,
}

impl Known<'_> {
    fn colour(&self, index: u64) -> Option<Colour> {
        let at = self.colours.partition_point(|(from, _)| *from <= index).checked_sub(1)?;
        self.colours.get(at).map(|(_, colour)| *colour)
    }
}

/// Raw pictures in a file, until it is known that they are the right ones.
struct Spilt {
    file: File,
    runs: Vec<RangeInclusive<u64>>,
}

/// The most bytes of raw pictures that are kept in a file until all frames are counted. If there are more, the video is
/// decoded twice.
const MOST_SPILT: u64 = 2 << 30;

impl Film<'_> {
    /// Decodes the whole video: counts its frames, and keeps those that will probably be wanted.
    fn survey(&self, wanted: &[u64], threads: usize) -> Result<Survey, MediaError> {
        let none = |error: io::Error| MediaError::Io {
            path: env::temp_dir(),
            what: format!("no temporary file can be made: {error}"),
        };
        // This has no name, so that nothing is left of it however this process ends.
        let raw = tempfile::tempfile().map_err(none)?;
        let list = NamedTempFile::new().map_err(none)?.into_temp_path();
        let wanted: BTreeSet<u64> = wanted.iter().copied().collect();
        let mut runs = program::runs(&wanted);
        let pictures = runs.iter().fold(0, |sum: u64, run| sum.saturating_add(run.end() - run.start() + 1));
        if pictures.saturating_mul(self.bytes as u64) > MOST_SPILT {
            runs.clear();
        }
        let most = self.limits.decoded.min(self.limits.frames);
        let outputs = Outputs {
            hidden: self.hidden,
            form: &self.facts.form,
            raw: Some(raw.try_clone().map_err(none)?),
            list: Some((&list, most)),
        };
        let (log, ended) = self.program.decode(self.input, &runs, threads, outputs)?.finish()?;
        self.same_throughout(&log)?;
        // The program makes the file anew, or leaves it empty if no frame was decoded.
        let listing = File::open(&list).and_then(|file| Listing::read(&mut BufReader::new(file), most));
        let listing = listing.map_err(|error| MediaError::io(&list, &error))?;
        self.limits.check_frames(listing.len() as u64)?;
        self.limits.check_decoded(listing.len() as u64)?;
        Ok(Survey { listing, log, ended, spilt: Spilt { file: raw, runs } })
    }

    /// Gives the wanted pictures that were kept. Back come those that were not.
    fn give(
        &self,
        mut spilt: Spilt,
        wanted: &BTreeSet<u64>,
        known: &Known<'_>,
        out: &mut Out<'_>,
    ) -> Result<BTreeSet<u64>, MediaError> {
        let mut missing = wanted.clone();
        spilt.file.rewind().map_err(|error| MediaError::io(&env::temp_dir(), &error))?;
        self.read_runs(&spilt.file, &spilt.runs, &mut missing, known, out)?;
        Ok(missing)
    }

    /// Decodes the video up to the last wanted picture and gives them as they come.
    fn stream(
        &self,
        wanted: &BTreeSet<u64>,
        known: &Known<'_>,
        threads: usize,
        out: &mut Out<'_>,
    ) -> Result<(), MediaError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let runs = program::runs(wanted);
        let outputs = Outputs { hidden: self.hidden, form: &self.facts.form, raw: None, list: None };
        let mut running = self.program.decode(self.input, &runs, threads, outputs)?;
        let mut missing = wanted.clone();
        self.read_runs(running.stdout(), &runs, &mut missing, known, out)?;
        let (log, _) = if missing.is_empty() { running.stop() } else { running.finish()? };
        self.same_throughout(&log)?;
        if !missing.is_empty() {
            return Err(MediaError::Crashed("ffmpeg did not give all frames that it had counted".to_owned()));
        }
        Ok(())
    }

    /// Reads raw pictures, which are those of the runs, and gives those that are missing.
    fn read_runs(
        &self,
        mut from: impl Read,
        runs: &[RangeInclusive<u64>],
        missing: &mut BTreeSet<u64>,
        known: &Known<'_>,
        out: &mut Out<'_>,
    ) -> Result<(), MediaError> {
        for index in runs.iter().cloned().flatten() {
            if missing.is_empty() {
                break;
            }
            let Some(raw) = read_picture(&mut from, self.bytes)? else { break };
            let time = usize::try_from(index).ok().and_then(|index| known.times.get(index));
            if let (Some(time), Some(colour), true) = (time, known.colour(index), missing.remove(&index)) {
                let Facts { width, height, form, .. } = self.facts;
                let picture = form.picture(*width, *height, colour, &raw)?;
                out(Taken { index, time: *time, picture, turn: self.turn })?;
            }
        }
        Ok(())
    }

    /// What samples mean, from frame to frame.
    fn colours(&self, log: &log::Log) -> Result<Vec<(u64, Colour)>, MediaError> {
        let named = log.colours.iter().map(|told| Ok((told.from, self.facts.colour(&told.range, &told.space)?)));
        let mut colours = named.collect::<Result<Vec<_>, MediaError>>()?;
        match colours.first_mut() {
            Some((from, _)) => *from = 0,
            None => colours.push((0, self.facts.colour("unknown", "unknown")?)),
        }
        Ok(colours)
    }

    /// Refuses pictures that change: the program counts them from 0 again, so that they would be the wrong ones.
    fn same_throughout(&self, log: &log::Log) -> Result<(), MediaError> {
        let first =
            log.config().is_none_or(|config| (config.width, config.height) == (self.facts.width, self.facts.height));
        if log.configured() > 1 || !first {
            return Err(MediaError::Unsupported(
                "the pictures change their size, their kind or their colours midway, which is not supported".to_owned(),
            ));
        }
        Ok(())
    }
}

/// The next raw picture, or `None` if there is no whole one.
fn read_picture(from: &mut impl Read, bytes: usize) -> Result<Option<Vec<u8>>, MediaError> {
    let mut raw = Vec::new();
    raw.try_reserve_exact(bytes).map_err(|_| {
        MediaError::Limit(format!("there is no memory for a picture of {bytes} bytes (--max-decode-memory)"))
    })?;
    let read = from.by_ref().take(bytes as u64).read_to_end(&mut raw);
    let read = read.map_err(|error| MediaError::Crashed(format!("ffmpeg's pictures cannot be read: {error}")))?;
    Ok((read == bytes).then_some(raw))
}

/// The packets of the video, in the order of decoding.
fn packets(program: &Program, input: &Input, limits: &Limits) -> Result<Listing, MediaError> {
    let mut running = program.packets(input)?;
    // Some packets show nothing, but not most of them.
    let listing = Listing::read(&mut BufReader::new(running.stdout()), limits.frames.saturating_mul(4))
        .map_err(|error| MediaError::Crashed(format!("ffmpeg's packets cannot be read: {error}")))?;
    limits.check_frames(listing.shown() as u64)?;
    running.finish()?;
    Ok(listing)
}

/// Whether a path is a file that can be given to the program.
fn regular(path: &Path) -> Result<u64, MediaError> {
    let error = |what: String| MediaError::Io { path: path.to_owned(), what };
    let about = fs::metadata(path).map_err(|what| error(what.to_string()))?;
    if !about.is_file() {
        return Err(error("is not a regular file".to_owned()));
    }
    // Files of the system that have no size (such as those of /proc) may never end, or wait forever.
    if about.len() == 0 {
        return Err(MediaError::Damaged("the file is empty".to_owned()));
    }
    Ok(about.len())
}
