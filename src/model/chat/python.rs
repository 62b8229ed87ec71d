//! Templates are written for Jinja in Python; this is what they find of it here.
//!
//! Invariant: the same template and the same messages give the same text at any time. There is no clock: without
//! `strftime_now` templates fall back on a fixed date, or say that they cannot do without.
//!
//! Filters that make long texts of short ones refuse to. Joining texts cannot be limited here.

use std::io;

use minijinja::value::{Kwargs, Rest, StringInput, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, filters};
use minijinja_contrib::pycompat;
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

const RAISED: &str = "the template says: ";
/// The longest text that a filter may make by filling up.
const MAX_FILLED_BYTES: usize = 1 << 20;

/// An environment as transformers sets it up.
pub fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(method);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, format!("{RAISED}{message}")))
    });
    environment.add_filter("tojson", to_json);
    environment.add_filter("indent", indent);
    environment.add_filter("format", format_printf);
    environment
}

/// The methods of Python's values.
fn method(state: &State<'_, '_>, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    if let ("format", Some(format)) = (name, value.as_str()) {
        check_widths(format)?;
    }
    pycompat::unknown_method_callback(state, value, name, arguments)
}

/// `indent`, within bounds.
fn indent(
    text: StringInput<'_>,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<Value, Error> {
    let longest = width.or(options.peek::<Option<usize>>("width").ok().flatten()).unwrap_or_default();
    let lines = text.as_str().split('\n').count();
    check_length(lines.saturating_mul(longest).saturating_add(text.as_str().len()))?;
    filters::indent(text, width, first, blank, options)
}

/// `format`, within bounds.
fn format_printf(state: &State<'_, '_>, format: &Value, arguments: Rest<Value>) -> Result<Value, Error> {
    check_widths(format.as_str().unwrap_or_default())?;
    filters::format(state, format, arguments)
}

/// Refuses a format whose widths and precisions make too long a text.
fn check_widths(format: &str) -> Result<(), Error> {
    let numbers = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let widths = numbers.map(|digits| digits.parse().unwrap_or(usize::MAX));
    check_length(widths.fold(format.len(), usize::saturating_add))
}

fn check_length(bytes: usize) -> Result<(), Error> {
    if bytes <= MAX_FILLED_BYTES {
        return Ok(());
    }
    let what = format!("a text of more than {MAX_FILLED_BYTES} bytes would be made");
    Err(Error::new(ErrorKind::InvalidOperation, what))
}

/// Whether an error is the template's own.
pub fn is_raised(error: &Error) -> bool {
    error.detail().is_some_and(|detail| detail.starts_with(RAISED))
}

/// Takes out `{% generation %}` and its end: they mark answers in training, and write nothing.
pub fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let tag = &rest[start..start + length + 2];
        let name = tag.trim_matches(['{', '}', '%', '-', '+']).trim();
        out.push_str(&rest[..start]);
        if name == "generation" || name == "endgeneration" {
            // An empty comment trims the white space around it as the tag would.
            let (open, close) =
                (if tag.starts_with("{%-") { "-" } else { "" }, if tag.ends_with("-%}") { "-" } else { "" });
            out.push_str(&format!("{{#{open} {close}#}}"));
        } else {
            out.push_str(tag);
        }
        rest = &rest[start + length + 2..];
    }
    out.push_str(rest);
    out
}

/// As `json.dumps` with `ensure_ascii=False` writes it.
fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let failed = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, error.to_string());
    let value = serde_json::to_value(value).map_err(failed)?;
    let indent: Option<usize> = options.get("indent")?;
    let mut out = Vec::new();
    match indent {
        Some(indent) => {
            let indent = " ".repeat(indent.min(16));
            let formatter = PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut out, formatter)).map_err(failed)?;
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut out, OneLine)).map_err(failed)?,
    }
    String::from_utf8(out).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

/// A space behind every comma and colon.
struct OneLine;

impl serde_json::ser::Formatter for OneLine {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// Output that stops taking more.
pub struct Limited {
    pub bytes: Vec<u8>,
    pub full: bool,
    limit: usize,
}

impl Limited {
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), full: false, limit }
    }
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            self.full = true;
            return Err(io::Error::other("too much output"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
