//! Attention of patches to each other: each block of rows on its own, all of a block to all of it.
//!
//! Blocks are frames, tiles or windows. They are cut out, not masked, so a window costs what a window costs.

use std::ops::Range;

use candle_core::{Error, Result, Tensor, bail};
use candle_nn::ops::softmax_last_dim;

use crate::kernels::{self, Attention, KeyValues, Level, Reach, floats};
use crate::model::linear::{Compute, Kernels, turned};

/// A layer's attention: from queries, keys and values side by side, `[rows, 3 · heads · head_dim]`, to what is found,
/// `[rows, heads · head_dim]`. Queries and keys are turned by `angles`, cosines and sines, where there are any.
pub fn self_attention(
    compute: &Compute,
    qkv: &Tensor,
    heads: usize,
    angles: Option<&(Tensor, Tensor)>,
    blocks: &[usize],
) -> Result<Tensor> {
    let (rows, width) = qkv.dims2()?;
    let qkv = qkv.reshape((rows, 3, heads, width / (3 * heads)))?;
    let part = |index: usize| qkv.narrow(1, index, 1)?.squeeze(1);
    let placed = |part: Tensor| angles.map_or(Ok(part.clone()), |angles| turned(&part, angles, compute));
    let found = attend(compute, &placed(part(0)?)?, &placed(part(1)?)?, &part(2)?, blocks)?;
    found.reshape((rows, width / 3))
}

/// What queries find. All are `[rows, heads, head_dim]`; `blocks` are the numbers of rows of each block, in order.
fn attend(compute: &Compute, q: &Tensor, k: &Tensor, v: &Tensor, blocks: &[usize]) -> Result<Tensor> {
    let (rows, heads, head_dim) = q.dims3()?;
    if blocks.iter().sum::<usize>() != rows {
        bail!("blocks of {blocks:?} rows do not make up {rows}");
    }
    let kind = Attention { heads, kv_heads: heads, head_dim, scale: (head_dim as f32).powf(-0.5), reach: Reach::All };
    let ranges = blocks.iter().scan(0, |end, rows| {
        let start = *end;
        *end += rows;
        Some(start..*end)
    });
    // `[heads, rows, head_dim]`, so that a head's keys lie in one piece.
    let (k, v) = (k.transpose(0, 1)?.contiguous()?, v.transpose(0, 1)?.contiguous()?);
    match compute.kernels {
        Kernels::Own(level) => own(level, &kind, &q.contiguous()?, &k, &v, ranges),
        Kernels::Candle => by_candle(&kind, q, &k, &v, ranges),
    }
}

/// With this crate's kernel.
fn own(
    level: Level,
    kind: &Attention,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    blocks: impl Iterator<Item = Range<usize>>,
) -> Result<Tensor> {
    let (storages, row) = ([q, k, v].map(|tensor| tensor.storage_and_layout()), kind.heads * kind.head_dim);
    let part = |index: usize| {
        let (storage, layout) = &storages[index];
        Ok::<_, Error>(&floats(storage)?[layout.start_offset()..][..layout.shape().elem_count()])
    };
    let (queries, keys, values) = (part(0)?, part(1)?, part(2)?);
    let capacity = q.dim(0)?;
    let mut out = vec![0.0; queries.len()];
    for Range { start, end } in blocks {
        let (keys, values) = (&keys[start * kind.head_dim..], &values[start * kind.head_dim..]);
        let block = [KeyValues { keys, values, capacity, length: end - start }];
        kernels::attention(level, kind, &queries[start * row..end * row], 0, &block, &mut out[start * row..end * row]);
    }
    Tensor::from_vec(out, q.shape(), q.device())
}

/// With candle's operations, on any device.
fn by_candle(
    kind: &Attention,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    blocks: impl Iterator<Item = Range<usize>>,
) -> Result<Tensor> {
    let q = q.transpose(0, 1)?.contiguous()?;
    let found = blocks.map(|block| {
        let of = |all: &Tensor| all.narrow(1, block.start, block.len())?.contiguous();
        let scores = (of(&q)?.matmul(&of(k)?.transpose(1, 2)?.contiguous()?)? * f64::from(kind.scale))?;
        softmax_last_dim(&scores)?.matmul(&of(v)?)
    });
    Tensor::cat(&found.collect::<Result<Vec<_>>>()?, 1)?.transpose(0, 1)?.contiguous()
}
