//! Follows one answer through its grammar.
//!
//! Invariant: what is allowed, what is forced and what is taken are always said of the same place in the answer, whether
//! it is in a thought, in the format, or on the way to an early end.

use std::sync::{Arc, PoisonError};

use llguidance::Matcher;
use llguidance::toktrie::TokenizerEnv;

use super::closing::{Need, Progress};
use super::thought::Thought;
use super::watch::At;
use super::{Bounds, Shared, THOUGHT_SHARE};
use crate::engine::{Guide, GuideError};
use crate::model::TokenId;

/// The guide of one answer.
pub struct Follower {
    matcher: Matcher,
    shared: Arc<Shared>,
    thought: Option<Thought>,
    progress: Progress,
    /// How many tokens the answer may still have.
    left: usize,
    /// The way out that is being taken: the tokens still to come, for each alternative that is left.
    exit: Vec<Vec<TokenId>>,
    /// The end token was taken.
    ended: bool,
}

impl Follower {
    pub(super) fn new(matcher: Matcher, shared: Arc<Shared>, bounds: &Bounds) -> Self {
        let progress = Progress::default();
        let (share, of) = THOUGHT_SHARE;
        let most = bounds.max_tokens.saturating_sub(2 * shared.closing.reserve(&progress));
        let thought = bounds.thought.as_deref();
        let thought =
            thought.map(|opening| Thought::new(opening, (bounds.max_tokens / of * share).min(most), &shared.tokens));
        Self { matcher, shared, thought, progress, left: bounds.max_tokens, exit: Vec::new(), ended: false }
    }

    fn bytes(&self, token: TokenId) -> Vec<u8> {
        self.shared.tokens.tokenizer().bytes(token).unwrap_or_default()
    }

    /// Where tokens run out, sets out for the end; a way out that was begun is gone to its end.
    fn look_for_exit(&mut self) -> Result<(), GuideError> {
        if !self.exit.is_empty() || self.ended || self.matcher.is_stopped() && self.thought.is_none() {
            return Ok(());
        }
        if let Some(thought) = &self.thought {
            if thought.left == 0 {
                self.exit.extend(thought.closing(&self.shared.tokens));
            }
            return Ok(());
        }
        let need = self.shared.closing.need(&self.progress, self.left);
        if need == Need::Nothing {
            return Ok(());
        }
        // What is forced anyway is no text that could be cut.
        if !self.matcher.compute_ff_tokens().is_empty() {
            return self.checked(());
        }
        let shared = Arc::clone(&self.shared);
        for exit in shared.closing.exits(need, &self.progress) {
            for bridge in shared.closing.bridges(&self.progress) {
                for tokens in exit {
                    let tokens = [bridge.as_slice(), tokens].concat();
                    let valid = self.matcher.validate_tokens(&tokens).map_err(internal)? == tokens.len();
                    if valid && self.readable(&tokens) == tokens.len() {
                        self.exit.push(tokens);
                    }
                }
                if !self.exit.is_empty() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Where a line stands, if it is one that could be misread.
    fn watched(&self, progress: &Progress) -> Option<(usize, At)> {
        let (index, line) = progress.watched()?;
        let watch = self.shared.watches.get(index)?.lock().unwrap_or_else(PoisonError::into_inner);
        Some((index, watch.after(line)?))
    }

    /// How many of these tokens leave all lines readable.
    fn readable(&self, tokens: &[TokenId]) -> usize {
        let mut progress = self.progress.clone();
        let mut watched = self.watched(&progress);
        for (count, token) in tokens.iter().enumerate() {
            let bytes = self.bytes(*token);
            progress.push(&bytes, &self.shared.closing);
            let next = watched.map(|(index, at)| {
                let watch = self.shared.watches[index].lock().unwrap_or_else(PoisonError::into_inner);
                watch.push(at, &bytes)
            });
            match (watched, next) {
                (_, Some(None)) => return count,
                (Some((index, _)), Some(Some(at @ At::Line(..)))) => watched = Some((index, at)),
                // A line has ended: the next one may be of another section.
                _ => watched = self.watched(&progress),
            }
        }
        tokens.len()
    }

    /// The engine reports some faults only when it is asked.
    fn checked<T>(&self, value: T) -> Result<T, GuideError> {
        match self.matcher.get_error() {
            None => Ok(value),
            Some(error) => Err(GuideError(error)),
        }
    }

    fn is_end(&self, token: TokenId) -> bool {
        self.shared.tokens.tokenizer().is_end(token)
    }
}

impl Guide for Follower {
    fn forced(&mut self) -> Result<Vec<TokenId>, GuideError> {
        self.look_for_exit()?;
        if let Some((first, others)) = self.exit.split_first() {
            let same = |(at, token): &(usize, &TokenId)| others.iter().all(|other| other.get(*at) == Some(*token));
            return Ok(first.iter().enumerate().take_while(same).map(|(_, token)| *token).collect());
        }
        if self.thought.is_some() || self.is_complete() {
            return Ok(Vec::new());
        }
        let forced = self.matcher.compute_ff_tokens();
        self.checked(forced)
    }

    fn restrict(&mut self, logits: &mut [f32]) -> Result<(), GuideError> {
        self.look_for_exit()?;
        let mut some = false;
        let mut forbid = |allowed: &dyn Fn(usize) -> bool| {
            for (token, logit) in logits.iter_mut().enumerate() {
                match allowed(token) {
                    true => some = true,
                    false => *logit = f32::NEG_INFINITY,
                }
            }
        };
        if !self.exit.is_empty() {
            let next: Vec<usize> =
                self.exit.iter().filter_map(|tokens| tokens.first()).map(|id| *id as usize).collect();
            forbid(&|token| next.contains(&token));
        } else if let Some(thought) = &self.thought {
            let tokens = &self.shared.tokens;
            let beyond = self.shared.tags.iter().filter(|id| !thought.allows(**id, tokens)).map(|id| *id as usize);
            let beyond: Vec<usize> = beyond.collect();
            let tag = thought.closing(tokens).filter(|tokens| tokens.len() == 1).map(|tokens| tokens[0] as usize);
            let ordinary = &self.shared.ordinary;
            forbid(&|token| {
                ordinary.get(token).is_some_and(|ordinary| *ordinary) && !beyond.contains(&token) || Some(token) == tag
            });
        } else if self.is_complete() {
            let ends = self.shared.tokens.tokenizer().end_tokens();
            forbid(&|token| ends.iter().any(|end| *end as usize == token));
        } else {
            let mut mask = self.matcher.compute_mask().map_err(internal)?;
            if let Some((index, at)) = self.watched(&self.progress) {
                let mut watch = self.shared.watches[index].lock().unwrap_or_else(PoisonError::into_inner);
                mask.and(&watch.mask(at, self.shared.tokens.tok_trie()));
            }
            let words = mask.as_slice();
            let size = self.shared.ordinary.len();
            forbid(&|token| token < size && words.get(token / 32).is_some_and(|word| word >> (token % 32) & 1 == 1));
        }
        if !some {
            return Err(GuideError("the format leaves no token".to_owned()));
        }
        Ok(())
    }

    fn allowed(&mut self, draft: &[TokenId]) -> Result<usize, GuideError> {
        self.look_for_exit()?;
        if !self.exit.is_empty() {
            let same =
                |tokens: &Vec<TokenId>| tokens.iter().zip(draft).take_while(|(token, other)| token == other).count();
            return Ok(self.exit.iter().map(same).max().unwrap_or_default());
        }
        if let Some(thought) = &self.thought {
            let mut thought = thought.clone();
            let mut count = 0;
            for token in draft {
                if thought.left == 0 || !thought.allows(*token, &self.shared.tokens) {
                    break;
                }
                count += 1;
                if thought.take(*token, &self.bytes(*token)) {
                    break;
                }
            }
            return Ok(count);
        }
        if self.is_complete() {
            return Ok(draft.first().map_or(0, |token| usize::from(!self.ended && self.is_end(*token))));
        }
        let ordinary = |token: &TokenId| self.shared.ordinary.get(*token as usize) == Some(&true);
        let mut texts = draft.iter().take_while(|token| ordinary(token)).count();
        // Where tokens run out, only as far as the answer can still be closed; a line may bring another to come.
        let lines = draft[..texts].iter().filter(|token| self.bytes(**token).contains(&b'\n')).count();
        let reserve = self.shared.closing.reserve(&self.progress) + lines * self.shared.closing.line();
        // What is forced is in the reserve already.
        let forced = self.matcher.compute_ff_tokens();
        let forced = forced.iter().zip(draft).take_while(|(forced, token)| forced == token).count();
        texts = texts.min(self.left.saturating_sub(reserve).max(forced).max(1));
        if texts == 0 {
            let ends = draft.first().is_some_and(|token| self.is_end(*token));
            return Ok(usize::from(ends && self.matcher.is_accepting().map_err(internal)?));
        }
        let valid = self.matcher.validate_tokens(&draft[..texts]).map_err(internal)?;
        Ok(self.readable(&draft[..valid]))
    }

    fn take(&mut self, token: TokenId) -> Result<(), GuideError> {
        self.left = self.left.saturating_sub(1);
        self.exit.retain_mut(|tokens| {
            tokens.first() == Some(&token) && {
                tokens.remove(0);
                true
            }
        });
        // An alternative that is whole ends the way out.
        if self.exit.iter().any(Vec::is_empty) {
            self.exit.clear();
        }
        let bytes = self.bytes(token);
        if let Some(thought) = &mut self.thought {
            if thought.take(token, &bytes) {
                self.thought = None;
                self.exit.clear();
            }
            return Ok(());
        }
        if self.is_complete() {
            if self.ended || !self.is_end(token) {
                return Err(GuideError(format!("token {token} stands behind the end of the answer")));
            }
            self.ended = true;
            return Ok(());
        }
        self.matcher.consume_token(token).map_err(internal)?;
        if self.is_end(token) {
            self.ended = true;
        } else {
            self.progress.push(&bytes, &self.shared.closing);
        }
        Ok(())
    }

    fn is_complete(&mut self) -> bool {
        self.thought.is_none() && (self.ended || self.matcher.is_stopped() && !self.matcher.is_error())
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Follower with {} tokens left, {:?}", self.left, self.progress)
    }
}

fn internal(error: impl std::fmt::Display) -> GuideError {
    GuideError(error.to_string())
}
