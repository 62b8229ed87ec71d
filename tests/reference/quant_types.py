#!/usr/bin/env python3
"""One small tensor of every GGUF type, and the values gguf-py reads from it.

    pip install gguf safetensors
    python tests/reference/quant_types.py tests/data/models     # writes quants.gguf and quants.safetensors

Every tensor is [3, 512] and named after its type. Those types that gguf-py can quantise (the 32-value blocks) start
from random values; the 256-value ones are random blocks, as it can only read them. Over them lie edge blocks: a scale
of zero, a negative scale, the largest quants, a subnormal scale. quants.safetensors has the float32 values under the
same names; where llama_cpp is installed they are checked, bit for bit, against ggml's own dequantize_row functions.

What this guards: the block layouts, which a model's output shows only as a slightly worse model.
"""

import argparse
import ctypes
from pathlib import Path

import gguf
import numpy
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import save_file

ROWS, COLUMNS = 3, 512
QUANTISED = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0]
# For each type: where in a block its F16 scales are, then where the bytes that may hold anything are.
LAYOUTS = {
    Type.Q4_0: ([0], [(2, 18)]),
    Type.Q4_1: ([0, 2], [(4, 20)]),
    Type.Q5_0: ([0], [(2, 22)]),
    Type.Q5_1: ([0, 2], [(4, 24)]),
    Type.Q8_0: ([0], [(2, 34)]),
    Type.Q2_K: ([80, 82], [(0, 80)]),
    Type.Q3_K: ([108], [(0, 108)]),
    Type.Q4_K: ([0, 2], [(4, 144)]),
    Type.Q5_K: ([0, 2], [(4, 176)]),
    Type.Q6_K: ([208], [(0, 208)]),
}
SUBNORMAL = numpy.float16(5e-7)
EDGES = ["zero scale", "negative scale", "largest quants", "subnormal scale"]


def put(block: numpy.ndarray, place: int, value) -> None:
    block[place : place + 2] = numpy.frombuffer(numpy.float16(value).tobytes(), dtype=numpy.uint8)


def edge(block: numpy.ndarray, kind: Type, name: str) -> None:
    """Turn a good block into the edge case of that name, in place."""
    scales, fields = LAYOUTS[kind]
    if name == "zero scale":
        for place in scales:
            put(block, place, 0.0)
    elif name == "negative scale":
        for place in scales:
            put(block, place, -0.0123)
    elif name == "largest quants":
        for start, end in fields:
            block[start:end] = 0xFF
            if kind == Type.Q8_0:  # 0xFF is -1 there: both ends instead
                block[start:end:2], block[start + 1 : end : 2] = 0x7F, 0x80
    elif name == "subnormal scale":
        for place in scales:
            put(block, place, SUBNORMAL)


def blocks_of(kind: Type, values: numpy.ndarray, random: numpy.random.Generator) -> numpy.ndarray:
    """The tensor's bytes, [rows, bytes a row]."""
    size, width = gguf.GGML_QUANT_SIZES[kind]
    if kind in QUANTISED:
        blocks = gguf.quantize(values, kind).reshape(-1, width).copy()
    else:
        blocks = random.integers(0, 256, (ROWS * COLUMNS // size, width), dtype=numpy.uint8)
        for block in blocks:
            for place in LAYOUTS[kind][0]:
                put(block, place, random.uniform(0.001, 0.02))
    for index, name in enumerate(EDGES):
        edge(blocks[index + 1], kind, name)  # the first and the last block stay as they are
    return blocks.reshape(ROWS, -1)


def halves(values: numpy.ndarray) -> numpy.ndarray:
    """Values with the corners of half precision in the first row."""
    values = values.copy()
    values[0, :8] = [0.0, -0.0, 65504.0, -65504.0, 6e-8, -5e-7, 6.1e-5, 1.0]
    return values


def check_with_ggml(found: dict[Type, numpy.ndarray], raw: dict[Type, numpy.ndarray]) -> None:
    try:
        import llama_cpp
    except ImportError:
        print("llama_cpp is not installed: not checked against ggml")
        return
    library = ctypes.CDLL(str(next((Path(llama_cpp.__file__).parent / "lib").glob("libggml-base.*"))))
    for kind in LAYOUTS:
        function = getattr(library, f"dequantize_row_{kind.name[:2].lower()}{kind.name[2:]}")
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        data, values = numpy.ascontiguousarray(raw[kind]), numpy.zeros((ROWS, COLUMNS), dtype=numpy.float32)
        function(data.ctypes.data, values.ctypes.data, ROWS * COLUMNS)
        assert numpy.array_equal(values, found[kind]), f"{kind.name}: ggml reads other values"
    print(f"ggml reads the same bits: {', '.join(kind.name for kind in LAYOUTS)}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("out", type=Path)
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(20)
    values = random.normal(0.0, 0.7, (ROWS, COLUMNS)).astype(numpy.float32)

    writer = gguf.GGUFWriter(options.out / "quants.gguf", "llama")
    writer.add_name("one tensor of every type")
    found, raw = {}, {}
    for kind in [Type.F32, Type.F16, Type.BF16, *LAYOUTS]:
        if kind == Type.F32:
            data = halves(values)
        elif kind == Type.F16:
            data = halves(values).astype(numpy.float16)
        elif kind == Type.BF16:
            data = gguf.quantize(halves(values), kind)
        else:
            data = blocks_of(kind, values, random)
        raw[kind] = data
        found[kind] = gguf.dequantize(data, kind).astype(numpy.float32).reshape(ROWS, COLUMNS)
        assert numpy.isfinite(found[kind]).all(), kind.name
        writer.add_tensor(kind.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file({kind.name: numpy.ascontiguousarray(data) for kind, data in found.items()},
              options.out / "quants.safetensors")

    again = {tensor.name: tensor for tensor in gguf.GGUFReader(options.out / "quants.gguf").tensors}
    for kind, data in found.items():
        tensor = again[kind.name]
        assert tensor.tensor_type == kind and list(tensor.shape) == [COLUMNS, ROWS], kind.name
        assert numpy.array_equal(gguf.dequantize(tensor.data, kind).reshape(ROWS, COLUMNS), data), kind.name
    check_with_ggml(found, raw)
    for name in ("quants.gguf", "quants.safetensors"):
        print(f"{name}: {(options.out / name).stat().st_size / 1024:.0f} KB, {len(found)} types")


if __name__ == "__main__":
    main()
