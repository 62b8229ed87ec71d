"""What the frames of a clip show, in numbers: what a tower has to say, and what a decoder can learn from without one.

A frame is 4 x 4 cells, and a cell is a row of the prompt. Its numbers (`NUMBERS` of them) say which shape has its middle
there, where exactly, and how large it is. The tower learns to say them from pixels, the decoder learns its tasks from the
true ones at the same time, and one matrix joins the two: neither waits for the other.
"""

from __future__ import annotations

import numpy as np

from tasks import FRAMES
from world import COLOURS, FORMS, KINDS, SHAPES, Clip, Fact, Shape

CELLS = 4
ROWS = CELLS * CELLS
BUMPS = 8
# Which of the shapes; that there is none; across, down and size; across and down once more, as bumps along the side.
NUMBERS = len(SHAPES) + 1 + 3 + 2 * BUMPS
MOMENTS = [index / (FRAMES - 1) for index in range(FRAMES)]
# Near the border of two cells a shape is in both.
BORDER = 0.1
# What a shape does it to: nothing, a shape, or a colour.
OTHERS = [None, *SHAPES, *COLOURS]
CHANGES = 5
# The parts of a fact: colour and form of who does it, what, and to what; and how many there are of each.
TOLD = [len(COLOURS), len(FORMS), len(KINDS), len(OTHERS)]


def told(fact: Fact) -> tuple[int, int, int, int]:
    who = fact.who
    return list(COLOURS).index(who.colour), FORMS.index(who.form), KINDS.index(fact.kind), OTHERS.index(fact.other)


def numbers(there: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Of one frame, (ROWS, NUMBERS): shapes are at `there` (across, down, size) and `which` weighs what each could be."""
    out = np.zeros((ROWS, NUMBERS), np.float32)
    out[:, len(SHAPES)] = 1
    if len(there) == 0:
        return out
    # How much of a shape is in each column and each row of cells.
    at = there[:, None, :2] * CELLS - np.arange(CELLS)[:, None]
    inside = np.clip(np.minimum(at, 1 - at) / (2 * BORDER) + 0.5, 0, 1)
    # At the frame's own borders there is no other cell.
    inside[:, 0] = np.where(at[:, 0] < 0.5, 1, inside[:, 0])
    inside[:, -1] = np.where(at[:, -1] > 0.5, 1, inside[:, -1])
    weight = (inside[:, :, None, 1] * inside[:, None, :, 0]).reshape(len(there), ROWS)
    centres = (np.arange(BUMPS) + 0.5) / BUMPS
    bumps = np.exp(-(((there[:, :2, None] - centres) * BUMPS) ** 2) / 2).reshape(len(there), -1)
    rest = np.concatenate([2 * there[:, :2] - 1, 8 * there[:, 2:] - 1, bumps], 1)
    taken = weight.sum(0)
    out[:, : len(SHAPES)] = weight.T @ which
    out[:, len(SHAPES)] = 1 - np.minimum(taken, 1)
    out[:, len(SHAPES) + 1 :] = weight.T @ rest / np.maximum(taken, 1)[:, None]
    return out


def sighted(clip: Clip, noise: np.random.Generator) -> np.ndarray:
    """A clip's frames as a tower might tell them, (FRAMES, ROWS, NUMBERS): a little off, and sometimes wrong."""
    out = np.empty((FRAMES, ROWS, NUMBERS), np.float32)
    for index, moment in enumerate(MOMENTS):
        there, which = [], []
        for actor in clip.actors:
            state = actor.state(moment)
            if state is None or noise.random() < 0.005:
                continue
            shape = Shape(state[3], actor.shape.form)
            could = np.zeros(len(SHAPES), np.float32)
            could[SHAPES.index(shape)] = 1
            if noise.random() < 0.04:
                # Taken for another one, in part.
                alike = [other for other in SHAPES if (other.form == shape.form) != (other.colour == shape.colour)]
                part = noise.uniform(0, 0.8)
                could *= 1 - part
                could[SHAPES.index(alike[noise.integers(len(alike))])] += part
            there.append(state[:3])
            which.append(could)
        there = np.array(there, np.float32).reshape(-1, 3)
        there += noise.normal(0, 1, there.shape) * (0.008, 0.008, 0.005)
        out[index] = numbers(np.clip(there, 0.02, 0.98), np.array(which).reshape(-1, len(SHAPES)))
    return out + noise.normal(0, 0.04, out.shape).astype(np.float32)


def shown(places: list[tuple[int, float, float, float]]) -> np.ndarray:
    """The true numbers of one picture: (which shape, across, down, size) of each that is there."""
    there = np.array([place[1:] for place in places], np.float32).reshape(-1, 3)
    which = np.eye(len(SHAPES), dtype=np.float32)[[place[0] for place in places]].reshape(-1, len(SHAPES))
    return numbers(there, which)


def places(clip: Clip, moment: float) -> list[tuple[int, float, float, float]]:
    out = []
    for actor in clip.actors:
        state = actor.state(moment)
        if state is not None:
            out.append((SHAPES.index(Shape(state[3], actor.shape.form)), *state[:3]))
    return out


def became(clip: Clip) -> tuple[np.ndarray, np.ndarray]:
    """What became of the shapes, told where they are. Rows of (frame, cell, how far across and down since first seen, how
    much larger, whether it came later, whether it turned); and, for the last two frames, of (frame, cell, what it does: `told`)."""
    changes, facts = [], []
    for actor in clip.actors:
        first = None
        for index, moment in enumerate(MOMENTS):
            state = actor.state(moment)
            if state is None:
                continue
            first = first or (index, *state)
            begun, x, y, size, colour = first
            across, down = (min(int(way * CELLS), CELLS - 1) for way in state[:2])
            cell = down * CELLS + across
            changes.append((index, cell, state[0] - x, state[1] - y, 4 * (state[2] - size), begun > 0, state[3] != colour))
            if index >= FRAMES - 2:
                facts.append((index, cell, *told(actor.fact)))
    return np.array(changes, np.float32).reshape(-1, 2 + CHANGES), np.array(facts, np.int64).reshape(-1, 2 + len(TOLD))
