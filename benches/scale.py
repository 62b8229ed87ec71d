#!/usr/bin/env python3
"""Records per second and peak memory, end to end, with the scripted judge.

    cargo build --release
    python3 benches/scale.py 100000            # run, then summarize
    python3 benches/scale.py 1000000

Writes its data to a temporary folder (about 2.7 KB a record) and removes it. Peak memory is the largest resident set
that the system reports for the process.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BINARY = Path(__file__).resolve().parent.parent / "target" / "release" / "capjudge"
EVENTS = ["A man carries a ladder across the yard", "He leans it against the wall", "He climbs to the roof"]


def answer(index: int) -> str:
    hallucinated = index % 4
    label = lambda event: "HALLUCINATED" if event < hallucinated else "SUPPORTED"
    listed = "".join(f"{n + 1}. {event}\n" for n, event in enumerate(EVENTS))
    reasons = "".join(
        f"• Event #{n + 1} – This event — {event.lower()} — was {label(n)} because the ground truth events, read "
        f"with their visual descriptions, {'do not mention it' if n < hallucinated else 'say the same'}.\n"
        for n, event in enumerate(EVENTS)
    )
    return (
        f"EXTRACTED_EVENTS:\n{listed}\nCRITERIA_REVIEW:\n- Apply the hallucination criteria.\n\n"
        f"EVENT-BY-EVENT REASONING:\n{reasons}\nFINAL METRICS:\n- HALLUCINATION_COUNT: {hallucinated}\n"
    )


def write_data(folder: Path, count: int) -> None:
    events = [{"caption": event} for event in EVENTS]
    with open(folder / "data.jsonl", "w") as data, open(folder / "answers.jsonl", "w") as answers:
        for index in range(count):
            key = f"clip-{index:07}"
            record = {"id": key, "system": f"system-{index % 5}", "caption": " ".join(EVENTS), "events": events}
            data.write(json.dumps(record) + "\n")
            answers.write(json.dumps({"id": key, "answer": answer(index)}, ensure_ascii=False) + "\n")


def measure(what: str, count: int, *words: str) -> None:
    start = time.monotonic()
    process = subprocess.Popen([BINARY, *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status != 0:
        sys.exit(f"{what} failed")
    peak = usage.ru_maxrss / 1024
    print(f"{what}: {count} records in {seconds:.1f} s, {count / seconds:.0f} a second, peak memory {peak:.0f} MB")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, count)
        run = ["run", "--task", "hallucination", "--data", str(folder / "data.jsonl")]
        run += ["--judge", f"scripted:{folder / 'answers.jsonl'}", "--out", str(folder / "out"), "--quiet"]
        measure("run", count, *run)
        measure("run again (nothing left to judge)", count, *run)
        measure("summarize", count, "summarize", str(folder / "out"))


if __name__ == "__main__":
    main()
