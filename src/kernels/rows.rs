//! What happens to rows between two matrix products: norms, rotary positions, sums.
//!
//! Candle has all of these; here they share this crate's threads. Two pools on one machine wait for each other.
//!
//! Invariant: a row's result depends on that row alone, and is the same to the bit in every level of kernels.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, bail};

use super::portable::{LANES, add_up};
use super::threads::share;
use super::{Level, Shared};

/// A root-mean-square norm of rows, then times the weight.
#[derive(Debug, Clone, Copy)]
pub struct RmsNormOp {
    /// Keeps the root from being 0.
    pub epsilon: f32,
    /// The kernels.
    pub level: Level,
}

/// A norm of rows by mean and deviation, then times the weight and plus the bias.
#[derive(Debug, Clone, Copy)]
pub struct LayerNormOp {
    /// Keeps the root from being 0.
    pub epsilon: f32,
    /// The kernels.
    pub level: Level,
}

/// Turns pairs of numbers of each head, `[rows, heads, head_dim]`, by the cosines and sines of its row: number `i` with
/// number `i + head_dim / 2`.
#[derive(Debug, Clone, Copy)]
pub struct RopeOp {
    /// The kernels.
    pub level: Level,
}

/// The sum of two tensors of the same shape.
#[derive(Debug, Clone, Copy)]
pub struct AddOp {
    /// The kernels.
    pub level: Level,
}

/// Rows of the last dimension, wherever they lie.
struct Rows<'a> {
    data: &'a [f32],
    layout: &'a Layout,
    width: usize,
}

impl<'a> Rows<'a> {
    fn new(storage: &'a CpuStorage, layout: &'a Layout) -> Result<Self> {
        let CpuStorage::F32(data) = storage else { bail!("activations are 32-bit floats") };
        let Some(width) = layout.dims().last().copied().filter(|_| layout.stride().last() == Some(&1)) else {
            bail!("the numbers of a row lie in one piece")
        };
        Ok(Self { data, layout, width })
    }

    fn count(&self) -> usize {
        self.layout.shape().elem_count().checked_div(self.width).unwrap_or(0)
    }

    fn row(&self, index: usize) -> &'a [f32] {
        let (dims, strides) = (self.layout.dims(), self.layout.stride());
        let (mut rest, mut at) = (index, self.layout.start_offset());
        for axis in (0..dims.len() - 1).rev() {
            at += rest % dims[axis] * strides[axis];
            rest /= dims[axis];
        }
        &self.data[at..at + self.width]
    }
}

/// All numbers of a tensor that lies in one piece.
fn numbers<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let CpuStorage::F32(data) = storage else { bail!("activations are 32-bit floats") };
    let Some((start, end)) = layout.contiguous_offsets() else { bail!("a tensor that lies in pieces") };
    Ok(&data[start..end])
}

/// Makes a new row of each row.
fn each(level: Level, x: &Rows<'_>, portable: impl Fn(usize, &[f32], &mut [f32]) + Sync + Copy) -> (CpuStorage, Shape) {
    let (count, width) = (x.count(), x.width);
    let mut out = vec![0.0; count * width];
    let shared = Shared(out.as_mut_ptr());
    share(count, width * 4, |range| {
        for index in range {
            // SAFETY: each row is inside the output, and is one thread's alone.
            let out = unsafe { shared.slice(index * width, width) };
            match level {
                Level::Portable => portable(index, x.row(index), out),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the level says that the machine has AVX2.
                Level::Avx2 | Level::Avx512 => unsafe { with_avx2(index, x.row(index), out, portable) },
            }
        }
    });
    (CpuStorage::F32(out), x.layout.shape().clone())
}

/// The same function, compiled for AVX2. Nothing is fused in it, so that its results are the same.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn with_avx2(index: usize, x: &[f32], out: &mut [f32], work: impl Fn(usize, &[f32], &mut [f32])) {
    work(index, x, out);
}

/// The sum of what `of` makes of each number, in eight lanes.
#[inline(always)]
fn sum(x: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let (eights, rest) = x.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for eight in eights {
        for lane in 0..LANES {
            sums[lane] += of(eight[lane]);
        }
    }
    rest.iter().fold(add_up(sums), |sum, x| sum + of(*x))
}

impl CustomOp2 for RmsNormOp {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(&self, x: &CpuStorage, x_at: &Layout, w: &CpuStorage, w_at: &Layout) -> Result<(CpuStorage, Shape)> {
        let (x, weight, epsilon) = (Rows::new(x, x_at)?, numbers(w, w_at)?, self.epsilon);
        if weight.len() != x.width {
            bail!("a norm of {} numbers for rows of {}", weight.len(), x.width);
        }
        Ok(each(
            self.level,
            &x,
            #[inline(always)]
            |_, x, out| {
                let root = (sum(x, |x| x * x) / x.len() as f32 + epsilon).sqrt();
                for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
                    *out = x / root * weight;
                }
            },
        ))
    }
}

impl CustomOp3 for LayerNormOp {
    fn name(&self) -> &'static str {
        "layer-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_at: &Layout,
        w: &CpuStorage,
        w_at: &Layout,
        b: &CpuStorage,
        b_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, weight, bias, epsilon) = (Rows::new(x, x_at)?, numbers(w, w_at)?, numbers(b, b_at)?, self.epsilon);
        if weight.len() != x.width || bias.len() != x.width {
            bail!("a norm of {} numbers for rows of {}", weight.len(), x.width);
        }
        Ok(each(
            self.level,
            &x,
            #[inline(always)]
            |_, x, out| {
                let count = x.len() as f32;
                let mean = sum(x, |x| x) / count;
                let root = (sum(x, |x| (x - mean) * (x - mean)) / count + epsilon).sqrt();
                for (((out, x), weight), bias) in out.iter_mut().zip(x).zip(weight).zip(bias) {
                    *out = (x - mean) / root * weight + bias;
                }
            },
        ))
    }
}

impl CustomOp3 for RopeOp {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_at: &Layout,
        c: &CpuStorage,
        c_at: &Layout,
        s: &CpuStorage,
        s_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, cos, sin) = (Rows::new(x, x_at)?, numbers(c, c_at)?, numbers(s, s_at)?);
        let [rows, heads, head_dim] = *x_at.dims() else { bail!("rows of heads are turned") };
        let half = head_dim / 2;
        if cos.len() != rows * half || sin.len() != cos.len() {
            bail!("{} angles for {rows} rows of heads of {head_dim}", cos.len());
        }
        Ok(each(
            self.level,
            &x,
            #[inline(always)]
            |index, x, out| {
                let angles = index / heads * half..(index / heads + 1) * half;
                let (cos, sin) = (&cos[angles.clone()], &sin[angles]);
                let ((a, b), (out_a, out_b)) = (x.split_at(half), out.split_at_mut(half));
                for i in 0..half {
                    out_a[i] = a[i] * cos[i] - b[i] * sin[i];
                    out_b[i] = a[i] * sin[i] + b[i] * cos[i];
                }
            },
        ))
    }
}

impl CustomOp2 for AddOp {
    fn name(&self) -> &'static str {
        "add"
    }

    fn cpu_fwd(&self, x: &CpuStorage, x_at: &Layout, y: &CpuStorage, y_at: &Layout) -> Result<(CpuStorage, Shape)> {
        let (x, y) = (Rows::new(x, x_at)?, Rows::new(y, y_at)?);
        if x_at.shape() != y_at.shape() {
            bail!("a sum of shapes {:?} and {:?}", x_at.shape(), y_at.shape());
        }
        Ok(each(
            self.level,
            &x,
            #[inline(always)]
            |index, x, out| out.iter_mut().zip(x).zip(y.row(index)).for_each(|((out, x), y)| *out = x + y),
        ))
    }
}
