//! Attention of several sequences at once: each chunk's rows meet the keys and values of their own sequence.

use candle_core::{Result, Tensor, bail};
use candle_nn::ops::softmax_last_dim;

use super::kv::{Segment, Sequence};
use crate::kernels::{self, Attention, KeyValues, Level, floats};
use crate::model::decoder::Attend;
use crate::model::linear::{Compute, Kernels};

/// The sequences of a step, and how many rows each has.
pub struct Batch<'a, 's> {
    pub sequences: Vec<(&'a mut Sequence, usize)>,
    pub compute: &'s Compute,
}

impl Attend for Batch<'_, '_> {
    fn attend(&mut self, layer: usize, kind: &Attention, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        let mut start = 0;
        let mut found = Vec::with_capacity(self.sequences.len());
        for (sequence, rows) in &mut self.sequences {
            let of = |all: &Tensor| all.narrow(0, start, *rows);
            let Some(tail) = sequence.tail() else { bail!("a sequence without a place for new positions") };
            let (keys, values) = &tail.layers[layer];
            keys.slice_set(&of(k)?.transpose(0, 1)?.contiguous()?, 1, tail.length)?;
            values.slice_set(&of(v)?.transpose(0, 1)?.contiguous()?, 1, tail.length)?;
            found.push(match self.compute.kernels {
                Kernels::Own(level) => own(level, kind, &of(q)?, sequence, *rows, layer)?,
                Kernels::Candle => by_candle(kind, &of(q)?, sequence, *rows, layer)?,
            });
            start += *rows;
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            _ => Tensor::cat(&found, 0),
        }
    }
}

/// The segments of a sequence, each with the number of its positions; the last one's includes the new `rows`.
fn segments(sequence: &Sequence, rows: usize) -> impl Iterator<Item = (&Segment, usize)> {
    let mut all = sequence.segments().peekable();
    std::iter::from_fn(move || {
        let segment = all.next()?;
        Some((segment, segment.length + if all.peek().is_none() { rows } else { 0 }))
    })
}

/// With this crate's kernel, on the tensors where they lie.
fn own(level: Level, kind: &Attention, q: &Tensor, sequence: &Sequence, rows: usize, layer: usize) -> Result<Tensor> {
    let q = q.contiguous()?;
    let kept: Vec<_> = segments(sequence, rows)
        .map(|(segment, length)| {
            let (keys, values) = &segment.layers[layer];
            (keys.storage_and_layout().0, values.storage_and_layout().0, segment.capacity, length)
        })
        .collect();
    let views = kept.iter().map(|(keys, values, capacity, length)| {
        Ok(KeyValues { keys: floats(keys)?, values: floats(values)?, capacity: *capacity, length: *length })
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    let (storage, layout) = q.storage_and_layout();
    let queries = &floats(&storage)?[layout.start_offset()..][..layout.shape().elem_count()];
    let mut out = vec![0.0; queries.len()];
    kernels::attention(level, kind, queries, sequence.length(), &views, &mut out);
    Tensor::from_vec(out, q.shape(), q.device())
}

/// With candle's operations, on any device.
fn by_candle(kind: &Attention, q: &Tensor, sequence: &Sequence, rows: usize, layer: usize) -> Result<Tensor> {
    let Attention { heads, kv_heads, head_dim, .. } = *kind;
    let first = sequence.length();
    let joined = |of: fn(&(Tensor, Tensor)) -> &Tensor| {
        let parts = segments(sequence, rows).map(|(segment, length)| of(&segment.layers[layer]).narrow(1, 0, length));
        Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 1)
    };
    let (keys, values) = (joined(|(keys, _)| keys)?, joined(|(_, values)| values)?);
    #[cfg(feature = "flash-attn")]
    if let Some(found) = super::flash::attention(kind, q, &keys, &values)? {
        return Ok(found);
    }
    let count = keys.dim(1)?;
    let group = heads / kv_heads;
    // `[kv_heads, rows · group, head_dim]`: all queries of a key head together.
    let q = q.reshape((rows, kv_heads, group, head_dim))?.transpose(0, 1)?.contiguous()?;
    let q = q.reshape((kv_heads, rows * group, head_dim))?;
    let mut scores = (q.matmul(&keys.contiguous()?.transpose(1, 2)?)? * f64::from(kind.scale))?;
    // The last row sees all that is there, unless there is a window: a step of one token needs no mask.
    if (first..first + rows).any(|position| kind.seen(position, count) != (0..count)) {
        let mut mask = Vec::with_capacity(rows * count);
        for row in 0..rows {
            let seen = kind.seen(first + row, count);
            mask.extend((0..count).map(|key| if seen.contains(&key) { 0.0 } else { f32::NEG_INFINITY }));
        }
        let mask = Tensor::from_vec(mask, (1, rows, 1, count), q.device())?;
        scores = scores.reshape((kv_heads, rows, group, count))?.broadcast_add(&mask)?;
        scores = scores.reshape((kv_heads, rows * group, count))?;
    }
    let weights = softmax_last_dim(&scores)?;
    let found = weights.matmul(&values.contiguous()?)?.reshape((kv_heads, rows, group, head_dim))?;
    found.transpose(0, 1)?.contiguous()?.reshape((rows, heads, head_dim))
}
