//! A judge that is a language model on this machine.
//!
//! Invariant: an answer depends on the model, the settings and the question, and on nothing that was asked before.
//! What prompts have in common is read once and kept, which changes the time an answer takes and no bit of it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{Answered, Effort, Identity, Judge, JudgeError, Question, Said, Settings};
use crate::answer::Finish;
use crate::engine::{EngineError, Generating, Generation, GenerationEnd, Prefix, Sampler, Stretch, generate, prefill};
use crate::media::Frames;
use crate::model::quantise::name_of;
use crate::model::vision::pixels::View;
use crate::model::vision::{Clip, Medium};
use crate::model::{Model, ModelError, Part, Piece, TokenId};
use crate::prompt::{Prompt, Segment};
use crate::task::Task;

/// Asks a model.
#[derive(Debug)]
pub struct ModelJudge {
    identity: Identity,
    model: Model,
    settings: Settings,
    /// The beginning of the last prompt, read.
    rubric: Option<(Vec<TokenId>, Prefix)>,
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
        let identity = Identity { name: name.to_owned(), sha256, settings: parts };
        Ok(Self { identity, model, settings: settings.clone(), rubric: None })
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

    /// The beginning of a prompt, read: from before, or anew. `None` if nobody wants more.
    fn read_rubric(
        &mut self,
        tokens: &[TokenId],
        on: &mut dyn FnMut(Generating<'_>) -> ControlFlow<()>,
    ) -> Result<Option<(Prefix, bool)>, EngineError> {
        if !self.settings.reuse || tokens.is_empty() {
            return Ok(Some((Prefix::default(), false)));
        }
        if let Some((_, prefix)) = self.rubric.as_ref().filter(|(read, _)| read == tokens) {
            return Ok(Some((prefix.clone(), true)));
        }
        // The old one's memory is free before the new one's is taken.
        self.rubric = None;
        let Some(prefix) = prefill(&self.model.engine, &[Stretch::Tokens(tokens)], on)? else { return Ok(None) };
        self.rubric = Some((tokens.to_vec(), prefix.clone()));
        Ok(Some((prefix, false)))
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

    fn answer(
        &mut self,
        question: &Question<'_>,
        on: &mut dyn FnMut(Said<'_>) -> ControlFlow<()>,
    ) -> Result<Answered, JudgeError> {
        let parts = parts(question.prompt, question.frames)?;
        let prompt = self.model.prompt(None, &parts);
        let prompt = prompt.map_err(|error| JudgeError::NoAnswer(error.without_path()))?;
        let first = &prompt.tokens[..if self.settings.reuse { prompt.shared } else { 0 }];
        let stopped = Answered { finish: Finish::Stop, effort: None };
        let too_long = |error: EngineError| match error {
            EngineError::Context { .. } => JudgeError::NoAnswer(error.to_string()),
            error => JudgeError::Engine(error),
        };
        let length = prompt.tokens.len();
        let mut reading = |event: Generating<'_>| match event {
            Generating::Reading { done, .. } => on(Said::Reading { done, of: length }),
            _ => ControlFlow::Continue(()),
        };
        let start = std::time::Instant::now();
        let read = self.read_rubric(first, &mut reading).map_err(too_long)?;
        let Some((prefix, reused)) = read else { return Ok(stopped) };
        let rubric_seconds = start.elapsed().as_secs_f64();
        let Some(seen) = self.model.see(&prompt, &mut |_, _| on(Said::Looking))? else { return Ok(stopped) };
        let rest = prompt.stretches(&seen, first.len());
        // What the template wrote of the answer belongs to the answer: it says that what follows is a thought.
        let mut opening = prompt.opens_thought.as_deref();
        let name = format!("{}\0{}\0{}", question.task, question.id, question.attempt);
        let mut sampler = Sampler::new(self.settings.sampling, &name);
        let what =
            Generation { prefix: &prefix, prompt: &rest, max_tokens: self.settings.max_tokens, ignore_end: false };
        let out = generate(&self.model.engine, &self.model.tokenizer, &what, &mut sampler, &mut |event| match event {
            Generating::Reading { done, .. } => on(Said::Reading { done: first.len() + done, of: length }),
            Generating::First(_) => opening.take().map_or(ControlFlow::Continue(()), |text| on(Said::Text(text))),
            Generating::Token(_, text) | Generating::Rest(text) => on(Said::Text(text)),
        })
        .map_err(too_long)?;
        self.model.check_unchanged()?;
        let finish = match out.end {
            GenerationEnd::Limit => Finish::Length,
            GenerationEnd::Token | GenerationEnd::Stopped => Finish::Stop,
        };
        let effort = Effort {
            prompt_tokens: length as u64,
            reused_tokens: if reused { first.len() as u64 } else { 0 },
            answer_tokens: out.tokens.len() as u64,
            vision_seconds: seen.spent.pixels + seen.spent.tower,
            pixels_seconds: seen.spent.pixels,
            prompt_seconds: rubric_seconds + out.prompt_seconds,
            answer_seconds: out.decode_seconds,
        };
        Ok(Answered { finish, effort: Some(effort) })
    }
}
