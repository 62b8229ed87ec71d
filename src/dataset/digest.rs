//! Digests: of ids, so that a million of them fit in memory, and of whole files, so that a run can prove its inputs.

use std::collections::HashMap;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// 128 bits of an id's SHA-256: two different ids share one with a chance of about 2^-88 in a million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdDigest([u8; 16]);

impl IdDigest {
    /// The digest of an id.
    pub fn of(id: &str) -> Self {
        let full = Sha256::digest(id.as_bytes());
        let mut half = [0; 16];
        half.copy_from_slice(&full[..16]);
        Self(half)
    }
}

/// The ids of a data set that were seen, and where each was first.
#[derive(Debug, Default)]
pub struct SeenIds {
    first_lines: HashMap<IdDigest, u32>,
}

impl SeenIds {
    /// Notes an id; the line that used it before, if one did.
    pub fn note(&mut self, id: &str, line: u64) -> Option<u32> {
        self.first_lines.insert(IdDigest::of(id), u32::try_from(line).unwrap_or(u32::MAX))
    }
}

/// The SHA-256 of a text, in hexadecimal.
pub fn sha256_text(text: &str) -> String {
    sha256_bytes([text.as_bytes()])
}

/// The SHA-256 of bytes in several pieces, in hexadecimal.
pub fn sha256_bytes<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    pieces.into_iter().for_each(|piece| hasher.update(piece));
    hex(&hasher.finalize())
}

/// A reader that hashes all that passes through it.
#[derive(Debug)]
pub struct HashingReader<R> {
    inner: R,
    hasher: Sha256,
}

impl<R: Read> HashingReader<R> {
    /// Hashes what is read from `inner` from now on.
    pub fn new(inner: R) -> Self {
        Self { inner, hasher: Sha256::new() }
    }

    /// The SHA-256 of what was read, in hexadecimal.
    pub fn finish(self) -> String {
        hex(&self.hasher.finalize())
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
