"""What the scripts of this folder share: engines that take turns, processes that tell their times, ratios as lines.

Engines alternate (A B, then B A, …), so that a machine that slows down slows all of them. A ratio is always of one
round; printed are the median of the rounds and every round, since one number hides noise.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Callable

TEXT = (
    "A man in a red jacket carries a ladder across the yard, leans it against the wall and climbs to the roof. He "
    "clears the leaves from the gutter by hand and drops them into a bucket that hangs from the top rung. Below, a dog "
    "walks round the foot of the ladder twice, lies down in the shade and watches the gate. "
)
MEASURES = [("prefill", "tokens/s"), ("decode", "tokens/s"), ("memory", "MB"), ("load", "s")]


# --- processes ---


def installed(name: str) -> ModuleType:
    """The installed package of that name, not the script beside this one that has it too."""
    here, places = Path(__file__).resolve().parent, sys.path[:]
    sys.path[:] = [place for place in places if Path(place or ".").resolve() != here]
    try:
        return importlib.import_module(name)
    finally:
        sys.path[:] = places


def peak_memory() -> int:
    """VmHWM: the largest resident set that this process ever had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("no VmHWM in /proc/self/status: this needs Linux")


def output(words: list[object], **variables: str) -> str:
    """What a command prints; the end of this script if it fails."""
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)[:300]} failed ({done.returncode}): {done.stderr.strip()[-2000:]}")
    return done.stdout


def worker(script: str, *words: object, **variables: str) -> dict:
    """A script's worker mode, in a process of its own: its last line is JSON."""
    return json.loads(output([sys.executable, script, "--worker", *words], **variables).strip().splitlines()[-1])


# --- turns and ratios ---


def order(names: list[str], number: int) -> list[str]:
    """Whose turn it is in a round: forwards, then backwards."""
    return names if number % 2 == 0 else names[::-1]


def ratio(ours: list[float], theirs: list[float]) -> dict:
    rounds = [a / b for a, b in zip(ours, theirs)]
    return {"median": statistics.median(rounds), "rounds": rounds}


def told(ratio: dict) -> str:
    """A ratio as words: its median and every round."""
    return f"ratio {ratio['median']:.2f}  (rounds: {', '.join(f'{one:.2f}' for one in ratio['rounds'])})"


def save(path: Path | None, results: object) -> None:
    if path:
        path.write_text(json.dumps(results, indent=1) + "\n")


# --- prefill, decode, memory and load of one GGUF file, against one other engine ---


def arguments(about: str) -> argparse.ArgumentParser:
    """The flags of the scripts that measure GGUF files."""
    arguments = argparse.ArgumentParser(description=about.splitlines()[0])
    arguments.add_argument("models", nargs="+", type=Path, metavar="MODEL.gguf")
    arguments.add_argument("--binary", type=Path, required=True, help="the capjudge to measure")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--depths", type=int, nargs="+", default=[512, 1500], help="lengths of the prompts")
    arguments.add_argument("--tokens", type=int, default=64, help="how many to write behind the prompt")
    arguments.add_argument("--threads", type=int, default=2, help="for both; capjudge gets RAYON_NUM_THREADS")
    arguments.add_argument("--ids-file", action="store_true", help="give capjudge the prompt as --ids-file, not --ids")
    arguments.add_argument("--extra", nargs="*", default=[], help="more words for capjudge's command line")
    arguments.add_argument("--summary", type=Path, help="write every timing and ratio here, as JSON")
    return arguments


def prompt_of(model: Path, length: int) -> tuple[list[int], bytes]:
    """A prompt of that many tokens, as ids and as text, by the model's own vocabulary."""
    tokenizer = installed("llama_cpp").Llama(str(model), vocab_only=True, verbose=False)
    ids = list(tokenizer.tokenize(TEXT.encode(), add_bos=False, special=False))
    ids = (ids * (length // len(ids) + 1))[:length]
    return ids, tokenizer.detokenize(ids)


def capjudge(model: Path, ids_file: Path, options: argparse.Namespace) -> dict:
    prompt = ["--ids-file", ids_file] if options.ids_file else ["--ids", ids_file.read_text()]
    words = [options.binary, "generate", "--model", model, *prompt, "--max-tokens", options.tokens]
    words += ["--ignore-end", "--temperature", "0", "--json", *options.extra]
    return json.loads(output(words, RAYON_NUM_THREADS=str(options.threads)))["timings"]


def rates(timings: dict) -> dict:
    return {
        "prefill": timings["prompt_tokens"] / timings["prompt_seconds"],
        "decode": timings["decode_tokens"] / timings["decode_seconds"],
        "memory": timings["peak_memory_bytes"] / 2**20,
        "load": timings["load_seconds"],
    }


Side = Callable[[Path, Path, argparse.Namespace], dict]


def measure(model: Path, depth: int, peer: str, side: Side, options: argparse.Namespace) -> dict:
    """capjudge and a peer in turns. The peer gets the model and a file of ids, with its text beside it (`.txt`)."""
    ids, text = prompt_of(model, depth)
    engines = {"capjudge": capjudge, peer: side}
    raw = {name: [] for name in engines}
    with tempfile.TemporaryDirectory() as scratch:
        ids_file = Path(scratch) / "ids"
        ids_file.write_text(",".join(map(str, ids)))
        ids_file.with_suffix(".txt").write_bytes(text)
        for number in range(options.rounds):
            for name in order(list(engines), number):
                raw[name].append(engines[name](model, ids_file, options))

    print(f"\n{model.name}, prompt of {depth} tokens, {options.tokens} written, {options.threads} threads")
    result = {"model": model.name, "depth": depth, "timings": raw, "ratios": {}}
    sides = {name: [rates(timings) for timings in rows] for name, rows in raw.items()}
    for what, unit in MEASURES:
        ours, theirs = ([row[what] for row in sides[name]] for name in ("capjudge", peer))
        result["ratios"][what] = ratio(ours, theirs)
        digits = 2 if what == "load" else 1
        print(
            f"  {what:8} capjudge {statistics.median(ours):8.{digits}f}  "
            f"{peer} {statistics.median(theirs):8.{digits}f} {unit:9} {told(result['ratios'][what])}"
        )
    interpreter = raw[peer][0]["interpreter_bytes"] / 2**20
    print(f"  of {peer}'s memory {interpreter:.0f} MB are its interpreter", flush=True)
    return result


def main(about: str, peer: str, side: Side, parser: argparse.ArgumentParser | None = None) -> None:
    options = (parser or arguments(about)).parse_args()
    results = [measure(model, depth, peer, side, options) for model in options.models for depth in options.depths]
    save(options.summary, results)
