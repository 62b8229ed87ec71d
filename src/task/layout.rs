//! How a guided `counts` answer is laid out, line by line: what `[answer.layout]` says, and what stands for the rest.
//!
//! Invariant: a layout that passed [`Layout::check`] is read as it was written. The check is no list of rules about
//! layouts but the task's own reader, which reads answers that were written by the layout.

use super::spec::{CountsSpec, LayoutSpec};
use crate::answer::{CountFrom, Finish, Format, Reader, Values};

/// A place in a line that the answer fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The number of an event, `{n}`.
    Number,
    /// Free text, `{text}`.
    Text,
    /// One of the task's labels, `{label}`.
    Label,
    /// The sentence on the flag, `{flag}`.
    Flag,
    /// The name of a count, `{name}`.
    Name,
    /// Its value, `{count}`.
    Count,
}

const SLOTS: [(&str, Slot); 6] = [
    ("n", Slot::Number),
    ("text", Slot::Text),
    ("label", Slot::Label),
    ("flag", Slot::Flag),
    ("name", Slot::Name),
    ("count", Slot::Count),
];

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text that is always the same; never empty.
    Fixed(String),
    /// A place that the answer fills.
    Slot(Slot),
}

/// A line of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line(pub Vec<Part>);

/// The lines of a guided answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// A listed event.
    pub item: Line,
    /// What stands below the first heading of `sections.other`.
    pub review: Option<String>,
    /// An event and its label.
    pub reasoning: Line,
    /// What `{flag}` is for an event with the flag, and without.
    pub flag: [String; 2],
    /// A count.
    pub count: Line,
}

impl Layout {
    /// The layout of a task; or what is wrong with what it says.
    pub fn of(counts: &CountsSpec) -> Result<Self, String> {
        let none = LayoutSpec::default();
        let spec = counts.layout.as_deref().unwrap_or(&none);
        let flag = counts.flag.as_deref();
        let word = flag.unwrap_or("flagged");
        let reasoning = if flag.is_some() { "Event #{n}: {label}. {flag}" } else { "Event #{n}: {label}" };
        let sentence = |given: &Option<String>, not: &str| {
            given.clone().unwrap_or_else(|| format!("This event was {not}an {word} one."))
        };
        let layout = Self {
            item: Line::parse("item", spec.item.as_deref().unwrap_or("{n}. {text}"))?,
            review: spec.review.clone(),
            reasoning: Line::parse("reasoning", spec.reasoning.as_deref().unwrap_or(reasoning))?,
            flag: [sentence(&spec.flagged, ""), sentence(&spec.unflagged, "not ")],
            count: Line::parse("count", spec.count.as_deref().unwrap_or("- {name}: {count}"))?,
        };
        layout.item.needs("item", &[(Slot::Number, 1), (Slot::Text, 1)])?;
        if layout.item.0.last() != Some(&Part::Slot(Slot::Text)) {
            return Err("[answer.layout] item has to end with {text}, as in \"{n}. {text}\"".to_owned());
        }
        layout.reasoning.needs("reasoning", &[(Slot::Number, 1), (Slot::Label, 1)])?;
        layout.reasoning.allows("reasoning", &[Slot::Number, Slot::Label, Slot::Text, Slot::Flag])?;
        layout.check_flag(counts, spec)?;
        layout.count.needs("count", &[(Slot::Name, 1), (Slot::Count, 1)])?;
        if !matches!(layout.count.0.as_slice(), [.., Part::Slot(Slot::Count)]) {
            return Err("[answer.layout] count has to end with {count}, as in \"- {name}: {count}\"".to_owned());
        }
        if let Some(review) = &layout.review {
            check_review(review, counts)?;
        }
        Ok(layout)
    }

    fn check_flag(&self, counts: &CountsSpec, spec: &LayoutSpec) -> Result<(), String> {
        let uses = self.reasoning.0.contains(&Part::Slot(Slot::Flag));
        let Some(flag) = &counts.flag else {
            if uses || spec.flagged.is_some() || spec.unflagged.is_some() {
                return Err("[answer.layout] has a flag, but answer.flag is not set: name its word there".to_owned());
            }
            return Ok(());
        };
        if !uses && counts.counts.iter().any(|count| count.flagged) {
            return Err("[answer.layout] reasoning has no {flag}, but a count is flagged: add {flag} to it".to_owned());
        }
        if self.reasoning.0.last() != Some(&Part::Slot(Slot::Flag)) && uses {
            return Err("[answer.layout] reasoning has to end with {flag}".to_owned());
        }
        for (key, sentence) in [("flagged", &self.flag[0]), ("unflagged", &self.flag[1])] {
            if sentence.contains('\n') || !sentence.to_lowercase().contains(&flag.to_lowercase()) {
                return Err(format!("[answer.layout] {key} has to be one line with the word {flag:?} in it"));
            }
        }
        if self.flag[0] == self.flag[1] {
            return Err("[answer.layout] flagged and unflagged are the same".to_owned());
        }
        Ok(())
    }

    /// That answers in this layout are read as they were written, whatever the labels.
    pub fn check(&self, counts: &CountsSpec, format: &Format) -> Result<(), String> {
        for label in (0..counts.labels.len().max(1)).map(|index| counts.labels.get(index).map_or("", String::as_str)) {
            for flagged in [true, false] {
                let answer = self.example(counts, label, flagged, "a man runs");
                self.reads_as_written(counts, format, &answer, label, flagged).map_err(|what| {
                    format!(
                        "[answer.layout]: an answer in this layout cannot be read back ({what}); change item, \
                         reasoning or count until docs/answers.md covers them. The answer was:\n{answer}"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Whether a label is still read right where the free text of its line speaks of another one.
    pub fn holds_against_text(&self, counts: &CountsSpec, format: &Format) -> bool {
        let hostile = |other: &str| format!("so it is {other}, not that, and nothing");
        counts.labels.iter().all(|label| {
            counts.labels.iter().filter(|other| *other != label).all(|other| {
                let answer = self.example(counts, label, false, &hostile(&other.to_uppercase()));
                self.reads_as_written(counts, format, &answer, label, false).is_ok()
            })
        })
    }

    fn reads_as_written(
        &self,
        counts: &CountsSpec,
        format: &Format,
        answer: &str,
        label: &str,
        flagged: bool,
    ) -> Result<(), String> {
        let mut reader = Reader::new(format, CountFrom::Stated, Vec::<&str>::new());
        reader.push(answer, &mut |_| {});
        let reading = reader.finish(Finish::Stop, &mut |_| {});
        let Values::Counts(values) = reading.values.map_err(|unscored| unscored.detail)? else {
            return Err("it is not read as counts".to_owned());
        };
        let stated = counts.counts.iter().map(|count| (count.name.clone(), EXAMPLES * counted(count, label, flagged)));
        if values != stated.collect() {
            return Err("its counts are read as others".to_owned());
        }
        if !counts.sections.events.is_empty() && reading.listed_events != Some(EXAMPLES) {
            return Err("the reader does not find its two events".to_owned());
        }
        let labelled = has_labels(counts) && counts.counts.iter().all(|count| count.label.is_some());
        if labelled && !counts.sections.events.is_empty() && reading.agree != Some(true) {
            return Err("the reader does not find its labels".to_owned());
        }
        Ok(())
    }

    /// An answer with two events that all have this label.
    fn example(&self, counts: &CountsSpec, label: &str, flagged: bool, text: &str) -> String {
        let sections = &counts.sections;
        let mut answer = String::new();
        let mut section = |heading: Option<&String>, lines: Vec<String>| {
            if let Some(heading) = heading {
                answer.push_str(&format!("{heading}:\n{}\n\n", lines.join("\n")));
            }
        };
        let fill = |line: &Line, n: u32| {
            line.fill(|slot| match slot {
                Slot::Number => n.to_string(),
                Slot::Text => text.to_owned(),
                Slot::Label => label.to_owned(),
                Slot::Flag => self.flag[usize::from(!flagged)].clone(),
                Slot::Name | Slot::Count => String::new(),
            })
        };
        section(sections.events.first(), (1..=EXAMPLES).map(|n| fill(&self.item, n)).collect());
        section(sections.other.first().filter(|_| self.review.is_some()), self.review.iter().cloned().collect());
        if has_labels(counts) {
            section(sections.labels.first(), (1..=EXAMPLES).map(|n| fill(&self.reasoning, n)).collect());
        }
        let stated = counts.counts.iter().map(|count| {
            self.count.fill(|slot| match slot {
                Slot::Name => count.name.clone(),
                _ => (EXAMPLES * counted(count, label, flagged)).to_string(),
            })
        });
        section(sections.last.first(), stated.collect());
        answer
    }
}

/// How many events an example answer has.
const EXAMPLES: u32 = 2;

/// Whether answers of this task label their events.
pub fn has_labels(counts: &CountsSpec) -> bool {
    !counts.sections.labels.is_empty() && !counts.labels.is_empty()
}

/// How often a count counts an event with this label.
fn counted(count: &super::CountSpec, label: &str, flagged: bool) -> u32 {
    u32::from(count.label.as_deref() == Some(label) && (flagged || !count.flagged))
}

fn check_review(review: &str, counts: &CountsSpec) -> Result<(), String> {
    if counts.sections.other.is_empty() {
        return Err("[answer.layout] has a review, but answer.sections.other has no heading for it".to_owned());
    }
    if review.trim().is_empty() || review.contains("\n\n") || review != review.trim_matches('\n') {
        return Err("[answer.layout] review has to be lines of text, without blank ones".to_owned());
    }
    Ok(())
}

impl Line {
    fn parse(key: &str, text: &str) -> Result<Self, String> {
        let wrong = |what: String| Err(format!("[answer.layout] {key}: {what}"));
        if text.contains(char::is_control) {
            return wrong("has to be one line without control characters".to_owned());
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { return wrong("a brace is not closed".to_owned()) };
            let Some((_, slot)) = SLOTS.iter().find(|(known, _)| *known == name) else {
                let known: Vec<String> = SLOTS.iter().map(|(name, _)| format!("{{{name}}}")).collect();
                return wrong(format!("{{{name}}} is no slot; use {}", known.join(", ")));
            };
            if !before.is_empty() {
                parts.push(Part::Fixed(before.to_owned()));
            }
            parts.push(Part::Slot(*slot));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Fixed(rest.to_owned()));
        }
        // What follows a free text is how its end is told.
        for pair in parts.windows(2) {
            let told = matches!(&pair[1], Part::Fixed(fixed) if !fixed.trim().is_empty());
            if pair[0] == Part::Slot(Slot::Text) && !told {
                return wrong("words or marks have to stand behind {text} before the next slot".to_owned());
            }
        }
        Ok(Self(parts))
    }

    fn count_of(&self, slot: Slot) -> usize {
        self.0.iter().filter(|part| **part == Part::Slot(slot)).count()
    }

    fn needs(&self, key: &str, slots: &[(Slot, usize)]) -> Result<(), String> {
        for (slot, wanted) in slots {
            if self.count_of(*slot) != *wanted {
                let name = SLOTS.iter().find(|(_, known)| known == slot).map_or("", |(name, _)| name);
                return Err(format!("[answer.layout] {key} has to have {{{name}}} once"));
            }
        }
        if key == "reasoning" {
            return Ok(());
        }
        let known: Vec<Slot> = slots.iter().map(|(slot, _)| *slot).collect();
        self.allows(key, &known)
    }

    fn allows(&self, key: &str, slots: &[Slot]) -> Result<(), String> {
        let other = self.0.iter().find(|part| matches!(part, Part::Slot(slot) if !slots.contains(slot)));
        match other {
            None => Ok(()),
            Some(_) => {
                let names: Vec<String> = SLOTS
                    .iter()
                    .filter(|(_, slot)| slots.contains(slot))
                    .map(|(name, _)| format!("{{{name}}}"))
                    .collect();
                Err(format!("[answer.layout] {key} can only have {}", names.join(", ")))
            }
        }
    }

    /// The line with its slots filled.
    pub fn fill(&self, mut value: impl FnMut(Slot) -> String) -> String {
        self.0
            .iter()
            .map(|part| match part {
                Part::Fixed(text) => text.clone(),
                Part::Slot(slot) => value(*slot),
            })
            .collect()
    }
}
