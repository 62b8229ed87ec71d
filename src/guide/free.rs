//! Free text in a guided answer: one line, and nothing that the reader would take for something else.
//!
//! Invariant: an exclusion stands here for each way in which words of the judge could change what the reader finds
//! elsewhere in the answer, and for nothing else. Where the reader cuts fine, these cut coarser, never finer.
//!
//! The exclusions are no part of the grammar: as complements they are beyond the engine's limit on expressions. They are
//! expressions for whole lines, which `watch.rs` follows beside it.

use super::lark::escaped;
use crate::task::CountsSpec;

/// The longest listed event, or description of one, in characters.
pub const LONGEST_ITEM: usize = 160;
/// The longest justification, in characters.
pub const LONGEST_REASON: usize = 240;
/// The longest reason of a score, in characters: two sentences, and room.
pub const LONGEST_SCORE_REASON: usize = 600;

/// What the reader skips before the words of a line, and more.
const LEAD: &str = "[^a-zA-Z0-9]*";
/// What the reader takes for emphasis around a word.
const EMPHASIS: &str = r"[ \t*_`|#]*";

/// A free text, as the grammar has it: one line, and no space at its start.
pub const TEXT: &str = r"/[^ \x00-\x1f\x7f][^\x00-\x1f\x7f]*/";

/// A line that ends inside a quotation: the lines below it would be quoted. A double quote right behind a digit is an
/// inch sign.
const OPEN: &str = "(?:[^\"“„0-9]|[“„][^\"“”]*[\"“”]|\"[^\"“”]*[\"“”]|[0-9]+(?:\"|[^\"“„0-9]|[“„][^\"“”]*[\"“”]))*\
                    (?:\"|[“„]|[0-9]+[“„])[^\"“”]*";

/// The lines that must not be.
#[derive(Debug)]
pub struct Excluded {
    /// No line may begin like this.
    pub beginnings: String,
    /// No line may be this.
    pub lines: String,
}

/// What no line of the list of events may be; `before` and `after` stand around its number.
pub fn items(counts: &CountsSpec, before: &str, after: &str) -> Excluded {
    let number = format!("{}[0-9]+{}", escaped(before), escaped(after));
    let (beginnings, lines) = line_starts(counts);
    Excluded {
        beginnings: format!("{number}(?:{})|{}", beginnings.join("|"), closed_thought()),
        lines: format!("{number}(?:{})|{OPEN}", lines.join("|")),
    }
}

/// What no line with a label may be. `strong` if the label is told from words around it; `before` are the words right
/// before the label.
pub fn reasoning(counts: &CountsSpec, strong: bool, before: &str) -> Excluded {
    let mut beginnings = vec![closed_thought()];
    let labels: Vec<String> = counts.labels.iter().map(|label| folded(label)).collect();
    let labels = labels.join("|");
    if strong {
        // `SUPPORTED or HALLUCINATED` is the template's own words wherever it stands in the line.
        beginnings.push(format!(r".*(?:{labels})[ \t*_`\[\]]*(?:\/|\||or|OR|／|\\)[ \t*_`\[\]]*(?:{labels})"));
        // `was SUPPORTED because` a second time: such a decision stands in upper case.
        let upper: Vec<String> = counts.labels.iter().map(|label| escaped(&label.to_uppercase())).collect();
        let decided = format!(
            r#"(?:{})[ \t*_`\])|'"”’>✓✗]*(?:{})"#,
            upper.join("|"),
            any_folded(&["because", "since", "as", "due", "given"])
        );
        beginnings.push(elsewhere(before, &decided));
        beginnings.push(format!(".*{decided}.*{decided}"));
    } else {
        beginnings.push(elsewhere(before, &format!("(?:{labels})")));
        beginnings.push(format!(".*(?:{labels}).*(?:{labels})"));
    }
    if !before.trim().is_empty() {
        // A label inside a quotation is none.
        beginnings.push(format!("{OPEN}{}", escaped(before)));
    }
    if let Some(flag) = &counts.flag {
        // `[was / was not] an inserted one`
        let (flag, articles) = (folded(flag), any_folded(&["an", "the"]));
        let made = folded("artificially");
        beginnings.push(format!(r".*\]{EMPHASIS}(?:{articles})?{EMPHASIS}(?:{made})?{EMPHASIS}(?:{flag})"));
    }
    Excluded { beginnings: beginnings.join("|"), lines: OPEN.to_owned() }
}

/// `what` where other words stand before it.
fn elsewhere(before: &str, what: &str) -> String {
    let before: Vec<char> = before.chars().collect();
    let other = |at: usize| {
        let same: String = before[at + 1..].iter().collect();
        format!("[^{}]{}", escaped(&before[at].to_string()), escaped(&same))
    };
    let others: Vec<String> = (0..before.len()).map(other).collect();
    // Without words before it, it has no place that could be told from others.
    if others.is_empty() { format!(".*{what}.*{what}") } else { format!(".*(?:{}){what}", others.join("|")) }
}

/// What a line must not start with behind its number, and what it must not be, to be a listed event.
fn line_starts(counts: &CountsSpec) -> (Vec<String>, Vec<String>) {
    let sections = &counts.sections;
    let headings = [&sections.events, &sections.other, &sections.labels, &sections.last];
    let headings: Vec<String> = headings.iter().flat_map(|names| names.iter()).map(|name| named(name)).collect();
    let metrics: Vec<String> = counts.counts.iter().map(|count| named(&count.name)).collect();
    let before = any_folded(&["final", "total", "overall", "the", "corrected", "correct", "revised", "updated", "my"]);
    let none =
        any_folded(&["none", "n/a", "na", "nothing", "empty", "none found", "none extracted", "none identified"]);
    let nothing = any_folded(&["no event", "no concrete event", "no extracted event", "none ("]);
    let event = folded("event");
    let step = format!("{LEAD}(?:{}[^a-zA-Z]*)?", folded("step"));
    let headings = format!(r"{step}(?:{}){EMPHASIS}(?:\([^)]*\){EMPHASIS})?", headings.join("|"));
    let metrics = format!(r"{LEAD}(?:(?:{before})[^a-zA-Z0-9]+)*(?:{})", metrics.join("|"));
    let beginnings = vec![
        format!(r"{headings}[:：–—\-]"),
        format!("{metrics}[^a-zA-Z0-9]"),
        // A block quotation.
        format!("{LEAD}>"),
        // `Event #1 …` is read as a label where a label word follows.
        format!(r"{LEAD}{event}[ #*_\\(\[№]*[0-9]"),
        // No event at all.
        format!("{LEAD}(?:{nothing})"),
    ];
    let lines = vec![
        headings,
        metrics,
        format!("{LEAD}(?:{none}){LEAD}"),
        // The template's own words.
        format!(r"{LEAD}\[.*{event}.*[0-9]\]{EMPHASIS}"),
    ];
    (beginnings, lines)
}

/// A tag that makes the reader forget all before it.
fn closed_thought() -> String {
    format!(r".*<\/{}(?:{})?>", folded("think"), folded("ing"))
}

/// A name as the reader finds it: any case, and any of some marks between its words.
fn named(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(folded);
    words.collect::<Vec<_>>().join(r"[ _\-\\*‑–\x{a0}]+")
}

fn any_folded(words: &[&str]) -> String {
    words.iter().map(|word| folded(word)).collect::<Vec<_>>().join("|")
}

/// A text in any case. Spelled out, since the engine's own way brings in letters that only Unicode folds together.
fn folded(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let (lower, upper) = (c.to_lowercase().to_string(), c.to_uppercase().to_string());
        if lower == upper || lower.chars().count() != 1 || upper.chars().count() != 1 {
            out.push_str(&escaped(&c.to_string()));
        } else {
            out.push_str(&format!("[{lower}{upper}]"));
        }
    }
    out
}

/// The text of a JSON string.
pub fn json_string() -> String {
    let escapes = r#"\\["\\\/bfnrt]|\\u[0-9a-fA-F]{4}"#;
    format!(r#"/(?:[^"\\\x00-\x1f\x7f]|{escapes})+/"#)
}
