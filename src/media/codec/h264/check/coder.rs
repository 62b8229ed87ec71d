//! What the two ways to code a slice have in common: the elements that a macroblock is made of.

use crate::media::codec::h264::slice::Prediction;

/// What kind of macroblock it is, by its number in the tables of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 0: blocks with a mode each; 1 to 24: one mode for all; 25: raw samples.
    Intra(u32),
    /// 0 to 4.
    P(u32),
    /// 0 to 22.
    B(u32),
}

/// What is left of and above a block: a number of coefficients, or [`NOT_THERE`].
#[derive(Debug, Clone, Copy)]
pub struct Around {
    /// Left of it.
    pub left: u8,
    /// Above it.
    pub top: u8,
}

/// No block is there, or it is of another slice.
pub const NOT_THERE: u8 = 0xff;

/// A kind of coefficient block (`ctxBlockCat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// DC of a macroblock with one intra mode.
    LumaDc,
    /// AC of one.
    LumaAc,
    /// Any other 4×4 block of luma.
    Luma,
    /// Chroma DC.
    ChromaDc,
    /// Chroma AC.
    ChromaAc,
    /// An 8×8 block of luma.
    Luma8x8,
}

/// Reads the elements of a slice. `None` is an element that cannot be.
///
/// A `context` counts what the neighbours have in common; only CABAC needs it.
pub trait Coder {
    /// Whether it is CABAC.
    const CABAC: bool;

    /// Whether the next macroblock is skipped.
    fn skipped(&mut self, context: usize, prediction: Prediction) -> Option<bool>;

    /// Whether the slice ends after this macroblock, which was skipped or not.
    fn ends(&mut self, skipped: bool) -> Option<bool>;

    /// The kind of a macroblock.
    fn kind(&mut self, context: usize, prediction: Prediction) -> Option<Kind>;

    /// The kind of a quarter of a macroblock.
    fn quarter(&mut self, prediction: Prediction) -> Option<u32>;

    /// Whether the 8×8 transform is used.
    fn transform_8x8(&mut self, context: usize) -> Option<bool>;

    /// The mode of an intra block: `None` if it is the one that is expected, or else its number among the others.
    fn mode(&mut self) -> Option<Option<u8>>;

    /// The mode of intra chroma.
    fn chroma_mode(&mut self, context: usize) -> Option<u8>;

    /// A reference of `active` ones.
    fn reference(&mut self, context: usize, active: u32) -> Option<u32>;

    /// One component (0 across, 1 down) of a motion vector's difference, without its sign. `around` is the sum of the
    /// same in the neighbours.
    fn motion(&mut self, component: usize, around: u32) -> Option<u32>;

    /// Which blocks have coefficients, with the same of the neighbours.
    fn pattern(&mut self, intra: bool, gray: bool, around: Around) -> Option<u8>;

    /// The change of the quantizer; `changed` is whether the macroblock before changed it.
    fn quantizer(&mut self, changed: bool) -> Option<i32>;

    /// The coefficients of a block, at most `most`: how many.
    fn block(&mut self, block: Block, most: u32, intra: bool, around: Around) -> Option<u8>;

    /// Reads over raw samples.
    fn raw(&mut self, bits: usize) -> Option<()>;

    /// Whether a pair of macroblocks is of fields.
    fn is_field(&mut self, context: usize) -> Option<bool>;

    /// The next macroblocks are of fields, or of none.
    fn set_field(&mut self, field: bool);

    /// Whether as much was read as there is, to the bit.
    fn exact(&self) -> bool;

    /// Whether more was read than there is.
    fn overrun(&self) -> bool;
}

/// Where the stop bit of a payload is: the last bit that is set.
pub fn stop(payload: &[u8]) -> Option<usize> {
    let last = payload.iter().rposition(|&byte| byte != 0)?;
    Some(last * 8 + 7 - payload.get(last)?.trailing_zeros() as usize)
}
