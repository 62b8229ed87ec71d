//! Whether slices cover their picture.
//!
//! A slice of which a byte is wrong often ends too early. The decoder leaves the rest of the picture grey then and says
//! nothing, so the grey is looked for: whole blocks of exactly the middle value in all planes, at a slice's end, that what
//! is next to them does not go on with. A grey area that belongs to the picture has more grey around it.
//!
//! Invariant: it only looks; a picture without such blocks costs a look at one sample a slice.

use super::sets::Sps;
use crate::media::picture::{Layout, Picture, Planes};

/// How a picture is cut into blocks, and where its slices begin.
pub(super) struct Blocks {
    size: u32,
    across: u32,
    count: u32,
    starts: Vec<u32>,
}

impl Blocks {
    /// `None` where blocks cannot be found in the picture, as its left or top is cut off.
    pub(super) fn new(sps: &Sps) -> Option<Self> {
        let size = 1u32.checked_shl(sps.block_bits)?;
        let across = sps.width.div_ceil(size);
        let count = u32::try_from(sps.blocks).ok()?;
        (sps.uncut && across > 0).then_some(Self { size, across, count, starts: vec![0] })
    }

    /// Another slice of the picture begins at this block.
    pub(super) fn slice(&mut self, start: u32) {
        self.starts.push(start);
    }

    /// Whether a part of the picture was not decoded.
    pub(super) fn uncovered(&self, picture: &Picture) -> bool {
        let ends = self.starts.iter().skip(1).copied().chain([self.count]);
        self.starts.iter().zip(ends).any(|(&start, end)| self.ends_grey(picture, start, end))
    }

    fn ends_grey(&self, picture: &Picture, start: u32, end: u32) -> bool {
        let run = (start..end).rev().take_while(|&block| self.is_grey(picture, block)).last();
        let Some(first) = run else {
            return false;
        };
        // The samples next to the grey blocks that do not belong to them.
        let (mut grey, mut all) = (0u32, 0u32);
        let mut look = |x: u32, y: u32| {
            if let Some(sample) = sample(picture, 0, x, y) {
                all += 1;
                grey += u32::from(sample == middle(picture));
            }
        };
        let (x, y) = self.corner(first);
        if x > 0 {
            (y..y + self.size).for_each(|y| look(x - 1, y));
        }
        for block in first..end.min(first.saturating_add(self.across)) {
            let (x, y) = self.corner(block);
            if y > 0 {
                (x..x + self.size).for_each(|x| look(x, y - 1));
            }
        }
        all > 0 && grey < all / 2
    }

    fn corner(&self, block: u32) -> (u32, u32) {
        (block % self.across * self.size, block / self.across * self.size)
    }

    fn is_grey(&self, picture: &Picture, block: u32) -> bool {
        let (x, y) = self.corner(block);
        let (right, bottom) = ((x + self.size).min(picture.width), (y + self.size).min(picture.height));
        let half = u32::from(picture.layout == Layout::Yuv420);
        let middle = middle(picture);
        x < right
            && y < bottom
            && (0..3).all(|plane| {
                let half = if plane == 0 { 0 } else { half };
                let mut rows = y >> half..bottom.div_ceil(1 << half);
                rows.all(|y| {
                    (x >> half..right.div_ceil(1 << half)).all(|x| sample(picture, plane, x, y) == Some(middle))
                })
            })
    }
}

/// The value in the middle of what samples can be.
fn middle(picture: &Picture) -> u16 {
    1 << (picture.depth.clamp(1, 16) - 1)
}

fn sample(picture: &Picture, plane: usize, x: u32, y: u32) -> Option<u16> {
    let half = plane > 0 && picture.layout == Layout::Yuv420;
    let width = if half { picture.width.div_ceil(2) } else { picture.width };
    if x >= width {
        return None;
    }
    let place = usize::try_from(u64::from(y) * u64::from(width) + u64::from(x)).ok()?;
    match &picture.planes {
        Planes::U8(planes) => planes.get(plane)?.get(place).map(|&sample| sample.into()),
        Planes::U16(planes) => planes.get(plane)?.get(place).copied(),
    }
}
