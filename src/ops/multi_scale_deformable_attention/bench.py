# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Multi-scale deformable attention (MSDA) and its gradient, and both passes through PyTorch."""

import math
from functools import partial

import torch
import torch.nn.functional as F

from bench import peers
from bench.case import SIZES, Call, Case, Work, gradient_of, identity

_DETR_LEVELS = [(100, 167), (50, 84), (25, 42), (13, 21)]
_BEV_LEVELS = [(200, 200)]


def compose(value, sizes, location, attention):
    """What models fall back to without an extension: one grid_sample for each level, then the weighted sum."""
    batch, _, heads, channels = value.shape
    queries, levels, points = location.shape[1], location.shape[3], location.shape[4]
    grids = (2 * location - 1).permute(3, 0, 2, 1, 4, 5).reshape(levels, batch * heads, queries, points, 2)
    samples = []
    for level, rows in enumerate(value.split([h * w for h, w in sizes], dim=1)):
        h, w = sizes[level]
        image = rows.permute(0, 2, 3, 1).reshape(batch * heads, channels, h, w)
        samples.append(F.grid_sample(image, grids[level], mode="bilinear", padding_mode="zeros", align_corners=False))
    weights = attention.permute(0, 2, 1, 3, 4).reshape(batch * heads, 1, queries, levels * points)
    out = (torch.stack(samples, dim=-2).flatten(-2) * weights).sum(-1)
    return out.view(batch, heads * channels, queries).transpose(1, 2)


def _composed_forward(value, sizes, location, attention, transform):
    composed = transform(compose)

    def run():
        with torch.no_grad():
            return composed(value, sizes, location, attention)
    return run


def _composed_gradient(value, sizes, location, attention, grad, transform):
    leaves = [t.detach().requires_grad_() for t in (value, location, attention)]
    return gradient_of(transform(compose)(leaves[0], sizes, leaves[1], leaves[2]), leaves, grad)


def _reference_locations(levels, queries):
    """Encoders: queries are the keys, and look at their own pixel's centre. Decoders: random."""
    if queries != sum(h * w for h, w in levels):
        return torch.rand(1, queries, 1, 1, 1, 2)
    centres = [torch.stack(torch.meshgrid((torch.arange(w) + 0.5) / w, (torch.arange(h) + 0.5) / h, indexing="xy"), -1)
               for h, w in levels]
    return torch.cat([c.reshape(-1, 2) for c in centres])[None, :, None, None, None]


def _data(dtype, device, levels, batch, queries, spread):
    """`spread`: of the samples around their reference, in pixels, or None for uniformly random locations."""
    torch.manual_seed(1)
    heads, channels, points = 8, 32, 4
    value = torch.randn(batch, sum(h * w for h, w in levels), heads, channels)
    location = torch.rand(batch, queries, heads, len(levels), points, 2)
    if spread is not None:
        pixel = torch.tensor([[1 / w, 1 / h] for h, w in levels])[None, None, None, :, None]
        location = _reference_locations(levels, queries) + spread * torch.randn_like(location) * pixel
    attention = torch.rand(batch, queries, heads, len(levels), points).flatten(3).softmax(-1).view(location.shape[:-1])
    shapes = torch.tensor(levels, dtype=torch.int64)
    starts = torch.tensor([0] + [h * w for h, w in levels]).cumsum(0)[:-1]
    grad = torch.randn(batch, queries, heads * channels)
    floats = (t.to(dtype).to(device) for t in (value, location, attention, grad))
    return *floats, shapes.to(device), starts.contiguous().to(device)


def sizes_of(value, location):
    return [*value.shape, location.shape[1], *location.shape[3:5]]


class _Composition(torch.nn.Module):
    """Of tensors alone, for OpenVINO."""

    def __init__(self, levels):
        super().__init__()
        self._levels = levels

    def forward(self, value, location, attention):
        return compose(value, self._levels, location, attention)


def _gradient(levels, batch, queries, spread):
    def prepare(dtype, device):
        value, location, attention, grad, shapes, starts = _data(dtype, device, levels, batch, queries, spread)
        inputs = [value, shapes, starts, location, attention, grad]
        outputs = [torch.empty_like(t) for t in (value, location, attention)]
        call = Call("aclnnMultiScaleDeformableAttentionGrad", inputs + outputs, inputs, outputs, "msda_grad",
                    sizes_of(value, location))
        composed = partial(_composed_gradient, value, levels, location, attention, grad)

        def expected(result):
            if dtype == torch.bfloat16:  # in which PyTorch computes positions, while ours does so in float
                tensors = (t.float() for t in (location, attention, grad))
                return _composed_gradient(value.float(), levels, *tensors, identity)()
            return result
        return Work({"": call}, {"autograd through grid_sample": composed}, expected, peers={
            "plain C": lambda: peers.plain_c("msda_backward", sizes_of(value, location), inputs, outputs)})
    return prepare


def _forward(levels, batch, queries, spread):
    def prepare(dtype, device):
        value, location, attention, grad, shapes, starts = _data(dtype, device, levels, batch, queries, spread)
        inputs, out = [value, shapes, starts, location, attention], torch.empty_like(grad)
        call = Call("aclnnMultiScaleDeformableAttnFunction", [*inputs, out], inputs, [out])
        composed = partial(_composed_forward, value, levels, location, attention)
        return Work(
            {"": call}, {"grid_sample composition": composed},
            peers={
                "OpenVINO": lambda: peers.compiled_by_openvino(_Composition(levels), value, location, attention),
                "plain C": lambda: peers.plain_c("msda", sizes_of(value, location), inputs, [out])})
    return prepare


def _training(levels, batch, queries, spread):
    def prepare(dtype, device):
        import aclgrad.torch

        value, location, attention, grad, shapes, starts = _data(dtype, device, levels, batch, queries, spread)
        inputs = [t.requires_grad_() for t in (value, location, attention)]

        def both(attend):
            return lambda: torch.autograd.grad(attend(), inputs, grad)
        ours = both(lambda: aclgrad.torch.multi_scale_deformable_attention(value, shapes, starts, location, attention))
        theirs = both(lambda: compose(value, levels, location, attention))
        return Work({"": ours}, {"grid_sample composition": lambda transform: theirs})
    return prepare


def cases():
    gradient, forward, f32, bf16 = "MSDA gradient", "MSDA forward", torch.float32, torch.bfloat16
    local, random = (_DETR_LEVELS, 1, 22223, 2.0), (_DETR_LEVELS, 1, 22223, None)
    encoder, both = "encoder with 22223 queries", ("cpu", "cuda")
    return [
        Case(gradient, "encoder bs 1, local", f32, _gradient(*local),
             readme=f"MSDA gradient, {encoder}, local samples"),
        Case(gradient, "encoder bs 1, local", bf16, _gradient(*local)),
        Case(gradient, "encoder bs 1, uniformly random", f32, _gradient(*random)),
        Case(gradient, "encoder bs 2, local", f32, _gradient(_DETR_LEVELS, 2, 22223, 2.0), devices=("cuda",)),
        Case(gradient, "encoder bs 2, local", bf16, _gradient(_DETR_LEVELS, 2, 22223, 2.0), devices=("cuda",)),
        Case(gradient, "decoder bs 2, 300 queries", f32, _gradient(_DETR_LEVELS, 2, 300, 2.0), devices=both),
        Case(gradient, "BEV 200x200, 1 level", f32, _gradient(_BEV_LEVELS, 1, 40000, 2.0)),
        Case(forward, "encoder bs 1, local", f32, _forward(*local),
             readme="MSDA forward, the same encoder, local samples"),
        Case(forward, "encoder bs 1, uniformly random", f32, _forward(*random)),
        *(Case(title, size, f32, work([(side, side)], 1, side * side, 2.0), kind="sizes")
          for title, work, query in ((gradient, _gradient, 3840), (forward, _forward, 2432))
          for size, count in SIZES.items() for side in [math.isqrt(count // query)]),
        Case("MSDA in PyTorch, both passes", "encoder bs 1, local", f32, _training(*local), kind="python"),
    ]
