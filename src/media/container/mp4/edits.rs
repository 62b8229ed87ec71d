//! Edit lists: which part of the media is shown, and when.
//!
//! Invariant: the frames and their times are those of ffmpeg, which is what people looked at when they wrote captions.
//! It decodes from the last key frame before an edit's start, and hides the pictures outside of the edit.

use super::super::{Limits, MediaError};
use super::sample::{Entry, Sample};

/// Far more than any time in a file, and small enough that a few of them can be added.
const FAR: i64 = 1 << 60;

/// One line of an edit list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edit {
    /// How long it is, in ticks of the media.
    pub(super) duration: i64,
    /// Where in the media it begins, in ticks of the media; -1 for a gap in which nothing is shown.
    pub(super) start: i64,
}

impl Edit {
    /// An edit as it stands in the file, its duration in ticks of the movie.
    pub(super) fn new(duration: u64, start: i64, media_scale: u32, movie_scale: u32) -> Self {
        let ticks = i128::from(duration) * i128::from(media_scale);
        let scale = i128::from(movie_scale.max(1));
        let duration = ((ticks + scale / 2) / scale).min(i128::from(FAR)) as i64;
        Self { duration, start: start.clamp(-FAR, FAR) }
    }
}

/// How much earlier fragments are shown than they say.
pub(super) fn offset(edits: &[Edit]) -> i64 {
    let (gap, first) = match edits {
        [gap, rest @ ..] if gap.start == -1 => (gap.duration, rest.first()),
        all => (0, all.first()),
    };
    first.map_or(0, |edit| edit.start.max(0)) - gap
}

/// The samples in the order of the edits. `shift` is the most negative delay, without its sign; decoding times are
/// that much lower than in the file.
pub(super) fn apply(samples: &[Sample], edits: &[Edit], shift: i64, limits: &Limits) -> Result<Vec<Entry>, MediaError> {
    if edits.is_empty() || samples.is_empty() {
        let time = |sample: &Sample| sample.dts + sample.delay.map_or(0, |delay| shift + i64::from(delay));
        let plain = |(number, sample)| Entry { sample: number, time: time(sample), edit: 0, hidden: false };
        return Ok(samples.iter().enumerate().map(plain).collect());
    }
    let delayed = samples.iter().any(|sample| sample.delay.is_some());
    let steps = limits.frames.saturating_mul(4);
    let mut work = Work { samples, delayed, shift, entries: Vec::new(), number: 0, steps };
    // The end of the edits so far, on the line of decoding times.
    let mut end = -shift;
    let mut gaps = 0_i64;
    let mut earliest = -1_i64;
    let mut shown_any = false;
    for (number, edit) in edits.iter().enumerate() {
        let begin = end;
        end = end.saturating_add(edit.duration).min(FAR);
        if !shown_any && edit.start == -1 {
            gaps = gaps.saturating_add(edit.duration).min(FAR);
            continue;
        }
        shown_any = true;
        work.number = number;
        work.edit(*edit, begin, &mut earliest)?;
    }
    // The first picture is to be shown at the start, or after the gaps.
    let late = earliest - gaps;
    let mut entries = work.entries;
    if late > 0 {
        entries.iter_mut().for_each(|entry| entry.time -= late);
    }
    Ok(entries)
}

struct Work<'a> {
    samples: &'a [Sample],
    /// Whether any sample is shown at another time than it is decoded.
    delayed: bool,
    shift: i64,
    entries: Vec<Entry>,
    /// The edit that is worked on.
    number: usize,
    /// What may still be done. Edits can repeat, so that a small file can ask for a lot.
    steps: u64,
}

impl Work<'_> {
    fn step(&mut self) -> Result<(), MediaError> {
        self.steps = self.steps.checked_sub(1).ok_or_else(|| {
            MediaError::Limit(
                "the edit list shows more than the allowed number of frames (--max-video-frames)".to_owned(),
            )
        })?;
        Ok(())
    }

    /// Adds the samples of an edit that begins at `clock` on the line of decoding times.
    fn edit(&mut self, edit: Edit, mut clock: i64, earliest: &mut i64) -> Result<(), MediaError> {
        let stop = edit.start.saturating_add(edit.duration);
        let samples = self.samples;
        let first = self.first(edit.start)?;
        let mut begun = false;
        let mut keys_after = 0;
        for (number, sample) in samples.iter().enumerate().skip(first) {
            self.step()?;
            let lasts = samples.get(number + 1).map_or(edit.duration, |next| next.dts - sample.dts);
            let delay = i64::from(sample.delay.unwrap_or(0));
            let shown_at = sample.dts + self.shift + delay;
            let hidden = shown_at < edit.start || shown_at >= stop;
            if !hidden {
                let time = clock.saturating_add(delay + self.shift);
                *earliest = if *earliest < 0 { time } else { time.min(*earliest) };
                begun = true;
            }
            let time = clock.saturating_add(sample.delay.map_or(0, |delay| self.shift + i64::from(delay)));
            self.entries.push(Entry { sample: number, time: time.clamp(-FAR, FAR), edit: self.number, hidden });
            if begun {
                clock = clock.saturating_add(lasts);
            }
            if sample.key && shown_at.saturating_add(lasts) >= stop {
                // Pictures that are shown before a key frame may follow it: with delays, one more is looked at.
                keys_after += 1;
                if !self.delayed || keys_after > 1 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Where decoding starts for an edit: the last key frame that is shown no later than the edit begins.
    fn first(&mut self, start: i64) -> Result<usize, MediaError> {
        let start = start.saturating_sub(self.shift);
        for keys_only in [true, false] {
            if let Some(found) = self.search(start, keys_only)? {
                return Ok(found);
            }
        }
        Ok(0)
    }

    fn search(&mut self, start: i64, keys_only: bool) -> Result<Option<usize>, MediaError> {
        let samples = self.samples;
        let wanted = |sample: &Sample| !keys_only || sample.key;
        // The last one that is decoded by then, and of those at the same time, the first.
        let after = samples.partition_point(|sample| sample.dts <= start);
        let mut found = None;
        for (number, sample) in samples.iter().enumerate().take(after).rev() {
            self.step()?;
            match found.and_then(|found: usize| samples.get(found)) {
                Some(best) if best.dts != sample.dts => break,
                _ if wanted(sample) => found = Some(number),
                _ => {}
            }
        }
        let Some(found) = found.filter(|_| self.delayed) else { return Ok(found) };
        if samples.get(found).is_some_and(|sample| sample.delay.is_none()) {
            return Ok(Some(found));
        }
        for (number, sample) in samples.iter().enumerate().take(found + 1).rev() {
            self.step()?;
            if sample.key && sample.dts + i64::from(sample.delay.unwrap_or(0)) <= start {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }
}
