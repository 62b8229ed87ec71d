//! The grammar of a `counts` answer.
//!
//! Invariant: as many events are labelled as were listed, and no count is beyond its bounds. A grammar cannot count, so
//! there is a rule for each number of events: `next_n` goes on with event n + 1, or with what follows n events.

use std::collections::BTreeSet;

use super::free::{self, Excluded};
use super::lark::{Lark, any_of, quoted};
use super::{Bounds, GrammarError};
use crate::answer::Format;
use crate::task::{CountsSpec, Layout, Line, Part, Slot, has_labels};

/// The most events that a judge may list, where the record itself has no more.
pub const MOST_EVENTS: u32 = 40;
/// The highest value of a count without a bound.
const HIGHEST_COUNT: u32 = 99;

/// What decides the grammar: the bounds that the task looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The most events that may be listed.
    events: u32,
    /// Whether at least one must be: the list is of the record's own events, and it has some.
    some: bool,
    /// What the record says each count cannot exceed.
    counts: Vec<Option<u32>>,
}

impl Limits {
    /// The limits of one question.
    pub fn new(counts: &CountsSpec, bounds: &Bounds) -> Self {
        let of_record = |bound: &String| match bound.as_str() {
            "record_events" => bounds.events,
            "inserted_events" => bounds.inserted,
            _ => None,
        };
        let some = counts.lists_record_events() && bounds.events.is_some_and(|events| events > 0);
        let counts = counts.counts.iter().map(|count| count.at_most.iter().filter_map(of_record).min()).collect();
        Self { events: MOST_EVENTS.max(bounds.events.unwrap_or_default()), some, counts }
    }
}

/// The grammar, as Lark text.
pub fn grammar(spec: &CountsSpec, format: &Format, limits: &Limits) -> Result<String, GrammarError> {
    let layout = Layout::of(spec).map_err(GrammarError::Layout)?;
    layout.check(spec, format).map_err(GrammarError::Layout)?;
    let mut writer = Writer { spec, layout: &layout, limits, lark: Lark::default(), finals: BTreeSet::new() };
    writer.write();
    Ok(writer.lark.finish())
}

/// What the lines of the list, and those with labels, must not be.
pub fn excluded(spec: &CountsSpec, format: &Format) -> Result<[Excluded; 2], GrammarError> {
    let layout = Layout::of(spec).map_err(GrammarError::Layout)?;
    let item = layout.item.fill(|slot| if slot == Slot::Number { "\0".to_owned() } else { String::new() });
    let (before, after) = item.split_once('\0').unwrap_or((&item, ""));
    let strong = layout.holds_against_text(spec, format);
    let words = layout.reasoning.0.windows(2).find_map(|pair| match pair {
        [Part::Fixed(words), Part::Slot(Slot::Label)] => Some(words.as_str()),
        _ => None,
    });
    Ok([free::items(spec, before, after), free::reasoning(spec, strong, words.unwrap_or_default())])
}

struct Writer<'a> {
    spec: &'a CountsSpec,
    layout: &'a Layout,
    limits: &'a Limits,
    lark: Lark,
    /// The rules for counts that are there: which count, and what bounds it and those behind it.
    finals: BTreeSet<(usize, Vec<Option<u32>>)>,
}

impl Writer<'_> {
    fn write(&mut self) {
        let sections = &self.spec.sections;
        let heading = |names: &[String]| names.first().map(|name| quoted(&format!("{name}:")));
        let most = self.limits.events;
        let lists = heading(&sections.events);
        let labels = heading(&sections.labels).filter(|_| has_labels(self.spec));
        let review = heading(&sections.other).zip(self.layout.review.clone());

        self.lark.comment("A heading may have two spaces behind it, and one blank line may stand before the next.");
        self.lark.define("EOL", r"/( {2})?\n/");
        self.lark.define("gap", r#""\n" "\n"?"#);
        match (&lists, &labels) {
            (Some(heading), _) => {
                let none = if self.limits.some { "" } else { r#" | "None" "."? gap tail_0"# };
                self.lark.define("answer", &format!("{heading} EOL (item_1 next_1{none})"));
                self.write_items(most);
            }
            (None, Some(_)) => {
                let tails: Vec<String> = (0..=most).map(|n| format!("tail_{n}")).collect();
                self.lark.define("answer", &tails.join(" | "));
            }
            (None, None) => self.lark.define("answer", "tail_0"),
        }
        if let Some((heading, text)) = &review {
            self.lark.define("review", &format!("{heading} EOL {} gap", quoted(text)));
        }
        let review = if review.is_some() { "review " } else { "" };
        let counted = if lists.is_some() || labels.is_some() { most } else { 0 };
        for n in 0..=counted {
            let labelled = labels.as_ref().map_or_else(String::new, |heading| match n {
                0 => format!("{heading} EOL (\"None\" \".\"? \"\\n\")? \"\\n\"? "),
                _ => format!("{heading} EOL lines_{n} gap "),
            });
            // Without a list nobody knows how many events there are.
            let last = self.final_rule(lists.is_some().then_some(n));
            self.lark.define(&format!("tail_{n}"), &format!("{review}{labelled}{last}"));
        }
        if labels.is_some() {
            self.write_lines(counted);
        }
    }

    fn write_items(&mut self, most: u32) {
        self.lark.comment("The list: behind each event another one, or what follows the list.");
        for n in 1..=most {
            let item = self.layout.item.0.iter().map(|part| match part {
                Part::Fixed(text) => text.clone(),
                Part::Slot(Slot::Number) => n.to_string(),
                Part::Slot(_) => String::new(),
            });
            self.lark.define(&format!("item_{n}"), &format!("{} ITEM \"\\n\"", quoted(&item.collect::<String>())));
            let tail = format!("\"\\n\"? tail_{n}");
            let next = n + 1;
            let more = if n < most { format!("item_{next} next_{next} | {tail}") } else { tail };
            self.lark.define(&format!("next_{n}"), &more);
        }
        self.lark.define("ITEM", free::TEXT);
    }

    fn write_lines(&mut self, most: u32) {
        self.lark.comment("A line for each event of the list, in its order.");
        for n in 1..=most {
            let before = if n > 1 { format!("lines_{} \"\\n\" ", n - 1) } else { String::new() };
            self.lark.define(&format!("lines_{n}"), &format!("{before}line_{n}"));
            let line = self.line(n);
            self.lark.define(&format!("line_{n}"), &line);
        }
        self.write_texts();
    }

    /// The symbols of an event's line. What is the same for all events is written once, by `write_texts`.
    fn line(&self, n: u32) -> String {
        let parts = &self.layout.reasoning.0;
        let mut symbols: Vec<String> = Vec::new();
        let mut fixed = String::new();
        let mut at = 0;
        while at < parts.len() {
            match &parts[at] {
                Part::Fixed(text) => fixed.push_str(text),
                Part::Slot(Slot::Number) => fixed.push_str(&n.to_string()),
                Part::Slot(slot) => {
                    if !fixed.is_empty() {
                        symbols.push(quoted(&std::mem::take(&mut fixed)));
                    }
                    symbols.push(match slot {
                        Slot::Text => {
                            // A text's terminal holds the words behind it, which tell where it ends.
                            let symbol = format!("text_{at}");
                            at += self.behind(at).len();
                            symbol
                        }
                        Slot::Label => "label".to_owned(),
                        _ => "FLAG".to_owned(),
                    });
                }
            }
            at += 1;
        }
        if !fixed.is_empty() {
            symbols.push(quoted(&fixed));
        }
        // The templates have two spaces at the end of such lines, to break them in Markdown.
        if !matches!(parts.last(), Some(Part::Slot(Slot::Text))) && !self.ends_in_text() {
            symbols.push("/ {2}/?".to_owned());
        }
        symbols.join(" ")
    }

    /// The parts behind a text that its terminal holds: the words up to the next slot, and the flag.
    fn behind(&self, text: usize) -> &[Part] {
        let parts = &self.layout.reasoning.0[text + 1..];
        match parts {
            [Part::Fixed(_), Part::Slot(Slot::Flag)] => parts,
            [Part::Fixed(_), ..] => &parts[..1],
            _ => &[],
        }
    }

    /// Whether nothing but marks stands behind the last text, so that it goes on to the end of the line.
    fn ends_in_text(&self) -> bool {
        matches!(
            self.layout.reasoning.0.as_slice(),
            [.., Part::Slot(Slot::Text)]
                | [.., Part::Slot(Slot::Text), Part::Fixed(_) | Part::Slot(Slot::Flag)]
                | [.., Part::Slot(Slot::Text), Part::Fixed(_), Part::Slot(Slot::Flag)]
        )
    }

    fn write_texts(&mut self) {
        let Line(parts) = &self.layout.reasoning;
        self.lark.define("label", &any_of(&self.spec.labels));
        if parts.contains(&Part::Slot(Slot::Flag)) {
            self.lark.define("FLAG", &any_of(&self.layout.flag));
        }
        for (at, _) in parts.iter().enumerate().filter(|(_, part)| **part == Part::Slot(Slot::Text)) {
            let behind = self.behind(at).to_vec();
            let body = free::TEXT;
            let last = at + 1 + behind.len() == parts.len();
            let (terminal, rule) = (format!("TEXT_{at}"), format!("text_{at}"));
            match behind.as_slice() {
                [] => {
                    self.lark.define(&terminal, body);
                    self.lark.define(&rule, &terminal);
                }
                // The full stop of the template is the end of the text like any other.
                [Part::Fixed(words)] if last && !words.contains(char::is_alphanumeric) => {
                    self.lark.define(&terminal, body);
                    self.lark.define(&rule, &terminal);
                }
                [Part::Fixed(words), Part::Slot(_)] => {
                    self.lark.define(&format!("BODY_{at}"), body);
                    self.lark.define(&terminal, &format!("BODY_{at} {} FLAG / {{2}}/?", quoted(words)));
                    self.lark.define(&rule, &terminal);
                }
                [Part::Fixed(words), ..] => {
                    self.lark.define(&format!("BODY_{at}"), body);
                    self.lark.define(&terminal, &format!("BODY_{at} {}", quoted(words)));
                    // The first of these words that follow the text end it.
                    self.lark.define(&format!("{rule}[lazy]"), &terminal);
                }
                [Part::Slot(_), ..] => {}
            }
        }
    }

    /// The final section behind so many listed events.
    fn final_rule(&mut self, listed: Option<u32>) -> String {
        let mut limits = self.limits.counts.clone();
        for (limit, count) in limits.iter_mut().zip(&self.spec.counts) {
            if let Some(listed) = listed.filter(|_| count.at_most.iter().any(|bound| bound == "listed_events")) {
                *limit = Some(limit.unwrap_or(listed).min(listed));
            }
        }
        let heading = self.spec.sections.last.first().map_or(String::new(), |name| quoted(&format!("{name}:")));
        format!("{heading} EOL {}", self.count_rule(0, &limits))
    }

    /// The rule for count `index` and all behind it, of which the first `limits` is its own.
    fn count_rule(&mut self, index: usize, limits: &[Option<u32>]) -> String {
        let Some((own, behind)) = limits.split_first() else { return String::new() };
        let names: Vec<String> =
            limits.iter().map(|limit| limit.map_or("x".to_owned(), |limit| limit.to_string())).collect();
        let rule = format!("count_{index}_{}", names.join("_"));
        if !self.finals.insert((index, limits.to_vec())) {
            return rule;
        }
        let count = &self.spec.counts[index];
        let line = self.layout.count.fill(|slot| if slot == Slot::Name { count.name.clone() } else { String::new() });
        let line = if index > 0 { format!("\n{line}") } else { line };
        let bounds_later = |later: &usize| self.spec.counts[*later].at_most.contains(&count.name);
        let later: Vec<usize> = (index + 1..self.spec.counts.len()).filter(bounds_later).collect();
        let body = if later.is_empty() {
            let values = match own {
                Some(limit) => any_of((0..=*limit).map(|value| value.to_string())),
                None => "/0|[1-9][0-9]{0,3}/".to_owned(),
            };
            let rest = self.count_rule(index + 1, behind);
            format!("{} {values} {}", quoted(&line), joined(&rest))
        } else {
            let values = (0..=own.unwrap_or(HIGHEST_COUNT)).map(|value| {
                let mut behind = behind.to_vec();
                for place in &later {
                    let limit = &mut behind[place - index - 1];
                    *limit = Some(limit.unwrap_or(value).min(value));
                }
                let rest = self.count_rule(index + 1, &behind);
                format!("{} {}", quoted(&value.to_string()), joined(&rest))
            });
            let values: Vec<String> = values.collect();
            format!("{} ({})", quoted(&line), values.join(" | "))
        };
        self.lark.define(&rule, &body);
        rule
    }
}

/// What follows a count: two spaces, as the templates have them, before the next one.
fn joined(rest: &str) -> String {
    if rest.is_empty() { String::new() } else { format!("/ {{2}}/? {rest}") }
}
