# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Multi-scale deformable attention, its gradient, and that gradient's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ..._registry import Array, Indices, function


@function("output", aclnn=["aclnnMultiScaleDeformableAttnFunction"])
def msda_forward(
    value: Array,
    spatial_shapes: Indices,
    level_start_index: Indices,
    sampling_locations: Array,
    attention_weights: Array,
    *,
    out: Array | None = None,
) -> Any:
    """Multi-scale deformable attention: each query sums samples of several feature maps, with a weight for each.

    With B batches, S pixels in all levels, M heads, C channels of a head, Q queries, L levels and P points:

    Args:
        value: [B, S, M, C], the feature maps, one level after the other.
        spatial_shapes: [L, 2], height and width of each level.
        level_start_index: [L], the first row of each level in `value`.
        sampling_locations: [B, Q, M, L, P, 2] as (x, y), where 0 and 1 are the outer edges of a level.
        attention_weights: [B, Q, M, L, P].
        out: the array to write.

    Returns:
        [B, Q, M * C]. Samples are bilinear, and pixels outside of their level count as zero.

    >>> import aclgrad, numpy
    >>> value = numpy.arange(4.0).reshape(1, 4, 1, 1)  # one level of 2 x 2 pixels
    >>> locations = numpy.full((1, 1, 1, 1, 1, 2), 0.5)  # its centre
    >>> aclgrad.msda_forward(value, [[2, 2]], [0], locations, numpy.ones((1, 1, 1, 1, 1)))
    array([[[1.5]]])
    """
    return _core.msda_forward(value, spatial_shapes, level_start_index, sampling_locations, attention_weights, out)


@function(
    "grad_value", "grad_sampling_locations", "grad_attention_weights", aclnn=["aclnnMultiScaleDeformableAttentionGrad"]
)
def msda_backward(
    grad_output: Array,
    value: Array,
    spatial_shapes: Indices,
    level_start_index: Indices,
    sampling_locations: Array,
    attention_weights: Array,
    *,
    output_mask: tuple[bool, bool, bool] = (True, True, True),
    out: Sequence[Array | None] | None = None,
) -> tuple[Any, Any, Any]:
    """The gradients of `msda_forward`.

    The letters of the axes are those of `msda_forward`.

    Args:
        grad_output: [B, Q, M * C] or [B, Q, M, C], the gradient of the result.
        value, spatial_shapes, level_start_index, sampling_locations, attention_weights: as for `msda_forward`.
        output_mask: whether the gradients of `value`, `sampling_locations` and `attention_weights` are wanted. The
            others are None.
        out: the three arrays to write, as a tuple; None in it makes a new array.

    Returns:
        The gradients of `value`, `sampling_locations` and `attention_weights`, of their shapes.

    >>> import aclgrad, numpy
    >>> value = numpy.arange(4.0).reshape(1, 4, 1, 1)  # one level of 2 x 2 pixels
    >>> locations = numpy.full((1, 1, 1, 1, 1, 2), 0.5)  # its centre
    >>> weights, grad_output = numpy.ones((1, 1, 1, 1, 1)), numpy.ones((1, 1, 1))
    >>> for gradient in aclgrad.msda_backward(grad_output, value, [[2, 2]], [0], locations, weights):
    ...     print(gradient.ravel())
    [0.25 0.25 0.25 0.25]
    [2. 4.]
    [1.5]
    """
    return _core.msda_backward(
        grad_output, value, spatial_shapes, level_start_index, sampling_locations, attention_weights, output_mask, out
    )


@function("grad_grad_output", "grad_value", "grad_sampling_locations", "grad_attention_weights")
def msda_double_backward(
    grad_output: Array,
    value: Array,
    spatial_shapes: Indices,
    level_start_index: Indices,
    sampling_locations: Array,
    attention_weights: Array,
    grad_grad_value: Array | None = None,
    grad_grad_sampling_locations: Array | None = None,
    grad_grad_attention_weights: Array | None = None,
    *,
    output_mask: tuple[bool, bool, bool, bool] = (True, True, True, True),
    out: Sequence[Array | None] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """The gradients of `msda_backward`, for arrays in the memory of the CPU.

    The letters of the axes are those of `msda_forward`.

    Args:
        grad_output: [B, Q, M * C] or [B, Q, M, C], as for `msda_backward`.
        value, spatial_shapes, level_start_index, sampling_locations, attention_weights: as for `msda_forward`.
        grad_grad_value: [B, S, M, C], the gradient of the first result of `msda_backward`. None means zeros.
        grad_grad_sampling_locations: [B, Q, M, L, P, 2], the gradient of its second result. None means zeros.
        grad_grad_attention_weights: [B, Q, M, L, P], the gradient of its third result. None means zeros.
        output_mask: whether the gradients of `grad_output`, `value`, `sampling_locations` and `attention_weights` are
            wanted. The others are None.
        out: the four arrays to write, as a tuple; None in it makes a new array.

    Returns:
        The gradients of `grad_output`, `value`, `sampling_locations` and `attention_weights`, of their shapes. Which
        pixels a sample lies between, and whether it counts, has the derivative zero.

    >>> import aclgrad, numpy
    >>> value = numpy.arange(4.0).reshape(1, 4, 1, 1)  # one level of 2 x 2 pixels
    >>> locations = numpy.full((1, 1, 1, 1, 1, 2), 0.5)  # its centre
    >>> weights, grad_output = numpy.ones((1, 1, 1, 1, 1)), numpy.ones((1, 1, 1))
    >>> for gradient in aclgrad.msda_double_backward(
    ...     grad_output, value, [[2, 2]], [0], locations, weights, grad_grad_sampling_locations=locations
    ... ):
    ...     print(gradient.ravel())
    [3.]
    [-1.  0.  0.  1.]
    [0. 0.]
    [3.]
    """
    return _core.msda_double_backward(
        grad_output,
        value,
        spatial_shapes,
        level_start_index,
        sampling_locations,
        attention_weights,
        grad_grad_value,
        grad_grad_sampling_locations,
        grad_grad_attention_weights,
        output_mask,
        out,
    )
