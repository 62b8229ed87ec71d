#!/usr/bin/env python3
"""The tiny checkpoints as GGUF, written as llama.cpp's converter writes them.

    pip install torch transformers gguf llama-cpp-python
    python tests/reference/text_models.py tests/data/models
    python tests/reference/gguf_models.py tests/data/models        # reads OUT/<name>/, writes OUT/gguf/<name>.gguf

Matrices are F16 and vectors F32, which hold the checkpoints' values exactly: the golden logits and tokens beside the
checkpoints are the golden ones of these files too.

What this guards: the architecture's keys, tensor names, llama's reordered q and k rows and biases, rope_freqs.weight,
gemma3's norms (stored plus one) and sliding-window keys, a vocabulary with padding, a chat template.

Each file is checked by two other readers. transformers' classes, through gguf_to_transformers.py, must give the
golden logits to rounding. llama.cpp, where llama_cpp is installed, must give them too: from a copy with F32 matrices,
since it rounds what it multiplies F16 matrices with to F16.
"""

import argparse
import json
import math
import tempfile
from pathlib import Path

import gguf
import numpy
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoConfig, AutoTokenizer

import gguf_to_transformers

MODELS = ["llama_a", "llama_b", "qwen2_a", "qwen3_a", "gemma3_a"]
ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
}
TOLERANCE = 1e-4
# llama.cpp looks GELU up in a table of F16 values. With the same rounding put into transformers the two are 4e-4
# apart; a mistake moves the logits by whole units.
LLAMA_CPP_TOLERANCE = {"gemma3_a": 2e-2}
TEXTS = ["The man climbs to the roof.", "<|im_start|>user\nIt's 12:30 -- \"done\"?\n\n  ok<|im_end|>\n"]


def permute(weights: numpy.ndarray, heads: int) -> numpy.ndarray:
    """llama's rope in GGUF turns neighbouring pairs, in the checkpoint one half against the other."""
    rows = weights.shape[0] // heads // 2
    return weights.reshape(heads, 2, rows, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def llama3_factors(rope: dict, head: int) -> numpy.ndarray:
    """By what each frequency is divided: rope_freqs.weight."""
    factors = []
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    for index in range(0, head, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (index / head)
        if wavelength < high:
            factors.append(1.0)
        elif wavelength > low:
            factors.append(rope["factor"])
        else:
            smooth = rope["original_max_position_embeddings"] / wavelength - rope["low_freq_factor"]
            smooth /= rope["high_freq_factor"] - rope["low_freq_factor"]
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return numpy.array(factors, dtype=numpy.float32)


def add_settings(writer: gguf.GGUFWriter, config, full: bool) -> None:
    kind = config.model_type
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32 if full else gguf.LlamaFileType.MOSTLY_F16)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    rope = config.rope_parameters
    if kind == "gemma3_text":
        rope = rope["full_attention"]
        assert config.query_pre_attn_scalar == config.head_dim, "GGUF has no key for another scale"
        assert config.rope_parameters["sliding_attention"]["rope_theta"] == 10000.0, "readers take it for granted"
        period = config.layer_types.index("full_attention") + 1
        writer.add_sliding_window(config.sliding_window)
        if period != 6:
            writer.add_sliding_window_pattern(period)
        if config.final_logit_softcapping:
            writer.add_final_logit_softcapping(config.final_logit_softcapping)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if kind != "qwen2":
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if kind == "llama":
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(config.head_dim)


def add_tokenizer(writer: gguf.GGUFWriter, folder: Path, vocabulary: int) -> None:
    data = json.loads((folder / "tokenizer.json").read_text())
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    specials = {token["id"]: token["content"] for token in data["added_tokens"]}
    words = {index: word for word, index in data["model"]["vocab"].items()} | specials
    ids = {word: index for index, word in words.items()}
    tokens, types = [], []
    for index in range(vocabulary):
        tokens.append(words.get(index, f"[PAD{index}]"))
        kind = gguf.TokenType.NORMAL if index in words else gguf.TokenType.UNUSED
        types.append(gguf.TokenType.CONTROL if index in specials else kind)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in data["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(ids[settings["eos_token"]])
    writer.add_pad_token_id(ids[settings["pad_token"]])
    if settings["bos_token"]:
        writer.add_bos_token_id(ids[settings["bos_token"]])
    writer.add_add_bos_token(settings["add_bos_token"])
    writer.add_chat_template(settings["chat_template"])


def write(folder: Path, path: Path, full: bool = False) -> None:
    """One GGUF file; `full` keeps matrices in F32."""
    config = AutoConfig.from_pretrained(folder)
    architecture = ARCHITECTURES[config.model_type]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name(folder.name)
    add_settings(writer, config, full)
    add_tokenizer(writer, folder, config.vocab_size)

    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    rope = config.rope_parameters
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(rope, config.head_dim))
    for shard in sorted(folder.glob("model*.safetensors")):
        with safe_open(shard, "pt") as tensors:
            for name in sorted(tensors.keys()):
                weights = tensors.get_tensor(name).float().numpy()
                if config.model_type == "llama" and ".q_proj." in name:
                    weights = permute(weights, config.num_attention_heads)
                if config.model_type == "llama" and ".k_proj." in name:
                    weights = permute(weights, config.num_key_value_heads)
                if config.model_type == "gemma3_text" and name.endswith("norm.weight"):
                    weights = weights + numpy.float32(1.0)
                kind = numpy.float32 if weights.ndim == 1 or full else numpy.float16
                assert (weights.astype(kind).astype(numpy.float32) == weights).all(), f"{name} is not exact"
                target = names.get_name(name, try_suffixes=(".weight", ".bias"))
                writer.add_tensor(target, numpy.ascontiguousarray(weights.astype(kind)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@torch.no_grad()
def transformers_difference(path: Path, prompts: list[list[int]], golden: list[numpy.ndarray]) -> float:
    model = gguf_to_transformers.load(path)
    results = [model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].numpy() for ids in prompts]
    return max(float(numpy.abs(a - b).max()) for a, b in zip(results, golden))


def llama_cpp_difference(path: Path, prompts: list[list[int]], golden: list[numpy.ndarray]) -> float:
    import llama_cpp

    model = llama_cpp.Llama(
        str(path), n_ctx=64, n_threads=1, logits_all=True, verbose=False, flash_attn=False,
        type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32,
    )
    worst = 0.0
    for ids, expected in zip(prompts, golden):
        model.reset()
        model.eval(ids)
        worst = max(worst, float(numpy.abs(model.scores[: len(ids)] - expected).max()))
    return worst


def llama_cpp_ids(path: Path, text: str) -> list[int]:
    import llama_cpp

    model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    return model.tokenize(text.encode(), add_bos=False, special=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("out", type=Path)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        import llama_cpp  # noqa: F401
        other = True
    except ImportError:
        other = False
        print("llama_cpp is not installed: checked with transformers alone")

    (options.out / "gguf").mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        folder, path = options.out / name, options.out / "gguf" / f"{name}.gguf"
        write(folder, path)
        prompts = [row["ids"] for row in json.loads((folder / "golden.json").read_text())["prompts"]]
        logits = load_file(folder / "golden.safetensors")
        golden = [logits[f"logits.{index}"].numpy() for index in range(2)]
        difference = transformers_difference(path, prompts, golden)
        line = f"{name}.gguf: {path.stat().st_size / 1024:.0f} KB, transformers {difference:.1e}"
        assert difference < TOLERANCE, line
        if other:
            with tempfile.TemporaryDirectory() as scratch:
                copy = Path(scratch) / path.name
                write(folder, copy, full=True)
                exact = llama_cpp_difference(copy, prompts, golden)
            line += f", llama.cpp in F32 {exact:.1e}, as stored {llama_cpp_difference(path, prompts, golden):.1e}"
            assert exact < LLAMA_CPP_TOLERANCE.get(name, TOLERANCE), line
            tokenizer = AutoTokenizer.from_pretrained(folder)
            for text in TEXTS:
                expected = tokenizer.encode(text, add_special_tokens=False)
                assert llama_cpp_ids(path, text) == expected, f"{name}: {text!r} has other tokens in llama.cpp"
        print(line)


if __name__ == "__main__":
    main()
