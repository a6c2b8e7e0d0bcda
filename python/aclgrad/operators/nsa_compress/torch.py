# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The key compression of native sparse attention as an operator of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ... import _core
from ...torch.registration import Gradient, Operator, in_autocast_type, sum_of

__all__ = ["nsa_compress"]


def _windows(x: Tensor, weight: Tensor, cu_seqlens: Tensor | None, block: int, stride: int) -> Any:
    if cu_seqlens is not None and not (isinstance(cu_seqlens.shape[0], int) and cu_seqlens.shape[0] == 0):
        return torch.library.get_ctx().new_dynamic_size()  # it follows from the contents of the ends
    return torch.sym_max((x.shape[0] - block + stride) // stride, 0)


def _compress_tangent(
    tensors: Sequence[Any], attributes: Sequence[Any], tangents: Sequence[Tensor | None], shape: torch.Size
) -> Tensor:
    x, weight, cu_seqlens = tensors
    along_x, along_weight = tangents
    terms = []
    if along_x is not None:
        terms.append(_compress(along_x, weight, cu_seqlens, *attributes))
    if along_weight is not None:
        terms.append(_compress(x, along_weight, cu_seqlens, *attributes))
    return sum_of(terms)


compress_gradient = Gradient(
    "nsa_compress_backward(Tensor grad_output, Tensor x, Tensor weight, Tensor? cu_seqlens, int block, int stride, "
    "bool[2] output_mask) -> Tensor[]",
    _core.nsa_compress_backward,
    _compress_tangent,
    floats=(0, 1),
    batch_axis=1,
    double_backward=_core.nsa_compress_double_backward,
)
_compress = Operator(
    "nsa_compress(Tensor x, Tensor weight, Tensor? cu_seqlens, int block, int stride) -> Tensor",
    _core.nsa_compress,
    gradient=compress_gradient,
    floats=(0, 1),
    batch_axis=1,
    autocast_type=in_autocast_type,
    derived={"W": _windows},
)


def nsa_compress(x: Tensor, weight: Tensor, cu_seqlens: Tensor | None, block: int, stride: int) -> Tensor:
    """The key compression of native sparse attention: weighted sums over windows that slide along each sequence.

    Window k starts at token `stride * k` of its sequence and holds `block` tokens. A tail that fills no window is
    dropped. y[k, n, d] = sum over j < block of weight[j, n] * x[start of k + j, n, d].

    Args:
        x: [T, N, D], the tokens of all sequences, one sequence after the other, of N heads with D channels.
        weight: [block, N].
        cu_seqlens: the token after the last one of each sequence, int32 or int64; the last entry is T. A 0 may come
            first. None, or no entry: one sequence. On the CPU wherever `x` is, as the result's size follows from it.
        block: tokens of a window.
        stride: tokens from one window of a sequence to the next.

    Returns:
        [windows, N, D], sequence after sequence. Under autocast it computes as a matrix product does, in autocast's
        type with sums in float32.

    >>> import torch, aclgrad.torch
    >>> x, weight = torch.arange(6.0).reshape(6, 1, 1), torch.full((2, 1), 0.5, requires_grad=True)
    >>> output = aclgrad.torch.nsa_compress(x, weight, torch.tensor([2, 6]), 2, 2)  # sequences of 2 and 4 tokens
    >>> output.sum().backward()
    >>> output.ravel().tolist(), weight.grad.ravel()
    ([0.5, 2.5, 4.5], tensor([6., 9.]))
    """
    return _compress(x, weight, cu_seqlens, block, stride)
