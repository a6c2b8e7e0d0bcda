# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The addition of a bias to each group of rows, its gradient, and that gradient's."""

from __future__ import annotations

from typing import Any, Literal

from ... import _core
from ..._registry import Array, Indices, function

GroupKind = Literal["ends", "counts"]


@function("output")
def grouped_bias_add(
    x: Array, bias: Array, group_ends: Indices | None = None, *, kind: GroupKind = "ends", out: Array | None = None
) -> Any:
    """Adds to each row the bias of its group, as behind the matrix products of a mixture of experts.

    Args:
        x: [R, H], rows sorted by group; [G, R, H] without `group_ends`, for G groups of R rows.
        bias: [G, H].
        group_ends: [G], the row after the last one of each group, or with `kind="counts"` the number of its rows.
            Rows after the last group stay as they are.
        kind: what `group_ends` holds.
        out: the array to write.

    Returns:
        As `x`.

    >>> import aclgrad, numpy
    >>> aclgrad.grouped_bias_add(numpy.zeros((4, 1)), numpy.array([[1.0], [2.0]]), [1, 3]).ravel()
    array([1., 2., 2., 0.])
    """
    return _core.grouped_bias_add(x, bias, group_ends, kind, out)


@function("grad_bias", aclnn=["aclnnGroupedBiasAddGrad", "aclnnGroupedBiasAddGradV2"])
def grouped_bias_add_backward(
    grad_output: Array, group_ends: Indices | None = None, kind: GroupKind = "ends", *, out: Array | None = None
) -> Any:
    """The gradient of `grouped_bias_add` for `bias`: the sum of each group's rows. That for `x` is `grad_output`.

    Args:
        grad_output: [R, H], or [G, R, H] without `group_ends`: the gradient of the result.
        group_ends: [G], the row after the last one of each group, or with `kind="counts"` the number of its rows.
        kind: what `group_ends` holds.
        out: the array to write.

    Returns:
        [G, H]. An empty group has zeros.

    >>> import aclgrad, numpy
    >>> aclgrad.grouped_bias_add_backward(numpy.ones((4, 1)), [1, 3]).ravel()
    array([1., 2.])
    """
    return _core.grouped_bias_add_backward(grad_output, group_ends, kind, (True,), out)[0]


@function("grad_grad_output")
def grouped_bias_add_double_backward(
    grad_output: Array,
    grad_grad_bias: Array,
    group_ends: Indices | None = None,
    kind: GroupKind = "ends",
    *,
    out: Array | None = None,
) -> Any:
    """The gradient of `grouped_bias_add_backward`, on the CPU: each row gets `grad_grad_bias` of its group.

    Args:
        grad_output: [R, H], or [G, R, H] without `group_ends`, as for `grouped_bias_add_backward`. Its values are not
            read.
        grad_grad_bias: [G, H], the gradient of the result of `grouped_bias_add_backward`.
        group_ends, kind: as for `grouped_bias_add_backward`.
        out: the array to write.

    Returns:
        As `grad_output`. Rows after the last group have zeros.

    >>> import aclgrad, numpy
    >>> rows, grad_grad_bias = numpy.ones((4, 1)), numpy.array([[1.0], [2.0]])
    >>> aclgrad.grouped_bias_add_double_backward(rows, grad_grad_bias, [1, 3]).ravel()
    array([1., 2., 2., 0.])
    """
    return _core.grouped_bias_add_double_backward(grad_output, grad_grad_bias, group_ends, kind, out)
