//! Merges from scores.
//!
//! SentencePiece files hold pieces with scores and no merges. The rule behind them: of all neighbours that make a known
//! piece, those with the best piece are joined first. That is a list of merges, ranked by the score of what they make.
//!
//! Invariant: every merge is of two pieces of the vocabulary whose joint text is one too.

use tokenizers::models::bpe::{Merges, Vocab};

/// A piece that merges may make.
pub struct Scored<'a> {
    /// Its text.
    pub text: &'a str,
    /// The higher, the sooner it is made; a finite number.
    pub score: f32,
}

struct Merge<'a> {
    left: &'a str,
    right: &'a str,
    score: f32,
    lengths: (usize, usize),
    ids: (u32, u32),
}

/// All merges, best first. Among those of one score the longer left part comes first, as in Hugging Face's conversion:
/// so a run of one character grows from its left end.
pub fn from_scores<'a>(pieces: impl Iterator<Item = Scored<'a>>, vocabulary: &Vocab) -> Merges {
    let mut merges: Vec<Merge<'_>> = Vec::new();
    for Scored { text, score } in pieces {
        let total = text.chars().count();
        for (left_length, (cut, _)) in text.char_indices().enumerate().skip(1) {
            let (left, right) = text.split_at(cut);
            if let (Some(a), Some(b)) = (vocabulary.get(left), vocabulary.get(right)) {
                merges.push(Merge { left, right, score, lengths: (left_length, total - left_length), ids: (*a, *b) });
            }
        }
    }
    merges.sort_by(|a, b| {
        // Both zeros are one score.
        let by_score = (b.score + 0.0).total_cmp(&(a.score + 0.0));
        by_score.then_with(|| b.lengths.cmp(&a.lengths)).then_with(|| a.ids.cmp(&b.ids))
    });
    merges.into_iter().map(|merge| (merge.left.to_owned(), merge.right.to_owned())).collect()
}
