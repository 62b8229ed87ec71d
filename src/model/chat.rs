//! Chat templates: what a model wants to read around a message.
//!
//! Invariant: a message's content never goes through the template. The template is run with stand-ins, its output is
//! cut there, and the content is put in between. So what the template wrote stays trusted, data stays data, and no
//! template can look at a caption and act on it. Where it writes the marker of a picture, the picture's layout is put;
//! a marker that no picture belongs to is an error.
//!
//! Templates come with a model's files. They run with limits on size, steps, depth and output, without a clock, and on a
//! stack of their own. What a single expression may take of memory cannot be limited (attack 32).

mod python;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;

use minijinja::{Environment, Error, ErrorKind, context};

use super::ModelError;
use super::gguf::Metadata;
use super::read::read_file;
use super::tokenizer::{Piece, SpecialText, of_type, read_json};

/// Known templates have less than half of it.
const MAX_TEMPLATE_BYTES: u64 = 64 << 10;
const MAX_SETTINGS_BYTES: u64 = 16 << 20;
/// Steps a template may take: many times what known templates need.
const MAX_STEPS: u64 = 100_000;
/// Expressions and values may be as deep as a template has characters and steps, and the engine walks them by recursion:
/// this is more than it can need. It is address space; memory is taken as the stack grows.
const STACK_BYTES: usize = 256 << 20;
const MAX_DEPTH: usize = 100;
const MAX_OUTPUT_BYTES: usize = 1 << 20;
const NAME: &str = "chat template";
const THINK: &str = "<think>";

/// A model's chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    path: PathBuf,
    source: String,
    special: SpecialText,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content<'a> {
    /// Text.
    Text(Piece<'a>),
    /// A picture or a video: as what a template has to write it, and what is put there.
    Shown {
        /// What it is.
        kind: Kind,
        /// What the template writes for it.
        marker: &'a str,
        /// What takes the place of that.
        layout: &'a str,
    },
}

/// What is shown, by the name that templates have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A picture.
    Image,
    /// A video.
    Video,
}

/// How templates want a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As a text.
    Text,
    /// As a list of parts, each with its type.
    Parts,
}

/// A prompt with all that the template puts around the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatPrompt<'a> {
    /// The pieces, none of them empty.
    pub pieces: Vec<Piece<'a>>,
    /// What opens the model's thoughts, if the prompt ends so: from `<think>` to the end of the prompt.
    pub opens_thought: Option<String>,
    /// How many of the pieces come before the first word of data and before anything that is shown.
    pub shared: usize,
}

impl<'a> ChatPrompt<'a> {
    /// A prompt of pieces, each with whether it is the layout of something that is shown.
    pub fn new(pieces: impl IntoIterator<Item = (Piece<'a>, bool)>, opens_thought: Option<String>) -> Self {
        let pieces: Vec<_> = pieces.into_iter().filter(|(piece, _)| !piece.text().is_empty()).collect();
        let own = |(piece, shown): &(Piece<'_>, bool)| *shown || matches!(piece, Piece::Untrusted(_));
        let shared = pieces.iter().position(own).unwrap_or(0);
        Self { pieces: pieces.into_iter().map(|(piece, _)| piece).collect(), opens_thought, shared }
    }
}

impl ChatTemplate {
    /// A template from its text; errors name `path`.
    pub fn new(source: String, path: &Path, special: SpecialText) -> Result<Self, ModelError> {
        if source.len() as u64 > MAX_TEMPLATE_BYTES {
            let what = format!("the chat template is larger than {} KiB, which none is", MAX_TEMPLATE_BYTES >> 10);
            return Err(ModelError::bad(path, what));
        }
        let template = Self { path: path.to_owned(), source, special };
        template.on_deep_stack(|| template.parse().map(drop))?;
        Ok(template)
    }

    /// The template of a Hugging Face folder; `None` if it has none.
    pub fn from_folder(folder: &Path, special: SpecialText) -> Result<Option<Self>, ModelError> {
        let jinja = folder.join("chat_template.jinja");
        if let Some(bytes) = read_file(&jinja, MAX_TEMPLATE_BYTES)? {
            let source = String::from_utf8(bytes).map_err(|_| ModelError::bad(&jinja, "not UTF-8 text"))?;
            return Self::new(source, &jinja, special).map(Some);
        }
        for name in ["chat_template.json", "tokenizer_config.json"] {
            let path = folder.join(name);
            let Some(value) = read_json(&path, MAX_SETTINGS_BYTES)? else { continue };
            let Some(value) = value.get("chat_template").filter(|value| !value.is_null()) else { continue };
            let in_list = || {
                let default = value.as_array()?.iter().find(|entry| entry["name"] == "default")?;
                default["template"].as_str()
            };
            let source = value.as_str().or_else(in_list).ok_or_else(|| {
                ModelError::bad(&path, "chat_template is neither a text nor a list with a template named \"default\"")
            })?;
            return Self::new(source.to_owned(), &path, special).map(Some);
        }
        Ok(None)
    }

    /// The template of a GGUF file; `None` if it has none.
    pub fn from_gguf(path: &Path, metadata: &Metadata, special: SpecialText) -> Result<Option<Self>, ModelError> {
        let source = of_type(path, metadata, "tokenizer.chat_template", "a text", Metadata::text)?;
        source.map(|source| Self::new(source.to_owned(), path, special)).transpose()
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The prompt for one user message, up to where the model's answer begins. A list of texts alone is read by every
    /// template of a model that sees; one of a model that does not takes [`Form::Text`].
    pub fn render<'a>(
        &self,
        system: Option<&str>,
        content: &[Content<'a>],
        form: Form,
    ) -> Result<ChatPrompt<'a>, ModelError> {
        let system = system.filter(|system| !system.trim().is_empty());
        let mut groups = groups(content);
        let stand_ins = self.stand_ins(system, groups.len());
        let text = {
            let parts = groups.iter().zip(&stand_ins).map(|(group, stand_in)| group.written(stand_in));
            let parts: Vec<Written> = parts.collect();
            self.on_deep_stack(|| self.run(system, &parts, form))?
        };
        if system.is_some_and(|system| !text.contains(system.trim())) {
            let what = "the chat template leaves out the system message; leave it out yourself, or put its text into \
                        the user's message";
            return Err(ModelError::unsupported(&self.path, what));
        }
        let places = self.places(&text, &groups, &stand_ins)?;
        let mut pieces = Vec::new();
        let mut at = 0;
        for (group, place) in groups.drain(..).zip(&places) {
            pieces.push((Piece::Trusted(Cow::Owned(text[at..place.start].to_owned())), false));
            match group {
                Group::Text(edges) => pieces.extend(edges.inner.into_iter().map(|piece| (piece, false))),
                Group::Shown { layout, .. } => pieces.push((Piece::Trusted(layout.into()), true)),
            }
            at = place.end;
        }
        let after = text[at..].to_owned();
        let opens_thought =
            after.trim_end().ends_with(THINK).then(|| after.rfind(THINK).map(|at| after[at..].to_owned()));
        pieces.push((Piece::Trusted(Cow::Owned(after)), false));
        Ok(ChatPrompt::new(pieces, opens_thought.flatten()))
    }

    /// Where each group of the content stands in what the template wrote: each once, in order, and nothing of its kind
    /// besides.
    fn places(&self, text: &str, groups: &[Group<'_>], stand_ins: &[String]) -> Result<Vec<Range<usize>>, ModelError> {
        let written = |group: &Group<'_>, stand_in: &String| match group {
            Group::Text(_) => stand_in.clone(),
            Group::Shown { marker, .. } => (*marker).to_owned(),
        };
        let expected: Vec<String> = groups.iter().zip(stand_ins).map(|(group, own)| written(group, own)).collect();
        let kinds: BTreeSet<&String> = expected.iter().collect();
        let mut found: Vec<Range<usize>> =
            kinds.iter().flat_map(|kind| text.match_indices(*kind).map(|(at, text)| at..at + text.len())).collect();
        found.sort_by_key(|place| place.start);
        let same =
            found.len() == expected.len() && found.iter().zip(&expected).all(|(at, own)| text[at.clone()] == **own);
        if same {
            return Ok(found);
        }
        let texts = || found.iter().filter(|at| stand_ins.iter().any(|own| text[(*at).clone()] == **own)).count();
        let what = match groups {
            [Group::Text(_)] => format!(
                "the chat template writes a user's message {} times, not once; templates that change a message's text, or \
                 that do not take the form of this kind of model (texts, or lists of parts), are not supported",
                texts()
            ),
            _ => {
                "the chat template does not write the texts, pictures and videos of a message once each and in order; \
                  is it the template of this model? (--chat-template FILE takes another one)"
                    .to_owned()
            }
        };
        Err(ModelError::unsupported(&self.path, what))
    }

    /// Texts that neither the template nor the system message contains, of characters that no filter changes.
    fn stand_ins(&self, system: Option<&str>, count: usize) -> Vec<String> {
        let taken = |text: &str| self.source.contains(text) || system.is_some_and(|system| system.contains(text));
        let texts = (0_u32..).map(|number| format!("\u{e000}{number}\u{e001}"));
        texts.filter(|text| !taken(text)).take(count).collect()
    }

    /// Runs what parses, renders or drops a template, all of which go as deep as the template does. A panic is an error;
    /// its own message still goes to standard error.
    fn on_deep_stack<T: Send>(&self, work: impl FnOnce() -> Result<T, ModelError> + Send) -> Result<T, ModelError> {
        thread::scope(|scope| {
            let thread = thread::Builder::new().name(NAME.to_owned()).stack_size(STACK_BYTES);
            let thread = thread.spawn_scoped(scope, work).map_err(|error| ModelError::io(&self.path, error))?;
            thread.join().unwrap_or_else(|_| {
                Err(ModelError::bad(&self.path, "the chat template makes the template engine fail; is it damaged?"))
            })
        })
    }

    /// The parsed template. It is not kept: it must not be dropped on another stack, and to parse it takes no time beside
    /// what a model takes to read its text.
    fn parse(&self) -> Result<Environment<'static>, ModelError> {
        let mut environment = python::environment();
        environment.set_fuel(Some(MAX_STEPS));
        environment.set_recursion_limit(MAX_DEPTH);
        environment.add_template_owned(NAME, python::without_generation_tags(&self.source)).map_err(|error| {
            ModelError::bad(&self.path, format!("the chat template cannot be read: {}", told(&error)))
        })?;
        Ok(environment)
    }

    fn run(&self, system: Option<&str>, message: &[Written], form: Form) -> Result<String, ModelError> {
        let content = |parts: &[Written]| match form {
            Form::Text => parts.iter().map(Written::text).collect::<String>().into(),
            Form::Parts => parts.iter().map(Written::part).collect::<minijinja::Value>(),
        };
        let mut messages = Vec::new();
        if let Some(system) = system {
            messages.push(context! { role => "system", content => content(&[Written::Text(system.to_owned())]) });
        }
        messages.push(context! { role => "user", content => content(message) });
        let mut variables = vec![
            ("messages", minijinja::Value::from(messages)),
            ("tools", minijinja::Value::from(())),
            ("documents", minijinja::Value::from(())),
            ("add_generation_prompt", minijinja::Value::from(true)),
        ];
        for (name, text) in [("bos_token", &self.special.bos), ("eos_token", &self.special.eos)] {
            variables.extend(text.as_ref().map(|text| (name, minijinja::Value::from(text.as_str()))));
        }
        let variables: minijinja::Value = variables.into_iter().collect();
        let mut output = python::Limited::new(MAX_OUTPUT_BYTES);
        let environment = self.parse()?;
        let done = environment.get_template(NAME).and_then(|template| {
            template.render_captured_to(variables, &mut output)?;
            Ok(())
        });
        match done {
            Ok(()) => String::from_utf8(output.bytes)
                .map_err(|_| ModelError::bad(&self.path, "the chat template writes no UTF-8")),
            Err(_) if output.full => Err(ModelError::bad(
                &self.path,
                format!("the chat template writes more than {MAX_OUTPUT_BYTES} bytes; is it damaged?"),
            )),
            Err(error) if error.kind() == ErrorKind::OutOfFuel => Err(ModelError::bad(
                &self.path,
                format!("the chat template takes more than {MAX_STEPS} steps; is it damaged?"),
            )),
            Err(error) => {
                let hint = match system {
                    Some(_) if python::is_raised(&error) => "; if it takes no system message, leave that out",
                    _ => "",
                };
                Err(ModelError::unsupported(&self.path, format!("the chat template fails: {}{hint}", told(&error))))
            }
        }
    }
}

/// An error of the template engine: what, and in which line.
fn told(error: &Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()));
    error.line().map_or(what.clone(), |line| format!("{what} (line {line})"))
}

/// What stands together in a message: a run of texts, or something that is shown.
enum Group<'a> {
    Text(Edges<'a>),
    Shown { kind: Kind, marker: &'a str, layout: &'a str },
}

/// A group as a template gets it.
enum Written {
    Text(String),
    Image,
    Video,
}

impl Group<'_> {
    fn written(&self, stand_in: &str) -> Written {
        match self {
            Self::Text(Edges { leading, trailing, .. }) => Written::Text(format!("{leading}{stand_in}{trailing}")),
            Self::Shown { kind: Kind::Image, .. } => Written::Image,
            Self::Shown { kind: Kind::Video, .. } => Written::Video,
        }
    }
}

impl Written {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Image | Self::Video => "",
        }
    }

    fn part(&self) -> minijinja::Value {
        match self {
            Self::Text(text) => context! { type => "text", text => text },
            Self::Image => context! { type => "image" },
            Self::Video => context! { type => "video" },
        }
    }
}

/// The groups of a message. A message without any has one empty text.
fn groups<'a>(content: &[Content<'a>]) -> Vec<Group<'a>> {
    let mut groups = Vec::new();
    let mut texts: Vec<Piece<'a>> = Vec::new();
    let close = |texts: &mut Vec<Piece<'a>>, groups: &mut Vec<Group<'a>>| {
        if !texts.is_empty() {
            groups.push(Group::Text(Edges::of(texts)));
            texts.clear();
        }
    };
    for part in content {
        match part {
            Content::Text(piece) => texts.push(piece.clone()),
            Content::Shown { kind, marker, layout } => {
                close(&mut texts, &mut groups);
                groups.push(Group::Shown { kind: *kind, marker, layout });
            }
        }
    }
    close(&mut texts, &mut groups);
    if groups.is_empty() {
        groups.push(Group::Text(Edges::of(&[])));
    }
    groups
}

/// Content with the white space of its trusted ends set apart, for the template to keep or to trim.
struct Edges<'a> {
    leading: String,
    trailing: String,
    inner: Vec<Piece<'a>>,
}

impl<'a> Edges<'a> {
    fn of(content: &[Piece<'a>]) -> Self {
        let mut inner: Vec<Piece<'a>> = content.iter().filter(|piece| !piece.text().is_empty()).cloned().collect();
        let mut leading = String::new();
        while let Some(Piece::Trusted(text)) = inner.first_mut() {
            let kept = text.trim_start();
            leading.push_str(&text[..text.len() - kept.len()]);
            if !kept.is_empty() {
                *text = Cow::Owned(kept.to_owned());
                break;
            }
            inner.remove(0);
        }
        let mut trailing = String::new();
        while let Some(Piece::Trusted(text)) = inner.last_mut() {
            let kept = text.trim_end();
            trailing.insert_str(0, &text[kept.len()..]);
            if !kept.is_empty() {
                *text = Cow::Owned(kept.to_owned());
                break;
            }
            inner.pop();
        }
        Self { leading, trailing, inner }
    }
}
