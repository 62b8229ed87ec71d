"""Counts a checkpoint's parameters by part, for a manifest in models/: prints its [decoder] and [parameters].

Needs the checkpoint's config.json and no weights: transformers builds the model on torch's meta device, which holds
shapes and no numbers. Usage:

    python model_parameters.py CONFIG.json…

The parts are those that capjudge keeps in different types (models/README.md). Made with torch 2.15.0 and transformers
5.23.0.
"""

import json
import sys

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

# Rows of the `k` types come in blocks of 256 numbers; other rows become q8_0, whose blocks have 32.
LONG_BLOCK, SHORT_BLOCK = 256, 32


def read(path):
    with open(path) as file:
        settings = json.load(file)
    return AutoConfig.for_model(settings["model_type"], **{k: v for k, v in settings.items() if k != "model_type"})


def count(config):
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    parts = dict.fromkeys(["layers", "layers_q8_0", "vectors", "embeddings", "head", "vision"], 0)
    # Tied weights are one parameter and come up once.
    for name, weight in model.named_parameters():
        if any(word in name for word in ("vision", "visual", "connector")):
            part = "vision"
        elif "embed_tokens" in name:
            part = "embeddings"
        elif "lm_head" in name:
            part = "head"
        elif weight.dim() == 1:
            part = "vectors"
        elif weight.shape[1] % LONG_BLOCK == 0:
            part = "layers"
        elif weight.shape[1] % SHORT_BLOCK == 0:
            part = "layers_q8_0"
        else:
            sys.exit(f"{name}: rows of {weight.shape[1]} numbers fill no blocks")
        parts[part] += weight.numel()
    assert sum(parts.values()) == sum(weight.numel() for weight in model.parameters())
    return parts


def main():
    for path in sys.argv[1:]:
        config = read(path)
        text = config.get_text_config()
        head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        print(f"# {path}")
        print("[decoder]")
        print(f"layers = {text.num_hidden_layers}\nkv_heads = {text.num_key_value_heads}\nhead_dim = {head_dim}\n")
        parts = count(config)
        print("[parameters]")
        print("".join(f"{part} = {number:_}\n" for part, number in {"total": sum(parts.values()), **parts}.items()))


main()
