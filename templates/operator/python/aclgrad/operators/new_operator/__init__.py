# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The gradient of an elementwise product with respect to one of its factors."""

from __future__ import annotations

from typing import Any

from ... import _core
from ..._registry import Array, function


@function("grad_input", aclnn=["aclnnNewOperator"])
def new_operator(grad_output: Array, other: Array, *, out: Array | None = None) -> Any:
    """The gradient of `input * other` with respect to `input`.

    Args:
        grad_output: [R, C], the gradient of the product.
        other: [R, C], the other factor.
        out: the array to write.

    Returns:
        [R, C], `grad_output * other`.

    >>> import aclgrad, numpy
    >>> aclgrad.new_operator(numpy.full((1, 2), 3.0), numpy.array([[1.0, 2.0]]))
    array([[3., 6.]])
    """
    return _core.new_operator(grad_output, other, out)
