//! The parameter sets of a stream as they are now.

use std::collections::BTreeMap;

use super::nal::{Config, Nal, Type};
use super::params::{Pps, Sps};

/// The parameter sets of a stream as they are now.
#[derive(Debug, Clone, Default)]
pub struct Sets {
    sps: BTreeMap<u32, (Sps, Vec<u8>)>,
    pps: BTreeMap<u32, (Pps, Vec<u8>)>,
}

impl Sets {
    /// Those of a codec header. Damaged ones are left out: slices that need them say so.
    pub fn of(config: &Config<'_>) -> Self {
        let mut sets = Self::default();
        for nal in config.sets.iter().filter_map(|bytes| Nal::parse(bytes).ok()) {
            // What is wrong with a set matters only where it is used.
            let _ = sets.store(&nal);
        }
        sets
    }

    /// Keeps a set. Whether it is another than before.
    pub fn store(&mut self, nal: &Nal<'_>) -> Result<bool, &'static str> {
        match nal.kind {
            Type::Sps => {
                let sps = Sps::parse(&nal.payload()).ok_or("a sequence parameter set is damaged")?;
                let new = (sps, nal.bytes.to_vec());
                let id = new.0.id;
                let same = self.sps.get(&id) == Some(&new);
                self.sps.insert(id, new);
                Ok(!same)
            }
            Type::Pps => {
                let pps = Pps::parse(&nal.payload()).ok_or("a picture parameter set is damaged")?;
                let new = (pps, nal.bytes.to_vec());
                let id = new.0.id;
                let same = self.pps.get(&id) == Some(&new);
                self.pps.insert(id, new);
                Ok(!same)
            }
            _ => Ok(false),
        }
    }

    /// A sequence parameter set by its number.
    pub fn sps(&self, id: u32) -> Option<&Sps> {
        self.sps.get(&id).map(|(sps, _)| sps)
    }

    /// A picture parameter set by its number.
    pub fn pps(&self, id: u32) -> Option<&Pps> {
        self.pps.get(&id).map(|(pps, _)| pps)
    }

    /// The sequence parameter sets.
    pub fn all(&self) -> impl Iterator<Item = &Sps> {
        self.sps.values().map(|(sps, _)| sps)
    }

    /// The bytes of a sequence parameter set and of those that refer to it, in the order in which a decoder needs them.
    pub fn bytes(&self, sps: u32) -> Vec<Vec<u8>> {
        let of = self.pps.values().filter(|(pps, _)| pps.sps == sps).map(|(_, bytes)| bytes.clone());
        self.sps.get(&sps).map(|(_, bytes)| bytes.clone()).into_iter().chain(of).collect()
    }
}
