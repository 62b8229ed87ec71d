#!/usr/bin/env python3
"""Prefill and decode speed, peak memory and load of capjudge and mistral.rs, on the same file, in turns.

    pip install mistralrs llama-cpp-python
    cargo build --release
    python benches/peers/mistral_rs.py --binary target/release/capjudge MODEL.gguf...

Measured as in llama_cpp.py: prompts of 512 and 1500 tokens, 64 tokens greedily behind each, every measurement a process
of its own, engines in turns, ratios of capjudge over mistral.rs round by round (above 1, capjudge is faster; for memory
and load, takes more).

mistral.rs takes text, not ids: it gets the text of the same ids (llama_cpp, needed for its vocabulary only, makes both)
as a plain completion without a chat template, and its own count of tokens is the one that its rates are of. Its times
are the ones that it reports (`usage`), to the millisecond. For an answer of one token it reports no time of decoding:
the first token comes with the prefill, so 65 are written and 64 counted. A request of one token comes first and counts
as loading. One sequence at a time, prefix cache off, its own choice of types (f32 and a cache of keys
and values in f16 on a CPU), threads by RAYON_NUM_THREADS.

The package reads a local GGUF file without a network: tokenizer and chat template come from the file, with the folder
as `quantized_model_id`, no `tok_model_id`, `token_source="none"` and HF_HUB_OFFLINE=1.

Needs an idle machine, more than any other peer: beside compilers on two cores, mistral.rs 0.9.5 with two threads took 85
seconds (40 of the CPU) to read 121 tokens of SmolLM2-135M.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import turns


def worker(model: str, text_file: str, tokens: int) -> None:
    """mistral.rs's side: a process that prints the same timings as capjudge."""
    from mistralrs import CompletionRequest, Runner, Which

    interpreter = turns.peak_memory()
    text, file = Path(text_file).read_text(), Path(model).resolve()
    started = time.perf_counter()
    runner = Runner(
        which=Which.GGUF(quantized_model_id=str(file.parent), quantized_filename=file.name), max_seqs=1,
        prefix_cache_n=0, token_source="none",
    )

    def ask(prompt: str, count: int) -> object:
        request = CompletionRequest(prompt=prompt, model="default", max_tokens=count, temperature=0.0, ignore_eos=True)
        return runner.send_completion_request(request).usage

    ask("A", 1)
    loaded = time.perf_counter()
    usage = ask(text, tokens + 1)
    print(json.dumps({
        "load_seconds": loaded - started, "prompt_tokens": usage.prompt_tokens,
        "prompt_seconds": usage.total_prompt_time_sec, "decode_tokens": usage.completion_tokens - 1,
        "decode_seconds": usage.total_completion_time_sec, "peak_memory_bytes": turns.peak_memory(),
        "interpreter_bytes": interpreter,
    }))


def side(model: Path, ids_file: Path, options: argparse.Namespace) -> dict:
    words = [model, ids_file.with_suffix(".txt"), options.tokens]
    return turns.worker(__file__, *words, RAYON_NUM_THREADS=str(options.threads), HF_HUB_OFFLINE="1")


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        model, text_file, tokens = sys.argv[2:]
        return worker(model, text_file, int(tokens))
    turns.main(__doc__, "mistral.rs", side)


if __name__ == "__main__":
    main()
