//! Many answers at once, guides, guesses and shared beginnings: the same tokens as one answer at a time.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use capjudge::engine::{
    EngineError, Follow, Generated, GenerationEnd, Guide, GuideError, Mark, Passage, Prefix, Request, Sampler,
    Sampling, Scheduler, Tree, Weigh, Weighed,
};
use capjudge::model::{LoadOptions, Model, TokenId};

use crate::models::{all_logits, argmax, folder, greedy};

pub fn model(name: &str) -> Model {
    Model::load(folder(name).to_str().unwrap(), &LoadOptions::default()).unwrap()
}

/// A request for an answer of so many tokens.
fn request<'g>(ids: &[TokenId], max_tokens: usize, sampling: Sampling, speculate: bool) -> Request<'g> {
    Request {
        prompt: vec![Passage::Tokens(ids.to_vec())],
        start: Prefix::default(),
        marks: Vec::new(),
        max_tokens,
        ignore_end: true,
        sampler: Sampler::new(sampling, &format!("{ids:?}")),
        guide: None,
        weigh: None,
        speculate,
    }
}

/// What became of an answer.
type Outcome = Result<Generated, EngineError>;

/// Answers all requests, so many at once; also how many steps that took.
fn answer_all(model: &Model, tree: &mut Tree, batch: usize, requests: Vec<Request<'_>>) -> (Vec<Outcome>, usize) {
    let mut scheduler = Scheduler::new(&model.engine, &model.tokenizer, tree);
    let mut out: Vec<Option<Outcome>> = requests.iter().map(|_| None).collect();
    let mut waiting: VecDeque<_> = requests.into_iter().enumerate().collect();
    let mut steps = 0;
    loop {
        while scheduler.len() < batch
            && let Some((number, request)) = waiting.pop_front()
        {
            scheduler.admit(number as u64, request).unwrap();
        }
        if scheduler.is_empty() {
            return (out.into_iter().map(Option::unwrap).collect(), steps);
        }
        for (number, generated) in scheduler.step(&mut |_, _| ControlFlow::Continue(())).unwrap() {
            out[number as usize] = Some(generated);
        }
        steps += 1;
    }
}

/// Answers one request.
fn answer(model: &Model, request: Request<'_>) -> (Generated, usize) {
    let (mut out, steps) = answer_all(model, &mut Tree::new(0), 1, vec![request]);
    (out.remove(0).unwrap(), steps)
}

fn warm(seed: u64) -> Sampling {
    Sampling { temperature: 0.9, seed, ..Sampling::default() }
}

/// Prompts of many lengths with one beginning, some of which say everything twice.
fn prompts() -> Vec<Vec<TokenId>> {
    let beginning = (0..30u32).map(|i| i * 7 % 140 + 5);
    let rest = |p: u32| {
        let once: Vec<u32> = (0..=p * 23 % 61).map(|i| (i * 31 + p * 7) % 150 + 4).collect();
        if p.is_multiple_of(2) { once.repeat(2) } else { once }
    };
    (0..9).map(|p| beginning.clone().chain(rest(p)).collect()).collect()
}

#[test]
fn answers_do_not_depend_on_who_stands_beside_them_or_on_guesses() {
    for name in ["qwen2_a", "gemma3_b"] {
        let model = model(name);
        let prompts = prompts();
        let lengths: Vec<usize> = (0..prompts.len()).map(|p| 3 + p * 17 % 29).collect();
        for sampling in [Sampling::default(), warm(5)] {
            let requests = |speculate: bool| -> Vec<Request<'_>> {
                let pairs = prompts.iter().zip(&lengths);
                pairs.map(|(ids, length)| request(ids, *length, sampling, speculate)).collect()
            };
            let expected: Vec<Vec<TokenId>> =
                requests(false).into_iter().map(|request| answer(&model, request).0.tokens).collect();
            if sampling.temperature == 0.0 {
                assert_eq!(expected[0], greedy(&model.engine, &prompts[0], lengths[0]), "{name}");
            }
            for (batch, speculate) in [(1, true), (2, true), (4, false), (8, true)] {
                let (found, _) = answer_all(&model, &mut Tree::new(0), batch, requests(speculate));
                let found: Vec<Vec<TokenId>> = found.into_iter().map(|out| out.unwrap().tokens).collect();
                assert_eq!(found, expected, "{name} at batch {batch}, guesses: {speculate}");
            }
        }
    }
}

#[test]
fn guesses_save_steps_where_an_answer_repeats_what_was_said() {
    // Random weights repeat themselves sooner or later, which is all that a guess needs.
    let mut saved = 0;
    for name in ["qwen2_a", "llama_a"] {
        let model = model(name);
        for ids in prompts() {
            let (plain, steps) = answer(&model, request(&ids, 50, Sampling::default(), false));
            let (guessed, fewer) = answer(&model, request(&ids, 50, Sampling::default(), true));
            assert_eq!(guessed.tokens, plain.tokens, "{name}");
            assert!(fewer <= steps, "{name}: {fewer} steps instead of {steps}");
            saved += steps - fewer;
        }
    }
    println!("{saved} steps saved");
    assert!(saved > 50, "{saved} steps saved");
}

/// A guide that follows a script: text that comes by itself, and places with a choice.
#[derive(Debug, Clone)]
pub struct Script {
    steps: VecDeque<Step>,
    forbidden: bool,
}

#[derive(Debug, Clone)]
pub enum Step {
    /// These tokens, whatever the model says.
    Forced(Vec<TokenId>),
    /// One of these.
    Choice(Vec<TokenId>),
}

impl Script {
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), forbidden: false }
    }
}

impl Guide for Script {
    fn forced(&mut self) -> Result<Vec<TokenId>, GuideError> {
        Ok(match self.steps.front() {
            Some(Step::Forced(tokens)) => tokens.clone(),
            _ => Vec::new(),
        })
    }

    fn restrict(&mut self, logits: &mut [f32]) -> Result<(), GuideError> {
        if self.forbidden {
            return Err(GuideError("nothing may follow".to_owned()));
        }
        let Some(Step::Choice(allowed)) = self.steps.front() else { panic!("asked where nothing is to choose") };
        for (token, logit) in logits.iter_mut().enumerate() {
            if !allowed.contains(&(token as TokenId)) {
                *logit = f32::NEG_INFINITY;
            }
        }
        Ok(())
    }

    fn allowed(&mut self, draft: &[TokenId]) -> Result<usize, GuideError> {
        let mut copy = self.clone();
        Ok(draft.iter().take_while(|token| copy.may_take(**token) && copy.take(**token).is_ok()).count())
    }

    fn take(&mut self, token: TokenId) -> Result<(), GuideError> {
        assert!(self.may_take(token), "{token} is not allowed: {self:?}");
        match self.steps.front_mut() {
            Some(Step::Forced(tokens)) if tokens.len() > 1 => {
                tokens.remove(0);
            }
            _ => {
                self.steps.pop_front();
            }
        }
        Ok(())
    }

    fn is_complete(&mut self) -> bool {
        self.steps.is_empty()
    }
}

impl Script {
    fn may_take(&self, token: TokenId) -> bool {
        match self.steps.front() {
            Some(Step::Forced(tokens)) => tokens.first() == Some(&token),
            Some(Step::Choice(allowed)) => allowed.contains(&token),
            None => false,
        }
    }
}

/// What a script and a model make of a prompt, by the definition: logits of the whole text for every choice.
fn by_definition(model: &Model, ids: &[TokenId], steps: &[Step], sampling: Sampling) -> Vec<TokenId> {
    let mut sampler = Sampler::new(sampling, &format!("{ids:?}"));
    let mut text = ids.to_vec();
    for step in steps {
        match step {
            Step::Forced(tokens) => text.extend(tokens),
            Step::Choice(allowed) => {
                let mut logits = all_logits(&model.engine, &text).pop().unwrap();
                for (token, logit) in logits.iter_mut().enumerate() {
                    if !allowed.contains(&(token as TokenId)) {
                        *logit = f32::NEG_INFINITY;
                    }
                }
                text.push(sampler.sample(&logits).unwrap());
            }
        }
    }
    text.split_off(ids.len())
}

fn script() -> Vec<Step> {
    let mut steps = vec![Step::Forced((40..52).collect()), Step::Choice(vec![9, 10, 11]), Step::Forced(vec![60, 61])];
    // Choices that repeat what was forced, so that guesses meet them.
    steps.extend((40..52).map(|token| Step::Choice(vec![token, token + 30])));
    steps.extend([Step::Forced((40..50).collect()), Step::Choice(vec![5])]);
    steps
}

#[test]
fn a_guided_answer_is_what_the_guide_forces_and_the_model_chooses_of_the_rest() {
    let model = model("qwen2_a");
    let ids = &prompts()[3];
    for sampling in [Sampling::default(), warm(1), warm(2)] {
        let expected = by_definition(&model, ids, &script(), sampling);
        for speculate in [false, true] {
            let guide: Box<dyn Guide> = Box::new(Script::new(script()));
            let what = Request { guide: Some(guide), ..request(ids, 500, sampling, speculate) };
            let (found, steps) = answer(&model, what);
            assert_eq!((&found.tokens, found.end), (&expected, GenerationEnd::Token));
            // The prompt takes one step and what is forced none of its own.
            let choices = script().iter().filter(|step| matches!(step, Step::Choice(_))).count();
            assert!(steps <= 1 + choices, "{steps} steps for {choices} choices");
        }
    }
}

#[test]
fn a_guided_answer_may_be_cut_off_and_a_guide_that_fails_fails_alone() {
    let model = model("llama_b");
    let prompts = prompts();
    let plain = answer(&model, request(&prompts[0], 12, Sampling::default(), true)).0;
    let guided = |script: Script, max_tokens: usize| Request {
        guide: Some(Box::new(script)),
        ..request(&prompts[1], max_tokens, Sampling::default(), true)
    };
    let failing = Script { forbidden: true, ..Script::new(script()) };
    let requests = vec![
        guided(failing, 50),
        request(&prompts[0], 12, Sampling::default(), true),
        guided(Script::new(script()), 7),
    ];
    let (out, _) = answer_all(&model, &mut Tree::new(0), 3, requests);
    let [failed, beside, cut] = out.try_into().unwrap();
    assert!(matches!(&failed, Err(EngineError::Guide(error)) if error.to_string().contains("nothing may follow")));
    assert_eq!(beside.unwrap().tokens, plain.tokens);
    let cut = cut.unwrap();
    assert_eq!((cut.tokens, cut.end), ((40..47).collect(), GenerationEnd::Limit));
    // A guide with nothing to say ends an answer before it begins.
    let (none, _) = answer(&model, guided(Script::new([]), 5));
    assert_eq!((none.tokens.len(), none.end), (0, GenerationEnd::Token));
}

/// Marks for prompts that have their first 30 tokens in common, and some of them 20 more.
fn marks(ids: &[TokenId]) -> Vec<Mark> {
    let key = |at: usize| {
        let mut key = [0; 32];
        ids[..at].iter().enumerate().for_each(|(place, token)| key[place % 32] ^= *token as u8 ^ place as u8);
        key
    };
    [(30, true), (50, false)]
        .into_iter()
        .filter(|(at, _)| *at < ids.len())
        .map(|(at, rubric)| Mark { at, key: key(at), rubric })
        .collect()
}

#[test]
fn a_beginning_is_read_once_and_its_answers_are_the_same() {
    let model = model("qwen3_a");
    let beginning: Vec<u32> = (0..30).map(|i| i * 7 % 140 + 5).collect();
    let middle = |of: u32| (0..20).map(move |i| (i * 3 + of * 11) % 150 + 4);
    let prompts: Vec<Vec<u32>> =
        (0..10u32).map(|p| beginning.iter().copied().chain(middle(p / 5)).chain(3..4 + p).collect()).collect();
    let plain: Vec<Vec<TokenId>> =
        prompts.iter().map(|ids| answer(&model, request(ids, 9, warm(3), true)).0.tokens).collect();
    let shared = || -> Vec<Request<'_>> {
        let of = |ids: &Vec<u32>| Request { marks: marks(ids), ..request(ids, 9, warm(3), true) };
        prompts.iter().map(of).collect()
    };
    for batch in [1, 2, 8] {
        let mut tree = Tree::new(1 << 30);
        let (out, _) = answer_all(&model, &mut tree, batch, shared());
        let out: Vec<Generated> = out.into_iter().map(Result::unwrap).collect();
        let reused: Vec<usize> = out.iter().map(|out| out.reused).collect();
        assert_eq!(reused, [0, 50, 50, 50, 50, 30, 50, 50, 50, 50], "batch {batch}");
        assert_eq!(tree.len(), 3);
        let tokens: Vec<Vec<TokenId>> = out.into_iter().map(|out| out.tokens).collect();
        assert_eq!(tokens, plain, "batch {batch}");
        // Once more, with all of it there; and with a tree that keeps the rubric alone.
        let (again, _) = answer_all(&model, &mut tree, batch, shared());
        assert!(again.iter().all(|out| out.as_ref().unwrap().reused == 50));
        let mut small = Tree::new(1);
        let (out, _) = answer_all(&model, &mut small, batch, shared());
        assert_eq!(small.len(), 1);
        assert!(out.iter().skip(1).all(|out| out.as_ref().unwrap().reused >= 30));
        let tokens: Vec<Vec<TokenId>> = out.into_iter().map(|out| out.unwrap().tokens).collect();
        assert_eq!(tokens, plain, "batch {batch}, nothing kept");
    }
}

#[test]
fn a_tree_forgets_what_was_not_used_for_the_longest_time() {
    let model = model("qwen2_a");
    let prompts: Vec<Vec<u32>> =
        (0..4u32).map(|p| (0..60).map(|i| if i < 30 { i + 5 } else { (i * 3 + p * 17) % 150 + 4 }).collect()).collect();
    let of = |p: usize| Request { marks: marks(&prompts[p]), ..request(&prompts[p], 2, Sampling::default(), false) };
    let reused = |tree: &mut Tree, p: usize| answer_all(&model, tree, 1, vec![of(p)]).0.remove(0).unwrap().reused;
    // Room for two of them: one is measured by what a tree of exactly its size keeps.
    let size = (0..).map(|power| 1 << power).find(|bytes| {
        let mut tree = Tree::new(*bytes);
        reused(&mut tree, 0);
        tree.len() == 2
    });
    let mut tree = Tree::new(size.unwrap() * 2);
    assert_eq!([0, 1, 0, 1].map(|p| reused(&mut tree, p)), [0, 30, 50, 50]);
    // The third takes the place of 0, the fourth may take that of 1; the rubric stays.
    let later = [2, 3, 0].map(|p| reused(&mut tree, p));
    assert_eq!(later[2], 30, "{later:?}");
    assert!(tree.len() >= 2);
}

/// At every token: what follows two other ones.
#[derive(Debug, Default)]
struct Curious(usize);

impl Weigh for Curious {
    fn take(
        &mut self,
        _: TokenId,
        logits: Option<&[f32]>,
        follow: &mut Follow<'_>,
    ) -> Result<Option<Weighed>, EngineError> {
        self.0 += 1;
        let Some(logits) = logits.filter(|_| self.0.is_multiple_of(3)) else { return Ok(None) };
        let behind = follow(&[vec![7], vec![8, 9]])?;
        let shares = behind.iter().map(|logits| f64::from(logits[3])).chain([f64::from(logits[3])]).collect();
        Ok(Some(Weighed { at: self.0 - 1, shares }))
    }
}

#[test]
fn looking_down_other_branches_changes_nothing_and_sees_what_is_there() {
    let model = model("llama_a");
    for ids in &prompts()[..5] {
        let plain = answer(&model, request(ids, 30, Sampling::default(), false)).0.tokens;
        for speculate in [false, true] {
            let what = Request {
                weigh: Some(Box::new(Curious::default())),
                ..request(ids, 30, Sampling::default(), speculate)
            };
            let (found, _) = answer(&model, what);
            assert_eq!(found.tokens, plain);
            assert_eq!(found.weighed.len(), 10);
            for Weighed { at, shares } in &found.weighed {
                let behind = |branch: &[TokenId]| {
                    let text = [ids, &plain[..*at], branch].concat();
                    f64::from(all_logits(&model.engine, &text).pop().unwrap()[3])
                };
                assert_eq!(shares, &[behind(&[7]), behind(&[8, 9]), behind(&[])], "at {at}");
            }
        }
    }
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_and_one_at_the_edge_is_answered() {
    let model = model("qwen2_a");
    let context = model.engine.context();
    let long: Vec<u32> = (0..context as u32).map(|i| i % 100 + 5).collect();
    let mut tree = Tree::new(0);
    let mut scheduler = Scheduler::new(&model.engine, &model.tokenizer, &mut tree);
    let refused = scheduler.admit(0, request(&long, 5, Sampling::default(), true)).unwrap_err();
    assert!(matches!(refused, EngineError::Context { .. }), "{refused}");
    assert!(matches!(scheduler.admit(0, request(&[], 5, Sampling::default(), true)), Err(EngineError::Empty)));
    let (edge, _) = answer(&model, request(&long[..context - 4], 50, Sampling::default(), true));
    let (plain, _) = answer(&model, request(&long[..context - 4], 50, Sampling::default(), false));
    assert_eq!((edge.tokens.len(), edge.end), (4, GenerationEnd::Limit));
    assert_eq!(edge.tokens, plain.tokens);
    assert_eq!(edge.tokens[0], argmax(&all_logits(&model.engine, &long[..context - 4]).pop().unwrap()));
}
