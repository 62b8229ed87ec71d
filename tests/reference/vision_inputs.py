"""What the vision checkpoints of vision_models.py are shown: pictures, clips, chats, templates, tokenizers.

Pictures come from a formula (gradients, sharp edges, noise), so that a wrong filter, a wrong rounding or a wrong order
of patches changes them. Clips are folders of frames with the times of a longer video, from which they were "sampled".
"""

import json
from pathlib import Path

import numpy as np
from PIL import Image
from text_models import CORPUS, QWEN_SPLIT
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

WORDS = 160
BASIC = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
QWEN = ["<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
SMOL = ["<end_of_utterance>", "<fake_token_around_image>", "<global-img>", "<image>"] + [
    f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)
]

# width, height
IMAGES = {"image_a": (61, 45), "image_b": (30, 70)}
# The first has frames at even steps; the second has an odd number of them, at odd sizes and uneven times, of which
# some lie beyond a minute.
CLIPS = {
    "clip8": dict(size=(52, 40), fps=30.0, indices=[0, 15, 30, 45, 60, 75, 90, 105], total=240, duration=8.0),
    "clip5": dict(size=(45, 37), fps=25.0, indices=[0, 7, 190, 1600, 1666], total=2030, duration=81.2),
}
INPUTS = {
    "image": (None, [{"image": "image_a"}, {"text": "Is the caption right? A dog runs."}]),
    "images": (None, [
        {"image": "image_a"}, {"text": "One picture, "}, {"image": "image_b"}, {"text": "and another.\nWhich is it?"},
    ]),
    "video8": (None, [{"video": "clip8"}, {"text": "What happens?"}]),
    "video5": ("You judge captions.", [{"video": "clip5"}, {"text": "Does the man leave?"}]),
    "text": (None, [{"text": "Name the events: 1. The woman reads."}]),
}

# Own wordings of the public templates; they render the same.
QWEN_PARTS = (
    "{%- macro parts(content) %}{% if content is string %}{{ content }}{% else %}{% for part in content %}"
    "{% if part.type == 'image' or 'image' in part %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part.type == 'video' or 'video' in part %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif 'text' in part %}{{ part.text }}{% endif %}{% endfor %}{% endif %}{% endmacro %}"
)
QWEN_TURNS = (
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' + parts(message.content) + '<|im_end|>\n' }}"
    "{%- endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
QWEN2_5_TEMPLATE = (
    QWEN_PARTS
    + "{%- if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}"
    + "{%- endif %}"
    + QWEN_TURNS
)
QWEN3_TEMPLATE = QWEN_PARTS + QWEN_TURNS
SMOL_TEMPLATE = (
    "<|im_start|>{% for message in messages %}{% set first = message.content[0] %}"
    "{{ message.role | capitalize + (':' if first.type == 'image' else ': ') }}{% for part in message.content %}"
    "{{ {'image': '<image>', 'video': '<video>'}[part.type] if part.type != 'text' else part.text }}{% endfor %}"
    "{{ '<end_of_utterance>\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
TEMPLATES = {
    "qwen2_5_vl": QWEN2_5_TEMPLATE, "qwen3_vl": QWEN3_TEMPLATE, "smolvlm": SMOL_TEMPLATE, "idefics3": SMOL_TEMPLATE,
}


# --- pictures ---


def picture(width: int, height: int, phase: int, seed: int) -> np.ndarray:
    """Gradients, a bright box and a checkerboard that move with the phase, and noise."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    red = 255 * x / (width - 1)
    green = 127.5 + 127.5 * np.sin(0.21 * y + 0.6 * phase)
    blue = 255 * (x + y) / (width + height - 2)
    image = np.stack([red, green, blue], axis=-1)
    left, top = (5 + 4 * phase) % (width - 12), (7 + 3 * phase) % (height - 12)
    image[top : top + 11, left : left + 9] = [250, 20, 40]
    board = (x + y).astype(int) % 2 == 0
    image[board & (x > width * 0.7) & (y < height * 0.4)] = 255
    image[~board & (x > width * 0.7) & (y < height * 0.4)] = 0
    image += np.random.RandomState(seed).uniform(-12, 12, size=image.shape)
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)


def write_pictures(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, (width, height)) in enumerate(IMAGES.items()):
        Image.fromarray(picture(width, height, 0, seed)).save(folder / f"{name}.png", optimize=True)
    for name, clip in CLIPS.items():
        (folder / name).mkdir(exist_ok=True)
        for frame in range(len(clip["indices"])):
            path = folder / name / f"{frame:03}.png"
            Image.fromarray(picture(*clip["size"], frame, 10 + frame)).save(path, optimize=True)


def load_image(folder: Path, name: str) -> Image.Image:
    return Image.open(folder / f"{name}.png").convert("RGB")


def load_clip(folder: Path, name: str) -> np.ndarray:
    """[frames, height, width, 3]"""
    return np.stack([np.asarray(Image.open(path).convert("RGB")) for path in sorted((folder / name).glob("*.png"))])


def sampled_fps(clip: str) -> float:
    """Frames a second of what was sampled."""
    clip = CLIPS[clip]
    return len(clip["indices"]) / clip["total"] * clip["fps"]


# --- chats ---


def messages_of(system: str | None, parts: list[dict]) -> list[dict]:
    """The chat as it is given to a template."""
    content = [
        {"type": "text", "text": part["text"]} if "text" in part else {"type": next(iter(part))} for part in parts
    ]
    chat = [] if system is None else [{"role": "system", "content": [{"type": "text", "text": system}]}]
    return chat + [{"role": "user", "content": content}]


def described(parts: list[dict]) -> list[dict]:
    """The parts as golden.json has them, with the times of the clips."""
    return [
        {**part, **{key: value for key, value in CLIPS[part["video"]].items() if key != "size"}}
        if "video" in part else part
        for part in parts
    ]


# --- the tokenizer: byte-level BPE over ASCII, the special words of the architecture behind the others ---


def make_tokenizer(kind: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if kind.startswith("qwen"):
        tokenizer.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ])
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(word, special=True, normalized=False) for word in BASIC]
    trainer = trainers.BpeTrainer(vocab_size=WORDS, special_tokens=special, show_progress=False)
    corpus = CORPUS + [
        "You are provided the following series of eight frames from a 0:00:08 [H:MM:SS] video. You are a helpful",
        "Frame from 01:23: <0.5 seconds> <12.3 seconds> What happens in the picture? Which frames show the events?",
    ]
    tokenizer.train_from_iterator(corpus, trainer)
    assert tokenizer.get_vocab_size() == WORDS
    more = QWEN if kind.startswith("qwen") else SMOL
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in more])
    return tokenizer


def end_of_turn(kind: str) -> str:
    return "<|im_end|>" if kind.startswith("qwen") else "<end_of_utterance>"


def write_tokenizer(tokenizer: Tokenizer, kind: str, folder: Path) -> None:
    """The tokenizer's files as public checkpoints have them."""
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    words = BASIC + (QWEN if kind.startswith("qwen") else SMOL)
    settings = {
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(word)): {
                "content": word, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                "special": True,
            }
            for word in words
        },
        "bos_token": None if kind.startswith("qwen") else "<|im_start|>",
        "clean_up_tokenization_spaces": False,
        "eos_token": end_of_turn(kind),
        "model_max_length": 8192,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "Qwen2Tokenizer" if kind.startswith("qwen") else "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
