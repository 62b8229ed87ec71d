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
    /// The numbers of all tracks, also of those without pictures.
    pub(super) tracks: &'a [u32],
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
            match &part.kind {
                b"traf" => self.fragment(part, moof.head, &mut implicit, reader, limits, faults)?,
                b"mfhd" | b"meta" | b"pssh" | b"free" | b"skip" | b"uuid" => {}
                _ if part.may_be([b"traf"]) => faults.add(unknown(part)),
                _ => {}
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
                (b"tfhd", run) => *run = Some(self.head(part, moof, *implicit, reader, faults)?),
                (b"tfdt", Some(run)) if run.mine => {
                    reader.go(part.start)?;
                    let version = reader.u8()?;
                    if version > 1 {
                        faults.add(unknown(part));
                    }
                    reader.go(part.start + 4)?;
                    let dts = if version == 1 { reader.u64()? } else { u64::from(reader.u32()?) };
                    run.dts = i64::try_from(dts).unwrap_or(i64::MAX).min(1 << 60);
                }
                (b"trun", Some(run)) => {
                    self.run(part, run, reader, limits, faults)?;
                    *implicit = run.at;
                }
                (b"trun", None) => faults.add("a fragment of the file does not say which track it belongs to"),
                (b"tfdt", None) => faults.add("a fragment of the file does not say which track it belongs to"),
                (b"tfdt" | b"sbgp" | b"sgpd" | b"subs" | b"saiz" | b"saio" | b"senc", _) => {}
                (b"meta" | b"free" | b"skip" | b"uuid" | b"tfxd" | b"tfrf", _) => {}
                _ if part.may_be([b"tfhd", b"tfdt", b"trun"]) => faults.add(unknown(part)),
                _ => {}
            }
        }
        if let Some(run) = run.filter(|run| run.mine) {
            self.end = run.dts;
        }
        Ok(())
    }

    fn head(
        &self,
        part: Part,
        moof: u64,
        implicit: u64,
        reader: &mut Reader<'_>,
        faults: &mut Faults,
    ) -> Result<Run, MediaError> {
        reader.go(part.start)?;
        let flags = reader.u32()?;
        let track = reader.u32()?;
        if !self.tracks.contains(&track) {
            faults.add("a fragment of the file belongs to a track that does not exist: frames may be missing");
        }
        let mine = track == self.track;
        let defaults = self.defaults.iter().find(|defaults| defaults.track == track).copied();
        if mine && defaults.is_none() {
            faults.add("the file does not say what its fragments have in common (it has no `trex` box for them)");
        }
        let mut defaults = defaults.unwrap_or_default();
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
        if mine && reader.at() != part.end {
            faults.add("a fragment of the file says more or less than it claims: frames may be wrong");
        }
        Ok(Run { mine, base, at: base, dts: self.end, defaults })
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
        // The version is in the upper byte; a delay may be negative in both that there are.
        if flags >> 24 > 1 {
            faults.add(unknown(part));
        }
        let claimed = u64::from(reader.u32()?);
        if flags & 1 != 0 {
            run.at = run.base.saturating_add_signed(i64::from(reader.i32()?));
        }
        let first_flags = if flags & 4 != 0 { reader.u32()? } else { run.defaults.flags };
        let fields = [0x100, 0x200, 0x400, 0x800].map(|flag| flags & flag != 0);
        let entry = 4 * fields.iter().filter(|there| **there).count() as u64;
        let rest = part.end.saturating_sub(reader.at());
        let there = rest.checked_div(entry).unwrap_or(claimed);
        if there != claimed || rest != entry.saturating_mul(claimed) {
            faults.add(format!("a fragment claims {claimed} frames but does not describe as many"));
        }
        let count = claimed.min(there);
        if run.mine {
            self.check(count, run, reader, limits)?;
        } else if entry == 0 {
            run.at = run.at.saturating_add(count.saturating_mul(u64::from(run.defaults.size)));
            return Ok(());
        }
        let [has_duration, has_size, has_flags, has_delay] = fields;
        let mut empty = 0_u64;
        for number in 0..count {
            let duration = if has_duration { reader.u32()? } else { run.defaults.duration };
            let size = if has_size { reader.u32()? } else { run.defaults.size };
            let plain = if number == 0 { first_flags } else { run.defaults.flags };
            let bits = if has_flags { reader.u32()? } else { plain };
            let delay = if has_delay { reader.i32()? } else { 0 };
            if run.mine {
                empty += u64::from(size == 0);
                self.shift = self.shift.max(-i64::from(delay));
                // Neither «no sync sample» nor «depends on others».
                let key = bits & 0x0101_0000 == 0;
                self.samples.push(Sample { offset: run.at, size, duration, dts: run.dts, delay: Some(delay), key });
                run.dts += i64::from(duration);
            }
            run.at = run.at.saturating_add(u64::from(size));
        }
        if empty > 0 {
            faults.add("a fragment of the file has frames without bytes, which are left out");
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
    pub(super) fn place(&mut self, first: usize, faults: &mut Faults) {
        // They go on where the last edit ends.
        let edit = self.entries.last().map_or(0, |entry| entry.edit);
        let mut again = false;
        let mut before = first.checked_sub(1).and_then(|last| self.samples.get(last)).map(|sample| sample.dts);
        for (number, sample) in self.samples.iter().enumerate().skip(first) {
            // Fragments can overlap; what was there already is not shown again.
            let hidden = before.is_some_and(|before| before >= sample.dts);
            let time = sample.dts - self.offset + self.shift + i64::from(sample.delay.unwrap_or(0));
            again |= hidden;
            self.entries.push(Entry { sample: number, time, edit, hidden });
            before = Some(sample.dts);
        }
        if again {
            faults.add("fragments of the file overlap in time: frames whose time has passed are left out");
        }
    }
}

/// That a part of a fragment is left out, though it might have been one that matters.
fn unknown(part: Part) -> String {
    format!("the file is damaged: a fragment has a box `{}` of an unknown kind; frames may be missing", part.name())
}
