//! Frames on their way into a model: brought to its size, then to its scale of brightness.
//!
//! Invariant: bytes and floats are those that the reference processors (transformers with torchvision, on a CPU) give,
//! to the last bit, on every machine and with every number of threads.

mod normalise;
mod resize;

pub use normalise::Levels;
pub use resize::{Filter, resize, resize_all, resize_at, resize_through};

/// A picture in RGB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Its width.
    pub width: usize,
    /// Its height.
    pub height: usize,
    /// Its pixels, row by row from the top, three bytes each.
    pub rgb: Vec<u8>,
}

impl Picture {
    /// The picture, to look at. Nothing if it has not as many bytes as its size says, or none at all.
    pub fn view(&self) -> Option<View<'_>> {
        View::new(self.width, self.height, &self.rgb)
    }
}

/// A picture of at least one pixel, in RGB, that belongs to somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    width: usize,
    height: usize,
    rgb: &'a [u8],
}

impl<'a> View<'a> {
    /// Nothing if there are not as many bytes as the size says, or none at all.
    pub fn new(width: usize, height: usize, rgb: &'a [u8]) -> Option<Self> {
        let bytes = width.checked_mul(height)?.checked_mul(3)?;
        (bytes > 0 && bytes == rgb.len()).then_some(Self { width, height, rgb })
    }

    /// Its width.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Its height.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Its pixels, row by row from the top, three bytes each.
    pub fn rgb(&self) -> &'a [u8] {
        self.rgb
    }
}
