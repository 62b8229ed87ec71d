//! What each token is called, what it is, and which bytes it stands for.
//!
//! Invariant: bytes come out as the model meant them, however a name spells them; a control token stands for none.

use super::TokenId;

/// How names spell text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// One printable character for each byte, as GPT-2 does.
    Bytes,
    /// As it is, but for `▁` in place of a space, as SentencePiece does.
    Spaces,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A piece of text.
    Text,
    /// One byte, for characters that no piece covers.
    Byte(u8),
    /// Text that was added as a whole, such as `<think>`.
    Added,
    /// No text: it steers the model, or is not used.
    Control,
}

/// All tokens of a model.
#[derive(Debug)]
pub struct Vocabulary {
    spelling: Spelling,
    names: Vec<Option<Box<str>>>,
    kinds: Vec<Kind>,
    bytes: Option<Box<[TokenId; 256]>>,
}

impl Vocabulary {
    /// Of names and kinds by token; both lists are equally long.
    pub fn new(spelling: Spelling, names: Vec<Option<Box<str>>>, kinds: Vec<Kind>) -> Self {
        debug_assert_eq!(names.len(), kinds.len());
        let mut found = [None; 256];
        for (id, kind) in (0..).zip(&kinds) {
            if let Kind::Byte(byte) = kind {
                found[usize::from(*byte)] = Some(id);
            }
        }
        let bytes = found.iter().all(Option::is_some).then(|| Box::new(found.map(Option::unwrap_or_default)));
        Self { spelling, names, kinds, bytes }
    }

    /// One more than the highest token.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// A token's name.
    pub fn name(&self, id: TokenId) -> Option<&str> {
        self.names.get(id as usize)?.as_deref()
    }

    /// What a token is.
    pub fn kind(&self, id: TokenId) -> Option<Kind> {
        self.names.get(id as usize)?.as_ref()?;
        self.kinds.get(id as usize).copied()
    }

    /// The token for each byte, if there is one for every byte.
    pub fn byte_tokens(&self) -> Option<&[TokenId; 256]> {
        self.bytes.as_deref()
    }

    /// Whether untrusted text must not become this token: whatever is control or added, white space aside.
    pub fn is_reserved(&self, id: TokenId) -> bool {
        match self.kind(id) {
            Some(Kind::Text | Kind::Byte(_)) => false,
            Some(Kind::Added) => !self.name(id).unwrap_or_default().chars().all(is_space),
            Some(Kind::Control) | None => true,
        }
    }

    /// The bytes that a token stands for.
    pub fn bytes(&self, id: TokenId) -> Option<Vec<u8>> {
        let name = self.name(id)?;
        Some(match self.kind(id)? {
            Kind::Control => Vec::new(),
            Kind::Byte(byte) => vec![byte],
            Kind::Added if self.spelling == Spelling::Bytes => name.as_bytes().to_vec(),
            Kind::Added | Kind::Text => self.spelled(name),
        })
    }

    /// The bytes that a spelling stands for.
    pub fn spelled(&self, text: &str) -> Vec<u8> {
        match self.spelling {
            Spelling::Spaces => text.replace('▁', " ").into_bytes(),
            // A name with any other character is no spelling of bytes; it stands for itself.
            Spelling::Bytes => text.chars().map(byte_of).collect::<Option<_>>().unwrap_or_else(|| text.into()),
        }
    }

    /// How names spell text.
    pub fn spelling(&self) -> Spelling {
        self.spelling
    }
}

/// White space as token names write it.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '▁'
}

/// The byte of a name such as `<0x0A>`.
pub fn byte_name(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// The byte that a character of GPT-2's alphabet stands for: itself where it can be printed, else counted from 256 on.
fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    let byte = match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7f,
        0x143 => 0xad,
        _ => return None,
    };
    u8::try_from(byte).ok()
}
