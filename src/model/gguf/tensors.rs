//! Reads the list of tensors and finds their data.
//!
//! Invariant: each tensor's bytes lie inside the file, begin at a multiple of the alignment, are exactly as many as its
//! type and shape need, and are shared with no other tensor.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use candle_core::quantized::GgmlDType;

use super::cursor::Cursor;
use super::{TensorInfo, types};
use crate::model::{Bytes, ModelError};

/// The fewest bytes that a tensor takes in the list: a name of one letter, one dimension, a type, an offset.
pub(super) const SMALLEST: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// The longest name of a tensor.
const LONGEST_NAME: usize = 256;

/// A tensor as the list tells it, with its offset in the data.
struct Listed {
    name: String,
    dtype: GgmlDType,
    shape: Vec<usize>,
    offset: u64,
    size: usize,
}

/// Reads as many tensors as the header says there are, behind which the data begins.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    count: usize,
    alignment: usize,
    file: &Bytes,
) -> Result<BTreeMap<String, TensorInfo>, ModelError> {
    let mut list = Vec::with_capacity(count);
    for number in 1..=count {
        list.push(listed(cursor, number, count)?);
    }
    let data = cursor.position().next_multiple_of(alignment);
    let mut tensors = BTreeMap::new();
    let mut places = Vec::with_capacity(count);
    for Listed { name, dtype, shape, offset, size } in list {
        let bad = |what: String| cursor.bad(format!("tensor `{}` {what}", name.escape_debug()));
        if !offset.is_multiple_of(alignment as u64) {
            let what = format!("begins at offset {offset}, which is not a multiple of the alignment {alignment}");
            return Err(bad(format!("{what}; convert the model again")));
        }
        let range = usize::try_from(offset).ok().and_then(|offset| {
            let start = data.checked_add(offset)?;
            Some(start..start.checked_add(size)?)
        });
        let Some((range, bytes)) = range.and_then(|range| Some((range.clone(), file.slice(range)?))) else {
            let what = format!("takes {size} bytes at offset {offset} of the data, beyond the end of the file");
            return Err(bad(format!("{what}; the file is cut off or damaged: copy or download it again")));
        };
        match tensors.entry(name) {
            Entry::Vacant(entry) => {
                places.push((range, entry.key().clone()));
                entry.insert(TensorInfo { dtype, shape, bytes })
            }
            Entry::Occupied(entry) => {
                let name = entry.key().escape_debug();
                return Err(cursor.bad(format!("tensor `{name}` is there twice; convert the model again")));
            }
        };
    }
    check_apart(cursor, places)?;
    Ok(tensors)
}

/// One entry of the list.
fn listed(cursor: &mut Cursor<'_>, number: usize, count: usize) -> Result<Listed, ModelError> {
    let name = cursor.name(format_args!("the name of tensor {number} of {count}"), LONGEST_NAME)?;
    let what = format!("tensor `{}`", name.escape_debug());
    let rank = cursor.u32(format_args!("the number of dimensions of {what}"))?;
    if !(1..=4).contains(&rank) {
        return Err(cursor.bad(format!("{what} has {rank} dimensions, not 1 to 4; convert the model again")));
    }
    let mut shape = Vec::with_capacity(rank as usize);
    for _ in 0..rank {
        let dimension = cursor.u64(format_args!("a dimension of {what}"))?;
        shape.push(dimension);
    }
    let number = cursor.u32(format_args!("the type of {what}"))?;
    let offset = cursor.u64(format_args!("the offset of {what}"))?;
    let dtype = types::of_number(number).map_err(|known| {
        let name = known.map_or_else(|| format!("of the unknown number {number}"), str::to_owned);
        let remedy = "use a file of this model in one of them, such as Q4_K_M or Q8_0";
        cursor
            .unsupported(format!("{what} has the type {name}, which is not supported; {}; {remedy}", types::SUPPORTED))
    })?;
    let size = size(dtype, &shape).map_err(|wrong| {
        cursor.bad(format!("{what} has the dimensions {shape:?}, {wrong}; convert the model again"))
    })?;
    // Every dimension is a factor of a product that fits.
    let shape = shape.iter().rev().map(|&dimension| dimension as usize).collect();
    Ok(Listed { name, dtype, shape, offset, size })
}

/// The bytes that a tensor takes; its dimensions are those of the file, innermost first.
fn size(dtype: GgmlDType, dimensions: &[u64]) -> Result<usize, String> {
    if dimensions.contains(&0) {
        return Err("of which one is zero".to_owned());
    }
    let block = dtype.block_size();
    if !dimensions.first().is_some_and(|row| row.is_multiple_of(block as u64)) {
        return Err(format!("whose first is not a multiple of {block}, the block of {dtype:?}"));
    }
    dimensions
        .iter()
        .try_fold(1u64, |product, &dimension| product.checked_mul(dimension))
        .and_then(|elements| usize::try_from(elements).ok())
        .and_then(|elements| (elements / block).checked_mul(dtype.type_size()))
        .ok_or_else(|| "whose product is too large for any machine".to_owned())
}

/// That no two tensors share bytes.
fn check_apart(cursor: &Cursor<'_>, mut places: Vec<(Range<usize>, String)>) -> Result<(), ModelError> {
    places.sort_unstable_by_key(|(range, _)| range.start);
    for pair in places.windows(2) {
        if let [(first, one), (second, other)] = pair
            && first.end > second.start
        {
            let (one, other) = (one.escape_debug(), other.escape_debug());
            return Err(cursor.bad(format!("tensors `{one}` and `{other}` overlap; convert the model again")));
        }
    }
    Ok(())
}
