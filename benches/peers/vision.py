#!/usr/bin/env python3
"""Models that see, at the sizes of public checkpoints: preprocessing, memory and parity against transformers.

    pip install torch torchvision transformers num2words
    cargo build --release
    python benches/peers/vision.py --binary target/release/capjudge [--what preprocess,memory,parity] [--keep DIR]

The checkpoints are made here, with random weights and the real classes of transformers, in the files that the public
checkpoints have: SmolVLM2-256M whole, Qwen2.5-VL-3B and Qwen3-VL-2B with the whole tower, few layers of the decoder and
a small vocabulary. The settings of the processors are the public ones. `--keep` keeps them for the next time.

preprocess   8 frames of 1280 × 720 pixels, as a video and as 8 images: from decoded bytes to `pixel_values`, on two
             threads. capjudge (`generate --only-pixels`) and the processor of transformers, which gets the frames as an
             array, as tensors or as PIL's pictures, take turns; a turn is one call behind another that does not
             count, and the first round is dropped. The ratio is to the fastest of the forms, round by round:
             above 1, capjudge is faster.
memory       the largest resident set (VmHWM) to load SmolVLM2-256M and read a few words, or two frames as well, against
             the size of the weights. Pages of a mapped file count in it, once, if they were ever read. transformers
             reads the words only, in the type of the file; beside it what interpreter and packages took before.
parity       a video through both: prompt ids, the 20 highest logits of the first step, 16 greedy tokens. transformers
             in float32 from the same file, with the positions of tests/reference/vision_run.py.
cost         seconds and memory that capjudge takes for the frames of `preprocess`, with few layers of Qwen's towers:
             the memory that a layer works in is the next one's.

Needs an idle machine, 8 GB of memory and, with all of it, 9 GB on disk.
"""

import argparse
import copy
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import turns

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "reference"))

SMOL = dict(
    seed=1, words=64,
    config=dict(
        scale_factor=4, tie_word_embeddings=False,
        text_config=dict(
            model_type="llama", vocab_size=49280, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
            num_attention_heads=9, num_key_value_heads=3, head_dim=64, max_position_embeddings=8192, rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, tie_word_embeddings=False,
        ),
        vision_config=dict(
            hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, image_size=512,
            patch_size=16, layer_norm_eps=1e-6, hidden_act="gelu_pytorch_tanh",
        ),
    ),
    image=dict(size={"longest_edge": 2048}, max_image_size={"longest_edge": 512}),
    video=dict(size={"longest_edge": 2048}, max_image_size={"longest_edge": 512}),
)
SHAPES = {
    "smolvlm_f32": {**SMOL, "stored": "float32"},
    "smolvlm_bf16": {**SMOL, "stored": "bfloat16"},
    # 2 of 36 layers of the decoder.
    "qwen2_5_vl_3b": dict(
        seed=2, stored="bfloat16",
        config=dict(
            tie_word_embeddings=True,
            text_config=dict(
                hidden_size=2048, intermediate_size=11008, num_hidden_layers=2, num_attention_heads=16,
                num_key_value_heads=2, max_position_embeddings=128000, rms_norm_eps=1e-6, max_window_layers=2,
                rope_parameters={"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [16, 24, 24]},
            ),
            vision_config=dict(
                depth=32, hidden_size=1280, intermediate_size=3420, num_heads=16, patch_size=14, spatial_merge_size=2,
                temporal_patch_size=2, tokens_per_second=2, window_size=112, fullatt_block_indexes=[7, 15, 23, 31],
                hidden_act="silu",
            ),
        ),
        image=dict(patch_size=14, merge_size=2, size={"shortest_edge": 3136, "longest_edge": 12845056}),
        video=dict(patch_size=14, merge_size=2, size={"shortest_edge": 3136, "longest_edge": 12845056}),
    ),
    # 4 of 28: three of them get what the tower gives them.
    "qwen3_vl_2b": dict(
        seed=3, stored="bfloat16",
        config=dict(
            tie_word_embeddings=True,
            text_config=dict(
                hidden_size=2048, intermediate_size=6144, num_hidden_layers=4, num_attention_heads=16,
                num_key_value_heads=8, head_dim=128, max_position_embeddings=262144, rms_norm_eps=1e-6,
                rope_parameters={
                    "rope_type": "default", "rope_theta": 5000000.0, "mrope_section": [24, 20, 20],
                    "mrope_interleaved": True,
                },
            ),
            vision_config=dict(
                depth=24, hidden_size=1024, intermediate_size=4096, num_heads=16, patch_size=16, spatial_merge_size=2,
                temporal_patch_size=2, num_position_embeddings=2304, deepstack_visual_indexes=[5, 11, 17],
                hidden_act="gelu_pytorch_tanh",
            ),
        ),
        image=dict(
            patch_size=16, merge_size=2, size={"shortest_edge": 65536, "longest_edge": 16777216},
            image_mean=[0.5] * 3, image_std=[0.5] * 3,
        ),
        video=dict(patch_size=16, merge_size=2, size={"shortest_edge": 4096, "longest_edge": 25165824}),
    ),
}
# For `cost`: what one layer takes, each of them does.
SHAPES["qwen2_5_vl_thin"] = copy.deepcopy(SHAPES["qwen2_5_vl_3b"])
SHAPES["qwen2_5_vl_thin"]["config"]["vision_config"].update(depth=2, fullatt_block_indexes=[1])
SHAPES["qwen3_vl_thin"] = copy.deepcopy(SHAPES["qwen3_vl_2b"])
SHAPES["qwen3_vl_thin"]["config"]["vision_config"].update(depth=3, deepstack_visual_indexes=[0, 1, 2])
TITLES = {
    "smolvlm_f32": "SmolVLM2-256M, f32", "smolvlm_bf16": "SmolVLM2-256M, bf16", "qwen2_5_vl_3b": "Qwen2.5-VL-3B",
    "qwen3_vl_2b": "Qwen3-VL-2B", "qwen2_5_vl_thin": "Qwen2.5-VL-3B, 2 layers of the tower",
    "qwen3_vl_thin": "Qwen3-VL-2B, 3 layers of the tower",
}
SEEING = ["smolvlm_f32", "qwen2_5_vl_3b", "qwen3_vl_2b"]
# Frames for `preprocess` and `cost`; frames for `parity`, fewer of them where each is brought to one size anyway.
LARGE = dict(size=(1280, 720), count=8)
SMALL = {"smolvlm": dict(size=(448, 252), count=2), "qwen": dict(size=(448, 252), count=8)}
QUESTION = "What happens?"
GREEDY = 16
CALLS = 1
WHAT = ["preprocess", "memory", "parity", "cost"]


# --- checkpoints and frames ---


def checkpoint(name: str, root: Path) -> Path:
    """The folder of a checkpoint, made if it is not there yet."""
    folder = root / name
    if (folder / "done").exists():
        return folder
    import vision_checkpoints
    import vision_inputs
    import vision_models

    print(f"making {TITLES[name]}", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    vision_checkpoints.CHECKPOINTS[name] = copy.deepcopy(SHAPES[name])
    tokenizer = vision_inputs.make_tokenizer(vision_models.kind_of(name))
    model = vision_models.fresh_model(name, tokenizer)
    vision_models.randomise(model, SHAPES[name]["seed"], SHAPES[name]["stored"])
    vision_models.write_public(model, name, tokenizer, folder)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    if "video_sampling" in settings:  # which `size` overrules
        settings["video_sampling"]["video_size"]["longest_edge"] = 512
        (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "done").touch()
    return folder


def frames(root: Path, size: tuple[int, int], count: int) -> Path:
    """A folder of frames: gradients, edges and noise."""
    import vision_inputs
    from PIL import Image

    folder = root / f"frames-{size[0]}x{size[1]}-{count}"
    if not folder.exists():
        folder.mkdir(parents=True)
        for index in range(count):
            picture = Image.fromarray(vision_inputs.picture(*size, index, index))
            picture.save(folder / f"{index:03}.png", compress_level=1)
    return folder


def weights(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


# --- the two sides ---


def capjudge(options: argparse.Namespace, folder: Path, *words: str) -> dict:
    command = [str(options.binary), "generate", "--model", str(folder), "--text", QUESTION, "--json", *words]
    command += ["--temperature", "0", "--threads", str(options.threads), "--no-frame-cache"]
    return json.loads(turns.output(command))


def as_video(pictures: Path) -> list[str]:
    return ["--frames", str(pictures), "--image-fps", "1"]


def as_images(pictures: Path) -> list[str]:
    return [word for path in sorted(pictures.glob("*.png")) for word in ("--image", str(path))]


def in_python(*words: object) -> dict:
    """A part of this script in a process of its own."""
    return turns.worker(__file__, *words)


def quiet(threads: int) -> None:
    import torch
    import transformers

    torch.set_num_threads(threads)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    print(f"\n{title}\n")
    for row in [heads, ["---"] * len(heads), *rows]:
        print("| " + " | ".join(row) + " |")
    sys.stdout.flush()


# --- preprocessing ---


def processors(folder: Path, pictures: Path) -> dict[str, dict]:
    """For videos and images: the processor's call with the frames in each of the forms that people have them in."""
    import numpy as np
    import torch
    from PIL import Image
    from transformers import AutoImageProcessor, AutoVideoProcessor
    from transformers.video_utils import VideoMetadata

    pil = [Image.open(path).convert("RGB") for path in sorted(pictures.glob("*.png"))]
    array = np.stack([np.asarray(picture) for picture in pil])
    tensor = torch.from_numpy(array).permute(0, 3, 1, 2).contiguous()
    count, (width, height) = len(pil), pil[0].size
    video, image = AutoVideoProcessor.from_pretrained(folder), AutoImageProcessor.from_pretrained(folder)

    def of_video(given):
        about = VideoMetadata(
            total_num_frames=count, fps=1.0, duration=float(count), frames_indices=list(range(count)), width=width,
            height=height,
        )
        return video(videos=[given], video_metadata=[about], do_sample_frames=False, return_tensors="pt")

    def of_images(given):
        return image([given] if "smol" in folder.name else given, return_tensors="pt")

    return {
        "video": {"array": lambda: of_video(array), "tensor": lambda: of_video(tensor)},
        "images": {"array": lambda: of_images(list(array)), "PIL": lambda: of_images(pil)},
    }


def preprocess(options: argparse.Namespace, root: Path) -> list[dict]:
    quiet(options.threads)
    pictures = frames(root, **LARGE)
    rows, results = [], []
    for name in SEEING:
        folder = checkpoint(name, root)
        for way, forms in processors(folder, pictures).items():
            words = as_video(pictures) if way == "video" else as_images(pictures)
            taken = {"capjudge": []} | {form: [] for form in forms}

            def ours() -> float:
                report = capjudge(options, folder, *words, "--only-pixels", str(1 + CALLS))
                return statistics.median(report["timings"]["pixels_seconds"][1:])

            def theirs(form: str) -> float:
                seconds = []
                for _ in range(1 + CALLS):
                    start = time.perf_counter()
                    batch = forms[form]()
                    seconds.append(time.perf_counter() - start)
                    del batch
                return statistics.median(seconds[1:])

            for number in range(options.rounds + 1):
                for side in turns.order(list(taken), number):
                    seconds = ours() if side == "capjudge" else theirs(side)
                    if number > 0:
                        taken[side].append(seconds)
            medians = {side: statistics.median(times) for side, times in taken.items()}
            fastest = min(forms, key=medians.get)
            ratios = [theirs / ours for ours, theirs in zip(taken["capjudge"], taken[fastest])]
            results.append({"model": name, "way": way, "seconds": taken, "fastest": fastest, "ratios": ratios})
            rows.append([
                TITLES[name].split(",")[0], way, f"{medians['capjudge'] * 1e3:.0f} ms",
                ", ".join(f"{medians[form] * 1e3:.0f} ms ({form})" for form in forms),
                f"{statistics.median(ratios):.1f}", f"{min(ratios):.1f} to {max(ratios):.1f}",
            ])
            print(*rows[-1], file=sys.stderr, flush=True)
    table(
        f"8 frames of 1280 × 720, {options.rounds} rounds, {options.threads} threads",
        ["model", "as", "capjudge", "transformers", "ratio to the fastest form", "rounds"], rows,
    )
    return results


# --- memory ---


def worker_memory(folder: str, threads: str) -> dict:
    """What transformers takes to load a model and read a few words."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor  # noqa: F401  what a user imports

    quiet(int(threads))
    before = turns.peak_memory()
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype="auto").eval()
    with torch.no_grad():
        model(input_ids=torch.arange(10, 20)[None], use_cache=False)
    return {"peak_memory_bytes": turns.peak_memory(), "interpreter_bytes": before, "dtype": str(model.dtype)}


def memory(options: argparse.Namespace, root: Path) -> list[dict]:
    rows, results = [], []
    pictures = frames(root, **SMALL["smolvlm"])
    for name in ("smolvlm_f32", "smolvlm_bf16"):
        folder = checkpoint(name, root)
        size = weights(folder)
        sides = {
            "capjudge, two frames":
                lambda: capjudge(options, folder, *as_video(pictures), "--max-tokens", "1")["timings"],
            "capjudge": lambda: capjudge(options, folder, "--max-tokens", "1")["timings"],
            "capjudge --quant q8_0":
                lambda: capjudge(options, folder, "--max-tokens", "1", "--quant", "q8_0")["timings"],
            "transformers": lambda: in_python("memory", folder, options.threads),
        }
        for side, run in sides.items():
            found = run()
            most = found["peak_memory_bytes"]
            results.append({"model": name, "side": side, "weights": size, **found})
            without = f"{found['interpreter_bytes'] / 2**20:.0f} MB" if "interpreter_bytes" in found else "—"
            rows.append([
                TITLES[name], f"{size / 2**20:.0f} MB", side, f"{most / 2**20:.0f} MB", f"{most / size:.2f}", without,
            ])
    table(
        "Largest resident set to load a model and read a few words",
        ["model", "weights", "", "peak", "peak to weights", "of it before the model"], rows,
    )
    return results


# --- parity ---


def remembered(owner: object, name: str) -> None:
    """Makes a method compute once, for it is asked the same thing for every token."""
    method, found = getattr(owner, name), []

    def once(*given, **named):
        if not found:
            found.append(method(*given, **named))
        return copy.copy(found[0])

    setattr(owner, name, once)


def worker_parity(folder: str, kind: str, pictures: str, threads: str) -> dict:
    """What transformers makes of a folder of frames."""
    import torch
    import vision_inputs as shown
    import vision_run
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor

    quiet(int(threads))
    place = Path(pictures)
    paths = sorted(place.glob("*.png"))
    count, size = len(paths), Image.open(paths[0]).size
    shown.CLIPS[place.name] = dict(
        size=size, fps=1.0, indices=list(range(count)), total=count, duration=float(count)
    )
    shown.INPUTS["asked"] = (None, [{"video": place.name}, {"text": QUESTION}])
    given = vision_run.Input(AutoProcessor.from_pretrained(folder), kind, "asked", place.parent)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    start = time.perf_counter()
    vision_run.tower_of(model, given)
    tower = time.perf_counter() - start
    if kind == "smolvlm":
        remembered(model.model, "get_image_features")
    else:
        remembered(model.model.visual, "forward")
    answer, gaps, first = [], [], None
    for _ in range(GREEDY):
        last = vision_run.logits_of(model, given, answer)[-1]
        first = last if first is None else first
        best = last.topk(2)
        gaps.append(float(best.values[0] - best.values[1]))
        answer.append(int(best.indices[0]))
    return {
        "ids": given.ids, "first": first.tolist(), "greedy": answer, "gaps": gaps, "tower_seconds": tower,
        "pixels": list(given.pixels.shape),
    }


def parity(options: argparse.Namespace, root: Path) -> list[dict]:
    rows, results = [], []
    for name in ["smolvlm_f32", "smolvlm_bf16", "qwen2_5_vl_3b", "qwen3_vl_2b"]:
        folder, kind = checkpoint(name, root), name.rsplit("_", 1)[0]
        shape = SMALL["smolvlm" if kind == "smolvlm" else "qwen"]
        pictures = frames(root, **shape)
        theirs = in_python("parity", folder, kind, pictures, options.threads)
        ours = capjudge(options, folder, *as_video(pictures), "--max-tokens", str(GREEDY), "--ignore-end")
        far = max(abs(value - theirs["first"][token]) for token, value in ours["top"])
        spread = statistics.pstdev(theirs["first"])
        order = sorted(range(len(theirs["first"])), key=lambda token: -theirs["first"][token])[: len(ours["top"])]
        same = sum(1 for _ in zip_equal(ours["ids"], theirs["greedy"]))
        results.append({
            "model": name, "ids_equal": ours["prompt_ids"] == theirs["ids"], "far": far, "spread": spread,
            "top_equal": [token for token, _ in ours["top"]] == order, "greedy_equal": same, "gaps": theirs["gaps"],
            "timings": ours["timings"], "reference_tower_seconds": theirs["tower_seconds"],
        })
        rows.append([
            TITLES[name], f"{shape['count']} of {shape['size'][0]} × {shape['size'][1]}",
            f"{len(theirs['ids'])}, {'equal' if results[-1]['ids_equal'] else 'NOT EQUAL'}",
            f"{far:.1e} (spread {spread:.1f}{'' if results[-1]['top_equal'] else ', another order'})",
            f"{same} of {GREEDY} (smallest lead {min(theirs['gaps']):.3f})",
            f"{ours['timings']['tower_seconds']:.1f} s, {theirs['tower_seconds']:.1f} s",
        ])
        print(*rows[-1], file=sys.stderr, flush=True)
    table(
        "The same video through capjudge and transformers in float32",
        ["model", "frames", "prompt ids", "top 20 logits differ by", "greedy tokens", "tower: capjudge, transformers"],
        rows,
    )
    return results


def zip_equal(ours: list[int], theirs: list[int]):
    """The tokens before the first that differs."""
    for one, other in zip(ours, theirs):
        if one != other:
            return
        yield one


# --- cost ---


def cost(options: argparse.Namespace, root: Path) -> list[dict]:
    pictures = frames(root, **LARGE)
    rows, results = [], []
    for name in ["smolvlm_bf16", "qwen2_5_vl_thin", "qwen3_vl_thin"]:
        folder = checkpoint(name, root)
        found = capjudge(options, folder, *as_video(pictures), "--max-tokens", "1")
        timings, size = found["timings"], weights(folder)
        results.append({"model": name, "weights": size, "shown": found["shown"], "timings": timings})
        more = timings["peak_memory_bytes"] - size
        rows.append([
            TITLES[name], str(timings["prompt_tokens"]), f"{timings['tower_seconds']:.1f} s",
            f"{timings['prompt_seconds']:.1f} s", f"{timings['peak_memory_bytes'] / 2**20:.0f} MB",
            f"{size / 2**20:.0f} MB", f"{more / 2**20:.0f} MB",
        ])
        print(*rows[-1], file=sys.stderr, flush=True)
    table(
        "A video of 8 frames of 1280 × 720 through capjudge",
        ["model", "tokens", "tower", "prompt", "peak", "weights", "peak beyond the weights"], rows,
    )
    return results


def main() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if sys.argv[1:2] == ["--worker"]:
        worker = {"memory": worker_memory, "parity": worker_parity}[sys.argv[2]]
        return print(json.dumps(worker(*sys.argv[3:])))
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", type=Path, required=True, help="the capjudge to measure")
    arguments.add_argument("--what", default=",".join(WHAT), help="some of " + ", ".join(WHAT))
    arguments.add_argument("--rounds", type=int, default=7, help="of `preprocess`, beside the first")
    arguments.add_argument("--threads", type=int, default=2, help="for both")
    arguments.add_argument("--keep", type=Path, metavar="DIR", help="where checkpoints and frames are kept")
    arguments.add_argument("--summary", type=Path, help="write every number here, as JSON")
    options = arguments.parse_args()
    wanted = options.what.split(",")
    if unknown := set(wanted) - set(WHAT):
        arguments.error(f"--what: {', '.join(sorted(unknown))} is none of {', '.join(WHAT)}")
    measures = {"preprocess": preprocess, "memory": memory, "parity": parity, "cost": cost}
    with tempfile.TemporaryDirectory() as scratch:
        root = (options.keep or Path(scratch)).resolve()
        results = {what: measures[what](options, root) for what in WHAT if what in wanted}
    turns.save(options.summary, results)


if __name__ == "__main__":
    main()
