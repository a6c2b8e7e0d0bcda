# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Multi-scale deformable attention as an operator of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ... import _core
from ...torch.registration import Gradient, Operator, in_float32, sum_of

__all__ = ["multi_scale_deformable_attention"]


def _attention_tangent(
    tensors: Sequence[Any], attributes: Sequence[Any], tangents: Sequence[Tensor | None], shape: torch.Size
) -> Tensor:
    value, spatial_shapes, level_start_index, locations, weights = tensors
    along_value, along_locations, along_weights = tangents
    levels = spatial_shapes, level_start_index
    terms = []
    if along_value is not None:
        terms.append(_attention(along_value, *levels, locations, weights))
    if along_weights is not None:
        terms.append(_attention(value, *levels, locations, along_weights))
    if along_locations is not None:
        terms.append(_attention_along_locations(value, *levels, locations, weights, along_locations))
    return sum_of(terms)


def _attention_along_locations(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    locations: Tensor,
    weights: Tensor,
    tangent: Tensor,
) -> Tensor:
    """Attention with four samples for each, at the centres of the pixels around it, whose weights are the derivatives
    along `tangent` of those that bilinear interpolation has. It is in double, as float has no location for the centre
    of each pixel of a large level."""
    size = spatial_shapes.flip(1)[:, None]  # width and height of each level, beside any points
    place = locations * size.to(locations) - 0.5
    counts = ((place > -1) & (place < size.to(locations))).all(-1, keepdim=True)
    place = torch.where(counts, place, 0)
    corner = place.detach().floor()
    along_x, along_y = torch.where(counts, weights[..., None] * size * tangent, 0).unbind(-1)
    (right, below), (left, above) = (place - corner).unbind(-1), (1 - (place - corner)).unbind(-1)
    changes = (
        -along_x * above - along_y * left,
        along_x * above - along_y * right,
        -along_x * below + along_y * left,
        along_x * below + along_y * right,
    )
    corner = corner.double()
    steps = [corner.new_tensor(step) for step in ((0.5, 0.5), (1.5, 0.5), (0.5, 1.5), (1.5, 1.5))]
    corners = torch.cat([(corner + step) / size for step in steps], 4)
    along = _attention(value.double(), spatial_shapes, level_start_index, corners, torch.cat(changes, 4).double())
    return along.to(value.dtype)


def _composed(
    value: Tensor, spatial_shapes: Tensor, level_start_index: Tensor, locations: Tensor, weights: Tensor
) -> Tensor:
    """The sum of the pixels around each sample, gathered from all levels at once."""
    dtype = torch.float32 if value.dtype in (torch.float16, torch.bfloat16) else value.dtype
    value_of_head, locations, weights = value.transpose(1, 2).to(dtype), locations.to(dtype), weights.to(dtype)
    height, width = (spatial_shapes[:, i, None].long() for i in (0, 1))  # of each level, beside any points
    starts = level_start_index[:, None].long()
    x, y = locations[..., 0] * width - 0.5, locations[..., 1] * height - 0.5
    left, above = x.floor(), y.floor()
    terms = []
    for column, share_x in ((left, 1 - (x - left)), (left + 1, x - left)):
        for row, share_y in ((above, 1 - (y - above)), (above + 1, y - above)):
            counts = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            pixel = torch.where(counts, row, 0).long() * width + torch.where(counts, column, 0).long() + starts
            pixels = pixel.transpose(1, 2).flatten(2)[..., None].expand(-1, -1, -1, value.shape[3])
            sampled = torch.gather(value_of_head, 2, pixels).unflatten(2, (locations.shape[1], -1))
            share, counts = ((t.transpose(1, 2).flatten(3)[..., None]) for t in (share_x * share_y * weights, counts))
            terms.append(torch.where(counts, share * sampled, 0).sum(3))
    return sum_of(terms).transpose(1, 2).flatten(2).to(value.dtype)


_ATTENTION_FLOATS = 0, 3, 4
attention_gradient = Gradient(
    "multi_scale_deformable_attention_backward(Tensor grad_output, Tensor value, Tensor spatial_shapes, "
    "Tensor level_start_index, Tensor sampling_locations, Tensor attention_weights, bool[3] output_mask) -> Tensor[]",
    _core.msda_backward,
    _attention_tangent,
    floats=_ATTENTION_FLOATS,
    batch_axis=0,
    double_backward=_core.msda_double_backward,
)
_attention = Operator(
    "multi_scale_deformable_attention(Tensor value, Tensor spatial_shapes, Tensor level_start_index, "
    "Tensor sampling_locations, Tensor attention_weights) -> Tensor",
    _core.msda_forward,
    gradient=attention_gradient,
    floats=_ATTENTION_FLOATS,
    batch_axis=0,
    autocast_type=in_float32,
    composed=_composed,
    derived={"R": lambda value, *_: value.shape[2] * value.shape[3]},
)


def multi_scale_deformable_attention(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
) -> Tensor:
    """Multi-scale deformable attention: each query sums samples of several feature maps, with a weight for each.

    With B batches, S pixels in all levels, M heads, C channels of a head, Q queries, L levels and P points:

    Args:
        value: [B, S, M, C], the feature maps, one level after the other.
        spatial_shapes: [L, 2], height and width of each level, int32 or int64.
        level_start_index: [L], the first row of each level in `value`, int32 or int64.
        sampling_locations: [B, Q, M, L, P, 2] as (x, y), where 0 and 1 are the outer edges of a level.
        attention_weights: [B, Q, M, L, P].

    Returns:
        [B, Q, M * C]. Samples are bilinear, and pixels outside of their level count as zero. Under autocast it
        computes in float32. A location that is NaN or infinite counts as zero, too, and so do its gradients, as in the
        CUDA extensions of models; attention composed of `torch.nn.functional.grid_sample` gives NaN on CPUs.

    >>> import torch, aclgrad.torch
    >>> value = torch.arange(4.0).reshape(1, 4, 1, 1).requires_grad_()  # one level of 2 x 2 pixels
    >>> shapes, starts = torch.tensor([[2, 2]]), torch.tensor([0])
    >>> locations, weights = torch.full((1, 1, 1, 1, 1, 2), 0.5), torch.ones(1, 1, 1, 1, 1)  # its centre
    >>> output = aclgrad.torch.multi_scale_deformable_attention(value, shapes, starts, locations, weights)
    >>> output.sum().backward()
    >>> output.item(), value.grad.ravel()
    (1.5, tensor([0.2500, 0.2500, 0.2500, 0.2500]))
    """
    return _attention(value, spatial_shapes, level_start_index, sampling_locations, attention_weights)
