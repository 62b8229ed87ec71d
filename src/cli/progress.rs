//! A progress bar on a terminal, a line now and then elsewhere; a spinner for what has no length.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::{printable_lines, say};
use crate::judge::Said;
use crate::run::Progress;

const BETWEEN_LINES: Duration = Duration::from_secs(10);
const BETWEEN_UPDATES: Duration = Duration::from_millis(100);
/// How long pieces are counted for a rate.
const WINDOW: Duration = Duration::from_secs(5);

/// Shows how a run is getting on.
pub struct Bar {
    bar: ProgressBar,
    quiet: bool,
    records: u64,
    before: u64,
    start: Instant,
    last_line: Instant,
    last_update: Instant,
    unscored: u64,
    /// Since when pieces of answers are counted, and how many there were: of all records that are under way.
    pieces: (Instant, u64),
}

impl Bar {
    /// Shows nothing but notes if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let bar = ProgressBar::no_length();
        bar.set_style(style("{spinner} reading the data set: {pos} records"));
        if quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let now = Instant::now();
        Self {
            bar,
            quiet,
            records: 0,
            before: 0,
            start: now,
            last_line: now,
            last_update: now,
            unscored: 0,
            pieces: (now, 0),
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn message(&self, now: &str) -> String {
        let unscored = if self.unscored > 0 { format!(", {} unscored", self.unscored) } else { String::new() };
        format!("{unscored}{now}")
    }

    fn line(&mut self, text: &str) {
        if !self.quiet && self.bar.is_hidden() && self.last_line.elapsed() >= BETWEEN_LINES {
            self.last_line = Instant::now();
            say(text);
        }
    }
}

impl Progress for Bar {
    fn surveyed(&mut self, records: u64) {
        if self.last_update.elapsed() >= BETWEEN_UPDATES {
            self.last_update = Instant::now();
            self.bar.set_position(records);
            self.line(&format!("reading the data set: {records} records"));
        }
    }

    fn started(&mut self, records: u64, before: u64, again: u64) {
        (self.records, self.before, self.start) = (records, before, Instant::now());
        if again > 0 && !self.quiet {
            self.note(&format!("{again} of {records} records are unscored and judged again"));
        } else if before > 0 && !self.quiet {
            let next = if before < records { "going on with the rest" } else { "nothing is left to judge" };
            self.note(&format!("{before} of {records} records have a verdict already; {next}"));
        }
        self.bar.reset();
        self.bar.set_length(records);
        self.bar.set_position(before);
        self.bar.set_style(style("{bar:32} {pos}/{len} verdicts, {per_sec}, {eta} left{msg}"));
        // The rate is that of this session, so the verdicts of an earlier one are not work done now.
        self.bar.reset_eta();
    }

    fn stored(&mut self, verdicts: u64, unscored: u64) {
        if self.last_update.elapsed() < BETWEEN_UPDATES && verdicts < self.records {
            return;
        }
        self.last_update = Instant::now();
        self.bar.set_position(verdicts);
        self.unscored = unscored;
        self.bar.set_message(self.message(""));
        let rate = verdicts.saturating_sub(self.before) as f64 / self.start.elapsed().as_secs_f64().max(1e-3);
        let records = self.records;
        self.line(&format!("{verdicts}/{records} verdicts, {rate:.1}/s, {unscored} unscored"));
    }

    fn said(&mut self, said: Said<'_>) {
        let (since, pieces) = &mut self.pieces;
        *pieces += u64::from(matches!(said, Said::Text(_)));
        if self.last_update.elapsed() < BETWEEN_UPDATES {
            return;
        }
        let seconds = since.elapsed().as_secs_f64();
        let now = match said {
            Said::Looking => ", decoding the video".to_owned(),
            // While some answers are written, how fast that goes says more than how far the next prompt is.
            _ if *pieces > 2 => format!(", {:.1} tokens/s", *pieces as f64 / seconds.max(1e-3)),
            Said::Reading { done, of } => format!(", reading {done}/{of} tokens"),
            Said::Text(_) => return,
        };
        // The rate is that of the last seconds.
        if since.elapsed() >= WINDOW {
            self.pieces = (Instant::now(), 0);
        }
        self.last_update = Instant::now();
        self.bar.set_message(self.message(&now));
        self.bar.tick();
        let (verdicts, records) = (self.bar.position(), self.records);
        self.line(&format!("{verdicts}/{records} verdicts{}", self.message(&now)));
    }

    fn note(&mut self, text: &str) {
        self.bar.suspend(|| say(&format!("note: {text}")));
    }
}

/// Shows that something is under way that takes its time.
pub struct Waiting {
    bar: ProgressBar,
    bytes: u64,
}

impl Waiting {
    /// Shows nothing if `quiet`, and nothing where nobody looks.
    pub fn new(what: &str, quiet: bool) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_style(style("{spinner} {msg}"));
        if quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.set_message(printable_lines(what));
        bar.enable_steady_tick(BETWEEN_UPDATES);
        Self { bar, bytes: 0 }
    }

    /// So many bytes more were hashed.
    pub fn add(&mut self, bytes: u64) {
        let before = self.bytes >> 26;
        self.bytes += bytes;
        if self.bytes >> 26 != before {
            self.bar.set_message(format!("hashing the model: {} MB", self.bytes / 1_000_000));
        }
    }

    /// What is under way now.
    pub fn say(&mut self, what: &str) {
        self.bar.set_message(printable_lines(what));
    }

    /// Takes it away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are the constants above.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
