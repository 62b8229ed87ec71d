//! The weights of a linear layer as kernels want them.
//!
//! Invariant: the outputs are those of the matrix that it was made of, in the same order.

use std::io;

use super::tiles::{self, Tiles};
use super::{Level, Matrix};

/// Weights, ready to be multiplied with.
#[derive(Debug)]
pub enum Weights {
    /// Floats, where they lie in their file.
    Floats(Matrix),
    /// Quantised weights, laid out anew.
    Tiles(Tiles),
}

impl Weights {
    /// Prepares a matrix for the kernels of a level.
    pub fn new(level: Level, matrix: Matrix) -> io::Result<Self> {
        if !tiles::knows(matrix.dtype()) {
            return Ok(Self::Floats(matrix));
        }
        let tiles = Tiles::new(level, &matrix)?;
        // What was mapped of the file for this has done its work.
        matrix.bytes().forget();
        Ok(Self::Tiles(tiles))
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        match self {
            Self::Floats(matrix) => matrix.rows(),
            Self::Tiles(tiles) => tiles.outputs(),
        }
    }

    /// Inputs.
    pub fn columns(&self) -> usize {
        match self {
            Self::Floats(matrix) => matrix.columns(),
            Self::Tiles(tiles) => tiles.columns(),
        }
    }
}
