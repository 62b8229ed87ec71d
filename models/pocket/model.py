"""The pocket judge as a network: a SmolVLM of transformers, run so that a batch shares what its samples have in common.

The decoder reads a tree: the rubric once for a batch, the frames once for a clip, and the rest of each sample on top of
the keys and values of both. Gradients flow back through all of it. Parameters, names and arithmetic are those of
`SmolVLMForConditionalGeneration`, so that the files are an ordinary checkpoint of it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from sights import BUMPS, CELLS, CHANGES, NUMBERS, TOLD
from tasks import SIDE, STATED
from world import COLOURS, FORMS, SHAPES

# A frame is 8 x 8 patches, of which 2 x 2 become a row in the prompt.
GRID = 2 * CELLS
# The layers that know what became of shapes, which facts are shown and told, in which order, which of those that are told are
# right, and what another text says of them.
CHANGE_LAYER, FACT_LAYER, ORDER_LAYER, TRUTH_LAYER, FOUND_LAYER = 2, 3, 4, 5, 6
# No text tells more facts.
FACTS = 8

Past = list[tuple[Tensor, Tensor]]


@dataclass
class Read:
    """What was read: what the last layer says, the keys and values of all layers, and what each of them says."""

    last: Tensor
    past: Past
    layers: list[Tensor]


def config(vocabulary: int, image: int, pad: int, start: int, end: int) -> SmolVLMConfig:
    return SmolVLMConfig(
        image_token_id=image, pad_token_id=pad, scale_factor=2, tie_word_embeddings=True,
        text_config=dict(
            model_type="llama", vocab_size=vocabulary, hidden_size=192, intermediate_size=512, num_hidden_layers=8,
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
    def __init__(self, settings: SmolVLMConfig, named: dict[str, list[int]]):
        """`named`: the tokens of colours and forms."""
        super().__init__()
        self.whole = SmolVLMForConditionalGeneration(settings)
        self.text = self.whole.model.text_model
        self.tower = self.whole.model.vision_model
        self.connector = self.whole.model.connector
        _begin_as_convolution(self.tower)
        width = settings.text_config.hidden_size
        self.rows_of = nn.Linear(NUMBERS, width, bias=False)
        # For learning only; not part of the checkpoint. What a patch is of, what a row shows, what became of it, the fact that
        # a row shows or a statement tells (in the same numbers, so that they can be compared), whether a statement is right,
        # whether one is also told elsewhere, whether its shape is, whether it was inserted, where it stands, which fact stands
        # before it, how many do, whether it is the last, and how many of them, and of those inserted, were counted.
        tower = settings.vision_config.hidden_size
        self.patches = nn.Linear(tower, len(SHAPES) + 1 + 3)
        self.numbers = nn.Linear(4 * tower, NUMBERS, bias=False)
        self.changes = nn.Linear(width, CHANGES)
        self.facts = nn.Linear(width, sum(TOLD))
        self.truth = nn.Linear(width, 1)
        self.told = nn.Linear(width, 1)
        self.there = nn.Linear(width, 1)
        self.inserted = nn.Linear(width, 1)
        self.fields = nn.Linear(width, len(STATED))
        self.before = nn.Linear(width, sum(TOLD))
        self.order = nn.Linear(width, FACTS)
        self.last = nn.Linear(width, 1)
        self.counted = nn.Linear(width, FACTS)
        self.counted_inserted = nn.Linear(width, 2)
        _begin_by_following(self, named)

    def join(self) -> None:
        """Puts tower and decoder together: what the tower says of a row goes where the decoder has read the true numbers."""
        with torch.no_grad():
            self.connector.modality_projection.proj.weight.copy_(self.rows_of.weight @ self.numbers.weight)

    def see(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Patches of frames: bytes of (n, side, side, 3) to (n, GRID * GRID, tower's width); and four of them for each row."""
        pixels = pixels.permute(0, 3, 1, 2).float() / 127.5 - 1
        embeddings = self.tower.embeddings
        patches = embeddings.patch_embedding(pixels).flatten(2).transpose(1, 2)
        patches = patches + embeddings.position_embedding.weight
        for layer in self.tower.encoder.layers:
            attention = layer.self_attn
            h = layer.layer_norm1(patches)
            split = lambda y: y.view(*y.shape[:2], -1, attention.head_dim).transpose(1, 2)
            out = _attention(split(attention.q_proj(h)), split(attention.k_proj(h)), split(attention.v_proj(h)), causal=False)
            patches = patches + attention.out_proj(out.transpose(1, 2).reshape(h.shape))
            patches = patches + layer.mlp(layer.layer_norm2(patches))
        patches = self.tower.post_layernorm(patches)
        return patches, self.connector.pixel_shuffle(patches, 2)

    def embed(self, ids: Tensor) -> Tensor:
        return self.text.embed_tokens(ids)

    def read(self, x: Tensor, past: Past | None = None) -> Read:
        """Reads (n, length, width) on top of `past`, whose n divides this one."""
        count, length, _ = x.shape
        before = 0 if past is None else past[0][0].shape[2]
        rotary = self.text.rotary_emb(x, torch.arange(before, before + length)[None])
        found, said = [], []
        for index, layer in enumerate(self.text.layers):
            attention = layer.self_attn
            h = layer.input_layernorm(x)
            split = lambda y: y.view(count, length, -1, attention.head_dim).transpose(1, 2)
            q, k, v = split(attention.q_proj(h)), split(attention.k_proj(h)), split(attention.v_proj(h))
            q, k = apply_rotary_pos_emb(q, k, *rotary)
            if past is not None:
                k, v = (torch.cat([_spread(old, count), new], 2) for old, new in zip(past[index], (k, v)))
            found.append((k, v))
            out = _attention(q, k, v, causal=True)
            x = x + attention.o_proj(out.transpose(1, 2).reshape(count, length, -1))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
            said.append(x)
        return Read(self.text.norm(x), found, said)

    def looks(self, index: int, read: Read, row: Tensor, at: Tensor) -> Tensor:
        """Where a layer looks from places of what was read: (places, all places), how much any of its heads does."""
        layer, keys = self.text.layers[index], read.past[index][0]
        x = read.layers[index - 1]
        before = keys.shape[2] - x.shape[1]
        q = layer.self_attn.q_proj(layer.input_layernorm(x[row, at])).unflatten(-1, (-1, keys.shape[-1]))
        q, _ = apply_rotary_pos_emb(q, q, *(turn[0] for turn in self.text.rotary_emb(x, before + at[None])))
        scores = torch.einsum("nhd,nhld->nhl", q, keys.index_select(0, row)) * keys.shape[-1] ** -0.5
        hidden = torch.arange(keys.shape[2]) > before + at[:, None]
        scores = scores.masked_fill(hidden[:, None], -math.inf).softmax(-1)
        return 1 - (1 - scores).prod(1)

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


# Of the decoder's numbers, those that begin with a meaning: colour and form, a one that all have, where and how large, what
# was found of the latter elsewhere.
LOOKS = len(COLOURS) + len(FORMS)
ONE = LOOKS
PLACE = slice(ONE + 1, ONE + 1 + 3 + 2 * BUMPS)
FOUND = slice(PLACE.stop, PLACE.stop + 3 + 2 * BUMPS)


def _begin_by_following(model: Pocket, named: dict[str, list[int]]) -> None:
    """The decoder begins with three kinds of heads: one that looks at the token before its own, one that looks at whatever has
    its own colour and form and reads where that is, and one that passes on what it is. Rows say colour and form in the same
    ten numbers as the words for them (`named`: their tokens). So a shape is followed from frame to frame, and a word finds what
    it is about, in frames and in text. Started anywhere, it took about three times as many samples to get as far."""
    settings = model.text.config
    head, width = settings.head_dim, settings.hidden_size
    pairs = head // 2
    speeds = settings.rope_parameters["rope_theta"] ** (-torch.arange(pairs) / pairs)
    kinds = [*COLOURS, *FORMS]
    with torch.no_grad():
        table = nn.init.normal_(model.text.embed_tokens.weight, std=0.05)
        table[:, : PLACE.start] = 0
        table[:, ONE] = 0.375
        for word, tokens in named.items():
            table[tokens, kinds.index(word)] = 0.5
        rows = model.rows_of.weight.zero_()
        for index, shape in enumerate(SHAPES):
            rows[kinds.index(shape.colour), index] = rows[kinds.index(shape.form), index] = 0.5
            rows[FOUND.stop + index, index] = 0.25
        rows[ONE, : len(SHAPES) + 1] = 0.375
        rows[PLACE, len(SHAPES) + 1 :] = 0.4 * torch.eye(3 + 2 * BUMPS)
        # The slowest numbers of a head hardly turn with the distance.
        slow = torch.cat([torch.arange(pairs - LOOKS // 2, pairs), torch.arange(head - LOOKS // 2, head)])
        fast = torch.tensor([1.5, 1.2, 1.0, 1.0, 1.0, 1.0]).sqrt()
        for layer in model.text.layers[:-2]:
            attention = layer.self_attn
            part = lambda projection, number: projection.weight[number * head : (number + 1) * head]
            # The token before.
            q, k, v = (part(projection, 0) for projection in (attention.q_proj, attention.k_proj, attention.v_proj))
            out = attention.o_proj.weight[:, :head]
            q[: len(fast), ONE] = 0.95 * fast * speeds[: len(fast)].cos()
            q[pairs : pairs + len(fast), ONE] = -0.95 * fast * speeds[: len(fast)].sin()
            k[: len(fast), ONE] = 0.95 * fast
            v[:LOOKS, :LOOKS] = out[:LOOKS, :LOOKS] = 0.3 * torch.eye(LOOKS)
            # What has the same colour and form: where it is, and what it is.
            for number in (1, 2):
                q, k, v = (part(projection, number) for projection in (attention.q_proj, attention.k_proj, attention.v_proj))
                out = attention.o_proj.weight[:, number * head : (number + 1) * head]
                turn = torch.linalg.qr(torch.randn(LOOKS, LOOKS))[0]
                q[slow, :LOOKS] = k[slow, :LOOKS] = 0.9 * turn
                if number == 1:
                    count = PLACE.stop - PLACE.start
                    v[:count, PLACE] = out[FOUND, :count] = 0.3 * torch.eye(count)
                else:
                    passed = torch.linalg.qr(torch.randn(width, head))[0]
                    v += 0.4 * passed.T
                    out += 0.4 * passed


class _Attention(torch.autograd.Function):
    """Attention in bfloat16 as plain products. PyTorch's own takes half as long again on the way back, on a CPU."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        shape, q, k, v = q.shape, *(x.bfloat16().flatten(0, 1) for x in (q, k, v))
        weights = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=shape[-1] ** -0.5).softmax(-1)
        ctx.save_for_backward(q, k, v, weights)
        return torch.bmm(weights, v).view(shape)

    @staticmethod
    def backward(ctx, back: Tensor) -> tuple:
        q, k, v, weights = ctx.saved_tensors
        scale, heads = q.shape[-1] ** -0.5, back.shape[:2]
        back = back.bfloat16().flatten(0, 1)
        inner = torch._softmax_backward_data(torch.bmm(back, v.transpose(1, 2)), weights, -1, torch.bfloat16)
        to_q, to_k = torch.bmm(inner, k) * scale, torch.bmm(inner.transpose(1, 2), q) * scale
        to_v = torch.bmm(weights.transpose(1, 2), back)
        return *(x.unflatten(0, heads) for x in (to_q, to_k, to_v)), None


@functools.lru_cache(64)
def _mask(length: int, before: int, causal: bool) -> Tensor:
    mask = torch.zeros(length, before + length, dtype=torch.bfloat16)
    return mask.masked_fill(~torch.ones_like(mask, dtype=torch.bool).tril(before), -1e4) if causal else mask


def _attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    length, before = q.shape[2], k.shape[2] - q.shape[2]
    if torch.is_autocast_enabled("cpu"):
        return _Attention.apply(q, k, v, _mask(length, before, causal))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=_mask(length, before, causal).float())


def _spread(old: Tensor, count: int) -> Tensor:
    """Keys or values for each sample of those of its branch."""
    if old.shape[0] == 1:
        return old.expand(count, -1, -1, -1)
    return old.repeat_interleave(count // old.shape[0], 0)
