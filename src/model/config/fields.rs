//! The fields of a `config.json`, each with the type that is asked for or an error that names it.

use serde_json::Value;

/// The fields of a JSON object.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a Value);

impl<'a> Fields<'a> {
    /// A field that is there and not null.
    pub fn optional(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A field that has to be there.
    pub fn required(&self, name: &str) -> Result<&'a Value, String> {
        self.optional(name).ok_or_else(|| format!("`{name}` is missing"))
    }

    /// A text.
    pub fn text(&self, name: &str) -> Result<&'a str, String> {
        self.required(name)?.as_str().ok_or_else(|| format!("`{name}` is not a text"))
    }

    /// A whole number.
    pub fn size(&self, name: &str) -> Result<usize, String> {
        let number = self.required(name)?.as_u64().and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| format!("`{name}` is not a whole number"))
    }

    /// Yes or no, where it is said.
    pub fn truth(&self, name: &str) -> Result<Option<bool>, String> {
        let truth = |value: &Value| value.as_bool().ok_or_else(|| format!("`{name}` is neither true nor false"));
        self.optional(name).map(truth).transpose()
    }

    /// A number.
    pub fn number(&self, name: &str) -> Result<f64, String> {
        self.required(name)?.as_f64().ok_or_else(|| format!("`{name}` is not a number"))
    }

    /// Whether a field is there.
    pub fn has(&self, name: &str) -> bool {
        self.optional(name).is_some()
    }

    /// A whole number, or a default where there is none.
    pub fn size_or(&self, name: &str, default: usize) -> Result<usize, String> {
        if self.has(name) { self.size(name) } else { Ok(default) }
    }

    /// A number, or a default where there is none.
    pub fn number_or(&self, name: &str, default: f64) -> Result<f64, String> {
        if self.has(name) { self.number(name) } else { Ok(default) }
    }

    /// A text, or a default where there is none.
    pub fn text_or(&self, name: &str, default: &'a str) -> Result<&'a str, String> {
        if self.has(name) { self.text(name) } else { Ok(default) }
    }

    /// A list of whole numbers, or a default where there is none.
    pub fn list_or(&self, name: &str, default: &[usize]) -> Result<Vec<usize>, String> {
        let Some(value) = self.optional(name) else { return Ok(default.to_vec()) };
        let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
        let numbers = value.as_array().and_then(|list| list.iter().map(number).collect());
        numbers.ok_or_else(|| format!("`{name}` is not a list of whole numbers"))
    }

    /// An object.
    pub fn object(&self, name: &str) -> Result<Fields<'a>, String> {
        let value = self.required(name)?;
        if value.is_object() { Ok(Fields(value)) } else { Err(format!("`{name}` is not an object")) }
    }
}
