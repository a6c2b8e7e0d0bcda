# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The functions of the extension `MultiScaleDeformableAttention`, which Deformable DETR and the models made from it
compile from CUDA sources. The module of that name, beside aclgrad, has them from here.

The extension's limits are none here: tensors lie on the CPU or a GPU, are float32, float16, bfloat16 or float64, have
any strides, and their batch need not be a multiple of `im2col_step`.
"""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

import torch
from torch import Tensor

from ..operators.multi_scale_deformable_attention.torch import attention_gradient, multi_scale_deformable_attention
from .checks import message, renamed

__all__ = ["ms_deform_attn_backward", "ms_deform_attn_forward"]


def ms_deform_attn_forward(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> Tensor:
    """`aclgrad.torch.multi_scale_deformable_attention`, which says what the arguments are.

    Args:
        im2col_step: how many entries of the batch the extension computes at a time, at least 1. It changes nothing
            here, as all are computed at once.

    Returns:
        [B, Q, M * C]; where gradients are recorded, with its own.

    >>> import torch, MultiScaleDeformableAttention
    >>> value = torch.arange(4.0).reshape(1, 4, 1, 1)  # one level of 2 x 2 pixels
    >>> shapes, starts = torch.tensor([[2, 2]]), torch.tensor([0])
    >>> locations, weights = torch.full((1, 1, 1, 1, 1, 2), 0.5), torch.ones(1, 1, 1, 1, 1)  # its centre
    >>> MultiScaleDeformableAttention.ms_deform_attn_forward(value, shapes, starts, locations, weights, 64)
    tensor([[[1.5000]]])
    """
    function = "torch.ms_deform_attn.ms_deform_attn_forward"
    _check_step(function, im2col_step)
    try:
        return multi_scale_deformable_attention(
            value, spatial_shapes, level_start_index, sampling_locations, attention_weights
        )
    except (TypeError, ValueError) as error:
        raise renamed(error, function) from None


def ms_deform_attn_backward(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    grad_output: Tensor,
    im2col_step: int,
) -> list[Tensor]:
    """The gradients of `ms_deform_attn_forward`.

    Args:
        grad_output: [B, Q, M * C] or [B, Q, M, C], the gradient of the result.
        im2col_step: at least 1, else without effect.

    Returns:
        The gradients of `value`, `sampling_locations` and `attention_weights`, each of its shape and type. Types may
        be mixed as autocast lets them be in `ms_deform_attn_forward`: then this computes in float32, too.

    >>> import torch, MultiScaleDeformableAttention
    >>> value = torch.arange(4.0).reshape(1, 4, 1, 1)  # one level of 2 x 2 pixels
    >>> shapes, starts = torch.tensor([[2, 2]]), torch.tensor([0])
    >>> locations, weights = torch.full((1, 1, 1, 1, 1, 2), 0.5), torch.ones(1, 1, 1, 1, 1)  # its centre
    >>> gradients = MultiScaleDeformableAttention.ms_deform_attn_backward(
    ...     value, shapes, starts, locations, weights, torch.ones(1, 1, 1), 64
    ... )
    >>> [gradient.ravel().tolist() for gradient in gradients]
    [[0.25, 0.25, 0.25, 0.25], [2.0, 4.0], [1.5]]
    """
    function = "torch.ms_deform_attn.ms_deform_attn_backward"
    _check_step(function, im2col_step)
    tensors = grad_output, value, spatial_shapes, level_start_index, sampling_locations, attention_weights
    try:
        gradients = attention_gradient(_of_one_type(tensors), (), (True, True, True))
    except (TypeError, ValueError) as error:
        raise renamed(error, function) from None
    inputs = value, sampling_locations, attention_weights
    return [gradient.to(input.dtype) for gradient, input in zip(gradients, inputs, strict=True) if gradient is not None]


_CAST_BY_AUTOCAST = frozenset((torch.float32, torch.float16, torch.bfloat16))


def _of_one_type(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Those that autocast casts in float32, if their types differ and the kernel will not refuse float64 among them."""
    types = {t.dtype for t in tensors if isinstance(t, Tensor)}
    if torch.float64 in types or len(types & _CAST_BY_AUTOCAST) < 2:
        return tensors
    return tuple(t.float() if isinstance(t, Tensor) and t.dtype in _CAST_BY_AUTOCAST else t for t in tensors)


def _check_step(function: str, im2col_step: SupportsIndex) -> None:
    try:
        step = index(im2col_step)
    except TypeError:
        raise TypeError(message(function, "im2col_step", "an integer", repr(im2col_step))) from None
    if step < 1:
        raise ValueError(message(function, "im2col_step", "at least 1", step))
