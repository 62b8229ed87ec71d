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

const EBML: u32 = u32::from_be_bytes(MAGIC);
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

/// What else there is in a segment and in a cluster: an index of the parts, chapters, tags and so on.
const OTHER: [u32; 14] = [
    INFO, TRACKS, 0x114d_9b74, 0x1c53_bb6b, 0x1941_a469, 0x1043_a770, 0x1254_c367, 0x1b53_8667, 0xec, 0xbf, 0x5854,
    0xa7, 0xab, 0x7e5b,
];

/// Nanoseconds a tick where the file does not say.
const USUAL_TICK: u64 = 1_000_000;

/// How much is looked through at a time.
const WINDOW: usize = 64 << 10;

/// A fault that is found at two places.
const SECOND: &str = "another video follows in the same file, which is left out";

/// Farther than any time in a file.
const FAR: i64 = 1 << 60;

/// Reads the index of a file.
pub(super) fn index(reader: &mut Reader<'_>, limits: &Limits) -> Result<Index, MediaError> {
    let mut faults = Faults::default();
    let segment = segment(reader)?;
    let (tick, track, numbers) = headers(segment, reader, &mut faults)?;
    let mut walk = Walk {
        limits,
        tick,
        track: &track,
        numbers: &numbers,
        packets: Packets::default(),
        faults: &mut faults,
        cut: false,
    };
    walk.clusters(segment, reader)?;
    let cut = walk.cut;
    let packets = walk.packets;
    match segment.end.and_then(|end| end.checked_sub(reader.bytes())) {
        Some(missing @ 1..) => {
            let all = reader.bytes().saturating_add(missing);
            faults.add(format!("the file is cut off: {missing} of its {all} bytes are not there"));
        }
        _ if cut => faults.add("the file is cut off: its last part is not whole"),
        _ => {}
    }
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

/// The tick, the video track and the numbers of all tracks, which mostly, but not always, stand before the first
/// cluster.
fn headers(
    segment: Element,
    reader: &mut Reader<'_>,
    faults: &mut Faults,
) -> Result<(u64, Track, Vec<u64>), MediaError> {
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
    let none = || MediaError::Unsupported("the file has no video track".to_owned());
    let track = tracks.video.ok_or_else(none)?;
    if tick == 0 {
        faults.add("the file's time scale is 0; its times are taken for milliseconds");
        tick = USUAL_TICK;
    }
    Ok((tick, track, tracks.numbers))
}

/// Goes through the clusters.
struct Walk<'a> {
    limits: &'a Limits,
    tick: u64,
    /// The track that is shown, and its packets so far.
    track: &'a Track,
    packets: Packets,
    /// The numbers of all tracks.
    numbers: &'a [u64],
    faults: &'a mut Faults,
    /// Whether the file ends inside a cluster's element.
    cut: bool,
}

impl Walk<'_> {
    fn clusters(&mut self, segment: Element, reader: &mut Reader<'_>) -> Result<(), MediaError> {
        // Where the segment says that it ends before the file does, as long as that is to be believed.
        let mut edge = segment.end.filter(|end| *end < reader.bytes());
        let mut cluster = None;
        let mut time = None;
        // Whether what was read last is of an unknown kind.
        let mut strange = false;
        reader.go(segment.start)?;
        loop {
            if cluster.is_some_and(|end| reader.at() >= end) {
                cluster = None;
            }
            if edge.take_if(|end| reader.at() >= *end).is_some() && !self.goes_on(reader)? {
                return Ok(());
            }
            let element = match Element::next(reader, u64::MAX) {
                Ok(Some(element)) => element,
                Ok(None) => return Ok(()),
                Err(Broken::Stop(error)) => return Err(error),
                Err(Broken::Cut) => {
                    self.cut = true;
                    return Ok(());
                }
                Err(Broken::NoElement(at)) => {
                    self.damaged(at);
                    if !to_cluster(reader, at + 1)? {
                        return Ok(());
                    }
                    (cluster, strange) = (None, false);
                    continue;
                }
            };
            // Past the end of its cluster, a size is no longer to be believed.
            let over = element.end.zip(cluster).is_some_and(|(end, cluster)| end > cluster);
            if over && element.id != CLUSTER {
                self.cut |= element.end.is_some_and(|end| end > reader.bytes());
                self.damaged(element.head);
                reader.go(cluster.unwrap_or(element.start))?;
                continue;
            }
            if element.end.zip(edge).is_some_and(|(end, edge)| end > edge) {
                self.faults.add("the file is damaged: it is longer than it says");
                edge = None;
            }
            match element.id {
                CLUSTER => {
                    cluster = element.end.filter(|end| *end <= reader.bytes());
                    if element.end.is_some() && cluster.is_none() {
                        // Either the file is too short or the size is wrong; its blocks are read in any case.
                        match segment.end {
                            Some(end) if end <= reader.bytes() => self.damaged(element.head),
                            _ => self.cut = true,
                        }
                    }
                    (time, strange) = (None, false);
                    continue;
                }
                SEGMENT | EBML => {
                    self.faults.add(SECOND);
                    return Ok(());
                }
                CLUSTER_TIME => time = element.unsigned(reader).ok(),
                SIMPLE_BLOCK => self.block(element, time, None, reader)?,
                BLOCK_GROUP => self.group(element, time, reader)?,
                ENCRYPTED_BLOCK => self.faults.add("the file has encrypted blocks, which are left out"),
                _ => {}
            }
            let known = [CLUSTER_TIME, SIMPLE_BLOCK, BLOCK_GROUP, ENCRYPTED_BLOCK].contains(&element.id)
                || OTHER.contains(&element.id);
            if !known {
                // It may be a block with a damaged name.
                self.damaged(element.head);
            }
            match element.end.filter(|end| *end <= reader.bytes()) {
                // Two in a row are no elements but bytes of something else.
                Some(next) if known || !strange => {
                    reader.go(next)?;
                    strange = !known;
                }
                _ => {
                    let found = to_cluster(reader, element.start)?;
                    if found || element.end.is_none() {
                        self.damaged(element.head);
                    }
                    if !found {
                        // The file ends in this element, or its size is wrong.
                        self.cut |= element.end.is_some_and(|end| end > reader.bytes());
                        return Ok(());
                    }
                    (cluster, strange) = (None, false);
                }
            }
        }
    }

    /// Whether the segment goes on where it says that it ends, which is a fault. What may follow are empty parts and
    /// zeros; another file in the same one is left out.
    fn goes_on(&mut self, reader: &mut Reader<'_>) -> Result<bool, MediaError> {
        let from = loop {
            let from = reader.at();
            match Element::next(reader, u64::MAX) {
                Ok(None) => return Ok(false),
                Err(Broken::Stop(error)) => return Err(error),
                Ok(Some(Element { id: 0xec, end: Some(end), .. })) if end <= reader.bytes() => reader.go(end)?,
                Ok(Some(Element { id: SEGMENT | EBML, .. })) => {
                    self.faults.add(SECOND);
                    return Ok(false);
                }
                _ => break from,
            }
        };
        reader.go(from)?;
        while reader.left() > 0 {
            let window = reader.take(reader.left().min(WINDOW as u64), WINDOW)?;
            if window.iter().any(|byte| *byte != 0) {
                self.faults.add("the file is damaged: it is longer than it says");
                reader.go(from)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn damaged(&mut self, at: u64) {
        self.faults.add(format!("the file is damaged at byte {at}: frames may be missing"));
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
                    self.damaged(group.head);
                    break;
                }
            };
            match element.id {
                BLOCK => {
                    let before = block.replace(element);
                    if before.is_some() {
                        self.damaged(element.head);
                    }
                }
                BLOCK_DURATION => duration = element.unsigned(reader).unwrap_or(0),
                REFERENCE => key = false,
                _ => {}
            }
            let Some(next) = element.end.filter(|next| *next <= end) else {
                self.damaged(element.head);
                break;
            };
            reader.go(next)?;
        }
        match block.filter(|block| block.end.is_some_and(|inner| inner <= end)) {
            Some(block) => self.block(block, time, Some((key, duration)), reader),
            None => {
                self.damaged(group.head);
                Ok(())
            }
        }
    }

    fn block(
        &mut self,
        element: Element,
        cluster: Option<u64>,
        group: Option<(bool, u64)>,
        reader: &mut Reader<'_>,
    ) -> Result<(), MediaError> {
        let Self { track, packets, .. } = self;
        let block = match Block::read(element, reader, |number| track.number == number) {
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
        if block.track != track.number {
            if !self.numbers.contains(&block.track) {
                self.faults.add("a block belongs to a track that does not exist: frames may be missing");
            }
            return Ok(());
        }
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
                self.faults.add("a block of the video has no bytes and is left out");
                continue;
            }
            packets.list.push(Packet { offset, size, pts: time, key: key && number == 0 });
            packets.last = packets.last.max(Some((time, duration)));
            time = time.saturating_add(duration).min(FAR);
        }
        Ok(())
    }
}

/// Goes to where the next cluster begins, looked for byte by byte; `false` if there is none.
fn to_cluster(reader: &mut Reader<'_>, from: u64) -> Result<bool, MediaError> {
    let name = CLUSTER.to_be_bytes();
    reader.go(from)?;
    while reader.left() >= name.len() as u64 {
        let at = reader.at();
        let window = reader.take(reader.left().min(WINDOW as u64), WINDOW)?;
        if let Some(place) = window.windows(name.len()).position(|bytes| bytes == name) {
            reader.go(at + place as u64)?;
            return Ok(true);
        }
        // The name may lie across the border of two windows.
        let across = if reader.left() > 0 { name.len() as u64 - 1 } else { 0 };
        reader.go(reader.at() - across)?;
    }
    Ok(false)
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
