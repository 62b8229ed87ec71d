"""The pocket judge as a network: a SmolVLM of transformers, run so that a batch shares what its samples have in common.

The decoder reads a tree: the rubric once for a batch, the frames once for a clip, and the rest of each sample on top of
the keys and values of both. Gradients flow back through all of it. Parameters, names and arithmetic are those of
`SmolVLMForConditionalGeneration`, so that the files are an ordinary checkpoint of it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from tasks import SIDE

# A frame is 8 x 8 patches, of which 2 x 2 become a row in the prompt.
GRID = 8
ROWS = (GRID // 2) ** 2

Past = list[tuple[Tensor, Tensor]]


def config(vocabulary: int, image: int, pad: int, start: int, end: int) -> SmolVLMConfig:
    return SmolVLMConfig(
        image_token_id=image, pad_token_id=pad, scale_factor=2, tie_word_embeddings=True,
        text_config=dict(
            model_type="llama", vocab_size=vocabulary, hidden_size=192, intermediate_size=512, num_hidden_layers=6,
            num_attention_heads=6, num_key_value_heads=6, head_dim=32, max_position_embeddings=4096, rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=True,
            bos_token_id=start, eos_token_id=end, pad_token_id=pad,
        ),
        vision_config=dict(
            hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4, image_size=SIDE,
            patch_size=SIDE // GRID, layer_norm_eps=1e-6, hidden_act="gelu_pytorch_tanh",
        ),
    )




class Pocket(nn.Module):
    def __init__(self, settings: SmolVLMConfig):
        super().__init__()
        self.whole = SmolVLMForConditionalGeneration(settings)
        self.text = self.whole.model.text_model
        self.tower = self.whole.model.vision_model
        self.connector = self.whole.model.connector
        _begin_as_convolution(self.tower)
        width = settings.text_config.hidden_size
        # For learning only; not part of the checkpoint. What a patch is of, the shapes whose middle is in a row's part of
        # the frame, what became of them since they were first seen, and whether a statement is right.
        self.patches = nn.Linear(settings.vision_config.hidden_size, 25 + 3)
        self.places = nn.Linear(width, 24 * 4)
        self.changes = nn.Linear(width, 24 * 5)
        self.truth = nn.Linear(width, 1)

    def see(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Rows for frames: bytes of (n, side, side, 3) to (n, ROWS, width); and the patches that they are made of."""
        pixels = pixels.permute(0, 3, 1, 2).float() / 127.5 - 1
        embeddings = self.tower.embeddings
        patches = embeddings.patch_embedding(pixels).flatten(2).transpose(1, 2)
        patches = patches + embeddings.position_embedding.weight
        for layer in self.tower.encoder.layers:
            attention = layer.self_attn
            h = layer.layer_norm1(patches)
            split = lambda y: y.view(*y.shape[:2], -1, attention.head_dim).transpose(1, 2)
            out = _attention(split(attention.q_proj(h)), split(attention.k_proj(h)), split(attention.v_proj(h)))
            patches = patches + attention.out_proj(out.transpose(1, 2).reshape(h.shape))
            patches = patches + layer.mlp(layer.layer_norm2(patches))
        patches = self.tower.post_layernorm(patches)
        return self.connector(patches), patches

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
            out = _attention(q, k, v, mask, mask is None)
            x = x + attention.o_proj(out.transpose(1, 2).reshape(count, length, -1))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
            if index == early:
                middle = x
        return self.text.norm(x), found, middle

    def logits(self, x: Tensor) -> Tensor:
        return self.whole.lm_head(x)


def _begin_as_convolution(tower: nn.Module) -> None:
    """Patches begin with what they show in one half and where they are in the other, and the heads of the first layers look
    at neighbours: a tower that begins so tells forms apart many times sooner than one that begins anywhere."""
    width = tower.config.hidden_size
    half, head = width // 2, width // tower.config.num_attention_heads
    # Where they are: sines and cosines of the row and of the column, at several speeds.
    at, speeds = torch.arange(GRID) - (GRID - 1) / 2, math.pi / 2 ** torch.linspace(0, 3.5, half // 4)
    waves = torch.stack([(at[:, None] * speeds).sin(), (at[:, None] * speeds).cos()], -1).flatten(1)
    down, across = waves[:, None].expand(-1, GRID, -1), waves[None].expand(GRID, -1, -1)
    place = torch.cat([down, across], -1).reshape(GRID * GRID, half)
    embeddings = tower.embeddings
    with torch.no_grad():
        embeddings.position_embedding.weight.zero_()[:, half:] = place
        patch = embeddings.patch_embedding
        nn.init.normal_(patch.weight, std=0.6 * patch.weight[0].numel() ** -0.5)
        patch.weight[half:] = 0
        sides = [(-1, 0), (1, 0), (0, -1), (0, 1)]
        corners = [(-1, -1), (-1, 1), (1, -1), (1, 1)]
        for layer, ways in zip(tower.encoder.layers, (sides, corners, sides)):
            attention = layer.self_attn
            for number, way in enumerate(ways):
                rows = slice(number * head, (number + 1) * head)
                # Every other speed of the row and of the column, turned by as much as the neighbour is away.
                for projection, turned in ((attention.k_proj, False), (attention.q_proj, True)):
                    weight = torch.zeros(head, width)
                    for axis in (0, 1):
                        for index in range(head // 4):
                            speed = speeds[2 * index]
                            out, into = axis * head // 2 + 2 * index, half + axis * half // 2 + 4 * index
                            turn = way[axis] * speed if turned else torch.tensor(0.0)
                            # The sine and the cosine of (place + way) out of those of the place.
                            weight[out, into], weight[out, into + 1] = turn.cos(), turn.sin()
                            weight[out + 1, into], weight[out + 1, into + 1] = -turn.sin(), turn.cos()
                    projection.weight[rows] = 1.7 * weight + 0.02 * torch.randn(head, width)


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """In float32: the CPU's attention in bfloat16 takes four times as long on the way back."""
    with torch.autocast("cpu", enabled=False):
        return F.scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=mask, is_causal=causal)


def _spread(old: Tensor, count: int) -> Tensor:
    """Keys or values for each sample of those of its branch."""
    if old.shape[0] == 1:
        return old.expand(count, -1, -1, -1)
    return old.repeat_interleave(count // old.shape[0], 0)
