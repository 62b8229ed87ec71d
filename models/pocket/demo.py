"""Makes the clips and captions of `capjudge demo`.

    python models/pocket/demo.py            # writes models/pocket/demo, and tests/data/pocket/truth.jsonl; needs ffmpeg

Eight clips, 24 captions of two made-up systems: `lantern` tells what happens, `sparrow` leaves out and makes up. Seeds
begin with "demo", which training never does. What a judge should say of each caption is known, and is for the tests alone.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import clips
import sentences
import tasks
from sentences import capital
from world import Clip, Fact

OUT = Path(__file__).resolve().parent / "demo"
TRUTH = OUT.parents[2] / "tests/data/pocket/truth.jsonl"
# Which shapes do what in which clip, and how long it takes.
COUNTS = [2, 3, 3, 4, 3, 4, 2, 3]
# Besides a brief caption, some clips get another one.
OTHERS = {0: "poem", 2: "narrative", 4: "style", 5: "detail"}


def told_by(system: str, clip: Clip, rng: random.Random) -> list[Fact]:
    facts = tasks.shuffled(clip.facts, rng)
    if system == "lantern":
        return facts[:-1] if len(facts) > 3 and rng.random() < 0.3 else facts
    kept = facts[: max(1, len(facts) - 1)] if rng.random() < 0.5 else facts
    bad = rng.choice([1, 1, 2, len(kept)])
    return tasks.shuffled([tasks.wrong(fact, clip, rng) for fact in kept[:bad]] + kept[bad:], rng)


def record(index: int, clip: Clip, system: str, kind: str, rng: random.Random) -> tuple[dict, dict]:
    """A caption, and what is right to say of it."""
    reference = tasks.shuffled(clip.facts, rng)
    if len(reference) > 2 and rng.random() < 0.3:
        reference = reference[:-1]
    while True:
        told = told_by(system, clip, rng)
        reference_text, _ = sentences.caption(reference, kind, rng)
        length = sentences.words(reference_text)
        bounds = (0.9 * length, 1.1 * length) if kind in ("brief", "detail") else (1, 1000)
        made = sentences.caption_of_length(told, kind, rng, *bounds)
        if made is not None:
            break
    events = [{"caption": capital(sentences.said(fact, rng, tense=0))} for fact in clip.facts]
    out = {"id": f"{system}/clip-{index + 1}/{kind}", "system": system, "video": f"clip-{index + 1}.mp4", "caption": made[0]}
    out |= {"events": events, "caption_type": kind, "reference": reference_text}
    if len(events) > 2:
        out["inserted_index"] = rng.randrange(len(events))
    omitted = [not tasks.of_same(fact, told) for fact in clip.facts]
    right = {
        "id": out["id"], "HALLUCINATION_COUNT": sum(fact not in clip.facts for fact in told), "TOTAL_OMISSION_COUNT": sum(omitted),
        "INSERTED_OMISSION_COUNT": int("inserted_index" in out and omitted[out["inserted_index"]]),
    }
    score, reason, named = tasks.right_score(told, reference, clip, kept=True)
    return out, right | {"score": score, "reason": tasks.reason_text(reason, named)}


def main() -> None:
    OUT.mkdir(exist_ok=True)
    made = [Clip.random(random.Random(f"demo {index}"), count) for index, count in enumerate(COUNTS)]
    for index, clip in enumerate(made):
        path = clips.write(OUT / f"clip-{index + 1}.mp4", clips.pictures(clip))
        print(path.name, path.stat().st_size, [sentences.plain(fact) for fact in clip.facts])
    lines, truth = [], []
    for system in ("lantern", "sparrow"):
        for index, clip in enumerate(made):
            for kind in ["brief", OTHERS.get(index)]:
                if kind:
                    line, right = record(index, clip, system, kind, random.Random(f"demo {system} {index} {kind}"))
                    lines.append(line)
                    truth.append(right)
    for path, all_ in ((OUT / "captions.jsonl", lines), (TRUTH, truth)):
        path.write_text("".join(json.dumps(line) + "\n" for line in all_))
    print(len(lines), "records")


if __name__ == "__main__":
    main()
