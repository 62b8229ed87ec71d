//! Free text in a guided answer: one line, and nothing that the reader would take for something else.
//!
//! Invariant: an exclusion stands here for each way in which words of the judge could change what the reader finds
//! elsewhere in the answer, and for nothing else. Where the reader cuts fine, these cut coarser, never finer.
//!
//! Lengths are not part of the expressions: a counter makes each of their states as many as it counts, and the follower
//! knows how long a line is anyway.

use super::lark::escaped;
use crate::task::CountsSpec;

/// The longest listed event, or description of one, in characters.
pub const LONGEST_ITEM: usize = 300;
/// The longest justification, in characters.
pub const LONGEST_REASON: usize = 400;
/// The longest reason of a score, in characters: two sentences, and room.
pub const LONGEST_SCORE_REASON: usize = 600;

/// What the reader skips before the words of a line, and more.
const LEAD: &str = "[^a-zA-Z0-9]*";
/// What the reader takes for emphasis around a word.
const EMPHASIS: &str = r"[ \t*_`|#]*";

/// A line of text in which every quotation that is opened is closed: an open one would make the lines below it a
/// quotation. A double quote right behind a digit is an inch sign.
const BALANCED: &str = "(?:[^\"“„0-9\\x00-\\x1f\\x7f]|[“„][^\"“”\\x00-\\x1f\\x7f]*[\"“”]|\"[^\"“”\\x00-\\x1f\\x7f]*[\"“”]|\
                        [0-9]+(?:\"|[^\"“„0-9\\x00-\\x1f\\x7f]|[“„][^\"“”\\x00-\\x1f\\x7f]*[\"“”]))*[0-9]*";

/// The body of a terminal for free text that matches none of `excluded`.
fn text(excluded: &[String]) -> String {
    let mut body = format!(r"/{BALANCED}/ & /[^ ].*/");
    for pattern in excluded {
        body.push_str(&format!(" & ~/{pattern}/"));
    }
    body
}

/// The text of a listed event.
pub fn item(counts: &CountsSpec) -> String {
    text(&line_starts(counts))
}

/// A free text of a label's line. `strong` if the label is told from words around it, `before` if it is still to come;
/// `marks` are the words of the line that end its texts.
pub fn reasoning(counts: &CountsSpec, strong: bool, before: bool, marks: &[String]) -> String {
    let mut excluded = vec![closed_thought()];
    let labels: Vec<String> = counts.labels.iter().map(|label| folded(label)).collect();
    let labels = labels.join("|");
    if strong {
        // `SUPPORTED or HALLUCINATED` is the template's own words wherever it stands in the line.
        excluded.push(format!(r".*(?:{labels})[ \t*_`\[\]]*(?:\/|\||or|OR|／|\\)[ \t*_`\[\]]*(?:{labels}).*"));
        // `was SUPPORTED because` a second time: such a decision stands in upper case.
        let upper: Vec<String> = counts.labels.iter().map(|label| escaped(&label.to_uppercase())).collect();
        let whys = any_folded(&["because", "since", "as", "due", "given"]);
        excluded.push(format!(r#".*(?:{})[ \t*_`\])|'"”’>✓✗]*(?:{whys}).*"#, upper.join("|")));
    } else {
        excluded.push(format!(".*(?:{labels}).*"));
        if before {
            let nots = any_folded(&["not", "never", "no", "nothing", "cannot", "neither", "nor", "without"]);
            excluded.push(format!(r"(?:.*[^a-zA-Z])?(?:{nots}|[a-zA-Z]+['’][tT])(?:[^a-zA-Z].*)?"));
        }
    }
    if let Some(flag) = &counts.flag {
        // `[was / was not] an inserted one`
        let (flag, articles) = (folded(flag), any_folded(&["an", "the"]));
        let made = folded("artificially");
        excluded.push(format!(r".*\]{EMPHASIS}(?:{articles})?{EMPHASIS}(?:{made})?{EMPHASIS}(?:{flag}).*"));
    }
    excluded.extend(marks.iter().map(|mark| format!(".*{}.*", escaped(mark))));
    text(&excluded)
}

/// What a line must not start with behind its number, or contain, to be a listed event.
fn line_starts(counts: &CountsSpec) -> Vec<String> {
    let sections = &counts.sections;
    let headings = [&sections.events, &sections.other, &sections.labels, &sections.last];
    let headings: Vec<String> = headings.iter().flat_map(|names| names.iter()).map(|name| named(name)).collect();
    let metrics: Vec<String> = counts.counts.iter().map(|count| named(&count.name)).collect();
    let before = any_folded(&["final", "total", "overall", "the", "corrected", "correct", "revised", "updated", "my"]);
    let none =
        any_folded(&["none", "n/a", "na", "nothing", "empty", "none found", "none extracted", "none identified"]);
    let nothing = any_folded(&["no event", "no concrete event", "no extracted event", "none ("]);
    let (step, event) = (folded("step"), folded("event"));
    let (headings, metrics) = (headings.join("|"), metrics.join("|"));
    vec![
        closed_thought(),
        format!(r"{LEAD}(?:{step}[^a-zA-Z]*)?(?:{headings}){EMPHASIS}(?:\([^)]*\){EMPHASIS})?(?:[:：–—\-].*)?"),
        format!(r"{LEAD}(?:(?:{before})[^a-zA-Z0-9]+)*(?:{metrics})(?:[^a-zA-Z0-9].*)?"),
        // A block quotation.
        format!("{LEAD}>.*"),
        // `Event #1 …` is read as a label where a label word follows.
        format!(r"{LEAD}{event}[ #*_\\(\[№]*[0-9].*"),
        // No event at all.
        format!("{LEAD}(?:{none}){LEAD}"),
        format!("{LEAD}(?:{nothing}).*"),
        // The template's own words.
        format!(r"{LEAD}\[.*{event}.*[0-9]\]{EMPHASIS}"),
    ]
}

/// A tag that makes the reader forget all before it.
fn closed_thought() -> String {
    format!(r".*<\/{}(?:{})?>.*", folded("think"), folded("ing"))
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
