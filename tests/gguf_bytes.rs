//! Writes GGUF files for tests, honest ones and others: nothing that is written here is checked.

/// A GGUF file in the making.
#[derive(Clone)]
pub struct Gguf {
    pub magic: [u8; 4],
    pub version: u32,
    /// What the header says, if it is not the truth.
    pub key_count: Option<u64>,
    /// What the header says, if it is not the truth.
    pub tensor_count: Option<u64>,
    /// Padding before the data is to a multiple of this.
    pub alignment: usize,
    pub keys: Vec<Vec<u8>>,
    pub tensors: Vec<Vec<u8>>,
    pub data: Vec<u8>,
}

/// A text with its length.
pub fn text(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    [(bytes.as_ref().len() as u64).to_le_bytes().as_slice(), bytes.as_ref()].concat()
}

/// A list: the type of its items, how many it says there are, and their bytes.
pub fn list(kind: u32, length: u64, items: &[u8]) -> Vec<u8> {
    [kind.to_le_bytes().as_slice(), &length.to_le_bytes(), items].concat()
}

impl Gguf {
    pub fn new() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            key_count: None,
            tensor_count: None,
            alignment: 32,
            keys: Vec::new(),
            tensors: Vec::new(),
            data: Vec::new(),
        }
    }

    /// Adds a key with a value of the given type.
    pub fn key(mut self, name: impl AsRef<[u8]>, kind: u32, value: impl AsRef<[u8]>) -> Self {
        self.keys.push([text(name).as_slice(), &kind.to_le_bytes(), value.as_ref()].concat());
        self
    }

    /// Adds a tensor behind those that are there; dimensions innermost first, as in the file.
    pub fn tensor(mut self, name: &str, dimensions: &[u64], kind: u32, data: &[u8]) -> Self {
        self.data.resize(self.data.len().next_multiple_of(self.alignment), 0);
        let offset = self.data.len() as u64;
        self.data.extend_from_slice(data);
        self.listed(name, dimensions, kind, offset)
    }

    /// Adds a tensor to the list alone.
    pub fn listed(mut self, name: impl AsRef<[u8]>, dimensions: &[u64], kind: u32, offset: u64) -> Self {
        let mut entry = text(name);
        entry.extend((dimensions.len() as u32).to_le_bytes());
        entry.extend(dimensions.iter().flat_map(|dimension| dimension.to_le_bytes()));
        entry.extend(kind.to_le_bytes());
        entry.extend(offset.to_le_bytes());
        self.tensors.push(entry);
        self
    }

    /// The file's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        bytes.extend(self.key_count.unwrap_or(self.keys.len() as u64).to_le_bytes());
        bytes.extend(self.keys.concat());
        bytes.extend(self.tensors.concat());
        if !self.data.is_empty() {
            bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
            bytes.extend(&self.data);
        }
        bytes
    }
}
