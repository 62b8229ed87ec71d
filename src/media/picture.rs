//! A decoded picture before it is RGB: planes of samples, and how they are to be understood.

/// A picture as a decoder gives it, cropped to what is shown, not yet turned upright.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Width in luma samples.
    pub width: u32,
    /// Height in luma samples.
    pub height: u32,
    /// Bits a sample, 8 to 16.
    pub depth: u8,
    /// How the chroma planes relate to the luma plane.
    pub layout: Layout,
    /// Luma, Cb, Cr (or G, B, R where the matrix is [`Matrix::Identity`]), row by row without gaps; the last two are
    /// empty where the layout is [`Layout::Gray`].
    pub planes: Planes,
    /// What the samples mean.
    pub colour: Colour,
}

/// The samples of the three planes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planes {
    /// A byte each.
    U8([Vec<u8>; 3]),
    /// Two bytes each, whatever the depth.
    U16([Vec<u16>; 3]),
}

/// How chroma planes relate to the luma plane. Odd sizes round up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// No chroma.
    Gray,
    /// Half the width, half the height.
    Yuv420,
    /// Half the width.
    Yuv422,
    /// Half the height.
    Yuv440,
    /// The same size.
    Yuv444,
}

impl Layout {
    /// The size of a chroma plane.
    pub fn chroma(self, width: u32, height: u32) -> (u32, u32) {
        match self {
            Layout::Gray => (0, 0),
            Layout::Yuv420 => (width.div_ceil(2), height.div_ceil(2)),
            Layout::Yuv422 => (width.div_ceil(2), height),
            Layout::Yuv440 => (width, height.div_ceil(2)),
            Layout::Yuv444 => (width, height),
        }
    }
}

/// What samples mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour {
    /// The matrix between RGB and YCbCr.
    pub matrix: Matrix,
    /// Whether samples use the full range of their bits (0-255), and not the limited one (16-235, 16-240).
    pub full_range: bool,
}

/// The matrix between RGB and YCbCr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matrix {
    /// ITU-R BT.601, and what is not signalled: as ffmpeg, PyAV and decord do, whatever the size.
    Bt601,
    /// ITU-R BT.709.
    Bt709,
    /// ITU-R BT.2020, non-constant luminance.
    Bt2020,
    /// SMPTE 240M.
    Smpte240m,
    /// FCC.
    Fcc,
    /// The planes are green, blue and red.
    Identity,
}

/// What is known of the colour so far; a stream's own word goes before the container's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColourHint {
    /// `matrix_coefficients` of ITU-T H.273; 2 means not known.
    pub matrix: Option<u8>,
    /// Whether samples use the full range.
    pub full_range: Option<bool>,
}

impl ColourHint {
    /// What is known here, and where nothing is, what is known there.
    pub fn or(self, other: Self) -> Self {
        let known = |matrix: &u8| *matrix != 2;
        Self {
            matrix: self.matrix.filter(known).or(other.matrix.filter(known)),
            full_range: self.full_range.or(other.full_range),
        }
    }

    /// The colour, or `None` for a matrix that is not supported (YCgCo, constant luminance and the like).
    pub fn resolve(self) -> Option<Colour> {
        let matrix = match self.matrix.unwrap_or(2) {
            0 => Matrix::Identity,
            1 => Matrix::Bt709,
            2 | 3 | 5 | 6 => Matrix::Bt601,
            4 => Matrix::Fcc,
            7 => Matrix::Smpte240m,
            9 => Matrix::Bt2020,
            _ => return None,
        };
        Some(Colour { matrix, full_range: self.full_range.unwrap_or(false) })
    }
}
