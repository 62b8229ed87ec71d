#!/usr/bin/env python3
"""Prefill and decode speed and peak memory of capjudge and llama.cpp, on the same file, in turns.

    pip install llama-cpp-python numpy
    cargo build --release
    python benches/peers/llama_cpp.py --binary target/release/capjudge MODEL.gguf...

For prompts of 512 and 1500 tokens, each engine reads the prompt (prefill) and then writes 64 tokens greedily behind it
(decode). Every measurement is a process of its own; the engines alternate (A B, then B A, …), so that a machine that
slows down slows both. A ratio is capjudge over llama.cpp within one round: above 1, capjudge is faster (or, for
memory, larger). Printed are the median of the rounds' ratios and every round, since one number hides noise.

capjudge reports its own times (`generate --json`, `timings`). llama.cpp runs through llama_cpp in this script's worker
mode: memory-mapped, flash attention on, batches of 512, the same number of threads. Its first evaluation (one token)
counts as loading, so its prefill does not pay for mapping the file. Memory is VmHWM, the process's largest resident
set; the worker's Python interpreter is in it and is reported beside it.

Needs an idle machine. With compilers on the same two cores, llama.cpp decoded SmolLM2-135M at about 1 token/s with two
threads, where it had 80 with one: numbers from a busy machine say nothing.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# This file has the name of the module that it measures: the module must win.
sys.path = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]

TEXT = (
    "A man in a red jacket carries a ladder across the yard, leans it against the wall and climbs to the roof. He "
    "clears the leaves from the gutter by hand and drops them into a bucket that hangs from the top rung. Below, a dog "
    "walks round the foot of the ladder twice, lies down in the shade and watches the gate. "
)
MEASURES = [("prefill", "tokens/s"), ("decode", "tokens/s"), ("memory", "MB")]


def peak_memory() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("no VmHWM in /proc/self/status: this needs Linux")


# --- llama.cpp's side: a process that prints the same timings as capjudge ---


def worker(model: str, ids_file: str, tokens: int, threads: int) -> None:
    import llama_cpp
    import numpy

    interpreter = peak_memory()
    ids = [int(word) for word in Path(ids_file).read_text().split(",")]
    started = time.perf_counter()
    engine = llama_cpp.Llama(
        model, n_ctx=len(ids) + tokens + 16, n_batch=512, n_ubatch=512, n_threads=threads, n_threads_batch=threads,
        flash_attn=True, use_mmap=True, logits_all=False, verbose=False,
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
        "decode_tokens": tokens, "decode_seconds": done - read, "peak_memory_bytes": peak_memory(),
        "interpreter_bytes": interpreter,
    }))


# --- both sides, in turns ---


def run(words: list[str], threads: int) -> dict:
    environment = os.environ | {"RAYON_NUM_THREADS": str(threads)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{words[0]} failed ({done.returncode}): {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1] if "--worker" in words else done.stdout)


def capjudge(model: Path, ids: list[int], ids_file: Path, options: argparse.Namespace) -> dict:
    prompt = ["--ids-file", str(ids_file)] if options.ids_file else ["--ids", ",".join(map(str, ids))]
    words = [str(options.binary), "generate", "--model", str(model), *prompt]
    words += ["--max-tokens", str(options.tokens), "--ignore-end", "--temperature", "0", "--json", *options.extra]
    return run(words, options.threads)["timings"]


def llama_cpp_side(model: Path, ids: list[int], ids_file: Path, options: argparse.Namespace) -> dict:
    words = [sys.executable, __file__, "--worker", str(model), str(ids_file), str(options.tokens)]
    return run([*words, str(options.threads)], options.threads)


def rates(timings: dict) -> dict:
    return {
        "prefill": timings["prompt_tokens"] / timings["prompt_seconds"],
        "decode": timings["decode_tokens"] / timings["decode_seconds"],
        "memory": timings["peak_memory_bytes"] / 2**20,
    }


def prompt_of(model: Path, length: int) -> list[int]:
    import llama_cpp

    tokenizer = llama_cpp.Llama(str(model), vocab_only=True, verbose=False)
    ids = list(tokenizer.tokenize(TEXT.encode(), add_bos=False, special=False))
    return (ids * (length // len(ids) + 1))[:length]


def measure(model: Path, depth: int, options: argparse.Namespace) -> dict:
    ids = prompt_of(model, depth)
    engines = {"capjudge": capjudge, "llama.cpp": llama_cpp_side}
    raw = {name: [] for name in engines}
    with tempfile.TemporaryDirectory() as scratch:
        ids_file = Path(scratch) / "ids"
        ids_file.write_text(",".join(map(str, ids)))
        for number in range(options.rounds):
            for name in list(engines) if number % 2 == 0 else list(engines)[::-1]:
                raw[name].append(engines[name](model, ids, ids_file, options))

    print(f"\n{model.name}, prompt of {depth} tokens, {options.tokens} written, {options.threads} threads")
    result = {"model": model.name, "depth": depth, "timings": raw, "ratios": {}}
    sides = {name: [rates(timings) for timings in rows] for name, rows in raw.items()}
    for what, unit in MEASURES:
        ours, theirs = ([row[what] for row in sides[name]] for name in ("capjudge", "llama.cpp"))
        ratios = [a / b for a, b in zip(ours, theirs)]
        result["ratios"][what] = {"median": statistics.median(ratios), "rounds": ratios}
        print(
            f"  {what:8} capjudge {statistics.median(ours):8.1f}  llama.cpp {statistics.median(theirs):8.1f} {unit:9}"
            f" ratio {statistics.median(ratios):.2f}  (rounds: {', '.join(f'{ratio:.2f}' for ratio in ratios)})"
        )
    interpreter = raw["llama.cpp"][0]["interpreter_bytes"] / 2**20
    loads = {name: statistics.median(row["load_seconds"] for row in rows) for name, rows in raw.items()}
    print(
        f"  of llama.cpp's memory {interpreter:.0f} MB are its interpreter; loading took "
        + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in loads.items()),
        flush=True,
    )
    return result


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        model, ids_file, tokens, threads = sys.argv[2:]
        return worker(model, ids_file, int(tokens), int(threads))
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("models", nargs="+", type=Path, metavar="MODEL.gguf")
    arguments.add_argument("--binary", type=Path, required=True, help="the capjudge to measure")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--depths", type=int, nargs="+", default=[512, 1500], help="lengths of the prompts")
    arguments.add_argument("--tokens", type=int, default=64, help="how many to write behind the prompt")
    arguments.add_argument("--threads", type=int, default=2, help="for both; capjudge gets RAYON_NUM_THREADS")
    arguments.add_argument("--ids-file", action="store_true", help="give capjudge the prompt as --ids-file, not --ids")
    arguments.add_argument("--extra", nargs="*", default=[], help="more words for capjudge's command line")
    arguments.add_argument("--summary", type=Path, help="write every timing and ratio here, as JSON")
    options = arguments.parse_args()
    results = [measure(model, depth, options) for model in options.models for depth in options.depths]
    if options.summary:
        options.summary.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
