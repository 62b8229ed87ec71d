"""Writes a trained pocket judge as an ordinary checkpoint: what capjudge and transformers read.

    python models/pocket/export.py --state DIR/state.pt [--out models/pocket]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import torch

from batches import HERE, Words
from model import ROWS
from tasks import SIDE

TEMPLATE = (
    "<|im_start|>{% for message in messages %}{{ message.role | capitalize ~ ':' }}"
    "{% if message.content[0].type != 'image' %}{{ ' ' }}{% endif %}{% for part in message.content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% elif part.type in ['image', 'video'] %}{{ '<' ~ part.type ~ '>' }}"
    "{% endif %}{% endfor %}{{ '<end_of_utterance>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)


def processor() -> dict:
    pictures = {
        "do_convert_rgb": True, "do_normalize": True, "do_pad": True, "do_rescale": True, "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "max_image_size": {"longest_edge": SIDE},
        "resample": 1, "rescale_factor": 1 / 255, "size": {"longest_edge": SIDE},
    }
    return {
        "processor_class": "SmolVLMProcessor", "image_seq_len": ROWS,
        "image_processor": pictures | {"do_image_splitting": False, "image_processor_type": "SmolVLMImageProcessor"},
        "video_processor": pictures | {
            "do_sample_frames": False, "return_metadata": False, "video_processor_type": "SmolVLMVideoProcessor",
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    model = Words().network()
    model.load_state_dict(torch.load(options.state, weights_only=False)["model"])
    model.whole.to(torch.float16).save_pretrained(options.out)
    (options.out / "processor_config.json").write_text(json.dumps(processor(), indent=2) + "\n")
    (options.out / "chat_template.jinja").write_text(TEMPLATE)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if options.out.resolve() != HERE:
            shutil.copy(HERE / name, options.out / name)
    parameters = sum(parameter.numel() for parameter in model.whole.parameters())
    print(f"{parameters:,} parameters")
    for path in sorted(options.out.glob("*.*")):
        if path.suffix in (".json", ".safetensors", ".jinja"):
            print(hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size, path.name)


if __name__ == "__main__":
    main()
