//! The key-value part of a GGUF file.
//!
//! Invariant: a value of another type than the one asked for counts as absent.

use std::collections::BTreeMap;

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Any unsigned integer.
    Unsigned(u64),
    /// Any signed integer.
    Signed(i64),
    /// Any float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text. Under `tokenizer.` it is what the file holds, byte for byte; elsewhere, where it only describes the
    /// model, bytes that are not UTF-8 are shown as U+FFFD.
    Text(String),
    /// A list.
    Array(Array),
}

impl Value {
    /// What the value is, in a word for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unsigned(_) => "a whole number",
            Self::Signed(_) => "a signed whole number",
            Self::Float(_) => "a float",
            Self::Bool(_) => "a truth value",
            Self::Text(_) => "a text",
            Self::Array(_) => "a list",
        }
    }
}

/// A list of one type.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Integers of any width and sign.
    Integers(Vec<i64>),
    /// Floats; those of 64 bits are rounded to 32.
    Floats(Vec<f32>),
    /// Truth values.
    Bools(Vec<bool>),
    /// Texts, with the same promise as [`Value::Text`].
    Texts(Vec<String>),
}

/// All keys of a GGUF file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata(pub BTreeMap<String, Value>);

impl Metadata {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// A text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub fn unsigned(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Value::Unsigned(number) => Some(*number),
            Value::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// A number.
    pub fn float(&self, key: &str) -> Option<f64> {
        match self.get(key)? {
            Value::Float(number) => Some(*number),
            Value::Unsigned(number) => Some(*number as f64),
            Value::Signed(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// A truth value.
    pub fn bool(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// A list of texts.
    pub fn texts(&self, key: &str) -> Option<&[String]> {
        match self.get(key)? {
            Value::Array(Array::Texts(texts)) => Some(texts),
            _ => None,
        }
    }

    /// A list of whole numbers.
    pub fn integers(&self, key: &str) -> Option<&[i64]> {
        match self.get(key)? {
            Value::Array(Array::Integers(numbers)) => Some(numbers),
            _ => None,
        }
    }

    /// A list of floats.
    pub fn floats(&self, key: &str) -> Option<&[f32]> {
        match self.get(key)? {
            Value::Array(Array::Floats(numbers)) => Some(numbers),
            _ => None,
        }
    }
}
