"""Batches of the pocket judge's training: samples as tokens, sharing what they can."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer

import sentences
import tasks
import tokens
from model import ROWS, Pocket, config
from sentences import plain
from tasks import FRAMES, SIDE, Sample
from world import COLOURS, SHAPES, Background, Clip, Shape, draw

HERE = Path(__file__).resolve().parent
HEAD, FOOT = f"{tokens.START}User: ", f"{tokens.END}\nAssistant:"
QUESTION = "What happens?"
LIST = "List the events."
# For each clip of a batch of scores.
STATEMENTS = 8
# What frames end with is read together with the text behind them.
BEHIND = "\n\n"


class Words:
    """The tokenizer, and what each task's prompts begin with."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer.from_file(str(HERE / "tokenizer.json"))
        self.id = self.tokenizer.token_to_id
        self.end = self.id(tokens.END)
        self.templates = {task: tasks.template(task) for task in tasks.TASKS}
        self.prefixes = {task: self._prefix(task) for task in tasks.TASKS} | dict.fromkeys(["facts", "list"], self.encode(HEAD))
        # Which token of an answer is the score.
        self.score_at = len(self.encode('{"score": '))

    def network(self) -> Pocket:
        """A new network for this vocabulary."""
        special = (self.id(text) for text in (tasks.IMAGE, tokens.PAD, tokens.START, tokens.END))
        return Pocket(config(self.tokenizer.get_vocab_size(), *special))

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def _prefix(self, task: str) -> list[int]:
        text = self.templates[task]
        end = tasks.FRAMES_BEFORE if task == "score" else "{GROUND_TRUTH_EVENTS}"
        return self.encode(HEAD + text[: text.index(end)])

    def prefix(self, task: str, short: bool) -> list[int]:
        """What all prompts of a task begin with, or little of it."""
        ids = self.prefixes[task]
        return ids if not short or len(ids) < 96 else [*ids[:64], *ids[-24:]]

    def frames(self, seconds: float) -> list[int]:
        times = [seconds * index / (FRAMES - 1) for index in range(FRAMES)]
        text = tasks.frames_text(seconds, times[:-1] + [seconds - 0.05], ROWS)
        return self.encode(text.removesuffix(BEHIND))

    def statements(self, clip: Clip, rng: random.Random) -> tuple[list[int], list[int], list[tuple[int, bool]]]:
        """Statements where a prompt has the caption, up to the end of the last one, and where each ends."""
        kind, text, ends = tasks.statements(clip, rng)
        first = self.encode(f"{BEHIND}{tasks.FRAMES_BEFORE}\nCaption Type: {kind}  \nModel Output: ")
        encoding = self.tokenizer.encode(text)
        marks = [(len(first) + _token_at(encoding, at), right) for at, right in ends]
        return [*first, *encoding.ids][: marks[-1][0] + 1], [], marks

    def tail(self, sample: Sample) -> tuple[list[int], list[int], list[tuple[int, bool]]]:
        """What of a prompt is a sample's own, the answer, and which tokens end statements."""
        pieces = tasks.pieces(sample, self.templates[sample.task])
        pieces = pieces[2:] if sample.task == "score" else pieces[1:]
        ids, marks = [], []
        for index, (kind, text, field) in enumerate(pieces):
            text = text + FOOT if index == len(pieces) - 1 else text
            text = BEHIND + text if index == 0 and sample.task == "score" else text
            encoding = self.tokenizer.encode(text)
            if field == "caption" and sample.marks:
                marks += [(len(ids) + _token_at(encoding, at), right) for _, at, right in sample.marks]
            ids += encoding.ids
        return ids, [*self.encode(sample.answer), self.end], marks


def _token_at(encoding: Encoding, end: int) -> int:
    """The token that has the character in front of this place."""
    return next(index for index, (_, stop) in enumerate(encoding.offsets) if stop >= end)


@dataclass
class Batch:
    """Samples of one task; `frames` and `looks` are of the clips, of which each has as many samples as the others."""

    task: str
    tokens: torch.Tensor
    # What is to be learned at each place; -100 where nothing is.
    targets: torch.Tensor
    marks: torch.Tensor
    frames: torch.Tensor | None = None
    looks: torch.Tensor | None = None
    places: torch.Tensor | None = None
    changes: torch.Tensor | None = None
    # Short captions of the clips, cut off where their last statement ends, and which statements are right.
    statements: torch.Tensor | None = None
    truths: torch.Tensor | None = None


def stack(rows: list[tuple[list[int], list[int], list[tuple[int, bool]]]], pad: int) -> tuple[torch.Tensor, ...]:
    longest = max(len(tail) + len(answer) for tail, answer, _ in rows)
    ids = torch.full((len(rows), longest), pad)
    targets = torch.full((len(rows), longest), -100)
    marks = [(row, at, right) for row, (_, _, marks) in enumerate(rows) for at, right in marks]
    for row, (tail, answer, _) in enumerate(rows):
        both = torch.tensor(tail + answer)
        ids[row, : len(both)] = both
        targets[row, len(tail) - 1 : len(both) - 1] = both[len(tail) :]
    return ids, targets, torch.tensor(marks or [], dtype=torch.long).reshape(-1, 3)


def augmented(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As a camera and an encoder might have left them."""
    frames = frames.astype(np.float32)
    frames = frames * rng.uniform(0.94, 1.06, 3) + rng.uniform(-8, 8, 3)
    if rng.random() < 0.5:
        frames += rng.normal(0, rng.uniform(1, 5), frames.shape)
    if rng.random() < 0.4:
        # Colours at half the resolution.
        level = frames.mean(-1, keepdims=True)
        colour = frames - level
        colour = (colour[:, 0::2, 0::2] + colour[:, 1::2, 0::2] + colour[:, 0::2, 1::2] + colour[:, 1::2, 1::2]) / 4
        frames = level + colour.repeat(2, 1).repeat(2, 2)
    return np.clip(frames, 0, 255).astype(np.uint8)


MOMENTS = [index / (FRAMES - 1) for index in range(FRAMES)]


def places(clip: Clip) -> np.ndarray:
    """Of each frame and each shape that there could be: whether it is there, where, and how large."""
    found = np.zeros((FRAMES, len(SHAPES), 4), np.float32)
    for index, moment in enumerate(MOMENTS):
        for actor in clip.actors:
            state = actor.state(moment)
            if state is not None:
                x, y, size, colour = state
                which = SHAPES.index(Shape(colour, actor.shape.form))
                found[index, which] = 1, x, y, size * 4
    return found


def changes(clip: Clip) -> np.ndarray:
    """Of the shapes of `places`: how far they went, how much they grew, whether they came later, and whether they turned."""
    found = np.zeros((FRAMES, len(SHAPES), 5), np.float32)
    for actor in clip.actors:
        first = None
        for index, moment in enumerate(MOMENTS):
            state = actor.state(moment)
            if state is None:
                continue
            first = first or (index, *state)
            begun, x, y, size, colour = first
            which = SHAPES.index(Shape(state[3], actor.shape.form))
            found[index, which] = state[0] - x, state[1] - y, 4 * (state[2] - size), begun > 0, state[3] != colour
    return found


def text_batch(words: Words, task: str, count: int, rng: random.Random) -> Batch:
    make = {"hallucination": tasks.hallucination_sample, "omission": tasks.omission_sample}[task]
    # Of three times as many, some that are about as long as each other: less of a batch is padding.
    rows = [words.tail(make(Clip.random(rng), rng)) for _ in range(3 * count)]
    rows.sort(key=lambda row: len(row[0]) + len(row[1]))
    first = rng.randrange(2 * count + 1)
    rows = rows[first : first + count]
    return Batch(task, *stack(rows, words.id(tokens.PAD)))


def list_batch(words: Words, count: int, rng: random.Random) -> Batch:
    """Captions, or ground-truth events, and their events one by one: where copying is learned."""
    rows = []
    for _ in range(count):
        facts = list(dict.fromkeys(tasks.some_fact(rng) for _ in range(rng.randint(1, 5))))
        if rng.random() < 0.6:
            text, _ = sentences.caption(facts, rng.choice(sentences.TYPES), rng)
        else:
            text = tasks.events_text(tasks.events(facts, rng))
        answer = tasks.listed(facts)
        rows.append(([*words.encode(LIST + "\n"), *words.encode(text), *words.encode(FOOT)], [*words.encode(answer), words.end], []))
    return Batch("list", *stack(rows, words.id(tokens.PAD)))


def eyes_batch(count: int, rng: random.Random) -> Batch:
    """Pictures with shapes anywhere, and what is where in them."""
    noise = np.random.default_rng(rng.randrange(1 << 30))
    looks = np.empty((count, 1, SIDE, SIDE, 3), np.uint8)
    found = np.zeros((count, 1, len(SHAPES), 4), np.float32)
    for index in range(count):
        picture = Background.random(rng).picture(SIDE)
        there: list[tuple[float, float, float]] = []
        for which in rng.sample(range(len(SHAPES)), rng.randint(2, 5)):
            size = rng.uniform(0.05, 0.2)
            x, y = rng.uniform(size, 1 - size), rng.uniform(size, 1 - size)
            if any(math.dist((x, y), other[:2]) < 0.95 * (size + other[2]) for other in there):
                continue
            there.append((x, y, size))
            found[index, 0, which] = 1, x, y, size * 4
            shape = SHAPES[which]
            draw(picture, shape.form, COLOURS[shape.colour], x, y, size, rng.uniform(-0.26, 0.26))
        looks[index] = augmented(np.clip(picture + 0.5, 0, 255)[None], noise)
    none = torch.zeros(0, 0, dtype=torch.long)
    batch = Batch("eyes", none, none, none)
    batch.looks, batch.places = torch.from_numpy(looks), torch.from_numpy(found)
    return batch


def facts_text(clip: Clip) -> str:
    facts = sorted(clip.facts, key=lambda fact: SHAPES.index(fact.who))
    return " ".join(f"{plain(fact)}." for fact in facts)


def clip_batch(words: Words, task: str, count: int, each: int, rng: random.Random) -> Batch:
    """Clips, each with several captions to score and statements that are right or wrong, or (`facts`) with the question what
    happens."""
    noise = np.random.default_rng(rng.randrange(1 << 30))
    clips = [Clip.random(rng) for _ in range(count)]
    rows = []
    for index, clip in enumerate(clips):
        if task == "facts":
            rows.append((words.encode(BEHIND + QUESTION + FOOT), [*words.encode(facts_text(clip)), words.end], []))
            continue
        # All scores are as likely, and none is always told of the same clip.
        wants = rng.sample(range(5), min(each, 5))
        for want in wants:
            other = clips[(index + rng.randrange(1, count)) % count] if count > 1 else Clip.random(rng)
            rows.append(words.tail(tasks.score_sample(clip, other, rng, want)))
    batch = Batch(task, *stack(rows, words.id(tokens.PAD)))
    if task == "score":
        said = [words.statements(clip, rng) for clip in clips for _ in range(STATEMENTS)]
        batch.statements, _, batch.truths = stack(said, words.id(tokens.PAD))
    batch.frames = torch.tensor([words.frames(clip.seconds) for clip in clips])
    batch.looks = torch.from_numpy(np.stack([augmented(clip.frames(FRAMES, SIDE), noise) for clip in clips]))
    batch.places = torch.from_numpy(np.stack([places(clip) for clip in clips]))
    batch.changes = torch.from_numpy(np.stack([changes(clip) for clip in clips]))
    return batch
