//! Guesses at what an answer says next: judges quote the caption and the events, which stand in the prompt.
//!
//! A guess is what followed the last words where they stood before. It costs a row of the step that checks it, so it is
//! made only where it is likely enough to be right to pay for that.
//!
//! Invariant: a guess decides how long an answer takes, and nothing else. Whoever checks it keeps what the sampler would
//! have chosen anyway.

use crate::model::TokenId;

/// The longest run of last tokens that is looked for, and the shortest.
const RUNS: [usize; 2] = [3, 2];
/// The most tokens of a guess.
const LONGEST: usize = 16;
/// What one more row costs a step on a CPU, in steps of one row: measured 1, 1.4, 2, 3.2 and 5.7 for 1, 2, 4, 8 and 16.
const ROW: f64 = 0.31;
/// The share of right guesses that an answer begins with.
const AT_FIRST: f64 = 0.7;
/// How much one guess changes that share.
const WEIGHT: f64 = 0.125;

/// Stands in a text where something is that is no token, such as a picture: nothing is guessed across it.
pub const GAP: TokenId = TokenId::MAX;

/// Guesses for one answer.
#[derive(Debug, Clone)]
pub struct Drafts {
    /// How often a guessed token was right lately.
    rate: f64,
    /// The guess at the tokens that come next, checked or not.
    guess: Vec<TokenId>,
}

impl Drafts {
    /// For an answer that has nothing yet.
    pub fn new() -> Self {
        Self { rate: AT_FIRST, guess: Vec::new() }
    }

    /// What may come behind `text` (the prompt, and the answer so far), where checking it pays: at most `most` tokens, in
    /// a step that goes on with so many answers.
    pub fn propose(&mut self, text: &[TokenId], most: usize, answers: usize) -> &[TokenId] {
        self.guess.clear();
        if let Some(next) = RUNS.iter().find_map(|run| behind_last(text, *run)) {
            self.guess.extend(text[next..].iter().take(LONGEST).take_while(|token| **token != GAP));
        }
        let pays = self.length(answers).min(most).min(self.guess.len());
        &self.guess[..pays]
    }

    /// Hears what really came. A guess that nobody checked teaches as much as one that was.
    pub fn learn(&mut self, came: &[TokenId]) {
        for (guessed, came) in self.guess.iter().zip(came) {
            let right = guessed == came;
            self.rate += WEIGHT * (f64::from(u8::from(right)) - self.rate);
            if !right {
                break;
            }
        }
        self.guess.clear();
    }

    /// How many tokens pay: the last of them is right often enough to be worth its row.
    fn length(&self, answers: usize) -> usize {
        let answers = answers.max(1) as f64;
        let token = (1.0 + ROW * (answers - 1.0)) / answers;
        let mut right = 1.0;
        (0..LONGEST)
            .take_while(|_| {
                right *= self.rate;
                right * token > ROW
            })
            .count()
    }
}

/// Where the text goes on behind the latest earlier place of its last `run` tokens.
fn behind_last(text: &[TokenId], run: usize) -> Option<usize> {
    let start = text.len().checked_sub(run).filter(|start| *start > 0)?;
    let last = &text[start..];
    // The newest place says most about what comes now.
    (0..start).rev().find(|at| text[*at..].starts_with(last)).map(|at| at + run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_place_of_the_longest_run_is_gone_on_from() {
        let mut drafts = Drafts::new();
        assert_eq!(drafts.propose(&[1, 2, 3, 9, 1, 2, 3, 8, 7, 1, 2, 3], 2, 1), [8, 7]);
        // Two tokens do where three were never seen; one does not.
        assert_eq!(drafts.propose(&[5, 2, 3, 9, 1, 2, 3], 1, 1), [9]);
        assert!(drafts.propose(&[1, 2, 3, 4, 3], 4, 1).is_empty());
        assert!(drafts.propose(&[], 4, 1).is_empty());
        assert!(drafts.propose(&[1, 1], 4, 1).is_empty());
        // A picture is never guessed, and nothing behind it.
        assert_eq!(drafts.propose(&[1, 2, 3, 9, GAP, 7, 1, 2, 3], 9, 1), [9]);
        assert!(drafts.propose(&[1, 2, 3, GAP, 7, 1, 2, 3], 9, 1).is_empty());
        // A run that overlaps its own copy.
        assert_eq!(drafts.propose(&[4, 4, 4, 4], 1, 1), [4]);
    }

    #[test]
    fn wrong_guesses_end_the_guessing_and_right_ones_begin_it_again() {
        let text = [1, 2, 3, 8, 7, 6, 5, 1, 2, 3];
        let mut drafts = Drafts::new();
        let length = |drafts: &mut Drafts| drafts.propose(&text, LONGEST, 1).len();
        let first = length(&mut drafts);
        assert!((1..LONGEST).contains(&first));
        for _ in 0..20 {
            drafts.propose(&text, LONGEST, 1);
            drafts.learn(&[9]);
        }
        assert_eq!(length(&mut drafts), 0);
        for _ in 0..20 {
            drafts.propose(&text, LONGEST, 1);
            drafts.learn(&[8]);
        }
        assert!(length(&mut drafts) > first);
    }

    #[test]
    fn many_answers_in_a_step_leave_less_to_gain() {
        let drafts = Drafts { rate: 0.9, guess: Vec::new() };
        let lengths: Vec<usize> = [1, 2, 4, 8].into_iter().map(|answers| drafts.length(answers)).collect();
        assert!(lengths.is_sorted_by(|a, b| a > b), "{lengths:?}");
        assert_eq!(Drafts { rate: 0.6, guess: Vec::new() }.length(8), 0);
    }
}
