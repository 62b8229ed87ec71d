//! Free text in a guided answer: one line, bounded, and nothing that the reader would take for something else.
//!
//! Invariant: an exclusion stands here for each way in which words of the judge could change what the reader finds
//! elsewhere in the answer, and for nothing else. Where the reader cuts fine, these cut coarser, never finer.

use super::lark::escaped;
use crate::task::CountsSpec;

/// The longest listed event or description of one, in characters.
pub const LONGEST_ITEM: usize = 300;
/// The longest justification, in characters.
pub const LONGEST_REASON: usize = 400;
/// The longest reason of a score, in characters: two sentences, and room.
pub const LONGEST_SCORE_REASON: usize = 600;

/// What the reader skips before the words of a line, and more.
const LEAD: &str = r"[^\p{L}\p{N}]*";
/// What the reader takes for emphasis around a word.
const EMPHASIS: &str = r"[\s*_`|#]*";

/// A line of text in which every quotation that is opened is closed: an open one would make the lines below it a
/// quotation. A double quote right behind a digit is an inch sign.
const BALANCED: &str = "(?:[^\"“„0-9\\x00-\\x1f\\x7f]|[“„][^\"“”\\x00-\\x1f\\x7f]*[\"“”]|\"[^\"“”\\x00-\\x1f\\x7f]*[\"“”]|\
                        [0-9]+(?:\"|[^\"“„0-9\\x00-\\x1f\\x7f]|[“„][^\"“”\\x00-\\x1f\\x7f]*[\"“”]))*[0-9]*";

/// The body of a terminal for free text of up to `longest` characters that matches none of `excluded`.
fn text(longest: usize, excluded: &[String]) -> String {
    let mut body = format!(r"/{BALANCED}/ & /\S(?s:.){{0,{}}}/", longest - 1);
    for pattern in excluded {
        body.push_str(&format!(" & ~/{pattern}/"));
    }
    body
}

/// The text of a listed event.
pub fn item(counts: &CountsSpec) -> String {
    text(LONGEST_ITEM, &line_starts(counts))
}

/// A free text of a label's line. `strong` if the label is told from words around it, `before` if it is still to come.
pub fn reasoning(counts: &CountsSpec, longest: usize, strong: bool, before: bool, stems: &[String]) -> String {
    let mut excluded = vec![closed_thought()];
    let labels: Vec<String> = counts.labels.iter().map(|label| escaped(label)).collect();
    let labels = labels.join("|");
    if strong {
        // `SUPPORTED or HALLUCINATED` is the template's own words wherever it stands in the line.
        excluded.push(format!(r".*(?i:{labels})[\s*_`\[\]]*(?i:\/|\||or|／|\\)[\s*_`\[\]]*(?i:{labels}).*"));
        // `was SUPPORTED because` a second time.
        let verbs = "was|is|were|are|as|marked|labeled|labelled|deemed|considered|judged|therefore|thus|hence|verdict|\
                     label|status";
        let whys = "because|since|as|due|given";
        excluded.push(format!(
            r#".*(?i:{verbs})[\s*_`\[(|'"“‘<✓✗]*(?:{labels})[\s*_`\])|'"”’>✓✗]*(?i:{whys}).*"#
        ));
    } else {
        excluded.push(format!(".*(?i:{labels}).*"));
        if before {
            let nots = "not|never|no|nothing|cannot|neither|nor|without|wasn['’]t|isn['’]t|can['’]t";
            excluded.push(format!(r"(?:.*[^\p{{L}}])?(?i:{nots})(?:[^\p{{L}}].*)?"));
        }
    }
    if let Some(flag) = &counts.flag {
        // `[was / was not] an inserted one`
        let flag = escaped(flag);
        excluded.push(format!(r".*\]{EMPHASIS}(?i:an|the)?{EMPHASIS}(?i:artificially)?{EMPHASIS}(?i:{flag}).*"));
    }
    // Where the sentence on the flag has begun, it is not text any more.
    excluded.extend(stems.iter().map(|stem| format!(".*{}.*", escaped(stem))));
    text(longest, &excluded)
}

/// What a line must not start with behind its number, or contain, to be a listed event.
fn line_starts(counts: &CountsSpec) -> Vec<String> {
    let sections = &counts.sections;
    let headings = [&sections.events, &sections.other, &sections.labels, &sections.last];
    let headings: Vec<String> = headings.iter().flat_map(|names| names.iter()).map(|name| named(name)).collect();
    let metrics: Vec<String> = counts.counts.iter().map(|count| named(&count.name)).collect();
    let before = "final|total|overall|the|corrected|correct|revised|updated|my";
    let none = "none|n\\/a|na|nothing|empty|none found|none extracted|none identified";
    vec![
        closed_thought(),
        format!(
            r"{LEAD}(?i:step[^\p{{L}}]*)?(?i:{}){EMPHASIS}(?:\([^)]*\){EMPHASIS})?(?:[:：–—\-].*)?",
            headings.join("|")
        ),
        format!(
            r"{LEAD}(?:(?i:{before})[^\p{{L}}\p{{N}}]+){{0,3}}(?i:{})(?:[^\p{{L}}\p{{N}}].*)?",
            metrics.join("|")
        ),
        // A block quotation.
        format!("{LEAD}>.*"),
        // `Event #1 …` is read as a label where a label word follows.
        format!(r"{LEAD}(?i:event)[ #*_\\(\[№]*[0-9].*"),
        // No event at all.
        format!(r"{LEAD}(?i:{none}){LEAD}"),
        format!(r"{LEAD}(?i:no event|no concrete event|no extracted event|none \().*"),
        // The template's own words.
        format!(r"{LEAD}\[.*(?i:event).*[0-9]\]{EMPHASIS}"),
    ]
}

/// A tag that makes the reader forget all before it.
fn closed_thought() -> String {
    r".*<\/(?i:think|thinking)>.*".to_owned()
}

/// A name as the reader finds it: any case, and any of some marks between its words.
fn named(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(escaped);
    words.collect::<Vec<_>>().join(r"[ _\-\\*‑–\x{a0}]+")
}

/// The text of a JSON string.
pub fn json_string() -> String {
    let escapes = r#"\\["\\\/bfnrt]|\\u[0-9a-fA-F]{4}"#;
    format!(r#"/(?:[^"\\\x00-\x1f\x7f]|{escapes}){{1,{LONGEST_SCORE_REASON}}}/"#)
}
