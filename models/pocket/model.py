"""The pocket judge as a network: a SmolVLM of transformers, run so that a batch shares what its samples have in common.

The decoder reads a tree: the rubric once for a batch, the frames once for a clip, and the rest of each sample on top of
the keys and values of both. Gradients flow back through all of it. Parameters, names and arithmetic are those of
`SmolVLMForConditionalGeneration`, so that the files are an ordinary checkpoint of it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from tasks import SIDE

Past = list[tuple[Tensor, Tensor]]


def config(vocabulary: int, image: int, pad: int, start: int, end: int) -> SmolVLMConfig:
    return SmolVLMConfig(
        image_token_id=image, pad_token_id=pad, scale_factor=4, tie_word_embeddings=True,
        text_config=dict(
            model_type="llama", vocab_size=vocabulary, hidden_size=192, intermediate_size=512, num_hidden_layers=6,
            num_attention_heads=6, num_key_value_heads=6, head_dim=32, max_position_embeddings=4096, rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=True,
            bos_token_id=start, eos_token_id=end, pad_token_id=pad,
        ),
        vision_config=dict(
            hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4, image_size=SIDE,
            patch_size=8, layer_norm_eps=1e-6, hidden_act="gelu_pytorch_tanh",
        ),
    )


# A frame's rows in the prompt: (64 / 8 / 4) squared.
ROWS = (SIDE // 8 // 4) ** 2


class Pocket(nn.Module):
    def __init__(self, settings: SmolVLMConfig):
        super().__init__()
        self.whole = SmolVLMForConditionalGeneration(settings)
        self.text = self.whole.model.text_model
        self.tower = self.whole.model.vision_model
        self.connector = self.whole.model.connector
        width = settings.text_config.hidden_size
        # For learning only; not part of the checkpoint. Where the shapes of a frame are, and whether a statement is right.
        self.places = nn.Linear(ROWS * width, 24 * 4)
        self.truth = nn.Linear(width, 1)

    def see(self, pixels: Tensor) -> Tensor:
        """Rows for frames: bytes of (n, side, side, 3) to (n, ROWS, width)."""
        pixels = pixels.permute(0, 3, 1, 2).float() / 127.5 - 1
        embeddings = self.tower.embeddings
        patches = embeddings.patch_embedding(pixels).flatten(2).transpose(1, 2)
        patches = patches + embeddings.position_embedding.weight
        return self.connector(self.tower.post_layernorm(self.tower.encoder(inputs_embeds=patches).last_hidden_state))

    def embed(self, ids: Tensor) -> Tensor:
        return self.text.embed_tokens(ids)

    def read(self, x: Tensor, past: Past | None = None, early: int | None = None) -> tuple[Tensor, Past, Tensor | None]:
        """Reads (n, length, width) on top of `past`, whose n divides this one. Returns what the last layer says, the keys
        and values of all, and what layer `early` says."""
        count, length, _ = x.shape
        before = 0 if past is None else past[0][0].shape[2]
        where = torch.arange(before, before + length)[None]
        rotary = self.text.rotary_emb(x, where)
        mask = None
        if past is not None:
            mask = torch.ones(length, before + length, dtype=torch.bool).tril(before)
        found, middle = [], None
        for index, layer in enumerate(self.text.layers):
            attention = layer.self_attn
            h = layer.input_layernorm(x)
            split = lambda y: y.view(count, length, -1, attention.head_dim).transpose(1, 2)
            q, k, v = split(attention.q_proj(h)), split(attention.k_proj(h)), split(attention.v_proj(h))
            q, k = apply_rotary_pos_emb(q, k, *rotary)
            if past is not None:
                k, v = (torch.cat([_spread(old, count), new], 2) for old, new in zip(past[index], (k, v)))
            found.append((k, v))
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
            x = x + attention.o_proj(out.transpose(1, 2).reshape(count, length, -1))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
            if index == early:
                middle = x
        return self.text.norm(x), found, middle

    def logits(self, x: Tensor) -> Tensor:
        return self.whole.lm_head(x)


def _spread(old: Tensor, count: int) -> Tensor:
    """Keys or values for each sample of those of its branch."""
    if old.shape[0] == 1:
        return old.expand(count, -1, -1, -1)
    return old.repeat_interleave(count // old.shape[0], 0)
