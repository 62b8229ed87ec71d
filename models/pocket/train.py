"""Trains the pocket judge on CPU.

    pip install torch transformers tokenizers numpy
    python models/pocket/tokens.py                          # once: the tokenizer
    python models/pocket/train.py --out DIR [--minutes 60]  # goes on where it stopped

Stages, in order: `eyes` (the tower alone: where each shape of a picture is), `facts` (what happens in a clip), `list` (the
events of a text, one by one), `short` (the three tasks with a few words of their rubric), `full` (with the whole rubric).
From `list` on, heads that are not part of the checkpoint also ask the layers what became of each shape and which statements
of a caption are right. The rubric is read once for a batch and the frames once for a clip, and gradients flow through both.
DIR keeps a checkpoint of weights, optimisers and counters, written every few minutes; a run that is stopped goes on with the
same samples as if it had not been.
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

from batches import Batch, Words, clip_batch, eyes_batch, list_batch, text_batch
from model import GRID, ROWS, Pocket
from tasks import IMAGE

# name: steps, what a step is made of (task, clips or samples, captions of each clip), learning rate at first and at last.
STAGES: dict[str, tuple[int, list[tuple[str, int, int]], tuple[float, float]]] = {
    "eyes": (1400, [("eyes", 96, 0)], (1.0, 0.05)),
    "facts": (300, [("facts", 16, 1), ("text", 6, 0)], (0.8, 0.8)),
    "list": (300, [("list", 64, 0), ("score", 3, 4), ("eyes", 32, 0)], (0.8, 0.8)),
    "short": (410, [("score", 8, 4), ("text", 12, 0), ("eyes", 32, 0)], (0.8, 0.5)),
    "full": (90, [("score", 8, 4), ("text", 10, 0), ("eyes", 32, 0)], (0.5, 0.02)),
}
# The layers that know what became of shapes, and which statements are right.
SOON, EARLY = 2, 4


def parts(words: Words, stage: str, step: int) -> list[Batch]:
    """The batches of a step; its samples depend on nothing but its number."""
    out = []
    for index, (task, count, each) in enumerate(STAGES[stage][1]):
        rng = random.Random(f"{stage} {step} {index}")
        if task == "text":
            task = ("hallucination", "omission")[step % 2]
        if task in ("hallucination", "omission"):
            out.append(text_batch(words, task, count, rng))
        elif task == "list":
            out.append(list_batch(words, count, rng))
        elif task == "eyes":
            out.append(eyes_batch(count, rng))
        else:
            out.append(clip_batch(words, task, count, each, rng))
    return out


def producer(stages: list[tuple[str, int]], queue: multiprocessing.Queue) -> None:
    os.nice(2)
    torch.set_num_threads(1)
    words = Words()
    for stage, first in stages:
        for step in range(first, STAGES[stage][0]):
            queue.put((stage, step, parts(words, stage, step)))


def seeing_loss(model: Pocket, rows: torch.Tensor, patches: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, float]:
    """How far patches and rows are from telling which shape is where, and how often rows name a shape that is there."""
    places = places.view(-1, 24, 4)
    there, at, size = places[..., 0] > 0, places[..., 1:3], places[..., 3] / 4
    middles = (torch.arange(GRID) + 0.5) / GRID
    middles = torch.stack(torch.meshgrid(middles, middles, indexing="xy"), -1).view(-1, 2)
    # Of each patch: the shape that covers it, if one does.
    outside = (torch.cdist(middles[None], at) - size[:, None]).masked_fill(~there[:, None], 9.0)
    outside, which = outside.min(-1)
    covered = outside < 0.03
    said = model.patches(patches).float()
    loss = F.cross_entropy(said[..., :25].flatten(0, 1), torch.where(covered, which, 24).flatten())
    mine = torch.gather(places[..., 1:], 1, which[..., None].expand(-1, -1, 3))
    loss = 2 * loss + ((said[..., 25:] - mine).abs().sum(-1) * covered).sum() / covered.sum()
    # Of each row: the shapes whose middle is in its part of the frame.
    here = cells(places)
    said = model.places(rows).float().view(-1, ROWS, 24, 4)
    presence = F.binary_cross_entropy_with_logits(said[..., 0], here.float(), reduction="sum") / len(rows)
    far = (said[..., 1:] - places[:, None, :, 1:]).abs().sum(-1)
    found = (said[..., 0] > 0)[here].float().mean().item()
    return loss + presence + 4 * (far * here).sum() / here.sum(), found


def cells(places: torch.Tensor) -> torch.Tensor:
    """Which row has which shape: (frames, ROWS, 24)."""
    side = GRID // 2
    cell = (places[..., 1:3] * side).long().clamp(0, side - 1)
    here = F.one_hot(cell[..., 1] * side + cell[..., 0], ROWS).bool() & (places[..., :1] > 0)
    return here.transpose(1, 2)


def level(x: torch.Tensor) -> torch.Tensor:
    """What layers say grows with their number; heads for learning read it at one scale."""
    return F.rms_norm(x.float(), x.shape[-1:])


def change_loss(model: Pocket, rows: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, float]:
    """How far a layer is from knowing what became of each shape since it was first seen, in the row where it is; and by how
    much of the frame's side it is wrong about the way that it went."""
    here = cells(batch.places.view(-1, 24, 4))
    said = model.changes(level(rows)).float().view(-1, ROWS, 24, 5)[here]
    right = batch.changes.view(-1, 1, 24, 5).expand(-1, ROWS, -1, -1)[here]
    far = (said[:, :3] - right[:, :3]).abs()
    flags = F.binary_cross_entropy_with_logits(said[:, 3:], right[:, 3:])
    return 4 * far.sum(-1).mean() + flags, far[:, :2].mean().item()


def truth_loss(model: Pocket, middle: torch.Tensor, marks: torch.Tensor) -> tuple[torch.Tensor, float]:
    """How far a layer is from knowing which statements are right, where each of them ends; and how often it is."""
    row, at, so = marks.T
    said = model.truth(level(middle[row, at]))[:, 0].float()
    return F.binary_cross_entropy_with_logits(said, so.float()), ((said > 0) == so.bool()).float().mean().item()


def losses(model: Pocket, words: Words, batch: Batch, short: bool) -> tuple[torch.Tensor, dict]:
    told = {}
    if batch.looks is not None:
        clips, frames = batch.looks.shape[:2]
        rows, patches = model.see(batch.looks.flatten(0, 1))
        seeing, told["found"] = seeing_loss(model, rows, patches, batch.places)
        told["see"] = seeing.item()
        if batch.task == "eyes":
            return seeing, told
    _, past, _ = model.read(model.embed(torch.tensor([words.prefix(batch.task, short)])))
    if batch.looks is not None:
        embeds = model.embed(batch.frames)
        where = batch.frames == words.id(IMAGE)
        embeds = embeds.masked_scatter(where[..., None], rows.view(clips, frames * ROWS, -1).to(embeds.dtype))
        _, past, soon = model.read(embeds, past, SOON)
        changing, told["change"] = change_loss(model, soon[where], batch)
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
        short_middle = model.read(model.embed(batch.statements), past, EARLY)[2]
        statement, told["alone"] = truth_loss(model, short_middle, batch.truths)
        inside, told["truth"] = truth_loss(model, middle, batch.marks)
        loss = loss + 0.5 * inside + 0.5 * statement
    if batch.looks is not None:
        loss = loss + 0.1 * seeing + changing
    return loss, told


def rate(stage: str, step: int) -> float:
    steps, _, (first, last) = STAGES[stage]
    warm = min(1.0, (step + 1) / 50)
    return warm * (last + (first - last) * 0.5 * (1 + math.cos(math.pi * step / steps)))


def optimisers(model: Pocket) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of layers, AdamW for all else."""
    groups: dict[str, list] = {"decoder": [], "tower": [], "rest": [], "patch": []}
    for name, parameter in model.named_parameters():
        if "patch_embedding" in name:
            groups["patch"].append(parameter)
        elif parameter.ndim == 2 and (".layers." in name or "modality_projection" in name):
            groups["decoder" if "text_model" in name else "tower"].append(parameter)
        else:
            groups["rest"].append(parameter)
    muon = lambda group: torch.optim.Muon(groups[group], lr=0, weight_decay=0.02, adjust_lr_fn="match_rms_adamw")
    adam = lambda group: torch.optim.AdamW(groups[group], lr=0, betas=(0.9, 0.98), weight_decay=0.0)
    return [muon("decoder"), muon("tower"), adam("rest"), adam("patch")]


def rates(stage: str, step: int) -> list[float]:
    """Learning rates of the optimisers. What was learned in the first stage is changed slowly in later ones."""
    now = rate(stage, step)
    tower = 1.0 if stage == "eyes" else 0.3
    return [3e-3 * now, 3e-3 * now * tower, 2e-3 * now, 4e-4 * now * tower]


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
        for opt, saved in zip(opts, state["opts"], strict=True):
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
            for opt, now in zip(opts, rates(stage, step)):
                for group in opt.param_groups:
                    group["lr"] = now
            line = {"stage": stage, "step": step}
            for batch in batches:
                with torch.autocast("cpu", torch.bfloat16, enabled=not options.float32):
                    loss, told = losses(model, words, batch, short=stage != "full")
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
