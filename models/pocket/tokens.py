"""The pocket judge's tokenizer: byte-level BPE, trained on the prompts and on sentences of the world.

    python models/pocket/tokens.py            # writes models/pocket/tokenizer.json and tokenizer_config.json

Digits stand alone, so that counts and times are one token a digit and a video takes the same number of tokens whatever
its times are.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import tasks
from sentences import TYPES, caption
from world import Clip

HERE = Path(__file__).resolve().parent
VOCABULARY = 1792
# Ids of special tokens come first.
START, END, PAD = "<|im_start|>", "<end_of_utterance>", "<pad>"
SPECIAL = [PAD, START, END, tasks.AROUND, tasks.WHOLE, tasks.IMAGE]


def texts(seed: int) -> list[str]:
    rng = random.Random(seed)
    out = []
    for task in tasks.TASKS:
        # Often enough that every word of a prompt becomes a token.
        out += [tasks.template(task)] * 60
    for _ in range(1500):
        clip = Clip.random(rng)
        for kind in TYPES:
            out.append(caption(clip.facts, kind, rng)[0])
        for sample in (
            tasks.hallucination_sample(clip, rng), tasks.omission_sample(clip, rng),
            tasks.score_sample(clip, Clip.random(rng), rng),
        ):
            out.append(sample.answer)
            out += [text for kind, text, _ in tasks.pieces(sample, tasks.template(sample.task)) if kind == "untrusted"]
    out += [tasks.frames_text(4.0, [0.0], 0)] * 200 + ["User: Assistant:"] * 200
    return out


def train() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True, normalized=False) for text in SPECIAL]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(1), trainer)
    return tokenizer


def main() -> None:
    tokenizer = train()
    tokenizer.save(str(HERE / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": START, "eos_token": END, "pad_token": PAD,
        "additional_special_tokens": SPECIAL[3:], "clean_up_tokenization_spaces": False, "model_max_length": 4096,
    }
    (HERE / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    for task in tasks.TASKS:
        text = tasks.template(task)
        print(task, len(tokenizer.encode(text).ids), "tokens for", len(text.split()), "words")


if __name__ == "__main__":
    main()
