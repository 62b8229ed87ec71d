//! Which of the scores that were read is the verdict, if any is.
//!
//! Invariant: a score that may be quoted from what the judge was shown is no verdict, and neither are two that differ.

use super::{Found, ScoreReader, State, is_quote};
use crate::answer::markup::is_fence;
use crate::answer::number::read_number;
use crate::answer::statement::{Separator, find_name, value_behind};
use crate::answer::{Event, Finish, Reading, Reason, Unscored, Values};
use crate::task::ScoreSpec;

/// How many scores of an answer are kept; the last ones count.
const FOUND_KEPT: usize = 64;

impl ScoreReader<'_> {
    /// Where no reason is wanted, the first score of an object that opens the answer is all there is to wait for. One
    /// that may be quoted from the input is read on like any other.
    pub(super) fn settle_early(&mut self, value: Result<u32, Reason>, end: usize, on_event: &mut dyn FnMut(Event)) {
        let [object] = self.objects.as_slice() else { return };
        let found = Found { value, reason: None, span: object.start..end };
        if !self.clean || value.is_err() || object.scores.len() > 1 || self.is_quotation(&found) {
            return;
        }
        self.found.push(found);
        self.done = true;
        on_event(Event::Done);
    }

    /// The outermost object, which started at `start`, is complete.
    pub(super) fn settle(&mut self, found: Option<Found>, start: usize, on_event: &mut dyn FnMut(Event)) {
        // Its score alone was enough.
        if self.done {
            return;
        }
        let first = std::mem::replace(&mut self.clean, false);
        let between = self.text[self.object_end..start].trim();
        // `[{…}, {…}]`, `either {…} or {…}`: alternatives, not a draft and its revision.
        let alternative = matches!(between, "," | "or" | "/" | "and") && !self.found.is_empty();
        self.object_end = self.at + 1;
        let Some(mut found) = found else { return };
        self.taken_back = false;
        if alternative && self.found.last().is_some_and(|before| before.value != found.value) {
            found.value = Err(Reason::Contradictory);
        }
        let complete =
            found.value.is_ok() && (found.reason.is_some() || self.score_alone || self.format.spec.reason.is_none());
        self.done = first && complete && !self.is_quotation(&found);
        if self.found.len() == FOUND_KEPT {
            self.found.remove(0);
        }
        self.found.push(found);
        if self.done {
            on_event(Event::Done);
        }
    }

    /// Whether an object may be a quotation: it stands in an input, white space and the kind of quotation marks aside;
    /// or an input has scores of its own, and the object has no reason, or one that stands in the input.
    fn is_quotation(&self, found: &Found) -> bool {
        if self.inputs.is_empty() {
            return false;
        }
        let words = squeeze(&self.text[found.span.clone()]);
        let reason = found.reason.as_deref().map(squeeze).unwrap_or_default();
        let forged = self.inputs_have_scores();
        let squeezed = self.squeezed.get_or_init(|| self.inputs.iter().map(|input| squeeze(input)).collect());
        squeezed.iter().any(|input| input.contains(&words) || forged && input.contains(&reason))
    }

    /// Whether an input gives scores of its own, in any form: then a score without a reason may be quoted from there,
    /// whichever number it is.
    fn inputs_have_scores(&self) -> bool {
        let name = &self.format.name;
        let gives = |input: &str| {
            find_name(name, input).any(|at| {
                let at = at - usize::from(input[..at].ends_with('"'));
                let line = input[at..].lines().next().unwrap_or_default();
                value_behind(name, line, Separator::Needed).is_some_and(|stated| {
                    read_number(stated, self.format.range()).is_ok()
                        || stated.trim_start().starts_with(|c: char| c.is_ascii_digit())
                })
            })
        };
        *self.forged.get_or_init(|| self.inputs.iter().any(|input| gives(input)))
    }

    /// Ends the answer.
    pub fn finish(mut self, finish: Finish, on_event: &mut dyn FnMut(Event)) -> Reading {
        let found = self.outcome(finish, on_event);
        if found.is_ok() && !self.done {
            on_event(Event::Done);
        }
        let span = found.as_ref().ok().map(|found| [found.span.start, found.span.end]);
        let values = found.and_then(|found| match found.value {
            Ok(_) if self.taken_back && !self.done => {
                Err(Unscored::at(Reason::Contradictory, "words behind the score take it back", found.span))
            }
            Ok(score) => Ok(Values::Score { score, reason: found.reason }),
            Err(reason) => Err(Unscored::at(reason, self.explain(reason), found.span)),
        });
        Reading { values, span, listed_events: None, labelled: None, agree: None }
    }

    fn outcome(&mut self, finish: Finish, on_event: &mut dyn FnMut(Event)) -> Result<Found, Unscored> {
        if !self.done {
            self.end(finish, on_event)?;
        }
        let mut quoted = None;
        // The last verdict that is no quotation counts.
        while let Some(found) = self.found.pop() {
            if self.done || !self.is_quotation(&found) {
                return self.agreeing(found);
            }
            quoted.get_or_insert(found.span);
        }
        let forged = self.inputs_have_scores();
        let (in_input, own): (Vec<Found>, Vec<Found>) =
            std::mem::take(&mut self.lines).into_iter().partition(|_| forged);
        if let Some(first) = own.first().cloned() {
            let same = own.iter().all(|other| other.value == first.value);
            return if same { Ok(first) } else { Ok(Found { value: Err(Reason::Contradictory), ..first }) };
        }
        if let Some(span) = quoted.or(in_input.into_iter().next().map(|found| found.span)) {
            return Err(Unscored::at(Reason::OnlyQuoted, self.explain(Reason::OnlyQuoted), span));
        }
        let all = self.start..self.text.len();
        if self.text[self.start..].lines().all(|line| line.trim().is_empty() || is_fence(line)) {
            return Err(Unscored::at(Reason::EmptyAnswer, "the answer is empty", all));
        }
        let detail = format!("the answer has no `{}`", self.format.spec.key);
        Err(Unscored::at(Reason::MissingMetric, detail, all))
    }

    /// An object's score counts, unless a line behind it says something else.
    fn agreeing(&self, found: Found) -> Result<Found, Unscored> {
        let differs = |line: &&Found| {
            let behind = line.span.start >= found.span.end;
            behind && line.value.is_ok() && line.value != found.value
        };
        let differing = self.lines.iter().find(differs).filter(|_| found.value.is_ok() && !self.inputs_have_scores());
        match differing {
            Some(_) => Ok(Found { value: Err(Reason::Contradictory), ..found }),
            None => Ok(found),
        }
    }

    /// The end of an answer that did not end by itself.
    fn end(&mut self, finish: Finish, on_event: &mut dyn FnMut(Event)) -> Result<(), Unscored> {
        let end = self.text.len();
        let truncated = |detail: &str| Err(Unscored::at(Reason::Truncated, detail, end..end));
        if finish == Finish::Length {
            return truncated("the token limit ended the answer before the verdict was complete");
        }
        match self.state {
            State::Thought => return truncated("the answer ends inside a thought"),
            State::Str { .. } => return truncated("the answer ends inside a string"),
            State::MayEnd { start, end, key: false, .. } | State::MayBeKey { start, end, .. } => {
                self.valued(start, end, true, on_event);
            }
            State::BareValue { start, .. } => self.valued(start, end, false, on_event),
            State::Value if self.is_score_key() => self.valued(end, end, false, on_event),
            State::Prose => self.line(self.line_start..end, on_event),
            _ => {}
        }
        self.at = end.saturating_sub(1);
        while !self.objects.is_empty() {
            self.close(on_event);
        }
        Ok(())
    }

    fn explain(&self, reason: Reason) -> String {
        let ScoreSpec { key, min, max, .. } = &self.format.spec;
        match reason {
            Reason::OutOfRange => format!("`{key}` is outside {min} to {max}"),
            Reason::Contradictory => format!("`{key}` is given more than once with different values"),
            Reason::TemplateEcho => format!("`{key}` repeats the template"),
            Reason::OnlyQuoted => "the only verdict stands in the input".to_owned(),
            _ => format!("the value of `{key}` cannot be read as one whole number"),
        }
    }
}

/// A text without white space and escapes, and with one kind of quotation marks.
fn squeeze(text: &str) -> String {
    let kept = text.chars().filter(|c| !c.is_whitespace() && *c != '\\');
    kept.map(|c| if is_quote(c) { '"' } else { c }).collect()
}
