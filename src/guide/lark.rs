//! Grammars as text, in the dialect of Lark that llguidance reads.
//!
//! Invariant: what a task's author wrote is always inside quotation marks or escaped, so it can never be grammar.

use std::fmt::Write;

/// A grammar that is being written.
#[derive(Debug, Default)]
pub struct Lark {
    text: String,
}

impl Lark {
    /// Adds a rule (lower case) or a terminal (upper case).
    pub fn define(&mut self, name: &str, body: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{name}: {body}");
    }

    /// Adds a comment for people.
    pub fn comment(&mut self, text: &str) {
        let _ = writeln!(self.text, "// {text}");
    }

    /// The grammar.
    pub fn finish(self) -> String {
        self.text
    }
}

/// A literal.
pub fn quoted(text: &str) -> String {
    // A JSON string is a Lark string; a control character that JSON lets pass is refused where layouts are read.
    serde_json::Value::from(text).to_string()
}

/// Any of some literals.
pub fn any_of(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| quoted(text.as_ref())).collect();
    format!("({})", texts.join(" | "))
}

/// A text as a regular expression that matches it alone.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~/".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
