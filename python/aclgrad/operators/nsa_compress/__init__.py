# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The key compression of native sparse attention, its gradient, and that gradient's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ..._registry import Array, Indices, function


@function("output", aclnn=["aclnnNsaCompress"])
def nsa_compress(
    x: Array, weight: Array, cu_seqlens: Indices | None, block: int, stride: int, *, out: Array | None = None
) -> Any:
    """The key compression of native sparse attention: weighted sums over windows that slide along each sequence.

    Window k starts at token `stride * k` of its sequence and holds `block` tokens. A tail that fills no window is
    dropped. y[k, n, d] = sum over j < block of weight[j, n] * x[start of k + j, n, d].

    Args:
        x: [T, N, D], the tokens of all sequences, one sequence after the other, of N heads with D channels.
        weight: [block, N].
        cu_seqlens: the token after the last one of each sequence; the last entry is T. A 0 may come first. None, or no
            entry: one sequence.
        block: tokens of a window.
        stride: tokens from one window of a sequence to the next.
        out: the array to write.

    Returns:
        [windows, N, D], sequence after sequence.

    >>> import aclgrad, numpy
    >>> x, weight = numpy.arange(6.0).reshape(6, 1, 1), numpy.full((2, 1), 0.5)
    >>> aclgrad.nsa_compress(x, weight, [2, 6], 2, 2).ravel()  # sequences of 2 and 4 tokens
    array([0.5, 2.5, 4.5])
    """
    return _core.nsa_compress(x, weight, cu_seqlens, block, stride, out)


@function("grad_x", "grad_weight", aclnn=["aclnnNsaCompressGrad", "aclnnNsaCompressGradTensor"])
def nsa_compress_backward(
    grad_output: Array,
    x: Array,
    weight: Array,
    cu_seqlens: Indices | None,
    block: int,
    stride: int,
    *,
    output_mask: tuple[bool, bool] = (True, True),
    out: Sequence[Array | None] | None = None,
) -> tuple[Any, Any]:
    """The gradients of `nsa_compress`.

    Args:
        grad_output: [windows, N, D], the gradient of the result.
        x, weight, cu_seqlens, block, stride: as for `nsa_compress`.
        output_mask: whether the gradients of `x` and `weight` are wanted. The others are None.
        out: the two arrays to write, as a tuple; None in it makes a new array.

    Returns:
        The gradients of `x` and `weight`, of their shapes. Tokens that no window covers get exact zeros.

    >>> import aclgrad, numpy
    >>> x, weight = numpy.arange(6.0).reshape(6, 1, 1), numpy.full((2, 1), 0.5)
    >>> grad_output = numpy.ones((3, 1, 1))
    >>> grad_x, grad_weight = aclgrad.nsa_compress_backward(grad_output, x, weight, [2, 6], 2, 2)
    >>> grad_x.ravel(), grad_weight.ravel()
    (array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5]), array([6., 9.]))
    """
    return _core.nsa_compress_backward(grad_output, x, weight, cu_seqlens, block, stride, output_mask, out)


@function("grad_grad_output", "grad_x", "grad_weight")
def nsa_compress_double_backward(
    grad_output: Array,
    x: Array,
    weight: Array,
    cu_seqlens: Indices | None,
    grad_grad_x: Array | None,
    grad_grad_weight: Array | None,
    block: int,
    stride: int,
    *,
    output_mask: tuple[bool, bool, bool] = (True, True, True),
    out: Sequence[Array | None] | None = None,
) -> tuple[Any, Any, Any]:
    """The gradients of `nsa_compress_backward`, for arrays in the memory of the CPU.

    Args:
        grad_output: [windows, N, D], as for `nsa_compress_backward`.
        x, weight, cu_seqlens, block, stride: as for `nsa_compress`.
        grad_grad_x: [T, N, D], the gradient of the first result of `nsa_compress_backward`. None means zeros.
        grad_grad_weight: [block, N], the gradient of its second result. None means zeros.
        output_mask: whether the gradients of `grad_output`, `x` and `weight` are wanted. The others are None.
        out: the three arrays to write, as a tuple; None in it makes a new array.

    Returns:
        The gradients of `grad_output`, `x` and `weight`, of their shapes.

    >>> import aclgrad, numpy
    >>> x, weight = numpy.arange(6.0).reshape(6, 1, 1), numpy.full((2, 1), 0.5)
    >>> grad_output, along_x = numpy.ones((3, 1, 1)), numpy.ones((6, 1, 1))
    >>> for gradient in aclgrad.nsa_compress_double_backward(grad_output, x, weight, [2, 6], along_x, None, 2, 2):
    ...     print(gradient.ravel())
    [1. 1. 1.]
    [0. 0. 0. 0. 0. 0.]
    [3. 3.]
    """
    return _core.nsa_compress_double_backward(
        grad_output, x, weight, cu_seqlens, grad_grad_x, grad_grad_weight, block, stride, output_mask, out
    )
