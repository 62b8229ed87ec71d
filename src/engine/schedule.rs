//! Several answers at once: one step of the engine for all of them.
//!
//! A step has the next tokens of all answers that are being written, and as much of the waiting prompts as keeps a CPU
//! busy. When an answer ends, the next one takes its place; nobody waits for the others of a batch.
//!
//! Invariant: an answer is the same, to the last bit, whoever stands beside it. Two answers whose prompts begin alike
//! never read that beginning twice at the same time: the second waits until the first has read it.

use std::ops::ControlFlow;
use std::time::Instant;

use super::answering::{Answering, Outside, Went};
use super::generate::{End, Generated, Generating};
use super::tree::{Key, Tree};
use super::{Chunk, Engine, EngineError, Prefix, Request, Visual};
use crate::model::tokenizer::Tokenizer;

/// How many rows of prompts are read in a step: enough to be fast, few enough to answer Ctrl-C and to bound memory.
const READ: usize = 128;

/// Answers that are being made.
#[derive(Debug)]
pub struct Scheduler<'g> {
    engine: &'g Engine,
    tokenizer: &'g Tokenizer,
    tree: &'g mut Tree,
    /// In the order in which they came, each with its number.
    running: Vec<(u64, Answering<'g>)>,
}

/// The number of an answer that ended, and what came of it.
pub type Ended = (u64, Result<Generated, EngineError>);

/// The place of an answer that goes, and why.
type Gone = (usize, Result<End, EngineError>);

/// Hears what happens to the answer of that number; `Break` means that no more of it is wanted.
pub type On<'a> = dyn FnMut(u64, Generating<'_>) -> ControlFlow<()> + 'a;

impl<'g> Scheduler<'g> {
    /// Nothing to do yet. Beginnings of prompts are found in the tree, and kept there.
    pub fn new(engine: &'g Engine, tokenizer: &'g Tokenizer, tree: &'g mut Tree) -> Self {
        Self { engine, tokenizer, tree, running: Vec::new() }
    }

    /// How many answers are being made.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// A beginning, if it is kept: a request that starts behind it needs nothing of what it shows.
    pub fn kept(&mut self, key: &Key) -> Option<Prefix> {
        self.tree.get(key)
    }

    /// The pictures that another answer is about to read for a beginning: nobody needs to look at them twice.
    pub fn shown(&self, key: &Key) -> Option<Vec<Visual>> {
        self.running.iter().find_map(|(_, answering)| answering.shows(key))
    }

    /// Takes one more on, under a number that no other has. It has to fit the model's context.
    pub fn admit(&mut self, number: u64, request: Request<'g>) -> Result<(), EngineError> {
        self.running.push((number, Answering::new(self.engine, request)?));
        Ok(())
    }

    /// One step for all of them; gives those that ended. A guide that fails ends its own answer, any other error all.
    pub fn step(&mut self, on: &mut On<'_>) -> Result<Vec<Ended>, EngineError> {
        self.wake();
        let (rows, mut gone) = self.plan()?;
        let start = Instant::now();
        let mut places = Vec::new();
        let mut chunks: Vec<Chunk<'_>> = Vec::new();
        for (place, (_, answering)) in self.running.iter_mut().enumerate() {
            if rows[place] > 0 {
                places.push(place);
                chunks.push(answering.chunk());
            }
        }
        let logits = self.engine.step(&mut chunks)?;
        drop(chunks);
        let seconds = start.elapsed().as_secs_f64() / rows.iter().sum::<usize>().max(1) as f64;
        for (chunk, place) in places.into_iter().enumerate() {
            let (number, answering) = &mut self.running[place];
            let number = *number;
            let on = &mut |event: Generating<'_>| on(number, event);
            let mut outside = Outside { engine: self.engine, tokenizer: self.tokenizer, on };
            match answering.take(logits.of(chunk), seconds * rows[place] as f64, &mut outside) {
                Ok(Went::On) => {}
                Ok(Went::Past(mark, prefix, own)) => {
                    self.tree.keep(&mark, &prefix, own);
                    self.hand_on(&mark.key, &prefix);
                }
                Ok(Went::Ended(end)) => gone.push((place, Ok(end))),
                Err(error @ EngineError::Guide(_)) => gone.push((place, Err(error))),
                Err(error) => return Err(error),
            }
        }
        // Who waits does nothing, and may be told to stop all the same.
        for (place, (number, answering)) in self.running.iter().enumerate() {
            let waiting = Generating::Reading { done: 0, of: answering.rows() };
            if answering.is_waiting() && on(*number, waiting).is_break() {
                gone.push((place, Ok(End::Stopped)));
            }
        }
        // From the last place on, so that the others keep theirs.
        gone.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        let mut ended = Vec::with_capacity(gone.len());
        for (place, end) in gone {
            let (number, answering) = self.running.remove(place);
            ended.push((number, end.map(|end| answering.finish(end, &mut |event| on(number, event)))));
        }
        ended.reverse();
        Ok(ended)
    }

    /// How many rows each answer gets in the next step, and those that cannot go on.
    fn plan(&mut self) -> Result<(Vec<usize>, Vec<Gone>), EngineError> {
        let writing = self.running.iter().filter(|(_, answering)| answering.is_writing()).count();
        let mut rows = Vec::with_capacity(self.running.len());
        let mut gone = Vec::new();
        let mut left = READ;
        for (place, (_, answering)) in self.running.iter_mut().enumerate() {
            let planned = if answering.is_writing() {
                match answering.plan_writing(writing) {
                    Ok(planned) => planned,
                    Err(error @ EngineError::Guide(_)) => {
                        gone.push((place, Err(error)));
                        0
                    }
                    Err(error) => return Err(error),
                }
            } else {
                let planned = answering.plan_reading(left);
                left -= planned;
                planned
            };
            rows.push(planned);
        }
        Ok((rows, gone))
    }

    /// Lets those begin that wait for nobody.
    fn wake(&mut self) {
        for place in 0..self.running.len() {
            if !self.running[place].1.is_waiting() {
                continue;
            }
            let kept = self.longest(place);
            let length = kept.as_ref().map_or(0, Prefix::length);
            let next = self.running[place].1.marks().iter().find(|mark| mark.at > length).map(|mark| mark.key);
            let is_read = |(_, other): &(u64, Answering<'_>)| {
                !other.is_waiting() && next.is_some_and(|key| other.marks().iter().any(|mark| mark.key == key))
            };
            let others_read = self.running.iter().any(is_read);
            let answering = &mut self.running[place].1;
            match (others_read, kept) {
                (false, kept) => answering.begin(kept.as_ref()),
                (true, Some(kept)) => answering.offer(&kept),
                (true, None) => {}
            }
        }
    }

    /// The longest beginning of a waiting answer that was read already.
    fn longest(&mut self, place: usize) -> Option<Prefix> {
        let offered = self.running[place].1.offered();
        let least = offered.as_ref().map_or(0, Prefix::length);
        let marks = self.running[place].1.marks().iter().rev().filter(|mark| mark.at > least);
        let found = marks.map(|mark| mark.key).find_map(|key| self.tree.get(&key));
        found.or(offered)
    }

    /// A beginning that was read goes to all who wait for it, kept or not.
    fn hand_on(&mut self, key: &Key, prefix: &Prefix) {
        for (_, answering) in &mut self.running {
            if answering.is_waiting() && answering.marks().iter().any(|mark| mark.key == *key) {
                answering.offer(prefix);
            }
        }
    }
}
