"""The pocket judge's world: coloured shapes that do something, as clips and as facts.

A clip has 2 to 4 shapes on a plain or textured background. Each does one thing: it moves left, right, up or down,
grows, shrinks, turns another colour, appears, disappears, circles another shape, or bumps into another one and stops.
A shape is known by its colour at the beginning and its form, and no two shapes of a clip have both in common.

    clip = Clip.random(random.Random(7))
    clip.facts                      # what happens, one fact for each shape
    clip.frame(0.5, 64)             # its picture in the middle of the time, 64 x 64 x 3 bytes

Everything comes from the random number generator that is given: the same seed is the same clip.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

COLOURS = {
    "red": (222, 40, 42), "blue": (42, 84, 224), "green": (36, 158, 62), "yellow": (240, 214, 44),
    "purple": (142, 52, 184), "orange": (242, 132, 28),
}
FORMS = ["circle", "square", "triangle", "star"]
MOVES = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
ALONE = [*MOVES, "grows", "shrinks", "turns", "appears", "disappears"]
TOGETHER = ["circles", "bumps"]
KINDS = ALONE + TOGETHER
# Whoever is circled or bumped into stays where it is.
CALM = ["turns", "shrinks"]
# The background's level stays away from every colour's.
PLAIN = [(250, 250, 250), (225, 225, 225), (200, 204, 210), (28, 28, 30), (60, 62, 66), (12, 12, 16)]


@dataclass(frozen=True)
class Shape:
    """Who does something."""

    colour: str
    form: str

    def __str__(self) -> str:
        return f"{self.colour} {self.form}"


SHAPES = [Shape(colour, form) for colour in COLOURS for form in FORMS]


@dataclass(frozen=True)
class Fact:
    """What a shape does; `other` is the shape or the colour that it does it to."""

    who: Shape
    kind: str
    other: Shape | str | None = None


@dataclass
class Actor:
    """A shape in a clip: where it starts, and how it changes from the moment `start` to the moment `end` (0 to 1)."""

    shape: Shape
    kind: str
    size: float
    at: tuple[float, float]
    turned: float
    start: float
    end: float
    to: tuple[float, float] = (0.0, 0.0)
    scale: float = 1.0
    other: Shape | str | None = None
    # Of a shape that circles another: the centre, the distance, the first angle and how far it goes round.
    orbit: tuple[float, float, float, float, float] | None = None

    def progress(self, moment: float) -> float:
        return min(max((moment - self.start) / (self.end - self.start), 0.0), 1.0)

    def state(self, moment: float) -> tuple[float, float, float, str] | None:
        """Middle, size and colour at a moment; nothing while it is not there."""
        done = self.progress(moment)
        x, y, size, colour = *self.at, self.size, self.shape.colour
        if self.kind in MOVES or self.kind == "bumps":
            x, y = x + done * (self.to[0] - x), y + done * (self.to[1] - y)
        elif self.kind in ("grows", "shrinks"):
            size *= 1 + done * (self.scale - 1)
        elif self.kind == "circles":
            left, top, distance, angle, round_ = self.orbit
            angle += done * round_
            x, y = left + distance * math.cos(angle), top + distance * math.sin(angle)
        elif self.kind == "turns" and done >= 0.5:
            colour = self.other
        elif self.kind == "appears" and done < 0.5 or self.kind == "disappears" and done >= 0.5:
            return None
        return x, y, size, colour

    @property
    def fact(self) -> Fact:
        return Fact(self.shape, self.kind, self.other)


MARGIN = 0.015
MOMENTS = [step / 14 for step in range(15)]


@dataclass
class Clip:
    """Shapes, a background and a length in seconds."""

    actors: list[Actor]
    seconds: float
    background: Background

    @property
    def facts(self) -> list[Fact]:
        return [actor.fact for actor in self.actors]

    @staticmethod
    def random(rng: random.Random, count: int | None = None, kinds: list[str] | None = None) -> Clip:
        """A clip of `count` shapes (2 to 4 if not given) that only do what `kinds` allows."""
        count = count or rng.choice([2, 3, 3, 4, 4])
        together = [kind for kind in TOGETHER if kinds is None or kind in kinds]
        together = rng.choice(together) if together and rng.random() < 0.45 else None
        while True:
            clip = _try_clip(rng, count, kinds or KINDS, together)
            if clip is not None:
                return clip

    def frame(self, moment: float, side: int) -> np.ndarray:
        """The picture at a moment, as bytes."""
        picture = self.background.picture(side)
        for actor in self.actors:
            state = actor.state(moment)
            if state is not None:
                draw(picture, actor.shape.form, COLOURS[state[3]], *state[:3], actor.turned)
        return np.clip(picture + 0.5, 0, 255).astype(np.uint8)

    def frames(self, count: int, side: int) -> np.ndarray:
        """Pictures evenly from the first moment to the last."""
        return np.stack([self.frame(index / (count - 1), side) for index in range(count)])


def _cast(rng: random.Random, count: int, kinds: list[str], together: str | None) -> tuple[list[Shape], list[str]]:
    """Who is there, and what each does. If two do something together, the second does it to the first."""
    shapes = rng.sample(SHAPES, count)
    if rng.random() < 0.35:
        # Two of one colour or one form, so that neither alone tells who is who.
        first = shapes[0]
        alike = [shape for shape in SHAPES if shape != first and (shape.colour == first.colour or shape.form == first.form)]
        alike = [shape for shape in alike if shape not in shapes[2:]]
        shapes[1] = rng.choice(alike)
    does = [rng.choice([kind for kind in kinds if kind in ALONE] or CALM) for _ in shapes]
    if together:
        does[:2] = [rng.choice(CALM), together]
    return shapes, does


def _free_colours(shape: Shape, shapes: list[Shape], turned: list[tuple[Shape, str]]) -> list[str]:
    """What a shape can turn into: nobody turns into what another one was or will be."""
    taken = {other.colour for other in shapes if other.form == shape.form} | {shape.colour}
    taken |= {colour for other, colour in turned if other.form == shape.form}
    return [colour for colour in COLOURS if colour not in taken]


@dataclass
class Scene:
    """The facts of a clip that nobody has to see."""

    facts: list[Fact]

    @staticmethod
    def random(rng: random.Random) -> Scene:
        together = rng.choice(TOGETHER) if rng.random() < 0.45 else None
        shapes, does = _cast(rng, rng.choice([2, 3, 3, 4, 4]), KINDS, together)
        facts: list[Fact] = []
        for shape, kind in zip(shapes, does):
            other = shapes[0] if kind in TOGETHER else None
            if kind == "turns":
                free = _free_colours(shape, shapes, [(fact.who, fact.other) for fact in facts if fact.kind == kind])
                if not free:
                    return Scene.random(rng)
                other = rng.choice(free)
            facts.append(Fact(shape, kind, other))
        return Scene(rng.sample(facts, len(facts)))


def _try_clip(rng: random.Random, count: int, kinds: list[str], together: str | None) -> Clip | None:
    shapes, does = _cast(rng, count, kinds, together)
    actors: list[Actor] = []
    for shape, kind in zip(shapes, does):
        for _ in range(40):
            actor = _actor(rng, shape, kind, actors, shapes)
            if actor is not None and _clear(actor, actors):
                actors.append(actor)
                break
        else:
            return None
    rng.shuffle(actors)
    return Clip(actors, rng.choice([2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0]), Background.random(rng))


def _actor(rng: random.Random, shape: Shape, kind: str, there: list[Actor], shapes: list[Shape]) -> Actor | None:
    size = rng.uniform(0.1, 0.145)
    turned = rng.uniform(-0.26, 0.26)
    start, end = rng.uniform(0.0, 0.25), rng.uniform(0.75, 1.0)
    place = lambda room: (rng.uniform(room, 1 - room), rng.uniform(room, 1 - room))
    actor = Actor(shape, kind, size, place(size + 0.01), turned, start, end)
    if kind in MOVES:
        (right, down), far = MOVES[kind], rng.uniform(0.35, 0.7)
        drift = rng.uniform(-0.04, 0.04)
        x, y = actor.at
        actor.to = (x + right * far + abs(down) * drift, y + down * far + abs(right) * drift)
    elif kind == "grows":
        actor.size = rng.uniform(0.075, 0.1)
        actor.scale = rng.uniform(1.8, 2.4)
    elif kind == "shrinks":
        actor.size = rng.uniform(0.12, 0.19)
        actor.scale = rng.uniform(0.35, 0.55)
    elif kind == "turns":
        free = _free_colours(shape, shapes, [(other.shape, other.other) for other in there if other.kind == kind])
        if not free:
            return None
        actor.other = rng.choice(free)
    elif kind in TOGETHER:
        target = next(other for other in there if other.kind in CALM)
        actor.other = target.shape
        if kind == "circles":
            distance = target.size + size + rng.uniform(0.04, 0.1)
            round_ = rng.choice([-1, 1]) * rng.uniform(1.6, 2.4) * math.pi
            actor.orbit = (*target.at, distance, rng.uniform(0, 2 * math.pi), round_)
        else:
            angle = rng.uniform(0, 2 * math.pi)
            actor.end = rng.uniform(0.55, 0.75)
            size_then = target.state(actor.end)[2]
            near, far = size_then + size * 0.9, rng.uniform(0.45, 0.7)
            x, y = target.at
            actor.at = (x + far * math.cos(angle), y + far * math.sin(angle))
            actor.to = (x + near * math.cos(angle), y + near * math.sin(angle))
    for moment in MOMENTS:
        state = actor.state(moment)
        if state is not None and not all(state[2] <= way <= 1 - state[2] for way in state[:2]):
            return None
    return actor


def _clear(actor: Actor, there: list[Actor]) -> bool:
    """Whether a new shape is never in another one's way."""
    for other in there:
        touches = actor.kind == "bumps" and actor.other == other.shape
        for moment in MOMENTS:
            mine, its = actor.state(moment), other.state(moment)
            # Who comes or goes keeps its place free.
            mine, its = mine or (*actor.at, actor.size, ""), its or (*other.at, other.size, "")
            between = math.dist(mine[:2], its[:2])
            if between < mine[2] + its[2] + (-0.05 if touches else MARGIN):
                return False
    return True


# --- pictures ---


@dataclass
class Background:
    """A plain colour, and what lies over it."""

    colour: tuple[int, int, int]
    texture: str
    strength: float
    seed: int

    @staticmethod
    def random(rng: random.Random) -> Background:
        texture = rng.choice(["none", "none", "slope", "stripes", "spots"])
        return Background(rng.choice(PLAIN), texture, rng.uniform(6, 16), rng.randrange(1 << 30))

    def picture(self, side: int) -> np.ndarray:
        picture = np.empty((side, side, 3), np.float32)
        picture[:] = self.colour
        if self.texture == "none":
            return picture
        random_ = np.random.default_rng(self.seed)
        y, x = np.mgrid[0:side, 0:side].astype(np.float32) / side
        if self.texture == "slope":
            angle = random_.uniform(0, 2 * math.pi)
            over = (x * math.cos(angle) + y * math.sin(angle)) * 2
        elif self.texture == "stripes":
            angle, often = random_.uniform(0, math.pi), random_.uniform(12, 30)
            over = np.sin((x * math.cos(angle) + y * math.sin(angle)) * often)
        else:
            coarse = random_.uniform(-1, 1, (9, 9)).astype(np.float32)
            # Bilinear, so that the same seed looks the same at every size.
            fx, fy = x * 7.99, y * 7.99
            ix, iy = fx.astype(int), fy.astype(int)
            fx, fy = fx - ix, fy - iy
            above = coarse[iy, ix] * (1 - fx) + coarse[iy, ix + 1] * fx
            below = coarse[iy + 1, ix] * (1 - fx) + coarse[iy + 1, ix + 1] * fx
            over = above * (1 - fy) + below * fy
        return picture + self.strength * over[..., None]


def draw(picture: np.ndarray, form: str, colour: tuple, x: float, y: float, size: float, turned: float) -> None:
    """Draws a shape with smooth edges. Places and sizes are shares of the picture's side."""
    side = picture.shape[0]
    x, y, size = x * side, y * side, size * side
    left, right = max(int(x - size - 1), 0), min(int(x + size + 3), side)
    top, bottom = max(int(y - size - 1), 0), min(int(y + size + 3), side)
    if right <= left or bottom <= top:
        return
    over = np.arange(left, right, dtype=np.float32) + 0.5 - x
    down = np.arange(top, bottom, dtype=np.float32)[:, None] + 0.5 - y
    c, s = math.cos(turned), math.sin(turned)
    across, along = over * c + down * s, down * c - over * s
    if form == "circle":
        outside = np.hypot(across, along) - size * 0.94
    elif form == "square":
        outside = np.maximum(np.abs(across), np.abs(along)) - size * 0.82
    elif form == "triangle":
        half = size * 0.5
        slanted = np.abs(across) * 0.8660254 - along * 0.5
        outside = np.maximum(along, slanted) - half
    else:
        # The edge from a tip to the notch beside it, in the tenth of the star that holds the point.
        angle = np.arctan2(across, -along)
        fold = np.abs((angle + math.pi / 5) % (2 * math.pi / 5) - math.pi / 5)
        far = np.hypot(across, along)
        px, py = far * np.cos(fold), far * np.sin(fold)
        notch = size * 0.42
        nx, ny = notch * math.cos(math.pi / 5), notch * math.sin(math.pi / 5)
        ex, ey = nx - size, ny
        length = math.hypot(ex, ey)
        outside = ((px - size) * -ey + py * ex) / length * -1
    cover = np.clip(0.5 - outside, 0, 1)[..., None]
    part = picture[top:bottom, left:right]
    part += cover * (np.asarray(colour, np.float32) - part)
