# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The operators under the names that torch_npu (op-plugin) has for them, so that code that was written for NPUs runs on
CPUs and GPUs::

    import aclgrad.torch.npu as torch_npu

    compressed = torch_npu.npu_nsa_compress(input, weight, 32, 16, actual_seq_len=[1000, 4096])

The names are those of torch_npu 2.14. It has none for deformable attention and grouped bias-add, and grid sampling is
`torch.nn.functional.grid_sample` there. Devices are the caller's: there is no `tensor.npu()` and no device "npu". An
NPU's limits (float16 and bfloat16, sizes that are multiples of 16) are none here.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import SupportsIndex

import torch
from torch import Tensor

from ..operators.nsa_compress.torch import compress_gradient, nsa_compress
from .checks import message, renamed

__all__ = ["npu_nsa_compress", "npu_nsa_compress_grad"]

_NAMES = {
    "x": "input",
    "block": "compress_block_size",
    "stride": "compress_stride",
    "cu_seqlens": "actual_seq_len",
    "grad_output": "grad",
}


def npu_nsa_compress(
    input: Tensor,
    weight: Tensor,
    compress_block_size: int,
    compress_stride: int,
    *,
    actual_seq_len: Iterable[SupportsIndex] | None = None,
) -> Tensor:
    """`aclgrad.torch.nsa_compress`: weighted sums over windows that slide along each sequence.

    Args:
        input: [T, N, D], the tokens of all sequences, one sequence after the other.
        weight: [compress_block_size, N].
        compress_block_size: tokens of a window.
        compress_stride: tokens from one window of a sequence to the next.
        actual_seq_len: the token after the last one of each sequence, which are integers and no tensor on a GPU; the
            last entry is T. None, or no entry: one sequence.

    Returns:
        [windows, N, D], with gradients for `input` and `weight`.

    >>> import torch
    >>> import aclgrad.torch.npu as torch_npu
    >>> input, weight = torch.arange(6.0).reshape(6, 1, 1), torch.full((2, 1), 0.5)
    >>> torch_npu.npu_nsa_compress(input, weight, 2, 2, actual_seq_len=[2, 6]).ravel()
    tensor([0.5000, 2.5000, 4.5000])
    """
    function = "torch.npu.npu_nsa_compress"
    ends = _ends(function, actual_seq_len)
    try:
        return nsa_compress(input, weight, ends, compress_block_size, compress_stride)
    except (TypeError, ValueError) as error:
        raise renamed(error, function, _NAMES) from None


def npu_nsa_compress_grad(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    compress_block_size: int,
    compress_stride: int,
    *,
    actual_seq_len: Iterable[SupportsIndex] | None = None,
) -> tuple[Tensor, Tensor]:
    """The gradients of `npu_nsa_compress` for `input` and `weight`, where `grad`, [windows, N, D], is its result's.

    >>> import torch
    >>> import aclgrad.torch.npu as torch_npu
    >>> input, weight = torch.arange(6.0).reshape(6, 1, 1), torch.full((2, 1), 0.5)
    >>> grad = torch.ones(3, 1, 1)
    >>> grad_input, grad_weight = torch_npu.npu_nsa_compress_grad(grad, input, weight, 2, 2, actual_seq_len=[2, 6])
    >>> grad_input.ravel(), grad_weight.ravel()
    (tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000]), tensor([6., 9.]))
    """
    function = "torch.npu.npu_nsa_compress_grad"
    tensors = grad, input, weight, _ends(function, actual_seq_len)
    try:
        grad_input, grad_weight = compress_gradient(tensors, (compress_block_size, compress_stride), (True, True))
    except (TypeError, ValueError) as error:
        raise renamed(error, function, _NAMES) from None
    assert grad_input is not None and grad_weight is not None
    return grad_input, grad_weight


def _ends(function: str, actual_seq_len: Iterable[SupportsIndex] | None) -> Tensor | None:
    if actual_seq_len is None:
        return None
    try:
        return torch.tensor([index(end) for end in actual_seq_len], dtype=torch.int64, device="cpu")
    except TypeError:
        raise TypeError(message(function, "actual_seq_len", "integers or None", repr(actual_seq_len))) from None
    except (ValueError, RuntimeError, OverflowError):  # which depends on the version of PyTorch
        raise ValueError(message(function, "actual_seq_len", "integers of 64 bits", repr(actual_seq_len))) from None
