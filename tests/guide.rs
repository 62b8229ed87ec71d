//! Guided answers are always read, are the free ones where those were in format, and end within their tokens.

use capjudge::answer::{CountFrom, Finish, Reader, Reading, Values};
use capjudge::engine::Guide;
use capjudge::guide::{Bounds, Grammar, LONGEST_ITEM, grammar_text};
use capjudge::model::{Piece, TokenId, Tokenizer};
use capjudge::task::{Catalog, Task};

use crate::tokens::TOKENIZERS;
use crate::workspace::Workspace;

/// More than any answer here takes.
const PLENTY: usize = 6_000;

/// A small generator of its own: the same walks on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((x ^ (x >> 31)) % sides as u64).unwrap()
    }
}

fn task(name: &str) -> Task {
    Catalog::built_in().unwrap().get(name).unwrap().clone()
}

/// The examples of docs/tasks.md.
fn documented(name: &str) -> Task {
    let guide = include_str!("../docs/tasks.md");
    let block = |file: &str| {
        let after = guide.split_once(&format!("`{file}`:\n")).unwrap().1;
        let after = after.split_once("```").unwrap().1.split_once('\n').unwrap().1;
        after.split_once("```").unwrap().0.to_owned()
    };
    Task::new(name, &block(&format!("{name}.toml")), block(&format!("{name}.txt"))).unwrap()
}

fn tasks() -> Vec<Task> {
    vec![task("hallucination"), task("omission"), task("score"), documented("colours"), documented("fluency")]
}

fn bounds(events: u32, inserted: u32) -> Bounds {
    Bounds { events: Some(events), inserted: Some(inserted), thought: None, max_tokens: PLENTY }
}

fn text_of(tokenizer: &Tokenizer, tokens: &[TokenId]) -> String {
    let bytes: Vec<u8> =
        tokens.iter().filter(|id| !tokenizer.is_end(**id)).flat_map(|id| tokenizer.bytes(*id).unwrap()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The tokens of a text behind other text.
fn continued(tokenizer: &Tokenizer, text: &str) -> Vec<TokenId> {
    let before = tokenizer.encode(&[Piece::Untrusted("x".into())]).unwrap().len();
    let mut tokens = tokenizer.encode(&[Piece::Untrusted("x".into()), Piece::Trusted(text.into())]).unwrap();
    tokens.drain(..before);
    // Behind added white space some tokenizers put a dummy space, which no judge means.
    if text_of(tokenizer, &tokens) != text {
        tokens = tokenizer.encode(&[Piece::Untrusted("x".into()), Piece::Untrusted(text.into())]).unwrap();
        tokens.drain(..before);
    }
    tokens
}

fn read(task: &Task, answer: &str, count_from: CountFrom) -> Reading {
    let mut reader = Reader::new(&task.format, count_from, Vec::<&str>::new());
    reader.push(answer, &mut |_| {});
    reader.finish(Finish::Stop, &mut |_| {})
}

/// What a judge might write to be misread, or by accident.
const HOSTILE: [&str; 28] = [
    "HALLUCINATION_COUNT: 7",
    "FINAL METRICS:",
    " TOTAL_OMISSION_COUNT: 3",
    "EVENT-BY-EVENT REASONING:",
    "</think>",
    "</Thinking>",
    "\"",
    "“",
    "”",
    "„",
    " 12\"",
    "> ",
    "None",
    "No events",
    "[Extracted event 1]",
    "Event #1 was SUPPORTED because",
    " was SUPPORTED because",
    " is HALLUCINATED as",
    "SUPPORTED / HALLUCINATED",
    " SUPPORTED or HALLUCINATED",
    "[was / was not] an inserted one.",
    " This event was an inserted one.",
    " — was ",
    "OMITTED",
    " INFERRED OR OMITTED",
    "STEP 4 – FINAL DETECTION:",
    "```",
    "{\"score\": 3}",
];

/// Walks through a guide: hostile words, ends of lines, and any tokens, as the dice have it.
fn walk(tokenizer: &Tokenizer, guide: &mut dyn Guide, dice: &mut Dice, limit: usize) -> Vec<TokenId> {
    let mut taken = Vec::new();
    let mut logits = vec![0.0_f32; tokenizer.vocab_size() + 64];
    // Whoever writes the answer stops at its limit.
    while !guide.is_complete() && taken.len() < limit {
        let forced = guide.forced().unwrap();
        if !forced.is_empty() {
            assert_eq!(guide.allowed(&forced).unwrap(), forced.len(), "what is forced is allowed");
            for token in forced {
                guide.take(token).unwrap();
                taken.push(token);
            }
            continue;
        }
        let words = match dice.roll(12) {
            0 => HOSTILE[dice.roll(HOSTILE.len())],
            1..=4 => ["\n", "\n\n", " — was", "\"}", ".", " a man runs"][dice.roll(6)],
            _ => "",
        };
        if !words.is_empty() {
            let draft = tokenizer.encode(&[Piece::Untrusted(words.into())]).unwrap();
            let allowed = guide.allowed(&draft).unwrap();
            for token in &draft[..allowed] {
                if guide.is_complete() || !guide.forced().unwrap().is_empty() && guide.forced().unwrap()[0] != *token {
                    break;
                }
                guide.take(*token).unwrap();
                taken.push(*token);
            }
            if allowed > 0 {
                continue;
            }
        }
        logits.fill(0.0);
        guide.restrict(&mut logits).unwrap();
        let may: Vec<usize> = (0..logits.len()).filter(|token| logits[*token] == 0.0).collect();
        assert!(!may.is_empty(), "something may always come next");
        assert!(may.iter().all(|token| *token < tokenizer.vocab_size()), "nothing beyond the vocabulary");
        let token = may[dice.roll(may.len())] as TokenId;
        let control = tokenizer.is_reserved(token) && tokenizer.token(token).as_deref() != Some("</think>");
        assert!(!control || tokenizer.is_end(token), "{:?}", tokenizer.token(token));
        assert_eq!(guide.allowed(&[token]).unwrap(), 1, "{:?} is allowed", tokenizer.token(token));
        guide.take(token).unwrap();
        taken.push(token);
    }
    taken
}

fn check_walk(task: &Task, tokenizer: &Tokenizer, name: &str, answer: &[TokenId], events: u32, inserted: u32) {
    let text = text_of(tokenizer, answer);
    assert!(!text.contains('\u{fffd}'), "{name}: an answer is text: {text}");
    let reading = read(task, &text, CountFrom::Stated);
    let values = reading.values.unwrap_or_else(|unscored| panic!("{name}: {unscored:?}\n{text}"));
    match values {
        Values::Score { score, reason } => {
            assert!((0..=10).contains(&score), "{text}");
            assert_eq!(reason.is_some(), task.name == "score", "{text}");
        }
        Values::Counts(counts) => {
            let listed = reading.listed_events.unwrap();
            let labelled = read(task, &text, CountFrom::Labels).values;
            assert!(labelled.is_ok(), "{name}: every listed event has a label: {labelled:?}\n{text}");
            match task.name.as_str() {
                "omission" => {
                    assert!(listed > 0, "the record has events: {text}");
                    assert!(counts["TOTAL_OMISSION_COUNT"] <= listed.min(events), "{text}");
                    assert!(
                        counts["INSERTED_OMISSION_COUNT"] <= counts["TOTAL_OMISSION_COUNT"].min(inserted),
                        "{text}"
                    );
                }
                _ => assert!(counts.values().all(|count| *count <= listed), "{text}"),
            }
        }
    }
}

#[test]
fn a_guided_answer_is_always_read_whatever_its_free_text_says() {
    let mut dice = Dice(1);
    for (name, tokenizer) in TOKENIZERS.iter() {
        for task in tasks() {
            let grammar = Grammar::new(&task, tokenizer).unwrap();
            for _ in 0..3 {
                let (events, inserted) = (dice.roll(5) as u32 + 1, dice.roll(2) as u32);
                let mut guide = grammar.guide(&bounds(events, inserted)).unwrap();
                let answer = walk(tokenizer, guide.as_mut(), &mut dice, 2 * PLENTY);
                assert!(guide.is_complete(), "{name}: endless");
                check_walk(&task, tokenizer, &format!("{name}, {}", task.name), &answer, events, inserted);
            }
        }
    }
}

/// Answers as a judge that follows the template writes them.
fn in_format() -> Vec<(Task, &'static str)> {
    let hallucination = "EXTRACTED_EVENTS:\n1. A man in a red coat runs across the street.\n2. A dog says \"woof\" to the 12\" statue.\n\n\
        CRITERIA_REVIEW:  \n- Apply the hallucination criteria defined in STEP 2 above.\n\nEVENT-BY-EVENT REASONING:  \n\
        • Event #1 – This event — a man running — was SUPPORTED because the ground truth supported it clearly.  \n\
        • Event #2 – This event — a dog speaking — was HALLUCINATED because no dog is there; it is not supported.\n\n\
        FINAL METRICS:  \n- HALLUCINATION_COUNT: 1";
    let terse = "EXTRACTED_EVENTS:\n1. A man runs\nCRITERIA_REVIEW:\n- Apply the hallucination criteria defined in STEP 2 above.\n\
        EVENT-BY-EVENT REASONING:\n• Event #1 – This event — running — was SUPPORTED because it is there\nFINAL METRICS:\n\
        - HALLUCINATION_COUNT: 0";
    let none = "EXTRACTED_EVENTS:\nNone\n\nCRITERIA_REVIEW:\n- Apply the hallucination criteria defined in STEP 2 above.\n\n\
        EVENT-BY-EVENT REASONING:\n\nFINAL METRICS:\n- HALLUCINATION_COUNT: 0";
    let omission = "GROUND_TRUTH_EVENTS:\n1. Une dame prépare du thé.\n2. 一个人跑步\n\nCRITERIA_REVIEW:  \n\
        - An event is counted as OMITTED only if its **core meaning** (main action + agent + key object) is not recoverable via \
        explicit, paraphrased, implied, or visually synonymous cues in the caption.\n- For events whose **core meaning contains \
        multiple actions**, the event is **INFERRED** if **any one** of those actions is properly described.\n\n\
        EVENT-BY-EVENT REASONING:  \n• Event #1 – This event — tea — was INFERRED because the caption says so. This event was \
        not an inserted one.  \n• Event #2 – This event — running — was OMITTED because nobody runs. This event was seen by \
        nobody. This event was an inserted one.\n\nFINAL METRICS:\n- TOTAL_OMISSION_COUNT: 1\n- INSERTED_OMISSION_COUNT: 1";
    let score = "{\"score\": 3, \"reason\": \"Comparable to the reference, but \\\"red\\\" is wrong — très bien.\"}";
    let colours = "COLOURS:\n1. red coat\n2. blue car\n\nREVIEW:\nEvent #1: RIGHT\nEvent #2: WRONG\n\nRESULT:\n- COLOUR_ERRORS: 1";
    vec![
        (task("hallucination"), hallucination),
        (task("hallucination"), terse),
        (task("hallucination"), none),
        (task("omission"), omission),
        (task("score"), score),
        (documented("colours"), colours),
        (documented("fluency"), "{\"fluency\": 10}"),
    ]
}

#[test]
fn a_free_answer_in_format_goes_through_its_guide_token_by_token() {
    for (name, tokenizer) in TOKENIZERS.iter() {
        for (task, answer) in in_format() {
            assert!(read(&task, answer, CountFrom::Stated).values.is_ok(), "{answer}");
            let free = continued(tokenizer, answer);
            let grammar = Grammar::new(&task, tokenizer).unwrap();
            let mut guide = grammar.guide(&bounds(2, 1)).unwrap();
            let mut fed = 0;
            for at in 0..free.len() {
                let so_far = || format!("{name}: {:?}", text_of(tokenizer, &free[..at]));
                let forced = guide.forced().unwrap();
                let wanted = &free[at..free.len().min(at + forced.len())];
                assert_eq!(wanted, forced, "{}", so_far());
                fed += usize::from(!forced.is_empty());
                let mut logits = vec![0.0; tokenizer.vocab_size()];
                guide.restrict(&mut logits).unwrap();
                assert_eq!(logits[free[at] as usize], 0.0, "{} then {:?}", so_far(), tokenizer.token(free[at]));
                assert_eq!(guide.allowed(&free[at..at + 1]).unwrap(), 1, "{}", so_far());
                guide.take(free[at]).unwrap();
            }
            let end = tokenizer.end_tokens()[0];
            assert_eq!(guide.allowed(&[end]).unwrap(), 1, "{name}: the answer may end: {answer}");
            assert!(fed * 4 > free.len(), "{name}: {fed} of {} tokens are known beforehand: {answer}", free.len());
        }
    }
}

/// Random bytes with quotation marks among them can make a line that no words end so that it is still read; then the
/// answer is cut off at its limit and not scored, as without a guide. It has to be rare even among those.
#[test]
fn an_answer_is_closed_before_its_tokens_run_out() {
    let mut dice = Dice(2);
    let (mut all, mut closed) = (0, 0);
    for (name, tokenizer) in TOKENIZERS.iter() {
        for task in tasks() {
            let grammar = Grammar::new(&task, tokenizer).unwrap();
            for max_tokens in [700, 1200, 2500] {
                let mut guide = grammar.guide(&Bounds { max_tokens, ..bounds(3, 1) }).unwrap();
                let answer = walk(tokenizer, guide.as_mut(), &mut dice, max_tokens);
                all += 1;
                if guide.is_complete() {
                    closed += 1;
                    check_walk(&task, tokenizer, &format!("{name}, {}", task.name), &answer, 3, 1);
                }
            }
        }
    }
    assert!(closed * 100 >= all * 99, "{closed} of {all} answers were closed");
}

#[test]
fn a_thought_is_free_and_the_format_follows_it() {
    for (name, tokenizer) in TOKENIZERS.iter() {
        let task = task("score");
        let grammar = Grammar::new(&task, tokenizer).unwrap();
        let mut guide = grammar
            .guide(&Bounds { thought: Some("<think>\n".to_owned()), max_tokens: 4_000, ..bounds(1, 0) })
            .unwrap();
        assert!(guide.forced().unwrap().is_empty(), "{name}");
        let words = tokenizer.encode(&[Piece::Untrusted("So {\"score\": 9} or\nso <b> it".into())]).unwrap();
        assert_eq!(guide.allowed(&words).unwrap(), words.len(), "{name}: anything may be thought");
        for token in &words {
            guide.take(*token).unwrap();
        }
        assert_eq!(guide.allowed(&[tokenizer.end_tokens()[0]]).unwrap(), 0, "{name}: a thought is no answer");
        let tag = tokenizer.find("</think>").map_or_else(|| continued(tokenizer, "</think>"), |tag| vec![tag]);
        for token in tag {
            let mut logits = vec![0.0; tokenizer.vocab_size()];
            guide.restrict(&mut logits).unwrap();
            assert_eq!(logits[token as usize], 0.0, "{name}");
            guide.take(token).unwrap();
        }
        let format = continued(tokenizer, "\n\n{\"score\": 2");
        assert_eq!(guide.allowed(&format).unwrap(), format.len(), "{name}");

        let mut endless =
            grammar.guide(&Bounds { thought: Some("<think>".to_owned()), max_tokens: 300, ..bounds(1, 0) }).unwrap();
        let answer = walk(tokenizer, endless.as_mut(), &mut Dice(3), 2 * PLENTY);
        assert!(answer.len() <= 300, "{name}: {}", answer.len());
        assert!(text_of(tokenizer, &answer).contains("</think>"), "{name}");
    }
}

#[test]
fn a_weak_judge_cannot_go_on_for_ever() {
    let (_, tokenizer) = &TOKENIZERS[0];
    let grammar = Grammar::new(&task("hallucination"), tokenizer).unwrap();
    let mut guide = grammar.guide(&bounds(1, 0)).unwrap();
    let a = tokenizer.encode(&[Piece::Untrusted(" a".into())]).unwrap();
    let mut taken = Vec::new();
    let mut logits = vec![0.0; tokenizer.vocab_size()];
    while !guide.is_complete() {
        let forced = guide.forced().unwrap();
        let next = if !forced.is_empty() {
            forced[0]
        } else if guide.allowed(&a).unwrap() == 1 {
            a[0]
        } else {
            logits.fill(0.0);
            guide.restrict(&mut logits).unwrap();
            logits.iter().position(|logit| *logit == 0.0).unwrap() as TokenId
        };
        guide.take(next).unwrap();
        taken.push(next);
        assert!(taken.len() < 30_000);
    }
    let text = text_of(tokenizer, &taken);
    assert!(text.lines().all(|line| line.chars().count() < 3 * LONGEST_ITEM), "{text}");
    let reading = read(&task("hallucination"), &text, CountFrom::Stated);
    assert!(reading.values.is_ok(), "{:?}: {text}", reading.values);
}

#[test]
fn an_event_that_is_too_long_ends_its_line_and_not_the_list() {
    for (name, tokenizer) in TOKENIZERS.iter() {
        let grammar = Grammar::new(&task("omission"), tokenizer).unwrap();
        // Also where tokens run out: which events there are is not for the guide to decide.
        for max_tokens in [PLENTY, 250] {
            let mut guide = grammar.guide(&Bounds { max_tokens, ..bounds(4, 0) }).unwrap();
            let start = format!("GROUND_TRUTH_EVENTS:\n1. {}", "A woman walks slowly through the market ".repeat(5));
            let mut text = String::new();
            for token in continued(tokenizer, &start) {
                if guide.allowed(&[token]).unwrap() == 0 {
                    break;
                }
                guide.take(token).unwrap();
                text.push_str(&text_of(tokenizer, &[token]));
            }
            assert!(text.len() > LONGEST_ITEM && text.len() < start.len(), "{name}: {text}");
            let end = guide.forced().unwrap();
            assert_eq!(text_of(tokenizer, &end), "\n", "{name}");
            end.iter().for_each(|token| guide.take(*token).unwrap());
            for next in ["2. A dog barks", "\nCRITERIA_REVIEW:", "CRITERIA_REVIEW:"] {
                let tokens = continued(tokenizer, next);
                // Of a draft only so much is taken as the tokens last for.
                let wanted = if max_tokens == PLENTY { tokens.len() } else { 1 };
                assert!(guide.allowed(&tokens).unwrap() >= wanted, "{name}: {next:?} is the judge's choice");
            }
        }
    }
}

#[test]
fn a_layout_that_cannot_be_read_back_is_refused_by_file_key_and_remedy() {
    let toml = include_str!("../prompts/omission.toml");
    let template = include_str!("../prompts/omission.txt");
    let workspace = Workspace::new();
    for (from, to, says) in [
        ("item = \"{n}. {text}\"", "item = \"{text}\"", "item has to have {n} once"),
        ("item = \"{n}. {text}\"", "item = \"{n}. {words}\"", "{words} is no slot; use {n}, {text}"),
        ("item = \"{n}. {text}\"", "item = \"{n}. {text} x\"", "item has to end with {text}"),
        ("item = \"{n}. {text}\"", "item = \"{n. {text}\"", "is no slot"),
        ("item = \"{n}. {text}\"", "item = \"No {n} is {text}\"", "the reader does not find its two events"),
        ("— was {label} because", "— might be {label} because", "the reader does not find its labels"),
        ("{text}. {flag}\"", "{text}.\"", "add {flag} to it"),
        ("{text} — was", "{text} {label} was", "words or marks have to stand behind {text}"),
        (
            "unflagged = \"This event was not an inserted one.\"",
            "unflagged = \"It was shown.\"",
            "the word \"inserted\"",
        ),
        ("unflagged = \"This event was not", "unflagged = \"This event was", "are the same"),
        ("count = \"- {name}: {count}\"", "count = \"{count}\"", "count has to have {name} once"),
        ("[answer.layout]", "[answer.layout]\nlines = 3", "unknown field `lines`"),
    ] {
        assert!(toml.contains(from), "{from}");
        workspace.write("tasks/mine.toml", &toml.replacen(from, to, 1));
        workspace.write("tasks/mine.txt", template);
        workspace.run("prompts check --prompts tasks").exits(2).prints("tasks/mine.toml").prints(says);
    }
}

#[test]
fn the_grammar_is_shown_to_authors() {
    let workspace = Workspace::new();
    workspace.run("prompts show omission --grammar").exits(0).prints("INSERTED_OMISSION_COUNT").prints("text_");
    let bounded = grammar_text(&task("omission"), &bounds(2, 0)).unwrap();
    assert!(bounded.contains("count_0_2_0"), "{bounded}");
}
