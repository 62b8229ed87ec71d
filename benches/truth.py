#!/usr/bin/env python3
"""How well and how fast a model judges records whose counts are known.

    cargo build --release
    python3 benches/truth.py --binary target/release/capjudge --data truth.jsonl JUDGE [--records 20] [--no-reuse N]

The data is JSON Lines: for each record `hallucination` and `omission`, each with `events`, `caption`, `truth` (and
`inserted_index`). The first records are judged with both tasks; the script prints the share that was scored, how many
counts are exact, the mean absolute error, and the seconds of a judgement from `timings.jsonl`. With `--no-reuse N` the first
N records are judged once more, each prompt from its first word: the verdicts must be the same bytes, and the seconds
tell what the shared rubric is worth. Nothing is kept unless `--out DIR` is given; with it, an interrupted run goes on.
"""

import argparse
import collections
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TASKS = {
    "hallucination": ["HALLUCINATION_COUNT"],
    "omission": ["TOTAL_OMISSION_COUNT", "INSERTED_OMISSION_COUNT"],
}

PARTS = ["vision_seconds", "prompt_seconds", "answer_seconds"]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def judge(options, task, records, out, *flags):
    data = out.with_suffix(".jsonl")
    with data.open("w") as file:
        for record in records:
            fields = {key: value for key, value in record[task].items() if key != "truth"}
            file.write(json.dumps({"id": record["id"], "system": record["kind"], **fields}) + "\n")
    command = [options.binary, "run", "--task", task, "--data", data, "--judge", options.judge, "--out", out]
    command += ["--max-unscored", "100%", "--quiet", *flags, *options.flags]
    subprocess.run([str(word) for word in command], check=True)
    return lines(out / "verdicts.jsonl"), lines(out / "timings.jsonl")


def report(task, records, verdicts, timings):
    names = TASKS[task]
    scored = [verdict for verdict in verdicts if verdict["outcome"]["status"] == "scored"]
    truth = {record["id"]: record[task]["truth"] for record in records}
    print(f"{task}: {len(scored)} of {len(records)} scored")
    for name in names:
        errors = [abs(v["outcome"]["counts"][name] - truth[v["id"]][name.lower()]) for v in scored]
        if errors:
            exact = sum(error == 0 for error in errors)
            print(f"  {name}: {exact} of {len(errors)} exact, mean absolute error {statistics.mean(errors):.2f}")
    reasons = collections.Counter(v["outcome"]["reason"] for v in verdicts if v["outcome"]["status"] == "unscored")
    if reasons:
        print("  unscored:", ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()))
    seconds(timings)


def seconds(timings):
    answered = [timing for timing in timings if "answer_tokens" in timing]
    # Records are judged side by side: what each took of the machine, not how long it was under way.
    total = [sum(timing.get(part, 0) for part in PARTS) for timing in answered]
    tokens = sum(timing["answer_tokens"] for timing in answered)
    read = sum(timing["prompt_tokens"] - timing["reused_tokens"] for timing in answered)
    print(
        f"  seconds a judgement: mean {statistics.mean(total):.1f}, median {statistics.median(total):.1f}; "
        f"{read / len(answered):.0f} tokens read ({read / sum(t['prompt_seconds'] for t in answered):.1f} a second), "
        f"{tokens / len(answered):.0f} written ({tokens / sum(t['answer_seconds'] for t in answered):.1f} a second)"
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("judge", help="a model, as for capjudge run --judge")
    arguments.add_argument("--binary", type=Path, required=True)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--records", type=int, default=20)
    arguments.add_argument("--no-reuse", type=int, default=0, metavar="N")
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--flags", nargs=argparse.REMAINDER, default=[], help="more flags for capjudge run")
    options = arguments.parse_args()
    records = lines(options.data)[: options.records]
    with tempfile.TemporaryDirectory() as temporary:
        out = options.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        for task in TASKS:
            verdicts, timings = judge(options, task, records, out / task)
            report(task, records, verdicts, timings)
            if options.no_reuse:
                few = records[: options.no_reuse]
                again, slow = judge(options, task, few, out / f"{task}-no-reuse", "--no-reuse")
                if again != verdicts[: len(few)]:
                    sys.exit("the verdicts without reuse are not the same")
                # The first record of a run reads the rubric in any case.
                for name, some in [("with reuse", timings[1 : len(few)]), ("without", slow[1:])]:
                    print(f"  records 2 to {len(few)} {name}:")
                    seconds(some)


if __name__ == "__main__":
    main()
