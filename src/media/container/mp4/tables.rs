//! Sample tables: where each sample is, how long it lasts, and which ones are key frames.
//!
//! Invariant: a table has as many entries as its box has bytes for, and no more than frames are allowed. Where two
//! tables contradict each other, the samples are those that ffmpeg would show, and there is a fault.

use super::super::faults::Faults;
use super::super::reader::Reader;
use super::super::{Limits, MediaError};
use super::boxes::Part;
use super::movie::Track;
use super::sample::Sample;

/// Durations above this are what ffmpeg takes for a negative number.
const LONGEST: u32 = u32::MAX - 48000 * 10;

/// What a track's tables say.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The samples in decoding order.
    pub(super) samples: Vec<Sample>,
    /// The most negative delay, without its sign.
    pub(super) shift: i64,
    /// The end of the last sample on the line of decoding times.
    pub(super) end: i64,
    /// The description that the samples use, counted from 1.
    pub(super) description: u32,
}

impl Tables {
    /// Reads a track's tables.
    pub(super) fn read(
        track: &Track,
        reader: &mut Reader<'_>,
        limits: &Limits,
        faults: &mut Faults,
    ) -> Result<Self, MediaError> {
        let mut out = Tables { description: 1, ..Tables::default() };
        let (Some(stsz), true) = (track.stsz, track.claimed > 0) else {
            let mut table = Table { reader, limits, faults };
            let timed = table.runs::<2>(track.stts, "stts")?.iter().any(|[count, _]| *count > 0);
            if timed || !table.chunks(track.stco)?.is_empty() {
                faults.add(
                    "the tables contradict each other: some say that there are frames, but not how large they are",
                );
            }
            return Ok(out);
        };
        limits.check_frames(track.claimed)?;
        // Each sample that is in the file has at least one byte.
        if track.claimed > reader.bytes() {
            return Err(MediaError::Damaged(format!(
                "the file claims {} frames but has only {} bytes",
                track.claimed,
                reader.bytes()
            )));
        }
        let mut table = Table { reader, limits, faults };
        let sizes = table.sizes(stsz, track.claimed)?;
        let offsets = table.chunks(track.stco)?;
        let chunks = table.runs::<3>(track.stsc, "stsc")?;
        let durations = durations(table.runs::<2>(track.stts, "stts")?);
        let (delays, shift) = delays(table.runs::<2>(track.ctts, "ctts")?, table.faults);
        let keys = Keys {
            all: track.stss.is_none(),
            sync: Numbers::new(table.runs::<1>(track.stss, "stss")?),
            partial: Numbers::new(table.runs::<1>(track.stps, "stps")?),
            points: table.points(track.points)?,
        };
        if offsets.is_empty() || chunks.is_empty() || durations.is_empty() {
            return Err(MediaError::Damaged(
                "the file's index is broken: it claims frames but does not say where or when they are".to_owned(),
            ));
        }
        out.shift = shift;
        out.fill(&sizes, &offsets, &chunks, table.faults)?;
        out.time(&durations, &delays, table.faults);
        out.mark(keys);
        Ok(out)
    }

    /// Where the samples are.
    fn fill(
        &mut self,
        sizes: &[u32],
        offsets: &[u64],
        chunks: &[[u32; 3]],
        faults: &mut Faults,
    ) -> Result<(), MediaError> {
        let mut sizes_left = sizes.iter();
        let mut rest = chunks.iter().peekable();
        let mut current = None;
        self.samples.reserve_exact(sizes.len());
        'all: for (number, offset) in offsets.iter().enumerate() {
            while let Some(run) = rest.next_if(|[first, ..]| current.is_none() || *first as usize <= number + 1) {
                current = Some(run);
            }
            let Some([_, count, description]) = current else { break };
            if self.samples.is_empty() {
                self.description = (*description).max(1);
            } else if *description != self.description {
                return Err(MediaError::Unsupported(
                    "the way the video is coded changes in the middle of the file; ffmpeg can decode it (--decoder \
                     ffmpeg)"
                        .to_owned(),
                ));
            }
            let mut offset = *offset;
            for _ in 0..*count {
                let Some(size) = sizes_left.next() else { break 'all };
                self.samples.push(Sample { offset, size: *size, duration: 0, dts: 0, delay: None, key: false });
                offset = offset.saturating_add(u64::from(*size));
            }
        }
        let lost = sizes.len() - self.samples.len();
        if lost > 0 {
            faults.add(format!("the tables contradict each other: {lost} of {} frames are nowhere", sizes.len()));
        }
        Ok(())
    }

    /// When the samples are decoded and shown.
    fn time(&mut self, durations: &[(u32, u32)], delays: &[(u32, i32)], faults: &mut Faults) {
        let total = |counts: &mut dyn Iterator<Item = u32>| counts.map(u64::from).sum::<u64>();
        let samples = self.samples.len() as u64;
        let timed = total(&mut durations.iter().map(|run| run.0));
        if timed != samples {
            faults.add(format!("the tables contradict each other: {samples} frames, but times for {timed}"));
        }
        let delayed = total(&mut delays.iter().map(|run| run.0));
        if !delays.is_empty() && delayed != samples {
            faults.add(format!("the tables contradict each other: {samples} frames, but delays for {delayed}"));
        }
        let mut dts = -self.shift;
        let (mut run, mut used) = (0, 0);
        let mut delays = delays.iter().flat_map(|(count, delay)| std::iter::repeat_n(*delay, *count as usize));
        for sample in &mut self.samples {
            let (count, duration) = durations.get(run).copied().unwrap_or((0, 0));
            sample.dts = dts;
            sample.duration = duration;
            sample.delay = delays.next();
            dts += i64::from(duration);
            used += 1;
            // The last duration goes on for all samples that are left.
            if used == count && run + 1 < durations.len() {
                (run, used) = (run + 1, 0);
            }
        }
        self.end = dts + self.shift;
    }

    /// Which samples are key frames.
    fn mark(&mut self, mut keys: Keys) {
        // Numbers count from 1, but some files count from 0.
        let base =
            u32::from(keys.sync.first().is_some_and(|key| key > 0) || keys.partial.first().is_some_and(|key| key > 0));
        let none = !keys.all && keys.sync.first().is_none();
        let lone = none && keys.partial.first().is_none() && keys.points.is_empty();
        let mut points = keys.points.iter().flat_map(|[count, group]| std::iter::repeat_n(*group > 0, *count as usize));
        for (number, sample) in (base..).zip(&mut self.samples) {
            let listed = keys.all || keys.sync.has(number) || keys.partial.has(number);
            let point = points.next().unwrap_or(false);
            sample.key = listed || point || (lone && number == base);
        }
    }
}

/// What says which samples are key frames.
struct Keys {
    /// No list: all are.
    all: bool,
    sync: Numbers,
    partial: Numbers,
    points: Vec<[u32; 2]>,
}

/// A rising list of numbers that is gone through once.
struct Numbers {
    list: Vec<[u32; 1]>,
    at: usize,
}

impl Numbers {
    fn new(list: Vec<[u32; 1]>) -> Self {
        Self { list, at: 0 }
    }

    fn first(&self) -> Option<u32> {
        self.list.first().map(|[number]| *number)
    }

    /// Whether the number is the next of the list.
    fn has(&mut self, number: u32) -> bool {
        let found = self.list.get(self.at).is_some_and(|[next]| *next == number);
        if found {
            self.at += 1;
        }
        found
    }
}

/// Reads tables of one file.
struct Table<'a, 'b> {
    reader: &'a mut Reader<'b>,
    limits: &'a Limits,
    faults: &'a mut Faults,
}

impl Table<'_, '_> {
    /// The size of each sample.
    fn sizes(&mut self, part: Part, claimed: u64) -> Result<Vec<u32>, MediaError> {
        self.reader.go(part.start + 4)?;
        let field = self.reader.u32()?;
        self.reader.go(part.start + 12)?;
        let compact = &part.kind == b"stz2";
        if !compact && field > 0 {
            return Ok(vec![field; usize::try_from(claimed).unwrap_or(0)]);
        }
        let bits = if compact { u64::from(field & 0xff) } else { 32 };
        if !matches!(bits, 4 | 8 | 16 | 32) {
            return Err(MediaError::Damaged(format!("the file's index is broken: frame sizes of {bits} bits")));
        }
        let there = part.size().saturating_sub(12).saturating_mul(8) / bits;
        let count = self.fitting(claimed, there, "stsz");
        let mut sizes = Vec::with_capacity(count);
        while sizes.len() < count {
            match bits {
                4 => {
                    let pair = self.reader.u8()?;
                    sizes.push(u32::from(pair >> 4));
                    if sizes.len() < count {
                        sizes.push(u32::from(pair & 15));
                    }
                }
                8 => sizes.push(u32::from(self.reader.u8()?)),
                16 => sizes.push(u32::from(self.reader.u16()?)),
                _ => sizes.push(self.reader.u32()?),
            }
        }
        Ok(sizes)
    }

    /// Where each chunk begins.
    fn chunks(&mut self, part: Option<Part>) -> Result<Vec<u64>, MediaError> {
        let Some(part) = part else { return Ok(Vec::new()) };
        let wide = &part.kind == b"co64";
        let count = self.count(part, if wide { 8 } else { 4 }, "stco")?;
        let mut offsets = Vec::with_capacity(count);
        for _ in 0..count {
            offsets.push(if wide { self.reader.u64()? } else { u64::from(self.reader.u32()?) });
        }
        Ok(offsets)
    }

    /// Rows of `N` numbers.
    fn runs<const N: usize>(&mut self, part: Option<Part>, name: &str) -> Result<Vec<[u32; N]>, MediaError> {
        let Some(part) = part else { return Ok(Vec::new()) };
        let count = self.count(part, N as u64 * 4, name)?;
        self.rows(count)
    }

    /// Random access points: how many samples, and whether they are ones.
    fn points(&mut self, part: Option<Part>) -> Result<Vec<[u32; 2]>, MediaError> {
        let Some(mut part) = part else { return Ok(Vec::new()) };
        self.reader.go(part.start)?;
        // After version and flags come the kind and, from version 1 on, a parameter.
        part.start += if self.reader.u8()? == 0 { 4 } else { 8 };
        let count = self.count(part, 8, "sbgp")?;
        self.rows(count)
    }

    fn rows<const N: usize>(&mut self, count: usize) -> Result<Vec<[u32; N]>, MediaError> {
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let mut row = [0; N];
            for number in &mut row {
                *number = self.reader.u32()?;
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// The number of entries of a table, whose first one is read next.
    fn count(&mut self, part: Part, entry: u64, name: &str) -> Result<usize, MediaError> {
        self.reader.go(part.start + 4)?;
        let claimed = u64::from(self.reader.u32()?);
        let there = part.size().saturating_sub(8) / entry;
        self.limits.check_frames(claimed.min(there))?;
        Ok(self.fitting(claimed, there, name))
    }

    fn fitting(&mut self, claimed: u64, there: u64, name: &str) -> usize {
        // Room that is not used is no damage, but a table of nothing but room is.
        if claimed > there || (claimed == 0 && there > 0) {
            self.faults.add(format!("table `{name}` claims {claimed} entries but has {there}"));
        }
        usize::try_from(claimed.min(there)).unwrap_or(0)
    }
}

/// How many samples have which duration. Durations that are negative numbers in disguise become 1, and what that adds
/// is taken from those that follow.
fn durations(runs: Vec<[u32; 2]>) -> Vec<(u32, u32)> {
    let (mut now, mut right) = (0_i64, 0_i64);
    let mut out = Vec::with_capacity(runs.len());
    for [count, claimed] in runs {
        let many = i64::from(count);
        let mut duration = claimed;
        if claimed > LONGEST {
            duration = 1;
            right = right.saturating_add(i64::from(claimed as i32).saturating_mul(many));
        } else {
            right = right.saturating_add(i64::from(claimed).saturating_mul(many));
        }
        now = now.saturating_add(i64::from(duration).saturating_mul(many));
        if now > right {
            let drift = now.saturating_sub(right) / many.max(1);
            let less = drift.min(i64::from(duration) - 1).max(0);
            now -= less.saturating_mul(many);
            duration -= less as u32;
        }
        out.push((count, duration));
    }
    out
}

/// How many samples have which delay, and the most negative one without its sign.
fn delays(runs: Vec<[u32; 2]>, faults: &mut Faults) -> (Vec<(u32, i32)>, i64) {
    let mut out = Vec::with_capacity(runs.len());
    let mut shift = 0;
    let last = runs.len();
    for (number, [count, delay]) in runs.into_iter().enumerate() {
        let delay = delay as i32;
        if count == 0 || count > i32::MAX as u32 {
            continue;
        }
        // ffmpeg does not look at the last two, which some writers get wrong.
        if number + 2 < last {
            if delay.unsigned_abs() > 1 << 28 {
                faults.add("the file's delays make no sense and are not used: frames may be in the wrong order");
                return (Vec::new(), shift);
            }
            shift = shift.max(-i64::from(delay));
        }
        out.push((count, delay));
    }
    (out, shift)
}
