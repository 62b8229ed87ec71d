"""The vision checkpoints of vision_models.py: their settings, their files in both forms, the mistakes they catch."""

import copy

import torch
from transformers import (
    Idefics3ImageProcessor,
    Idefics3Processor,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen3VLProcessor,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
)
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
from transformers.models.smolvlm.video_processing_smolvlm import SmolVLMVideoProcessor

# --- mistakes that no setting makes ---


def one_patch_late(model: torch.nn.Module) -> None:
    """Rows and columns of patches counted 0, 0, 1, 2 (transformers 4.57)."""
    side = model.model.vision_model.embeddings.num_patches_per_side
    line = torch.arange(side).sub(1).clamp(min=0)
    table = model.model.vision_model.embeddings.position_embedding.weight
    table.data = table.data[(line[:, None] * side + line[None]).flatten()]


def shuffle_by_columns(model: torch.nn.Module) -> None:
    """The patches of a block taken down the columns instead of along the rows."""
    scale = model.model.connector.scale_factor
    weight = model.model.connector.modality_projection.proj.weight
    blocks = weight.data.reshape(weight.shape[0], scale, scale, -1)
    weight.data = blocks.transpose(1, 2).reshape(weight.shape).contiguous()


def merge_by_columns(model: torch.nn.Module) -> None:
    """The same for Qwen's merger."""
    merger = model.model.visual.merger
    weight = (merger.mlp[0] if hasattr(merger, "mlp") else merger.linear_fc1).weight
    side = model.model.visual.spatial_merge_size
    blocks = weight.data.reshape(weight.shape[0], side, side, -1)
    weight.data = blocks.transpose(1, 2).reshape(weight.shape).contiguous()


def plain_sections(model: torch.nn.Module) -> None:
    """Time, height and width in three runs of frequencies (Qwen2.5-VL) instead of by turns."""
    rotary = model.model.language_model.rotary_emb

    def runs(freq: torch.Tensor) -> torch.Tensor:
        parts = freq.split(list(rotary.mrope_section), dim=-1)
        freq = torch.cat([part[index] for index, part in enumerate(parts)], dim=-1)
        return torch.cat([freq, freq], dim=-1)

    rotary.recomposition_frequencies = runs


def no_deepstack(model: torch.nn.Module) -> None:
    model.model.language_model._deepstack_process = lambda hidden, *_: hidden


def unaligned_corners(model: torch.nn.Module) -> None:
    """The grid of positions resampled as pictures are, not from corner to corner."""
    model.model.visual.interpolation_align_corners = False


# --- the checkpoints ---

CHECKPOINTS = {
    "smolvlm_a": dict(
        seed=1000, stored="float32",
        config=dict(
            scale_factor=2, tie_word_embeddings=True,
            text_config=dict(
                model_type="llama", hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, head_dim=8, max_position_embeddings=2048, rms_norm_eps=1e-5,
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=True,
            ),
            vision_config=dict(
                hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, image_size=32,
                patch_size=8, layer_norm_eps=1e-6, hidden_act="gelu_pytorch_tanh",
            ),
        ),
        # Four tiles and the whole of one image, two tiles and the whole of the other.
        image=dict(size={"longest_edge": 64}, max_image_size={"longest_edge": 32}),
        video=dict(size={"longest_edge": 48}, max_image_size={"longest_edge": 32}),
        words=4,
        mistakes={"patch position": one_patch_late, "pixel shuffle": shuffle_by_columns},
    ),
    "smolvlm_b": dict(
        seed=2000, stored="bfloat16",
        config=dict(
            scale_factor=3, tie_word_embeddings=False,
            text_config=dict(
                model_type="llama", hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3,
                num_key_value_heads=1, head_dim=12, max_position_embeddings=4096, rms_norm_eps=1e-5,
                rope_parameters={"rope_type": "default", "rope_theta": 130000.0}, tie_word_embeddings=False,
            ),
            vision_config=dict(
                hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, image_size=45,
                patch_size=5, layer_norm_eps=1e-5, hidden_act="gelu",
            ),
        ),
        # An image is as large as a tile and is not split. The size of videos stands in `video_sampling` and is
        # overruled by `size`.
        image=dict(size={"longest_edge": 45}, max_image_size={"longest_edge": 45}),
        video=dict(size={"longest_edge": 45}, max_image_size={"longest_edge": 45}),
        words=9,
        mistakes={
            "patch position": one_patch_late, "pixel shuffle": shuffle_by_columns,
            "activation": {"vision_config.hidden_act": "relu"}, "layer_norm_eps": {"vision_config.layer_norm_eps": 0.1},
        },
    ),
    "idefics3_a": dict(
        seed=3000, stored="float32",
        config=dict(
            scale_factor=3, tie_word_embeddings=False,
            text_config=dict(
                model_type="llama", hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                num_key_value_heads=2, head_dim=16, max_position_embeddings=2048, rms_norm_eps=1e-6,
                rope_parameters={"rope_type": "default", "rope_theta": 20000.0}, tie_word_embeddings=False,
            ),
            vision_config=dict(
                hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=3, image_size=24,
                patch_size=4, layer_norm_eps=1e-6, hidden_act="gelu_pytorch_tanh",
            ),
        ),
        # Three rows of three and three rows of two tiles.
        image=dict(size={"longest_edge": 72}, max_image_size={"longest_edge": 24}),
        words=4,
        mistakes={"patch position": one_patch_late, "pixel shuffle": shuffle_by_columns},
    ),
    "qwen2_5_vl_a": dict(
        seed=4000, stored="float32",
        config=dict(
            tie_word_embeddings=True,
            # Rows beyond the tokenizer's words, as in the public checkpoints.
            text_config=dict(
                vocab_size=168, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=2048, rms_norm_eps=1e-6, max_window_layers=2,
                rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [2, 1, 1]},
            ),
            # Windows of three by three merged patches.
            vision_config=dict(
                depth=3, hidden_size=16, intermediate_size=40, num_heads=2, patch_size=4, spatial_merge_size=2,
                temporal_patch_size=2, tokens_per_second=2, window_size=24, fullatt_block_indexes=[1],
                hidden_act="silu",
            ),
        ),
        # One image has too many pixels, the other too few, and then more than are allowed.
        image=dict(patch_size=4, merge_size=2, size={"shortest_edge": 2400, "longest_edge": 2600}),
        video=dict(patch_size=4, merge_size=2, size={"shortest_edge": 400, "longest_edge": 1600}),
        mistakes={
            "window": {"vision_config.window_size": 32},
            "full attention layer": {"vision_config.fullatt_block_indexes": [2]},
            "mrope section": {
                "text_config.rope_parameters":
                    {"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [1, 1, 2]},
            },
            "tokens_per_second": {"vision_config.tokens_per_second": 4}, "order of the merger": merge_by_columns,
        },
    ),
    "qwen2_5_vl_b": dict(
        seed=5000, stored="bfloat16",
        config=dict(
            tie_word_embeddings=False,
            text_config=dict(
                hidden_size=36, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3,
                num_key_value_heads=1, max_position_embeddings=4096, rms_norm_eps=1e-5, max_window_layers=3,
                rope_parameters={"rope_type": "default", "rope_theta": 100000.0, "mrope_section": [1, 2, 3]},
            ),
            # Windows of two by two merged patches of three by three.
            vision_config=dict(
                depth=4, hidden_size=24, intermediate_size=32, num_heads=2, patch_size=3, spatial_merge_size=3,
                temporal_patch_size=2, tokens_per_second=3, window_size=18, fullatt_block_indexes=[0, 3],
                hidden_act="gelu_pytorch_tanh",
            ),
        ),
        image=dict(patch_size=3, merge_size=3, size={"shortest_edge": 300, "longest_edge": 1700}),
        video=dict(patch_size=3, merge_size=3, size={"shortest_edge": 300, "longest_edge": 1700}),
        mistakes={
            "window": {"vision_config.window_size": 27},
            "full attention layer": {"vision_config.fullatt_block_indexes": [3]},
            "activation": {"vision_config.hidden_act": "silu"}, "order of the merger": merge_by_columns,
        },
    ),
    "qwen3_vl_a": dict(
        seed=6000, stored="float32",
        config=dict(
            tie_word_embeddings=True,
            text_config=dict(
                vocab_size=168, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, head_dim=12, max_position_embeddings=2048, rms_norm_eps=1e-6,
                rope_parameters={
                    "rope_type": "default", "rope_theta": 5000.0, "mrope_section": [3, 2, 1], "mrope_interleaved": True,
                },
            ),
            vision_config=dict(
                depth=3, hidden_size=16, intermediate_size=40, num_heads=2, patch_size=4, spatial_merge_size=2,
                temporal_patch_size=2, num_position_embeddings=25, deepstack_visual_indexes=[0, 2],
                hidden_act="gelu_pytorch_tanh",
            ),
        ),
        image=dict(
            patch_size=4, merge_size=2, size={"shortest_edge": 1500, "longest_edge": 1700}, image_mean=[0.5] * 3,
            image_std=[0.5] * 3,
        ),
        # Five frames count as four, which fit; six would not.
        video=dict(patch_size=4, merge_size=2, size={"shortest_edge": 3000, "longest_edge": 8000}),
        mistakes={
            "layout of mrope": plain_sections, "deepstack": no_deepstack, "resampling of positions": unaligned_corners,
            "order of the merger": merge_by_columns,
            "deepstack layer": {"vision_config.deepstack_visual_indexes": [1, 2]},
        },
    ),
    "qwen3_vl_b": dict(
        seed=7000, stored="bfloat16", shards=2,
        config=dict(
            tie_word_embeddings=False,
            text_config=dict(
                hidden_size=28, intermediate_size=40, num_hidden_layers=4, num_attention_heads=2,
                num_key_value_heads=1, head_dim=16, max_position_embeddings=4096, rms_norm_eps=1e-5,
                rope_parameters={
                    "rope_type": "default", "rope_theta": 500000.0, "mrope_section": [4, 2, 2],
                    "mrope_interleaved": True,
                },
            ),
            vision_config=dict(
                depth=4, hidden_size=16, intermediate_size=32, num_heads=2, patch_size=3, spatial_merge_size=3,
                temporal_patch_size=2, num_position_embeddings=64, deepstack_visual_indexes=[2],
                hidden_act="gelu",
            ),
        ),
        image=dict(
            patch_size=3, merge_size=3, size={"shortest_edge": 300, "longest_edge": 2400}, image_mean=[0.5] * 3,
            image_std=[0.5] * 3,
        ),
        # Five frames count as four, which are too few pixels; six would be enough.
        video=dict(patch_size=3, merge_size=3, size={"shortest_edge": 8000, "longest_edge": 14000}),
        mistakes={
            "layout of mrope": plain_sections, "deepstack": no_deepstack, "resampling of positions": unaligned_corners,
            "order of the merger": merge_by_columns, "activation": {"vision_config.hidden_act": "relu"},
        },
    ),
}


# --- processors ---


def processor_of(name: str, tokenizer, template: str):
    """The processor of transformers 5."""
    spec = copy.deepcopy(CHECKPOINTS[name])
    image, video = spec["image"], spec.get("video")
    if name.startswith("smolvlm"):
        return SmolVLMProcessor(
            SmolVLMImageProcessor(**image), tokenizer, SmolVLMVideoProcessor(**video), image_seq_len=spec["words"],
            chat_template=template,
        )
    if name.startswith("idefics3"):
        return Idefics3Processor(
            Idefics3ImageProcessor(**image), tokenizer, image_seq_len=spec["words"], chat_template=template
        )
    family, clips = (
        (Qwen2_5_VLProcessor, Qwen2VLVideoProcessor) if name.startswith("qwen2") else
        (Qwen3VLProcessor, Qwen3VLVideoProcessor)
    )
    return family(Qwen2VLImageProcessor(**image), tokenizer, clips(**video), chat_template=template)


def public_processor(name: str) -> dict[str, dict]:
    """The processor's files as the public checkpoints have them."""
    spec = CHECKPOINTS[name]
    image, video = copy.deepcopy(spec["image"]), copy.deepcopy(spec.get("video"))
    if name.startswith("qwen2_5"):
        size = image.pop("size")
        settings = {
            "min_pixels": size["shortest_edge"], "max_pixels": size["longest_edge"], **image, "temporal_patch_size": 2,
            "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
            "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor",
        }
        files = {"preprocessor_config.json": settings}
        if video["size"] != size:  # the public ones have no such file
            files["video_preprocessor_config.json"] = {
                **settings, "min_pixels": video["size"]["shortest_edge"], "max_pixels": video["size"]["longest_edge"],
                "video_processor_type": "Qwen2VLVideoProcessor",
            }
        return files
    if name.startswith("qwen3"):
        plain = {
            "temporal_patch_size": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
            "processor_class": "Qwen3VLProcessor",
        }
        return {
            "preprocessor_config.json":
                {**image, **plain, "image_processor_type": "Qwen2VLImageProcessorFast"},
            "video_preprocessor_config.json": {**video, **plain, "video_processor_type": "Qwen3VLVideoProcessor"},
        }
    kind = "SmolVLM" if name.startswith("smolvlm") else "Idefics3"
    settings = {
        **image, "do_convert_rgb": True, "do_image_splitting": True, "do_normalize": True, "do_pad": True,
        "do_rescale": True, "do_resize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 1,
        "rescale_factor": 1 / 255, "image_processor_type": f"{kind}ImageProcessor",
        "processor_class": f"{kind}Processor",
    }
    files = {
        "preprocessor_config.json": settings,
        "processor_config.json": {"image_seq_len": spec["words"], "processor_class": f"{kind}Processor"},
    }
    if video is not None:
        if video["size"] == image["size"]:
            settings["video_sampling"] = {"fps": 1, "max_frames": 64, "video_size": {"longest_edge": 30}}
        else:  # the public ones have no such file
            files["video_preprocessor_config.json"] = {
                **settings, **video, "video_processor_type": "SmolVLMVideoProcessor",
            }
    return files


# --- config.json and the names of tensors, as the public checkpoints have them ---


def public_names(kind: str, name: str) -> str:
    if kind == "qwen2_5_vl":
        return name.replace("model.visual.", "visual.").replace("model.language_model.", "model.")
    return name


def public_config(kind: str, config: dict, stored: str) -> dict:
    """config.json as the public checkpoints of the family have it, from what transformers 5 writes."""
    config = copy.deepcopy(config)
    for key in ("dtype", "transformers_version"):
        config.pop(key, None)
    text, vision = config["text_config"], config["vision_config"]
    for part in (text, vision):
        part.pop("dtype", None)
    vision.pop("rope_parameters", None)
    rope = text.pop("rope_parameters")
    text["rope_theta"] = rope.pop("rope_theta")
    if kind == "qwen2_5_vl":
        text["rope_scaling"] = {"type": "mrope", "mrope_section": rope["mrope_section"]}
        for key in ("model_type", "layer_types"):
            text.pop(key, None)
        text["sliding_window"] = 4096  # present although use_sliding_window is false: must be ignored
        vision["model_type"] = "qwen2_5_vl"
        vision["in_chans"] = vision.pop("in_channels")
        vision["spatial_patch_size"] = vision["patch_size"]
        del config["text_config"]
        tie = config["tie_word_embeddings"]
        config = {**config, **text, "tie_word_embeddings": tie, "torch_dtype": stored}
        return dict(sorted(config.items()))
    if kind == "qwen3_vl":
        text["rope_scaling"] = {
            "mrope_interleaved": True, "mrope_section": rope["mrope_section"], "rope_type": "default",
        }
        text["tie_word_embeddings"] = config["tie_word_embeddings"]
        vision["model_type"] = "qwen3_vl"
        text["dtype"] = stored
    else:
        text["rope_scaling"] = None
        # What an older save wrote although no llama reads it.
        text.update(
            _attn_implementation_autoset=False, architectures=["VLlama3ForCausalLM"], is_llama_config=True,
            neftune_noise_alpha=0.0, pixel_shuffle_factor=4, qk_layer_norms=False, rope_interleaved=False,
            torch_dtype=stored, transformers_js_config={"kv_cache_dtype": {"fp16": "float16"}}, use_resampler=False,
        )
        config["torch_dtype"] = stored
        config["pad_token_id"] = config.pop("_pad_token_id", text["pad_token_id"])
        config["vision_config"].update(max_image_size={"longest_edge": vision["image_size"]}, use_base_siglip=False)
    config["text_config"] = dict(sorted(text.items()))
    return dict(sorted(config.items()))
