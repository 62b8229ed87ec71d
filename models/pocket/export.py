"""Writes a trained pocket judge as an ordinary checkpoint, which capjudge and transformers read, and its manifest.

    python models/pocket/export.py --state DIR/whole.pt [--out models/pocket]

The manifest is written beside the folder: models/pocket.toml.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import torch

from batches import HERE, Words
from sights import ROWS
from tasks import SIDE

FILES = [
    "chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "processor_config.json",
    "tokenizer.json", "tokenizer_config.json",
]
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


def manifest(whole: torch.nn.Module, out: Path) -> str:
    """What models/README.md asks for, counted."""
    settings = whole.config.text_config
    kinds = dict.fromkeys(["total", "layers", "layers_q8_0", "vectors", "embeddings", "head", "vision"], 0)
    for name, parameter in whole.named_parameters():
        if "text_model" not in name:
            kind = "vision"
        elif "embed_tokens" in name:
            kind = "embeddings"
        elif parameter.ndim == 1:
            kind = "vectors"
        else:
            kind = "layers" if parameter.shape[1] % 256 == 0 else "layers_q8_0"
        kinds[kind] += parameter.numel()
        kinds["total"] += parameter.numel()
    lines = [
        "# Written by models/pocket/export.py. models/README.md explains every key.", 'repository = "pocket"',
        'architecture = "smolvlm"', 'licence = "Apache-2.0 OR MIT"', f"context = {settings.max_position_embeddings}", 'stored = "f16"',
        "files = [", *(f'  "{name}",' for name in FILES), "]", "", "[sha256]",
        *(f'"{name}" = "{hashlib.sha256((out / name).read_bytes()).hexdigest()}"' for name in FILES), "", "[decoder]",
        f"layers = {settings.num_hidden_layers}", f"kv_heads = {settings.num_key_value_heads}",
        f"head_dim = {settings.head_dim}", "", "[parameters]", *(f"{kind} = {count:_}" for kind, count in kinds.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    model = Words().network()
    state = torch.load(options.state, weights_only=False)["model"]
    # What has two names is kept once.
    assert set(state) == {name for name, _ in model.named_parameters()}, "not the state of the whole"
    model.load_state_dict(state, strict=False)
    model.whole.to(torch.float16).save_pretrained(options.out)
    (options.out / "processor_config.json").write_text(json.dumps(processor(), indent=2) + "\n")
    (options.out / "chat_template.jinja").write_text(TEMPLATE)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if options.out.resolve() != HERE:
            shutil.copy(HERE / name, options.out / name)
    text = manifest(model.whole, options.out)
    options.out.with_suffix(".toml").write_text(text)
    print(text)
    print(sum((options.out / name).stat().st_size for name in FILES), "bytes in all")


if __name__ == "__main__":
    main()
