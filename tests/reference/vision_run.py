"""How an input goes through a processor and a model, in transformers 5 and in 4.57 alike."""

import math
from pathlib import Path

import torch
import transformers
import vision_inputs as shown
from transformers.video_utils import VideoMetadata

NEWEST = int(transformers.__version__.split(".")[0]) >= 5


# --- what the processor makes of an input ---


class Input:
    """One input as the processor prepared it."""

    def __init__(self, processor, kind: str, name: str, pictures: Path, outer: bool = False):
        self.name, self.kind = name, kind
        self.system, self.parts = shown.INPUTS[name]
        self.messages = shown.messages_of(self.system, self.parts)
        text = processor.apply_chat_template(self.messages, tokenize=False, add_generation_prompt=True)
        if kind == "qwen3_vl" and not outer:
            # Before transformers 5 the processor replaced the words around the placeholder as well.
            text = text.replace("<|vision_start|><|video_pad|><|vision_end|>", "<|video_pad|>")
        mine = processor.apply_chat_template(
            self.messages, chat_template=shown.TEMPLATES[kind], tokenize=False, add_generation_prompt=True
        )
        assert mine == text or kind == "qwen3_vl" and not outer, "the library has a template of its own"
        images = [shown.load_image(pictures, part["image"]) for part in self.parts if "image" in part]
        clips = [part["video"] for part in self.parts if "video" in part]
        asked = {}
        if images:
            asked["images"] = images
        if clips:
            asked["videos"] = [shown.load_clip(pictures, clip) for clip in clips]
            asked["video_metadata"] = [metadata_of(clip) for clip in clips]
            asked["do_sample_frames"] = False
            if kind == "smolvlm" and not NEWEST:
                asked["videos"] = [asked["videos"]]
            if kind == "qwen2_5_vl" and not NEWEST:  # which does not look at the metadata
                asked["fps"] = [shown.sampled_fps(clip) for clip in clips]
        batch = processor(text=[text], return_tensors="pt", **asked)
        self.ids = batch["input_ids"][0].tolist()
        self.types = batch.get("mm_token_type_ids")
        self.prompt = processor.tokenizer.decode(self.ids, skip_special_tokens=False)
        assert processor.tokenizer(self.prompt)["input_ids"] == self.ids, "the prompt does not tokenize to its ids"
        self.pixels = next((batch[key] for key in ("pixel_values", "pixel_values_videos") if key in batch), None)
        self.grids = next((batch[key] for key in ("image_grid_thw", "video_grid_thw") if key in batch), None)
        self.mask = batch.get("pixel_attention_mask")
        self.seconds = batch.get("second_per_grid_ts")
        self.video = bool(clips)
        self.rows_cols = None
        if kind in ("smolvlm", "idefics3") and images:
            more = processor.image_processor([images], return_row_col_info=True, return_tensors="pt")
            self.rows_cols = [[row, column] for row, column in zip(more["rows"][0], more["cols"][0])]
        if clips and kind in ("smolvlm", "idefics3"):
            assert self.pixels.shape[1] == len(shown.CLIPS[clips[0]]["indices"]), "frames were sampled again"
        if clips and self.grids is not None:
            assert int(self.grids[0][0]) == math.ceil(len(shown.CLIPS[clips[0]]["indices"]) / 2)
        if kind == "qwen2_5_vl" and clips:
            expected = torch.tensor(2 / shown.sampled_fps(clips[0]))
            assert float(self.seconds[0]) == float(expected), "the processor reckons other times"

    def levels(self, processor) -> torch.Tensor:
        """The pixels as bytes: each is exactly one of the 256 values that the processor can give its channel."""
        part = processor.video_processor if self.video else processor.image_processor
        ramp = torch.arange(256, dtype=torch.uint8).repeat(3, 1, 1)
        values = part.rescale_and_normalize(
            ramp[None], part.do_rescale, part.rescale_factor, part.do_normalize, part.image_mean, part.image_std
        )[0, :, 0]
        if self.kind.startswith("qwen"):
            pixels = self.pixels.reshape(len(self.pixels), 3, -1).permute(1, 0, 2)
        else:
            pixels = self.pixels[0].permute(1, 0, 2, 3)
        found = torch.empty(pixels.shape, dtype=torch.uint8)
        for channel in range(3):
            nearest = torch.searchsorted(values[channel].contiguous(), pixels[channel].contiguous())
            assert torch.equal(values[channel][nearest.clamp(max=255)], pixels[channel]), "a pixel between two levels"
            found[channel] = nearest.to(torch.uint8)
        if self.kind.startswith("qwen"):
            return found.permute(1, 0, 2).reshape(self.pixels.shape)
        return found.permute(1, 0, 2, 3).contiguous()


def metadata_of(clip: str) -> VideoMetadata:
    clip = shown.CLIPS[clip]
    return VideoMetadata(
        total_num_frames=clip["total"], fps=clip["fps"], duration=clip["duration"],
        frames_indices=list(clip["indices"]),  # a copy, for processors append to it
        width=clip["size"][0], height=clip["size"][1],
    )


def patch_positions(model: torch.nn.Module, given: Input) -> list[int]:
    """Which row of the table each patch of a tile gets (SmolVLM, Idefics3)."""
    seen = []
    table = model.model.vision_model.embeddings.position_embedding
    handle = table.register_forward_pre_hook(lambda _, asked: seen.append(asked[0]))
    tower_of(model, given)
    handle.remove()
    assert all(torch.equal(row, seen[0][0]) for row in seen[0])
    return seen[0][0].tolist()


# --- positions ---


def positions_of(config, given: Input, rule: str = "float") -> torch.Tensor | None:
    """[3, tokens]: the place of each token in time, height and width.

    Text behind a picture goes on behind its largest position. The times of a Qwen2.5-VL video are
    `(step * seconds * tokens_per_second)` cut to a whole number; with the rule `whole seconds` (transformers 4.57) the
    seconds are cut first, with `height and width` (transformers 5) text goes on behind the larger side of the frame,
    whatever the time.
    """
    if not given.kind.startswith("qwen"):
        return None
    merge = config.vision_config.spatial_merge_size
    places = [config.image_token_id, config.video_token_id]
    grids = [] if given.grids is None else given.grids.tolist()
    if given.kind == "qwen3_vl":
        grids = [[1, height, width] for steps, height, width in grids for _ in range(steps)]
    seconds = list(given.seconds) if given.seconds is not None else []
    pieces, start, index = [], 0, 0
    while index < len(given.ids):
        if given.ids[index] not in places:
            pieces.append(torch.full((3, 1), start))
            start, index = start + 1, index + 1
            continue
        steps, height, width = grids.pop(0)
        height, width = height // merge, width // merge
        times = torch.arange(steps)
        if given.kind == "qwen2_5_vl" and given.video:
            second = torch.as_tensor(seconds.pop(0), dtype=torch.float32)
            second = second.long() if rule == "whole seconds" else second
            times = (times * second * config.vision_config.tokens_per_second).long()
        block = torch.stack(torch.meshgrid(times, torch.arange(height), torch.arange(width), indexing="ij"))
        pieces.append(block.reshape(3, -1) + start)
        start = start + max(height, width) if rule == "height and width" else int(pieces[-1].max()) + 1
        index += steps * height * width
    return torch.cat(pieces, dim=1)


# --- what the model computes ---


@torch.no_grad()
def tower_of(model: torch.nn.Module, given: Input) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """What stands in for the placeholders, and what Qwen3-VL adds to them behind the first layers."""
    if given.kind.startswith("qwen"):
        features = model.model.visual(given.pixels.to(model.dtype), grid_thw=given.grids)
        if NEWEST:
            return features.pooler_output, list(getattr(features, "deepstack_features", []))
        return features if given.kind == "qwen3_vl" else (features, [])
    features = model.model.get_image_features(given.pixels.to(model.dtype), given.mask)
    features = torch.cat(list(features.pooler_output)) if NEWEST else features
    return features.reshape(-1, features.shape[-1]), []


@torch.no_grad()
def logits_of(
    model: torch.nn.Module, given: Input, more: list[int] = (), positions: torch.Tensor | None = None
) -> torch.Tensor:
    """The logits of every position of the prompt and of an answer behind it, without a cache."""
    ids = torch.tensor([given.ids + list(more)])
    # Without a mask, 4.57's Qwen3-VL takes a step back in time for the begin of another sequence.
    asked = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    if given.kind.startswith("qwen"):
        model.model.rope_deltas = None
        positions = positions_of(model.config, given) if positions is None else positions
        behind = torch.arange(len(more)).expand(3, -1) + positions.max() + 1
        asked["position_ids"] = torch.cat([positions, behind], dim=1)[:, None]
    if given.pixels is not None:
        words = ("pixel_values_videos", "video_grid_thw") if given.video else ("pixel_values", "image_grid_thw")
        asked[words[0] if given.grids is not None else "pixel_values"] = given.pixels.to(model.dtype)
        if given.grids is not None:
            asked[words[1]] = given.grids
        else:
            asked["pixel_attention_mask"] = given.mask
    return model(**asked).logits[0].float()
