# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The addition of a bias to each group of rows as an operator of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ... import _core
from ...torch.registration import Gradient, Operator, in_widest_type
from . import GroupKind

__all__ = ["grouped_bias_add"]


def _bias_on_cuda(x: Tensor, bias: Tensor, group_ends: Tensor | None, kind: str) -> Tensor:
    """Composed of PyTorch's operators, as the library has no kernel for it. Ends that fall are not told from others."""
    _bias._fake(x, bias, group_ends, kind)  # checks the arguments
    if group_ends is None:
        return x + bias[:, None]
    groups = bias.shape[0]
    if groups == 0:
        return x.clone()
    ends = group_ends.cumsum(0) if kind == "counts" else group_ends
    group = torch.searchsorted(ends, torch.arange(x.shape[0], device=x.device, dtype=ends.dtype), right=True)
    return torch.where((group < groups)[:, None], x + bias[group.clamp(max=groups - 1)], x)


def _bias_setup(ctx: Any, inputs: tuple[Any, ...]) -> None:
    _, _, group_ends, kind = inputs
    ctx.attributes = (kind,)
    ctx.save_for_backward(group_ends)


def _bias_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    needs_x, *output_mask = ctx.needs_input_grad[:2]
    (grad_bias,) = _bias_gradient((grad_output, *ctx.saved_tensors), ctx.attributes, output_mask)
    return grad_output if needs_x else None, grad_bias, None, None


def _bias_tangent(
    tensors: Sequence[Any], attributes: Sequence[Any], tangents: Sequence[Tensor | None], shape: torch.Size
) -> Tensor:
    """It is linear."""
    (group_ends,), (along_x, along_bias) = tensors, tangents
    if along_x is None:
        assert along_bias is not None
        along_x = along_bias.new_zeros(shape)
    if along_bias is None:
        return along_x.clone()
    return _bias(along_x, along_bias, group_ends, *attributes)


_bias_gradient = Gradient(
    "grouped_bias_add_backward(Tensor grad_output, Tensor? group_ends, str kind, bool[1] output_mask) -> Tensor[]",
    _core.grouped_bias_add_backward,
    lambda tensors, attributes, tangents, shape: _bias_tangent(tensors, attributes, (None, *tangents), shape),
    floats=(),
    batch_axis=-1,
)
_bias = Operator(
    "grouped_bias_add(Tensor x, Tensor bias, Tensor? group_ends, str kind) -> Tensor",
    _core.grouped_bias_add,
    _bias_tangent,
    backward=_bias_backward,
    setup=_bias_setup,
    floats=(0, 1),
    batch_axis=-1,
    autocast_type=in_widest_type,
    cuda_kernel=_bias_on_cuda,
)


def grouped_bias_add(x: Tensor, bias: Tensor, group_ends: Tensor | None = None, *, kind: GroupKind = "ends") -> Tensor:
    """Adds to each row the bias of its group, as behind the matrix products of a mixture of experts.

    Args:
        x: [R, H], rows sorted by group; [G, R, H] without `group_ends`, for G groups of R rows.
        bias: [G, H].
        group_ends: [G], the row after the last one of each group, or with `kind="counts"` the number of its rows;
            int32 or int64. Rows after the last group stay as they are.

    Returns:
        As `x`. Under autocast it computes in the wider of the two types.

    >>> import torch, aclgrad.torch
    >>> bias = torch.tensor([[1.0], [2.0]], requires_grad=True)
    >>> output = aclgrad.torch.grouped_bias_add(torch.zeros(4, 1), bias, torch.tensor([1, 3]))
    >>> output.sum().backward()
    >>> output.ravel().tolist(), bias.grad.ravel()
    ([1.0, 2.0, 2.0, 0.0], tensor([1., 2.]))
    """
    return _bias(x, bias, group_ends, kind)
