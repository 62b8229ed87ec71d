//! The program's log: what it says of the video, and what it says is wrong.
//!
//! Invariant: the same video gives the same faults. Addresses and the file's name are taken out, and lines are sorted,
//! because threads write them in any order.

use std::collections::{BTreeMap, BTreeSet};

use super::program::Input;

/// How many different faults are kept.
const KEPT: usize = 8;

/// How many different lines are looked at, of those that say that something is wrong.
const MOST: usize = 4096;

/// What a warning says that tells of damage.
const DAMAGE: [&str; 5] = ["corrupt", "truncated", "prematurely", "partial file", "concealing"];

/// What errors say that change no picture: hints on buffers that come before the headers that they are about.
const HARMLESS: [&str; 1] = ["referenced in buffering period"];

/// What was found in a log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// What is wrong, by who says so, and how often.
    wrong: BTreeMap<(String, String), u64>,
    /// The first error, as it came.
    first: Option<(String, String)>,
    /// Decoders of streams that are not the video: their errors do not matter.
    others: BTreeSet<String>,
    /// What the filters were set up for.
    configs: Vec<Config>,
    /// The stream that is decoded, such as `0:1`, and its codec.
    pub(super) mapped: Option<(String, String)>,
    /// Streams with a matrix that turns the picture.
    matrices: Vec<String>,
    stream: String,
    /// The program's version.
    pub(super) version: Version,
    /// The number of the frame that is being told of.
    frame: Option<u64>,
    /// How many frames have told of their colours.
    coloured: u64,
    /// From which frame on they have which colours.
    pub(super) colours: Vec<Coloured>,
}

/// Colours of frames from one on, in the program's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Coloured {
    /// The first frame that has them.
    pub(super) from: u64,
    pub(super) range: String,
    pub(super) space: String,
}

/// The program's version: major, minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32);

impl Version {
    /// Newer than all that are known.
    pub(super) const NEW: Self = Self(u32::MAX, 0);

    /// A version such as `5.1.9-0+deb12u1` or `n4.4`. Those that were built from a repository begin with a letter or a
    /// date; they are taken for new ones.
    fn parse(text: &str) -> Self {
        let mut numbers = text.trim_start_matches('n').split(|c: char| !c.is_ascii_digit()).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Self(major, minor),
            (Some(Ok(major)), _) => Self(major, 0),
            _ => Self::NEW,
        }
    }
}

impl Default for Version {
    fn default() -> Self {
        Self::NEW
    }
}

/// What pictures the filters get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) format: String,
}

impl Log {
    /// Takes a line.
    pub(super) fn line(&mut self, line: &str) {
        let line = Line::parse(line);
        let text = line.text.trim();
        match line.level {
            Some("error") if HARMLESS.iter().any(|words| text.contains(words)) => {}
            Some("error" | "fatal" | "panic") => self.wrong(line.name, text),
            Some("warning") if DAMAGE.iter().any(|word| text.contains(word)) => self.wrong(line.name, text),
            _ => self.told(line.name, text),
        }
    }

    fn wrong(&mut self, name: &str, text: &str) {
        let key = (name.to_owned(), text.to_owned());
        self.first.get_or_insert_with(|| key.clone());
        if self.wrong.len() < MOST || self.wrong.contains_key(&key) {
            *self.wrong.entry(key).or_insert(0) += 1;
        }
    }

    fn told(&mut self, name: &str, text: &str) {
        if name.starts_with("graph") && text.contains("pixfmt:") {
            let number = |key| value(text, key).and_then(|value| value.parse().ok());
            if let (Some(width), Some(height), Some(format)) = (number("w:"), number("h:"), value(text, "pixfmt:")) {
                self.configs.push(Config { width, height, format: format.to_owned() });
            }
        } else if name.starts_with("Parsed_showinfo") {
            self.shown(text);
        } else if let (true, Some(rest)) = (name.is_empty(), text.strip_prefix("ffmpeg version ")) {
            self.version = Version::parse(rest);
        } else if let Some(rest) = text.strip_prefix("Stream #") {
            self.stream(rest);
        } else if text.starts_with("displaymatrix:") && !self.stream.is_empty() {
            self.matrices.push(self.stream.clone());
        }
    }

    /// A line on a frame: first `n:   0 pts: …`, then `color_range:tv color_space:bt709 …`.
    fn shown(&mut self, text: &str) {
        if let Some(rest) = text.strip_prefix("n:") {
            self.frame = rest.split_whitespace().next().and_then(|number| number.parse().ok());
        } else if text.starts_with("color_range:") {
            // Another thread may have written into the middle of the line.
            let word = |key| {
                let name = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                value(text, key).filter(name).filter(|word| !word.is_empty())
            };
            let (Some(range), Some(space)) = (word("color_range:"), word("color_space:")) else { return };
            let Some(from) = self.frame.take() else { return };
            self.coloured = self.coloured.saturating_add(1);
            if self.colours.last().is_none_or(|last| (last.range.as_str(), last.space.as_str()) != (range, space)) {
                self.colours.push(Coloured { from, range: range.to_owned(), space: space.to_owned() });
            }
        }
    }

    /// How many of so many frames have not told of their colours.
    pub(super) fn uncoloured(&self, frames: u64) -> u64 {
        frames.saturating_sub(self.coloured)
    }

    /// A line such as `0:1[0x2](und): Audio: mp3 (mp3float), …` or `0:0 -> #0:0 (h264 (native) -> …`.
    fn stream(&mut self, rest: &str) {
        let id: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ':').collect();
        let id = id.trim_end_matches(':').to_owned();
        if let Some((_, mapping)) = rest.split_once(" -> #0:0 (") {
            let codec = mapping.split([' ', ')']).next().unwrap_or_default();
            self.mapped.get_or_insert((id, codec.to_owned()));
            return;
        }
        for kind in [": Audio: ", ": Subtitle: "] {
            if let Some((_, codec)) = rest.split_once(kind) {
                let names = codec.split(',').next().unwrap_or_default();
                let names = names.split([' ', '(', ')']).filter(|name| !name.is_empty());
                self.others.extend(names.map(str::to_owned));
            }
        }
        self.stream = id;
    }

    /// How often the filters were set up: more than once if the pictures change.
    pub(super) fn configured(&self) -> usize {
        self.configs.len()
    }

    /// What pictures the filters got first.
    pub(super) fn config(&self) -> Option<&Config> {
        self.configs.first()
    }

    /// Whether the stream that is decoded has a matrix that turns it.
    pub(super) fn has_matrix(&self) -> bool {
        self.mapped.as_ref().is_some_and(|(id, _)| self.matrices.contains(id))
    }

    /// Whether an error has these words.
    pub(super) fn mentions(&self, words: &str) -> bool {
        self.wrong.keys().any(|(_, text)| text.contains(words))
    }

    /// The first error.
    pub(super) fn first_error(&self, input: &Input) -> Option<String> {
        self.first.as_ref().map(|(name, text)| said(name, text, input))
    }

    /// What is wrong with the video: a few sentences.
    pub(super) fn faults(&self, input: &Input) -> Vec<String> {
        let mut faults: BTreeMap<String, u64> = BTreeMap::new();
        for ((name, text), times) in &self.wrong {
            if !self.others.contains(name) {
                *faults.entry(said(name, text, input)).or_insert(0) += times;
            }
        }
        let more = faults.len().saturating_sub(KEPT);
        let times = |times: u64| if times > 1 { format!(" ({times} times)") } else { String::new() };
        let mut kept: Vec<String> =
            faults.into_iter().take(KEPT).map(|(what, count)| format!("{what}{}", times(count))).collect();
        if more > 0 {
            kept.push(format!("and {more} other messages of ffmpeg's"));
        }
        kept
    }
}

/// A message without what differs from run to run and from machine to machine.
fn said(name: &str, text: &str, input: &Input) -> String {
    let path = input.name.to_string_lossy();
    let plain = path.strip_prefix("file:").unwrap_or(&path);
    let text = text.replace(path.as_ref(), "the file").replace(plain, "the file");
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if name.is_empty() || name == "NULL" { text } else { format!("{name}: {text}") }
}

/// A line in parts: `[h264 @ 0x55d0] [error] text`.
struct Line<'a> {
    /// Who says it, without the address; the innermost if there are several.
    name: &'a str,
    level: Option<&'a str>,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Self {
        let (mut name, mut text) = ("", line);
        while let Some((mark, rest)) = text.strip_prefix('[').and_then(|inner| inner.split_once("] ")) {
            if let Some((who, _)) = mark.rsplit_once(" @ ") {
                name = who;
                text = rest;
            } else {
                let level = matches!(mark, "panic" | "fatal" | "error" | "warning" | "info" | "verbose");
                return Self { name, level: level.then_some(mark), text: if level { rest } else { text } };
            }
        }
        Self { name, level: None, text }
    }
}

/// What follows a key up to the next space.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_whitespace().find_map(|word| word.strip_prefix(key))
}
