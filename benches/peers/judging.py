#!/usr/bin/env python3
"""Judgements per hour of capjudge and llama.cpp on records whose counts are known, in turns.

    pip install llama-cpp-python
    cargo build --release
    python benches/peers/judging.py --binary target/release/capjudge --data truth.jsonl --out DIR MODEL.gguf \\
      [--records 20] [--block 5] [--only capjudge 'llama.cpp cached'] [--summary FILE] [--flags --guided --batch 8]

The first records of the data (see benches/truth.py for its form) are judged with `hallucination` and `omission` by

capjudge           `run` as people run it, one process a block, with the flags behind --flags
llama.cpp          the usual way: each record is a chat request of its own, the whole prompt is read every time, the
                   answer is written until its end token
llama.cpp cached   the same with its prompt cache on: of a prompt, the part that equals the prompt before it is kept

on the same file, with the same number of threads, at temperature 0, with at most 2048 tokens an answer. llama.cpp runs
through llama-cpp-python's `create_chat_completion`: memory-mapped, flash attention on, batches of 512. Its user message
is the text of `capjudge prompts show`, in the chat template of the file.

Records are judged in blocks, and the engines take turns block by block (A B C, then C B A, …), so that a machine that
slows down slows all. A ratio is capjudge's judgements per hour over llama.cpp's within one block; printed are every
block, the median, and the ratio of the sums, which is the one that a user would see.

What is fair: llama.cpp is loaded in a process of its own for every block, and neither Python nor loading nor its first
evaluation count. capjudge is given both ways: with all of its process (start, load, the hash of the weights, writing),
and from the moment that its run folder is there, which is behind the load. Each block of capjudge and of llama.cpp's
cache begins with reading the rubric once.
Python's part in llama.cpp's time (template, tokens to text, choosing a token) is small, but grows with the answer: a
third ratio leaves it out and is to llama.cpp's evaluations alone, though capjudge does all of that in its time.
What is not: capjudge stops an answer when its reader has the last number, as it does for every user; llama.cpp does not
know that the rest is not needed. A block is also the most that `--batch` can take at once: a larger --block suits it
better, and is more like a real run.

So that speed is not bought with quality, llama.cpp's answers are read by capjudge too (`--judge scripted:`), and each
engine has its share of scored verdicts and its exact counts beside its speed. An answer that never ends costs its
engine the whole limit and is unscored. `prompt` in the table is the prompt's tokens: capjudge tokenises data apart from
instructions, so one or two more than llama.cpp's are right, and many more would mean that they were not shown the same.

--out keeps every finished block: a run that was stopped goes on, and another engine can be added later (--only), though
then its turns are not beside the others'. Blocks that were made with other settings or another binary are refused.
Needs an idle machine, and an hour for 20 records on two cores.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path

import turns

TASKS = {
    "hallucination": ["HALLUCINATION_COUNT"],
    "omission": ["TOTAL_OMISSION_COUNT", "INSERTED_OMISSION_COUNT"],
}
ENGINES = ["capjudge", "llama.cpp", "llama.cpp cached"]
# What a ratio is called, capjudge's clock, llama.cpp's.
CLOCKS = [
    ("", "seconds", "seconds"),
    (", capjudge with its load", "wall_seconds", "seconds"),
    (", nothing but its evaluations", "seconds", "evaluated_seconds"),
]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_lines(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# --- capjudge's side ---


def run(options: argparse.Namespace, task: str, data: Path, judge: object, out: Path, *flags: object) -> list[dict]:
    words = [options.binary, "run", "--task", task, "--data", data, "--judge", judge, "--out", out]
    turns.output([*words, "--max-unscored", "100%", "--quiet", *flags])
    return lines(out / "verdicts.jsonl")


def capjudge(options: argparse.Namespace, task: str, data: Path, scratch: Path) -> dict:
    out = scratch / "run"
    flags = ["--threads", options.threads, "--max-tokens", options.max_tokens, *options.flags]
    started = time.time()
    verdicts = run(options, task, data, options.model, out, *flags)
    ended = time.time()
    begun = (out / "run.json").stat().st_mtime  # written when the judge is loaded, before the first record
    judged = [
        {
            "id": timing["id"], "prompt_tokens": timing["prompt_tokens"],
            "read_tokens": timing["prompt_tokens"] - timing["reused_tokens"],
            "written_tokens": timing["answer_tokens"], "seconds": timing["seconds"],
            "read_seconds": timing["prompt_seconds"], "written_seconds": timing["answer_seconds"],
        }
        for timing in lines(out / "timings.jsonl") if "answer_tokens" in timing
    ]
    return {
        "seconds": ended - begun, "load_seconds": begun - started, "wall_seconds": ended - started,
        "judged": judged, "verdicts": verdicts,
    }


# --- llama.cpp's side ---


def worker(model: str, prompts_file: str, cached: str, threads: int, max_tokens: int) -> None:
    """Answers every prompt of a file, and prints the answers with what they took."""
    llama_cpp = turns.installed("llama_cpp")
    prompts = json.loads(Path(prompts_file).read_text())
    started = time.perf_counter()
    vocabulary = llama_cpp.Llama(model, vocab_only=True, verbose=False)
    longest = max(len(vocabulary.tokenize(prompt["text"].encode())) for prompt in prompts)
    del vocabulary
    engine = llama_cpp.Llama(
        model, n_ctx=longest + max_tokens + 256, n_batch=512, n_ubatch=512, n_threads=threads,
        n_threads_batch=threads, flash_attn=True, use_mmap=True, logits_all=False, verbose=False,
    )
    evaluate, evaluations = engine.eval, []

    def counted(tokens: list[int]) -> None:
        start = time.perf_counter()
        evaluate(tokens)
        evaluations.append((len(tokens), time.perf_counter() - start))

    engine.eval = counted
    engine.eval([engine.token_eos()])
    engine.reset()
    loaded = time.perf_counter()
    judged = []
    for prompt in prompts:
        evaluations.clear()
        start = time.perf_counter()
        if cached == "whole":
            engine.reset()
        reply = engine.create_chat_completion(
            [{"role": "user", "content": prompt["text"]}], temperature=0.0, repeat_penalty=1.0, max_tokens=max_tokens
        )
        seconds = time.perf_counter() - start
        choice, read = reply["choices"][0], evaluations[0]
        judged.append({
            "id": prompt["id"], "answer": choice["message"]["content"], "finish": choice["finish_reason"],
            "prompt_tokens": reply["usage"]["prompt_tokens"], "read_tokens": read[0],
            "written_tokens": reply["usage"]["completion_tokens"], "seconds": seconds, "read_seconds": read[1],
            "written_seconds": seconds - read[1], "evaluated_seconds": sum(taken for _, taken in evaluations),
        })
    done = time.perf_counter()
    print(json.dumps({
        "seconds": done - loaded, "load_seconds": loaded - started, "wall_seconds": done - started,
        "evaluated_seconds": sum(one["evaluated_seconds"] for one in judged), "judged": judged,
    }))


def text_of(options: argparse.Namespace, task: str, data: Path, name: str) -> str:
    shown = json.loads(turns.output([options.binary, "prompts", "show", task, "--data", data, "--id", name, "--json"]))
    return "".join(text for segment in shown for text in segment.values())


def llama_cpp(options: argparse.Namespace, task: str, data: Path, scratch: Path, cached: str) -> dict:
    prompts = [{"id": row["id"], "text": text_of(options, task, data, row["id"])} for row in lines(data)]
    prompts_file = scratch / "prompts.json"
    prompts_file.write_text(json.dumps(prompts))
    block = turns.worker(__file__, options.model, prompts_file, cached, options.threads, options.max_tokens)
    answers = [{"id": one["id"], "answer": one["answer"], "finish": one["finish"]} for one in block["judged"]]
    script = write_lines(scratch / "answers.jsonl", answers)
    return block | {"verdicts": run(options, task, data, f"scripted:{script}", scratch / "read")}


# --- blocks ---


def made_with(options: argparse.Namespace, engine: str, task: str, part: list[dict]) -> dict:
    """What decides a block: a stored one that has another is not taken."""
    made = {
        "model": [options.model.name, options.model.stat().st_size], "threads": options.threads,
        "max_tokens": options.max_tokens,
        "records": hashlib.sha256(json.dumps([record[task] for record in part]).encode()).hexdigest(),
    }
    if engine == "capjudge":
        binary = hashlib.sha256(options.binary.read_bytes()).hexdigest()
        made |= {"flags": options.flags, "binary": binary}
    return made


def judge(options: argparse.Namespace, engine: str, task: str, part: list[dict]) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        data = write_lines(scratch / "data.jsonl", [
            {"id": record["id"], "system": record["kind"]}
            | {key: value for key, value in record[task].items() if key != "truth"}
            for record in part
        ])
        if engine == "capjudge":
            return capjudge(options, task, data, scratch)
        return llama_cpp(options, task, data, scratch, "cached" if engine.endswith("cached") else "whole")


def quality(task: str, part: list[dict], verdicts: list[dict]) -> dict:
    """How many verdicts are scored, and how many of each count are exact."""
    truth = {record["id"]: record[task]["truth"] for record in part}
    scored = [verdict for verdict in verdicts if verdict["outcome"]["status"] == "scored"]
    exact = {
        name: sum(verdict["outcome"]["counts"][name] == truth[verdict["id"]][name.lower()] for verdict in scored)
        for name in TASKS[task]
    }
    return {"scored": len(scored), "exact": exact}


def blocks(options: argparse.Namespace, records: list[dict]) -> dict[tuple[str, int, str], dict]:
    """Every block of every engine, by task, number and engine; those that are there already are not made anew."""
    found, turn = {}, 0
    for first in range(0, len(records), options.block):
        part = records[first : first + options.block]
        for task in TASKS:
            for engine in turns.order(ENGINES, turn):
                path = options.out / f"{task}-{first:04}-{engine.replace(' ', '-')}.json"
                made = made_with(options, engine, task, part)
                if path.exists():
                    block = json.loads(path.read_text())
                    if block["made_with"] != made and engine in options.only:
                        raise SystemExit(f"{path} was made with other settings: delete it, or choose another --out")
                    if block["made_with"] != made:
                        print(f"{path} is left out: it was made with other settings", file=sys.stderr)
                        continue
                elif engine in options.only:
                    block = judge(options, engine, task, part)
                    block |= {"made_with": made, "records": len(part)}
                    block |= quality(task, part, block["verdicts"])
                    partial = path.with_suffix(".part")
                    partial.write_text(json.dumps(block, indent=1) + "\n")
                    partial.rename(path)
                    print(
                        f"{task} {first + 1} to {first + len(part)}, {engine}: {block['seconds']:.1f} s",
                        file=sys.stderr, flush=True,
                    )
                else:
                    continue
                found[task, first, engine] = block
            turn += 1
    return found


# --- report ---


def speed(rows: list[dict], clock: str) -> float:
    return 3600 * sum(row["records"] for row in rows) / sum(row[clock] for row in rows)


def row_of(engine: str, rows: list[dict], names: list[str]) -> list[str]:
    """An engine's line of the table."""
    count = sum(row["records"] for row in rows)
    judged = [one for row in rows for one in row["judged"]]
    tokens = ("prompt_tokens", "read_tokens", "written_tokens")
    means = [sum(one[key] for one in judged) / max(len(judged), 1) for key in tokens]
    exact = ", ".join(f"{sum(row['exact'][name] for row in rows)}" for name in names)
    return [
        engine, f"{speed(rows, 'seconds'):.1f}", f"{speed(rows, 'wall_seconds'):.1f}",
        *(f"{mean:.0f}" for mean in means),
        f"{sum(row['scored'] for row in rows)} of {count}", f"{exact} of {count}",
    ]


def report(found: dict[tuple[str, int, str], dict]) -> dict:
    results = {}
    for task, names in TASKS.items():
        of_task = {key: block for key, block in found.items() if key[0] == task}
        print(f"\n{task}\n")
        heads = ["", "judgements/h", "with load", "prompt", "tokens read", "written", "scored"]
        heads.append("exact " + ", ".join(names))
        print("| " + " | ".join(heads) + " |\n" + "| --- " * len(heads) + "|")
        for engine in ENGINES:
            if rows := [block for key, block in of_task.items() if key[2] == engine]:
                print("| " + " | ".join(row_of(engine, rows, names)) + " |")
        results[task] = ratios(of_task)
    print("\nboth tasks")
    results["both"] = ratios(found)
    return results


def ratios(found: dict[tuple[str, int, str], dict]) -> dict:
    """capjudge's judgements per hour over each of the others', where both have judged a block."""
    result = {}
    for peer in ENGINES[1:]:
        both = [
            (block, found[task, first, peer]) for (task, first, engine), block in found.items()
            if engine == "capjudge" and (task, first, peer) in found
        ]
        for name, clock, against in CLOCKS:
            if not both:
                continue
            ours, theirs = ([pair[side] for pair in both] for side in (0, 1))
            one = turns.ratio([speed([row], clock) for row in ours], [speed([row], against) for row in theirs])
            one["sums"] = speed(ours, clock) / speed(theirs, against)
            result[peer + name] = one
            print(f"  to {peer}{name}: {one['sums']:.2f} of the sums; blocks: {turns.told(one)}")
    return result


def numbers(block: dict) -> dict:
    """A block without the texts of its answers, which are the data's in part."""
    judged = [{key: value for key, value in one.items() if key != "answer"} for one in block["judged"]]
    return {key: value for key, value in block.items() if key != "verdicts"} | {"judged": judged}


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        model, prompts_file, cached, *counts = sys.argv[2:]
        return worker(model, prompts_file, cached, *map(int, counts))
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("model", type=Path, metavar="MODEL.gguf")
    arguments.add_argument("--binary", type=Path, required=True, help="the capjudge to measure")
    arguments.add_argument("--data", type=Path, required=True, help="records with their counts, JSON Lines")
    arguments.add_argument("--out", type=Path, required=True, help="where finished blocks are kept")
    arguments.add_argument("--records", type=int, default=20)
    arguments.add_argument("--block", type=int, default=5, help="records that an engine judges in one turn")
    arguments.add_argument("--only", nargs="+", default=ENGINES, choices=ENGINES, metavar="ENGINE", help=str(ENGINES))
    arguments.add_argument("--threads", type=int, default=2, help="for all")
    arguments.add_argument("--max-tokens", type=int, default=2048, help="the longest answer, for all")
    arguments.add_argument("--summary", type=Path, help="write every number here, as JSON")
    arguments.add_argument("--flags", nargs=argparse.REMAINDER, default=[], help="the rest is for capjudge run")
    options = arguments.parse_args()
    options.model = options.model.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    found = blocks(options, lines(options.data)[: options.records])
    results = report(found)
    raw = [
        {"task": task, "first": first, "engine": engine, **numbers(block)}
        for (task, first, engine), block in found.items()
    ]
    turns.save(options.summary, {"model": options.model.name, "flags": options.flags, "ratios": results, "blocks": raw})


if __name__ == "__main__":
    main()
