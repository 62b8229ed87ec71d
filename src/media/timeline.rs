//! Presentation order, and the fewest packets that give the wanted frames.
//!
//! Invariant: a frame has a number if, and only if, decoding the whole stream from its first start shows it. Each run
//! begins where decoding can begin, and has every packet that one of its wanted frames may need.

use std::collections::BTreeMap;

use super::codec::Kind;
use super::container::{Codec, Index, Packet, Shown};

/// The frames of a video in the order in which they are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// The frames; a frame's number is its place here.
    pub shown: Vec<Shown>,
    steps: Vec<Step>,
    tick: (u64, u64),
    end: i64,
}

/// What is known of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    pts: i64,
    start: bool,
    leading: bool,
    reference: bool,
}

/// Packets to decode one after the other with a new decoder, and what is wanted of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// What to feed, in decoding order.
    pub packets: Vec<usize>,
    /// The wanted packets, and the numbers of the frames that they show.
    pub wanted: Vec<(usize, usize)>,
}

impl Timeline {
    /// The frames that a stream shows, by what its packets are. `kinds` has one for each packet; where one is missing,
    /// the container's word counts.
    pub fn new(index: &Index, kinds: &[Kind]) -> Self {
        let plain = |packet: &Packet| Kind { start: packet.key, leading: false, reference: true, shows: true };
        let mut steps = Vec::with_capacity(index.packets.len());
        let mut decodable = Vec::with_capacity(index.packets.len());
        let mut starts = 0_usize;
        let mut first = i64::MIN;
        for (number, packet) in index.packets.iter().enumerate() {
            let kind = kinds.get(number).copied().unwrap_or_else(|| plain(packet));
            starts += usize::from(kind.start);
            if kind.start && starts == 1 {
                first = packet.pts;
            }
            // H.264 does not mark them, but has none other that is shown before the start it follows.
            let leading = kind.leading || (index.codec == Codec::H264 && packet.pts < first);
            // What comes before any start misses its references, and so do the leading pictures of the first one.
            decodable.push(kind.shows && starts > 0 && !(leading && starts == 1));
            let Kind { start, leading, reference, .. } = kind;
            steps.push(Step { pts: packet.pts, start, leading, reference });
        }
        let keep = |shown: &&Shown| decodable.get(shown.packet).copied().unwrap_or(false);
        let shown = index.shown.iter().filter(keep).copied().collect();
        Self { shown, steps, tick: index.tick, end: index.end }
    }

    /// How many frames there are.
    pub fn len(&self) -> usize {
        self.shown.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// When a frame is shown, in seconds, by the file's own clock; for a number past the last frame, when that ends.
    pub fn frame_time(&self, frame: usize) -> f64 {
        self.seconds(self.shown.get(frame).map_or(self.end, |shown| shown.time))
    }

    /// How long the video is, in seconds: from its first frame to the end of its last.
    pub fn duration(&self) -> f64 {
        let first = self.shown.first().map_or(self.end, |shown| shown.time);
        self.seconds(self.end.saturating_sub(first)).max(0.0)
    }

    fn seconds(&self, ticks: i64) -> f64 {
        let (over, under) = self.tick;
        ticks as f64 * over as f64 / under.max(1) as f64
    }

    /// The fewest packets that give the wanted frames, which may be in any order and more than once. Numbers past the
    /// last frame are not in it.
    pub fn runs(&self, wanted: &[usize]) -> Vec<Run> {
        let mut wanted: Vec<(usize, usize)> =
            wanted.iter().filter_map(|frame| self.shown.get(*frame).map(|shown| (shown.packet, *frame))).collect();
        wanted.sort_unstable();
        wanted.dedup();
        // Those that begin inside another one are decoded there already.
        let mut merged: Vec<Span> = Vec::new();
        for span in self.spans(&wanted) {
            match merged.last_mut() {
                Some(last) if span.start <= last.end => {
                    last.end = last.end.max(span.end);
                    last.wanted.extend(span.wanted);
                }
                _ => merged.push(span),
            }
        }
        merged.into_iter().map(|span| self.run(span)).collect()
    }

    /// Each wanted frame's start, and how far decoding goes from there, by start. `wanted` is in decoding order.
    fn spans(&self, wanted: &[(usize, usize)]) -> Vec<Span> {
        let mut spans: BTreeMap<usize, Span> = BTreeMap::new();
        // Starts that can still be the right one: later ones that are shown earlier push out those before them, so
        // that times rise from the bottom to the top.
        let mut starts: Vec<(i64, usize)> = Vec::new();
        let mut steps = self.steps.iter().enumerate().peekable();
        for (packet, frame) in wanted {
            while let Some((number, step)) = steps.next_if(|(number, _)| number <= packet) {
                if step.start {
                    while starts.pop_if(|(pts, _)| *pts >= step.pts).is_some() {}
                    starts.push((step.pts, number));
                }
            }
            let time = self.steps.get(*packet).map_or(0, |step| step.pts);
            let before = starts.partition_point(|(pts, _)| *pts <= time);
            // With no start that is shown before it, the earliest one is as good as it gets.
            let start = starts.get(before.saturating_sub(1)).map_or(0, |(_, number)| *number);
            let span = spans.entry(start).or_insert(Span { start, end: *packet, wanted: Vec::new() });
            span.end = *packet;
            span.wanted.push((*packet, *frame));
        }
        spans.into_values().collect()
    }

    fn run(&self, mut span: Span) -> Run {
        span.wanted.sort_unstable();
        let mut wanted = span.wanted.iter().map(|(packet, _)| *packet).peekable();
        let first = self.steps.get(span.start).map_or(0, |step| step.pts);
        // Only at the first start of all are pictures wanted that are shown before it (HEVC's RADL).
        let early = |(packet, _): &(usize, usize)| self.steps.get(*packet).is_some_and(|step| step.pts < first);
        let early = span.wanted.iter().any(early);
        let mut packets = Vec::new();
        // Whether this is still the part that its own start begins.
        let mut own = true;
        for (number, step) in self.steps.iter().enumerate().take(span.end + 1).skip(span.start) {
            own &= number == span.start || !step.start;
            let mut is_wanted = false;
            while wanted.next_if_eq(&number).is_some() {
                is_wanted = true;
            }
            // Pictures that need what is before the start can't be had from here, and nothing after it needs them.
            let lost = own && number != span.start && (step.leading || (step.pts < first && !early));
            if is_wanted || number == span.start || (step.reference && !lost) {
                packets.push(number);
            }
        }
        Run { packets, wanted: span.wanted }
    }
}

/// A part of the packets.
struct Span {
    start: usize,
    end: usize,
    wanted: Vec<(usize, usize)>,
}
