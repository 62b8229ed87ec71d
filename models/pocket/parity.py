"""Whether capjudge and transformers read the same and answer the same: 50 samples, greedy, without a guide.

    pip install torch torchvision transformers tokenizers numpy pillow     # and ffmpeg, which encodes the clips
    cargo build --release
    python models/pocket/parity.py --binary target/release/capjudge [--samples 50]

transformers gets the frames that capjudge decoded, prepares them with its own image processor, and reads the prompt that
training renders. Exit code 1 if a prompt has another number of tokens or an answer another word. An answer of capjudge ends
where its last number is read, so that of transformers has to begin with it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from PIL import Image
from transformers import SmolVLMForConditionalGeneration, SmolVLMImageProcessor

import clips
import tasks
from batches import HERE, Words
from evaluate import run
from world import Clip


def pixels(binary: Path, clip: Path, processor: SmolVLMImageProcessor) -> torch.Tensor:
    folder = clip.with_suffix(".frames")
    subprocess.run([str(binary), "frames", str(clip), "--out", str(folder)], check=True, capture_output=True)
    pictures = [Image.open(path).convert("RGB") for path in sorted(folder.glob("*.png"))]
    return processor(images=[pictures], return_tensors="pt")["pixel_values"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--judge", default="pocket")
    parser.add_argument("--folder", type=Path, default=HERE, help="the checkpoint that transformers loads")
    parser.add_argument("--samples", type=int, default=50)
    options = parser.parse_args()
    words = Words()
    model = SmolVLMForConditionalGeneration.from_pretrained(options.folder, dtype=torch.float32).eval()
    processor = SmolVLMImageProcessor.from_pretrained(options.folder)
    folder = Path(tempfile.mkdtemp())
    rng = random.Random("parity")
    wrong = 0
    for task in tasks.TASKS:
        count = options.samples // 3 + (options.samples % 3 if task == "score" else 0)
        made = [Clip.random(rng) for _ in range(count + 1)]
        samples, records = [], []
        for index in range(count):
            clip = made[index]
            if task == "score":
                path = clips.write(folder / f"{index}.mp4", clips.pictures(clip))
                sample, shown = tasks.score_sample(clip, made[index + 1], rng), {"video": str(path)}
            else:
                make = tasks.hallucination_sample if task == "hallucination" else tasks.omission_sample
                sample, shown = make(clip, rng), {}
            samples.append((clip, sample))
            records.append({"id": str(index), "system": "s", **shown, **sample.fields})
        verdicts = run(options, folder, task, task, records)
        timings = [json.loads(line) for line in (folder / f"run-{task}/timings.jsonl").read_text().splitlines()]
        read = {timing["id"]: timing["prompt_tokens"] for timing in timings}
        for index, (clip, sample) in enumerate(samples):
            ids, more = list(words.prefixes[task]), {}
            if task == "score":
                ids += words.frames(clip.seconds)
                more["pixel_values"] = pixels(options.binary, folder / f"{index}.mp4", processor)
            ids += words.tail(sample)[0]
            prompt = torch.tensor([ids])
            with torch.no_grad():
                out = model.generate(
                    input_ids=prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=600,
                    eos_token_id=words.end, pad_token_id=words.end, **more,
                )
            said = words.tokenizer.decode(out[0, len(ids) :].tolist(), skip_special_tokens=True)
            ours = verdicts[str(index)]["answer"]
            if read[str(index)] != len(ids) or not said.startswith(ours):
                wrong += 1
                print(f"{task} {index}: {read[str(index)]} and {len(ids)} tokens\n  capjudge:     {ours!r}\n  transformers: {said!r}")
        print(f"{task}: {count} samples", flush=True)
    print(f"{options.samples - wrong} of {options.samples} the same")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
