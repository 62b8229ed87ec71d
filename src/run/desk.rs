//! The loop of a run, seen from the judge: records become questions, answers become verdicts, verdicts go to the journal.
//!
//! Invariant: verdicts are handed to the journal in the order of the records, each once, whichever answer ends first. One
//! that is there before its turn waits in memory, and is judged again if the run is ended before its turn comes.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use super::one::{Asking, Begun, Setting, begin};
use super::order::Records;
use super::{Before, Journal, Pass, Progress, RunError, Timing};
use crate::dataset::IdDigest;
use crate::judge::{Answered, Desk, JudgeError, Question, Said};
use crate::media::Player;
use crate::verdict::Verdict;

/// Hands out the records of a run.
pub(super) struct RunDesk<'a, 't> {
    pub setting: Setting<'t>,
    pub records: Records<'a>,
    pub before: &'a Before,
    pub pass: &'a Pass,
    pub player: Option<&'a mut Player>,
    pub interrupt: &'a AtomicBool,
    pub progress: &'a mut dyn Progress,
    pub journal: Journal,
    /// What is being answered, by number.
    asked: HashMap<u64, Box<Asking<'t>>>,
    /// Verdicts before their turn.
    waiting: BTreeMap<u64, (Verdict, Timing)>,
    /// The numbers of the next question and of the next verdict.
    next: u64,
    turn: u64,
    unscored: u64,
    interrupted: bool,
    failed: Option<RunError>,
}

impl<'a, 't> RunDesk<'a, 't> {
    /// Nothing was asked yet.
    pub fn new(
        setting: Setting<'t>,
        records: Records<'a>,
        (before, pass): (&'a Before, &'a Pass),
        player: Option<&'a mut Player>,
        interrupt: &'a AtomicBool,
        progress: &'a mut dyn Progress,
        journal: Journal,
    ) -> Self {
        Self {
            setting,
            records,
            before,
            pass,
            player,
            interrupt,
            progress,
            journal,
            asked: HashMap::new(),
            waiting: BTreeMap::new(),
            next: 0,
            turn: 0,
            unscored: 0,
            interrupted: false,
            failed: None,
        }
    }

    /// Waits until all verdicts are stored; gives how many there are, and whether the user interrupted the run.
    pub fn close(self) -> Result<(u64, bool), RunError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let stored = self.journal.close()?;
        self.progress.stored(stored, self.unscored);
        Ok((stored, self.interrupted))
    }

    /// Whether no more is to be asked.
    fn is_over(&mut self) -> bool {
        self.interrupted |= self.interrupt.load(Ordering::Relaxed);
        self.interrupted || self.failed.is_some()
    }

    fn try_next(&mut self) -> Result<Option<Question<'t>>, RunError> {
        while let Some(entry) = self.records.next()? {
            let judged = self.before.judged.get(&IdDigest::of(&entry.id)).copied();
            let Some(attempt) = self.pass.attempt(judged) else { continue };
            if self.is_over() {
                return Ok(None);
            }
            let number = self.next;
            self.next += 1;
            let player = self.player.as_deref_mut();
            let progress = &mut *self.progress;
            let watch = &mut |said: Said<'_>| progress.said(said);
            match begin(&self.setting, player, (number, attempt), entry, self.interrupt, watch) {
                Begun::Ask(question, asking) => {
                    self.asked.insert(number, asking);
                    return Ok(Some(question));
                }
                Begun::Judged(verdict, timing) => self.store(number, *verdict, timing)?,
                Begun::Interrupted => {
                    self.interrupted = true;
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Hands a verdict to the journal, as soon as all before it were.
    fn store(&mut self, number: u64, verdict: Verdict, timing: Timing) -> Result<(), RunError> {
        self.waiting.insert(number, (verdict, timing));
        while let Some((verdict, timing)) = self.waiting.remove(&self.turn) {
            self.turn += 1;
            self.unscored += u64::from(verdict.is_unscored());
            self.journal.append(&verdict, &timing)?;
            self.progress.stored(self.journal.stored(), self.unscored);
        }
        Ok(())
    }
}

impl<'t> Desk<'t> for RunDesk<'_, 't> {
    fn next(&mut self) -> Option<Question<'t>> {
        if self.failed.is_some() || self.interrupted {
            return None;
        }
        self.try_next().unwrap_or_else(|error| {
            self.failed = Some(error);
            None
        })
    }

    fn hear(&mut self, number: u64, said: Said<'_>) -> ControlFlow<()> {
        self.progress.said(said);
        let heard = self.asked.get_mut(&number).map_or(ControlFlow::Break(()), |asking| asking.hear(said));
        if self.is_over() { ControlFlow::Break(()) } else { heard }
    }

    fn end(&mut self, number: u64, answered: Result<Answered, JudgeError>) {
        let Some(asking) = self.asked.remove(&number) else { return };
        // An answer that was broken off says nothing about its record.
        if self.is_over() && answered.is_ok() && !asking.is_done() {
            return;
        }
        let stored = asking.end(answered).map_err(RunError::from);
        if let Err(error) = stored.and_then(|(verdict, timing)| self.store(number, verdict, timing)) {
            self.failed.get_or_insert(error);
        }
    }
}
