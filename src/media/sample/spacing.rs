//! Evenly spaced numbers, rounded exactly as the reference programs round them.
//!
//! Invariant: for the same arguments, each function gives the numbers that numpy or torch give, bit for bit. A frame
//! number is a rounded one, so the last bit decides which frame a judge sees.

/// `numpy.linspace(start, stop, count)` in 64 bits: `i * step + start`, the last one set to `stop`.
pub(super) fn numpy(start: f64, stop: f64, count: u64) -> impl Iterator<Item = f64> {
    let delta = stop - start;
    let parts = count.saturating_sub(1);
    let step = delta / parts as f64;
    (0..count).map(move |i| {
        if parts > 0 && i == parts {
            stop
        } else if parts == 0 {
            start
        } else if step == 0.0 {
            // A step too small to be one, or no way to go at all: numpy divides first then.
            i as f64 / parts as f64 * delta + start
        } else {
            i as f64 * step + start
        }
    })
}

/// `torch.linspace(0, stop, count)` in 32 bits: from the start in the first half and from the end in the second, each
/// multiplied and added in one rounding, as the build for x86-64 with AVX2 does.
pub(super) fn torch(stop: f32, count: u64) -> impl Iterator<Item = f32> {
    let parts = count.saturating_sub(1);
    let step = if parts == 0 { 0.0 } else { stop / parts as f32 };
    (0..count).map(move |i| {
        if count == 1 {
            0.0
        } else if i < count / 2 {
            step.mul_add(i as f32, 0.0)
        } else {
            (-step).mul_add((parts - i) as f32, stop)
        }
    })
}

/// `torch.arange(0, stop, step)` in 32 bits. Its length is found in 64 bits. Whole blocks of 16 are two vectors of 8,
/// each counted from its own rounded base; what is left is rounded once.
pub(super) fn torch_arange(stop: u64, step: f64) -> impl Iterator<Item = f32> {
    const BLOCK: u64 = 16;
    const LANES: u64 = 8;
    let count = (stop as f64 / step).ceil() as u64;
    let blocks = count / BLOCK * BLOCK;
    (0..count).map(move |i| {
        if i < blocks {
            let base = (step * (i / LANES * LANES) as f64) as f32;
            (f64::from(base) + (i % LANES) as f64 * step) as f32
        } else {
            (step * i as f64) as f32
        }
    })
}
