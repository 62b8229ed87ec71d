#!/usr/bin/env python3
"""Prefill and decode speed, peak memory and load of capjudge and llama.cpp, on the same file, in turns.

    pip install llama-cpp-python numpy
    cargo build --release
    python benches/peers/llama_cpp.py --binary target/release/capjudge MODEL.gguf...

For prompts of 512 and 1500 tokens, each engine reads the prompt (prefill) and then writes 64 tokens greedily behind it
(decode). Every measurement is a process of its own; the engines alternate (A B, then B A, …), so that a machine that
slows down slows both. A ratio is capjudge over llama.cpp within one round: above 1, capjudge is faster (or, for
memory and load, takes more). Printed are the median of the rounds' ratios and every round, since one number hides
noise.

capjudge reports its own times (`generate --json`, `timings`). llama.cpp runs through llama_cpp in this script's worker
mode: memory-mapped, flash attention on, batches of 512 (`--batches`), the same number of threads. Its first evaluation
(one token) counts as loading, so its prefill does not pay for mapping the file; starting Python and importing packages
do not count. Files are in the page cache after the first round: load is a warm one. Memory is VmHWM, the process's
largest resident set; the worker's Python interpreter is in it and is reported beside it.

Needs an idle machine. With compilers on the same two cores, llama.cpp decoded SmolLM2-135M at about 1 token/s with two
threads, where it had 80 with one: numbers from a busy machine say nothing.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import turns


def worker(model: str, ids_file: str, tokens: int, threads: int, batch: int) -> None:
    """llama.cpp's side: a process that prints the same timings as capjudge."""
    import numpy

    llama_cpp = turns.installed("llama_cpp")
    interpreter = turns.peak_memory()
    ids = [int(word) for word in Path(ids_file).read_text().split(",")]
    started = time.perf_counter()
    engine = llama_cpp.Llama(
        model, n_ctx=len(ids) + tokens + 16, n_batch=batch, n_ubatch=batch, n_threads=threads,
        n_threads_batch=threads, flash_attn=True, use_mmap=True, logits_all=False, verbose=False,
    )

    def best() -> int:
        row = llama_cpp.llama_get_logits_ith(engine.ctx, -1)
        return int(numpy.ctypeslib.as_array(row, (engine.n_vocab(),)).argmax())

    engine.eval(ids[:1])
    best()
    engine.reset()
    loaded = time.perf_counter()
    engine.eval(ids)
    token = best()
    read = time.perf_counter()
    for _ in range(tokens):
        engine.eval([token])
        token = best()
    done = time.perf_counter()
    print(json.dumps({
        "load_seconds": loaded - started, "prompt_tokens": len(ids), "prompt_seconds": read - loaded,
        "decode_tokens": tokens, "decode_seconds": done - read, "peak_memory_bytes": turns.peak_memory(),
        "interpreter_bytes": interpreter,
    }))


def side(model: Path, ids_file: Path, options: argparse.Namespace) -> dict:
    return turns.worker(__file__, model, ids_file, options.tokens, options.threads, options.batches)


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        model, ids_file, *numbers = sys.argv[2:]
        return worker(model, ids_file, *map(int, numbers))
    parser = turns.arguments(__doc__)
    parser.add_argument("--batches", type=int, default=512, help="how many tokens llama.cpp reads at once")
    turns.main(__doc__, "llama.cpp", side, parser)


if __name__ == "__main__":
    main()
