//! The order in which a picture's blocks are decoded (ITU-T H.265, 6.5.1).
//!
//! Invariant: each block of the picture comes once.

use super::super::sets::{Sps, Tiles};

/// The blocks of a picture.
pub(super) struct Map {
    width: u32,
    height: u32,
    /// Where tiles begin: columns and rows, with the end of the picture behind them. Empty without tiles.
    columns: Vec<u32>,
    rows: Vec<u32>,
    /// Raster places in the order of decoding. Empty without tiles, where the two are the same.
    order: Vec<u32>,
}

/// A block and those next to it, by their raster places, if they are in the same tile.
#[derive(Debug)]
pub(super) struct Place {
    pub x: u32,
    pub y: u32,
    pub raster: u32,
    pub left: Option<u32>,
    pub above: Option<u32>,
    pub above_right: Option<u32>,
    pub begins_tile: bool,
    /// Whether it is the first, or the second, of its row in the tile.
    pub begins_row: bool,
    pub is_second: bool,
}

impl Map {
    /// `None` if the picture cannot be cut like that.
    pub(super) fn new(sps: &Sps, tiles: Option<&Tiles>) -> Option<Self> {
        let side = 1u32.checked_shl(sps.block_bits)?;
        let (width, height) = (sps.width.div_ceil(side), sps.height.div_ceil(side));
        width.checked_mul(height).filter(|&count| count > 0)?;
        let (columns, rows) = match tiles {
            None => return Some(Self { width, height, columns: Vec::new(), rows: Vec::new(), order: Vec::new() }),
            Some(Tiles::Even(columns, rows)) => (even(*columns, width), even(*rows, height)),
            Some(Tiles::Sizes(columns, rows)) => (sums(columns, width)?, sums(rows, height)?),
        };
        let ascends = |borders: &[u32]| borders.is_sorted_by(|one, next| one < next);
        if !ascends(&columns) || !ascends(&rows) {
            return None;
        }
        let mut order = Vec::new();
        for (top, bottom) in rows.iter().zip(rows.iter().skip(1)) {
            for (left, right) in columns.iter().zip(columns.iter().skip(1)) {
                order.extend((*top..*bottom).flat_map(|y| (*left..*right).map(move |x| y * width + x)));
            }
        }
        Some(Self { width, height, columns, rows, order })
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.width * self.height
    }

    /// The raster place of the block that is decoded as this one.
    pub(super) fn raster(&self, number: u32) -> Option<u32> {
        if self.order.is_empty() {
            return (number < self.count()).then_some(number);
        }
        self.order.get(number as usize).copied()
    }

    /// The block that is decoded as this one.
    pub(super) fn place(&self, number: u32) -> Option<Place> {
        let raster = self.raster(number)?;
        let (x, y) = (raster % self.width, raster / self.width);
        let (left, right) = around(&self.columns, x).unwrap_or((0, self.width));
        let (top, _) = around(&self.rows, y).unwrap_or((0, self.height));
        Some(Place {
            x,
            y,
            raster,
            left: (x > left).then(|| raster - 1),
            above: (y > top).then(|| raster - self.width),
            above_right: (y > top && x + 1 < right).then(|| raster - self.width + 1),
            begins_tile: x == left && y == top,
            begins_row: x == left,
            is_second: x == left + 1,
        })
    }
}

/// The borders that a place is between.
fn around(borders: &[u32], place: u32) -> Option<(u32, u32)> {
    let after = borders.partition_point(|&border| border <= place);
    Some((*borders.get(after.checked_sub(1)?)?, *borders.get(after)?))
}

/// Borders at about the same distance.
fn even(count: u32, whole: u32) -> Vec<u32> {
    (0..=count).map(|number| (u64::from(number) * u64::from(whole) / u64::from(count.max(1))) as u32).collect()
}

/// Borders by the sizes of all but the last.
fn sums(sizes: &[u32], whole: u32) -> Option<Vec<u32>> {
    let mut borders = vec![0u32];
    let mut at = 0u32;
    for &size in sizes {
        at = at.checked_add(size)?;
        borders.push(at);
    }
    borders.push(whole);
    Some(borders)
}
