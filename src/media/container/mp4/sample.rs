//! A sample as the tables describe it, before edits and before it is known to be in the file.

/// A sample, which is a coded picture here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// Where its bytes begin.
    pub(super) offset: u64,
    /// How many there are.
    pub(super) size: u32,
    /// How long it is shown, in ticks.
    pub(super) duration: u32,
    /// When it is decoded, in ticks, before edits.
    pub(super) dts: i64,
    /// From decoding to showing, if the tables say.
    pub(super) delay: Option<i32>,
    /// Whether decoding can start here.
    pub(super) key: bool,
}

/// A sample in the order of edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// Which one.
    pub(super) sample: usize,
    /// When it is shown, in ticks.
    pub(super) time: i64,
    /// The edit it belongs to, counted in the order in which they are shown.
    pub(super) edit: usize,
    /// Whether it is decoded but not shown.
    pub(super) hidden: bool,
}
