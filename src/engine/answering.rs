//! One answer, from its prompt to its last token, a step at a time.
//!
//! ```text
//!  waiting ──▶ reading ──▶ writing ──▶ end        Each step it says which rows it wants, and takes their logits.
//! ```
//!
//! Invariant: the tokens are those that a sampler chooses one by one from the logits behind all tokens before them. What
//! a guide forces and what was guessed is fed several rows at a time, which changes no logit; a row behind a wrong guess
//! is cut off again.

use std::ops::{ControlFlow, Range};

use super::draft::{Drafts, GAP};
use super::generate::{End, Generated, Generating};
use super::text::TextStream;
use super::tree::{Key, Mark};
use super::{
    Chunk, Engine, EngineError, Guide, Input, Passage, Prefix, Rows, Sampler, Sequence, Visual, Weigh, Weighed,
};
use crate::model::TokenId;
use crate::model::tokenizer::Tokenizer;

/// What is answered, and how.
#[derive(Debug)]
pub struct Request<'g> {
    /// The prompt, without the beginning that [`start`](Self::start) is; not empty.
    pub prompt: Vec<Passage>,
    /// The beginning of the prompt, read already.
    pub start: Prefix,
    /// The ends of beginnings that other prompts may have too, in order.
    pub marks: Vec<Mark>,
    /// How many tokens there may be.
    pub max_tokens: usize,
    /// Whether end tokens are tokens like all others.
    pub ignore_end: bool,
    /// Chooses the tokens.
    pub sampler: Sampler,
    /// Keeps the answer to a format.
    pub guide: Option<Box<dyn Guide>>,
    /// Hears every token with what else could have stood there.
    pub weigh: Option<Box<dyn Weigh + 'g>>,
    /// Whether tokens are guessed.
    pub speculate: bool,
}

/// What a step made of an answer.
#[derive(Debug)]
pub(super) enum Went {
    /// It goes on.
    On,
    /// It has read a beginning that others may want, whose last rows are its own.
    Past(Mark, Prefix, usize),
    /// It ended.
    Ended(End),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was read: somebody else may be reading its beginning.
    Waiting,
    /// At this row of this passage, whose first row has this position.
    Reading {
        passage: usize,
        row: usize,
        start: u32,
    },
    Writing,
}

/// An answer that is being made.
#[derive(Debug)]
pub(super) struct Answering<'g> {
    request: Request<'g>,
    /// Rows of the prompt, its beginning included.
    rows: usize,
    /// How many tokens there may be in this context.
    limit: usize,
    phase: Phase,
    sequence: Sequence,
    /// Marks that are behind it.
    passed: usize,
    /// A beginning that another answer has read, until this one begins.
    offer: Option<Prefix>,
    /// The prompt's tokens and those of the answer, to guess from.
    text: Vec<TokenId>,
    tokens: Vec<TokenId>,
    stream: TextStream,
    /// How many of the answer's tokens the sequence has.
    fed: usize,
    drafts: Option<Drafts>,
    /// How many rows the next step has, and the guessed tokens among them.
    planned: usize,
    guessed: Vec<TokenId>,
    /// What the next step feeds while it writes.
    feed: Vec<TokenId>,
    reused: usize,
    prompt_seconds: f64,
    decode_seconds: f64,
    weighed: Vec<Weighed>,
}

/// What an answer needs from outside while it goes on.
pub(super) struct Outside<'a> {
    pub engine: &'a Engine,
    pub tokenizer: &'a Tokenizer,
    pub on: &'a mut dyn FnMut(Generating<'_>) -> ControlFlow<()>,
}

impl<'g> Answering<'g> {
    pub fn new(engine: &Engine, mut request: Request<'g>) -> Result<Self, EngineError> {
        let read = request.start.length();
        let rows = read + request.prompt.iter().map(Passage::length).sum::<usize>();
        if rows == read {
            return Err(EngineError::Empty);
        }
        // The last row is read by every answer itself: its logits choose the first token.
        request.marks.retain(|mark| (read + 1..rows).contains(&mark.at));
        let context = engine.context();
        if rows >= context {
            return Err(EngineError::Context { needed: rows + 1, context });
        }
        // An answer that the context cuts off is cut off like any other.
        let limit = request.max_tokens.min(context - rows);
        let mut text = Vec::new();
        if request.speculate {
            // A picture's rows are no words; what stands around them must not be taken for neighbours.
            for passage in &request.prompt {
                match passage {
                    Passage::Tokens(tokens) => text.extend(tokens),
                    Passage::Visual(_) => text.push(GAP),
                }
            }
        }
        let drafts = request.speculate.then(Drafts::new);
        Ok(Self {
            rows,
            limit,
            phase: Phase::Waiting,
            sequence: Sequence::fork(&Prefix::default(), 0),
            passed: 0,
            offer: None,
            text,
            tokens: Vec::new(),
            stream: TextStream::default(),
            fed: 0,
            drafts,
            planned: 0,
            guessed: Vec::new(),
            feed: Vec::new(),
            reused: 0,
            prompt_seconds: 0.0,
            decode_seconds: 0.0,
            weighed: Vec::new(),
            request,
        })
    }

    /// The pictures of its prompt, if one of its beginnings is that one and they are still to be read.
    pub fn shows(&self, key: &Key) -> Option<Vec<Visual>> {
        let visual = |passage: &Passage| match passage {
            Passage::Tokens(_) => None,
            Passage::Visual(visual) => Some(visual.clone()),
        };
        let shown = self.request.marks.iter().any(|mark| mark.key == *key);
        let visuals: Vec<Visual> = self.request.prompt.iter().filter_map(visual).filter(|_| shown).collect();
        (!visuals.is_empty()).then_some(visuals)
    }

    /// Rows of the prompt.
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting
    }

    pub fn is_writing(&self) -> bool {
        self.phase == Phase::Writing
    }

    /// The marks that it has not passed.
    pub fn marks(&self) -> &[Mark] {
        &self.request.marks[self.passed..]
    }

    /// Takes note of a beginning that another answer has read.
    pub fn offer(&mut self, prefix: &Prefix) {
        self.offer = Some(prefix.clone());
    }

    /// The longest beginning that was offered, and takes it.
    pub fn offered(&mut self) -> Option<Prefix> {
        self.offer.take()
    }

    /// Begins to read behind a beginning that ends at one of its marks, or behind its own start.
    pub fn begin(&mut self, prefix: Option<&Prefix>) {
        let prefix = prefix.cloned().unwrap_or_else(|| self.request.start.clone());
        let length = prefix.length();
        self.reused = length;
        self.passed = self.request.marks.iter().take_while(|mark| mark.at <= length).count();
        let mut left = length - self.request.start.length();
        let mut passage = 0;
        while self.request.prompt.get(passage).is_some_and(|next| next.length() <= left) {
            left -= self.request.prompt[passage].length();
            passage += 1;
        }
        self.fork(&prefix);
        self.phase = Phase::Reading { passage, row: left, start: self.sequence.next_position() };
    }

    /// Goes on from a prefix, with room up to the next mark, or to the end.
    fn fork(&mut self, prefix: &Prefix) {
        let end = self.marks().first().map_or(self.rows + self.limit, |mark| mark.at);
        self.sequence = Sequence::fork(prefix, end - prefix.length());
    }

    /// Makes ready to read at most so many rows; gives how many.
    pub fn plan_reading(&mut self, most: usize) -> usize {
        let Phase::Reading { passage, row, .. } = self.phase else { return 0 };
        let left = self.request.prompt.get(passage).map_or(0, |passage| passage.length() - row);
        self.planned = most.min(left).min(self.sequence.room());
        self.planned
    }

    /// Makes ready to write, beside so many other answers; gives how many rows that takes.
    pub fn plan_writing(&mut self, answers: usize) -> Result<usize, EngineError> {
        self.feed.clear();
        self.feed.extend(&self.tokens[self.fed..]);
        self.guessed.clear();
        if let Some(drafts) = &mut self.drafts {
            // Of the last token that there may be, no row is needed.
            let most = (self.limit - self.tokens.len()).saturating_sub(1);
            let mut guess = drafts.propose(&self.text, most, answers);
            if let (Some(guide), false) = (&mut self.request.guide, guess.is_empty()) {
                guess = &guess[..guide.allowed(guess)?.min(guess.len())];
            }
            self.guessed.extend(guess);
        }
        self.feed.extend(&self.guessed);
        self.planned = self.feed.len();
        Ok(self.planned)
    }

    /// The rows that were planned.
    pub fn chunk(&mut self) -> Chunk<'_> {
        let rows = self.planned;
        let (input, logits) = match self.phase {
            Phase::Reading { passage, row, start } => {
                let range: Range<usize> = row..row + rows;
                let last = self.sequence.length() + rows == self.rows;
                let input = match &self.request.prompt[passage] {
                    Passage::Tokens(tokens) => Input::Tokens(&tokens[range]),
                    Passage::Visual(visual) => Input::Visual { visual, rows: range, start },
                };
                (input, if last { Rows::Tail(1) } else { Rows::None })
            }
            _ => (Input::Tokens(&self.feed), Rows::Tail(1 + self.guessed.len())),
        };
        Chunk { sequence: &mut self.sequence, input, logits }
    }

    /// Takes the logits of the rows that were planned, and the time that they took.
    pub fn take(&mut self, logits: &[Vec<f32>], seconds: f64, outside: &mut Outside<'_>) -> Result<Went, EngineError> {
        match self.phase {
            Phase::Reading { passage, row, start } => {
                self.prompt_seconds += seconds;
                self.phase = match row + self.planned == self.request.prompt[passage].length() {
                    true => Phase::Reading { passage: passage + 1, row: 0, start: self.sequence.next_position() },
                    false => Phase::Reading { passage, row: row + self.planned, start },
                };
                let done = self.sequence.length();
                if (outside.on)(Generating::Reading { done, of: self.rows }).is_break() {
                    return Ok(Went::Ended(End::Stopped));
                }
                if let Some(mark) = self.marks().first().copied().filter(|mark| mark.at == done) {
                    return Ok(self.pass(mark));
                }
                let Some(first) = logits.first() else { return Ok(Went::On) };
                self.phase = Phase::Writing;
                // What was read is in the sequence; pictures take much memory.
                self.request.prompt.clear();
                if (outside.on)(Generating::First(first)).is_break() {
                    return Ok(Went::Ended(End::Stopped));
                }
                if self.limit == 0 {
                    return Ok(Went::Ended(End::Limit));
                }
            }
            _ => self.decode_seconds += seconds,
        }
        let end = self.write(logits, outside)?;
        Ok(end.map_or(Went::On, Went::Ended))
    }

    /// What it has read so far becomes a prefix, for itself and for others.
    fn pass(&mut self, mark: Mark) -> Went {
        self.passed += 1;
        let own = self.sequence.own_length();
        let read = std::mem::replace(&mut self.sequence, Sequence::fork(&Prefix::default(), 0)).freeze();
        self.fork(&read);
        Went::Past(mark, read, own)
    }

    /// Chooses as many tokens as the logits reach: those of the last certain token, and of each right guess behind it.
    fn write(&mut self, logits: &[Vec<f32>], outside: &mut Outside<'_>) -> Result<Option<End>, EngineError> {
        let base = self.tokens.len();
        self.fed = base;
        loop {
            if let Some(end) = self.force(outside)? {
                return Ok(Some(end));
            }
            let known = self.tokens.len() - base;
            let Some(row) = logits.get(known) else { break };
            if self.guessed.get(..known) != Some(&self.tokens[base..]) {
                break;
            }
            if let Some(end) = self.choose(row, outside)? {
                return Ok(Some(end));
            }
        }
        let came = &self.tokens[base..];
        let right = self.guessed.iter().zip(came).take_while(|(guessed, came)| guessed == came).count();
        if let Some(drafts) = &mut self.drafts {
            drafts.learn(came);
        }
        self.fed = base + right;
        self.guessed.clear();
        self.sequence.truncate(self.rows + self.fed);
        Ok(None)
    }

    /// Takes what the guide leaves no choice about.
    fn force(&mut self, outside: &mut Outside<'_>) -> Result<Option<End>, EngineError> {
        let Some(guide) = &mut self.request.guide else { return Ok(None) };
        if guide.is_complete() {
            return Ok(Some(End::Token));
        }
        for token in guide.forced()? {
            if let Some(end) = self.push(token, None, outside)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Chooses the next token.
    fn choose(&mut self, logits: &[f32], outside: &mut Outside<'_>) -> Result<Option<End>, EngineError> {
        let token = match &mut self.request.guide {
            None => self.request.sampler.sample(logits)?,
            Some(guide) => {
                // Mostly what the model wants is allowed, which is known sooner than all that is.
                let wanted = self.request.sampler.certain(logits);
                match wanted {
                    Some(wanted) if guide.allowed(&[wanted])? == 1 => wanted,
                    _ => {
                        let mut allowed = logits.to_vec();
                        guide.restrict(&mut allowed)?;
                        self.request.sampler.sample(&allowed)?
                    }
                }
            }
        };
        self.push(token, Some(logits), outside)
    }

    /// Adds a token to the answer; `logits` are what it was chosen from.
    fn push(
        &mut self,
        token: TokenId,
        logits: Option<&[f32]>,
        outside: &mut Outside<'_>,
    ) -> Result<Option<End>, EngineError> {
        if outside.tokenizer.is_end(token) && !self.request.ignore_end {
            return Ok(Some(End::Token));
        }
        self.weigh(token, logits, outside)?;
        if let Some(guide) = &mut self.request.guide {
            guide.take(token)?;
        }
        self.tokens.push(token);
        if self.drafts.is_some() {
            self.text.push(token);
        }
        let text = self.stream.push(&outside.tokenizer.bytes(token).unwrap_or_default());
        if (outside.on)(Generating::Token(token, &text)).is_break() {
            return Ok(Some(End::Stopped));
        }
        if self.request.guide.as_mut().is_some_and(|guide| guide.is_complete()) {
            return Ok(Some(End::Token));
        }
        Ok((self.tokens.len() == self.limit).then_some(End::Limit))
    }

    /// Lets whoever weighs tokens hear this one.
    fn weigh(&mut self, token: TokenId, logits: Option<&[f32]>, outside: &mut Outside<'_>) -> Result<(), EngineError> {
        let Some(weigh) = &mut self.request.weigh else { return Ok(()) };
        let length = self.rows + self.tokens.len();
        let (sequence, guessed, fed) = (&mut self.sequence, &mut self.guessed, self.fed);
        let known = self.tokens.len() - fed;
        let engine = outside.engine;
        let found = weigh.take(token, logits, &mut |branches| {
            // Rows behind this place are in the way: what was guessed beyond it is checked in a later step.
            sequence.truncate(length);
            guessed.truncate(known);
            follow(engine, sequence, branches)
        })?;
        self.weighed.extend(found);
        Ok(())
    }

    /// Ends it. What is left of the text comes last.
    pub fn finish(self, mut end: End, on: &mut dyn FnMut(Generating<'_>) -> ControlFlow<()>) -> Generated {
        let rest = self.stream.finish();
        if end != End::Stopped && !rest.is_empty() && on(Generating::Rest(&rest)).is_break() {
            end = End::Stopped;
        }
        Generated {
            tokens: self.tokens,
            end,
            reused: self.reused,
            prompt_seconds: self.prompt_seconds,
            decode_seconds: self.decode_seconds,
            weighed: self.weighed,
        }
    }
}

/// The logits behind each of these continuations of a sequence, which stays as it is.
fn follow(engine: &Engine, sequence: &mut Sequence, branches: &[Vec<TokenId>]) -> Result<Vec<Vec<f32>>, EngineError> {
    let room = sequence.room();
    let prefix = std::mem::replace(sequence, Sequence::fork(&Prefix::default(), 0)).freeze();
    *sequence = Sequence::fork(&prefix, room);
    let mut forks: Vec<Sequence> = branches.iter().map(|branch| Sequence::fork(&prefix, branch.len())).collect();
    let mut chunks: Vec<Chunk<'_>> = forks
        .iter_mut()
        .zip(branches)
        .map(|(sequence, branch)| Chunk { sequence, input: Input::Tokens(branch), logits: Rows::Tail(1) })
        .collect();
    let logits = engine.step(&mut chunks)?;
    Ok((0..branches.len()).map(|branch| logits.last(branch).to_vec()).collect())
}
