"""Batches of the pocket judge's training: samples as tokens, sharing what they can."""

from __future__ import annotations

import io
import math
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tokenizers import Encoding, Tokenizer

import sentences
import sights
import tasks
import tokens
from model import GRID, Pocket, config
from sentences import plain
from sights import MOMENTS, NUMBERS, ROWS
from tasks import FRAMES, SIDE, Sample
from world import COLOURS, SHAPES, Background, Clip, Fact, Scene, draw

HERE = Path(__file__).resolve().parent
HEAD, FOOT = f"{tokens.START}User: ", f"{tokens.END}\nAssistant:"
QUESTION = "What happens?"
LIST = "List the events."
# Where statements stand; those of an answer last.
FIELDS = [
    "caption", "reference", "events", "inserted_event", "listed", "answer", "found", "flag", "next", "ended", "before", "reason",
    *tasks.COUNTED,
]
# What the list of an answer is made of.
LISTED = {"hallucination": "caption", "omission": "events"}
# What frames end with is read together with the text behind them.
BEHIND = "\n\n"

# Tokens, which of them are to be learned (each from those before it), and which end statements: of a field, what they say,
# and whether it is right; of a reason, where the statement that it names ends.
Mark = tuple[str, int, Fact, int]
Row = tuple[list[int], list[bool], list[Mark]]


class Words:
    """The tokenizer, and what each task's prompts begin with."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer.from_file(str(HERE / "tokenizer.json"))
        self.id = self.tokenizer.token_to_id
        self.end, self.pad = self.id(tokens.END), self.id(tokens.PAD)
        self.templates = {task: tasks.template(task) for task in tasks.TASKS}
        self.prefixes = {task: self._prefix(task) for task in tasks.TASKS}
        # Which token of an answer is the score.
        self.score_at = len(self.encode('{"score": '))

    def network(self) -> Pocket:
        """A new network for this vocabulary."""
        special = (self.id(text) for text in (tasks.IMAGE, tokens.PAD, tokens.START, tokens.END))
        names = {word: [word] for word in COLOURS} | sentences.NAMES
        named = {word: [self.id(f"Ġ{name}") for name in set(all_)] for word, all_ in names.items()}
        return Pocket(config(self.tokenizer.get_vocab_size(), *special), named)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def _prefix(self, task: str) -> list[int]:
        text = self.templates[task]
        end = tasks.FRAMES_BEFORE if task == "score" else "{GROUND_TRUTH_EVENTS}"
        return self.encode(HEAD + text[: text.index(end)])

    def prefix(self, task: str, short: bool, rng: random.Random) -> list[int]:
        """What all prompts of a task begin with, or little of it: another part each time, so that none of it matters."""
        ids = self.prefixes[task]
        if not short:
            return ids
        first = rng.randrange(16, len(ids) - 24 - 40)
        return [*ids[:16], *ids[first : first + 40], *ids[-24:]]

    def frames(self, seconds: float) -> list[int]:
        times = [seconds * index / (FRAMES - 1) for index in range(FRAMES)]
        text = tasks.frames_text(seconds, times[:-1] + [seconds - 0.05], ROWS)
        return self.encode(text.removesuffix(BEHIND))

    def answered(self, ids: list[int], answer: list[int]) -> tuple[list[int], list[bool]]:
        """A prompt with its answer, of which all is to be learned."""
        after = [*answer, self.end]
        return ids + after, [False] * len(ids) + [True] * len(after)

    def statements(self, clip: Clip, rng: random.Random) -> Row:
        """Statements where a prompt has the caption, up to the end of the last one, and where each ends."""
        kind, text, ends = tasks.statements(clip, rng)
        ids = self.encode(f"{BEHIND}{tasks.FRAMES_BEFORE}\nCaption Type: {kind}  \nModel Output: ")
        encoding = self.tokenizer.encode(text)
        marks = [("caption", len(ids) + _token_at(encoding, at), fact, right) for at, fact, right in ends]
        ids = [*ids, *encoding.ids][: marks[-1][1] + 1]
        return ids, [False] * len(ids), marks

    def tail(self, sample: Sample) -> tuple[list[int], list[Mark]]:
        """What of a prompt is a sample's own, and which tokens end statements."""
        pieces = tasks.pieces(sample, self.templates[sample.task])
        pieces = pieces[2:] if sample.task == "score" else pieces[1:]
        ids, marks = [], []
        for index, (_, text, field) in enumerate(pieces):
            text = text + FOOT if index == len(pieces) - 1 else text
            text = BEHIND + text if index == 0 and sample.task == "score" else text
            encoding = self.tokenizer.encode(text)
            marks += [(field, len(ids) + _token_at(encoding, at), *what) for which, at, *what in sample.marks if which == field]
            ids += encoding.ids
        return ids, marks

    def row(self, sample: Sample) -> Row:
        ids, marks = self.tail(sample)
        encoding = self.tokenizer.encode(sample.answer)
        inside = [mark for mark in sample.marks if mark[0] in FIELDS[4:]]
        inside = [(field, len(ids) + _token_at(encoding, at), *what) for field, at, *what in inside]
        # What stands in front of each: statements, and the end of the prompt behind the last; in the answer, what has just ended.
        told = [mark for mark in marks if mark[0] == LISTED.get(sample.task)]
        places = [at for _, at, *_ in told[1:]] + [len(ids) - 1]
        before = [(at, fact) for at, (_, _, fact, _) in zip(places, told)]
        before += [(at, fact) for field, at, fact, _ in inside if field == "ended"]
        # A reason is read off the statement that it names.
        inside = [(*mark[:3], wrong_at(marks, mark[2])) if mark[0] == "reason" else mark for mark in inside]
        marks += inside + [("before", at, fact, True) for at, fact in before]
        return *self.answered(ids, encoding.ids), marks

    def reason(self, sample: Sample) -> Row:
        """A score with a reason that names a fact, of which only this fact is to be learned."""
        ids, learned, marks = self.row(sample)
        at = next(at for field, at, *_ in marks if field == "reason")
        return ids, [it and place > at for place, it in enumerate(learned)], marks


def wrong_at(marks: list[Mark], fact: Fact) -> int:
    """Where the statement of this fact ends that is wrong or, in a reference, left out."""
    return next(at for _, at, told, right in marks if told == fact and not right)


def _token_at(encoding: Encoding, end: int) -> int:
    """The token that has the character in front of this place."""
    return next(index for index, (_, stop) in enumerate(encoding.offsets) if stop >= end)


@dataclass
class Rows:
    """Rows of one length: tokens, what is to be learned at each place (-100 where nothing is), and (row, place, right, how many
    of the field stand in front, colour, form, kind, other) of the statements of each field."""

    tokens: torch.Tensor
    targets: torch.Tensor
    marks: dict[str, torch.Tensor]

    @staticmethod
    def of(rows: list[Row], pad: int) -> Rows:
        # Few lengths, since each new one costs the matrix library time.
        longest = -(-max(len(ids) for ids, _, _ in rows) // 16) * 16
        ids = torch.full((len(rows), longest), pad)
        targets = torch.full((len(rows), longest), -100)
        marks: dict[str, list] = {field: [] for field in FIELDS}
        for row, (each, learned, ends) in enumerate(rows):
            ids[row, : len(each)] = torch.tensor(each)
            wanted = torch.where(torch.tensor(learned), torch.tensor(each), -100)
            targets[row, : len(each) - 1] = wanted[1:]
            numbers = dict.fromkeys(FIELDS, 0)
            for field, at, fact, right in ends:
                marks[field].append((row, at, right, numbers[field], *sights.told(fact)))
                numbers[field] += 1
        return Rows(ids, targets, {field: torch.tensor(found, dtype=torch.long).reshape(-1, 8) for field, found in marks.items()})


@dataclass
class Pictures:
    """Frames as bytes, and what they show: (number, ROWS, NUMBERS), and per patch the shape that covers it and where it is."""

    looks: torch.Tensor
    numbers: torch.Tensor
    covers: torch.Tensor
    at: torch.Tensor


@dataclass
class Shown:
    """Clips: the tokens of their frames, what these show as numbers (or as pictures too), and what becomes of shapes."""

    tokens: torch.Tensor
    numbers: torch.Tensor
    # (clip * FRAMES * ROWS + frame * ROWS + cell, …), as `sights.became` has them.
    changes: torch.Tensor
    facts: torch.Tensor
    # Short captions of the clips, cut off where their last statement ends.
    statements: Rows
    # Captions to score of which only the fact that the reason names is to be learned.
    reasons: Rows | None = None
    pictures: Pictures | None = None


@dataclass
class Batch:
    """Samples of one task. Each clip of `shown` has as many of the rows as the others."""

    task: str
    prefix: list[int]
    rows: Rows
    shown: Shown | None = None


# --- texts ---


def text_batch(words: Words, task: str, count: int, short: bool, rng: random.Random, cut: float = 0.0) -> Batch:
    """Records of one of the counting tasks; as large a share of the answers as is `cut` has no review of the criteria."""
    samples = []
    for _ in range(3 * count):
        if task == "hallucination":
            samples.append(tasks.hallucination_sample(Scene.random(rng), rng))
        else:
            review = "" if rng.random() < cut else tasks.REVIEW
            samples.append(tasks.omission_sample(Scene.random(rng), rng, review))
    # Of three times as many, some that are about as long as each other: less of a batch is padding.
    rows = sorted((words.row(sample) for sample in samples), key=lambda row: len(row[0]))
    first = rng.randrange(2 * count + 1)
    return Batch(task, words.prefix(task, short, rng), Rows.of(rows[first : first + count], words.pad))


def _alike(fact: Fact, rng: random.Random) -> Fact:
    """A fact about the same shape, or about one that shares its colour or its form."""
    if rng.random() < 0.5:
        return tasks.some_fact(rng, fact.who)
    others = [shape for shape in SHAPES if (shape.form == fact.who.form) != (shape.colour == fact.who.colour)]
    return Fact(rng.choice(others), fact.kind, fact.other)


def list_batch(words: Words, count: int, rng: random.Random) -> Batch:
    """Captions, or ground-truth events, and their events one by one, and then what they say of shapes: where copying and
    looking up are learned."""
    rows = []
    for _ in range(count):
        facts = Scene.random(rng).facts if rng.random() < 0.5 else [tasks.some_fact(rng) for _ in range(rng.randint(1, 5))]
        facts = list({fact.who: fact for fact in facts}.values())
        if rng.random() < 0.6:
            text, ends = sentences.caption(facts, rng.choice(sentences.TYPES), rng)
        else:
            events = tasks.events(facts, rng)
            text, ends = tasks.events_text(events), [(at, fact) for _, at, fact, _ in tasks.event_marks(events, facts)]
        ids, encoding = words.encode(LIST + "\n"), words.tokenizer.encode(text)
        marks = [("caption", len(ids) + _token_at(encoding, at), fact, True) for at, fact in ends]
        ids = [*ids, *encoding.ids, *words.encode(FOOT)]
        listed = tasks.Answer("")
        listed.list_(facts)
        listed = words.encode(listed.text)
        learned = [False] * len(ids) + [True] * len(listed)
        ids += listed
        asked = [rng.choice([fact, _alike(fact, rng)]) for fact in rng.sample(facts, min(3, len(facts)))] + [tasks.some_fact(rng)]
        for fact in asked:
            same = tasks.of_same(fact, facts)
            question = words.encode(f"• This event — {plain(fact)}; truth:")
            label = "SUPPORTED" if fact in facts else "HALLUCINATED"
            answer = words.encode(f" {tasks.found(same, fact)} — was {label}\n")
            ids += question + answer
            learned += [False] * len(question) + [True] * len(answer)
        rows.append((ids, learned, marks))
    return Batch("list", words.encode(HEAD), Rows.of(rows, words.pad))


# --- pictures ---


def augmented(frames: np.ndarray, noise: np.random.Generator) -> np.ndarray:
    """As a camera and an encoder might have left them, at SIDE pixels. Frames of twice the size go through an encoder."""
    frames = frames.astype(np.float32)
    frames = frames * noise.uniform(0.95, 1.05, 3) + noise.uniform(-6, 6, 3)
    if frames.shape[1] == SIDE:
        frames += noise.standard_normal(frames.shape, np.float32) * noise.uniform(0, 4)
        return np.clip(frames, 0, 255).astype(np.uint8)
    out = []
    for frame in np.clip(frames, 0, 255).astype(np.uint8):
        file = io.BytesIO()
        Image.fromarray(frame).save(file, "JPEG", quality=int(noise.integers(35, 90)))
        out.append(np.asarray(Image.open(file).resize((SIDE, SIDE), Image.Resampling.LANCZOS)))
    return np.stack(out)


def _pictures(looks: list[np.ndarray], places: list[list[tuple[int, float, float, float]]]) -> Pictures:
    """`places` of each picture: which shape, where, how large."""
    middles = (np.arange(GRID) + 0.5) / GRID
    middles = np.stack(np.meshgrid(middles, middles), -1).reshape(-1, 1, 2)
    covers = np.full((len(places), GRID**2), len(SHAPES))
    at = np.zeros((len(places), GRID**2, 3), np.float32)
    for index, there in enumerate(places):
        if there:
            found = np.array(there, np.float32)
            outside = np.hypot(*(middles - found[:, 1:3]).transpose(2, 0, 1)) - found[:, 3]
            nearest = outside.argmin(1)
            covered = outside.min(1) < 0.03
            covers[index] = np.where(covered, found[nearest, 0], len(SHAPES))
            at[index] = found[nearest, 1:] * (1, 1, 4)
    numbers = np.stack([sights.shown(there) for there in places])
    return Pictures(*map(torch.from_numpy, (np.stack(looks), numbers, covers, at)))


def eyes_batch(count: int, rng: random.Random) -> Pictures:
    """Pictures with shapes anywhere."""
    noise = np.random.default_rng(rng.randrange(1 << 30))
    looks, places = [], []
    for _ in range(count):
        side = SIDE if rng.random() < 0.6 else 2 * SIDE
        picture = Background.random(rng).picture(side)
        there: list[tuple[int, float, float, float]] = []
        for which in rng.sample(range(len(SHAPES)), rng.randint(2, 5)):
            size = rng.choice([rng.uniform(0.04, 0.24), rng.uniform(0.09, 0.15)])
            x, y = rng.uniform(size, 1 - size), rng.uniform(size, 1 - size)
            if any(math.dist((x, y), other[1:3]) < 0.95 * (size + other[3]) for other in there):
                continue
            there.append((which, x, y, size))
            shape = SHAPES[which]
            draw(picture, shape.form, COLOURS[shape.colour], x, y, size, rng.uniform(-0.26, 0.26))
        looks.append(augmented(np.clip(picture + 0.5, 0, 255)[None], noise)[0])
        places.append(there)
    return _pictures(looks, places)


def clip_batch(
    words: Words, count: int, each: int, said: int, short: bool, pictures: bool, rng: random.Random, reasons: int = 0
) -> Batch:
    """Clips, each with `each` captions to score, `said` short captions of statements that are right or wrong, and `reasons`
    captions of which only the fact that the reason names is to be learned. Without captions to score, the question is what
    happens."""
    noise = np.random.default_rng(rng.randrange(1 << 30))
    clips = [Clip.random(rng) for _ in range(count)]
    rows = []
    for index, clip in enumerate(clips):
        # All scores are as likely, and none is always told of the same clip.
        for want in rng.sample(range(5), each):
            other = clips[(index + rng.randrange(1, count)) % count]
            rows.append(words.row(tasks.score_sample(clip, other, rng, want)))
        if not each:
            rows.append((*words.answered(words.encode(BEHIND + QUESTION + FOOT), words.encode(facts_text(clip))), []))
    named = [_named(clip, clips[index - 1], rng) for index, clip in enumerate(clips) for _ in range(reasons)]
    became = [sights.became(clip) for clip in clips]
    rows_before = lambda index, found: (index * FRAMES + found[:, :1]) * ROWS + found[:, 1:2]
    joined = [
        np.concatenate([np.concatenate([rows_before(index, pair[which]), pair[which][:, 2:]], 1) for index, pair in enumerate(became)])
        for which in (0, 1)
    ]
    shown = Shown(
        torch.tensor([words.frames(clip.seconds) for clip in clips]),
        torch.from_numpy(np.stack([sights.sighted(clip, noise) for clip in clips])).view(count, FRAMES * ROWS, NUMBERS),
        *map(torch.from_numpy, joined), Rows.of([words.statements(clip, rng) for clip in clips for _ in range(said)], words.pad),
        Rows.of([words.reason(sample) for sample in named], words.pad) if named else None,
    )
    if pictures:
        looks = [look for clip in clips for look in augmented(clip.frames(FRAMES, rng.choice([SIDE, 2 * SIDE])), noise)]
        shown.pictures = _pictures(looks, [sights.places(clip, moment) for clip in clips for moment in MOMENTS])
    return Batch("score" if each else "facts", words.prefix("score", short, rng), Rows.of(rows, words.pad), shown)


def _named(clip: Clip, other: Clip, rng: random.Random) -> Sample:
    """A caption that is partly wrong or leaves something out, so that the fact of the reason is one of several."""
    while True:
        sample = tasks.score_sample(clip, other, rng, rng.choice([1, 2, 2, 2]))
        if any(mark[0] == "reason" for mark in sample.marks):
            return sample


def facts_text(clip: Clip) -> str:
    facts = sorted(clip.facts, key=lambda fact: SHAPES.index(fact.who))
    return " ".join(f"{plain(fact)}." for fact in facts)
