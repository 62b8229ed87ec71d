//! From the tower to the decoder: squares of patches become channels of one row, and a linear layer the right width.

use candle_core::{Result as TensorResult, Tensor};

use crate::model::ModelError;
use crate::model::config::Fields;
use crate::model::linear::Linear;
use crate::model::vision::Parts;

/// Shuffles pixels and projects.
#[derive(Debug)]
pub struct Connector {
    /// The side of a square that becomes one row.
    scale: usize,
    projection: Linear,
}

impl Connector {
    /// The connector of a model whose tower gives rows of `width` numbers.
    pub fn load(parts: &Parts<'_>, width: usize) -> Result<Self, ModelError> {
        let scale = Fields(parts.config).size_or("scale_factor", 2).map_err(|what| parts.wrong(what))?;
        if !(1..=64).contains(&scale) {
            return Err(parts.wrong(format!("`scale_factor` is {scale}; it has to be from 1 to 64")));
        }
        let name = "model.connector.modality_projection.proj";
        let inputs = width.saturating_mul(scale * scale);
        Ok(Self { scale, projection: parts.tensors.linear(name, parts.hidden, inputs, parts.quant)? })
    }

    /// How many rows so many patches a side become; an error if they cannot be put in squares.
    pub fn rows(&self, patches: usize) -> Result<usize, String> {
        if !patches.is_multiple_of(self.scale) {
            return Err(format!("{patches} patches a side cannot be put in squares of scale_factor {}", self.scale));
        }
        Ok((patches / self.scale).pow(2))
    }

    /// The decoder's rows of parts `[parts, patches, width]`, all parts one after the other.
    pub fn forward(&self, x: &Tensor) -> TensorResult<Tensor> {
        let (parts, patches, width) = x.dims3()?;
        let (scale, side) = (self.scale, patches.isqrt());
        let squares = side / scale;
        // Rows of patches are cut into squares; in a square the numbers stand patch by patch, row by row.
        let x = x.reshape((parts, squares, scale, squares, scale * width))?.transpose(2, 3)?.contiguous()?;
        self.projection.forward(&x.reshape((parts * squares * squares, scale * scale * width))?)
    }
}
