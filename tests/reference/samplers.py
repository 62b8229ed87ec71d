"""Writes tests/data/media/samplers.json: the frames that the reference programs choose.

Runs the real code: numpy, `sample_frames` of the video processors of transformers, and `smart_nframes` of
qwen-vl-utils with torch.linspace. Usage:

    python samplers.py FOLDER_WITH_QWEN_VL_UTILS OUTPUT.json

Made with numpy 2, torch 2.15.0 (CPU, x86-64 with AVX2), transformers 5.23.0 (4.57.6 gives the same), qwen-vl-utils
0.0.14. A list of up to 6 numbers is written out; a longer one as [-1, count, first, last, sum, checksum], where the
checksum is sum((position + 1) * number) modulo 2^32.

Where a reference refuses a video that is too short, all its frames are expected; where torch.arange goes one step too
far, by its rounding, and asks for a frame after the last, that one is left out.
"""

import ast
import importlib.abc
import importlib.util
import json
import math
import random
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any, Dict, Union
from unittest.mock import MagicMock

import numpy as np
import torch

# The processors need torchvision for pixels only: where it is not installed, an empty one will do for sampling.
if importlib.util.find_spec("torchvision") is None:

    class Nothing(types.ModuleType):
        __version__ = "0.30.0"
        __path__ = []

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return MagicMock()

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name, path=None, target=None):
            return ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "torchvision" else None

        def create_module(self, spec):
            return Nothing(spec.name)

        def exec_module(self, module):
            pass

    sys.meta_path.append(Finder())

from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
from transformers.models.smolvlm.video_processing_smolvlm import SmolVLMVideoProcessor
from transformers.video_utils import VideoMetadata


def smart_nframes_of(folder):
    """`smart_nframes` alone: the rest of its module reads videos and needs torchvision."""
    source = open(f"{folder}/qwen_vl_utils/vision_process.py").read()
    names = ("round_by_factor", "ceil_by_factor", "floor_by_factor", "smart_nframes")
    tree = ast.parse(source)
    constants = ("FPS", "FRAME_FACTOR", "FPS_MIN_FRAMES", "FPS_MAX_FRAMES")
    keep = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name in names)
        or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in constants)
    ]
    scope = {"math": math, "Any": Any, "Dict": Dict, "Union": Union, "logger": types.SimpleNamespace(warning=print)}
    exec(compile(ast.Module(keep, []), "vision_process.py", "exec"), scope)
    scope["logger"].warning = lambda *a: None
    return scope["smart_nframes"]


def internvl(total, count):
    """`get_index` of the example on InternVL's model cards, without bounds."""
    seg = float(total - 1) / count
    return [int(0 + (seg / 2) + np.round(seg * i)) for i in range(count)]


def shorten(numbers):
    numbers = [int(n) for n in numbers]
    if len(numbers) <= 6:
        return numbers
    check = sum((i + 1) * n for i, n in enumerate(numbers)) % (1 << 32)
    return [-1, len(numbers), numbers[0], numbers[-1], sum(numbers), check]


def main():
    smart_nframes = smart_nframes_of(sys.argv[1])
    random.seed(20)
    rates = [24.0, 25.0, 30.0, 60.0, 24000 / 1001, 30000 / 1001, 60000 / 1001, 15.0, 12.5, 7.3, 1.0, 10.0]
    totals = [1, 2, 3, 4, 5, 7, 8, 9, 10, 16, 17, 31, 60, 100, 121, 250, 299, 300, 301, 719, 1000, 1537, 4501, 9000]
    totals += [random.randint(10, 3000) for _ in range(24)] + [random.randint(3000, 200000) for _ in range(12)]

    uniform, midpoint = [], []
    for total in totals:
        for count in {1, 2, 8, random.randint(3, 64), random.randint(64, 800)}:
            uniform.append([total, count, shorten(np.linspace(0, total - 1, count, dtype=int))])
            midpoint.append([total, count, shorten(internvl(total, count))])

    qwen2, qwen3, smol = Qwen2VLVideoProcessor(), Qwen3VLVideoProcessor(), SmolVLMVideoProcessor()
    model = {"qwen_vl_utils": [], "qwen2_vl": [], "qwen2_vl_frames": [], "qwen3_vl": [], "qwen3_vl_frames": [], "smolvlm": []}
    for total in totals:
        for rate in random.sample(rates, 3):
            meta = VideoMetadata(total_num_frames=total, fps=rate, duration=total / rate)
            at = rates.index(rate)
            fps = random.choice([2.0, 2.0, 2.0, 1.0, 0.5, 3.0, 4.0])
            try:
                count = smart_nframes({"fps": fps}, total, rate)
                picked = torch.linspace(0, total - 1, count).round().long().tolist()
                model["qwen_vl_utils"].append([total, at, fps, shorten(picked)])
            except ValueError:
                model["qwen_vl_utils"].append([total, at, fps, list(range(total))])
            try:
                picked = [n for n in qwen2.sample_frames(meta, fps=fps) if n < total]
                model["qwen2_vl"].append([total, at, fps, shorten(picked)])
            except (ValueError, ZeroDivisionError):
                model["qwen2_vl"].append([total, at, fps, list(range(total))])
            frames = random.randint(2, min(total, 768)) if total > 2 else 2
            if total >= frames + 1:
                picked = [n for n in qwen2.sample_frames(meta, num_frames=frames) if n < total]
                model["qwen2_vl_frames"].append([total, at, frames, shorten(picked)])
            model["qwen3_vl"].append([total, at, fps, shorten(qwen3.sample_frames(meta, fps=fps))])
            saved, qwen3.fps = qwen3.fps, None
            model["qwen3_vl_frames"].append([total, at, frames, shorten(qwen3.sample_frames(meta, num_frames=frames))])
            qwen3.fps = saved
            most = random.choice([64, 64, 32, 8])
            fps = random.choice([1.0, 1.0, 0.5, 2.0])
            picked = smol.sample_frames(meta, num_frames=most, fps=fps, skip_secs=1)
            model["smolvlm"].append([total, at, fps, most, shorten(picked)])

    out = {"rates": rates, "uniform": uniform, "midpoint": midpoint, **model}
    with open(sys.argv[2], "w") as file:
        file.write("{\n")
        file.write(",\n".join(f'"{key}": {json.dumps(value, separators=(",", ":"))}' for key, value in out.items()))
        file.write("\n}\n")


main()
