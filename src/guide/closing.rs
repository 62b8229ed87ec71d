//! How an answer is brought to its end when its tokens run out.
//!
//! Invariant: what the judge decides (labels, flags, counts) stays the judge's. Only free text is cut short, and only so
//! far that the rest of the answer, in its shortest form, still fits.

use super::GrammarError;
use super::tokens::Tokens;
use crate::model::TokenId;
use crate::task::{AnswerSpec, CountsSpec, Layout, Part, ScoreSpec, Slot, has_labels};

/// Tokens kept for what no estimate sees: a character that is half written, an open quotation, cuts between texts.
const SLACK: usize = 12;
/// What stands where a text may not be empty.
const FILLERS: [&str; 4] = [" x", "x", " …", "…"];
/// What ends a quotation inside a text.
const QUOTES: [&str; 2] = ["\"", "”"];

/// The ways out of a free text, and what the rest of an answer costs.
#[derive(Debug)]
pub struct Closing {
    /// In the order in which they are tried; the judge chooses among the alternatives of one.
    exits: Vec<Exit>,
    fillers: Vec<Exit>,
    quotes: Vec<Exit>,
    headings: Headings,
    /// Tokens for all that is not an event's line.
    tail: usize,
    /// Tokens for the line of an event.
    line: usize,
}

/// Alternatives, each with its tokens.
pub type Exit = Vec<Vec<TokenId>>;

#[derive(Debug, Default)]
struct Headings {
    events: Option<String>,
    labels: Option<String>,
    others: Vec<String>,
}

impl Closing {
    /// How answers of this format are closed.
    pub fn new(answer: &AnswerSpec, tokens: &Tokens) -> Result<Self, GrammarError> {
        match answer {
            AnswerSpec::Counts(counts) => Self::of_counts(counts, tokens),
            AnswerSpec::JsonScore(score) => Self::of_score(score, tokens),
        }
    }

    fn of_counts(counts: &CountsSpec, tokens: &Tokens) -> Result<Self, GrammarError> {
        let layout = Layout::of(counts).map_err(GrammarError::Layout)?;
        let sections = &counts.sections;
        let heading = |names: &[String]| names.first().map(|name| format!("{name}:"));
        let review = heading(&sections.other).filter(|_| layout.review.is_some());
        let labels = heading(&sections.labels).filter(|_| has_labels(counts));
        let last = heading(&sections.last);
        let others: Vec<String> = [&last, &review].into_iter().flatten().cloned().collect();
        let mut exits: Vec<Vec<String>> = Vec::new();
        for heading in others.iter().chain(&labels) {
            exits.extend(["\n\n", "\n", ""].map(|gap| vec![format!("{gap}{heading}")]));
        }
        exits.push(vec!["\n".to_owned()]);
        for pair in layout.reasoning.0.windows(2) {
            if let [Part::Slot(Slot::Text), Part::Fixed(words)] = pair {
                exits.push(vec![words.trim_end().to_owned()]);
            }
        }
        if let [.., Part::Fixed(words), Part::Slot(Slot::Flag)] = layout.reasoning.0.as_slice() {
            let sentence = |flag: &String| format!("{words}{flag}");
            // Before the other words that may follow a text: these are the ones at the end of the line.
            exits.insert(exits.len().saturating_sub(1), layout.flag.iter().map(sentence).collect());
        }
        let longest = |texts: &[String]| texts.iter().max_by_key(|text| text.len()).cloned().unwrap_or_default();
        let line = layout.reasoning.fill(|slot| match slot {
            Slot::Number => "99".to_owned(),
            Slot::Label => longest(&counts.labels),
            Slot::Flag => longest(&layout.flag),
            _ => "x".to_owned(),
        });
        let stated = counts.counts.iter().map(|count| {
            let line = layout.count.fill(|slot| if slot == Slot::Name { count.name.clone() } else { "9999".to_owned() });
            format!("{line}  \n")
        });
        let sections = [heading(&sections.events), review, layout.review.clone(), labels.clone(), last.clone()];
        let tail: String = sections.into_iter().flatten().map(|text| format!("{text}  \n\n")).chain(stated).collect();
        let headings = Headings { events: heading(&counts.sections.events), labels, others };
        Ok(Self {
            exits: encoded(&exits, tokens)?,
            fillers: encoded(&FILLERS.map(|filler| vec![filler.to_owned()]), tokens)?,
            quotes: encoded(&QUOTES.map(|quote| vec![quote.to_owned()]), tokens)?,
            headings,
            tail: cost(&tail, tokens)? + SLACK,
            line: cost(&format!("\n{line}  "), tokens)? + SLACK,
        })
    }

    fn of_score(score: &ScoreSpec, tokens: &Tokens) -> Result<Self, GrammarError> {
        let whole = format!("{{\"{}\": {}, \"{}\": \"x\"}}", score.key, score.max, score.reason.as_deref().unwrap_or(""));
        Ok(Self {
            exits: encoded(&[vec!["\"}".to_owned()], vec!["}".to_owned()]], tokens)?,
            fillers: encoded(&FILLERS.map(|filler| vec![filler.to_owned()]), tokens)?,
            quotes: encoded(&[vec!["n".to_owned()], vec!["0000".to_owned()]], tokens)?,
            headings: Headings::default(),
            tail: cost(&whole, tokens)? + SLACK,
            line: 0,
        })
    }

    /// All ways out, in the order in which they are to be tried; `filled` if the last one was a filler.
    pub fn exits(&self, filled: bool) -> impl Iterator<Item = (&Exit, bool)> {
        let (fillers, quotes) = ((&self.fillers, true), (&self.quotes, false));
        let (first, second) = if filled { (quotes, fillers) } else { (fillers, quotes) };
        [(&self.exits, false), first, second].into_iter().flat_map(|(exits, fills)| exits.iter().map(move |exit| (exit, fills)))
    }

    /// The most tokens that the rest of an answer takes in its shortest form.
    pub fn reserve(&self, progress: &Progress) -> usize {
        self.tail + self.line * progress.lines_to_come()
    }

    /// The most tokens that a line of the answer adds to the reserve.
    pub fn line(&self) -> usize {
        self.line
    }
}

fn encoded(exits: &[Vec<String>], tokens: &Tokens) -> Result<Vec<Exit>, GrammarError> {
    let encode = |exit: &Vec<String>| exit.iter().map(|text| Ok(tokens.encode(text)?)).collect();
    exits.iter().map(encode).collect()
}

fn cost(text: &str, tokens: &Tokens) -> Result<usize, GrammarError> {
    Ok(tokens.encode(text)?.len())
}

/// Which part of an answer is being written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Elsewhere,
    List,
    Labels,
}

/// How far an answer is: counted by its lines, which is enough to know what is still to come.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    line: Vec<u8>,
    place: Place,
    listed: usize,
    labelled: usize,
}

impl Progress {
    /// Takes the next bytes of the answer.
    pub fn push(&mut self, bytes: &[u8], closing: &Closing) {
        for byte in bytes {
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.take(String::from_utf8_lossy(&line).trim_end(), &closing.headings);
            } else {
                self.line.push(*byte);
            }
        }
    }

    fn take(&mut self, line: &str, headings: &Headings) {
        let is = |heading: &Option<String>| heading.as_deref() == Some(line);
        if is(&headings.events) {
            self.place = Place::List;
        } else if is(&headings.labels) {
            self.place = Place::Labels;
        } else if headings.others.iter().any(|heading| heading == line) {
            self.place = Place::Elsewhere;
        } else if !line.is_empty() {
            self.listed += usize::from(self.place == Place::List);
            self.labelled += usize::from(self.place == Place::Labels);
        }
    }

    fn lines_to_come(&self) -> usize {
        // An event that is being listed will have a line too.
        let listed = self.listed + usize::from(self.place == Place::List);
        listed.saturating_sub(self.labelled)
    }
}
