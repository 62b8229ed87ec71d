//! A judge that is a language model on this machine.
//!
//! Invariant: an answer depends on the model, the settings and the question, and on nothing that is asked before it or
//! beside it. What prompts have in common is read once and kept, and several are answered in one step of the engine,
//! which changes the time an answer takes and no bit of it.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use sha2::{Digest, Sha256};

use super::guides::{GUIDED_BELOW, Guides, TaskGuides};
use super::scale::{Numbers, Scale};
use super::sights::{SIGHT_BYTES, Sights, key_of};
use super::{Answered, Desk, Effort, Identity, Judge, JudgeError, Question, Said, Settings};
use crate::answer::Finish;
use crate::engine::{
    EngineError, Generated, Generating, GenerationEnd, Key, Mark, Passage, Prefix, Request, Sampler, Scheduler, Tree,
    Visual, Weigh,
};
use crate::media::Frames;
use crate::model::quantise::name_of;
use crate::model::vision::pixels::View;
use crate::model::vision::{Clip, Medium, Spent};
use crate::model::{Model, ModelError, ModelPrompt, Part, Piece, Seen};
use crate::prompt::{Prompt, Segment};
use crate::task::Task;

/// Asks a model.
#[derive(Debug)]
pub struct ModelJudge {
    identity: Identity,
    model: Model,
    settings: Settings,
    /// Beginnings of prompts that were read.
    tree: Tree,
    /// What was seen of the last videos.
    sights: Sights,
    /// The model's tokens that write digits.
    numbers: Numbers,
    guides: Option<Box<dyn Guides>>,
}

impl ModelJudge {
    /// Loads a model and hashes its files.
    pub fn open(name: &str, settings: &Settings, on_bytes: &mut dyn FnMut(u64)) -> Result<Self, JudgeError> {
        let model = Model::load(name, &settings.load)?;
        if !model.has_template() && settings.load.template == crate::model::Template::Own {
            return Err(JudgeError::Model(ModelError::Option(format!(
                "{name}: the model has no chat template, so it was not made to follow instructions; name an instruct \
                 model, give its template with --chat-template FILE, or show prompts as they are with --chat-template none"
            ))));
        }
        // A template that cannot be used is found here, and not once for each record.
        model.prompt(None, &[Piece::Trusted("A".into()), Piece::Untrusted("B".into())].map(Part::Text))?;
        let sha256 = model.sha256(on_bytes)?;
        let sampling = settings.sampling;
        let mut parts = BTreeMap::from([
            ("arithmetic".to_owned(), settings.load.compute.name()),
            ("chat_template".to_owned(), if model.has_template() { "yes" } else { "none" }.to_owned()),
            ("max_tokens".to_owned(), settings.max_tokens.to_string()),
            ("quant".to_owned(), settings.load.quant.layers.map_or("as stored", name_of).to_owned()),
            ("temperature".to_owned(), sampling.temperature.to_string()),
        ]);
        for (name, quant) in [("quant_head", settings.load.quant.head), ("quant_tower", settings.load.quant.tower)] {
            parts.extend(quant.map(|quant| (name.to_owned(), name_of(quant).to_owned())));
        }
        parts.extend(settings.load.frame_pixels.map(|pixels| ("frame_pixels".to_owned(), pixels.to_string())));
        // At temperature 0 the others have no effect.
        if sampling.temperature > 0.0 {
            parts.insert("top_p".to_owned(), sampling.top_p.to_string());
            parts.insert("min_p".to_owned(), sampling.min_p.to_string());
            parts.insert("seed".to_owned(), sampling.seed.to_string());
        }
        let guided = settings.guided.unwrap_or(model.engine.parameters() < GUIDED_BELOW);
        if guided {
            parts.insert("guided".to_owned(), "yes".to_owned());
        }
        let identity = Identity { name: name.to_owned(), sha256, settings: parts };
        Ok(Self {
            identity,
            model,
            tree: Tree::new(settings.kept_bytes),
            sights: Sights::new(settings.kept_bytes.min(SIGHT_BYTES)),
            numbers: Numbers::default(),
            guides: guided.then(|| Box::new(TaskGuides::default()) as Box<dyn Guides>),
            settings: settings.clone(),
        })
    }

    /// A chat template that cannot show a video is found here, and not once for each record.
    fn check_template(&self) -> Result<(), JudgeError> {
        let gray = [127; 3 * 64 * 64];
        let views = View::new(64, 64, &gray).map(|view| vec![view; 2]).unwrap_or_default();
        let clip = Clip::of(views, vec![0.0, 1.0], 2.0).map_err(JudgeError::Unfit)?;
        let (before, after) = (Piece::Trusted("A".into()), Piece::Untrusted("B".into()));
        match self.model.prompt(None, &[Part::Text(before), Part::Shown(Medium::Video(clip)), Part::Text(after)]) {
            Err(error @ ModelError::Unsupported { .. }) => Err(error.into()),
            // That a clip does not fit the context is said of those that do not.
            _ => Ok(()),
        }
    }

    /// The model that it asks.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Gives the judge guides, which keep its answers to the format of a task.
    pub fn with_guides(mut self, guides: Box<dyn Guides>) -> Self {
        self.guides = Some(guides);
        self
    }
}

/// The segments of a prompt as parts of a message.
fn parts<'a>(prompt: &'a Prompt<'a>, frames: Option<&'a Frames>) -> Result<Vec<Part<'a>>, JudgeError> {
    let part = |segment: &'a Segment<'a>| match (segment, frames) {
        (Segment::Trusted(text), _) => Ok(Part::Text(Piece::Trusted(text.as_ref().into()))),
        (Segment::Untrusted(text), _) => Ok(Part::Text(Piece::Untrusted(text.as_ref().into()))),
        (Segment::Frames, Some(frames)) => {
            Clip::new(frames).map(|clip| Part::Shown(Medium::Video(clip))).map_err(JudgeError::NoAnswer)
        }
        (Segment::Frames, None) => Err(JudgeError::NoAnswer("there are no frames to show".to_owned())),
    };
    prompt.segments.iter().map(part).collect()
}

impl Judge for ModelJudge {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn sees_frames(&self) -> bool {
        self.model.sees()
    }

    fn check(&self, task: &Task) -> Result<(), JudgeError> {
        if let Some(guides) = &self.guides {
            guides.check(task, &self.model)?;
        }
        if task.spec.frames.is_none() {
            return Ok(());
        }
        if self.model.sees() {
            return self.check_template();
        }
        let (judge, task) = (&self.identity.name, &task.name);
        Err(JudgeError::Unfit(format!(
            "the task `{task}` shows frames, and {judge} is a language model that cannot see them; name a \
             vision-language model (`capjudge models list` shows some), or judge `hallucination` and `omission`, which \
             need no frames"
        )))
    }

    fn set_batch(&mut self, batch: usize) {
        self.settings.batch = batch;
    }

    fn answer(
        &mut self,
        question: &Question<'_>,
        on: &mut dyn FnMut(Said<'_>) -> ControlFlow<()>,
    ) -> Result<Answered, JudgeError> {
        let mut desk = OneQuestion { question: Some(question), on, answered: None };
        self.answer_all(&mut desk)?;
        desk.answered.unwrap_or_else(|| Err(JudgeError::NoAnswer("there was no question".to_owned())))
    }

    fn answer_all<'t>(&mut self, desk: &mut dyn Desk<'t>) -> Result<(), JudgeError> {
        let Self { model, settings, tree, sights, numbers, guides, .. } = self;
        let (model, settings) = (&*model, &*settings);
        let mut scheduler = Scheduler::new(&model.engine, &model.tokenizer, tree);
        let mut asked: HashMap<u64, Asked> = HashMap::new();
        let mut more = true;
        loop {
            while more && scheduler.len() < settings.batch {
                let Some(question) = desk.next() else {
                    more = false;
                    break;
                };
                let number = question.number;
                let mut admission = Admission { model, settings, sights, numbers, guides: guides.as_deref() };
                let prepared = admission.prepare(&question, &mut scheduler, &mut |said| desk.hear(number, said));
                // The frames' memory is free before the next ones' is taken.
                drop(question);
                let admitted = prepared.and_then(|prepared| {
                    let Some((request, asked)) = prepared else { return Ok(None) };
                    scheduler.admit(number, request).map_err(of_one)?;
                    Ok(Some(asked))
                });
                match admitted {
                    Ok(Some(new)) => {
                        asked.insert(number, new);
                    }
                    Ok(None) => desk.end(number, Ok(stopped())),
                    Err(error @ JudgeError::NoAnswer(_)) => desk.end(number, Err(error)),
                    Err(error) => return Err(error),
                }
            }
            if scheduler.is_empty() {
                return Ok(());
            }
            let ended = scheduler.step(&mut |number, event| {
                let asked = asked.get_mut(&number);
                match event {
                    Generating::Reading { done, of } => desk.hear(number, Said::Reading { done, of }),
                    // What the template wrote of the answer belongs to the answer: it says that a thought follows.
                    Generating::First(_) => match asked.and_then(|asked| asked.opening.take()) {
                        Some(text) => desk.hear(number, Said::Text(&text)),
                        None => ControlFlow::Continue(()),
                    },
                    Generating::Token(_, text) | Generating::Rest(text) => desk.hear(number, Said::Text(text)),
                }
            })?;
            if !ended.is_empty() {
                model.check_unchanged()?;
            }
            for (number, generated) in ended {
                let Some(asked) = asked.remove(&number) else { continue };
                match generated {
                    Ok(generated) => desk.end(number, Ok(asked.answered(generated))),
                    Err(error) => desk.end(number, Err(JudgeError::NoAnswer(error.to_string()))),
                }
            }
        }
    }
}

/// An error about one prompt or one answer leaves its record without a number; any other ends the run.
fn of_one(error: EngineError) -> JudgeError {
    match error {
        EngineError::Context { .. } => JudgeError::NoAnswer(error.to_string()),
        error => JudgeError::Engine(error),
    }
}

fn stopped() -> Answered {
    Answered { finish: Finish::Stop, scores: Vec::new(), effort: None }
}

/// What is kept of a question while it is being answered.
#[derive(Debug)]
struct Asked {
    /// What the answer begins with, until it has begun.
    opening: Option<String>,
    prompt_tokens: usize,
    /// The time that looking took.
    spent: Spent,
}

impl Asked {
    fn answered(self, generated: Generated) -> Answered {
        let finish = match generated.end {
            GenerationEnd::Limit => Finish::Length,
            GenerationEnd::Token | GenerationEnd::Stopped => Finish::Stop,
        };
        let effort = Effort {
            prompt_tokens: self.prompt_tokens as u64,
            reused_tokens: generated.reused as u64,
            answer_tokens: generated.tokens.len() as u64,
            vision_seconds: self.spent.pixels + self.spent.tower,
            pixels_seconds: self.spent.pixels,
            prompt_seconds: generated.prompt_seconds,
            answer_seconds: generated.decode_seconds,
        };
        Answered { finish, scores: generated.weighed, effort: Some(effort) }
    }
}

/// What turns a question into a request to the engine.
struct Admission<'a, 'm> {
    model: &'m Model,
    settings: &'a Settings,
    sights: &'a mut Sights,
    numbers: &'a Numbers,
    guides: Option<&'a dyn Guides>,
}

impl<'m> Admission<'_, 'm> {
    /// The request for a question; `None` if nobody wants an answer any more.
    fn prepare<'t: 'm>(
        &mut self,
        question: &Question<'t>,
        scheduler: &mut Scheduler<'m>,
        on: &mut dyn FnMut(Said<'_>) -> ControlFlow<()>,
    ) -> Result<Option<(Request<'m>, Asked)>, JudgeError> {
        let model = self.model;
        let parts = parts(&question.prompt, question.frames.as_ref().map(|sight| &*sight.frames))?;
        let prompt = model.prompt(None, &parts);
        let prompt = prompt.map_err(|error| JudgeError::NoAnswer(error.without_path()))?;
        let seen_as = question.frames.as_ref().map(|sight| key_of(sight, &prompt));
        let marks = if self.settings.reuse { marks(&prompt, seen_as.as_ref()) } else { Vec::new() };
        // Frames that were read behind this rubric need not be looked at: the reading begins behind them.
        let read = marks.iter().rfind(|mark| !mark.rubric).and_then(|mark| scheduler.kept(&mark.key));
        let (start, passages, spent) = match read {
            Some(start) => {
                let rest = prompt.tokens[start.length()..].to_vec();
                (start, vec![Passage::Tokens(rest)], Spent::default())
            }
            None => {
                let at_hand = marks.iter().rfind(|mark| !mark.rubric).and_then(|mark| scheduler.shown(&mark.key));
                let Some(seen) = self.see(&prompt, seen_as, at_hand, on)? else { return Ok(None) };
                let passages = prompt.stretches(&seen, 0).into_iter().map(|stretch| stretch.to_passage()).collect();
                (Prefix::default(), passages, seen.spent)
            }
        };
        let opening = prompt.opens_thought.clone();
        let max_tokens = self.settings.max_tokens.min(model.engine.context().saturating_sub(prompt.tokens.len()));
        let guide = self.guides.map(|guides| guides.guide(question, model, &prompt, max_tokens)).transpose()?.flatten();
        let name = format!("{}\0{}\0{}", question.task.name, question.id, question.attempt);
        let scale = Scale::new(question.task, opening.as_deref().unwrap_or_default(), &model.tokenizer, self.numbers);
        let request = Request {
            prompt: passages,
            start,
            marks,
            max_tokens: self.settings.max_tokens,
            ignore_end: false,
            sampler: Sampler::new(self.settings.sampling, &name),
            guide,
            weigh: scale.map(|scale| Box::new(scale) as Box<dyn Weigh + 'm>),
            speculate: self.settings.speculate,
        };
        Ok(Some((request, Asked { opening, prompt_tokens: prompt.tokens.len(), spent })))
    }

    /// What the model sees of a prompt's frames, from before or anew. `at_hand` is what it saw for an answer that is under
    /// way.
    fn see(
        &mut self,
        prompt: &ModelPrompt<'_>,
        key: Option<Key>,
        at_hand: Option<Vec<Visual>>,
        on: &mut dyn FnMut(Said<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Seen>, JudgeError> {
        let key = key.filter(|_| self.settings.reuse);
        let places = prompt.shown.iter().flat_map(|shown| shown.places.iter().cloned());
        if let Some(visuals) = at_hand.or_else(|| self.sights.get(key.as_ref()?)) {
            return Ok(Some(Seen { visuals: places.zip(visuals).collect(), ..Seen::default() }));
        }
        let Some(seen) = self.model.see(prompt, &mut |_, _| on(Said::Looking))? else { return Ok(None) };
        if let Some(key) = key {
            self.sights.keep(key, seen.visuals.iter().map(|(_, visual)| visual.clone()).collect());
        }
        Ok(Some(seen))
    }
}

/// The ends of a prompt's beginnings that others may have too: of the rubric, and of the frames behind it.
fn marks(prompt: &ModelPrompt<'_>, seen_as: Option<&Key>) -> Vec<Mark> {
    let key = |at: usize, seen_as: Option<&Key>| {
        let mut hasher = Sha256::new();
        prompt.tokens[..at].iter().for_each(|token| hasher.update(token.to_le_bytes()));
        seen_as.into_iter().for_each(|key| hasher.update(key));
        hasher.finalize().into()
    };
    let rubric = Some(prompt.shared).filter(|at| *at > 0);
    let frames = prompt.shown.last().and_then(|shown| shown.places.last()).map(|place| place.end);
    let rubric = rubric.map(|at| Mark { at, key: key(at, None), rubric: true });
    rubric.into_iter().chain(frames.map(|at| Mark { at, key: key(at, seen_as), rubric: false })).collect()
}

/// A desk with one question on it.
struct OneQuestion<'a, 'q, 't> {
    question: Option<&'a Question<'t>>,
    on: &'q mut dyn FnMut(Said<'_>) -> ControlFlow<()>,
    answered: Option<Result<Answered, JudgeError>>,
}

impl<'t> Desk<'t> for OneQuestion<'_, '_, 't> {
    fn next(&mut self) -> Option<Question<'t>> {
        self.question.take().cloned()
    }

    fn hear(&mut self, _: u64, said: Said<'_>) -> ControlFlow<()> {
        (self.on)(said)
    }

    fn end(&mut self, _: u64, answered: Result<Answered, JudgeError>) {
        self.answered = Some(answered);
    }
}
