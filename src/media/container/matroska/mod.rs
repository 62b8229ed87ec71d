//! Matroska and WebM.
//!
//! ```text
//!  EBML │ Segment: Info, Tracks │ Cluster: time, blocks │ Cluster: time, blocks │ …
//!  ebml │          tracks       │          blocks       │
//! ```
//!
//! Invariant: the packets are those whose blocks are wholly in the file; no head of an element is believed where the
//! bytes after it tell otherwise.

mod blocks;
mod ebml;
mod tracks;

use self::blocks::{Block, Packets, Wrong};
use self::ebml::{Broken, Element};
use self::tracks::Track;
use super::faults::Faults;
use super::reader::Reader;
use super::{Index, Limits, MediaError, Packet, Shown, in_order};

/// How each file begins: the name of its header.
pub(super) const MAGIC: [u8; 4] = [0x1a, 0x45, 0xdf, 0xa3];

const SEGMENT: u32 = 0x1853_8067;
const INFO: u32 = 0x1549_a966;
const TRACKS: u32 = 0x1654_ae6b;
const CLUSTER: u32 = 0x1f43_b675;
const CLUSTER_TIME: u32 = 0xe7;
const SIMPLE_BLOCK: u32 = 0xa3;
const BLOCK_GROUP: u32 = 0xa0;
const BLOCK: u32 = 0xa1;
const BLOCK_DURATION: u32 = 0x9b;
const REFERENCE: u32 = 0xfb;
const ENCRYPTED_BLOCK: u32 = 0xaf;

/// Nanoseconds a tick where the file does not say.
const USUAL_TICK: u64 = 1_000_000;

/// Farther than any time in a file.
const FAR: i64 = 1 << 60;

/// Reads the index of a file.
pub(super) fn index(reader: &mut Reader<'_>, limits: &Limits) -> Result<Index, MediaError> {
    let mut faults = Faults::default();
    let segment = segment(reader)?;
    let (tick, tracks) = headers(segment, reader)?;
    let mut walk = Walk {
        limits,
        tick,
        tracks: tracks.into_iter().map(|track| (track, Packets::default())).collect(),
        faults: &mut faults,
        cut: false,
    };
    walk.clusters(segment, reader)?;
    let cut = walk.cut;
    let tracks = walk.tracks;
    match segment.end.and_then(|end| end.checked_sub(reader.bytes())) {
        Some(missing @ 1..) => {
            let all = reader.bytes().saturating_add(missing);
            faults.add(format!("the file is cut off: {missing} of its {all} bytes are not there"));
        }
        _ if cut => faults.add("the file is cut off: it ends inside a frame"),
        _ => {}
    }
    let (track, packets) = choose(tracks)?;
    let (codec, config) = track.codec()?;
    if packets.list.is_empty() {
        return Err(MediaError::Damaged(if faults.into_vec().is_empty() {
            "the video has no frames".to_owned()
        } else {
            "the file is cut off or damaged: none of its frames is there".to_owned()
        }));
    }
    let turn = track.turn(&mut faults);
    let shown = packets.list.iter().enumerate().map(|(packet, at)| Shown { packet, time: at.pts }).collect();
    let shown = in_order(shown);
    Ok(Index {
        codec,
        config,
        end: end(&shown, packets.last),
        packets: packets.list,
        shown,
        tick: ticks(tick, track.scale),
        turn,
        colour: track.colour,
        size: track.size,
        faults: faults.into_vec(),
        prefix: track.prefix(),
    })
}

/// Checks the file's header and finds its one segment.
fn segment(reader: &mut Reader<'_>) -> Result<Element, MediaError> {
    let header = Element::next(reader, reader.bytes())?.ok_or(Broken::Cut)?;
    tracks::each(header, reader, |element, reader| {
        let unsupported = |what: String| Err(MediaError::Unsupported(format!("{what}; ffmpeg may (--decoder ffmpeg)")));
        match element.id {
            0x4282 => {
                let kind = String::from_utf8_lossy(&element.bytes(reader, 64)?).into_owned();
                match kind.trim_end_matches('\0') {
                    "matroska" | "webm" => Ok(()),
                    other => {
                        unsupported(format!("the built-in decoder does not know `{}` files", other.escape_default()))
                    }
                }
            }
            0x42f7 if element.unsigned(reader)? > 1 => {
                unsupported("the built-in decoder does not know this EBML version".to_owned())
            }
            0x42f2 if element.unsigned(reader)? > 4 => {
                unsupported("the built-in decoder does not know names of this length".to_owned())
            }
            0x42f3 if element.unsigned(reader)? > 8 => {
                unsupported("the built-in decoder does not know sizes of this length".to_owned())
            }
            _ => Ok(()),
        }
    })?;
    while let Some(element) = Element::next(reader, reader.bytes())? {
        if element.id == SEGMENT {
            return Ok(element);
        }
        reader.go(element.end.ok_or(Broken::NoElement(element.head))?)?;
    }
    Err(MediaError::Damaged("the file ends after its header".to_owned()))
}

/// The tick and the video tracks, which mostly, but not always, stand before the first cluster.
fn headers(segment: Element, reader: &mut Reader<'_>) -> Result<(u64, Vec<Track>), MediaError> {
    let mut tick = USUAL_TICK;
    let mut found = None;
    reader.go(segment.start)?;
    let end = segment.end.unwrap_or(u64::MAX);
    loop {
        let element = match Element::next(reader, end) {
            Ok(Some(element)) => element,
            Err(Broken::Stop(error)) => return Err(error),
            // What is broken here is found again where the blocks are read.
            Ok(None) | Err(Broken::NoElement(_) | Broken::Cut) => break,
        };
        match element.id {
            INFO => tracks::each(element, reader, |element, reader| {
                if element.id == 0x2a_d7b1 {
                    tick = element.unsigned(reader)?;
                }
                Ok(())
            })?,
            TRACKS => found = Some(tracks::read(element, reader)?),
            CLUSTER if found.is_some() => break,
            _ => {}
        }
        // A cluster that does not say where it ends is gone through.
        reader.go(element.end.unwrap_or(element.start))?;
    }
    let tracks = found.ok_or_else(|| {
        MediaError::Damaged("the file does not say what is in it (it has no `Tracks` element)".to_owned())
    })?;
    if tracks.is_empty() {
        return Err(MediaError::Unsupported("the file has no video track".to_owned()));
    }
    Ok((if tick == 0 { USUAL_TICK } else { tick }, tracks))
}

/// Goes through the clusters.
struct Walk<'a> {
    limits: &'a Limits,
    tick: u64,
    tracks: Vec<(Track, Packets)>,
    faults: &'a mut Faults,
    /// Whether the file ends inside a cluster's element.
    cut: bool,
}

impl Walk<'_> {
    fn clusters(&mut self, segment: Element, reader: &mut Reader<'_>) -> Result<(), MediaError> {
        let end = segment.end.unwrap_or(u64::MAX).min(reader.bytes());
        let mut cluster = None;
        let mut time = None;
        reader.go(segment.start)?;
        loop {
            if cluster.is_some_and(|end| reader.at() >= end) {
                cluster = None;
            }
            let element = match Element::next(reader, end) {
                Ok(Some(element)) => element,
                Ok(None) => return Ok(()),
                Err(Broken::Stop(error)) => return Err(error),
                Err(Broken::Cut) => {
                    self.cut = true;
                    return Ok(());
                }
                Err(Broken::NoElement(at)) => {
                    self.faults.add(format!("the file is damaged at byte {at}: frames may be missing"));
                    match find_cluster(reader, at + 1, end)? {
                        Some(at) => reader.go(at)?,
                        None => return Ok(()),
                    }
                    continue;
                }
            };
            // Past the end of its cluster, a size is no longer to be believed.
            let over = element.end.zip(cluster).is_some_and(|(end, cluster)| end > cluster);
            if over && element.id != CLUSTER {
                if element.end.is_some_and(|end| end > reader.bytes()) {
                    self.cut = true;
                }
                self.faults.add(format!("the file is damaged at byte {}: frames may be missing", element.head));
                reader.go(cluster.unwrap_or(end))?;
                continue;
            }
            match element.id {
                CLUSTER => {
                    cluster = element.end.filter(|end| *end <= reader.bytes());
                    time = None;
                    continue;
                }
                SEGMENT => return Ok(()),
                CLUSTER_TIME => time = element.unsigned(reader).ok(),
                SIMPLE_BLOCK => self.block(element, time, None, reader)?,
                BLOCK_GROUP => self.group(element, time, reader)?,
                ENCRYPTED_BLOCK => self.faults.add("the file has encrypted blocks, which are left out"),
                _ => {}
            }
            match element.end {
                Some(next) => {
                    self.cut |= next > reader.bytes() && segment.end.is_none();
                    reader.go(next)?;
                }
                None => {
                    self.faults.add(format!("the file is damaged at byte {}: frames may be missing", element.head));
                    match find_cluster(reader, element.start, end)? {
                        Some(at) => reader.go(at)?,
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    /// A block and what is said of it.
    fn group(&mut self, group: Element, time: Option<u64>, reader: &mut Reader<'_>) -> Result<(), MediaError> {
        let Some(end) = group.end else { return Ok(()) };
        let (mut block, mut key, mut duration) = (None, true, 0);
        reader.go(group.start)?;
        loop {
            let element = match Element::next(reader, end) {
                Ok(Some(element)) => element,
                Ok(None) => break,
                Err(Broken::Stop(error)) => return Err(error),
                Err(_) if end > reader.bytes() => {
                    self.cut = true;
                    break;
                }
                Err(_) => {
                    self.faults.add(format!("the file is damaged at byte {}: frames may be missing", group.head));
                    break;
                }
            };
            match element.id {
                BLOCK => block = Some(element),
                BLOCK_DURATION => duration = element.unsigned(reader).unwrap_or(0),
                REFERENCE => key = false,
                _ => {}
            }
            let Some(next) = element.end.filter(|next| *next <= end) else {
                self.faults.add(format!("the file is damaged at byte {}: frames may be missing", element.head));
                break;
            };
            reader.go(next)?;
        }
        match block.filter(|block| block.end.is_some_and(|inner| inner <= end)) {
            Some(block) => self.block(block, time, Some((key, duration)), reader),
            None => Ok(()),
        }
    }

    fn block(
        &mut self,
        element: Element,
        cluster: Option<u64>,
        group: Option<(bool, u64)>,
        reader: &mut Reader<'_>,
    ) -> Result<(), MediaError> {
        let tracks = &self.tracks;
        let known = |number| tracks.iter().any(|(track, _)| track.number == number);
        let block = match Block::read(element, reader, known) {
            Ok(block) => block,
            Err(Wrong::Stop(error)) => return Err(error),
            Err(Wrong::Cut) => {
                self.cut = true;
                return Ok(());
            }
            Err(Wrong::Broken) => {
                let at = element.head;
                self.faults.add(format!("the file is damaged: the block at byte {at} is broken and left out"));
                return Ok(());
            }
        };
        let Some((track, packets)) = self.tracks.iter_mut().find(|(track, _)| track.number == block.track) else {
            return Ok(());
        };
        if cluster.is_none() {
            self.faults.add("a part of the file does not say when its frames are shown");
        }
        let count = block.packets.len() as i64;
        self.limits.check_frames((packets.list.len() + block.packets.len()) as u64)?;
        let (key, duration) = group.map_or((block.key, 0), |(key, duration)| (key, duration));
        let duration = match duration {
            0 => track.duration.saturating_mul(count as u64) / self.tick,
            given => given,
        };
        let duration = i64::try_from(duration).unwrap_or(FAR).min(FAR) / count.max(1);
        let base = (cluster.unwrap_or(0) as f64 / track.scale).min(FAR as f64) as i64;
        let late = track.delay as f64 / (self.tick as f64 * track.scale);
        let mut time = base + i64::from(block.time) - late.round().min(FAR as f64) as i64;
        for (number, (offset, size)) in block.packets.into_iter().enumerate() {
            if size == 0 {
                continue;
            }
            packets.list.push(Packet { offset, size, pts: time, key: key && number == 0 });
            packets.last = packets.last.max(Some((time, duration)));
            time = time.saturating_add(duration).min(FAR);
        }
        Ok(())
    }
}

/// Where the next cluster begins, looked for byte by byte.
fn find_cluster(reader: &mut Reader<'_>, from: u64, end: u64) -> Result<Option<u64>, MediaError> {
    const WINDOW: usize = 64 << 10;
    let name = CLUSTER.to_be_bytes();
    let mut at = from;
    while end.saturating_sub(at) >= name.len() as u64 {
        reader.go(at)?;
        let window = reader.take((end - at).min(WINDOW as u64), WINDOW)?;
        if let Some(place) = window.windows(name.len()).position(|bytes| bytes == name) {
            return Ok(Some(at + place as u64));
        }
        // The name may lie across the border of two windows.
        at += (window.len() - (name.len() - 1)) as u64;
    }
    Ok(None)
}

/// The video track that is shown: one with more than a single picture, preferred, large, first.
fn choose(tracks: Vec<(Track, Packets)>) -> Result<(Track, Packets), MediaError> {
    let rank = |(track, packets): &(Track, Packets)| {
        (packets.list.len().min(2), track.preferred, u64::from(track.size.0) * u64::from(track.size.1))
    };
    let none = || MediaError::Unsupported("the file has no video track".to_owned());
    tracks.into_iter().reduce(|best, next| if rank(&next) > rank(&best) { next } else { best }).ok_or_else(none)
}

/// Seconds a tick.
fn ticks(tick: u64, scale: f64) -> (u64, u64) {
    const SECOND: u64 = 1_000_000_000;
    let tick = if scale == 1.0 { tick } else { ((tick as f64 * scale) as u64).max(1) };
    let (mut a, mut b) = (tick, SECOND);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (tick / a.max(1), SECOND / a.max(1))
}

/// When the last frame ends.
fn end(shown: &[Shown], last: Option<(i64, i64)>) -> i64 {
    match (shown, last) {
        (_, Some((time, duration @ 1..))) => time.saturating_add(duration),
        ([.., before, last], _) => last.time.saturating_add(last.time.saturating_sub(before.time)),
        ([only], _) => only.time,
        ([], _) => 0,
    }
}
