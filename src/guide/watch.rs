//! Follows the lines of an answer, and rules out tokens that would make one that the reader misreads.
//!
//! Invariant: what is ruled out is decided by the line alone, so it is worked out once for each state of its expressions
//! and kept: after the first answers of a run, a look into a table.

use std::cell::RefCell;
use std::collections::HashMap;

use llguidance::toktrie::recognizer::{FunctionalRecognizer, StackRecognizer};
use llguidance::toktrie::{SimpleVob, TokTrie};
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};

use super::free::Excluded;

/// More than the expressions of any task take: their states keep their numbers.
const ROOM: usize = 256 << 20;

/// One expression, and what was worked out about it.
#[derive(Debug)]
struct Lines {
    dfa: DFA,
    cache: Cache,
    start: LazyStateID,
    matches: HashMap<LazyStateID, bool>,
}

impl Lines {
    fn new(pattern: &str) -> Result<Self, String> {
        let config = DFA::config().match_kind(MatchKind::All).cache_capacity(ROOM).skip_cache_capacity_check(true);
        let dfa = DFA::builder().configure(config).build(pattern).map_err(|error| error.to_string())?;
        let mut cache = dfa.create_cache();
        let config = start::Config::new().anchored(Anchored::Yes);
        let start = dfa.start_state(&mut cache, &config).map_err(|error| error.to_string())?;
        Ok(Self { dfa, cache, start, matches: HashMap::new() })
    }

    fn next(&mut self, state: LazyStateID, byte: u8) -> Option<LazyStateID> {
        self.dfa.next_state(&mut self.cache, state, byte).ok()
    }

    /// Whether the line up to here is one of the expression.
    fn matches(&mut self, state: LazyStateID) -> bool {
        if let Some(matches) = self.matches.get(&state) {
            return *matches;
        }
        let matches = self.dfa.next_eoi_state(&mut self.cache, state).is_ok_and(|end| end.is_match());
        self.matches.insert(state, matches);
        matches
    }
}

/// Where a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum At {
    /// In a line, in this state of both expressions.
    Line(LazyStateID, LazyStateID),
    /// Behind its end.
    Ended,
}

/// The lines of one section.
#[derive(Debug)]
pub struct Watch {
    lines: RefCell<(Lines, Lines)>,
    start: At,
    masks: HashMap<At, SimpleVob>,
}

impl Watch {
    /// Watches for lines that must not be.
    pub fn new(excluded: &Excluded) -> Result<Self, String> {
        let (beginnings, lines) = (Lines::new(&excluded.beginnings)?, Lines::new(&excluded.lines)?);
        let start = At::Line(beginnings.start, lines.start);
        Ok(Self { lines: RefCell::new((beginnings, lines)), start, masks: HashMap::new() })
    }

    /// Where a line that has these bytes is; `None` if it must not be.
    pub fn after(&self, line: &[u8]) -> Option<At> {
        line.iter().try_fold(self.start, |at, byte| self.try_append(at, *byte))
    }

    /// Goes on by some bytes.
    pub fn push(&self, at: At, bytes: &[u8]) -> Option<At> {
        bytes.iter().try_fold(at, |at, byte| self.try_append(at, *byte))
    }

    /// The tokens that may come next.
    pub fn mask(&mut self, at: At, trie: &TokTrie) -> SimpleVob {
        if let Some(mask) = self.masks.get(&at) {
            return mask.clone();
        }
        let mut mask = trie.alloc_token_set();
        trie.add_bias(&mut StackRecognizer::from(From { watch: self, at }), &mut mask, &[]);
        self.masks.insert(at, mask.clone());
        mask
    }

    fn try_append(&self, at: At, byte: u8) -> Option<At> {
        let At::Line(beginnings, lines) = at else { return Some(At::Ended) };
        let mut both = self.lines.borrow_mut();
        if byte == b'\n' {
            return (!both.1.matches(lines)).then_some(At::Ended);
        }
        let (beginnings, lines) = (both.0.next(beginnings, byte)?, both.1.next(lines, byte)?);
        (!both.0.matches(beginnings)).then_some(At::Line(beginnings, lines))
    }
}

/// A watch from a place in a line on.
struct From<'a> {
    watch: &'a Watch,
    at: At,
}

impl FunctionalRecognizer<At> for From<'_> {
    fn initial(&self) -> At {
        self.at
    }

    fn try_append(&self, state: At, byte: u8) -> Option<At> {
        self.watch.try_append(state, byte)
    }
}
