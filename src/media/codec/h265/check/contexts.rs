//! The contexts of CABAC: what they are for, and how they start (ITU-T H.265, 9.3.2.2).
//!
//! Invariant: [`INIT`] has a row for each kind of slice, each with the values in the order of the places above it.

/// Whether a block has the offsets of the one to the left or above.
pub(super) const OFFSETS_MERGED: usize = 0;
/// What offsets a block has.
pub(super) const OFFSETS_KIND: usize = 1;
/// Whether a block is split.
pub(super) const SPLIT: usize = 2;
/// Whether a unit goes without transform and quantizer.
pub(super) const LOSSLESS: usize = 5;
/// Whether a unit is skipped.
pub(super) const SKIPPED: usize = 6;
/// How the quantizer changes.
pub(super) const QP_CHANGE: usize = 9;
/// Whether a unit is intra.
pub(super) const INTRA: usize = 11;
/// How a unit is cut.
pub(super) const PARTS: usize = 12;
/// Whether the intra mode is a likely one.
pub(super) const LIKELY_MODE: usize = 16;
/// The intra mode of chroma.
pub(super) const CHROMA_MODE: usize = 17;
/// Whether motion is that of a neighbour.
pub(super) const MERGED: usize = 18;
/// Which neighbour.
pub(super) const MERGE_CHOICE: usize = 19;
/// Which lists a part refers to.
pub(super) const LISTS: usize = 20;
/// The place in a list.
pub(super) const REFERENCE: usize = 25;
/// Whether a motion difference is not 0.
pub(super) const MOTION_ANY: usize = 27;
/// Whether it is larger than 1.
pub(super) const MOTION_MORE: usize = 28;
/// Which motion predictor.
pub(super) const PREDICTOR: usize = 29;
/// Whether an inter unit has a residual.
pub(super) const RESIDUAL: usize = 30;
/// Whether a transform block is split.
pub(super) const SPLIT_TRANSFORM: usize = 31;
/// Whether luma has coefficients.
pub(super) const CODED_LUMA: usize = 34;
/// Whether chroma has coefficients.
pub(super) const CODED_CHROMA: usize = 36;
/// Whether a block is not transformed.
pub(super) const NO_TRANSFORM: usize = 41;
/// The column of the last coefficient.
pub(super) const LAST_X: usize = 43;
/// The row of the last coefficient.
pub(super) const LAST_Y: usize = 61;
/// Whether a group has coefficients.
pub(super) const GROUP: usize = 79;
/// Whether a coefficient is not 0.
pub(super) const NOT_ZERO: usize = 83;
/// Whether a level is above 1.
pub(super) const ABOVE_ONE: usize = 125;
/// Whether a level is above 2.
pub(super) const ABOVE_TWO: usize = 149;

/// How many there are.
const COUNT: usize = 155;

/// All contexts. There is room for more than there are, so that no place with eight bits is outside.
pub(super) type Contexts = [u8; 256];

/// The contexts at the start of a slice of this kind (0 intra, 1 and 2 inter).
pub(super) fn start(kind: usize, qp: i32) -> Contexts {
    let mut contexts = [0; 256];
    let qp = qp.clamp(0, 51);
    for (context, &value) in contexts.iter_mut().zip(INIT.get(kind).unwrap_or(&INIT[0])) {
        let slope = i32::from(value >> 4) * 5 - 45;
        let offset = (i32::from(value & 15) << 3) - 16;
        let state = (((slope * qp) >> 4) + offset).clamp(1, 126);
        *context = if state > 63 { (state - 64) << 1 | 1 } else { (63 - state) << 1 } as u8;
    }
    contexts
}

#[rustfmt::skip]
const INIT: [[u8; COUNT]; 3] = [
    [
        153,
        200,
        139, 141, 157,
        154,
        154, 154, 154,
        154, 154,
        154,
        184, 154, 154, 154,
        184,
        63,
        154,
        154,
        154, 154, 154, 154, 154,
        154, 154,
        154,
        154,
        154,
        154,
        153, 138, 138,
        111, 141,
        94, 138, 182, 154, 154,
        139, 139,
        110, 110, 124, 125, 140, 153, 125, 127, 140, 109, 111, 143, 127, 111, 79, 108, 123, 63,
        110, 110, 124, 125, 140, 153, 125, 127, 140, 109, 111, 143, 127, 111, 79, 108, 123, 63,
        91, 171, 134, 141,
        111, 111, 125, 110, 110, 94, 124, 108, 124, 107, 125, 141, 179, 153, 125, 107, 125, 141, 179, 153, 125, 107,
        125, 141, 179, 153, 125, 140, 139, 182, 182, 152, 136, 152, 136, 153, 136, 139, 111, 136, 139, 111,
        140, 92, 137, 138, 140, 152, 138, 139, 153, 74, 149, 92, 139, 107, 122, 152, 140, 179, 166, 182, 140, 227,
        122, 197,
        138, 153, 136, 167, 152, 152,
    ],
    [
        153,
        185,
        107, 139, 126,
        154,
        197, 185, 201,
        154, 154,
        149,
        154, 139, 154, 154,
        154,
        152,
        110,
        122,
        95, 79, 63, 31, 31,
        153, 153,
        140,
        198,
        168,
        79,
        124, 138, 94,
        153, 111,
        149, 107, 167, 154, 154,
        139, 139,
        125, 110, 94, 110, 95, 79, 125, 111, 110, 78, 110, 111, 111, 95, 94, 108, 123, 108,
        125, 110, 94, 110, 95, 79, 125, 111, 110, 78, 110, 111, 111, 95, 94, 108, 123, 108,
        121, 140, 61, 154,
        155, 154, 139, 153, 139, 123, 123, 63, 153, 166, 183, 140, 136, 153, 154, 166, 183, 140, 136, 153, 154, 166,
        183, 140, 136, 153, 154, 170, 153, 123, 123, 107, 121, 107, 121, 167, 151, 183, 140, 151, 183, 140,
        154, 196, 196, 167, 154, 152, 167, 182, 182, 134, 149, 136, 153, 121, 136, 137, 169, 194, 166, 167, 154, 167,
        137, 182,
        107, 167, 91, 122, 107, 167,
    ],
    [
        153,
        160,
        107, 139, 126,
        154,
        197, 185, 201,
        154, 154,
        134,
        154, 139, 154, 154,
        183,
        152,
        154,
        137,
        95, 79, 63, 31, 31,
        153, 153,
        169,
        198,
        168,
        79,
        224, 167, 122,
        153, 111,
        149, 92, 167, 154, 154,
        139, 139,
        125, 110, 124, 110, 95, 94, 125, 111, 111, 79, 125, 126, 111, 111, 79, 108, 123, 93,
        125, 110, 124, 110, 95, 94, 125, 111, 111, 79, 125, 126, 111, 111, 79, 108, 123, 93,
        121, 140, 61, 154,
        170, 154, 139, 153, 139, 123, 123, 63, 124, 166, 183, 140, 136, 153, 154, 166, 183, 140, 136, 153, 154, 166,
        183, 140, 136, 153, 154, 170, 153, 138, 138, 122, 121, 122, 121, 167, 151, 183, 140, 151, 183, 140,
        154, 196, 167, 167, 154, 152, 167, 182, 182, 134, 149, 136, 153, 121, 136, 122, 169, 208, 166, 167, 154, 152,
        167, 182,
        107, 167, 91, 107, 107, 167,
    ],
];
