#!/usr/bin/env python3
"""Greedy answers on real weights: capjudge beside transformers and llama.cpp, token by token.

    pip install torch transformers gguf llama-cpp-python
    cargo build --release
    python tests/reference/real_weights.py --binary target/release/capjudge MODEL.gguf...

For each model, 20 prompts (one word to a page; prose, code, JSON, lists, Chinese and Japanese, a judge's prompt) are
continued greedily for 64 tokens by

    capjudge        capjudge generate --model M --ids … --max-tokens 64 --ignore-end --temperature 0 --json
    transformers    the model's class in float32 on the dequantised file (gguf_to_transformers.py)
    llama.cpp       which rounds activations to eight bits where weights are quantised, so near ties flip

and the tokens compared. Where capjudge first differs from a reference, both candidates' logits are shown, from both
sides, at that very position: a near tie when the reference itself leads by less than --near-tie and capjudge, given
the prefix afresh, would choose the same again; else a mismatch.
What follows a flip is not compared. The two references are compared with each other in the same way: that is the
measure of how far two correct engines are apart on that file.

How far apart correct engines are: on "The capital of France is" llama.cpp's best 20 logits are up to 0.26 from
transformers' for SmolLM2-135M (Q4_1) and 0.27 for Gemma 3 270M (Q4_K_M); on a copy with F32 matrices and an F32 cache
it is 1e-5 and 2e-3 (llama.cpp's GELU is a table of F16 values). It left transformers' path at gaps of up to 0.29.
That is what the default of --near-tie rests on; an engine that keeps activations in float32 deserves a far smaller one.

What this guards: everything that the tiny checkpoints cannot show: block formats in use, long contexts, real
tokenizers' ids, errors that grow over many layers. Exit code 1 when there is a mismatch.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy

TOP = 20
NEAR_TIE = 0.5
OWN_GAP = 0.1  # reading and writing the same ids moved a gap by 0.05 in llama.cpp

STORY = (
    "The lighthouse keeper had not spoken to anyone for eleven days when the boat came round the point. It was a small "
    "boat, painted green, and the woman at the tiller did not wave. She tied up at the steps, took a parcel from under "
    "the seat and climbed to the door without hurrying. "
)
JUDGE = """You compare a video caption with the events that were seen in the video.

For each event of the caption, write SUPPORTED if a ground truth event says the same, or HALLUCINATED if none does.

GROUND TRUTH EVENTS:
1. A man in a red jacket carries a ladder across the yard.
2. He leans the ladder against the wall of the house.
3. He climbs to the roof and clears leaves from the gutter.

CAPTION:
A man in a red jacket crosses the yard with a ladder, sets it against the house and climbs it while a dog barks.

EXTRACTED_EVENTS:
1."""
# (name, text, whether it is wrapped in the model's own chat turns)
PROMPTS = [
    ("one word", "The", False),
    ("short", "The capital of France is", False),
    ("counting", "1, 2, 3, 4, 5, 6,", False),
    ("list", "Five things to take on a long walk:\n1. Water\n2. A map\n3.", False),
    ("story", STORY, False),
    ("long story", STORY * 4 + "Then", False),
    ("python", "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n", False),
    ("rust", "impl Iterator for Counter {\n    type Item = u32;\n\n    fn next(&mut self) -> Option<u32> {\n", False),
    ("json", '{"id": "clip-0001", "events": [{"caption": "A man walks", "start": 0.0}, {"caption": "', False),
    ("html", "<!DOCTYPE html>\n<html>\n<head>\n  <title>", False),
    ("chinese", "北京是中国的首都，也是一座有着三千多年历史的城市。", False),
    ("japanese", "昔々あるところに、おじいさんとおばあさんが", False),
    ("french", "Il était une fois, dans un petit village de montagne,", False),
    ("emoji and accents", "Café ☕ — naïve façade 🙂🙂 costs €3.50 and", False),
    ("whitespace", "name\tage\tcity\nAnn\t31\tOslo\nBen\t\t", False),
    ("judge", JUDGE, False),
    ("question", "Why is the sky blue? Answer in two sentences.", True),
    ("judge, as a chat", JUDGE.rsplit("\n\n", 1)[0] + "\n\nIs the last event supported?", True),
    ("code, as a chat", "Write a shell command that counts the lines of all .txt files.", True),
    ("translation", "Translate to German: The dog runs across the street and barks at the postman.", True),
]


def wrap(text: str, architecture: str) -> str:
    if architecture == "gemma3":
        return f"<start_of_turn>user\n{text}<end_of_turn>\n<start_of_turn>model\n"
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


# --- the engines: each continues ids and gives the logits that each token was chosen from ---


@dataclass
class Answer:
    ids: list[int]
    logits: list[numpy.ndarray] = field(repr=False)  # one row a step


class Transformers:
    name = "transformers"

    def __init__(self, model: Path, threads: int):
        import torch
        import transformers

        import gguf_to_transformers

        transformers.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        torch.set_num_threads(threads)
        self.torch, self.model = torch, gguf_to_transformers.load(model)

    def answer(self, ids: list[int], tokens: int) -> Answer:
        answer, cache, step = Answer([], []), None, ids
        with self.torch.no_grad():
            for _ in range(tokens):
                out = self.model(
                    input_ids=self.torch.tensor([step]), past_key_values=cache, use_cache=True, logits_to_keep=1
                )
                cache = out.past_key_values
                answer.logits.append(out.logits[0, -1].float().numpy().copy())
                answer.ids.append(int(answer.logits[-1].argmax()))
                step = answer.ids[-1:]
        return answer


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, model: Path, threads: int):
        import llama_cpp

        self.library = llama_cpp
        self.model = llama_cpp.Llama(
            str(model), n_ctx=2048, n_threads=threads, n_threads_batch=threads, logits_all=False, verbose=False
        )

    def answer(self, ids: list[int], tokens: int) -> Answer:
        answer, step = Answer([], []), ids
        self.model.reset()
        for _ in range(tokens):
            self.model.eval(step)
            row = self.library.llama_get_logits_ith(self.model.ctx, -1)
            answer.logits.append(numpy.ctypeslib.as_array(row, (self.model.n_vocab(),)).copy())
            answer.ids.append(int(answer.logits[-1].argmax()))
            step = answer.ids[-1:]
        return answer


REFERENCES = {"transformers": [Transformers], "llama.cpp": [LlamaCpp], "both": [Transformers, LlamaCpp]}


class Capjudge:
    def __init__(self, binary: Path, model: Path):
        self.binary, self.model = binary, model

    def generate(self, ids: list[int], tokens: int) -> dict:
        words = [
            str(self.binary), "generate", "--model", str(self.model), "--ids", ",".join(map(str, ids)),
            "--max-tokens", str(tokens), "--ignore-end", "--temperature", "0", "--json",
        ]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"capjudge failed ({done.returncode}) on {self.model}: {done.stderr.strip()[-2000:]}")
        result = json.loads(done.stdout)
        if result["prompt_ids"] != ids:
            raise SystemExit("capjudge's prompt_ids are not the ids it was given")
        if len(result["ids"]) != tokens:
            raise SystemExit(f"capjudge wrote {len(result['ids'])} tokens, not {tokens} ({result.get('finish')})")
        return result


# --- comparison ---


def first_difference(one: list[int], other: list[int]) -> int | None:
    return next((index for index, (a, b) in enumerate(zip(one, other)) if a != b), None)


def top_difference(row: numpy.ndarray, top: list) -> float:
    """How far the other side's best TOP logits are from this row's, at worst."""
    return max(abs(float(row[int(token)]) - value) for token, value in top[:TOP])


def top_of(row: numpy.ndarray) -> list:
    best = numpy.argsort(-row)[:TOP]
    return [(int(token), float(row[token])) for token in best]


def compare(reference: Answer, ids: list[int], first_top: list, top_at, near_tie: float) -> dict:
    """One answer against a reference's. `top_at(k)` gives the other side's best tokens after k common ones."""
    result = {
        "first_step_difference": top_difference(reference.logits[0], first_top),
        "first_step_rank": int((reference.logits[0] > reference.logits[0][first_top[0][0]]).sum()),
        "common": len(ids), "verdict": "equal",
    }
    at = first_difference(reference.ids, ids)
    if at is None:
        return result
    row, theirs, ours = reference.logits[at], reference.ids[at], ids[at]
    seen = {int(token): value for token, value in top_at(at)}
    gap = float(row[theirs] - row[ours])
    # The token must also be the best by the writer's own logits when the same ids are read afresh: a cache that goes
    # wrong in decode would otherwise hide behind a near tie.
    consistent = max(seen.values()) - seen.get(ours, -numpy.inf) <= OWN_GAP
    result |= {
        "common": at,
        "verdict": "near tie" if gap < near_tie and consistent else "mismatch",
        "own_logits_agree": consistent,
        "reference_gap": gap,
        "reference_token": theirs,
        "token": ours,
        "reference_logits": [float(row[theirs]), float(row[ours])],
        "logits": [seen.get(theirs), seen.get(ours)],
    }
    return result


def show(number: float | None) -> str:
    return "below the top" if number is None else f"{number:.3f}"


def print_row(name: str, length: int, result: dict) -> None:
    line = f"  {name:20} {length:5}  {result['common']:6}  {result['first_step_difference']:8.4f}  {result['verdict']}"
    if "token" in result:
        ours, theirs = result["token"], result["reference_token"]
        line += (
            f": reference {theirs} {show(result['reference_logits'][0])} over {ours} "
            f"{show(result['reference_logits'][1])} (gap {result['reference_gap']:.3f}); here {theirs} "
            f"{show(result['logits'][0])}, {ours} {show(result['logits'][1])}"
        )
        if not result["own_logits_agree"]:
            line += "; its own logits, read afresh, choose otherwise"
    print(line, flush=True)


def total(results: list[dict]) -> dict:
    verdicts = [result["verdict"] for result in results]
    return {
        "prompts": len(results),
        "equal": verdicts.count("equal"),
        "near ties": verdicts.count("near tie"),
        "mismatches": verdicts.count("mismatch"),
        "common tokens": sum(result["common"] for result in results),
        "first step, worst difference": max(result["first_step_difference"] for result in results),
        "widest gap that flipped": max((result.get("reference_gap", 0.0) for result in results), default=0.0),
    }


def prompt_ids(model: Path, count: int) -> list[tuple[str, list[int]]]:
    """The prompts in the model's own tokens. Ids go to every engine: tokenizers are compared elsewhere."""
    import gguf

    architecture = gguf.GGUFReader(model).fields["general.architecture"].contents()
    texts = [(name, wrap(text, architecture) if chat else text) for name, text, chat in PROMPTS[:count]]
    try:
        import llama_cpp
    except ImportError:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)
        return [(name, tokenizer.encode(text)) for name, text in texts]
    tokenizer = llama_cpp.Llama(str(model), vocab_only=True, verbose=False)
    begin = llama_cpp.llama_vocab_get_add_bos(llama_cpp.llama_model_get_vocab(tokenizer.model))
    return [(name, list(tokenizer.tokenize(text.encode(), add_bos=begin, special=True))) for name, text in texts]


def run_model(model: Path, options: argparse.Namespace) -> dict:
    prompts = prompt_ids(model, options.prompts)
    summary = {"model": model.name, "near_tie": options.near_tie, "tokens": options.tokens, "against": {}}
    capjudge = Capjudge(options.binary, model)
    started = time.monotonic()
    answers = [capjudge.generate(ids, options.tokens) for _, ids in prompts]
    print(f"\n{model.name}: capjudge answered {len(prompts)} prompts in {time.monotonic() - started:.0f} s")

    earlier: tuple[str, list[Answer]] | None = None
    for engine in REFERENCES[options.reference]:
        started = time.monotonic()
        loaded = engine(model, options.threads)
        references = [loaded.answer(ids, options.tokens) for _, ids in prompts]
        del loaded
        print(f"\n  capjudge against {engine.name} ({time.monotonic() - started:.0f} s)")
        print(f"  {'prompt':20} {'ids':>5}  {'common':>6}  {'1st step':>8}")
        results = []
        for (name, ids), answer, reference in zip(prompts, answers, references):
            def top_at(at: int) -> list:
                return capjudge.generate(ids + answer["ids"][:at], 1)["top"]

            result = compare(reference, answer["ids"], answer["top"], top_at, options.near_tie)
            print_row(name, len(ids), result)
            results.append({"prompt": name, "prompt_tokens": len(ids), **result})
        summary["against"][engine.name] = {"total": total(results), "prompts": results}
        print(f"  {json.dumps(total(results))}", flush=True)

        if earlier is not None:
            peers = []
            for reference, other in zip(earlier[1], references):
                rows = other.logits
                peers.append(
                    compare(reference, other.ids, top_of(rows[0]), lambda at: top_of(rows[at]), options.near_tie)
                )
            summary[f"{engine.name} against {earlier[0]}"] = total(peers)
            print(f"  for comparison, {engine.name} against {earlier[0]}: {json.dumps(total(peers))}", flush=True)
        earlier = (engine.name, references)
    return summary


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("models", nargs="+", type=Path, metavar="MODEL.gguf")
    arguments.add_argument("--binary", type=Path, required=True, help="the capjudge to test")
    arguments.add_argument("--reference", choices=REFERENCES, default="both")
    arguments.add_argument("--prompts", type=int, default=len(PROMPTS), help="only the first N")
    arguments.add_argument("--tokens", type=int, default=64)
    arguments.add_argument(
        "--threads", type=int, default=os.cpu_count() or 1, help="of the references; 1 on a busy machine"
    )
    arguments.add_argument("--near-tie", type=float, default=NEAR_TIE, help=f"in logits (default {NEAR_TIE})")
    arguments.add_argument("--summary", type=Path, help="write the JSON summary here, not to the standard output")
    options = arguments.parse_args()
    summaries = [run_model(model, options) for model in options.models]
    text = json.dumps(summaries, indent=1)
    if options.summary:
        options.summary.write_text(text + "\n")
    else:
        print(text)
    mismatches = sum(
        against["total"]["mismatches"] for summary in summaries for against in summary["against"].values()
    )
    sys.exit(1 if mismatches else 0)


if __name__ == "__main__":
    main()
