"""How good the pocket judge is, through capjudge itself, on clips and sentences that it was never trained on.

    pip install torch transformers tokenizers numpy        # and ffmpeg, which encodes the clips
    cargo build --release
    python models/pocket/evaluate.py --binary target/release/capjudge [--judge pocket] [--clips 200] [--seed SEED] [--out DIR]

Clips are H.264 files, decoded by capjudge; seeds begin with "held out", which training never does. Whoever chooses between
checkpoints does it on another SEED than the one that is reported. Answers are free (`--free`), so that what cannot be parsed
shows. Printed, and written to DIR/results.json:

score           share of exact scores and of scores within 1 (after the word-count rule, which code applies), and of answers
                that are right word for word, so that the reason names the right fact
looks           pairs of a record with its clip and with another one: how often the expected score is higher with its own
order           captions of movements: the mean expected score with the frames in order, and with the frames shuffled
counts          share of hallucination and omission records with exactly the right counts
parsed          share of all answers that were read
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from pathlib import Path

import clips
import tasks
from world import MOVES, Clip


def run(options: argparse.Namespace, folder: Path, task: str, name: str, records: list[dict]) -> dict[str, dict]:
    data, out = folder / f"{name}.jsonl", folder / f"run-{name}"
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    words = [options.binary, "run", "--task", task, "--data", data, "--judge", options.judge, "--out", out, "--free", "-q"]
    subprocess.run([*map(str, words), "--max-unscored", "100%", "--no-frame-cache"], check=True)
    found = [json.loads(line) for line in (out / "verdicts.jsonl").read_text().splitlines()]
    return {verdict["id"]: verdict for verdict in found}


def expected(verdict: dict) -> float | None:
    return verdict["outcome"].get("distribution", {}).get("expected")


def share(values: list[bool]) -> str:
    return f"{sum(values)} of {len(values)} ({100 * sum(values) / max(len(values), 1):.1f}%)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--judge", default="pocket")
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--seed", default="", help="other clips and sentences")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = options.out or Path(tempfile.mkdtemp())
    (folder / "clips").mkdir(parents=True, exist_ok=True)
    rng = random.Random(f"held out{options.seed}")
    # Clips come in pairs, each the other one's stranger.
    made = [Clip.random(rng) for _ in range(options.clips + options.clips % 2)]
    files = [str(clips.write(folder / f"clips/{index}.mp4", clips.pictures(clip))) for index, clip in enumerate(made)]
    results, parsed = {}, []

    records, truth, answers = [], {}, {}
    pairs = []
    for index, clip in enumerate(made):
        for each in range(2):
            sample = tasks.score_sample(clip, made[index ^ 1], rng)
            name = f"{index}-{each}"
            records.append({"id": name, "system": "s", "video": files[index], **sample.fields})
            truth[name], answers[name] = sample.score, sample.answer
        sample = tasks.score_sample(clip, made[index ^ 1], rng, want=3)
        if sample.score == 3:
            for side, which in (("own", index), ("other", index ^ 1)):
                pairs.append({"id": f"{index}-{side}", "system": "s", "video": files[which], **sample.fields})
    verdicts = run(options, folder, "score", "score", records)
    scored = {name: verdict["outcome"]["score"] for name, verdict in verdicts.items() if verdict["outcome"]["status"] == "scored"}
    parsed += [name in scored for name in truth]
    off = [abs(scored[name] - right) if name in scored else 9 for name, right in truth.items()]
    results["score exact"] = share([by == 0 for by in off])
    results["score within 1"] = share([by <= 1 for by in off])
    results["score and reason right"] = share([verdicts[name].get("answer", "").strip() == answer for name, answer in answers.items()])
    table = [[sum(scored.get(name) == said and right == is_ for name, right in truth.items()) for said in range(5)] for is_ in range(5)]
    results["score right (down) against said (across)"] = table

    verdicts = run(options, folder, "score", "pairs", pairs)
    names = sorted({name.split("-")[0] for name in verdicts}, key=int)
    both = [(expected(verdicts[f"{name}-own"]), expected(verdicts[f"{name}-other"])) for name in names]
    results["true clip above another"] = share([None not in pair and pair[0] > pair[1] for pair in both])

    moved = []
    for index in range(options.clips // 4):
        clip = Clip.random(rng, kinds=list(MOVES))
        sample = tasks.score_sample(clip, made[0], rng, want=3)
        frames = clip.frames(8, clips.SIDE)
        mixed = frames[rng.sample(range(8), 8)]
        for side, shown in (("order", frames), ("mixed", mixed)):
            path = clips.write(folder / f"clips/m{index}-{side}.mp4", shown, 2)
            moved.append({"id": f"{index}-{side}", "system": "s", "video": str(path), **sample.fields})
    verdicts = run(options, folder, "score", "order", moved)
    for side in ("order", "mixed"):
        values = [expected(verdict) for name, verdict in verdicts.items() if name.endswith(side)]
        values = [value for value in values if value is not None]
        results[f"mean expected score, frames in {'order' if side == 'order' else 'disorder'}"] = round(sum(values) / len(values), 3)

    for task, make in (("hallucination", tasks.hallucination_sample), ("omission", tasks.omission_sample)):
        records, truth = [], {}
        for index, clip in enumerate(made):
            sample = make(clip, rng)
            records.append({"id": str(index), "system": "s", **sample.fields})
            truth[str(index)] = sample.counts
        verdicts = run(options, folder, task, task, records)
        names = {"hallucination": ["HALLUCINATION_COUNT"], "omission": ["TOTAL_OMISSION_COUNT", "INSERTED_OMISSION_COUNT"]}[task]
        right = []
        for name, counts in truth.items():
            said = verdicts[name]["outcome"].get("counts")
            parsed.append(said is not None)
            right.append(said is not None and tuple(said[key] for key in names) == counts)
        results[f"{task} counts exact"] = share(right)
    results["parsed without a guide"] = share(parsed)
    for name, value in results.items():
        print(f"{name}: {value}")
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
