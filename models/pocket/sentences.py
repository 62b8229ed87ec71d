"""Facts of the pocket judge's world in words: many ways to say the same, in all five types of captions.

`plain(fact)` is the one way that the judge itself writes a fact. `said(fact, rng)` is one of the many ways of captions
and references: other verbs, other words for the shapes, three tenses. `caption(facts, kind, rng)` joins them.
"""

from __future__ import annotations

import random

from world import Fact, Shape

TYPES = ["brief", "detail", "poem", "narrative", "style"]

# A way to do something: as it is told, while it goes on, when it is over.
_GO = [
    ("moves", "moving", "moved"), ("glides", "gliding", "glided"), ("slides", "sliding", "slid"),
    ("drifts", "drifting", "drifted"), ("travels", "travelling", "travelled"), ("goes", "going", "went"),
    ("floats", "floating", "floated"), ("heads", "heading", "headed"),
]


def _going(*ends: str) -> list[tuple[str, str, str]]:
    return [tuple(f"{verb} {end}" for verb in go) for go in _GO for end in ends]


WAYS: dict[str, list[tuple[str, str, str]]] = {
    "left": _going("left", "to the left"),
    "right": _going("right", "to the right"),
    "up": [*_going("up", "upward"), ("rises", "rising", "rose"), ("climbs", "climbing", "climbed")] * 2
    + [("rises", "rising", "rose"), ("climbs", "climbing", "climbed")] * 6,
    "down": [*_going("down", "downward")] * 2
    + [("sinks", "sinking", "sank"), ("descends", "descending", "descended")] * 6,
    "grows": [
        ("grows", "growing", "grew"), ("expands", "expanding", "expanded"), ("swells", "swelling", "swelled"),
        ("gets bigger", "getting bigger", "got bigger"), ("becomes larger", "becoming larger", "became larger"),
    ],
    "shrinks": [
        ("shrinks", "shrinking", "shrank"), ("contracts", "contracting", "contracted"),
        ("gets smaller", "getting smaller", "got smaller"), ("becomes smaller", "becoming smaller", "became smaller"),
    ],
    "turns": [
        ("turns {}", "turning {}", "turned {}"), ("becomes {}", "becoming {}", "became {}"),
        ("changes to {}", "changing to {}", "changed to {}"),
        ("changes colour to {}", "changing colour to {}", "changed colour to {}"),
    ],
    "appears": [
        ("appears", "appearing", "appeared"), ("shows up", "showing up", "showed up"),
        ("comes into view", "coming into view", "came into view"), ("emerges", "emerging", "emerged"),
    ],
    "disappears": [
        ("disappears", "disappearing", "disappeared"), ("vanishes", "vanishing", "vanished"),
        ("fades away", "fading away", "faded away"), ("is gone", "fading out", "faded out"),
    ],
    "circles": [
        ("circles {}", "circling {}", "circled {}"), ("orbits {}", "orbiting {}", "orbited {}"),
        ("goes around {}", "going around {}", "went around {}"), ("loops around {}", "looping around {}", "looped around {}"),
    ],
    "bumps": [
        ("bumps into {}", "bumping into {}", "bumped into {}"), ("hits {}", "hitting {}", "hit {}"),
        ("bumps into {} and stops", "bumping into {} and stopping", "bumped into {} and stopped"),
        ("runs into {}", "running into {}", "ran into {}"), ("collides with {}", "colliding with {}", "collided with {}"),
        ("hits {} and stops", "hitting {} and stopping", "hit {} and stopped"),
    ],
}
NAMES = {"circle": ["circle", "circle", "disc"], "square": ["square", "square", "box"], "triangle": ["triangle"], "star": ["star"]}
_PLAIN = {"left": "moves left", "right": "moves right", "up": "moves up", "down": "moves down"}


def plain(fact: Fact) -> str:
    """A fact as the judge writes it."""
    does = _PLAIN.get(fact.kind) or WAYS[fact.kind][0][0]
    other = f"the {fact.other}" if isinstance(fact.other, Shape) else fact.other
    return f"the {fact.who} {does.format(other)}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _shape(shape: Shape, rng: random.Random, article: str) -> str:
    return f"{article} {shape.colour} {rng.choice(NAMES[shape.form])}"


def said(fact: Fact, rng: random.Random, tense: int | None = None, article: str | None = None, mood: str = "") -> str:
    """A fact in one of many ways, without a full stop."""
    tense = rng.choice([0, 0, 0, 1, 2]) if tense is None else tense
    article = article or rng.choice(["a", "the", "the"])
    way = rng.choice(WAYS[fact.kind])[tense]
    other = _shape(fact.other, rng, rng.choice(["a", "the", "the"])) if isinstance(fact.other, Shape) else fact.other
    who = _shape(fact.who, rng, article)
    if mood:
        first, rest = who.split(" ", 1)
        who = f"{first} {mood} {rest}"
    text = f"{who} {'is ' if tense == 1 else ''}{way.format(other)}"
    return text.replace("a orange", "an orange").replace("the an ", "the ")


# What says nothing that could be wrong. Lengths differ, so that captions can be made as long as they have to be.
_OPEN = ["In this clip,", "In the video,", "Here,", "On the screen,", "In this short scene,", "As the clip plays,"]
_EMPTY = [
    "The scene is simple.", "Nothing else can be seen.", "It is a short clip.", "The picture stays calm.", "That is all.",
    "The view never changes.", "It all happens at once.", "The clip ends soon after that.",
    "There is no sound and no text.", "The whole scene takes only a few seconds.",
    "It is easy to follow what is going on in it.",
]
_JOIN = [", and ", " while ", " as ", ", while ", "; "]
_RHYMES = ["so light", "so bright", "in sight", "at night", "so free", "for me", "to see", "today", "all the way"]
_START = ["Once upon a time,", "One day,", "Long ago,", "It was a quiet day when"]
_NEXT = ["Then", "Meanwhile,", "At the same time,", "Soon", "Nearby,"]
_END = ["The end.", "And so the day went by.", "Nobody ever knew why.", "They were happy ever after."]
_MOODS = [
    ["cheeky", "silly", "funny", "goofy"], ["lovely", "dreamy", "gentle", "tender"], ["brave", "mighty", "proud", "bold"],
    ["solemn", "quiet", "earnest", "calm"],
]
_CRIES = [["Ha!", "Oops!", "What a laugh!"], ["Oh, how sweet.", "Ah, love."], ["Behold!", "Hail!"], ["So it was.", "Take note."]]


def caption(facts: list[Fact], kind: str, rng: random.Random) -> tuple[str, list[tuple[int, Fact]]]:
    """A caption of a type, and where in it each fact ends (in characters)."""
    text, ends = "", []

    def tell(fact: Fact, before: str, after: str, large: bool, **how: object) -> None:
        nonlocal text
        words = said(fact, rng, **how)
        text += before + (capital(words) if large else words)
        ends.append((len(text), fact))
        text += after

    tense = rng.choice([0, 0, 1, 2])
    if kind in ("brief", "detail"):
        opening = rng.random() < (0.2 if kind == "brief" else 0.5)
        if opening:
            text = rng.choice(_OPEN)
        index = 0
        while index < len(facts):
            large = not (opening and index == 0)
            tell(facts[index], " " if text else "", "", large, tense=tense)
            index += 1
            if index < len(facts) and rng.random() < 0.55:
                tell(facts[index], rng.choice(_JOIN), "", False, tense=tense)
                index += 1
            text += "."
        if kind == "detail" and rng.random() < 0.6:
            text += " " + rng.choice(_EMPTY)
    elif kind == "poem":
        for index, fact in enumerate(facts):
            tell(fact, "\n" if index else "", f" {rng.choice(_RHYMES)},", True, tense=rng.choice([0, 0, 2]))
        text = text[:-1] + "."
    elif kind == "narrative":
        for index, fact in enumerate(facts):
            tell(fact, f"{rng.choice(_START)} " if index == 0 else f" {rng.choice(_NEXT)} ", ".", False, tense=2)
        text += " " + rng.choice(_END)
    else:
        mood = rng.randrange(len(_MOODS))
        for index, fact in enumerate(facts):
            tell(fact, " " if index else "", "!" if mood in (0, 2) else ".", True, tense=tense, mood=rng.choice(_MOODS[mood]))
        text += " " + rng.choice(_CRIES[mood])
    return text, ends


def words(text: str) -> int:
    return len(text.split())


def caption_of_length(
    facts: list[Fact], kind: str, rng: random.Random, low: float, high: float
) -> tuple[str, list[tuple[int, Fact]]] | None:
    """A caption with a number of words between two bounds: told in other ways, and with sentences that say nothing."""
    for _ in range(8):
        text, ends = caption(facts, kind, rng)
        empty = [sentence for sentence in _EMPTY if sentence not in text]
        rng.shuffle(empty)
        while words(text) < low and empty:
            fitting = [sentence for sentence in empty if words(text) + words(sentence) <= high]
            if not fitting:
                break
            empty.remove(fitting[0])
            text += " " + fitting[0]
        if low <= words(text) <= high:
            return text, ends
    return None
