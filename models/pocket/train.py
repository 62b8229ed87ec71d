"""Trains the pocket judge on CPU.

    pip install torch transformers tokenizers numpy
    python models/pocket/tokens.py                          # once: the tokenizer
    python models/pocket/train.py --out DIR [--minutes 60]  # goes on where it stopped

Stages, in order: `eyes` (the tower alone: where each shape of a frame is), `facts` (what happens in a clip), `short` (the
three tasks with a few words of their rubric), `full` (with the whole rubric). The rubric is read once for a batch and the
frames once for a clip, and gradients flow through both. DIR keeps a checkpoint of weights, optimisers and counters, written
every few minutes; a run that is stopped goes on with the same samples as if it had not been.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import time
from pathlib import Path

import torch
from torch.nn import functional as F

from batches import Batch, Words, clip_batch, text_batch
from model import ROWS, Pocket
from tasks import IMAGE

# name: steps, what a step is made of (task, clips or samples, captions of each clip), highest learning rate.
STAGES: dict[str, tuple[int, list[tuple[str, int, int]], float]] = {
    "eyes": (1500, [("eyes", 8, 0)], 1.0),
    "facts": (1500, [("facts", 16, 1), ("hallucination", 6, 0)], 1.0),
    "short": (6000, [("score", 8, 4), ("facts", 4, 1), ("text", 8, 0)], 1.0),
    "full": (1500, [("score", 8, 4), ("facts", 4, 1), ("text", 8, 0)], 0.5),
}
# The layer whose words on statements are looked at.
EARLY = 4


def parts(words: Words, stage: str, step: int) -> list[Batch]:
    """The batches of a step; its samples depend on nothing but its number."""
    out = []
    for index, (task, count, each) in enumerate(STAGES[stage][1]):
        rng = random.Random(f"{stage} {step} {index}")
        if task == "text":
            task = ("hallucination", "omission")[step % 2]
        if task in ("hallucination", "omission"):
            out.append(text_batch(words, task, count, rng))
        else:
            out.append(clip_batch(words, "facts" if task == "eyes" else task, count, each, rng))
    return out


def producer(stages: list[tuple[str, int]], queue: multiprocessing.Queue) -> None:
    os.nice(2)
    torch.set_num_threads(1)
    words = Words()
    for stage, first in stages:
        for step in range(first, STAGES[stage][0]):
            queue.put((stage, step, parts(words, stage, step)))


def seeing_loss(model: Pocket, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """How far the rows of frames are from telling where each shape is."""
    said = model.places(rows.flatten(1)).view(-1, 24, 4)
    places = places.view(-1, 24, 4)
    there = places[..., 0]
    presence = F.binary_cross_entropy_with_logits(said[..., 0], there, reduction="sum") / len(rows)
    far = ((said[..., 1:] - places[..., 1:]).abs().sum(-1) * there).sum() / there.sum()
    return presence + 4 * far


def losses(model: Pocket, words: Words, batch: Batch, short: bool, eyes_only: bool) -> tuple[torch.Tensor, dict]:
    told = {}
    if batch.looks is not None:
        clips, frames = batch.looks.shape[:2]
        rows = model.see(batch.looks.flatten(0, 1))
        seeing = seeing_loss(model, rows, batch.places)
        told["see"] = seeing.item()
        if eyes_only:
            return seeing, told
    _, past, _ = model.read(model.embed(torch.tensor([words.prefix(batch.task, short)])))
    if batch.looks is not None:
        embeds = model.embed(batch.frames)
        where = batch.frames == words.id(IMAGE)
        embeds = embeds.masked_scatter(where[..., None], rows.view(clips, frames * ROWS, -1).to(embeds.dtype))
        _, past, _ = model.read(embeds, past)
    hidden, _, middle = model.read(model.embed(batch.tokens), past, EARLY)
    wanted = batch.targets >= 0
    said, right = model.logits(hidden[wanted]).float(), batch.targets[wanted]
    each = F.cross_entropy(said, right, reduction="none")
    loss = each.mean()
    good = said.argmax(-1) == right
    told["loss"], told["tokens"] = loss.item(), good.float().mean().item()
    # Answers without a wrong token, if each token is chosen behind the right ones.
    rows_of = wanted.nonzero()[:, 0]
    wrong_rows = torch.zeros(len(batch.tokens), dtype=torch.bool)
    wrong_rows[rows_of[~good]] = True
    told["exact"] = 1 - wrong_rows.float().mean().item()
    if batch.task == "score":
        starts = torch.cat([torch.tensor([True]), rows_of[1:] != rows_of[:-1]]).nonzero()[:, 0]
        digit = starts + words.score_at
        told["score"] = good[digit].float().mean().item()
        # The score is one token of many and worth more than the rest of the answer.
        loss = loss + 0.5 * each[digit].mean()
        row, at, so = batch.marks.T
        truth = model.truth(middle[row, at])[:, 0].float()
        statement = F.binary_cross_entropy_with_logits(truth, so.float())
        told["truth"] = ((truth > 0) == so.bool()).float().mean().item()
        loss = loss + 0.5 * statement + 0.05 * seeing
    elif batch.looks is not None:
        loss = loss + 0.1 * seeing
    return loss, told


def rate(stage: str, step: int) -> float:
    steps, _, highest = STAGES[stage]
    warm = min(1.0, (step + 1) / 100)
    down = 0.5 * (1 + math.cos(math.pi * step / steps))
    return highest * warm * (0.05 + 0.95 * down)


def optimisers(model: Pocket) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of layers, AdamW for all else."""
    matrices, rest = [], []
    for name, parameter in model.named_parameters():
        inside = ".layers." in name or "modality_projection" in name
        (matrices if parameter.ndim == 2 and inside else rest).append(parameter)
    return [
        torch.optim.Muon(matrices, lr=MUON, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=ADAM, betas=(0.9, 0.98), weight_decay=0.0),
    ]


MUON, ADAM = 3e-3, 3e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--float32", action="store_true", help="no bfloat16 in matrix products")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    words = Words()
    model = words.network()
    model.train()
    opts = optimisers(model)
    kept = options.out / "state.pt"
    names = list(STAGES)
    stage, step, spent = names[0], 0, 0.0
    if kept.exists():
        state = torch.load(kept, weights_only=False)
        model.load_state_dict(state["model"])
        for opt, saved in zip(opts, state["opts"]):
            opt.load_state_dict(saved)
        stage, step, spent = state["stage"], state["step"], state["spent"]
        print("goes on at", stage, step, f"after {spent / 60:.0f} minutes", flush=True)
    todo = [(name, step if name == stage else 0) for name in names[names.index(stage) :]]
    queue: multiprocessing.Queue = multiprocessing.Queue(6)
    torch.multiprocessing.set_sharing_strategy("file_system")
    maker = multiprocessing.Process(target=producer, args=(todo, queue), daemon=True)
    maker.start()

    def save(stage: str, step: int) -> None:
        state = {"model": model.state_dict(), "opts": [opt.state_dict() for opt in opts], "stage": stage, "step": step}
        torch.save(state | {"spent": spent}, kept.with_suffix(".new"))
        kept.with_suffix(".new").replace(kept)

    started = saved = time.monotonic()
    log = (options.out / "log.jsonl").open("a")
    for stage, first in todo:
        for step in range(first, STAGES[stage][0]):
            begun = time.monotonic()
            found_stage, found_step, batches = queue.get()
            assert (found_stage, found_step) == (stage, step)
            waited = time.monotonic() - begun
            for opt, highest in zip(opts, (MUON, ADAM)):
                for group in opt.param_groups:
                    group["lr"] = highest * rate(stage, step)
            line = {"stage": stage, "step": step}
            for batch in batches:
                with torch.autocast("cpu", torch.bfloat16, enabled=not options.float32):
                    loss, told = losses(model, words, batch, short=stage != "full", eyes_only=stage == "eyes")
                loss.backward()
                line |= {f"{batch.task}.{key}": round(value, 4) for key, value in told.items()}
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for opt in opts:
                opt.step()
                opt.zero_grad()
            took = time.monotonic() - begun
            spent += took
            line |= {"seconds": round(took, 3), "waited": round(waited, 3)}
            log.write(json.dumps(line) + "\n")
            if step % 20 == 0:
                log.flush()
                print(json.dumps(line), flush=True)
            if time.monotonic() - saved > 180:
                save(stage, step + 1)
                saved = time.monotonic()
            if time.monotonic() - started > options.minutes * 60:
                save(stage, step + 1)
                maker.kill()
                return
        save(stage, STAGES[stage][0])
    print("done")


if __name__ == "__main__":
    main()
