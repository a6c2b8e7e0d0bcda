# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The gradient of an elementwise product as an operator of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ... import _core
from ...torch.registration import Operator, in_widest_type, sum_of

__all__ = ["new_operator"]


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    grad_output, other = ctx.saved_tensors
    needs_grad_output, needs_other = ctx.needs_input_grad[:2]
    return (
        _operator(gradient, other) if needs_grad_output else None,
        _operator(gradient, grad_output) if needs_other else None,
    )


def _tangent(
    tensors: Sequence[Any], attributes: Sequence[Any], tangents: Sequence[Tensor | None], shape: torch.Size
) -> Tensor:
    """The derivative along the tangents of both factors."""
    grad_output, other = tensors
    along_grad_output, along_other = tangents
    terms = []
    if along_grad_output is not None:
        terms.append(_operator(along_grad_output, other))
    if along_other is not None:
        terms.append(_operator(grad_output, along_other))
    return sum_of(terms)


_operator = Operator(
    "new_operator(Tensor grad_output, Tensor other) -> Tensor",
    _core.new_operator,
    _tangent,
    backward=_backward,
    floats=(0, 1),
    batch_axis=0,
    autocast_type=in_widest_type,
)


def new_operator(grad_output: Tensor, other: Tensor) -> Tensor:
    """The gradient of `input * other` with respect to `input`.

    Args:
        grad_output: [R, C], the gradient of the product.
        other: [R, C], the other factor.

    Returns:
        [R, C], `grad_output * other`. Under autocast it computes in the wider of the two types.

    >>> import torch, aclgrad.torch
    >>> aclgrad.torch.new_operator(torch.full((1, 2), 3.0), torch.tensor([[1.0, 2.0]]))
    tensor([[3., 6.]])
    """
    return _operator(grad_output, other)
