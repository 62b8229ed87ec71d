//! From a message to what the engine reads: tokens, and pictures in the place of placeholders.
//!
//! Invariant: a row of a picture stands exactly where its own layout put a placeholder. No text can take a picture's place
//! or add one: data never becomes a placeholder, and a trusted text that does is refused.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};

use super::chat::{ChatPrompt, Content, Form, Kind};
use super::tokenizer::MAX_TEXT_BYTES;
use super::vision::{Marker, Medium, Plan, Spent, Vision, see};
use super::{Model, ModelError, Piece, TokenId};
use crate::engine::{Stretch, Visual, stretches};

/// A part of a message.
#[derive(Debug, Clone)]
pub enum Part<'a> {
    /// Text.
    Text(Piece<'a>),
    /// Something to look at.
    Shown(Medium<'a>),
}

/// A prompt as the model gets it.
#[derive(Debug, Clone)]
pub struct ModelPrompt<'a> {
    /// All tokens, placeholders among them.
    pub tokens: Vec<TokenId>,
    /// How many of them come before the first word of data or the first picture: the same for all prompts of a task.
    pub shared: usize,
    /// The opening of a thought that the prompt ends with.
    pub opens_thought: Option<String>,
    /// What is shown, in order.
    pub shown: Vec<Shown<'a>>,
}

/// A medium in a prompt.
#[derive(Debug, Clone)]
pub struct Shown<'a> {
    /// The medium.
    pub medium: Medium<'a>,
    /// How it is laid out.
    pub plan: Plan,
    /// The tokens that its runs of rows take the place of.
    pub places: Vec<Range<usize>>,
}

/// What a model saw of a prompt's pictures.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Rows, and the tokens that they take the place of.
    pub visuals: Vec<(Range<usize>, Visual)>,
    /// How long that took.
    pub spent: Spent,
}

impl ModelPrompt<'_> {
    /// A prompt of tokens alone.
    pub fn of_tokens(tokens: Vec<TokenId>) -> Self {
        Self { tokens, shared: 0, opens_thought: None, shown: Vec::new() }
    }

    /// The prompt from its token `from` on, as the engine reads it.
    pub fn stretches<'s>(&'s self, seen: &'s Seen, from: usize) -> Vec<Stretch<'s>> {
        stretches(&self.tokens, from, seen.visuals.iter().map(|(place, visual)| (place.clone(), visual)))
    }
}

impl Model {
    /// The prompt for a message, through the chat template if there is one.
    pub fn prompt<'a>(&self, system: Option<&str>, parts: &[Part<'a>]) -> Result<ModelPrompt<'a>, ModelError> {
        self.check_system(system)?;
        let mut shown = self.planned(parts)?;
        let mut plans = shown.iter();
        let content = parts.iter().map(|part| match part {
            Part::Text(piece) => Ok(Content::Text(piece.clone())),
            Part::Shown(medium) => {
                let (kind, marker) = self.marker(medium)?;
                let layout = plans.next().map_or("", |shown| shown.plan.layout.as_str());
                Ok(Content::Shown { kind, marker: marker.written.as_str(), layout })
            }
        });
        let content = content.collect::<Result<Vec<_>, ModelError>>()?;
        let (ChatPrompt { pieces, opens_thought, shared }, bos) = self.written(system, parts, &content)?;
        let encode = |pieces: &[Piece<'_>]| {
            let tokens = self.tokenizer.encode(pieces)?;
            Ok::<Vec<TokenId>, ModelError>(bos.into_iter().chain(tokens).collect())
        };
        let tokens = encode(&pieces)?;
        if let Some(token) = tokens.iter().find(|token| **token as usize >= self.engine.vocabulary()) {
            let name = self.tokenizer.token(*token).unwrap_or_default();
            return Err(ModelError::Option(format!(
                "the prompt has the token {name:?}, which the weights do not know"
            )));
        }
        let places = places(self.vision.as_deref(), &tokens, &shown)?;
        // A layout may begin with words, which can join with those before them.
        let beginning = encode(&pieces[..shared])?;
        let common = beginning.iter().zip(&tokens).take_while(|(a, b)| a == b).count();
        let shared = common.min(tokens.len().saturating_sub(1));
        self.check_fits(tokens.len(), &shown)?;
        shown.iter_mut().zip(places).for_each(|(shown, places)| shown.places = places);
        Ok(ModelPrompt { tokens, shared, opens_thought, shown })
    }

    /// Looks at what a prompt shows. `on` hears how many frames, or steps of them, of how many are done; `None` if it wants
    /// no more.
    pub fn see(
        &self,
        prompt: &ModelPrompt<'_>,
        on: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Option<Seen>, ModelError> {
        let all = prompt.shown.iter().map(|shown| shown.plan.grid[0]).sum();
        let mut before = 0;
        let mut seen = Seen::default();
        for Shown { medium, plan, places } in &prompt.shown {
            let Some(vision) = &self.vision else { return Err(blind()) };
            let on = &mut |done| on(before + done, all);
            let visuals = see(vision.as_ref(), medium, plan, &mut seen.spent, on)?;
            let Some(visuals) = visuals else { return Ok(None) };
            before += plan.grid[0];
            seen.visuals.extend(places.iter().cloned().zip(visuals));
        }
        Ok(Some(seen))
    }

    /// Whether it can be shown anything.
    pub fn sees(&self) -> bool {
        self.vision.is_some()
    }

    /// Plans for all that is shown; an error before anything large is made if they do not fit the context.
    fn planned<'a>(&self, parts: &[Part<'a>]) -> Result<Vec<Shown<'a>>, ModelError> {
        let mut shown = Vec::new();
        for part in parts {
            let Part::Shown(medium) = part else { continue };
            let vision = self.vision.as_ref().ok_or_else(blind)?;
            if let Some(frame) = medium.frames().iter().find(|frame| frame.width().max(frame.height()) > LONGEST_SIDE) {
                let (width, height) = (frame.width(), frame.height());
                let what =
                    format!("the picture is {width} × {height} pixels; no side may be longer than {LONGEST_SIDE}");
                return Err(ModelError::Option(what));
            }
            let plan = vision.plan(medium).map_err(ModelError::Option)?;
            shown.push(Shown { medium: medium.clone(), plan, places: Vec::new() });
            self.check_fits(shown.iter().map(|shown| shown.plan.rows()).sum(), &shown)?;
        }
        if shown.iter().map(|shown| shown.plan.layout.len()).sum::<usize>() > MAX_TEXT_BYTES {
            let what = "the pictures take more places in the prompt than can be read; show fewer or smaller ones";
            return Err(ModelError::Option(what.to_owned()));
        }
        Ok(shown)
    }

    /// A system message that names what stands for pictures could take one's place.
    fn check_system(&self, system: Option<&str>) -> Result<(), ModelError> {
        let (Some(vision), Some(system)) = (&self.vision, system) else { return Ok(()) };
        match vision.markers().all().find(|marker| system.contains(marker.placeholder.text)) {
            Some(marker) => Err(ModelError::Option(format!(
                "the system message has {}, which stands for a picture; leave it out",
                marker.placeholder.text
            ))),
            None => Ok(()),
        }
    }

    fn check_fits(&self, tokens: usize, shown: &[Shown<'_>]) -> Result<(), ModelError> {
        let context = self.engine.context();
        if tokens < context || shown.is_empty() {
            return Ok(());
        }
        let rows: usize = shown.iter().map(|shown| shown.plan.rows()).sum();
        let pictures: usize = shown.iter().map(|shown| shown.medium.frames().len()).sum();
        Err(ModelError::Option(format!(
            "the prompt takes {tokens} places or more, {rows} of them for {pictures} pictures, and the model's context \
             has {context}; show fewer frames (--frames N) or smaller ones"
        )))
    }

    /// What stands for a medium.
    fn marker(&self, medium: &Medium<'_>) -> Result<(Kind, &Marker), ModelError> {
        let markers = self.vision.as_ref().ok_or_else(blind)?.markers();
        Ok(match (medium, &markers.video) {
            (Medium::Video(_), Some(video)) => (Kind::Video, video),
            _ => (Kind::Image, &markers.image),
        })
    }

    /// The text of a prompt, and the token before it.
    fn written<'a>(
        &self,
        system: Option<&str>,
        parts: &[Part<'_>],
        content: &[Content<'a>],
    ) -> Result<(ChatPrompt<'a>, Option<TokenId>), ModelError> {
        let form = if self.sees() { Form::Parts } else { Form::Text };
        let has_video = parts.iter().any(|part| matches!(part, Part::Shown(Medium::Video(_))));
        let for_video = self.video_template.as_ref().filter(|_| has_video);
        if let Some(template) = for_video.or(self.template.as_ref()) {
            return Ok((template.render(system, content, form)?, None));
        }
        let mut pieces: Vec<(Piece<'a>, bool)> = Vec::new();
        pieces.extend(system.map(|system| (Piece::Trusted(format!("{system}\n\n").into()), false)));
        for (part, content) in parts.iter().zip(content) {
            match (part, content) {
                (Part::Shown(medium), Content::Shown { layout, .. }) => {
                    let (before, after) = self.marker(medium)?.1.around;
                    pieces.push((Piece::Trusted(format!("{before}{layout}{after}").into()), true));
                }
                (_, Content::Text(piece)) => pieces.push((piece.clone(), false)),
                _ => {}
            }
        }
        let bos = self.tokenizer.bos().filter(|_| self.tokenizer.adds_bos());
        Ok((ChatPrompt::new(pieces, None), bos))
    }
}

/// The longest side of a picture: what JPEG has, and more than any camera.
const LONGEST_SIDE: usize = 65_535;

fn blind() -> ModelError {
    ModelError::Option(
        "this model reads text only and cannot be shown pictures; name a vision-language model".to_owned(),
    )
}

/// The placeholders of each run of all that is shown.
fn places(
    vision: Option<&dyn Vision>,
    tokens: &[TokenId],
    shown: &[Shown<'_>],
) -> Result<Vec<Vec<Range<usize>>>, ModelError> {
    let Some(vision) = vision else { return Ok(Vec::new()) };
    let is_placeholder = |token: &TokenId| vision.markers().all().any(|marker| marker.placeholder.token == *token);
    let wrong = || {
        let names: BTreeSet<&str> = vision.markers().all().map(|marker| marker.placeholder.text).collect();
        let names: Vec<&str> = names.into_iter().collect();
        ModelError::Option(format!(
            "the text has {}, which stands for a picture, where no picture is; leave it out",
            names.join(" or ")
        ))
    };
    // Runs may touch each other. All placeholders are taken in order, so one too many is left over at the end.
    let mut at = 0;
    let mut next = |count: usize| {
        let start = at + tokens[at..].iter().position(is_placeholder)?;
        let run = tokens.get(start..start + count)?;
        at = start + count;
        run.iter().all(|token| *token == run[0]).then_some(start..at)
    };
    let mut of_plan = |plan: &Plan| plan.runs.iter().map(|run| next(run.positions.len())).collect::<Option<_>>();
    let found = shown.iter().map(|shown| of_plan(&shown.plan)).collect::<Option<_>>().ok_or_else(wrong)?;
    if tokens[at..].iter().any(is_placeholder) {
        return Err(wrong());
    }
    Ok(found)
}
