"""A GGUF file in transformers' own model class, in float32, dequantised by gguf-py.

    pip install torch transformers gguf

A module for the scripts beside it. transformers reads GGUF itself, but (5.23) leaves out what several of these models
need: attention.key_length of qwen3 (head sizes other than hidden / heads), rope_freqs.weight and the biases of llama,
the rope.scaling keys, the pattern of gemma3's sliding windows and the scale of its queries. Here all of it is read,
and a tensor that no parameter takes, or a parameter that no tensor fills, is an error.
"""

from pathlib import Path

import gguf
import numpy
import torch
from transformers import AutoConfig, AutoModelForCausalLM

CLASSES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3_text"}


class Metadata:
    """The key-value part of a GGUF file, with the architecture's prefix supplied."""

    def __init__(self, reader: gguf.GGUFReader):
        self.fields = reader.fields
        self.architecture = self.fields["general.architecture"].contents()

    def get(self, key: str, default=None):
        field = self.fields.get(f"{self.architecture}.{key}")
        return default if field is None else field.contents()


def configuration(metadata: Metadata, names: set[str], vocabulary: int):
    architecture = metadata.architecture
    if architecture not in CLASSES:
        raise SystemExit(f"architecture {architecture}: only {', '.join(CLASSES)} are known here")
    heads, hidden = metadata.get("attention.head_count"), metadata.get("embedding_length")
    settings = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": metadata.get("feed_forward_length"),
        "num_hidden_layers": metadata.get("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": metadata.get("attention.head_count_kv", heads),
        "max_position_embeddings": metadata.get("context_length"),
        "rms_norm_eps": metadata.get("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "output.weight" not in names,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    head = metadata.get("attention.key_length", hidden // heads)
    rope = {"rope_type": "default", "rope_theta": metadata.get("rope.freq_base", 10000.0)}
    scaling = metadata.get("rope.scaling.type")
    if scaling in ("linear", "yarn"):
        rope |= {"rope_type": scaling, "factor": metadata.get("rope.scaling.factor")}
        if scaling == "yarn":
            rope["original_max_position_embeddings"] = metadata.get("rope.scaling.original_context_length")
    elif scaling not in (None, "none"):
        raise SystemExit(f"rope scaling {scaling}: only linear and yarn are known here")
    settings["rope_parameters"] = rope

    if architecture != "qwen2":
        settings["head_dim"] = head
    elif head != hidden // heads:
        raise SystemExit("qwen2 with a head size other than hidden / heads: transformers' class has no such setting")
    if architecture in ("llama", "qwen3"):
        settings["attention_bias"] = "blk.0.attn_output.bias" in names
    if architecture == "gemma3":
        # Without a key: every sixth layer is full, local theta 10000, the scale is that of the head (27B apart).
        local = {"rope_type": "default", "rope_theta": metadata.get("rope.freq_base_swa", 10000.0)}
        settings |= {
            "rope_parameters": {"full_attention": rope, "sliding_attention": local},
            "sliding_window": metadata.get("attention.sliding_window"),
            "sliding_window_pattern": metadata.get("attention.sliding_window_pattern", 6),
            "query_pre_attn_scalar": hidden // heads if settings["num_hidden_layers"] == 62 else head,
            "final_logit_softcapping": metadata.get("final_logit_softcapping"),
        }
    return AutoConfig.for_model(CLASSES[architecture], **settings)


def unpermute(weights: numpy.ndarray, heads: int) -> numpy.ndarray:
    """Undo the converter's reordering of llama's q and k rows (pairs side by side) to halves one after the other."""
    rows = weights.shape[0] // heads // 2
    return weights.reshape(heads, rows, 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def load(path: Path | str) -> torch.nn.Module:
    reader = gguf.GGUFReader(path)
    metadata = Metadata(reader)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    vocabulary = int(tensors["token_embd.weight"].shape[1])
    config = configuration(metadata, set(tensors), vocabulary)

    architecture = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == metadata.architecture)
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config)
    wanted = list(empty.state_dict())
    state, unused = {}, set(tensors) - {"rope_freqs.weight"}
    for name in wanted:
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        source = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if source not in tensors:
            raise SystemExit(f"{path}: no tensor for {name}")
        unused.discard(source)
        tensor = tensors[source]
        weights = gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        if metadata.architecture == "llama" and ".q_proj." in name:
            weights = unpermute(weights, config.num_attention_heads)
        if metadata.architecture == "llama" and ".k_proj." in name:
            weights = unpermute(weights, config.num_key_value_heads)
        if metadata.architecture == "gemma3" and name.endswith("norm.weight"):
            weights = weights - numpy.float32(1.0)
        state[name] = torch.from_numpy(numpy.array(weights))
    if unused:
        raise SystemExit(f"{path}: nothing takes {', '.join(sorted(unused))}")

    model = type(empty).from_pretrained(None, config=config, state_dict=state, dtype=torch.float32).eval()
    if "rope_freqs.weight" in tensors:
        factors = torch.from_numpy(numpy.array(tensors["rope_freqs.weight"].data))
        model.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq / factors
    return model
