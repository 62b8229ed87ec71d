//! Chat templates: what a model wants to read around a message.
//!
//! Invariant: a message's content never goes through the template. The template is run with a stand-in, its output is
//! cut there, and the content is put between the two parts. So what the template wrote stays trusted, data stays data,
//! and no template can look at a caption and act on it.
//!
//! Templates come with a model's files. They run with limits on size, steps, depth and output, without a clock, and on a
//! stack of their own. What a single expression may take of memory cannot be limited (attack 32).

mod python;

use std::borrow::Cow;
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

/// A prompt with all that the template puts around the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatPrompt<'a> {
    /// The pieces, none of them empty.
    pub pieces: Vec<Piece<'a>>,
    /// What opens the model's thoughts, if the prompt ends so: from `<think>` to the end of the prompt.
    pub opens_thought: Option<String>,
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

    /// The prompt for one user message, up to where the model's answer begins.
    pub fn render<'a>(&self, system: Option<&str>, content: &[Piece<'a>]) -> Result<ChatPrompt<'a>, ModelError> {
        let Edges { leading, trailing, inner } = Edges::of(content);
        let system = system.filter(|system| !system.trim().is_empty());
        let stand_in = self.stand_in(system);
        let message = format!("{leading}{stand_in}{trailing}");
        let text = self.on_deep_stack(|| self.run(system, &message))?;
        let places: Vec<usize> = text.match_indices(&stand_in).map(|(at, _)| at).collect();
        let [place] = places[..] else {
            let what = format!(
                "the chat template writes a user's message {} times, not once; templates that take messages only as \
                 lists of parts, or change their text, are not supported",
                places.len()
            );
            return Err(ModelError::unsupported(&self.path, what));
        };
        if system.is_some_and(|system| !text.contains(system.trim())) {
            let what = "the chat template leaves out the system message; leave it out yourself, or put its text into \
                        the user's message";
            return Err(ModelError::unsupported(&self.path, what));
        }
        let (before, after) = (text[..place].to_owned(), text[place + stand_in.len()..].to_owned());
        let opens_thought =
            after.trim_end().ends_with(THINK).then(|| after.rfind(THINK).map(|at| after[at..].to_owned()));
        let mut pieces = vec![Piece::Trusted(Cow::Owned(before))];
        pieces.extend(inner);
        pieces.push(Piece::Trusted(Cow::Owned(after)));
        pieces.retain(|piece| !piece.text().is_empty());
        Ok(ChatPrompt { pieces, opens_thought: opens_thought.flatten() })
    }

    /// A text that neither the template nor the system message contains, of characters that no filter changes.
    fn stand_in(&self, system: Option<&str>) -> String {
        let taken = |text: &str| self.source.contains(text) || system.is_some_and(|system| system.contains(text));
        let mut number = 0_u32;
        loop {
            let text = format!("\u{e000}{number}\u{e001}");
            if !taken(&text) {
                return text;
            }
            number += 1;
        }
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

    fn run(&self, system: Option<&str>, message: &str) -> Result<String, ModelError> {
        let mut messages = Vec::new();
        if let Some(system) = system {
            messages.push(context! { role => "system", content => system });
        }
        messages.push(context! { role => "user", content => message });
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
