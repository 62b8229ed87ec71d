//! Fragments (`moof`): samples that are described next to their bytes.
//!
//! Invariant: the number of samples is checked before there is memory for them, also where a fragment describes many
//! of them without a byte.

use super::super::faults::Faults;
use super::super::reader::Reader;
use super::super::{Limits, MediaError};
use super::boxes::Part;
use super::movie::{Defaults, next};
use super::sample::{Entry, Sample};

/// What the fragments of one track say so far.
pub(super) struct Fragments<'a> {
    /// The track.
    pub(super) track: u32,
    /// The description that the samples so far use.
    pub(super) description: Option<u32>,
    pub(super) defaults: &'a [Defaults],
    /// How much earlier samples are shown than they say.
    pub(super) offset: i64,
    /// The most negative delay so far, without its sign.
    pub(super) shift: i64,
    /// Where the next sample would be on the line of decoding times.
    pub(super) end: i64,
    pub(super) samples: Vec<Sample>,
    pub(super) entries: Vec<Entry>,
}

/// A fragment of a track as it is read.
struct Run {
    mine: bool,
    base: u64,
    /// Where the next run's bytes are, if it does not say.
    at: u64,
    dts: i64,
    defaults: Defaults,
}

impl Fragments<'_> {
    /// Reads one `moof` box.
    pub(super) fn read(
        &mut self,
        moof: Part,
        reader: &mut Reader<'_>,
        limits: &Limits,
        faults: &mut Faults,
    ) -> Result<(), MediaError> {
        // Without a word on it, a fragment's bytes follow those of the track before it.
        let mut implicit = moof.head;
        let mut parts = moof.parts(0);
        while let Some(part) = next(&mut parts, reader, faults)? {
            if &part.kind == b"traf" {
                self.fragment(part, moof.head, &mut implicit, reader, limits, faults)?;
            }
        }
        Ok(())
    }

    fn fragment(
        &mut self,
        traf: Part,
        moof: u64,
        implicit: &mut u64,
        reader: &mut Reader<'_>,
        limits: &Limits,
        faults: &mut Faults,
    ) -> Result<(), MediaError> {
        let mut run = None;
        let mut parts = traf.parts(0);
        while let Some(part) = next(&mut parts, reader, faults)? {
            match (&part.kind, &mut run) {
                (b"tfhd", run) => *run = Some(self.head(part, moof, *implicit, reader)?),
                (b"tfdt", Some(run)) if run.mine => {
                    reader.go(part.start)?;
                    let long = reader.u8()? == 1;
                    reader.go(part.start + 4)?;
                    let dts = if long { reader.u64()? } else { u64::from(reader.u32()?) };
                    run.dts = i64::try_from(dts).unwrap_or(i64::MAX).min(1 << 60);
                }
                (b"trun", Some(run)) => {
                    self.run(part, run, reader, limits, faults)?;
                    *implicit = run.at;
                }
                (b"trun", None) => faults.add("a fragment of the file does not say which track it belongs to"),
                _ => {}
            }
        }
        if let Some(run) = run.filter(|run| run.mine) {
            self.end = run.dts;
        }
        Ok(())
    }

    fn head(&self, part: Part, moof: u64, implicit: u64, reader: &mut Reader<'_>) -> Result<Run, MediaError> {
        reader.go(part.start)?;
        let flags = reader.u32()?;
        let track = reader.u32()?;
        let mut defaults = self.defaults.iter().find(|defaults| defaults.track == track).copied().unwrap_or_default();
        let base = match flags {
            _ if flags & 1 != 0 => reader.u64()?,
            _ if flags & 0x2_0000 != 0 => moof,
            _ => implicit,
        };
        let fields = [&mut defaults.description, &mut defaults.duration, &mut defaults.size, &mut defaults.flags];
        for (field, flag) in fields.into_iter().zip([2, 8, 0x10, 0x20]) {
            if flags & flag != 0 {
                *field = reader.u32()?;
            }
        }
        Ok(Run { mine: track == self.track, base, at: base, dts: self.end, defaults })
    }

    /// Reads one `trun` box.
    fn run(
        &mut self,
        part: Part,
        run: &mut Run,
        reader: &mut Reader<'_>,
        limits: &Limits,
        faults: &mut Faults,
    ) -> Result<(), MediaError> {
        reader.go(part.start)?;
        let flags = reader.u32()?;
        let claimed = u64::from(reader.u32()?);
        if flags & 1 != 0 {
            run.at = run.base.saturating_add_signed(i64::from(reader.i32()?));
        }
        let first_flags = if flags & 4 != 0 { reader.u32()? } else { run.defaults.flags };
        let fields = [0x100, 0x200, 0x400, 0x800].map(|flag| flags & flag != 0);
        let entry = 4 * fields.iter().filter(|there| **there).count() as u64;
        let count = match part.end.saturating_sub(reader.at()).checked_div(entry) {
            Some(there) if there < claimed => {
                faults.add(format!("a fragment claims {claimed} frames but describes {there}"));
                there
            }
            _ => claimed,
        };
        if run.mine {
            self.check(count, run, reader, limits)?;
        } else if entry == 0 {
            run.at = run.at.saturating_add(count.saturating_mul(u64::from(run.defaults.size)));
            return Ok(());
        }
        let [has_duration, has_size, has_flags, has_delay] = fields;
        for number in 0..count {
            let duration = if has_duration { reader.u32()? } else { run.defaults.duration };
            let size = if has_size { reader.u32()? } else { run.defaults.size };
            let plain = if number == 0 { first_flags } else { run.defaults.flags };
            let bits = if has_flags { reader.u32()? } else { plain };
            let delay = if has_delay { reader.i32()? } else { 0 };
            if run.mine {
                self.shift = self.shift.max(-i64::from(delay));
                // Neither «no sync sample» nor «depends on others».
                let key = bits & 0x0101_0000 == 0;
                self.samples.push(Sample { offset: run.at, size, duration, dts: run.dts, delay: Some(delay), key });
                run.dts += i64::from(duration);
            }
            run.at = run.at.saturating_add(u64::from(size));
        }
        Ok(())
    }

    /// That there may be `count` samples more.
    fn check(&mut self, count: u64, run: &Run, reader: &Reader<'_>, limits: &Limits) -> Result<(), MediaError> {
        let total = count + self.samples.len() as u64;
        limits.check_frames(total)?;
        // Each sample that is in the file has at least one byte.
        if total > reader.bytes() {
            let bytes = reader.bytes();
            return Err(MediaError::Damaged(format!("the file claims {total} frames but has only {bytes} bytes")));
        }
        let description = run.defaults.description.max(1);
        if count > 0 && *self.description.get_or_insert(description) != description {
            return Err(MediaError::Unsupported(
                "the way the video is coded changes in the middle of the file; ffmpeg can decode it (--decoder ffmpeg)"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// When the samples from `first` on are shown. All of them are late by the most negative delay that ffmpeg has seen
    /// by then: that of the whole file, unless a segment index spares it reading ahead.
    pub(super) fn place(&mut self, first: usize) {
        let mut before = first.checked_sub(1).and_then(|last| self.samples.get(last)).map(|sample| sample.dts);
        for (number, sample) in self.samples.iter().enumerate().skip(first) {
            // Fragments can overlap; what was there already is not shown again.
            let hidden = before.is_some_and(|before| before >= sample.dts);
            let time = sample.dts - self.offset + self.shift + i64::from(sample.delay.unwrap_or(0));
            self.entries.push(Entry { sample: number, time, hidden });
            before = Some(sample.dts);
        }
    }
}

/// How many samples of a track one `moof` box claims.
pub(super) fn count(moof: Part, track: u32, reader: &mut Reader<'_>) -> Result<u64, MediaError> {
    // Its faults are found when it is read.
    let mut faults = Faults::default();
    let mut total = 0_u64;
    let mut parts = moof.parts(0);
    while let Some(traf) = next(&mut parts, reader, &mut faults)? {
        if &traf.kind != b"traf" {
            continue;
        }
        let mut mine = false;
        let mut inner = traf.parts(0);
        while let Some(part) = next(&mut inner, reader, &mut faults)? {
            if matches!(&part.kind, b"tfhd" | b"trun") {
                reader.go(part.start + 4)?;
                let number = reader.u32()?;
                match part.kind[0..2] == *b"tf" {
                    true => mine = number == track,
                    false if mine => total = total.saturating_add(u64::from(number)),
                    false => {}
                }
            }
        }
    }
    Ok(total)
}
