"""The three judge tasks in the pocket judge's world: records, and the answers that are right.

A record has the fields of a capjudge data set; `pieces` renders it with the prompts of this repository as capjudge does:
instructions and data apart, the frames right before the part of the prompt that belongs to the record.

What is right follows from the facts alone:

score           Statements are compared with the clip, never with the reference. All of them wrong: 0; more than half: 1;
                some: 2. None wrong: 2 if the reference tells something that is left out, 4 if the caption tells more than
                the reference, else 3. Brief and detailed captions that are not as long as the reference: at most 1.
hallucination   An event of the caption is supported if the ground truth has it: the same shape does the same.
omission        An event of the ground truth is omitted if the caption says nothing that its shape does. Something wrong
                that it says of that shape is a hallucination, not an omission, as the prompt has it.

Colour and form are who a shape is, so a wrong colour is another participant and not a wrong attribute.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import sentences
from sentences import TYPES, capital, plain, words
from world import COLOURS, KINDS, MOVES, SHAPES, Clip, Fact, Scene, Shape

PROMPTS = Path(__file__).resolve().parents[2] / "prompts"
FRAMES = 8
SIDE = 96
TASKS = ["hallucination", "omission", "score"]
# The fields in which statements are told whole: of a record, and of an answer.
STATED = ["caption", "reference", "events", "inserted_event", "listed", "found"]


@dataclass
class Sample:
    """A record, what it is judged with, and the right answer."""

    task: str
    fields: dict
    answer: str
    # For learning only: where statements of a field (or of the answer) end (in characters), what they say, and whether they
    # are right, or, in a reference, told by the caption; or how many were counted.
    marks: list[tuple[str, int, Fact, int]] = field(default_factory=list)
    score: int | None = None
    counts: tuple[int, ...] = ()


# --- facts that are not so ---


def foreign(clip: Clip | Scene, rng: random.Random) -> Fact:
    """A fact about a shape that is not there."""
    there = {fact.who for fact in clip.facts}
    who = rng.choice([shape for shape in SHAPES if shape not in there])
    return _some_fact(who, clip.facts, rng)


def _some_fact(who: Shape, facts: list[Fact], rng: random.Random, but: tuple[str, ...] = ()) -> Fact:
    kind = rng.choice([kind for kind in KINDS if kind not in but])
    if kind == "turns":
        return Fact(who, kind, rng.choice([colour for colour in COLOURS if colour != who.colour]))
    if kind in ("circles", "bumps"):
        others = [fact.who for fact in facts if fact.who != who] or [shape for shape in SHAPES if shape != who]
        return Fact(who, kind, rng.choice(others))
    return Fact(who, kind)


def some_fact(rng: random.Random, who: Shape | None = None) -> Fact:
    """Any fact, of a shape if one is given."""
    return _some_fact(who or rng.choice(SHAPES), [], rng)


def wrong(fact: Fact, clip: Clip | Scene, rng: random.Random) -> Fact:
    """A fact like this one that does not hold in the clip."""
    there = {other.who for other in clip.facts}
    way = rng.choice(["action", "action", "opposite", "colour", "form", "foreign"])
    if way == "opposite":
        turned = {"left": "right", "right": "left", "up": "down", "down": "up", "grows": "shrinks", "shrinks": "grows",
                  "appears": "disappears", "disappears": "appears"}
        if fact.kind in turned:
            return Fact(fact.who, turned[fact.kind])
        if fact.kind == "turns":
            colours = [colour for colour in COLOURS if colour not in (fact.who.colour, fact.other)]
            return Fact(fact.who, "turns", rng.choice(colours))
        way = "action"
    if way == "action":
        # Who bumps into something or circles it also moves, so that a movement would not be wrong.
        but = (fact.kind, *MOVES, "bumps", "circles") if fact.kind in ("bumps", "circles") else (fact.kind,)
        return _some_fact(fact.who, clip.facts, rng, but)
    if way == "colour":
        taken = {shape.colour for shape in there if shape.form == fact.who.form}
        taken |= {other.other for other in clip.facts if other.kind == "turns" and other.who.form == fact.who.form}
        colours = [colour for colour in COLOURS if colour not in taken and colour != fact.other]
        if colours:
            return Fact(Shape(rng.choice(colours), fact.who.form), fact.kind, fact.other)
    if way == "form":
        forms = [shape for shape in SHAPES if shape.colour == fact.who.colour and shape not in there]
        if forms:
            return Fact(rng.choice(forms), fact.kind, fact.other)
    return foreign(clip, rng)


def shuffled(facts: list[Fact], rng: random.Random) -> list[Fact]:
    return rng.sample(facts, len(facts))


# --- score ---


def right_score(told: list[Fact], reference: list[Fact], clip: Clip, kept: bool) -> tuple[int, str, Fact | None]:
    """The score, the reason for it, and the fact that the reason ends with."""
    facts = clip.facts
    mistakes = [fact for fact in told if fact not in facts]
    missing = [fact for fact in reference if fact not in told]
    named = None
    if mistakes:
        share = len(mistakes) / len(told)
        score = 0 if share == 1 else 1 if share > 0.5 else 2
        reason, named = "It is not shown that", mistakes[0]
    elif missing:
        score, reason, named = 2, "It is left out that", missing[0]
    elif len(told) > len(reference):
        score, reason = 4, "All is right, and it tells more than the reference."
    else:
        score, reason = 3, "All is right and nothing is left out."
    if not kept and score > 1:
        score, reason, named = 1, "The length is not that of the reference.", None
    return score, reason, named


def reason_text(reason: str, named: Fact | None) -> str:
    return f"{reason} {plain(named)}." if named else reason


def score_sample(clip: Clip, other: Clip, rng: random.Random, want: int | None = None) -> Sample:
    """A caption for a clip whose right score is the wanted one. `other` is a clip that somebody might take it for."""
    want = rng.randrange(5) if want is None else want
    kind = rng.choice(TYPES)
    while True:
        sample = _try_score(clip, other, rng, want, kind)
        if sample is not None and sample.score == want:
            return sample
        if sample is None or rng.random() < 0.2:
            # Some wishes cannot be had of some clips.
            kind = rng.choice(TYPES)
        if rng.random() < 0.05:
            want = rng.randrange(5)


def _try_score(clip: Clip, other: Clip, rng: random.Random, want: int, kind: str) -> Sample | None:
    facts = shuffled(clip.facts, rng)
    reference, told, kept = facts, facts, True
    if want == 0:
        way = rng.random()
        if way < 0.4:
            # A caption of another clip, with a reference of either.
            told = shuffled(other.facts, rng)
            reference = facts if rng.random() < 0.5 else shuffled(other.facts, rng)
        else:
            told = [wrong(fact, clip, rng) for fact in facts[: rng.randint(1, len(facts))]]
            reference = told if way < 0.6 else facts
    elif want == 1:
        if kind in ("brief", "detail") and rng.random() < 0.4 or len(facts) < 3:
            kept = False
            if rng.random() < 0.3:
                told = [*facts[:-1], wrong(facts[-1], clip, rng)]
        else:
            bad = len(facts) - 1
            told = [wrong(fact, clip, rng) for fact in facts[:bad]] + facts[bad:]
            reference = shuffled(told, rng) if rng.random() < 0.3 else facts
    elif want == 2:
        if rng.random() < 0.55:
            bad = rng.randint(1, len(facts) // 2)
            told = [wrong(fact, clip, rng) for fact in facts[:bad]] + facts[bad:]
            reference = shuffled(told, rng) if rng.random() < 0.3 else facts
        else:
            told = facts[: rng.randint(1, len(facts) - 1)]
    elif want == 3:
        if len(facts) > 2 and rng.random() < 0.3:
            told = reference = facts[:-1]
    else:
        reference = facts[: rng.randint(max(1, len(facts) - 2), len(facts) - 1)]
    told, reference = shuffled(told, rng), shuffled(reference, rng)
    if len(set(told)) < len(told):
        return None
    reference_text, reference_ends = sentences.caption(reference, kind, rng)
    length = words(reference_text)
    if kind in ("brief", "detail"):
        if kept:
            bounds = (0.9 * length, 1.1 * length)
        elif rng.random() < 0.6:
            bounds = (1.45 * length, 3.0 * length)
        else:
            # Long references are made by telling the same in more words.
            longer = sentences.caption_of_length(reference, kind, rng, 1.6 * length, 2.6 * length)
            if longer is None:
                return None
            reference_text, reference_ends = longer
            bounds = (0.2 * words(reference_text), 0.68 * words(reference_text))
        made = sentences.caption_of_length(told, kind, rng, *bounds)
        if made is None:
            return None
    else:
        if not kept:
            return None
        made = sentences.caption(told, kind, rng)
    text, ends = made
    score, reason, named = right_score(told, reference, clip, kept)
    sample = Sample("score", {"caption_type": kind, "caption": text, "reference": reference_text}, "", score=score)
    sample.answer = f'{{"score": {score}, "reason": "{reason_text(reason, named)}"}}'
    sample.marks = [("caption", end, fact, fact in clip.facts) for end, fact in ends]
    sample.marks += [("reference", end, fact, fact in told) for end, fact in reference_ends]
    if named:
        sample.marks.append(("reason", sample.answer.index(reason) + len(reason), named, True))
    return sample


def statements(clip: Clip, rng: random.Random) -> tuple[str, str, list[tuple[int, Fact, bool]]]:
    """Statements about a clip as a caption of some type: the type, the text, and of each where it ends and whether it is right."""
    told = [rng.choice(clip.facts) for _ in range(4)]
    told = list(dict.fromkeys(wrong(fact, clip, rng) if rng.random() < 0.55 else fact for fact in told))
    kind = rng.choice(TYPES)
    text, ends = sentences.caption(told, kind, rng)
    return kind, text, [(end, fact, fact in clip.facts) for end, fact in ends]


# --- counts ---


def events(facts: list[Fact], rng: random.Random) -> list[dict]:
    """Ground-truth events of a record."""
    return [{"caption": capital(sentences.said(fact, rng, tense=rng.choice([0, 0, 0, 1])))} for fact in facts]


def of_same(fact: Fact, facts: list[Fact]) -> list[Fact]:
    """What a text says of a fact's shape. An event is omitted if a caption says nothing of it."""
    return [other for other in facts if other.who == fact.who]


def hallucination_sample(clip: Clip | Scene, rng: random.Random) -> Sample:
    truth = shuffled(clip.facts, rng)
    told = []
    chance = rng.choice([0.0, 0.25, 0.5, 0.8])
    for fact in truth:
        if rng.random() < 0.15 and len(told) + 1 < len(truth):
            continue
        told.append(wrong(fact, clip, rng) if rng.random() < chance else fact)
    if len(truth) > 1 and rng.random() < 0.1:
        # Two shapes that do what the other one does.
        a, b = rng.sample(truth, 2)
        mixed = a.kind == b.kind or a.other in (b.who, b.who.colour) or b.other in (a.who, a.who.colour)
        if not mixed:
            told = [fact for fact in told if fact.who not in (a.who, b.who)]
            told += [Fact(a.who, b.kind, b.other), Fact(b.who, a.kind, a.other)]
    if len(told) < 5 and rng.random() < 0.25:
        told.append(foreign(clip, rng))
    told = list(dict.fromkeys(shuffled(told, rng))) or [truth[0]]
    text, ends = sentences.caption(told, rng.choice(TYPES), rng)
    answer = Answer("EXTRACTED_EVENTS:\n")
    answer.list_(told)
    answer.text += "\nCRITERIA_REVIEW:\n- Apply the hallucination criteria defined in STEP 2 above.\n\nEVENT-BY-EVENT REASONING:\n"
    count = 0
    for number, fact in enumerate(told, 1):
        same = of_same(fact, truth)
        if fact in truth:
            label, because = "SUPPORTED", "the ground truth says so"
        else:
            label, count = "HALLUCINATED", count + 1
            because = "the ground truth says otherwise" if same else "the ground truth has no such shape"
        answer.event(number, fact, "truth", same)
        answer.text += f"{label} because {because} ("
        answer.count(fact, count - (label == "HALLUCINATED"), count)
        answer.text += " so far).\n"
        answer.end(fact, number == len(told), count)
    answer.text += "\nFINAL METRICS:\n- HALLUCINATION_COUNT: "
    answer.count(told[-1], count, count)
    sample = Sample("hallucination", {"events": events(truth, rng), "caption": text}, answer.text, answer.marks, counts=(count,))
    sample.marks += [("caption", end, fact, fact in truth) for end, fact in ends] + event_marks(sample.fields["events"], truth)
    return sample


COUNTED = ("counted", "counted_inserted")


@dataclass
class Answer:
    """An answer that grows, and where statements end in it: of what is `listed`, whether it was inserted; of what the `answer`
    goes through, whether the other text has its shape; of what is `found` there, whether it is the same; where the `next`
    one will begin; where the line of one has `ended`, whether it was the last; and how many were `counted`, and of those that
    were inserted (`counted_inserted`), where the next number will be written and where a line ends."""

    text: str
    marks: list[tuple[str, int, Fact, int]] = field(default_factory=list)

    def list_(self, facts: list[Fact], inserted: int | None = None) -> None:
        for index, fact in enumerate(facts):
            self.text += f"{index + 1}."
            self.marks.append(("next", len(self.text), fact, True))
            self.text += f" {capital(plain(fact))}"
            self.marks.append(("listed", len(self.text), fact, index == inserted))
            self.text += " (inserted)\n" if index == inserted else "\n"
            self.end(fact, index == len(facts) - 1)

    def event(self, number: int, fact: Fact, where: str, same: list[Fact], inserted: bool = False) -> None:
        """An event, and what the other text says of its shape: that is written before the label, so that it can be compared."""
        self.text += f"• Event #{number} – This event —"
        self.marks.append(("next", len(self.text), fact, True))
        self.text += f" {plain(fact)}{' (inserted)' if inserted else ''}; {where}: "
        self.marks.append(("answer", len(self.text) + len(f"the {fact.who}"), fact, bool(same)))
        self.text += found(same, fact)
        self.marks += [("found", len(self.text), other, other == fact) for other in same[:1]]
        self.text += " — was "

    def end(self, fact: Fact, last: bool, *counts: int) -> None:
        self.marks.append(("ended", len(self.text), fact, last))
        self.marks += [(name, len(self.text), fact, count) for name, count in zip(COUNTED, counts)]

    def count(self, fact: Fact, before: int, now: int, which: int = 0) -> None:
        """Writes a count behind one that was another before."""
        self.marks.append((COUNTED[which], len(self.text), fact, before))
        self.text += str(now)


def found(same: list[Fact], fact: Fact) -> str:
    """What another text says of a fact's shape."""
    return plain(same[0]) if same else f"the {fact.who} is not there"


REVIEW = (
    "- An event is counted as OMITTED only if its **core meaning** (main action + agent + key object) is not recoverable "
    "via explicit, paraphrased, implied, or visually synonymous cues in the caption.\n- For events whose **core meaning "
    "contains multiple actions**, the event is **INFERRED** if **any one** of those actions is properly described."
)


def omission_sample(clip: Clip | Scene, rng: random.Random, review: str = REVIEW) -> Sample:
    truth = shuffled(clip.facts, rng)
    inserted = None
    if rng.random() < 0.85:
        inserted = rng.randrange(len(truth) + 1)
        truth.insert(inserted, foreign(clip, rng))
    told = []
    chance = rng.choice([0.0, 0.3, 0.6])
    for fact in truth:
        if rng.random() < chance:
            continue
        # Wrong, but told: that is no omission.
        told.append(_some_fact(fact.who, truth, rng, (fact.kind,)) if rng.random() < 0.12 else fact)
    if rng.random() < 0.15:
        there = {fact.who for fact in truth}
        stranger = foreign(clip, rng)
        if stranger.who not in there:
            told.append(stranger)
    told = shuffled(told, rng) or [truth[rng.randrange(len(truth))]]
    text, ends = sentences.caption(told, rng.choice(TYPES), rng)
    answer = Answer("GROUND_TRUTH_EVENTS:\n")
    answer.list_(truth, inserted)
    answer.text += f"\nCRITERIA_REVIEW:\n{review}\n\nEVENT-BY-EVENT REASONING:\n"
    total, of_inserted = 0, 0
    for number, fact in enumerate(truth, 1):
        same = of_same(fact, told)
        if same:
            label, because = "INFERRED", "the caption tells of it"
        else:
            label, because, total = "OMITTED", "the caption does not mention it", total + 1
        flag = number - 1 == inserted
        counted = flag and not same
        of_inserted += counted
        answer.event(number, fact, "caption", same, flag)
        answer.text += f"{label} because {because} ("
        answer.count(fact, total - (not same), total)
        answer.text += " so far, "
        answer.count(fact, of_inserted - counted, of_inserted, 1)
        answer.text += " inserted). This event was"
        answer.marks.append(("flag", len(answer.text), fact, flag))
        answer.text += " an inserted one.\n" if flag else " not an inserted one.\n"
        answer.end(fact, number == len(truth), total, of_inserted)
    answer.text += "\nFINAL METRICS:\n- TOTAL_OMISSION_COUNT: "
    answer.count(truth[-1], total, total)
    answer.text += "\n- INSERTED_OMISSION_COUNT: "
    answer.count(truth[-1], of_inserted, of_inserted, 1)
    fields = {"events": events(truth, rng), "caption": text}
    if inserted is not None:
        fields["inserted_index"] = inserted
    sample = Sample("omission", fields, answer.text, answer.marks, counts=(total, of_inserted))
    sample.marks += [("caption", end, fact, fact in truth) for end, fact in ends] + event_marks(fields["events"], truth)
    if inserted is not None:
        sample.marks.append(("inserted_event", len(values(sample)["INSERTED_EVENT"][1]), truth[inserted], True))
    return sample


# --- prompts, as capjudge renders them ---

PLACEHOLDERS = {
    "hallucination": ["GROUND_TRUTH_EVENTS", "INFERENCE_CAPTION"],
    "omission": ["GROUND_TRUTH_EVENTS", "INSERT_POSITION", "INSERTED_EVENT", "INFERENCE_CAPTION"],
    "score": ["caption_type", "output", "reference"],
}
NO_EVENT = "No event was inserted into this video: INSERTED_OMISSION_COUNT is 0."
FRAMES_BEFORE = "### **Input:**"


def events_text(truth: list[dict]) -> str:
    lines = [f"Ground Truth Event #{number}:\nGround Truth Caption: {event['caption']}" for number, event in enumerate(truth, 1)]
    return "\n\n".join(lines)


def event_marks(truth: list[dict], facts: list[Fact]) -> list[tuple[str, int, Fact, bool]]:
    """Where the events end in `events_text`."""
    return [("events", len(events_text(truth[: number + 1])), fact, True) for number, fact in enumerate(facts)]


def values(sample: Sample) -> dict[str, tuple[str, str]]:
    """What stands for each placeholder: the record's field, and its text. What comes from no field is trusted."""
    fields = sample.fields
    if sample.task == "score":
        return {
            "caption_type": ("", fields["caption_type"]), "output": ("caption", fields["caption"]),
            "reference": ("reference", fields["reference"]),
        }
    found = {
        "GROUND_TRUTH_EVENTS": ("events", events_text(fields["events"])), "INFERENCE_CAPTION": ("caption", fields["caption"])
    }
    if sample.task == "omission":
        at = fields.get("inserted_index")
        found["INSERT_POSITION"] = ("", "none") if at is None else ("inserted_index", str(at + 1))
        text = NO_EVENT if at is None else f"Ground Truth Caption: {fields['events'][at]['caption']}"
        found["INSERTED_EVENT"] = ("" if at is None else "inserted_event", text)
    return found


def pieces(sample: Sample, template: str) -> list[tuple[str, str, str]]:
    """The user's message in order: `trusted`, `untrusted` or `frames`, the text, and the field that it is."""
    found, out, rest = values(sample), [], template
    names = PLACEHOLDERS[sample.task]

    def add(text: str, field: str = "") -> None:
        kind = "untrusted" if field else "trusted"
        # Trusted text is read as one, however many pieces it has.
        if out and kind == out[-1][0] == "trusted":
            text = out.pop()[1] + text
        out.append((kind, text, field))

    while rest:
        places = [(rest.find("{" + name + "}"), name) for name in names]
        places = [place for place in places if place[0] >= 0]
        if not places:
            add(rest)
            break
        at, name = min(places)
        add(rest[:at])
        add(found[name][1], found[name][0])
        rest = rest[at + len(name) + 2 :]
    if sample.task == "score":
        (_, text, _), *others = out
        before, behind = text.split(FRAMES_BEFORE)
        out = [("trusted", before, ""), ("frames", "", ""), ("trusted", FRAMES_BEFORE + behind, ""), *others]
    return out


def template(task: str) -> str:
    return (PROMPTS / f"{task}.txt").read_text()


NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"]
AROUND, WHOLE, IMAGE = "<fake_token_around_image>", "<global-img>", "<image>"


def frames_text(seconds: float, times: list[float], rows: int) -> str:
    """What stands around the frames of a video, as SmolVLM's processor writes it."""
    clock = f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
    text = f"You are provided the following series of {NUMBERS[len(times)]} frames from a {clock} [H:MM:SS] video.\n"
    for time in times:
        text += f"\nFrame from {int(time) // 60:02}:{int(time) % 60:02}:{AROUND}{WHOLE}{IMAGE * rows}{AROUND}"
    return text + "\n\n"
