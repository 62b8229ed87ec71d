#!/usr/bin/env python3
"""Time to the verdict of the score task, with frames, of capjudge and transformers on the same weights, in turns.

    pip install torch torchvision transformers num2words
    cargo build --release
    target/release/capjudge models synth qwen3-vl-2b --out DIR         # or any Hugging Face folder of a model that sees
    python benches/peers/score.py --binary target/release/capjudge DIR [--rounds 3] [--dtype float32 bfloat16] \\
      [--what verdict,captions] [--summary FILE] [--flags --quant q8_0 --quant-tower q8_0 --no-reason]

The data is made here: videos are lists of 8 PNG frames of 448 × 448 pixels with noise in them, no two alike; captions
and references are of 20 to 30 words. Random weights do as well as trained ones, since only seconds are looked at: their
answers mean nothing, and most of them come out unscored.

verdict      From a record to its verdict: reading the frames, pixels, tower, prompt, answer. capjudge judges a record
             that does not count (it reads the rubric), and then --each records, each with a video of its own: what
             every record but the first costs in a run. transformers is loaded once, judges one record that does not
             count, and then the same records: the processor and `generate` on the whole prompt each time. Ratios are
             transformers' mean seconds over capjudge's, round by round: above 1, capjudge is faster.
captions     Five captions of one video against one caption of each of five videos, capjudge alone, behind a record that
             reads the rubric. The ratio is the seconds of the five videos over those of the one; beside it the ratio of
             the whole runs from their first record, rubric and first video included.

An answer has --tokens tokens (60: a score and a reason of two sentences), since random weights never end one:
transformers writes exactly so many, capjudge at most so many, and fewer where its flags let it (`--no-reason` stops at
the score, which is another job than writing a reason: say so with the number). Both write greedily, with the same number
of threads. transformers computes in --dtype, each in turn where there are several, with its default attention; capjudge
in the type of the files or as --quant says. So a ratio with --quant is of what people would run, not of the same
arithmetic; without it, it is.

Records are judged one at a time (`--batch 1` is added where capjudge knows it and --flags does not say otherwise): the
question is how long one verdict takes. Both sides read PNG files; neither keeps decoded frames. Prompt tokens of both
are printed: they may differ by a few, because capjudge tokenises data apart from instructions.

Needs an idle machine; a 2B model in float32 takes 9 GB of memory beside capjudge's own.
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

import turns

WORDS = (
    "a woman in a long green coat walks slowly along the river bank while two boys throw flat stones into the water "
    "and count how often each of them jumps before it sinks near the wooden bridge"
).split()
WHAT = ["verdict", "captions"]


# --- data ---


def video(folder: Path, name: str, options: argparse.Namespace) -> list[str]:
    """Frames of a video: a gradient that moves, and noise that no other video has. Paths are relative to the folder."""
    import numpy as np
    from PIL import Image

    width, height = options.size
    random = np.random.default_rng(list(name.encode()))
    (folder / name).mkdir(exist_ok=True)
    paths = []
    for index in range(options.frames):
        rows, columns = np.mgrid[0:height, 0:width]
        levels = np.stack([columns + 9 * index, rows + 5 * index, columns + rows], axis=-1) % 256
        levels = np.clip(levels + random.integers(-20, 20, levels.shape), 0, 255).astype(np.uint8)
        paths.append(f"{name}/{index:03}.png")
        Image.fromarray(levels).save(folder / paths[-1], compress_level=1)
    return paths


def record(name: str, frames: list[str], number: int) -> dict:
    """A record whose caption is not like the next one's."""
    turned = WORDS[number % len(WORDS) :] + WORDS[: number % len(WORDS)]
    return {
        "id": name, "system": "made", "caption_type": "brief", "caption": " ".join(turned[: 20 + number % 10]) + ".",
        "reference": " ".join(WORDS[:25]) + ".", "video": frames,
    }


def write_lines(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# --- capjudge's side ---


def flags_of(options: argparse.Namespace) -> list[str]:
    known = turns.output([options.binary, "run", "--help"])
    batch = ["--batch", "1"] if "--batch" in known and "--batch" not in options.flags else []
    return ["--threads", str(options.threads), "--max-tokens", str(options.tokens), *batch, *options.flags]


def capjudge(options: argparse.Namespace, folder: Path, rows: list[dict], counted: set[str]) -> dict:
    """A run over the records: what those that count took, and the whole run from its first record."""
    data = write_lines(folder / "data.jsonl", rows)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "run"
        words = [options.binary, "run", "--task", "score", "--data", data, "--judge", options.model, "--out", out]
        words += ["--frames", options.frames, "--no-frame-cache", "--max-unscored", "100%", "--quiet"]
        turns.output([*words, *flags_of(options)])
        ended = time.time()
        begun = (out / "run.json").stat().st_mtime  # written when the judge is loaded, before the first record
        timings = [json.loads(line) for line in (out / "timings.jsonl").read_text().splitlines()]
        verdicts = [json.loads(line) for line in (out / "verdicts.jsonl").read_text().splitlines()]
    if failed := [verdict for verdict in verdicts if "answer" not in verdict]:
        raise SystemExit(f"capjudge did not judge: {failed[0]['outcome'].get('detail')}")
    kept = [timing for timing in timings if timing["id"] in counted]
    if sum(timing["seconds"] for timing in timings) > 1.05 * (ended - begun):
        raise SystemExit("records were judged at the same time: the seconds of one are not its own (use --batch 1)")
    return {"seconds": [timing["seconds"] for timing in kept], "run_seconds": ended - begun, "timings": timings}


# --- transformers' side: a process that stays, idle while it is not its turn ---


def worker(model: str, dtype: str, tokens: int, threads: int) -> None:
    """Answers one line of JSON (prompt and frames) with another (seconds), until there are no more."""
    import numpy as np
    import torch
    import transformers
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor
    from transformers.video_utils import VideoMetadata

    torch.set_num_threads(threads)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    processor = AutoProcessor.from_pretrained(model)
    network = AutoModelForImageTextToText.from_pretrained(model, dtype=getattr(torch, dtype)).eval()
    print(json.dumps({"loaded": str(network.dtype)}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        start = time.perf_counter()
        frames = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in asked["frames"]])
        parts = [{"type": "text", "text": asked["before"]}, {"type": "video"}, {"type": "text", "text": asked["after"]}]
        text = processor.apply_chat_template(
            [{"role": "user", "content": parts}], tokenize=False, add_generation_prompt=True
        )
        count, height, width = frames.shape[:3]
        about = VideoMetadata(
            total_num_frames=count, fps=1.0, duration=float(count), frames_indices=list(range(count)), width=width,
            height=height,
        )
        batch = processor(
            text=[text], videos=[frames], video_metadata=[about], do_sample_frames=False, return_tensors="pt"
        )
        for key, value in batch.items():
            if torch.is_tensor(value) and value.is_floating_point():
                batch[key] = value.to(network.dtype)
        ready = time.perf_counter()
        with torch.no_grad():
            written = network.generate(**batch, do_sample=False, min_new_tokens=tokens, max_new_tokens=tokens)
        done = time.perf_counter()
        prompt = batch["input_ids"].shape[1]
        print(json.dumps({
            "seconds": done - start, "pixels_seconds": ready - start, "prompt_tokens": prompt,
            "answer_tokens": written.shape[1] - prompt, "peak_memory_bytes": turns.peak_memory(),
        }), flush=True)


def start(options: argparse.Namespace, dtype: str) -> subprocess.Popen:
    words = [sys.executable, __file__, "--worker", options.model, dtype, options.tokens, options.threads]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    peer = subprocess.Popen(
        [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    answer(peer)
    return peer


def answer(peer: subprocess.Popen) -> dict:
    for line in peer.stdout:
        if line.startswith("{"):
            return json.loads(line)
    raise SystemExit(f"transformers ended ({peer.wait()}); what it said is above")


def transformers_side(options: argparse.Namespace, peer: subprocess.Popen, folder: Path, row: dict) -> dict:
    data = write_lines(folder / "shown.jsonl", [row])
    words = [options.binary, "prompts", "show", "score", "--data", data, "--id", row["id"], "--json"]
    shown = json.loads(turns.output(words))
    place = shown.index("frames")
    before, after = (
        "".join(text for segment in part for text in segment.values()) for part in (shown[:place], shown[place + 1 :])
    )
    asked = {"before": before, "after": after, "frames": [str(folder / path) for path in row["video"]]}
    peer.stdin.write(json.dumps(asked) + "\n")
    peer.stdin.flush()
    return answer(peer)


# --- what is measured ---


def verdict(options: argparse.Namespace, folder: Path) -> dict:
    names = [f"clip-{number}" for number in range(1 + options.each)]
    rows = [record(name, video(folder, name, options), number) for number, name in enumerate(names)]
    engines = ["capjudge", *(f"transformers {dtype}" for dtype in options.dtype)]
    peers, raw = {}, {engine: [] for engine in engines}
    try:
        for dtype in options.dtype:
            peers[f"transformers {dtype}"] = start(options, dtype)
        for engine in engines[1:]:
            transformers_side(options, peers[engine], folder, rows[0])
        for number in range(options.rounds):
            for engine in turns.order(engines, number):
                if engine == "capjudge":
                    found = capjudge(options, folder, rows, set(names[1:]))
                else:
                    found = [transformers_side(options, peers[engine], folder, row) for row in rows[1:]]
                    found = {"seconds": [one["seconds"] for one in found], "timings": found}
                raw[engine].append(found)
                print(f"round {number + 1}, {engine}: {statistics.mean(found['seconds']):.2f} s a verdict",
                      file=sys.stderr, flush=True)
    finally:
        for peer in peers.values():
            peer.kill()
            peer.wait()

    width, height = options.size
    print(
        f"\n{options.model.name}: seconds to a verdict, {options.frames} frames of {width} × {height}, "
        f"{options.threads} threads; capjudge {' '.join(options.flags) or 'as it comes'}"
    )
    means = {engine: [statistics.mean(turn["seconds"]) for turn in taken] for engine, taken in raw.items()}
    ratios = {}
    for engine in engines:
        timing = raw[engine][0]["timings"][-1]
        line = f"  {engine:22} {statistics.median(means[engine]):8.2f} s, prompt of {timing['prompt_tokens']} tokens"
        if engine == "capjudge":
            line += f" ({timing['reused_tokens']} already read)"
        else:
            ratios[engine] = turns.ratio(means[engine], means["capjudge"])
        line += f", {timing['answer_tokens']} written"
        print(line + (f", {turns.told(ratios[engine])}" if engine in ratios else ""), flush=True)
    return {"ratios": ratios, "turns": raw}


def captions(options: argparse.Namespace, folder: Path) -> dict:
    lead = record("lead", video(folder, "lead", options), 0)
    clips = [video(folder, f"own-{number}", options) for number in range(options.captions)]
    names = [f"caption-{number}" for number in range(options.captions)]
    sides = {
        "one video": [record(name, clips[0], 1 + number) for number, name in enumerate(names)],
        "own videos": [record(name, clips[number], 1 + number) for number, name in enumerate(names)],
    }
    raw = {side: [] for side in sides}
    for number in range(options.rounds):
        for side in turns.order(list(sides), number):
            raw[side].append(capjudge(options, folder, [lead, *sides[side]], set(names)))
            print(f"round {number + 1}, {side}: {sum(raw[side][-1]['seconds']):.2f} s", file=sys.stderr, flush=True)

    print(f"\n{options.model.name}: {options.captions} captions of one video against as many videos, capjudge alone")
    ratios = {}
    costs = {"rubric already read": lambda turn: sum(turn["seconds"]), "whole run": lambda turn: turn["run_seconds"]}
    for name, cost in costs.items():
        shared, apart = ([cost(turn) for turn in raw[side]] for side in ("one video", "own videos"))
        ratios[name] = turns.ratio(apart, shared)
        print(
            f"  {name:20} one video {statistics.median(shared):8.2f} s  own videos {statistics.median(apart):8.2f} s  "
            f"{turns.told(ratios[name])}",
            flush=True,
        )
    return {"ratios": ratios, "turns": raw}


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        model, dtype, *counts = sys.argv[2:]
        return worker(model, dtype, *map(int, counts))
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("model", type=Path, metavar="DIR", help="a Hugging Face folder of a model that sees")
    arguments.add_argument("--binary", type=Path, required=True, help="the capjudge to measure")
    arguments.add_argument("--what", default=",".join(WHAT), help="some of " + ", ".join(WHAT))
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--each", type=int, default=2, help="records that count in a turn of `verdict`")
    arguments.add_argument("--captions", type=int, default=5, help="captions of `captions`")
    arguments.add_argument("--frames", type=int, default=8)
    arguments.add_argument("--size", type=int, nargs=2, default=[448, 448], metavar=("WIDTH", "HEIGHT"))
    arguments.add_argument("--tokens", type=int, default=60, help="length of an answer")
    arguments.add_argument("--dtype", nargs="+", default=["float32"], choices=["float32", "bfloat16"])
    arguments.add_argument("--threads", type=int, default=2, help="for both")
    arguments.add_argument("--summary", type=Path, help="write every number here, as JSON")
    arguments.add_argument("--flags", nargs=argparse.REMAINDER, default=[], help="the rest is for capjudge run")
    options = arguments.parse_args()
    options.model = options.model.resolve()
    wanted = options.what.split(",")
    if unknown := set(wanted) - set(WHAT):
        arguments.error(f"--what: {', '.join(sorted(unknown))} is none of {', '.join(WHAT)}")
    measures = {"verdict": verdict, "captions": captions}
    results = {"model": options.model.name, "flags": options.flags, "tokens": options.tokens}
    with tempfile.TemporaryDirectory() as scratch:
        for what in WHAT:
            if what in wanted:
                results[what] = measures[what](options, Path(scratch))
    turns.save(options.summary, results)


if __name__ == "__main__":
    main()
