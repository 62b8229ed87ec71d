//! Tokens end where they like, also inside a character; text does not.
//!
//! Invariant: all parts together are `String::from_utf8_lossy` of all bytes together, however the bytes were cut.

use std::str;

/// Bytes in, whole characters out.
#[derive(Debug, Default)]
pub struct TextStream {
    /// The start of a character whose end has not come yet; at most three bytes.
    held: Vec<u8>,
}

impl TextStream {
    /// A stream that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a token's bytes, and gives the text that is complete now. Bytes that are no UTF-8 become U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.held.as_slice();
        loop {
            match str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, broken) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    rest = broken;
                    // No length: what is there may still become a character.
                    let Some(length) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[length..];
                }
            }
        }
        self.held = rest.to_vec();
        text
    }

    /// The end: a character that was begun and never finished becomes U+FFFD.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.held).into_owned()
    }
}
