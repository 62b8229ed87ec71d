"""Writes what torchvision makes of pictures at other sizes, and transformers of their levels: golden.json.

    python resize.py OUTPUT_FOLDER

Made with torch 2.15.0, torchvision 0.29.2 and transformers 5.23.0, on a CPU with AVX2. The pictures come from a formula
(`picture`), so that only results are stored: small ones in hex, large ones as the SHA-256 of their RGB bytes. The floats
of all levels (little-endian, red first) are a SHA-256 too.

    python resize.py --pillow

prints by how many levels Pillow's own `Image.resize` differs from torchvision, which rounds its weights to 16 bits. (It
differs by far more where the width grows and the height shrinks: there Pillow begins with the columns.)
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional
from transformers import Qwen2VLVideoProcessor

FILTERS = {1: InterpolationMode.LANCZOS, 2: InterpolationMode.BILINEAR, 3: InterpolationMode.BICUBIC}

# Width and height, before and after. A result of one pixel is not among them: it trips an assertion of torch 2.15.
SMALL = [
    (1, 1, 3, 2),
    (2, 3, 1, 2),
    (1, 7, 4, 3),
    (9, 1, 4, 5),
    (5, 4, 5, 9),
    (5, 4, 11, 4),
    (8, 8, 4, 4),
    (7, 5, 16, 13),
    (40, 30, 12, 11),
    (3, 60, 5, 7),
]
LARGE = [
    (333, 257, 700, 129),
    (100, 75, 403, 301),
    (1500, 7, 20, 9),
    (5, 1200, 70, 13),
    (300, 200, 297, 203),
]
# As models ask for them, with their filters.
REAL = [
    (1280, 720, 644, 364, [3]),
    (1280, 720, 512, 288, [1]),
    (512, 288, 512, 512, [1]),
    (640, 360, 448, 448, [2]),
]
CLIP_MEAN, CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
LEVELS = [
    (CLIP_MEAN, CLIP_STD, 1 / 255, True),
    ([0.5] * 3, [0.5] * 3, 1 / 255, True),
    ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225], 0.00392156862745098, True),
    (CLIP_MEAN, CLIP_STD, 1 / 127.5, True),
    (CLIP_MEAN, CLIP_STD, None, True),
    (CLIP_MEAN, CLIP_STD, 1 / 255, False),
    (CLIP_MEAN, CLIP_STD, None, False),
]


def picture(width, height, sharp):
    """Noise: whole levels, or black and white."""
    i = np.arange(width * height * 3, dtype=np.uint64)
    noise = (i * np.uint64(2654435761) % np.uint64(1 << 32)) >> np.uint64(11)
    noise = (noise * noise >> np.uint64(7)) % np.uint64(256)
    levels = np.where(noise > 127, 255, 0) if sharp else noise
    return levels.astype(np.uint8).reshape(height, width, 3)


def resize(rgb, width, height, filter):
    # Planes that lie one behind the other, as a processor passes them.
    planes = torch.from_numpy(rgb).permute(2, 0, 1).contiguous()
    planes = functional.resize(planes, [height, width], interpolation=FILTERS[filter], antialias=True)
    return planes.permute(1, 2, 0).contiguous().numpy()


def pillow():
    for filter in FILTERS:
        most, differ, total = 0, 0, 0
        for width, height, new_width, new_height, _ in REAL:
            for sharp in (False, True):
                rgb = picture(width, height, sharp)
                here = np.asarray(Image.fromarray(rgb).resize((new_width, new_height), filter)).astype(int)
                apart = abs(here - resize(rgb, new_width, new_height, filter))
                most, differ, total = max(most, apart.max()), differ + (apart > 0).sum(), total + apart.size
        print(f"{FILTERS[filter].value}: at most {most} levels, {differ / total:.3%} of all bytes differ")


def levels(mean, std, rescale, normalise):
    bytes = torch.arange(256, dtype=torch.uint8).repeat(3, 1).reshape(1, 3, 256, 1)
    floats = Qwen2VLVideoProcessor().rescale_and_normalize(
        bytes, rescale is not None, rescale, normalise, tuple(mean), tuple(std)
    )
    return floats.to(torch.float32).numpy().astype("<f4").tobytes()


def main():
    if sys.argv[1] == "--pillow":
        return pillow()
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    golden = {"pictures": [], "levels": []}
    for *sizes, filters in [(*sizes, FILTERS) for sizes in SMALL + LARGE] + REAL:
        for filter in filters:
            for sharp in (False, True) if filters is FILTERS else (True,):
                width, height, new_width, new_height = sizes
                data = resize(picture(width, height, sharp), new_width, new_height, filter).tobytes()
                entry = {"size": [width, height], "sharp": sharp, "filter": filter, "new": [new_width, new_height]}
                if tuple(sizes) in SMALL:
                    entry["rgb"] = data.hex()
                else:
                    entry["sha256"] = hashlib.sha256(data).hexdigest()
                golden["pictures"].append(entry)
    for mean, std, rescale, normalise in LEVELS:
        digest = hashlib.sha256(levels(mean, std, rescale, normalise)).hexdigest()
        golden["levels"].append(
            {"mean": mean, "std": std, "rescale": rescale, "normalise": normalise, "sha256": digest}
        )
    lines = [f' "{name}": [\n  ' + ",\n  ".join(map(json.dumps, golden[name])) + "\n ]" for name in golden]
    (out / "golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
