//! The decoder that is always there: container, timeline and codec together.
//!
//! Invariant: the frames and the faults do not depend on the number of threads, and only packets that a wanted frame
//! needs are decoded. All packets are looked at once, so that a broken one is found even where it is not needed.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use super::codec::{self, Broken, Kind, Place};
use super::colour::to_rgb;
use super::container::{self, Index};
use super::decode::{Job, Report};
use super::order::settle;
use super::picture::Picture;
use super::sample::Clip;
use super::timeline::{Run, Timeline};
use super::{Fault, Frame, FrameIndex, MediaError};

/// Where one run is so much longer than the rest that the others would be done long before it, runs go one after the
/// other, each with all threads: the share of an even split by which the longest may be longer.
const UNEVEN: f64 = 1.25;

/// Decodes the frames that the sampler picks.
pub fn decode(
    path: &Path,
    job: &Job,
    out: &mut dyn FnMut(Frame) -> Result<(), MediaError>,
) -> Result<Report, MediaError> {
    let mut file = File::open(path).map_err(|error| MediaError::io(path, &error))?;
    let bytes = file.metadata().map_err(|error| MediaError::io(path, &error))?.len();
    job.limits.check_file(bytes)?;
    let mut index = container::index(&mut file, bytes, &job.limits).map_err(|error| match error {
        MediaError::Io { what, .. } => MediaError::Io { path: path.to_owned(), what },
        other => other,
    })?;
    if index.size != (0, 0) {
        job.limits.check_size(index.size.0.into(), index.size.1.into())?;
    }
    let Inspection { kinds, places, broken } = inspect(path, &mut file, &index)?;
    let contradiction = settle(&mut index, &places);
    let timeline = Timeline::new(&index, &kinds);
    job.limits.check_frames(timeline.len() as u64)?;
    if timeline.is_empty() {
        return Err(MediaError::Damaged("there is no frame in it that can be decoded".to_owned()));
    }
    let times: Vec<f64> = (0..timeline.len()).map(|frame| timeline.frame_time(frame)).collect();
    let picked = job.sampler.pick(&Clip { times: &times, duration: timeline.duration() })?;
    let wanted: Vec<usize> = picked.iter().filter_map(|frame| usize::try_from(*frame).ok()).collect();
    let runs = timeline.runs(&wanted);
    let packets: usize = runs.iter().map(|run| run.packets.len()).sum();
    job.limits.check_decoded(packets as u64)?;

    let mut faults: Vec<Fault> = index
        .faults
        .iter()
        .chain(&broken)
        .chain(&contradiction)
        .map(|what| Fault { what: what.clone(), frames: Vec::new() })
        .collect();
    let film = Film { path, index: &index, kinds: &kinds, times: &times, job };
    let mut found = film.run_all(&runs, out)?;
    // Threads end in any order.
    found.sort_by(|a, b| (&a.frames, &a.what).cmp(&(&b.frames, &b.what)));
    faults.extend(found);
    Ok(Report { total: times.len() as u64, duration: timeline.duration(), picked, faults })
}

/// What there is to say of all packets.
struct Inspection {
    kinds: Vec<Kind>,
    places: Vec<Option<Place>>,
    broken: Vec<String>,
}

/// Looks at every packet: what kind it is, and what is wrong with those that are broken.
fn inspect(path: &Path, file: &mut File, index: &Index) -> Result<Inspection, MediaError> {
    let mut inspector = codec::inspector(index.codec, &index.config)?;
    let mut kinds = Vec::with_capacity(index.packets.len());
    let mut places = Vec::with_capacity(index.packets.len());
    let (mut first, mut broken) = (None, 0u64);
    let mut bytes = Vec::new();
    for number in 0..index.packets.len() {
        read_packet(path, file, index, number, &mut bytes)?;
        let key = index.packets.get(number).is_some_and(|packet| packet.key);
        let kind = inspector.inspect(&bytes, key);
        kinds.push(kind.unwrap_or_else(|what| {
            first.get_or_insert((number, what));
            broken += 1;
            // What the stream does not say, the container may.
            Kind { start: key, leading: false, reference: true, shows: true }
        }));
        places.push(inspector.place());
    }
    let fault = first.map(|(number, what)| {
        let more = if broken > 1 { format!(" (and {} more like it)", broken - 1) } else { String::new() };
        format!("packet {number} is broken: {what}{more}")
    });
    Ok(Inspection { kinds, places, broken: Vec::from_iter(fault) })
}

/// Reads a packet's bytes.
fn read_packet(
    path: &Path,
    file: &mut File,
    index: &Index,
    number: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), MediaError> {
    bytes.clear();
    let Some(packet) = index.packets.get(number) else { return Ok(()) };
    bytes.extend_from_slice(&index.prefix);
    file.seek(SeekFrom::Start(packet.offset)).map_err(|error| MediaError::io(path, &error))?;
    let read = file.take(packet.size.into()).read_to_end(bytes).map_err(|error| MediaError::io(path, &error))?;
    if read as u64 != u64::from(packet.size) {
        return Err(MediaError::Io { path: path.to_owned(), what: "the file became shorter while it was read".into() });
    }
    Ok(())
}

/// What threads tell.
enum Message {
    Frame(Frame),
    Fault(Fault),
    Stop(MediaError),
}

/// What every run needs to know.
#[derive(Clone, Copy)]
struct Film<'a> {
    path: &'a Path,
    index: &'a Index,
    kinds: &'a [Kind],
    times: &'a [f64],
    job: &'a Job,
}

impl Film<'_> {
    /// Decodes all runs. Their faults come back in no order.
    fn run_all(
        self,
        runs: &[Run],
        out: &mut dyn FnMut(Frame) -> Result<(), MediaError>,
    ) -> Result<Vec<Fault>, MediaError> {
        let threads = self.job.threads.max(1);
        let longest = runs.iter().map(|run| run.packets.len()).max().unwrap_or(0);
        let total: usize = runs.iter().map(|run| run.packets.len()).sum();
        let even = longest as f64 <= total as f64 / threads as f64 * UNEVEN;
        let (workers, each) = if even { (threads.min(runs.len()), 1) } else { (1, threads) };
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let (sender, receiver) = sync_channel(threads);
        thread::scope(|scope| {
            for _ in 0..workers {
                let sender = sender.clone();
                let (next, stop) = (&next, &stop);
                scope.spawn(move || {
                    while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(error) = self.run(run, each, stop, &sender) {
                            stop.store(true, Ordering::Relaxed);
                            // Nobody listens any more where the other side has failed: that is its error then.
                            let _ = sender.send(Message::Stop(error));
                        }
                    }
                });
            }
            drop(sender);
            let mut faults = Vec::new();
            let mut failed = None;
            for message in receiver {
                match message {
                    Message::Frame(frame) if failed.is_none() => {
                        if let Err(error) = out(frame) {
                            stop.store(true, Ordering::Relaxed);
                            failed = Some(error);
                        }
                    }
                    Message::Frame(_) => {}
                    Message::Fault(fault) => faults.push(fault),
                    Message::Stop(error) => {
                        failed.get_or_insert(error);
                    }
                }
            }
            failed.map_or(Ok(faults), Err)
        })
    }

    /// Decodes one run.
    fn run(self, run: &Run, threads: usize, stop: &AtomicBool, sender: &SyncSender<Message>) -> Result<(), MediaError> {
        let mut file = File::open(self.path).map_err(|error| MediaError::io(self.path, &error))?;
        let (codec, config, colour) = (self.index.codec, &self.index.config, self.index.colour);
        let mut decoder = codec::decoder(codec, config, colour, &self.job.limits, threads)?;
        // An edit list may show a packet more than once.
        let mut missing: HashMap<usize, Vec<usize>> = HashMap::new();
        for (packet, frame) in &run.wanted {
            missing.entry(*packet).or_default().push(*frame);
        }
        let mut failed = None;
        let mut out = |packet: usize, picture: Picture| {
            for frame in missing.remove(&packet).unwrap_or_default() {
                match self.frame(frame, &picture) {
                    // Nobody listens any more where the other side has failed: `stop` is set then.
                    Ok(frame) => drop(sender.send(Message::Frame(frame))),
                    Err(error) => failed = failed.take().or(Some(error)),
                }
            }
        };
        let mut bytes = Vec::new();
        let mut damage = Vec::new();
        for &number in &run.packets {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            read_packet(self.path, &mut file, self.index, number, &mut bytes)?;
            note(decoder.decode(number, &bytes, &mut out), &mut damage)?;
        }
        // More than one packet can turn out to be broken at the end; each call tells of one.
        for _ in 0..=run.packets.len() {
            let before = damage.len();
            note(decoder.finish(&mut out), &mut damage)?;
            if damage.len() == before {
                break;
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        for fault in self.faults(run, &damage, &missing) {
            let _ = sender.send(Message::Fault(fault));
        }
        Ok(())
    }

    /// A frame of a picture.
    fn frame(&self, number: usize, picture: &Picture) -> Result<Frame, MediaError> {
        let (width, height, rgb) = to_rgb(picture, self.index.turn)?;
        let time = self.times.get(number).copied().unwrap_or_default();
        Ok(Frame { index: FrameIndex(number as u64), time, width, height, rgb })
    }

    /// What damage in a run means for its frames: a picture that others need spoils all that are decoded after it.
    fn faults(self, run: &Run, damage: &[(usize, String)], missing: &HashMap<usize, Vec<usize>>) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (packet, what) in damage {
            let spoils = self.kinds.get(*packet).is_none_or(|kind| kind.reference);
            let touched = |wanted: &usize| wanted == packet || (spoils && wanted > packet);
            let wanted = run.wanted.iter().filter(|(wanted, _)| touched(wanted));
            let frames = wanted.map(|(_, frame)| FrameIndex(*frame as u64)).collect();
            faults.push(Fault { what: format!("packet {packet}: {what}"), frames });
        }
        let mut gone: Vec<FrameIndex> = missing.values().flatten().map(|frame| FrameIndex(*frame as u64)).collect();
        gone.sort_unstable();
        if !gone.is_empty() {
            faults.push(Fault { what: "no picture came out of the decoder".to_owned(), frames: gone });
        }
        faults
    }
}

/// Keeps what a decoder found wrong, or gives up.
fn note(result: Result<(), Broken>, damage: &mut Vec<(usize, String)>) -> Result<(), MediaError> {
    match result {
        Ok(()) => Ok(()),
        Err(Broken::Damaged(packet, what)) => {
            damage.push((packet, what));
            Ok(())
        }
        Err(Broken::Stop(error)) => Err(error),
    }
}
