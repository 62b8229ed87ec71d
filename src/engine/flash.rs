//! Attention by FlashAttention-2, for NVIDIA GPUs from compute capability 8.0 on.
//!
//! Invariant: the same positions are seen as everywhere else. Queries stand at the end of the keys, which is how the
//! kernels place their causal mask. They compute in 16-bit floats; numbers too large for those end in the engine's error
//! about logits that are not numbers, never in an answer.

use candle_core::{DType, Device, Result, Tensor};
use candle_flash_attn::flash_attn_windowed;

use crate::kernels::{Attention, Reach};

/// The largest heads that there are kernels for.
const LARGEST_HEAD: usize = 256;

/// What queries `[rows, heads, head_dim]` find in keys and values `[kv_heads, count, head_dim]`; `None` where there is
/// no kernel for them.
pub fn attention(kind: &Attention, q: &Tensor, keys: &Tensor, values: &Tensor) -> Result<Option<Tensor>> {
    let Device::Cuda(device) = q.device() else { return Ok(None) };
    let capability = device.cuda_stream().context().compute_capability();
    let new_enough = capability.is_ok_and(|(major, _)| major >= 8);
    if !new_enough || !kind.head_dim.is_multiple_of(8) || kind.head_dim > LARGEST_HEAD {
        return Ok(None);
    }
    let queries = q.to_dtype(DType::F16)?.unsqueeze(0)?;
    let by_position = |all: &Tensor| all.to_dtype(DType::F16)?.transpose(0, 1)?.unsqueeze(0);
    // A query sees itself and so many positions before it, and none behind it.
    let before = match kind.reach {
        Reach::Before => None,
        Reach::Window(window) => Some(window.saturating_sub(1)),
        Reach::All => return Ok(None),
    };
    let found = flash_attn_windowed(&queries, &by_position(keys)?, &by_position(values)?, kind.scale, before, Some(0))?;
    Ok(Some(found.squeeze(0)?.to_dtype(DType::F32)?))
}
