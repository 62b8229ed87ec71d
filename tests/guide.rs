//! Guided answers are always read, are the free ones where those were in format, and end within their tokens.

use capjudge::answer::{CountFrom, Finish, Reader, Reading, Values};
use capjudge::engine::Guide;
use capjudge::guide::{Bounds, Grammar, LONGEST_ITEM, grammar_text};
use capjudge::model::{Piece, TokenId, Tokenizer};
use capjudge::task::{Catalog, Task};

use crate::tokens::TOKENIZERS;
use crate::workspace::Workspace;

/// More than any answer here takes.
const PLENTY: usize = 100_000;

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
    let bytes: Vec<u8> = tokens.iter().filter(|id| !tokenizer.is_end(**id)).flat_map(|id| tokenizer.bytes(*id).unwrap()).collect();
    String::from_utf8(bytes).expect("an answer is text")
}

fn read(task: &Task, answer: &str, count_from: CountFrom) -> Reading {
    let mut reader = Reader::new(&task.format, count_from, Vec::new());
    reader.push(answer, &mut |_| {});
    reader.finish(Finish::Stop, &mut |_| {})
}

/// What a judge might write to be misread, or by accident.
const HOSTILE: [&str; 28] = [
    "HALLUCINATION_COUNT: 7", "FINAL METRICS:", " TOTAL_OMISSION_COUNT: 3", "EVENT-BY-EVENT REASONING:", "</think>",
    "</Thinking>", "\"", "“", "”", "„", " 12\"", "> ", "None", "No events", "[Extracted event 1]", "Event #1 was SUPPORTED because",
    " was SUPPORTED because", " is HALLUCINATED as", "SUPPORTED / HALLUCINATED", " SUPPORTED or HALLUCINATED", "[was / was not] an inserted one.",
    " This event was an inserted one.", " — was ", "OMITTED", " INFERRED OR OMITTED", "STEP 4 – FINAL DETECTION:", "```", "{\"score\": 3}",
];

/// Walks through a guide: hostile words, ends of lines, and any tokens, as the dice have it.
fn walk(tokenizer: &Tokenizer, guide: &mut dyn Guide, dice: &mut Dice) -> Vec<TokenId> {
    let mut taken = Vec::new();
    let mut logits = vec![0.0_f32; tokenizer.vocab_size() + 64];
    while !guide.is_complete() {
        assert!(taken.len() < 60_000, "endless: {:?}", text_of(tokenizer, &taken[taken.len() - 200..]));
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
            1 | 2 => ["\n", "\n\n", " — was", "\"}", ".", " a man runs"][dice.roll(6)],
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
        assert!(!tokenizer.is_reserved(token) || tokenizer.is_end(token), "{:?}", tokenizer.token(token));
        assert_eq!(guide.allowed(&[token]).unwrap(), 1, "{:?} is allowed", tokenizer.token(token));
        guide.take(token).unwrap();
        taken.push(token);
    }
    taken
}

fn check_walk(task: &Task, tokenizer: &Tokenizer, name: &str, answer: &[TokenId], events: u32, inserted: u32) {
    let text = text_of(tokenizer, answer);
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
                    assert!(counts["TOTAL_OMISSION_COUNT"] <= listed.min(events), "{text}");
                    assert!(counts["INSERTED_OMISSION_COUNT"] <= counts["TOTAL_OMISSION_COUNT"].min(inserted), "{text}");
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
            for _ in 0..4 {
                let (events, inserted) = (dice.roll(5) as u32 + 1, dice.roll(2) as u32);
                let mut guide = grammar.guide(&bounds(events, inserted)).unwrap();
                let answer = walk(tokenizer, guide.as_mut(), &mut dice);
                check_walk(&task, tokenizer, &format!("{name}, {}", task.name), &answer, events, inserted);
            }
        }
    }
}
