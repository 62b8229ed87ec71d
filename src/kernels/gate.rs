//! Activation functions: alone, or as the gate of a feed-forward layer, times the other half.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, bail};

use super::exp::exp;
use super::threads::share;
use super::{Level, Shared};

/// The activation function of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// x · sigmoid(x).
    Silu,
    /// The Gaussian error linear unit, by its tanh approximation.
    GeluTanh,
}

/// The gate as an operation of candle: rows of `2n` numbers become rows of `n`.
#[derive(Debug, Clone, Copy)]
pub struct GateOp {
    /// The activation function.
    pub gate: Gate,
    /// The kernels.
    pub level: Level,
}

impl CustomOp1 for GateOp {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let CpuStorage::F32(data) = storage else { bail!("activations are 32-bit floats") };
        let Some((start, end)) = layout.contiguous_offsets() else { bail!("activations lie in one piece") };
        let [rows, width] = *layout.dims() else { bail!("activations are rows") };
        let (data, width) = (&data[start..end], width / 2);
        let mut out = vec![0.0; rows * width];
        let shared = Shared(out.as_mut_ptr());
        share(rows, width * 8, |range| {
            for row in range {
                let (left, right) = data[row * 2 * width..(row + 1) * 2 * width].split_at(width);
                // SAFETY: each row is inside the output, and is one thread's alone.
                let out = unsafe { shared.slice(row * width, width) };
                match self.level {
                    Level::Portable => apply(self.gate, left, right, out),
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: the level says that the machine has AVX2.
                    Level::Avx2 | Level::Avx512 => unsafe { super::avx2::gate(self.gate, left, right, out) },
                }
            }
        });
        Ok((CpuStorage::F32(out), (rows, width).into()))
    }
}

/// The activation function alone, as an operation of candle.
#[derive(Debug, Clone, Copy)]
pub struct ActivateOp {
    /// The activation function.
    pub gate: Gate,
    /// The kernels.
    pub level: Level,
}

/// Numbers that a thread takes at a time.
const RUN: usize = 4096;

impl CustomOp1 for ActivateOp {
    fn name(&self) -> &'static str {
        "activate"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let CpuStorage::F32(data) = storage else { bail!("activations are 32-bit floats") };
        let Some((start, end)) = layout.contiguous_offsets() else { bail!("activations lie in one piece") };
        let mut out = data[start..end].to_vec();
        let (length, shared) = (out.len(), Shared(out.as_mut_ptr()));
        share(length.div_ceil(RUN), RUN * 8, |range| {
            for run in range {
                // SAFETY: each run is inside the output, and is one thread's alone.
                let out = unsafe { shared.slice(run * RUN, RUN.min(length - run * RUN)) };
                match self.level {
                    Level::Portable => activate(self.gate, out),
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: the level says that the machine has AVX2.
                    Level::Avx2 | Level::Avx512 => unsafe { super::avx2::activate(self.gate, out) },
                }
            }
        });
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }
}

/// `gate(x)` of each number.
#[inline(always)]
pub fn activate(gate: Gate, xs: &mut [f32]) {
    match gate {
        Gate::Silu => xs.iter_mut().for_each(|x| *x = silu(*x)),
        Gate::GeluTanh => xs.iter_mut().for_each(|x| *x = gelu_tanh(*x)),
    }
}

/// `gate(left) · right`.
#[inline(always)]
pub fn apply(gate: Gate, left: &[f32], right: &[f32], out: &mut [f32]) {
    let each = out.iter_mut().zip(left).zip(right);
    match gate {
        Gate::Silu => each.for_each(|((out, left), right)| *out = silu(*left) * right),
        Gate::GeluTanh => each.for_each(|((out, left), right)| *out = gelu_tanh(*left) * right),
    }
}

#[inline(always)]
fn silu(x: f32) -> f32 {
    let power = exp(-x.abs());
    let numerator = if x < 0.0 { power } else { 1.0 };
    x * (numerator / (1.0 + power))
}

#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    let y = 0.797_884_6 * (x + 0.044_715 * x * x * x);
    let power = exp(-2.0 * y.abs());
    let tanh = (1.0 - power) / (1.0 + power);
    let tanh = if y < 0.0 { -tanh } else { tanh };
    0.5 * x * (1.0 + tanh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_those_of_the_definitions() {
        for i in -4000..4000 {
            let x = i as f32 * 0.005;
            let exact = f64::from(x);
            let expected = exact / (1.0 + (-exact).exp());
            assert!((f64::from(silu(x)) - expected).abs() < 1e-6 + expected.abs() * 1e-6, "silu({x})");
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (exact + 0.044715 * exact.powi(3));
            let expected = 0.5 * exact * (1.0 + inner.tanh());
            assert!((f64::from(gelu_tanh(x)) - expected).abs() < 1e-6 + expected.abs() * 1e-6, "gelu({x})");
        }
    }
}
