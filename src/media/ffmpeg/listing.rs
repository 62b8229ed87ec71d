//! Listings of frames or packets, as the `framecrc` format of the program writes them: a line each with its times.
//!
//! Invariant: only whole lines count, and a line that is not understood counts as nothing.

use std::collections::HashSet;
use std::io::{self, BufRead};
use std::ops::RangeInclusive;

/// The longest line that is kept; the rest of a longer one is skipped.
const LONGEST: usize = 4096;

/// What the program writes for a time that is not known.
const UNKNOWN: i64 = i64::MIN;

/// The flag of a packet that is decoded but not shown.
const DISCARD: u32 = 4;

/// Frames or packets in the order of the listing.
#[derive(Debug, Clone, Default)]
pub(super) struct Listing {
    entries: Vec<Entry>,
    /// Seconds a tick, as a fraction.
    tick: (u64, u64),
    /// How long the last frame is shown, in seconds, where it is known better than from the entries.
    pub(super) last_duration: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    dts: i64,
    pts: i64,
    duration: i64,
    shown: bool,
}

impl Listing {
    /// Reads a listing to its end, or to one more than the most.
    pub(super) fn read(from: &mut dyn BufRead, most: u64) -> io::Result<Self> {
        let mut listing = Self::default();
        let mut line = Vec::new();
        while listing.entries.len() as u64 <= most && read_line(from, &mut line)? {
            listing.line(&String::from_utf8_lossy(&line));
            line.clear();
        }
        Ok(listing)
    }

    /// Takes a line.
    fn line(&mut self, line: &str) {
        if let Some(tick) = line.strip_prefix("#tb 0:") {
            let mut parts = tick.trim().split('/').map(|part| part.parse().unwrap_or(0));
            self.tick = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
            return;
        }
        if line.starts_with('#') {
            return;
        }
        let mut fields = line.split(',').map(str::trim);
        if fields.next() != Some("0") {
            return;
        }
        let mut number = || match fields.next() {
            Some("NOPTS") => Some(UNKNOWN),
            field => field?.parse::<i64>().ok(),
        };
        let (Some(dts), Some(pts), Some(duration)) = (number(), number(), number()) else { return };
        let flags = fields.find_map(|field| field.strip_prefix("F=0x"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags, 16).ok()).unwrap_or(0);
        self.entries.push(Entry { dts, pts, duration, shown: flags & DISCARD == 0 });
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many of the packets are to be shown.
    pub(super) fn shown(&self) -> usize {
        self.entries.iter().filter(|entry| entry.shown).count()
    }

    /// The frames that these packets will probably give.
    pub(super) fn guess(&self) -> Self {
        let mut entries: Vec<Entry> = self.entries.iter().copied().filter(|entry| entry.shown).collect();
        // Without the times of all, the order of decoding is the best guess.
        if entries.iter().any(|entry| entry.pts == UNKNOWN) {
            entries.iter_mut().for_each(|entry| entry.pts = entry.dts);
        }
        entries.sort_by_key(|entry| entry.pts);
        Self { entries, tick: self.tick, last_duration: self.duration_of_last() }
    }

    /// How long the packet that is shown last is shown, in seconds, if it says so.
    pub(super) fn duration_of_last(&self) -> Option<f64> {
        let last = self.entries.iter().filter(|entry| entry.shown).max_by_key(|entry| (entry.pts, entry.dts))?;
        (last.duration > 0).then(|| self.seconds(last.duration))
    }

    /// The times, in ticks, of packets that are decoded but not shown, as runs with the time of no shown packet in
    /// between; `None` if the times of some shown packet are not known.
    pub(super) fn hidden(&self) -> Option<Vec<RangeInclusive<i64>>> {
        let mut times: Vec<(i64, bool)> = self.entries.iter().map(|entry| (entry.pts, entry.shown)).collect();
        if times.contains(&(UNKNOWN, true)) {
            return None;
        }
        times.retain(|(pts, _)| *pts != UNKNOWN);
        times.sort_unstable();
        let shown: HashSet<i64> = times.iter().filter(|(_, shown)| *shown).map(|(pts, _)| *pts).collect();
        let mut runs: Vec<RangeInclusive<i64>> = Vec::new();
        let mut inside = false;
        for (pts, _) in times {
            match runs.last_mut().filter(|_| inside) {
                _ if shown.contains(&pts) => inside = false,
                Some(run) => *run = *run.start()..=pts,
                None => {
                    runs.push(pts..=pts);
                    inside = true;
                }
            }
        }
        Some(runs)
    }

    /// When each is shown, in seconds.
    pub(super) fn times(&self) -> Vec<f64> {
        self.entries.iter().map(|entry| self.seconds(entry.pts)).collect()
    }

    /// From the first frame to the end of the last; as if the last was shown for as long as the one before it where
    /// nothing says how long.
    pub(super) fn duration(&self) -> f64 {
        let times = self.times();
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return 0.0 };
        let before = times.len().checked_sub(2).and_then(|index| times.get(index));
        let end = self.last_duration.unwrap_or_else(|| before.map_or(0.0, |before| last - before));
        (last - first + end).max(0.0)
    }

    fn seconds(&self, ticks: i64) -> f64 {
        let (numerator, denominator) = self.tick;
        if ticks == UNKNOWN || denominator == 0 {
            return 0.0;
        }
        (i128::from(ticks) * i128::from(numerator)) as f64 / denominator as f64
    }
}

/// Reads a line without its end, or the first part of a long one. `false` at the end.
pub(super) fn read_line(from: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    let mut any = false;
    loop {
        let some = from.fill_buf()?;
        if some.is_empty() {
            return Ok(any);
        }
        any = true;
        let (part, used, ended) = match some.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            Some(end) => (some.get(..end).unwrap_or_default(), end + 1, true),
            None => (some, some.len(), false),
        };
        let room = LONGEST.saturating_sub(line.len());
        line.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
        from.consume(used);
        if ended {
            return Ok(true);
        }
    }
}
