//! Final sections: what each states, and which of them counts.
//!
//! Invariant: a statement that may be a quotation never counts alone; it needs the judge's own labels to confirm it.

use std::ops::Range;

use crate::answer::Reason;

/// A stated value.
#[derive(Debug, Clone)]
pub struct Stated {
    /// The number, or what is wrong with it.
    pub value: Result<u32, Reason>,
    /// Where it stands.
    pub span: Range<usize>,
    /// Whether it may be a quotation.
    pub quoted: bool,
    /// Whether the same section states another value too.
    pub contradicted: bool,
}

/// The values of one final section.
#[derive(Debug, Clone, Default)]
pub struct Finals {
    values: Vec<Option<Stated>>,
}

impl Finals {
    /// Adds a statement.
    pub fn state(&mut self, index: usize, value: Result<u32, Reason>, quoted: bool, span: Range<usize>) {
        if self.values.len() <= index {
            self.values.resize(index + 1, None);
        }
        let slot = &mut self.values[index];
        match slot {
            // What may be a quotation gives way to what is none.
            Some(stated) if stated.quoted && !quoted => {
                *stated = Stated { value, span, quoted, contradicted: false };
            }
            Some(stated) if stated.value == value || quoted && !stated.quoted => {}
            Some(stated) => {
                stated.contradicted = true;
                stated.span.end = span.end;
            }
            None => *slot = Some(Stated { value, span, quoted, contradicted: false }),
        }
    }

    /// Something takes back what was stated.
    pub fn contradict(&mut self, span: Range<usize>) {
        for stated in self.values.iter_mut().flatten() {
            stated.contradicted = true;
            stated.span.end = span.end;
        }
    }

    /// The statement of a metric.
    pub fn get(&self, index: usize) -> Option<&Stated> {
        self.values.get(index).and_then(Option::as_ref)
    }

    /// All statements.
    pub fn iter(&self) -> impl Iterator<Item = &Stated> {
        self.values.iter().flatten()
    }

    /// Whether nothing is stated.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Whether any statement may be a quotation.
    pub fn is_quoted(&self) -> bool {
        self.iter().any(|stated| stated.quoted)
    }

    /// Whether the statements are these numbers, in the order of the metrics.
    pub fn equals(&self, counts: &[u32]) -> bool {
        let same = |(index, count): (usize, &u32)| {
            self.get(index).is_some_and(|stated| !stated.contradicted && stated.value == Ok(*count))
        };
        counts.iter().enumerate().all(same)
    }

    /// From the first statement to the last.
    pub fn span(&self) -> Option<Range<usize>> {
        let start = self.iter().map(|stated| stated.span.start).min()?;
        let end = self.iter().map(|stated| stated.span.end).max()?;
        Some(start..end)
    }
}

/// Which final section counts.
#[derive(Debug, Clone, Copy)]
pub enum Chosen<'a> {
    /// This one.
    One(&'a Finals),
    /// There are only statements that may be quotations; this is the last of them.
    Quoted(&'a Finals),
    /// There is none.
    Nothing,
}

/// Chooses among the final sections of an answer. `loose` are statements without a heading, `labelled` the counts by
/// complete labels.
pub fn choose<'a>(sections: &'a [Finals], loose: &'a Finals, labelled: Option<&[u32]>) -> Chosen<'a> {
    let confirmed = |finals: &Finals| labelled.is_some_and(|counts| finals.equals(counts));
    if let Some(last) = sections.iter().rev().find(|finals| !finals.is_empty() && !finals.is_quoted()) {
        return Chosen::One(last);
    }
    let headed = sections.iter().rev().find(|finals| !finals.is_empty());
    if headed.is_none() && !loose.is_empty() && !loose.is_quoted() {
        return Chosen::One(loose);
    }
    match headed.or(Some(loose).filter(|loose| !loose.is_empty())) {
        Some(quoted) if confirmed(quoted) => Chosen::One(quoted),
        Some(quoted) => Chosen::Quoted(quoted),
        None => Chosen::Nothing,
    }
}
