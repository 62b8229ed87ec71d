//! How fast weights are multiplied, in multiplications a second: `cargo bench --bench kernels`.
//!
//! One row is what generating a token does, 8 rows what a batch does, 128 rows what reading a prompt does.

use candle_core::quantized::GgmlDType;
use capjudge::kernels::{Level, Matrix, Precision, Weights, block_bytes, matmul};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

const TYPES: [GgmlDType; 13] = [
    GgmlDType::F32,
    GgmlDType::F16,
    GgmlDType::BF16,
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

const COLUMNS: usize = 1536;
const OUTPUTS: usize = 2048;

#[divan::bench(args = TYPES, consts = [1, 8, 128])]
fn product<const ROWS: usize>(bencher: Bencher, dtype: GgmlDType) {
    // Small bytes, so that no float among them is infinite.
    let bytes = block_bytes(dtype, COLUMNS).expect("whole blocks") * OUTPUTS;
    let bytes: Vec<u8> = (0..bytes).map(|i| (i * 7 % 31) as u8).collect();
    let matrix = Matrix::new(dtype, OUTPUTS, COLUMNS, bytes.into()).expect("as many bytes as it needs");
    let matrix = [Weights::new(Level::detect(), matrix).expect("enough memory")];
    let x: Vec<f32> = (0..ROWS * COLUMNS).map(|i| (i % 17) as f32 - 8.0).collect();
    let mut out = vec![0.0; ROWS * OUTPUTS];
    bencher
        .counter(ItemsCount::new(ROWS * COLUMNS * OUTPUTS))
        .bench_local(|| matmul(Level::detect(), Precision::Fine, black_box(&x), &matrix, black_box(&mut out)));
}
