"""Trains the pocket judge on CPU.

    pip install torch torchvision transformers tokenizers numpy pillow
    python models/pocket/tokens.py                                         # only before training from nothing
    python models/pocket/train.py --out DIR --part tower
    python models/pocket/train.py --out DIR --part decoder --workers 2
    python models/pocket/train.py --out DIR --part whole --workers 2       # both together
    python models/pocket/export.py --state DIR/whole.pt
    python models/pocket/train.py --out DIR --part counts --workers 2      # goes on from a checkpoint: the shipped one, or --begin
    python models/pocket/export.py --state DIR/counts.pt
    python models/pocket/train.py --out DIR --part reasons --workers 2     # so does this

`tower` learns to tell from pixels what `sights.py` says of each cell of a frame. `decoder` learns the three tasks from the true
numbers: first to copy, to look up and to follow shapes (`words`), then the tasks with a few words of their rubric (`short`).
`whole` puts one behind the other and goes on with pictures and the whole rubric. `counts` goes on from a checkpoint, mostly
with texts and with the tower as it is, and `reasons` with the last layers alone and the facts that reasons name. Heads that are
not part of the checkpoint also ask some layers what became of each shape, what it does, and which statements are right; so these
two first learn the heads alone (`heads`). The rubric is read once for a batch and the frames once for a clip, and gradients flow
through both.

DIR keeps a checkpoint of each part, written every few minutes; a run that is stopped goes on where it was. With `--workers 2`
each step has the samples of two processes, which share their gradients.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import math
import random
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional as F

from batches import HERE, Batch, Pictures, Rows, Words, clip_batch, eyes_batch, list_batch, text_batch
from model import CHANGE_LAYER, FACT_LAYER, FOUND_LAYER, ORDER_LAYER, TRUTH_LAYER, Pocket, Read
from sights import TOLD
from tasks import COUNTED, IMAGE, STATED
from world import SHAPES

# Options of the C library's memory.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
# part: stage: steps, learning rate at first and at last.
PARTS: dict[str, dict[str, tuple[int, float, float]]] = {
    "tower": {"eyes": (4000, 1.0, 0.02)},
    "decoder": {"words": (1350, 1.0, 1.0), "short": (1200, 0.8, 0.3)},
    "whole": {"full": (590, 0.5, 0.02)},
    "counts": {"heads": (60, 1.0, 1.0), "counts": (1300, 0.3, 0.01)},
    "reasons": {"heads": (60, 1.0, 1.0), "reasons": (1000, 0.4, 0.01)},
}
# Those that go on from a checkpoint.
LATER = ("counts", "reasons")
# The layers that `reasons` changes; the others know what they have to.
LATE = (TRUTH_LAYER, FOUND_LAYER, FOUND_LAYER + 1)


def parts(words: Words, stage: str, rng: random.Random, step: int) -> list[Batch | Pictures]:
    """The batches of a worker's step."""
    if stage == "eyes":
        return [eyes_batch(64, rng)]
    if stage == "words":
        return [list_batch(words, 8, rng), clip_batch(words, 3, 0, 4, True, False, rng)]
    if stage == "short":
        texts = [text_batch(words, "hallucination", 4, True, rng), text_batch(words, "omission", 7, True, rng, cut=0.85)]
        return [*texts, clip_batch(words, 2, 5, 3, True, False, rng)]
    if stage in ("heads", "counts", "reasons"):
        count, reasons = (3, 10) if stage == "reasons" else (4, 0)
        # The whole rubric of one task in turn: with all three a step costs more than twice as much.
        short = [step % 3 != turn for turn in range(3)]
        texts = [text_batch(words, task, count, short[turn], rng) for turn, task in enumerate(("hallucination", "omission"))]
        return [*texts, clip_batch(words, 2, 5, 1, short[2], True, rng, reasons)]
    # The whole rubric every other time: without it a step costs little more than half.
    short, text = step % 2 == 1, ("hallucination", "omission", "omission")[step // 2 % 3]
    return [text_batch(words, text, 6, short, rng), clip_batch(words, 2, 5, 2, short, True, rng), eyes_batch(8, rng)]


def seeing_loss(model: Pocket, pictures: Pictures, patches: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, dict]:
    """How far the tower is from telling which shape covers each patch and what each row shows; how many of the shapes that are
    well inside a row are named there, and how many rows name one that is not there."""
    said = model.patches(patches).float()
    covered = pictures.covers < len(SHAPES)
    loss = 2 * F.cross_entropy(said[..., : len(SHAPES) + 1].flatten(0, 1), pictures.covers.flatten())
    loss = loss + ((said[..., len(SHAPES) + 1 :] - pictures.at).abs().sum(-1) * covered).sum() / covered.sum()
    said, right = model.numbers(rows).float(), pictures.numbers
    loss = loss + 2 * (said - right).square().sum(-1).mean()
    named, there = said[..., : len(SHAPES)] > 0.5, right[..., : len(SHAPES)]
    found, ghosts = (named[part].float().mean().item() for part in (there > 0.95, there < 0.05))
    return loss, {"see": loss.item(), "found": found, "ghosts": ghosts}


def level(x: torch.Tensor) -> torch.Tensor:
    """What layers say grows with their number; heads for learning read it at one scale."""
    return F.rms_norm(x.float(), x.shape[-1:])


def becoming_loss(model: Pocket, layers: list[torch.Tensor], where: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, dict]:
    """How far two layers are from knowing what became of each shape since it was first seen, and what it does, in the row where
    it is."""
    at, right = batch.shown.changes[:, 0].long(), batch.shown.changes[:, 1:]
    said = model.changes(level(layers[CHANGE_LAYER][where][at])).float()
    far = (said[:, :3] - right[:, :3]).abs()
    loss = 2 * far.sum(-1).mean() + F.binary_cross_entropy_with_logits(said[:, 3:], right[:, 3:])
    at = batch.shown.facts[:, 0]
    showing, shown = fact_loss(model.facts, layers[FACT_LAYER][where][at], batch.shown.facts[:, 1:])
    return loss + showing, {"way": far[:, :2].mean().item(), "shown": shown}


def fact_loss(head: torch.nn.Module, x: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, float]:
    """How far a layer is from knowing the fact that a row shows or a statement tells; and how often it does."""
    if not len(x):
        # Of clips whose shapes are all gone at the end.
        return x.new_zeros(()), 1.0
    said = head(level(x)).float().split(TOLD, -1)
    loss = sum(F.cross_entropy(part, wanted) for part, wanted in zip(said, right.T))
    good = torch.stack([part.argmax(-1) == wanted for part, wanted in zip(said, right.T)]).all(0)
    return loss, good.float().mean().item()


def truth_loss(head: torch.nn.Module, layer: torch.Tensor, marks: torch.Tensor) -> tuple[torch.Tensor, float]:
    """How far a layer is from knowing which statements are right, where each of them ends; and how often it is."""
    row, at, so = marks[:, :3].T
    said = head(level(layer[row, at]))[:, 0].float()
    return F.binary_cross_entropy_with_logits(said, so.float()), ((said > 0) == so.bool()).float().mean().item()


def telling_loss(model: Pocket, layers: list[torch.Tensor], rows: Rows) -> tuple[torch.Tensor, float]:
    """The same for statements, where each of them ends, and of where it stands."""
    found = [rows.marks[field] for field in STATED]
    marks = torch.cat(found)
    row, at = marks[:, :2].T
    x = layers[FACT_LAYER][row, at]
    field = torch.repeat_interleave(torch.arange(len(found)), torch.tensor([len(each) for each in found]))
    loss, good = fact_loss(model.facts, x, marks[:, 4:])
    loss = loss + F.cross_entropy(model.fields(level(x)).float(), field)
    return loss, good


def order_loss(model: Pocket, layers: list[torch.Tensor], rows: Rows) -> tuple[torch.Tensor, dict]:
    """How far layers are from knowing which statements stand in front of each, how many of them were counted, and what comes
    next before it is written."""
    layer = layers[ORDER_LAYER]
    marks = torch.cat([rows.marks[field] for field in ("caption", "reference", "events")])
    said = model.order(level(layer[marks[:, 0], marks[:, 1]])).float()
    loss, told = F.cross_entropy(said, marks[:, 3]), {"order": (said.argmax(-1) == marks[:, 3]).float().mean().item()}
    before = rows.marks["before"]
    if len(before):
        following, told["before"] = fact_loss(model.before, layer[before[:, 0], before[:, 1]], before[:, 4:])
        loss = loss + following
    coming = rows.marks["next"]
    if len(coming):
        following, told["next"] = fact_loss(model.facts, layers[TRUTH_LAYER][coming[:, 0], coming[:, 1]], coming[:, 4:])
        loss = loss + 2 * following
    for field, head in zip(COUNTED, (model.counted, model.counted_inserted)):
        marks = rows.marks[field]
        if len(marks):
            said = head(level(layer[marks[:, 0], marks[:, 1]])).float()
            loss = loss + F.cross_entropy(said, marks[:, 2])
            told[field] = (said.argmax(-1) == marks[:, 2]).float().mean().item()
    return loss, told


def answer_loss(model: Pocket, words: Words, task: str, rows: Rows, hidden: torch.Tensor) -> tuple[torch.Tensor, dict]:
    wanted = rows.targets >= 0
    said, right = model.logits(hidden[wanted]).float(), rows.targets[wanted]
    each = F.cross_entropy(said, right, reduction="none")
    good = said.argmax(-1) == right
    # Answers without a wrong token, if each token is chosen behind the right ones.
    of = wanted.nonzero()[:, 0]
    wrong = torch.zeros(len(rows.tokens)).index_add_(0, of, (~good).float()) > 0
    loss = each.mean()
    told = {"loss": loss.item(), "exact": 1 - wrong.float().mean().item()}
    if task == "score":
        starts = torch.cat([torch.tensor([True]), of[1:] != of[:-1]]).nonzero()[:, 0]
        digit = starts + words.score_at
        told["score"] = good[digit].float().mean().item()
        # The score is one token of many and worth more than the rest of the answer.
        loss = loss + 0.5 * each[digit].mean()
    if task in ("list", "hallucination", "omission", "reasons"):
        # So are labels: the tokens that are hard to tell are a few of hundreds.
        loss = loss + 0.5 * each.topk(max(1, len(each) // 20)).values.mean()
        # And so are the counts.
        row, at = torch.cat([rows.marks[field] for field in COUNTED])[:, :2].T
        counts = torch.zeros_like(wanted).index_put_((row, at), torch.tensor(True))[wanted]
        if counts.any():
            loss = loss + 0.5 * each[counts].mean()
    return loss, told


def reason_loss(model: Pocket, read: Read, rows: Rows) -> tuple[torch.Tensor, dict]:
    """How far a late layer is from looking at the statement that the reason names, before it is written, and from knowing its
    fact; how much any of its heads looks there, and how often the fact is known."""
    row, at, target = rows.marks["reason"][:, :3].T
    looks = model.looks(FOUND_LAYER, read, row, at)
    before = looks.shape[-1] - rows.tokens.shape[1]
    looked = looks[torch.arange(len(row)), before + target]
    knowing, told = fact_loss(model.facts, read.layers[FOUND_LAYER][row, at], rows.marks["reason"][:, 4:])
    return knowing - looked.clamp(min=1e-6).log().mean(), {"looked": looked.mean().item(), "named": told}


def losses(model: Pocket, words: Words, batch: Batch | Pictures) -> tuple[torch.Tensor, str, dict]:
    if isinstance(batch, Pictures):
        loss, told = seeing_loss(model, batch, *model.see(batch.looks))
        return loss, "eyes", told
    past = model.read(model.embed(torch.tensor([batch.prefix]))).past
    loss, told, shown = 0.0, {}, batch.shown
    if shown is not None:
        if shown.pictures is None:
            rows = model.rows_of(shown.numbers)
        else:
            patches, fours = model.see(shown.pictures.looks)
            if model.patches.weight.requires_grad:
                seeing, found = seeing_loss(model, shown.pictures, patches, fours)
                loss, told = loss + 0.3 * seeing, told | found
            rows = model.connector.modality_projection(fours).view(*shown.numbers.shape[:2], -1)
        embeds = model.embed(shown.tokens)
        where = shown.tokens == words.id(IMAGE)
        embeds = embeds.masked_scatter(where[..., None], rows.to(embeds.dtype))
        seen = model.read(embeds, past)
        past = seen.past
        becoming, found = becoming_loss(model, seen.layers, where, batch)
        loss, told = loss + 0.5 * becoming, told | found
        layers = model.read(model.embed(shown.statements.tokens), past).layers
        alone, told["alone"] = truth_loss(model.truth, layers[TRUTH_LAYER], shown.statements.marks["caption"])
        telling, told["said"] = telling_loss(model, layers, shown.statements)
        loss = loss + alone + 0.3 * telling
        if shown.reasons is not None:
            read = model.read(model.embed(shown.reasons.tokens), past)
            answering, found = answer_loss(model, words, "reasons", shown.reasons, read.last)
            looking, looked = reason_loss(model, read, shown.reasons)
            loss = loss + answering + looking
            for head, field in ((model.truth, "caption"), (model.told, "reference")):
                loss = loss + 0.5 * truth_loss(head, read.layers[TRUTH_LAYER], shown.reasons.marks[field])[0]
            told |= {f"reasons {name}": value for name, value in (found | looked).items()}
    read = model.read(model.embed(batch.rows.tokens), past)
    layers = read.layers
    answering, found = answer_loss(model, words, batch.task, batch.rows, read.last)
    loss, told = loss + answering, told | found
    if shown is not None and shown.reasons is not None:
        looking, found = reason_loss(model, read, batch.rows)
        loss, told = loss + looking, told | found
    if batch.task != "facts":
        telling, told["meant"] = telling_loss(model, layers, batch.rows)
        order, found = order_loss(model, layers, batch.rows)
        loss, told = loss + 0.3 * telling + 0.3 * order, told | found
    asked = {
        "score": [("truth", model.truth, "caption", TRUTH_LAYER), ("told", model.told, "reference", TRUTH_LAYER)],
        "hallucination": [
            ("same", model.told, "found", TRUTH_LAYER), ("there", model.there, "answer", FOUND_LAYER),
            ("last", model.last, "ended", FOUND_LAYER),
        ],
        "omission": [
            ("inserted", model.inserted, "listed", FOUND_LAYER), ("there", model.there, "answer", FOUND_LAYER),
            ("flag", model.inserted, "flag", FOUND_LAYER), ("last", model.last, "ended", FOUND_LAYER),
        ],
    }
    for name, head, field, layer in asked.get(batch.task, []):
        if len(batch.rows.marks[field]):
            knowing, told[name] = truth_loss(head, layers[layer], batch.rows.marks[field])
            loss = loss + (1.0 if layer == FOUND_LAYER else 0.5) * knowing
    return loss, batch.task, told


def optimisers(model: Pocket, part: str) -> list[tuple[torch.optim.Optimizer, float]]:
    """Muon for the matrices of layers, AdamW for all else, with their learning rates."""
    groups: dict[str, list] = {"decoder": [], "tower": [], "rest": [], "patch": []}
    seen = ("vision_model", "connector", "patches", "numbers")
    for name, parameter in model.named_parameters():
        of_tower = any(name.startswith(word) or f".{word}." in name for word in seen)
        early = name.startswith("whole.") and not any(f".layers.{layer}." in name for layer in LATE)
        fixed = {"tower": not of_tower, "decoder": of_tower, "whole": False, "counts": of_tower, "reasons": of_tower or early}[part]
        if fixed or part in ("whole", *LATER) and name.startswith("rows_of"):
            parameter.requires_grad_(False)
        elif "patch_embedding" in name:
            groups["patch"].append(parameter)
        elif parameter.ndim == 2 and (".layers." in name or "modality_projection" in name):
            groups["decoder" if "text_model" in name else "tower"].append(parameter)
        else:
            groups["rest"].append(parameter)
    # What the tower has learned is changed slowly.
    tower = 0.2 if part == "whole" else 1.0
    out = []
    for group, rate in (("decoder", 6e-3), ("tower", 3e-3 * tower), ("rest", 3e-3), ("patch", 4e-4 * tower)):
        if not groups[group]:
            continue
        if group in ("decoder", "tower"):
            optimiser = torch.optim.Muon(groups[group], lr=0, weight_decay=0.02, adjust_lr_fn="match_rms_adamw")
        else:
            optimiser = torch.optim.AdamW(groups[group], lr=0, betas=(0.9, 0.98), weight_decay=0.0)
        out.append((optimiser, rate))
    return out


def rate(stage: tuple[int, float, float], step: int) -> float:
    steps, first, last = stage
    return min(1.0, (step + 1) / 50) * (last + (first - last) * 0.5 * (1 + math.cos(math.pi * min(step / steps, 1))))


def average(model: Pocket, workers: int) -> None:
    """Gradients of all workers."""
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([grad.flatten() for grad in found])
    dist.all_reduce(flat)
    for grad, mean in zip(found, (flat / workers).split([grad.numel() for grad in found])):
        grad.copy_(mean.view_as(grad))


def start(options: argparse.Namespace, model: Pocket) -> None:
    """What a part begins with."""
    if options.part == "whole":
        for part in ("tower", "decoder"):
            kept = torch.load(options.out / f"{part}.pt", weights_only=False)
            stage, (steps, _, _) = list(PARTS[part].items())[-1]
            if (kept["stage"], kept["step"]) != (stage, steps):
                raise SystemExit(f"{part}.pt is at step {kept['step']} of {kept['stage']}: finish --part {part} first")
            state = kept["model"]
            model.load_state_dict({name: state[name] for name in model.state_dict() if name in state}, strict=False)
        model.join()
    if options.part in LATER:
        # Ids of another tokenizer would be other words.
        tokenizer = hashlib.sha256((HERE / "tokenizer.json").read_bytes()).hexdigest()
        if tokenizer not in options.begin.with_suffix(".toml").read_text():
            raise SystemExit(f"{HERE / 'tokenizer.json'} is not the one that {options.begin} was trained with")
        trained = type(model.whole).from_pretrained(options.begin, dtype=torch.float32)
        model.whole.load_state_dict(trained.state_dict())


def work(worker: int, options: argparse.Namespace, meeting: str) -> None:
    torch.set_num_threads(options.threads)
    # Memory that is given back to the system after each product has to be zeroed by it before the next: keep it.
    libc = ctypes.CDLL(None)
    for option, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 1 << 30)):
        libc.mallopt(option, value)
    if options.workers > 1:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=worker, world_size=options.workers)
    torch.manual_seed(1)
    words = Words()
    model = words.network()
    model.train()
    opts = optimisers(model, options.part)
    stages = PARTS[options.part]
    kept = options.out / f"{options.part}.pt"
    stage, step, spent = next(iter(stages)), 0, 0.0
    if kept.exists():
        state = torch.load(kept, weights_only=False)
        model.load_state_dict(state["model"], strict=False)
        for (opt, _), saved in zip(opts, state["opts"], strict=True):
            opt.load_state_dict(saved)
        stage, step, spent = state["stage"], state["step"], state["spent"]
    else:
        start(options, model)
    if worker == 0:
        print("at", stage, step, f"after {spent / 60:.0f} minutes", flush=True)
    everything = options.part in ("whole", *LATER)
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad or everything]
    shipped = [parameter for parameter in model.whole.parameters() if parameter.requires_grad]

    def save(stage: str, step: int) -> None:
        now = model.state_dict()
        state = {"model": {name: now[name] for name in names}, "opts": [opt.state_dict() for opt, _ in opts]}
        torch.save(state | {"stage": stage, "step": step, "spent": spent}, kept.with_suffix(".new"))
        kept.with_suffix(".new").replace(kept)

    started = saved = time.monotonic()
    log = (options.out / f"{options.part}.jsonl").open("a")
    order = list(stages)
    means: dict[str, float] = {}
    for stage in order[order.index(stage) :]:
        for parameter in shipped:
            parameter.requires_grad_(stage != "heads")
        for step in range(step, stages[stage][0]):
            begun = time.monotonic()
            line = {}
            # The samples of a step depend on nothing but its number and its worker.
            for batch in parts(words, stage, random.Random(f"{stage} {step} {worker}"), step):
                with torch.autocast("cpu", torch.bfloat16, enabled=not options.float32):
                    loss, task, told = losses(model, words, batch)
                loss.backward()
                line |= {f"{task}.{key}": value for key, value in told.items()}
            if options.workers > 1:
                average(model, options.workers)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for opt, full in opts:
                for group in opt.param_groups:
                    group["lr"] = full * rate(stages[stage], step)
                opt.step()
                opt.zero_grad()
            took = time.monotonic() - begun
            spent += took
            if worker > 0:
                continue
            for key, value in (line | {"seconds": took}).items():
                means[key] = means.get(key, value) * 0.9 + value * 0.1
            if step % 20 == 0:
                shown = {"stage": stage, "step": step} | {key: round(value, 4) for key, value in means.items()}
                log.write(json.dumps(shown) + "\n")
                log.flush()
                print(json.dumps(shown), flush=True)
            if time.monotonic() - saved > 120:
                save(stage, step + 1)
                saved = time.monotonic()
            if time.monotonic() - started > options.minutes * 60:
                save(stage, step + 1)
                return
        step = 0
    if worker == 0:
        save(stage, stages[stage][0])
        print("done")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--begin", type=Path, default=HERE, help="the checkpoint that `counts` and `reasons` begin with")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long, with one worker")
    parser.add_argument("--float32", action="store_true", help="no bfloat16 in matrix products")
    options = parser.parse_args()
    if options.workers > 1 and math.isfinite(options.minutes):
        parser.error("--minutes goes with one worker only")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.workers == 1:
        work(0, options, "")
    else:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(work, (options, f"{folder}/meeting"), options.workers)


if __name__ == "__main__":
    main()
