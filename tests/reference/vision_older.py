"""What an older transformers (4.57) makes of a checkpoint and its inputs; vision_models.py runs it and compares.

    python tests/reference/vision_older.py KIND FOLDER PICTURES OUT

Reads FOLDER, and `NAME.pt` in OUT for each input as the newer one prepared it; writes OUT/older.pt.
"""

import sys
from pathlib import Path

import torch
import transformers
import vision_inputs as shown
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoProcessor
from vision_run import Input, logits_of, patch_positions, tower_of


def processed(folder: Path, kind: str, pictures: Path, name: str, fast: bool | None = None) -> dict:
    """An input as this release's own processor prepares it, or why it cannot."""
    processor = AutoProcessor.from_pretrained(folder)
    if fast is not None:
        processor.image_processor = AutoImageProcessor.from_pretrained(folder, use_fast=fast)
    try:
        given = Input(processor, kind, name, pictures)
    except (IndexError, RuntimeError, ValueError, AssertionError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "classes": [type(processor.video_processor if given.video else processor.image_processor).__name__],
        "given": vars(given),
    }


def main() -> None:
    kind, folder, pictures, out = sys.argv[1], *map(Path, sys.argv[2:])
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    found = {"transformers": transformers.__version__, "inputs": {}}
    for path in sorted(out.glob("*.pt")):
        given = Input.__new__(Input)
        saved = torch.load(path, weights_only=False)
        vars(given).update(saved["given"])
        row = {
            "own": processed(folder, kind, pictures, given.name),
            "slow": processed(folder, kind, pictures, given.name, fast=False),
            "fast": processed(folder, kind, pictures, given.name, fast=True),
            "logits": logits_of(model, given, positions=saved["positions"]),
        }
        if given.pixels is not None:
            row["tower"], row["deep"] = tower_of(model, given)
        if kind.startswith("qwen"):
            grids = {"video_grid_thw" if given.video else "image_grid_thw": given.grids}
            if kind == "qwen2_5_vl":
                grids["second_per_grid_ts"] = given.seconds
            row["positions"] = model.model.get_rope_index(torch.tensor([given.ids]), **grids)[0][:, 0]
        elif given.pixels is not None:
            row["patches"] = patch_positions(model, given)
        found["inputs"][given.name] = row
    torch.save(found, out / "older.pt")


if __name__ == "__main__":
    main()
