//! MP4 and QuickTime.
//!
//! ```text
//!  ftyp │ moov: tracks │ tables ─┐           mdat │ moof, mdat │ moof, mdat
//!       │ movie        │ tables  ├▶ edits ──▶     │ fragments
//!       │ description  │         ┘                │
//! ```
//!
//! Invariant: the samples' bytes are never read, and of the tables only those of the one track that is shown.

mod boxes;
mod description;
mod edits;
mod fragments;
mod movie;
mod sample;
mod tables;

use self::boxes::{Broken, Part, Parts};
use self::description::Description;
use self::fragments::Fragments;
use self::movie::Movie;
use self::sample::{Entry, Sample};
use self::tables::Tables;
use super::faults::Faults;
use super::reader::Reader;
use super::{Index, Limits, MediaError, Packet, Shown, Turn};

/// Whether a file that starts so is MP4 or QuickTime.
pub(super) fn looks_like(start: &[u8]) -> bool {
    const FIRST: [&[u8]; 14] = [
        b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"sidx", b"moof", b"uuid", b"junk",
        b"emsg", b"prft",
    ];
    start.get(4..8).is_some_and(|kind| FIRST.contains(&kind))
}

/// Boxes of the outermost level that have nothing to say on frames.
const OTHER: [[u8; 4]; 22] = [
    *b"ftyp", *b"moov", *b"free", *b"skip", *b"wide", *b"pnot", *b"styp", *b"sidx", *b"ssix", *b"uuid", *b"junk",
    *b"emsg", *b"prft", *b"mfra", *b"meta", *b"udta", *b"pdin", *b"meco", *b"PICT", *b"imda", *b"bloc", *b"etyp",
];

/// Where the boxes are that matter.
#[derive(Default)]
struct Layout {
    moov: Option<Part>,
    moofs: Vec<Part>,
    brand: Option<[u8; 4]>,
    mdat: Option<Part>,
    /// The end of what a segment index says there is.
    indexed: u64,
    /// The first place at which there is something else than a known box, and what is wrong there.
    odd: Option<String>,
    /// Whether a segment index before the first fragment describes the whole file.
    complete: bool,
}

/// Reads the index of a file.
pub(super) fn index(reader: &mut Reader<'_>, limits: &Limits) -> Result<Index, MediaError> {
    let mut faults = Faults::default();
    let layout = Layout::read(reader, limits)?;
    let moov = layout.moov()?;
    let movie = Movie::read(moov, reader, &mut faults)?;
    let track = movie.track()?;
    track.scale()?;
    track.complain(&mut faults);
    if movie.fragmented || !layout.moofs.is_empty() {
        layout.complain(&mut faults);
    }
    let tables = Tables::read(track, reader, limits, &mut faults)?;
    let edits = track.edits(movie.scale, reader, limits, &mut faults)?;
    let described = (!tables.samples.is_empty()).then_some(tables.description);
    let mut fragments = Fragments {
        track: track.id,
        description: described,
        defaults: &movie.defaults,
        tracks: &movie.ids,
        offset: edits::offset(&edits),
        shift: tables.shift,
        end: tables.end,
        entries: edits::apply(&tables.samples, &edits, tables.shift, limits)?,
        samples: tables.samples,
    };
    let whole = fragments.samples.len();
    for moof in &layout.moofs {
        if moof.cut {
            faults.add("the file is cut off inside the description of a fragment: at least its frames are not there");
            continue;
        }
        let first = fragments.samples.len();
        fragments.read(*moof, reader, limits, &mut faults)?;
        if layout.complete {
            fragments.place(first, &mut faults);
        }
    }
    if !layout.complete {
        // What is in the tables is late by as much as the fragments are.
        let late = fragments.shift - tables.shift;
        fragments.entries.iter_mut().for_each(|entry| entry.time = entry.time.saturating_add(late));
        fragments.place(whole, &mut faults);
    }
    if layout.indexed > reader.bytes() {
        let missing = layout.indexed - reader.bytes();
        faults.add(format!("the file is cut off: {missing} of its {} bytes are not there", layout.indexed));
    }
    let stsd = track.stsd.ok_or_else(|| {
        MediaError::Damaged("the file does not say how its video is coded (it has no `stsd` box)".to_owned())
    })?;
    let number = fragments.description.unwrap_or(1);
    let description = Description::read(stsd, number, reader, &mut faults)?;
    let turn = Turn::from_matrix(movie.matrix(track)).unwrap_or_else(|| {
        faults.add("the file asks for its picture to be turned by an angle that is no quarter turn; it is not turned");
        Turn::default()
    });
    let shift = tables.shift;
    let Fragments { samples, entries, .. } = fragments;
    let pts = |number: usize, sample: &Sample| {
        let shift = if number < whole { sample.delay.map_or(0, |_| shift) } else { 0 };
        sample.dts + shift + i64::from(sample.delay.unwrap_or(0))
    };
    let (packets, shown, end) =
        present(&samples, &entries, pts, reader.bytes(), !layout.moofs.is_empty(), &mut faults)?;
    // Edits can show a packet more than once.
    limits.check_frames(shown.len() as u64)?;
    Ok(Index {
        codec: description.codec,
        config: description.config,
        packets,
        shown,
        tick: (1, u64::from(track.scale()?)),
        end,
        turn,
        colour: description.colour,
        size: description.size,
        faults: faults.into_vec(),
        prefix: Vec::new(),
    })
}

impl Layout {
    fn read(reader: &mut Reader<'_>, limits: &Limits) -> Result<Self, MediaError> {
        let mut layout = Layout::default();
        // A random access index, if there is one, ends with its own size and is no part of what others describe.
        reader.go(reader.bytes().saturating_sub(4))?;
        let last = u64::from(reader.u32().unwrap_or(0));
        reader.go(reader.bytes().saturating_sub(last).saturating_add(4))?;
        let random = last >= 8 && last <= reader.bytes() && reader.array::<4>().is_ok_and(|kind| &kind == b"mfra");
        let whole = if random { reader.bytes() - last } else { reader.bytes() };
        let mut parts = Parts::of_file(reader.bytes());
        loop {
            let part = match parts.next(reader) {
                Ok(Some(part)) => part,
                Ok(None) => break,
                Err(Broken::NoBox(at)) => {
                    layout.odd.get_or_insert(format!("the file is damaged: there is no box at byte {at}"));
                    break;
                }
                Err(Broken::Stop(error)) => return Err(error),
            };
            match &part.kind {
                b"ftyp" if part.size() >= 4 => {
                    reader.go(part.start)?;
                    layout.brand = Some(reader.array()?);
                }
                b"moov" if layout.moov.is_none() => layout.moov = Some(part),
                b"moof" => {
                    // One without a frame makes no sense.
                    limits.check_frames(layout.moofs.len() as u64 + 1)?;
                    layout.moofs.push(part);
                }
                b"mdat" => layout.mdat = Some(part),
                kind if !OTHER.contains(kind) && part.may_be([b"moov", b"moof", b"mdat"]) => {
                    let what = format!(
                        "the file is damaged: the box `{}` at byte {} is of no known kind",
                        part.name(),
                        part.head
                    );
                    layout.odd.get_or_insert(what);
                }
                b"sidx" => {
                    let end = indexed(part, reader).unwrap_or(0);
                    layout.indexed = layout.indexed.max(end);
                    layout.complete |= layout.moofs.is_empty() && end == whole;
                }
                _ => {}
            }
        }
        Ok(layout)
    }

    /// What is wrong with a file in which there may be a fragment at any place. In others, bytes after the last box are
    /// common and harmless.
    fn complain(&self, faults: &mut Faults) {
        if let Some(odd) = &self.odd {
            faults.add(format!("{odd}; frames may be missing"));
        }
        if self.mdat.is_some_and(|mdat| mdat.cut) {
            faults.add("the file is cut off inside its last fragment");
        }
    }

    /// The `moov` box, or why there is none.
    fn moov(&self) -> Result<Part, MediaError> {
        let damaged = |what: &str| Err(MediaError::Damaged(what.to_owned()));
        match (self.moov, self.mdat) {
            (Some(moov), _) if moov.cut => {
                damaged("the file is cut off inside its index (moov): no frame can be found")
            }
            (Some(moov), _) => Ok(moov),
            (None, Some(mdat)) if mdat.cut => damaged(
                "the file is cut off: its index (moov) stands at the end, which is not there, so that no frame can be found",
            ),
            (None, None) if matches!(self.brand.as_ref(), Some(b"heic" | b"heix" | b"mif1" | b"avif")) => {
                Err(MediaError::Unsupported("the file is a still image (HEIF or AVIF), not a video".to_owned()))
            }
            (None, _) if !self.moofs.is_empty() => {
                damaged("the file is a part of a stream without its beginning (moov): no frame can be decoded")
            }
            (None, _) => damaged("the file has no index (moov): no frame can be found"),
        }
    }
}

/// Where the part of the file ends that a `sidx` box describes.
fn indexed(part: Part, reader: &mut Reader<'_>) -> Result<u64, MediaError> {
    reader.go(part.start)?;
    let long = reader.u8()? == 1;
    reader.go(part.start + if long { 20 } else { 16 })?;
    let offset = if long { reader.u64()? } else { u64::from(reader.u32()?) };
    let count = u32::from(reader.u32()? as u16);
    let mut end = part.end.saturating_add(offset);
    for _ in 0..count {
        if reader.at().saturating_add(12) > part.end {
            break;
        }
        end = end.saturating_add(u64::from(reader.u32()? & 0x7fff_ffff));
        reader.go(reader.at() + 8)?;
    }
    Ok(end)
}

/// The packets that are in the file, the frames that are shown, and when the last one ends.
fn present(
    samples: &[Sample],
    entries: &[Entry],
    pts: impl Fn(usize, &Sample) -> i64,
    bytes: u64,
    fragmented: bool,
    faults: &mut Faults,
) -> Result<(Vec<Packet>, Vec<Shown>, i64), MediaError> {
    let mut packets = Vec::with_capacity(samples.len());
    // The number of each sample's packet.
    let mut numbers = Vec::with_capacity(samples.len());
    let (mut missing, mut empty) = (0_usize, 0_usize);
    for (number, sample) in samples.iter().enumerate() {
        let inside = sample.offset.checked_add(u64::from(sample.size)).is_some_and(|end| end <= bytes);
        if sample.size == 0 {
            empty += 1;
        } else if !inside {
            missing += 1;
        }
        let there = sample.size > 0 && inside;
        numbers.push(there.then_some(packets.len()));
        if there {
            let Sample { offset, size, key, .. } = *sample;
            packets.push(Packet { offset, size, pts: pts(number, sample), key });
        }
    }
    if missing > 0 {
        let all = samples.len() - empty;
        faults.add(match fragmented {
            // More fragments may have followed.
            true => format!("the file is cut off: at least {missing} frames are not there"),
            false => format!("the file is cut off: {missing} of its {all} frames are not there"),
        });
    }
    let mut shown = Vec::with_capacity(entries.len());
    let mut last: Option<(i64, i64)> = None;
    for entry in entries.iter().filter(|entry| !entry.hidden) {
        let (Some(Some(packet)), Some(sample)) = (numbers.get(entry.sample), samples.get(entry.sample)) else {
            continue;
        };
        shown.push((entry.edit, Shown { packet: *packet, time: entry.time }));
        let end = entry.time.saturating_add(i64::from(sample.duration));
        last = last.max(Some((entry.time, end)));
    }
    if packets.is_empty() || shown.is_empty() {
        return Err(MediaError::Damaged(match (missing, packets.len()) {
            (0, 0) => "the video has no frames".to_owned(),
            (_, 0) => format!("the file is cut off: none of its {missing} frames is there"),
            (_, _) => "the edit list shows none of the video's frames".to_owned(),
        }));
    }
    overlaps(&packets, faults);
    // Each edit is shown as a whole: at a seam, times may be the same, or even go back.
    shown.sort_by_key(|(edit, shown)| (*edit, shown.time, shown.packet));
    let shown = shown.into_iter().map(|(_, shown)| shown).collect();
    Ok((packets, shown, last.map_or(0, |(_, end)| end)))
}

/// Packets that share bytes: only a broken index has them.
fn overlaps(packets: &[Packet], faults: &mut Faults) {
    let mut spans: Vec<(u64, u64)> = packets.iter().map(|p| (p.offset, p.offset + u64::from(p.size))).collect();
    spans.sort_unstable();
    let shared = spans.iter().zip(spans.iter().skip(1)).filter(|(one, two)| two.0 < one.1).count();
    if shared > 0 {
        faults.add(format!("the tables contradict each other: {shared} frames share their bytes with others"));
    }
}
