#!/usr/bin/env python3
"""Tiny checkpoints of every text architecture, with what transformers computes on them.

    pip install torch transformers safetensors tokenizers
    python tests/reference/text_models.py tests/data/models

Makes two randomly initialised checkpoints a family (llama, qwen2, qwen3, gemma3) with the real classes of
transformers, each in a folder of a public checkpoint's shape: config.json, model.safetensors (or two shards with an
index), tokenizer.json, tokenizer_config.json, generation_config.json; and beside them

    golden.json          the prompts, 32 greedy tokens of each, the chat template's rendering
    golden.safetensors   logits.0, logits.1: [tokens, vocabulary] in float32, for every position of two prompts

The reference runs in float32, without a cache, from exactly the values that the files hold: every weight is
representable in bfloat16, float16 and float32 at once, so the stored type changes nothing.

What this guards: the loader (both forms of the rope settings, tied and untied heads, shards, three stored types) and
the decoder (grouped heads, head sizes other than hidden / heads, biases, q/k norms, sliding windows, rope scalings,
soft-capped logits). Each checkpoint names the mistakes it is there to catch; the script makes each mistake on purpose
and stops if the logits do not notice. It also stops where two tokens nearly tie along the greedy path.

The same versions of torch and transformers give the same bytes. Seeds are searched upwards from the one given, and
the one that was taken is in golden.json.
"""

import argparse
import copy
import json
import math
import shutil
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

VOCABULARY = 160
GREEDY = 32
SMALLEST_GAP = 0.02
SMALLEST_EFFECT = 0.05
ROUNDING = 1e-4
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|bos|>"]
END, START_OF_TURN, END_OF_TURN, BEGIN = range(4)

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
    "+ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# Gemma's habits: a beginning token, the answerer is called model, contents are trimmed.
GEMMA = (
    "{{ bos_token }}{% for message in messages %}{% set role = 'model' if message['role'] == 'assistant' else "
    "message['role'] %}{{ '<|im_start|>' + role + '\n' + message['content'] | trim + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>model\n' }}{% endif %}"
)
MESSAGES = [
    {"role": "system", "content": "You judge captions."},
    {"role": "user", "content": " A dog runs; is it HALLUCINATED? "},
]
PROMPTS = [
    (24, "<|im_start|>user\nThe man carries a ladder across the yard and leans it against the wall.<|im_end|>"),
    (12, "He climbs to the roof, then rests."),
    (1, "The"),
]

# One row a checkpoint. `old` rewrites config.json to the form that public checkpoints have (rope_theta beside
# rope_scaling); without it config.json is what transformers 5 writes (rope_parameters). `mistakes` are settings that
# a loader could overlook, as changes to the configuration: each must move the logits.
CHECKPOINTS = {
    "llama_a": dict(
        seed=100, stored="float16", old=False,
        config=dict(
            model_type="llama", hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, tie_word_embeddings=True, rms_norm_eps=1e-5,
            max_position_embeddings=512, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        ),
        mistakes={"rope theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}},
    ),
    "llama_b": dict(
        seed=200, stored="bfloat16", old=True,
        config=dict(
            model_type="llama", hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=3,
            num_key_value_heads=3, head_dim=12, tie_word_embeddings=False, rms_norm_eps=1e-6, attention_bias=True,
            mlp_bias=False, max_position_embeddings=256,
            # Of the six frequencies the first is kept, the second lies in the blended band, the rest are divided.
            rope_parameters={
                "rope_type": "llama3", "rope_theta": 2000.0, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
            },
        ),
        mistakes={"llama3 scaling": {"rope_parameters": {"rope_type": "default", "rope_theta": 2000.0}}},
    ),
    "qwen2_a": dict(
        seed=300, stored="bfloat16", old=False,
        # Eight more rows than the tokenizer has tokens, as in the public checkpoints.
        config=dict(
            model_type="qwen2", vocab_size=VOCABULARY + 8, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True, max_position_embeddings=512,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        ),
        mistakes={"rope theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}},
    ),
    "qwen2_b": dict(
        seed=400, stored="float16", old=True, shards=2,
        config=dict(
            model_type="qwen2", hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, tie_word_embeddings=False, max_position_embeddings=16384,
            rope_parameters={
                "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 4096,
            },
        ),
        mistakes={
            "yarn": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
            "yarn attention factor": {
                "rope_parameters": {
                    "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 4096,
                    "attention_factor": 1.0,
                },
            },
        },
    ),
    "qwen3_a": dict(
        seed=500, stored="float32", old=False,
        config=dict(
            model_type="qwen3", hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, tie_word_embeddings=True, max_position_embeddings=512,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        ),
        mistakes={"rms_norm_eps": {"rms_norm_eps": 0.1}},
    ),
    "qwen3_b": dict(
        seed=600, stored="bfloat16", old=False,
        config=dict(
            model_type="qwen3", hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=1, head_dim=12, tie_word_embeddings=False, attention_bias=True,
            max_position_embeddings=1024,
            rope_parameters={
                "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 256,
                "beta_fast": 8.0, "beta_slow": 2.0,
            },
        ),
        mistakes={
            "yarn's own band": {
                "rope_parameters": {
                    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 256,
                },
            },
        },
    ),
    "gemma3_a": dict(
        seed=700, stored="bfloat16", old=True,
        # Layers by pattern: sliding, full, sliding.
        config=dict(
            model_type="gemma3_text", hidden_size=24, intermediate_size=40, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=8, sliding_window=8,
            sliding_window_pattern=2, tie_word_embeddings=True, max_position_embeddings=512,
            rope_parameters={
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        ),
        mistakes={
            "window": {"sliding_window": 4096},
            "window off by one": {"sliding_window": 9},
            "layer pattern": {"layer_types": ["sliding_attention"] * 3},
            "linear scaling": {
                "rope_parameters": {
                    "full_attention": {"rope_type": "default", "rope_theta": 1e6},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                },
            },
            "local theta": {
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e6},
                },
            },
        },
    ),
    "gemma3_b": dict(
        seed=800, stored="float16", old=False,
        config=dict(
            model_type="gemma3_text", hidden_size=24, intermediate_size=40, num_hidden_layers=3,
            num_attention_heads=2, num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=6, sliding_window=8,
            layer_types=["full_attention", "sliding_attention", "sliding_attention"], tie_word_embeddings=True,
            final_logit_softcapping=8.0, max_position_embeddings=512,
            rope_parameters={
                "full_attention": {"rope_type": "default", "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        ),
        mistakes={
            "window": {"sliding_window": 4096},
            "layer types": {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
            "query_pre_attn_scalar": {"query_pre_attn_scalar": 16},
            "final soft cap": {"final_logit_softcapping": None},
        },
    ),
}


# --- the tokenizer: one for all, byte-level BPE with Qwen's pre-tokenizer over an ASCII alphabet ---

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CORPUS = [
    "".join(map(chr, range(32, 127))) + "\n\t",
    "The man carries a ladder across the yard and leans it against the wall. He climbs to the roof, then rests.",
    "A dog runs after the ball in the park. Is the event SUPPORTED or HALLUCINATED? The caption says it ran.",
    "system user assistant model You judge captions. Events: 1. The man leaves. 2. The woman reads the answer.",
]


def make_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[AddedToken(word, special=True) for word in SPECIALS],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    assert tokenizer.get_vocab_size() == VOCABULARY
    return tokenizer


def write_tokenizer(tokenizer: Tokenizer, folder: Path, name: str) -> None:
    gemma = name.startswith("gemma")
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {
        "add_bos_token": gemma,
        "added_tokens_decoder": {
            str(index): {
                "content": word, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                "special": True,
            }
            for index, word in enumerate(SPECIALS)
        },
        "bos_token": SPECIALS[BEGIN] if gemma else None,
        "clean_up_tokenization_spaces": False,
        "eos_token": SPECIALS[END_OF_TURN],
        "pad_token": SPECIALS[END],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    template = GEMMA if gemma else CHATML
    if name == "gemma3_b":  # transformers 5 keeps the template in a file of its own
        (folder / "chat_template.jinja").write_text(template)
    else:
        settings["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")


# --- the weights ---


def exact(tensor: torch.Tensor) -> torch.Tensor:
    """The nearest value that bfloat16, float16 and float32 all hold."""
    return tensor.to(torch.bfloat16).to(torch.float16).float()


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Weights that make every part of the model matter: nothing is left at one or zero."""
    generator = torch.Generator().manual_seed(seed)
    gemma = model.config.model_type == "gemma3_text"
    hidden = model.config.hidden_size
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("norm.weight"):
            # Gemma multiplies by one plus the weight. What a layer adds must outweigh the embedding, which Gemma
            # scales up, or a tied head repeats the last token for ever.
            middle = 0.0 if gemma else 1.0
            if gemma and "layernorm" in name and "post_" in name:
                middle = 6.0
            value = middle + 0.3 * noise
        elif name.endswith(".bias"):
            value = 0.5 * noise
        elif "embed_tokens" in name or "lm_head" in name:
            value = noise * 3.5 / math.sqrt(hidden)
        else:
            gain = {"o_proj": 2.5, "down_proj": 2.5, "q_proj": 1.6, "k_proj": 1.6}.get(name.split(".")[-2], 1.2)
            value = noise * gain / math.sqrt(parameter.shape[1])
        parameter.data.copy_(exact(value))


def fresh_model(settings: dict) -> torch.nn.Module:
    settings = copy.deepcopy(settings)
    config = AutoConfig.for_model(
        settings.pop("model_type"),
        **{
            "vocab_size": VOCABULARY, "bos_token_id": None, "eos_token_id": END_OF_TURN, "pad_token_id": END,
            **settings,
        },
    )
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


# --- what transformers computes ---


@torch.no_grad()
def logits_of(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()


def greedy(model: torch.nn.Module, ids: list[int]) -> tuple[list[int], float]:
    """The greedy continuation, every step from scratch, and the smallest lead of a winner over the runner-up."""
    ids, answer, smallest = list(ids), [], math.inf
    for _ in range(GREEDY):
        top = logits_of(model, ids)[-1].topk(2)
        smallest = min(smallest, float(top.values[0] - top.values[1]))
        answer.append(int(top.indices[0]))
        ids.append(answer[-1])
    return answer, smallest


def golden_of(model: torch.nn.Module, prompts: list[list[int]]) -> list[dict]:
    rows = []
    for ids in prompts:
        answer, gap = greedy(model, ids)
        rows.append({"ids": ids, "greedy": answer, "smallest_gap": round(gap, 4)})
    return rows


def good(rows: list[dict]) -> bool:
    """No near tie, and no answer that only repeats a token or two."""
    return all(row["smallest_gap"] > SMALLEST_GAP and len(set(row["greedy"])) >= 6 for row in rows)


# --- one checkpoint ---


def old_form(config: dict) -> dict:
    """config.json as the public checkpoints of the family have it, from what transformers 5 writes."""
    config = dict(config)
    rope = config.pop("rope_parameters")
    config["torch_dtype"] = config.pop("dtype")
    kind = config["model_type"]
    if kind == "gemma3_text":
        full = dict(rope["full_attention"])
        config["rope_theta"] = full.pop("rope_theta")
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        config["rope_scaling"] = full if full["rope_type"] != "default" else None
        types = config.pop("layer_types")
        config["sliding_window_pattern"] = types.index("full_attention") + 1
        config.pop("_sliding_window_pattern", None)
        # Public configurations leave out what the class has as a default.
        config.pop("tie_word_embeddings")
    else:
        rope = dict(rope)
        config["rope_theta"] = rope.pop("rope_theta")
        if kind == "qwen2":  # as the Qwen2.5 cards write it: `type`, not `rope_type`
            rope["type"] = rope.pop("rope_type")
            config.pop("layer_types", None)
            config["sliding_window"] = 4096  # present although use_sliding_window is false: must be ignored
        config["rope_scaling"] = rope
    return dict(sorted(config.items()))


def write_weights(model: torch.nn.Module, folder: Path, stored: str, shards: int) -> None:
    model = copy.deepcopy(model).to(getattr(torch, stored))
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    model.save_pretrained(folder, max_shard_size=int(total / shards * 1.1) if shards > 1 else "1GB")
    found = sorted(path.name for path in folder.glob("*.safetensors"))
    assert len(found) == shards, found


def difference(one: list[torch.Tensor], other: list[torch.Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other))


def reload(folder: Path, changes: dict | None = None) -> torch.nn.Module:
    config = AutoConfig.from_pretrained(folder)
    for key, value in (changes or {}).items():
        setattr(config, key, copy.deepcopy(value))
    return AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=torch.float32).eval()


def make(name: str, spec: dict, folder: Path, tokenizer: Tokenizer) -> None:
    prompts = [tokenizer.encode(text).ids[:length] for length, text in PROMPTS]
    assert [len(ids) for ids in prompts] == [length for length, _ in PROMPTS]

    model = fresh_model(spec["config"])
    for seed in range(spec["seed"], spec["seed"] + 100):
        randomise(model, seed)
        if good(golden_of(model, prompts)):
            break
    else:
        raise SystemExit(f"{name}: no seed without near ties; change the scales")
    if name == "gemma3_b":
        model.generation_config.eos_token_id = [END_OF_TURN, END]

    write_weights(model, folder, spec["stored"], spec.get("shards", 1))
    write_tokenizer(tokenizer, folder, name)
    expected = [logits_of(model, ids) for ids in prompts]

    # The reference is what loads from the files, not what was in memory.
    again = difference([logits_of(reload(folder), ids) for ids in prompts], expected)
    assert again == 0.0, f"{name}: the files hold other weights ({again})"
    if spec["old"]:
        path = folder / "config.json"
        path.write_text(json.dumps(old_form(json.loads(path.read_text())), indent=2) + "\n")
        older = difference([logits_of(reload(folder), ids) for ids in prompts], expected)
        assert older == 0.0, f"{name}: the old form of config.json loads to another model ({older})"

    for mistake, changes in spec["mistakes"].items():
        effect = difference([logits_of(reload(folder, changes), ids) for ids in prompts], expected)
        assert effect > SMALLEST_EFFECT, f"{name}: nobody would notice a wrong {mistake} ({effect})"
        print(f"  {name}: a wrong {mistake} moves the logits by {effect:.2f}")

    # Other orders of summation must stay far below the tolerance of the comparison (1e-3).
    double = reload(folder).double()
    rounding = difference([logits_of(double, ids) for ids in prompts], expected)
    assert rounding < ROUNDING, f"{name}: float32 is {rounding} from float64; lower the scales"

    reference = reload(folder)
    chat = AutoTokenizer.from_pretrained(folder)
    rendered = chat.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    rows = golden_of(reference, prompts)
    golden = {
        "made_with": {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]},
        "seed": seed,
        "prompts": rows,
        "chat": {"messages": MESSAGES, "rendered": rendered, "ids": tokenizer.encode(rendered).ids},
    }
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    save_file({f"logits.{n}": expected[n].contiguous() for n in range(2)}, folder / "golden.safetensors")

    size = sum(path.stat().st_size for path in folder.iterdir())
    spread = float(torch.cat(expected).std())
    gaps = [row["smallest_gap"] for row in rows]
    print(f"{name}: seed {seed}, {size / 1024:.0f} KB, logits' spread {spread:.1f}, smallest gaps {gaps}, "
          f"float32 to float64 {rounding:.1e}")
    config = json.loads((folder / "config.json").read_text())
    telling = [
        "dtype", "torch_dtype", "head_dim", "rope_parameters", "rope_theta", "rope_local_base_freq", "rope_scaling",
        "sliding_window", "sliding_window_pattern", "_sliding_window_pattern", "layer_types", "query_pre_attn_scalar",
        "final_logit_softcapping", "attention_bias", "tie_word_embeddings",
    ]
    print("  config.json:", json.dumps({key: config.get(key) for key in telling if key in config}))
    print("  absent:", ", ".join(key for key in telling if key not in config))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--only", nargs="*", choices=CHECKPOINTS, help="these checkpoints alone")
    options = arguments.parse_args()
    torch.set_num_threads(1)  # the same sums in the same order everywhere
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    tokenizer = make_tokenizer()
    for name in options.only or CHECKPOINTS:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / name
            folder.mkdir()
            make(name, CHECKPOINTS[name], folder, tokenizer)
            target = options.out / name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)


if __name__ == "__main__":
    main()
