//! The kernels against plain arithmetic, against each other, and against themselves with other row counts and cuts.

use std::path::Path;

use candle_core::quantized::GgmlDType;
use candle_core::{Device, Tensor};
use capjudge::kernels::{
    AddOp, Attention, KeyValues, LayerNormOp, Level, Matrix, Precision, Reach, RmsNormOp, RopeOp, Weights, attention,
    block_bytes, matmul,
};
use capjudge::model::gguf::GgufFile;
use half::f16;

/// Every type of weights, and where a block of it has half floats.
const TYPES: [(GgmlDType, &[usize]); 13] = [
    (GgmlDType::F32, &[]),
    (GgmlDType::F16, &[]),
    (GgmlDType::BF16, &[]),
    (GgmlDType::Q4_0, &[0]),
    (GgmlDType::Q4_1, &[0, 2]),
    (GgmlDType::Q5_0, &[0]),
    (GgmlDType::Q5_1, &[0, 2]),
    (GgmlDType::Q8_0, &[0]),
    (GgmlDType::Q2K, &[80, 82]),
    (GgmlDType::Q3K, &[108]),
    (GgmlDType::Q4K, &[0, 2]),
    (GgmlDType::Q5K, &[0, 2]),
    (GgmlDType::Q6K, &[208]),
];

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }

    /// From -1 to 1.
    fn float(&mut self) -> f32 {
        self.next() as f32 / (1u32 << 30) as f32 - 1.0
    }

    /// Activations: mostly small, some large.
    fn activations(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|i| self.float() * if i % 97 == 5 { 40.0 } else { 1.0 }).collect()
    }
}

fn levels() -> Vec<Level> {
    Level::all()
}

/// A level of kernels, and how finely activations are told apart.
type Way = (Level, Precision);

fn ways() -> Vec<Way> {
    levels()
        .into_iter()
        .flat_map(|level| [Precision::Fine, Precision::Coarse].map(|precision| (level, precision)))
        .collect()
}

/// A matrix whose blocks have the bytes that `byte` gives, and scales that are numbers.
fn blocks(dtype: GgmlDType, rows: usize, columns: usize, random: &mut Random, byte: fn(&mut Random) -> u8) -> Matrix {
    let halves = TYPES.iter().find(|(other, _)| *other == dtype).unwrap().1;
    let mut bytes: Vec<u8> = match dtype {
        GgmlDType::F32 => (0..rows * columns).flat_map(|_| random.float().to_le_bytes()).collect(),
        GgmlDType::F16 => (0..rows * columns).flat_map(|_| f16::from_f32(random.float()).to_le_bytes()).collect(),
        GgmlDType::BF16 => {
            (0..rows * columns).flat_map(|_| half::bf16::from_f32(random.float()).to_le_bytes()).collect()
        }
        _ => (0..rows * block_bytes(dtype, columns).unwrap()).map(|_| byte(random)).collect(),
    };
    if !halves.is_empty() {
        for block in bytes.chunks_exact_mut(dtype.type_size()) {
            for at in halves {
                block[*at..at + 2].copy_from_slice(&f16::from_f32(random.float() * 0.05).to_le_bytes());
            }
        }
    }
    Matrix::new(dtype, rows, columns, bytes.into()).unwrap()
}

fn any(random: &mut Random) -> u8 {
    random.next() as u8
}

fn extreme(random: &mut Random) -> u8 {
    [0, 0x80, 0x7f, 0xff][random.next() as usize % 4]
}

/// The widths that a type is tried with: with short last groups and odd ends where it has them.
fn widths(dtype: GgmlDType) -> &'static [usize] {
    match dtype.block_size() {
        1 => &[1, 7, 64, 331],
        32 => &[32, 256, 288, 896],
        _ => &[256, 1024],
    }
}

fn product((level, precision): Way, x: &[f32], parts: &[Matrix]) -> Vec<f32> {
    let outputs: usize = parts.iter().map(Matrix::rows).sum();
    let mut out = vec![f32::NAN; x.len() / parts[0].columns() * outputs];
    let parts: Vec<Weights> = parts.iter().map(|part| Weights::new(level, part.clone()).unwrap()).collect();
    matmul(level, precision, x, &parts, &mut out);
    out
}

fn bits(floats: &[f32]) -> Vec<u32> {
    floats.iter().map(|float| float.to_bits()).collect()
}

/// Compares products with those of 64-bit floats. An activation may be off by half a step of its group of 256, which
/// has 8127 steps up to its largest number, or 127; besides that there is rounding.
#[track_caller]
fn check(way: Way, x: &[f32], matrix: &Matrix) {
    let columns = matrix.columns();
    let out = product(way, x, std::slice::from_ref(matrix));
    let steps = if way.1 == Precision::Fine { 8127.0 } else { 127.0 };
    let mut weights = vec![0.0; columns];
    for column in 0..matrix.rows() {
        matrix.dequantise(column, &mut weights);
        let largest = weights.iter().fold(0.0, |largest, weight| weight.abs().max(largest));
        for (row, x) in x.chunks_exact(columns).enumerate() {
            let exact: f64 = x.iter().zip(&weights).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
            let groups = x.chunks(256).zip(weights.chunks(256)).map(|(x, weights)| {
                let highest = x.iter().fold(0.0f32, |highest, x| x.abs().max(highest));
                let step = if matrix.dtype().block_size() == 1 { 0.0 } else { 0.5 / steps };
                highest * weights.iter().map(|weight| weight.abs() * step + largest * 1e-6).sum::<f32>()
            });
            let allowed: f32 = groups.sum();
            let got = out[row * matrix.rows() + column];
            let off = (f64::from(got) - exact).abs();
            assert!(off <= f64::from(allowed), "{:?} {way:?} {columns}: {got}, not {exact}", matrix.dtype());
        }
    }
}

#[test]
fn weights_are_those_of_gguf_py_to_the_bit() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models");
    let file = GgufFile::open(&data.join("quants.gguf")).unwrap();
    let expected = candle_core::safetensors::load(data.join("quants.safetensors"), &Device::Cpu).unwrap();
    assert_eq!(file.names().count(), TYPES.len());
    for name in file.names() {
        let tensor = file.tensor(name).unwrap();
        let matrix = Matrix::new(tensor.dtype, tensor.shape[0], tensor.shape[1], tensor.bytes.clone()).unwrap();
        for (row, expected) in expected[name].to_vec2::<f32>().unwrap().iter().enumerate() {
            let mut out = vec![0.0; matrix.columns()];
            matrix.dequantise(row, &mut out);
            assert_eq!(bits(&out), bits(expected), "row {row} of {name}");
        }
    }
}

#[test]
fn products_are_those_of_plain_arithmetic() {
    let mut random = Random(1);
    for (dtype, _) in TYPES {
        for columns in widths(dtype) {
            for (rows, outputs) in [(1, 5), (2, 3), (5, 7), (9, 26)] {
                let x = random.activations(rows * columns);
                for byte in [any, extreme] {
                    let matrix = blocks(dtype, outputs, *columns, &mut random, byte);
                    ways().into_iter().for_each(|way| check(way, &x, &matrix));
                }
            }
        }
    }
}

#[test]
fn the_largest_sums_do_not_overflow() {
    for (dtype, halves) in TYPES.into_iter().filter(|(dtype, _)| dtype.block_size() > 1) {
        for byte in [0x00, 0x7f, 0x80, 0xff] {
            let mut bytes = vec![byte; block_bytes(dtype, 512).unwrap()];
            for block in bytes.chunks_exact_mut(dtype.type_size()) {
                halves.iter().for_each(|at| block[*at..at + 2].copy_from_slice(&f16::ONE.to_le_bytes()));
                if dtype == GgmlDType::Q6K && byte == 0 {
                    // The largest integers of all: -32 times -128.
                    block[192..208].fill(0x80);
                }
            }
            let matrix = Matrix::new(dtype, 1, 512, bytes.into()).unwrap();
            for x in [1.0, -1.0] {
                ways().into_iter().for_each(|way| check(way, &[x; 3 * 512], &matrix));
                ways().into_iter().for_each(|way| check(way, &[x; 512], &matrix));
            }
        }
    }
}

#[test]
fn a_row_gives_the_same_bits_alone_and_among_others() {
    let mut random = Random(2);
    for (dtype, _) in TYPES {
        for columns in widths(dtype) {
            let parts = [41, 6].map(|outputs| blocks(dtype, outputs, *columns, &mut random, any));
            let x = random.activations(11 * columns);
            for way in ways() {
                let alone: Vec<f32> = x.chunks_exact(*columns).flat_map(|x| product(way, x, &parts)).collect();
                for rows in [2, 3, 4, 5, 8, 11] {
                    let together: Vec<f32> = x.chunks(rows * columns).flat_map(|x| product(way, x, &parts)).collect();
                    assert_eq!(bits(&alone), bits(&together), "{dtype:?} {way:?} {columns}, {rows} rows");
                }
            }
        }
    }
}

#[test]
fn all_levels_give_the_same_to_rounding() {
    let mut random = Random(6);
    for (dtype, _) in TYPES {
        for (columns, rows) in widths(dtype).iter().flat_map(|columns| [(*columns, 1), (*columns, 6)]) {
            let matrix = [blocks(dtype, 10, columns, &mut random, any)];
            let x = random.activations(rows * columns);
            let expected = product((Level::Portable, Precision::Fine), &x, &matrix);
            let largest = expected.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            for level in levels() {
                for (got, expected) in product((level, Precision::Fine), &x, &matrix).iter().zip(&expected) {
                    assert!((got - expected).abs() <= largest * 1e-5, "{dtype:?} {level}: {got}, not {expected}");
                }
            }
        }
    }
}

#[test]
fn parts_of_several_types_stand_side_by_side() {
    let mut random = Random(3);
    let types = [GgmlDType::Q4K, GgmlDType::F32, GgmlDType::Q6K, GgmlDType::Q8_0, GgmlDType::F16];
    let parts = types.map(|dtype| blocks(dtype, 9, 512, &mut random, any));
    for rows in [1, 6] {
        let x = random.activations(rows * 512);
        for way in ways() {
            let all = product(way, &x, &parts);
            for (index, part) in parts.iter().enumerate() {
                let alone = product(way, &x, std::slice::from_ref(part));
                for row in 0..rows {
                    let here = &all[row * 45 + index * 9..][..9];
                    assert_eq!(bits(here), bits(&alone[row * 9..][..9]), "{way:?}, part {index}");
                }
            }
        }
    }
}

#[test]
fn activations_that_are_no_numbers_are_noticed() {
    let mut random = Random(4);
    let matrix = blocks(GgmlDType::Q4K, 3, 512, &mut random, any);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = random.activations(5 * 512);
        x[2 * 512 + 300] = bad;
        for way in ways() {
            let out = product(way, &x, std::slice::from_ref(&matrix));
            for (row, out) in out.chunks_exact(3).enumerate() {
                assert!(out.iter().all(|out| out.is_nan() == (row == 2)), "{way:?}: {bad} in row 2, {out:?} in {row}");
            }
        }
    }
    let nothing = [0.0, 1e-38, -1e-45].map(|x| [x; 512]).concat();
    assert!(product((Level::detect(), Precision::Fine), &nothing, &[matrix]).iter().all(|out| *out == 0.0));
}

/// Keys and values of a sequence, `[position, head, number]`.
struct Memory {
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// The same positions in segments with these lengths, with room left in each.
fn cut(all: &[f32], kind: &Attention, lengths: &[usize]) -> Vec<Vec<f32>> {
    let (heads, size) = (kind.kv_heads, kind.head_dim);
    let mut before = 0;
    let segments = lengths.iter().map(|length| {
        let capacity = length + 3;
        let mut segment = vec![f32::NAN; heads * capacity * size];
        for (position, head) in (0..*length).flat_map(|position| (0..heads).map(move |head| (position, head))) {
            let from = &all[((before + position) * heads + head) * size..][..size];
            segment[(head * capacity + position) * size..][..size].copy_from_slice(from);
        }
        before += length;
        segment
    });
    segments.collect()
}

/// The results of all queries, given in chunks of `chunk`, over segments of these lengths.
fn attended(
    level: Level,
    kind: &Attention,
    queries: &[f32],
    memory: &Memory,
    lengths: &[usize],
    chunk: usize,
) -> Vec<f32> {
    let (keys, values) = (cut(&memory.keys, kind, lengths), cut(&memory.values, kind, lengths));
    let segments: Vec<_> = lengths.iter().zip(keys.iter().zip(&values)).collect();
    let segments = segments.into_iter().map(|(length, (keys, values))| KeyValues {
        keys,
        values,
        capacity: length + 3,
        length: *length,
    });
    let segments: Vec<_> = segments.collect();
    let width = kind.heads * kind.head_dim;
    let mut out = vec![f32::NAN; queries.len()];
    for (index, (queries, out)) in queries.chunks(chunk * width).zip(out.chunks_mut(chunk * width)).enumerate() {
        attention(level, kind, queries, index * chunk, &segments, out);
    }
    out
}

/// With 64-bit floats.
fn plain(kind: &Attention, queries: &[f32], memory: &Memory) -> Vec<f64> {
    let (size, group) = (kind.head_dim, kind.heads / kind.kv_heads);
    let mut out = Vec::new();
    for (index, query) in queries.chunks_exact(size).enumerate() {
        let (position, head) = (index / kind.heads, index % kind.heads / group);
        let at = |all: &[f32], seen: usize, i: usize| f64::from(all[(seen * kind.kv_heads + head) * size + i]);
        let seen = kind.seen(position, queries.len() / (kind.heads * size));
        let weights = seen.clone().map(|seen| {
            let dot: f64 = (0..size).map(|i| f64::from(query[i]) * at(&memory.keys, seen, i)).sum();
            (dot * f64::from(kind.scale)).exp()
        });
        let weights: Vec<f64> = weights.collect();
        let total: f64 = weights.iter().sum();
        out.extend((0..size).map(|i| {
            seen.clone().zip(&weights).map(|(seen, weight)| weight * at(&memory.values, seen, i)).sum::<f64>() / total
        }));
    }
    out
}

#[test]
fn attention_is_right_however_keys_and_queries_are_cut() {
    let mut random = Random(5);
    const COUNT: usize = 29;
    for (head_dim, groups) in [(8, 1..9), (12, 1..5), (64, 1..9), (128, 2..4), (80, 1..3)] {
        let reaches = [Reach::Before, Reach::Window(1), Reach::Window(6), Reach::Window(20), Reach::All];
        for (group, reach) in groups.flat_map(|group| reaches.map(|reach| (group, reach))) {
            let (heads, scale) = (2 * group, (head_dim as f32).powf(-0.5));
            let kind = Attention { heads, kv_heads: 2, head_dim, scale, reach };
            let mut floats = |count: usize| (0..count).map(|_| random.float() * 3.0).collect::<Vec<_>>();
            let queries = floats(COUNT * heads * head_dim);
            let memory = Memory { keys: floats(COUNT * 2 * head_dim), values: floats(COUNT * 2 * head_dim) };
            let expected = plain(&kind, &queries, &memory);
            for level in levels() {
                let whole = attended(level, &kind, &queries, &memory, &[COUNT], COUNT);
                let far = whole.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
                assert!(far < 2e-5, "{level}, {kind:?}: off by {far}");
                for (lengths, chunk) in
                    [(&[COUNT][..], 1), (&[1, 9, 0, 19], COUNT), (&[16, 13], 3), (&[2, 2, 2, 2, 2, 2, 2, 15], 10)]
                {
                    // Who sees all cannot begin before all is there.
                    let chunk = if reach == Reach::All { COUNT } else { chunk };
                    let found = attended(level, &kind, &queries, &memory, lengths, chunk);
                    assert_eq!(bits(&whole), bits(&found), "{level}, {kind:?}, {lengths:?}, chunks of {chunk}");
                }
            }
        }
    }
}

/// The same to 64-bit floats, in every level to the same bits, and for rows that lie apart as for rows in one piece.
#[test]
fn norms_turns_and_sums_of_rows_are_those_of_plain_arithmetic() {
    let mut random = Random(7);
    for (rows, heads, width) in [(1, 1, 8), (3, 2, 10), (7, 5, 64), (40, 3, 130)] {
        let tensor = |random: &mut Random, shape: &[usize]| {
            let count = shape.iter().product();
            Tensor::from_vec(random.activations(count), shape, &Device::Cpu).unwrap()
        };
        // More heads stand beside those that are used.
        let all = tensor(&mut random, &[rows, heads + 3, width]);
        let x = all.narrow(1, 2, heads).unwrap();
        let y = tensor(&mut random, &[rows, heads, width]);
        let (weight, bias) = (tensor(&mut random, &[width]), tensor(&mut random, &[width]));
        let (cos, sin) = (tensor(&mut random, &[rows, width / 2]), tensor(&mut random, &[rows, width / 2]));
        let each = |level: Level| {
            let epsilon = 1e-5;
            [
                x.apply_op2_no_bwd(&weight, &RmsNormOp { epsilon, level }).unwrap(),
                x.apply_op3_no_bwd(&weight, &bias, &LayerNormOp { epsilon, level }).unwrap(),
                x.apply_op3_no_bwd(&cos, &sin, &RopeOp { level }).unwrap(),
                x.apply_op2_no_bwd(&y, &AddOp { level }).unwrap(),
            ]
            .map(|found| found.flatten_all().unwrap().to_vec1::<f32>().unwrap())
        };
        let floats = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let doubles = |tensor: &Tensor| floats(tensor).into_iter().map(f64::from).collect::<Vec<_>>();
        let (xs, ys, weights, biases) = (doubles(&x), doubles(&y), doubles(&weight), doubles(&bias));
        let (cosines, sines) = (doubles(&cos), doubles(&sin));
        let half = width / 2;
        let found = each(Level::Portable);
        for (index, x) in xs.chunks_exact(width).enumerate() {
            let square = x.iter().map(|x| x * x).sum::<f64>() / width as f64;
            let mean = x.iter().sum::<f64>() / width as f64;
            let spread = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
            for i in 0..width {
                let (pair, angle) = (x[(i + half) % (2 * half)], index / heads * half + i % half);
                let (cos, sin) = (cosines[angle], sines[angle]);
                let expected = [
                    x[i] / (square + 1e-5).sqrt() * weights[i],
                    (x[i] - mean) / (spread + 1e-5).sqrt() * weights[i] + biases[i],
                    if i < half { x[i] * cos - pair * sin } else { pair * sin + x[i] * cos },
                    x[i] + ys[index * width + i],
                ];
                for (found, expected) in found.iter().zip(expected) {
                    let found = f64::from(found[index * width + i]);
                    assert!((found - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{found}, not {expected}");
                }
            }
        }
        for level in levels() {
            assert_eq!(each(level).map(|found| bits(&found)), found.clone().map(|found| bits(&found)), "{level}");
        }
    }
}

/// What makes a batch worth the trouble: integer sums do not care which instructions add them up.
#[test]
fn quantised_products_are_the_same_bits_in_every_level() {
    let mut random = Random(8);
    for (dtype, _) in TYPES.into_iter().filter(|(dtype, _)| dtype.block_size() > 1) {
        for (columns, rows) in widths(dtype).iter().flat_map(|columns| [(*columns, 1), (*columns, 13)]) {
            for byte in [any, extreme] {
                let matrix = [blocks(dtype, 35, columns, &mut random, byte)];
                let x = random.activations(rows * columns);
                let expected = |precision| bits(&product((Level::Portable, precision), &x, &matrix));
                for way in ways() {
                    let got = bits(&product(way, &x, &matrix));
                    assert_eq!(got, expected(way.1), "{dtype:?} {way:?} {columns}, {rows}");
                }
            }
        }
    }
}
