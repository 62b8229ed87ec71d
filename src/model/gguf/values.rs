//! Reads keys and values.
//!
//! Invariant: no value is changed in silence. What a type here cannot hold is refused by the key's name. Text that is
//! not UTF-8 is refused under `tokenizer.`, where replacing bytes would turn two tokens into one; elsewhere text only
//! describes the model, and a stray byte in a description is no reason to refuse its weights.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::cursor::Cursor;
use super::metadata::{Array, Metadata, Value};
use crate::model::ModelError;

/// The fewest bytes that a key and its value take: a length, one letter, a type, one byte.
pub(super) const SMALLEST: u64 = 8 + 1 + 4 + 1;

/// The longest key.
const LONGEST_KEY: usize = 1024;

/// The most items that all lists of a file may have together: a file of bytes must not become eight times as large in
/// memory. The largest vocabularies have fewer than two million items in all of their lists.
const MOST_ITEMS: u64 = 1 << 23;

/// Reads as many keys and values as the header says there are.
pub(super) fn read(cursor: &mut Cursor<'_>, count: usize) -> Result<Metadata, ModelError> {
    let mut keys = BTreeMap::new();
    let mut items_left = MOST_ITEMS;
    for number in 1..=count {
        let key = cursor.name(format_args!("the name of key {number} of {count}"), LONGEST_KEY)?;
        let value = Reader { cursor, key: &key, items_left: &mut items_left }.value()?;
        match keys.entry(key) {
            Entry::Vacant(entry) => entry.insert(value),
            Entry::Occupied(entry) => {
                let key = entry.key().escape_debug();
                return Err(cursor.bad(format!("key `{key}` is there twice; convert the model again")));
            }
        };
    }
    Ok(Metadata(keys))
}

/// Reads the value of one key.
struct Reader<'r, 'a> {
    cursor: &'r mut Cursor<'a>,
    key: &'r str,
    items_left: &'r mut u64,
}

impl<'a> Reader<'_, 'a> {
    fn value(&mut self) -> Result<Value, ModelError> {
        let kind = self.cursor.u32(format_args!("the type of key `{}`", self.key.escape_debug()))?;
        Ok(match kind {
            0 => Value::Unsigned(self.fixed::<1>()?[0].into()),
            1 => Value::Signed(i8::from_le_bytes(self.fixed()?).into()),
            2 => Value::Unsigned(u16::from_le_bytes(self.fixed()?).into()),
            3 => Value::Signed(i16::from_le_bytes(self.fixed()?).into()),
            4 => Value::Unsigned(u32::from_le_bytes(self.fixed()?).into()),
            5 => Value::Signed(i32::from_le_bytes(self.fixed()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.fixed()?).into()),
            7 => Value::Bool(self.bool()?),
            8 => Value::Text(self.text()?),
            9 => Value::Array(self.array()?),
            10 => Value::Unsigned(u64::from_le_bytes(self.fixed()?)),
            11 => Value::Signed(i64::from_le_bytes(self.fixed()?)),
            12 => Value::Float(f64::from_le_bytes(self.fixed()?)),
            other => return Err(self.bad(format!("has a value of the unknown type {other}"))),
        })
    }

    fn array(&mut self) -> Result<Array, ModelError> {
        let what = format!("key `{}`", self.key.escape_debug());
        let kind = self.cursor.u32(format_args!("the type of the items of {what}"))?;
        let smallest = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => return Err(self.bad("is a list of lists, which no model needs")),
            other => return Err(self.bad(format!("is a list of items of the unknown type {other}"))),
        };
        let length = self.cursor.count(format_args!("the number of items of {what}"), smallest, *self.items_left)?;
        *self.items_left -= length as u64;
        Ok(match kind {
            0 => Array::Integers(self.items(length, |it| Ok(it.fixed::<1>()?[0].into()))?),
            1 => Array::Integers(self.items(length, |it| Ok(i8::from_le_bytes(it.fixed()?).into()))?),
            2 => Array::Integers(self.items(length, |it| Ok(u16::from_le_bytes(it.fixed()?).into()))?),
            3 => Array::Integers(self.items(length, |it| Ok(i16::from_le_bytes(it.fixed()?).into()))?),
            4 => Array::Integers(self.items(length, |it| Ok(u32::from_le_bytes(it.fixed()?).into()))?),
            5 => Array::Integers(self.items(length, |it| Ok(i32::from_le_bytes(it.fixed()?).into()))?),
            6 => Array::Floats(self.items(length, |it| Ok(f32::from_le_bytes(it.fixed()?)))?),
            7 => Array::Bools(self.items(length, Self::bool)?),
            10 => Array::Integers(self.items(length, |it| {
                let number = u64::from_le_bytes(it.fixed()?);
                i64::try_from(number).map_err(|_| it.bad(format!("has the item {number}, which is over 2^63")))
            })?),
            11 => Array::Integers(self.items(length, |it| Ok(i64::from_le_bytes(it.fixed()?)))?),
            12 => Array::Floats(self.items(length, |it| Ok(f64::from_le_bytes(it.fixed()?) as f32))?),
            _ => Array::Texts(self.items(length, Self::text)?),
        })
    }

    /// The items of a list whose length has been checked.
    fn items<T>(
        &mut self,
        length: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, ModelError>,
    ) -> Result<Vec<T>, ModelError> {
        let mut items = Vec::with_capacity(length);
        for _ in 0..length {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], ModelError> {
        self.cursor.fixed(format_args!("the value of key `{}`", self.key.escape_debug()))
    }

    fn bool(&mut self) -> Result<bool, ModelError> {
        match self.fixed()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(self.bad(format!("is a truth value with the byte {other}, neither 0 nor 1"))),
        }
    }

    fn text(&mut self) -> Result<String, ModelError> {
        let key = self.key;
        let bytes = self.cursor.text(format_args!("the text of key `{}`", key.escape_debug()))?;
        match String::from_utf8(bytes.to_vec()) {
            Ok(text) => Ok(text),
            Err(_) if key.starts_with("tokenizer.") => {
                let start = bytes.get(..64).unwrap_or(bytes).escape_ascii();
                let what = "which is not UTF-8 and would be read as another token";
                Err(self.bad(format!("has the text `{start}`, {what}")))
            }
            Err(_) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        }
    }

    fn bad(&self, what: impl std::fmt::Display) -> ModelError {
        self.cursor.bad(format!("key `{}` {what}; convert the model again", self.key.escape_debug()))
    }
}
