#!/usr/bin/env python3
"""Tiny checkpoints of every vision architecture, with what transformers' processors and models compute on them.

    pip install torch torchvision transformers num2words
    pip install torch torchvision transformers==4.57.6 num2words        # in an environment of its own
    python tests/reference/vision_models.py tests/data --older OTHER/bin/python

Makes randomly initialised checkpoints of SmolVLM, Idefics3, Qwen2.5-VL and Qwen3-VL with the real classes of
transformers, shows them the pictures and clips of vision_inputs.py (written to tests/data/vision), and writes beside
each

    golden.json          for every input the parts, the chat, the expanded prompt, its ids, 32 greedy tokens, grids or
                         rows and columns of tiles, positions, a hash of the pixels, and `disagreement`: what another
                         release of transformers has instead of the ids or positions here
    golden.safetensors   levels.NAME   U8, the pixels as the bytes that they were before they were normalised
                         tower.NAME    [places, hidden], what stands in for the placeholders
                         deep.NAME.N   what Qwen3-VL adds to them behind layer N
                         logits.NAME   [tokens, columns], of every position at the `columns` of golden.json, which are
                                       as many as there are hidden numbers
                         last.NAME     [vocabulary], all logits of the last position

`a` is stored in float32, with weights that bfloat16 cannot hold, in the files and names of transformers 5; `b` in
bfloat16, in the files and names of the public checkpoints. Both forms of both are written and must load to the same
model and the same processor. The reference runs in float32, without a cache, from the values that the files hold.

What this guards, beside the decoders that text_models.py guards:

    smolvlm_a      images cut in tiles (two by two, two by one) and the whole, frames resized twice
    smolvlm_b      images of one tile, blocks of three by three patches, `size` above `video_sampling`, exact GELU
    idefics3_a     three by three and three by two tiles
    qwen2_5_vl_a   ragged windows of three by three, one image too large and one too small, other limits for videos
    qwen2_5_vl_b   windows of two by two merged patches of three by three, flat config.json, tanh GELU, times that are
                   not whole
    qwen3_vl_a     two deepstack layers, a grid of five by five positions, five frames that count as four and fit
    qwen3_vl_b     one deepstack layer, patches merged three by three, two shards, too few pixels in five frames

Each names the mistakes that it is there to catch; the script makes each on purpose and stops if the logits do not
notice. It stops as well where two tokens nearly tie along the greedy path, where float32 is not near float64, and where
4.57 disagrees with 5 in anything but these places, where the goldens follow the code that the models came with:

    positions of a Qwen2.5-VL video    times are cut to whole numbers after they are multiplied, as in 5 (4.57 cuts the
                                       seconds first); text goes on behind the largest position, as in 4.57 (5 goes on
                                       behind the larger side of a frame)
    prompt of a Qwen3-VL video         every step between words for begin and end of vision, nothing around the whole,
                                       as in 4.57; times averaged over the two frames of a step, as in 5 (4.57 takes the
                                       spatial merge for the temporal one)
    patches of SmolVLM and Idefics3    counted 0, 1, 2, 3 as in 5 (4.57: 0, 0, 1, 2)
    pixels of SmolVLM and Idefics3     Lanczos, along rows first, in bytes, as torchvision does for 5 (4.57: Pillow, or
                                       bicubic for videos)

The same versions of torch, torchvision and transformers give the same bytes. Seeds are searched upwards from the one
given, and the one that was taken is in golden.json.
"""

import argparse
import copy
import hashlib
import json
import math
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
import vision_inputs as shown
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer
from vision_checkpoints import CHECKPOINTS, processor_of, public_config, public_names, public_processor
from vision_run import Input, logits_of, patch_positions, positions_of, tower_of

GREEDY = 32
SMALLEST_GAP = 0.02
SMALLEST_EFFECT = 0.05
ROUNDING = 1e-4


def kind_of(name: str) -> str:
    return name.rsplit("_", 1)[0]


# --- the weights ---


def randomise(model: torch.nn.Module, seed: int, stored: str) -> None:
    """Weights that make every part of the model matter: nothing is left at one or zero."""
    generator = torch.Generator().manual_seed(seed)
    hidden = model.config.text_config.hidden_size
    gains = {
        "o_proj": 2.5, "down_proj": 2.5, "q_proj": 1.6, "k_proj": 1.6, "qkv": 1.4, "out_proj": 1.5, "fc2": 1.5,
        "linear_fc2": 1.5, "patch_embedding": 1.0, "modality_projection": 1.0,
    }
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        part = name.split(".")[-2]
        if parameter.ndim == 1 and name.endswith("weight"):
            value = 1.0 + 0.3 * noise
        elif name.endswith(".bias"):
            value = 0.3 * noise
        elif "embed_tokens" in name or "lm_head" in name:
            value = noise * 3.5 / math.sqrt(hidden)
            value[: len(shown.BASIC)] *= 0.4  # words that no answer should hold
            value[shown.WORDS :] *= 0.4
        elif "pos_embed" in name or "position_embedding" in name:
            value = noise
        else:
            value = noise * gains.get(part, 1.2) / math.sqrt(parameter[0].numel())
        parameter.data.copy_(value.to(getattr(torch, stored)).float())


def fresh_model(name: str, tokenizer: Tokenizer) -> torch.nn.Module:
    settings = copy.deepcopy(CHECKPOINTS[name]["config"])
    kind = kind_of(name)
    text = settings["text_config"]
    text.setdefault("vocab_size", tokenizer.get_vocab_size())
    text.update(
        bos_token_id=None, pad_token_id=tokenizer.token_to_id("<|endoftext|>"),
        eos_token_id=tokenizer.token_to_id(shown.end_of_turn(kind)),
    )
    if kind.startswith("qwen"):
        settings.update(
            image_token_id=tokenizer.token_to_id("<|image_pad|>"),
            video_token_id=tokenizer.token_to_id("<|video_pad|>"),
            vision_start_token_id=tokenizer.token_to_id("<|vision_start|>"),
            vision_end_token_id=tokenizer.token_to_id("<|vision_end|>"),
        )
        settings["vision_config"]["out_hidden_size"] = text["hidden_size"]
    else:
        settings["image_token_id"] = tokenizer.token_to_id("<image>")
    config = AutoConfig.for_model(kind, **settings)
    return AutoModelForImageTextToText.from_config(config, dtype=torch.float32).eval()


# --- answers ---


def greedy(model: torch.nn.Module, given: Input) -> tuple[list[int], float]:
    """The greedy continuation, every step from scratch, and the smallest lead of a winner over the runner-up."""
    answer, smallest = [], math.inf
    for _ in range(GREEDY):
        top = logits_of(model, given, answer)[-1].topk(2)
        smallest = min(smallest, float(top.values[0] - top.values[1]))
        answer.append(int(top.indices[0]))
        if smallest <= SMALLEST_GAP or not len(shown.BASIC) <= answer[-1] < shown.WORDS:
            return answer, 0.0  # a near tie, or a word that only a template or a processor may write
    return answer, smallest


def good(answers: list[tuple[list[int], float]]) -> bool:
    """No near tie, and no answer that only repeats a token or two."""
    return all(gap > SMALLEST_GAP and len(set(answer)) >= 6 for answer, gap in answers)


def difference(one: list[torch.Tensor], other: list[torch.Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


# --- the older release ---


def ask_older(python: str, kind: str, folder: Path, pictures: Path, inputs: list[Input], config) -> dict:
    """What the older release makes of the same files: with its own processor, and of the same tensors."""
    out = folder.parent / "older"
    out.mkdir()
    for given in inputs:
        asked = {"given": vars(given), "positions": positions_of(config, given)}
        torch.save(asked, out / f"{given.name}.pt")
    script = Path(__file__).with_name("vision_older.py")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run([python, script, kind, folder, pictures, out], check=True, env=environment)
    return torch.load(out / "older.pt", weights_only=False)


def far(one: torch.Tensor, other: torch.Tensor) -> str:
    """How far two sets of pixels are apart."""
    if one.shape != other.shape:
        return f"{list(one.shape)} against {list(other.shape)}"
    gap = (one - other).abs()
    return f"{float((gap > 1e-5).float().mean()):.1%} differ, by up to {float(gap.max()):.1e}"


def compare(name: str, model: torch.nn.Module, inputs: list[Input], older: dict) -> dict[str, dict]:
    """Both releases must agree but where it is known that they do not; what the other has in those places."""
    kind, found = kind_of(name), {}
    for given in inputs:
        row, say = older["inputs"][given.name], f"  {name} {given.name}:"
        seen = []
        for form in ("own", "slow", "fast"):
            theirs = row[form]
            if theirs.get("classes", theirs) in seen:
                continue
            seen.append(theirs.get("classes", theirs))
            if "error" in theirs:
                print(say, f"the older processor fails: {theirs['error']}")
                assert kind == "qwen3_vl" and given.video  # it takes the spatial merge for the temporal one
                continue
            classes, theirs = theirs["classes"], theirs["given"]
            same = theirs["ids"] == given.ids
            print(say, *classes, "the same ids," if same else "OTHER IDS,",
                  "no pixels" if given.pixels is None else f"pixels: {far(theirs['pixels'], given.pixels)}")
            # The slow processor of Qwen overlooks `size`; nobody gets it without asking.
            wrong = f"{name} {given.name}: the older processor gives {theirs['prompt']!r}"
            assert same or form == "slow" and kind == "qwen3_vl", wrong
            if kind.startswith("qwen") and form == "own" and given.pixels is not None:
                assert torch.equal(theirs["pixels"], given.pixels), f"{name} {given.name}: other pixels"
        other = copy.deepcopy(model)
        if "patches" in row:
            patches = patch_positions(model, given)
            found[given.name] = {"patch_positions": patches, "patch_positions_4_57": row["patches"]}
            table = other.model.vision_model.embeddings.position_embedding.weight
            back = torch.empty(len(patches), dtype=torch.long)
            back[torch.tensor(patches)] = torch.tensor(row["patches"])
            table.data = table.data[back]
        if "tower" in row:
            tower, deep = tower_of(other, given)
            gap = difference([row["tower"], *row["deep"]], [tower, *deep])
            print(say, f"tower within {gap:.1e}")
            assert gap < ROUNDING
        gap = difference([row["logits"]], [logits_of(other, given)])
        print(say, f"logits within {gap:.1e}")
        assert gap < ROUNDING
        if kind == "qwen2_5_vl":
            cut = positions_of(model.config, given, "whole seconds")
            assert torch.equal(row["positions"], cut), f"{name} {given.name}: the older positions"
            if given.video:
                assert not torch.equal(cut, positions_of(model.config, given)) or given.name == "video8"
                found[given.name] = {"positions_4_57": cut.tolist()}
        elif kind == "qwen3_vl":
            assert torch.equal(row["positions"], positions_of(model.config, given))
    return found


@torch.no_grad()
def disagreements(name: str, model: torch.nn.Module, given: Input, processor, pictures: Path) -> dict:
    """What transformers 5 itself does where these goldens follow 4.57, and that it agrees everywhere else."""
    kind, found = kind_of(name), {}
    if not kind.startswith("qwen"):
        return found
    expected = positions_of(model.config, given)
    if given.pixels is None:
        gap = difference([model(input_ids=torch.tensor([given.ids]), use_cache=False).logits[0]],
                         [logits_of(model, given)])
        assert gap == 0.0, f"{name} {given.name}: text has other positions ({gap})"
        return found
    grids = {"video_grid_thw" if given.video else "image_grid_thw": given.grids}
    if kind == "qwen2_5_vl" and given.video:
        grids["second_per_grid_ts"] = given.seconds
    newest, _ = model.model.get_rope_index(torch.tensor([given.ids]), mm_token_type_ids=given.types, **grids)
    if kind == "qwen2_5_vl" and given.video:
        rule = positions_of(model.config, given, "height and width")
        assert torch.equal(newest[:, 0], rule) and not torch.equal(rule, expected)
        found["positions_5"] = rule.tolist()
    else:
        assert torch.equal(newest[:, 0], expected)
    if kind == "qwen3_vl" and given.video:
        outer = Input(processor, kind, given.name, pictures, outer=True)
        assert outer.ids != given.ids
        found["ids_5"] = outer.ids
    return found


# --- one checkpoint ---


def write_newest(model, name: str, tokenizer: Tokenizer, folder: Path) -> None:
    """The folder as transformers 5 writes it."""
    kind = kind_of(name)
    with tempfile.TemporaryDirectory() as scratch:
        shown.write_tokenizer(tokenizer, kind, Path(scratch))
        words = AutoTokenizer.from_pretrained(scratch)
    processor_of(name, words, shown.TEMPLATES[kind]).save_pretrained(folder)
    copy.deepcopy(model).to(getattr(torch, CHECKPOINTS[name]["stored"])).save_pretrained(folder)


def write_public(model, name: str, tokenizer: Tokenizer, folder: Path, shards: int = 1) -> None:
    """The folder as the public checkpoints of the family are: older names, older settings, several processor files."""
    kind, stored = kind_of(name), CHECKPOINTS[name]["stored"]
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(scratch)
        config = json.loads((Path(scratch) / "config.json").read_text())
    config = public_config(kind, config, stored)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    ends = [tokenizer.token_to_id(shown.end_of_turn(kind)), tokenizer.token_to_id("<|endoftext|>")]
    settings = {"do_sample": False, "eos_token_id": ends, "pad_token_id": ends[1]}
    (folder / "generation_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    state = {key: value.to(getattr(torch, stored)) for key, value in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight")
    tensors = {public_names(kind, key): value.contiguous() for key, value in sorted(state.items())}
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        names = sorted(tensors)
        total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        index, sizes = {}, 0
        for word in names:
            index[word] = min(sizes * shards // total, shards - 1)
            sizes += tensors[word].numel() * tensors[word].element_size()
        files = [f"model-{shard + 1:05}-of-{shards:05}.safetensors" for shard in range(shards)]
        for shard, file in enumerate(files):
            part = {word: tensors[word] for word in names if index[word] == shard}
            assert part
            save_file(part, folder / file, metadata={"format": "pt"})
        weights = {"metadata": {"total_size": total}, "weight_map": {word: files[index[word]] for word in names}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(weights, indent=2) + "\n")
    shown.write_tokenizer(tokenizer, kind, folder)
    for file, settings in public_processor(name).items():
        (folder / file).write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": shown.TEMPLATES[kind]}, indent=2) + "\n")


def reload(folder: Path, changes: dict | None = None) -> torch.nn.Module:
    config = AutoConfig.from_pretrained(folder)
    for path, value in (changes or {}).items():
        *owners, key = path.split(".")
        target = config
        for owner in owners:
            target = getattr(target, owner)
        setattr(target, key, copy.deepcopy(value))
    return AutoModelForImageTextToText.from_pretrained(folder, config=config, dtype=torch.float32).eval()


def make(name: str, folder: Path, pictures: Path, python: str) -> None:
    spec, kind = CHECKPOINTS[name], kind_of(name)
    tokenizer = shown.make_tokenizer(kind)
    model = fresh_model(name, tokenizer)
    newest, public = folder.parent / "newest", folder.parent / "public"
    newest.mkdir()
    public.mkdir()
    randomise(model, spec["seed"], spec["stored"])
    write_newest(model, name, tokenizer, newest)
    write_public(model, name, tokenizer, public, spec.get("shards", 1))
    form = public if name.endswith("_b") else newest

    names = [key for key in shown.INPUTS if kind != "idefics3" or not key.startswith("video")]
    processor = AutoProcessor.from_pretrained(form)
    inputs = [Input(processor, kind, key, pictures) for key in names]
    for other in (newest, public):
        for given in inputs:
            again = Input(AutoProcessor.from_pretrained(other), kind, given.name, pictures)
            assert again.ids == given.ids, f"{name} {given.name}: the two forms give other ids"
            assert given.pixels is None or torch.equal(again.pixels, given.pixels), f"{name} {given.name}: other pixels"

    for seed in range(spec["seed"], spec["seed"] + 400):
        randomise(model, seed, spec["stored"])
        answers = []
        for given in inputs:
            answers.append(greedy(model, given))
            if not good(answers):
                break
        else:
            break
    else:
        raise SystemExit(f"{name}: no seed without near ties; change the scales")
    for path in (newest, public):
        shutil.rmtree(path)
        path.mkdir()
    write_newest(model, name, tokenizer, newest)
    write_public(model, name, tokenizer, public, spec.get("shards", 1))

    expected = [logits_of(model, given) for given in inputs]
    for other in (newest, public):
        again = difference([logits_of(reload(other), given) for given in inputs], expected)
        assert again == 0.0, f"{name}: {other.name} holds another model ({again})"
    reference = reload(form)
    if spec["stored"] == "float32":
        rounded = copy.deepcopy(reference).to(torch.bfloat16).float()
        assert difference([logits_of(rounded, given) for given in inputs], expected) > 10 * ROUNDING

    for mistake, wrong in spec["mistakes"].items():
        if callable(wrong):
            broken = reload(form)
            wrong(broken)
        else:
            broken = reload(form, wrong)
        effect = difference([logits_of(broken, given) for given in inputs], expected)
        assert effect > SMALLEST_EFFECT, f"{name}: nobody would notice a wrong {mistake} ({effect})"
        print(f"  {name}: a wrong {mistake} moves the logits by {effect:.2f}")

    if kind == "qwen2_5_vl":
        for rule in ("whole seconds", "height and width"):
            wrong = [logits_of(reference, given, (), positions_of(reference.config, given, rule)) for given in inputs]
            effect = difference(wrong, expected)
            assert effect > SMALLEST_EFFECT, f"{name}: nobody would notice positions by {rule} ({effect})"
            print(f"  {name}: positions by {rule} move the logits by {effect:.2f}")

    # Other orders of summation must stay far below the tolerance of the comparison (1e-3).
    double = reload(form).double()
    rounding = difference([logits_of(double, given) for given in inputs], expected)
    assert rounding < ROUNDING, f"{name}: float32 is {rounding} from float64; lower the scales"

    older = compare(name, reference, inputs, ask_older(python, kind, public, pictures, inputs, reference.config))

    vocabulary = model.config.text_config.vocab_size
    width = min(model.config.text_config.hidden_size, vocabulary)
    order = torch.randperm(vocabulary, generator=torch.Generator().manual_seed(seed)).tolist()
    first = [0, *sorted({model.config.image_token_id, vocabulary - 1})]
    columns = sorted(first + [column for column in order if column not in first][: width - len(first)])
    rows, tensors = [], {}
    for given, logits in zip(inputs, expected, strict=True):
        answer, gap = greedy(reference, given)
        positions = positions_of(reference.config, given)
        row = {
            "name": given.name, "parts": shown.described(given.parts), "system": given.system,
            "messages": given.messages, "prompt": given.prompt, "ids": given.ids, "greedy": answer,
            "smallest_gap": round(gap, 4), "grid": None if given.grids is None else given.grids.tolist(),
            "rows_cols": given.rows_cols, "positions": None if positions is None else positions.tolist(),
        }
        tensors[f"logits.{given.name}"] = logits[:, columns].contiguous()
        tensors[f"last.{given.name}"] = logits[-1].contiguous()
        if given.pixels is not None:
            pixels = given.pixels if kind.startswith("qwen") else given.pixels[0]
            raw = np.ascontiguousarray(pixels.numpy(), dtype="<f4").tobytes()
            row["pixels_sha256"] = hashlib.sha256(raw).hexdigest()
            row["pixels_shape"] = list(pixels.shape)
            tensors[f"levels.{given.name}"] = given.levels(processor)
            tower, deep = tower_of(reference, given)
            tensors[f"tower.{given.name}"] = tower.contiguous()
            for index, layer in enumerate(deep):
                tensors[f"deep.{given.name}.{index}"] = layer.contiguous()
        other = disagreements(name, reference, given, processor, pictures) | older.get(given.name, {})
        if other:
            row["disagreement"] = other
        rows.append(row)

    shutil.copytree(form, folder)
    golden = {
        "made_with": {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]},
        "seed": seed, "columns": columns, "inputs": rows,
    }
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    save_file(tensors, folder / "golden.safetensors")
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    print(f"{name}: seed {seed}, {sum(sizes.values()) / 1024:.0f} KB, golden.safetensors "
          f"{sizes['golden.safetensors'] / 1024:.0f} KB, spread {float(torch.cat(expected).std()):.1f}, gaps "
          f"{[row['smallest_gap'] for row in rows]}, tokens {[len(row['ids']) for row in rows]}, "
          f"float32 to float64 {rounding:.1e}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", type=Path, help="the folder of models/ and vision/")
    arguments.add_argument("--older", required=True, metavar="PYTHON", help="an interpreter with transformers 4.57.6")
    arguments.add_argument("--only", nargs="*", choices=CHECKPOINTS, help="these checkpoints alone")
    options = arguments.parse_args()
    torch.set_num_threads(1)  # the same sums in the same order everywhere
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    pictures = options.data / "vision"
    shown.write_pictures(pictures)
    for name in options.only or CHECKPOINTS:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / name
            make(name, folder, pictures.resolve(), options.older)
            target = options.data / "models" / name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)


if __name__ == "__main__":
    main()
