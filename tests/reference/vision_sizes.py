#!/usr/bin/env python3
"""Sizes, counts and words that processors of transformers make of pictures and videos of many sizes.

    pip install torch torchvision transformers num2words
    python tests/reference/vision_sizes.py > tests/data/vision/sizes.json

The functions of the reference are called, with nothing of our own between: `smart_resize` of Qwen2-VL's image processor
(Qwen2.5-VL and Qwen3-VL use it) and of Qwen3-VL's video processor, the sizes and cuts of SmolVLM's image and video
processors (with the settings of tests/data/models/smolvlm_a), `num2words` and `str(timedelta)`. Sizes are drawn with a
fixed seed, and the ones where halves are rounded are among them (70 / 28).
"""

import json
import random
import sys
from datetime import timedelta
from pathlib import Path

import torch
from num2words import num2words
from transformers import AutoProcessor
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize as of_picture
from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize as of_video

MODELS = Path(__file__).parent.parent / "data" / "models"


def or_none(function, *arguments, **settings):
    """What a function gives; None where it refuses."""
    try:
        return list(function(*arguments, **settings))
    except ValueError:
        return None


def main() -> None:
    chance = random.Random(7)
    side = lambda most: int(chance.uniform(1, most ** 0.5) ** 2)  # noqa: E731

    pictures = []
    halves = [(70, 98), (14, 14), (42, 70), (1, 1), (1, 200), (1, 201), (27, 5000), (720, 1280), (1080, 1920), (13, 41)]
    for height, width in halves + [(side(3000), side(3000)) for _ in range(300)]:
        factor, least, most = chance.choice([(28, 3136, 12845056), (28, 3136, 1003520), (32, 65536, 16777216), (8, 64, 900)])
        size = or_none(of_picture, height, width, factor=factor, min_pixels=least, max_pixels=most)
        pictures.append([width, height, factor, least, most, size and size[::-1]])

    videos = []
    for height, width in halves + [(side(2000), side(2000)) for _ in range(300)]:
        count = chance.randint(2, 40)
        factor, least, most = chance.choice([(32, 4096, 25165824), (32, 131072, 786432), (8, 300, 9000)])
        size = or_none(
            of_video, count, height, width, temporal_factor=2, factor=factor, min_pixels=least, max_pixels=most
        )
        videos.append([width, height, count, factor, least, most, size and size[::-1]])

    processor = AutoProcessor.from_pretrained(MODELS / "smolvlm_a")
    cut = []
    for height, width in [(45, 61), (64, 64), (65, 64), (1, 1), (1, 90), (300, 7)] + [
        (side(400), side(400)) for _ in range(60)
    ]:
        image = torch.zeros((3, height, width), dtype=torch.uint8)
        found = processor.image_processor(images=[image], return_row_col_info=True, return_tensors="pt")
        cut.append([width, height, found["rows"][0][0], found["cols"][0][0], found["pixel_values"].shape[1]])

    seconds = [0, 0.99, 1, 59.999, 60, 61.5, 3599, 3600, 86399, 86400, 90061, 172800, 1000000]
    print(json.dumps({
        "pictures": pictures,
        "videos": videos,
        "cut": cut,
        "numbers": {str(n): num2words(n) for n in [*range(1, 130), 200, 201, 999, 1000, 1001, 1100, 1234, 21000, 21020, 110011]},
        "durations": [[second, str(timedelta(seconds=int(second)))] for second in seconds],
        "moments": [[second, f"{int(second // 60):02d}:{int(second % 60):02d}"] for second in seconds],
    }))


if __name__ == "__main__":
    sys.exit(main())
