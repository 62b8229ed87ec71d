//! How an answer is brought to its end when its tokens run out.
//!
//! Invariant: what the judge decides (which events there are, labels, flags, counts) stays the judge's. Only free text is
//! cut short, and only so far that the rest of the answer, in its shortest form, still fits. A list that takes all tokens is
//! cut off and unscored, as without a guide.

use super::GrammarError;
use super::free::{LONGEST_ITEM, LONGEST_REASON, LONGEST_SCORE_REASON};
use super::tokens::Tokens;
use crate::model::TokenId;
use crate::task::{AnswerSpec, CountsSpec, Layout, Part, ScoreSpec, Slot, has_labels};

/// Tokens kept for what no estimate sees: a character that is half written, an open quotation, cuts between texts.
const SLACK: usize = 12;
/// What stands where a text may not be empty.
const FILLERS: [&str; 5] = ["", " x", "x", " …", "…"];
/// What ends quotations inside a text.
const QUOTES: [&str; 5] = ["", "\"", "”", "\"”", "”\""];

/// The ways out of a free text, and what the rest of an answer costs.
#[derive(Debug)]
pub struct Closing {
    /// In the order in which they are tried; the judge chooses among the alternatives of one.
    exits: Vec<Exit>,
    /// What ends a line and, in a list or among labels, leaves open what follows it.
    line_end: Vec<Exit>,
    /// The headings, for the start of a line: elsewhere they would be text.
    starts: Vec<Exit>,
    /// The words that end a text in the middle of a line.
    words: Vec<(Vec<String>, Exit)>,
    /// The words before the texts of an event's line.
    before: Vec<String>,
    /// What ends the last text of a line with a flag.
    flag: Vec<Exit>,
    /// What may have to stand between a text and its way out.
    bridges: Vec<Vec<TokenId>>,
    headings: Headings,
    /// Tokens for all that is not an event's line.
    tail: usize,
    /// Tokens for the line of an event.
    line: usize,
}

/// What of an answer has to end now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// A text that words of its line follow.
    Words,
    /// The line, because it is too long. What follows it is the judge's choice.
    Line,
    /// The line and the section, because the tokens run out.
    Section,
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
            exits.extend(["\n\n", "\n"].map(|gap| vec![format!("{gap}{heading}")]));
        }
        let starts: Vec<Vec<String>> = others.iter().chain(&labels).map(|heading| vec![heading.clone()]).collect();
        let line_end = [vec!["\n".to_owned()]];
        exits.extend(line_end.clone());
        let parts = layout.reasoning.0.as_slice();
        let mut flag: Vec<Vec<String>> = Vec::new();
        if let [.., Part::Fixed(words), Part::Slot(Slot::Flag)] = parts {
            // With the end of the line: else it might be text.
            flag.push(layout.flag.iter().map(|flag| format!("{words}{flag}\n")).collect());
        }
        let before = parts.windows(2).filter_map(|pair| match pair {
            [Part::Fixed(words), Part::Slot(Slot::Text)] => Some(words.trim_end().to_owned()),
            _ => None,
        });
        let before: Vec<String> = before.filter(|words| !words.is_empty()).collect();
        // The words behind a text may stand in it too; with a label and what follows it they are a decision.
        let words = parts.windows(3).enumerate().filter_map(|(at, three)| match three {
            [Part::Slot(Slot::Text), Part::Fixed(words), Part::Slot(Slot::Label)] => {
                let after = match parts.get(at + 3) {
                    Some(Part::Fixed(after)) => after.as_str(),
                    _ => "",
                };
                Some(counts.labels.iter().map(|label| format!("{words}{label}{after}")).collect())
            }
            [Part::Slot(Slot::Text), Part::Fixed(words), Part::Slot(next)] if *next != Slot::Flag => {
                Some(vec![words.clone()])
            }
            _ => None,
        });
        let words = words.map(|words: Vec<String>| {
            let exit = words.iter().map(|words| Ok(tokens.encode(words)?)).collect::<Result<Exit, GrammarError>>()?;
            Ok((words, exit))
        });
        let words: Vec<(Vec<String>, Exit)> = words.collect::<Result<_, GrammarError>>()?;
        let longest = |texts: &[String]| texts.iter().max_by_key(|text| text.len()).cloned().unwrap_or_default();
        let line = layout.reasoning.fill(|slot| match slot {
            Slot::Number => "99".to_owned(),
            Slot::Label => longest(&counts.labels),
            Slot::Flag => longest(&layout.flag),
            _ => "x".to_owned(),
        });
        let stated = counts.counts.iter().map(|count| {
            let line =
                layout.count.fill(|slot| if slot == Slot::Name { count.name.clone() } else { "9999".to_owned() });
            format!("{line}  \n")
        });
        let sections = [heading(&sections.events), review, layout.review.clone(), labels.clone(), last.clone()];
        let tail: String = sections.into_iter().flatten().map(|text| format!("{text}  \n\n")).chain(stated).collect();
        let headings = Headings { events: heading(&counts.sections.events), labels, others };
        Ok(Self {
            exits: encoded(&exits, tokens)?,
            line_end: encoded(&line_end, tokens)?,
            starts: encoded(&starts, tokens)?,
            words,
            before,
            flag: encoded(&flag, tokens)?,
            bridges: bridges(&QUOTES, tokens)?,
            headings,
            tail: cost(&tail, tokens)? + SLACK,
            line: cost(&format!("\n{line}  "), tokens)? + SLACK,
        })
    }

    fn of_score(score: &ScoreSpec, tokens: &Tokens) -> Result<Self, GrammarError> {
        let whole =
            format!("{{\"{}\": {}, \"{}\": \"x\"}}", score.key, score.max, score.reason.as_deref().unwrap_or(""));
        let exits = encoded(&[vec!["\"}".to_owned()], vec!["}".to_owned()]], tokens)?;
        Ok(Self {
            line_end: exits.clone(),
            exits,
            starts: Vec::new(),
            words: Vec::new(),
            before: Vec::new(),
            flag: Vec::new(),
            // An escape that was begun is finished.
            bridges: bridges(&["", "n", "0000", "000", "00", "0"], tokens)?,
            headings: Headings::default(),
            tail: cost(&whole, tokens)? + SLACK,
            line: 0,
        })
    }

    /// The ways out, in the order in which they are to be tried.
    pub fn exits(&self, need: Need, progress: &Progress) -> impl Iterator<Item = &Exit> {
        // Of the texts of a line the first is open whose decision is not there yet.
        let line = String::from_utf8_lossy(&progress.line);
        let there = |words: &[String]| words.iter().any(|words| line.contains(words.trim_end()));
        let labels = progress.place == Place::Labels;
        let open = self.words.iter().find(|(words, _)| labels && !there(words));
        let words = open.map(|(_, exit)| std::slice::from_ref(exit));
        let (exits, line_end) = (self.exits.as_slice(), self.line_end.as_slice());
        let inside = if labels { words.unwrap_or(&self.flag) } else { &[] };
        let groups = match need {
            Need::Nothing => vec![],
            Need::Words => vec![words.unwrap_or_default()],
            Need::Section if progress.line.is_empty() && self.line > 0 => vec![self.starts.as_slice()],
            Need::Line => vec![line_end, inside],
            Need::Section => vec![exits, inside],
        };
        groups.into_iter().flatten()
    }

    /// What may have to stand before a way out, in the order in which it is to be tried: nothing first, unless a text has
    /// only begun. There, the words of a way out would become the text.
    pub fn bridges(&self, progress: &Progress) -> &[Vec<TokenId>] {
        let line = String::from_utf8_lossy(&progress.line);
        let line = line.trim_end();
        let empty = progress.place == Place::Labels && self.before.iter().any(|words| line.ends_with(words.as_str()));
        if empty { &self.bridges[QUOTES.len()..] } else { &self.bridges }
    }

    /// The most tokens that the rest of an answer takes in its shortest form.
    pub fn reserve(&self, progress: &Progress) -> usize {
        self.tail + self.line * progress.lines_to_come()
    }

    /// What has to end, by how many tokens are left and how long the line is already.
    pub fn need(&self, progress: &Progress, left: usize) -> Need {
        // Which events there are is the judge's own decision: a list is never ended for it.
        if progress.place != Place::List && left <= self.reserve(progress) {
            return Need::Section;
        }
        let (item, line) = match progress.place {
            Place::List => (LONGEST_ITEM, LONGEST_ITEM),
            Place::Labels => (LONGEST_ITEM, LONGEST_ITEM + LONGEST_REASON),
            Place::Elsewhere => (LONGEST_SCORE_REASON, LONGEST_SCORE_REASON),
        };
        // Headings, counts and a review that is given are no text that could be cut: no way out fits them.
        if progress.length > line {
            Need::Line
        } else if progress.length > item {
            Need::Words
        } else {
            Need::Nothing
        }
    }

    /// The most tokens that a line of the answer adds to the reserve.
    pub fn line(&self) -> usize {
        self.line
    }
}

/// Words where a text may not be empty, then the ends of what is open in it.
fn bridges(ends: &[&str], tokens: &Tokens) -> Result<Vec<Vec<TokenId>>, GrammarError> {
    let all = FILLERS.iter().flat_map(|filler| ends.iter().map(move |end| format!("{filler}{end}")));
    all.map(|text| if text.is_empty() { Ok(Vec::new()) } else { Ok(tokens.encode(&text)?) }).collect()
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
    /// The characters of the line.
    length: usize,
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
                self.length = 0;
                self.take(String::from_utf8_lossy(&line).trim_end(), &closing.headings);
            } else {
                self.line.push(*byte);
                self.length += usize::from(byte & 0xc0 != 0x80);
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

    /// The line that is being written, if it is one that is watched: of the list (0) or with a label (1).
    pub fn watched(&self) -> Option<(usize, &[u8])> {
        match self.place {
            Place::List => Some((0, &self.line)),
            Place::Labels => Some((1, &self.line)),
            Place::Elsewhere => None,
        }
    }

    fn lines_to_come(&self) -> usize {
        // An event that is being listed will have a line too.
        let listed = self.listed + usize::from(self.place == Place::List);
        listed.saturating_sub(self.labelled)
    }
}
