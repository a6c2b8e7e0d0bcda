# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Grid sampling in two and three dimensions and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ... import _core
from ..._registry import Array, function

Mode = Literal["bilinear", "nearest", "bicubic"]
VolumeMode = Literal["bilinear", "nearest"]
PaddingMode = Literal["zeros", "border", "reflection"]


@function("output", aclnn=["aclnnGridSampler2D"])
def grid_sample(
    input: Array,
    grid: Array,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
    *,
    out: Array | None = None,
) -> Any:
    """Reads an image between its pixels, at the sampling locations of a grid; as `torch.nn.functional.grid_sample`.

    Args:
        input: [N, C, H, W].
        grid: [N, Ho, Wo, 2] as (x, y), where -1 and 1 are the outer edges of the image, or with `align_corners` the
            centres of its outermost pixels.
        mode: how to interpolate.
        padding_mode: what a sample outside of the image reads: zeros, the nearest pixel of the border, or the image
            mirrored.
        align_corners: whether -1 and 1 are the centres of the outermost pixels. None means False, as for PyTorch.
        out: the array to write.

    Returns:
        [N, C, Ho, Wo]. A coordinate that is NaN or infinite gives NaN with bicubic. Else it gives 0 with zeros padding,
        and with the others the position of pixel 0 along its axis; but border padding brings an infinity to the border.

    >>> import aclgrad, numpy
    >>> image = numpy.arange(4.0).reshape(1, 1, 2, 2)
    >>> grid = numpy.array([[[[0.0, 0.0], [-0.5, -0.5]]]])  # the centres of the image and of its first pixel
    >>> aclgrad.grid_sample(image, grid)
    array([[[[1.5, 0. ]]]])
    """
    return _core.grid_sample(input, grid, mode, padding_mode, align_corners, out)


@function("grad_input", "grad_grid", aclnn=["aclnnGridSampler2DBackward"])
def grid_sample_backward(
    grad_output: Array,
    input: Array,
    grid: Array,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
    *,
    output_mask: tuple[bool, bool] = (True, True),
    out: Sequence[Array | None] | None = None,
) -> tuple[Any, Any]:
    """The gradients of `grid_sample`.

    Args:
        grad_output: [N, C, Ho, Wo], the gradient of the result.
        input, grid, mode, padding_mode, align_corners: as for `grid_sample`.
        output_mask: whether the gradients of `input` and `grid` are wanted. The others cost nothing and are None.
        out: the two arrays to write, as a tuple; None in it makes a new array.

    Returns:
        The gradients of `input` and `grid`, of their shapes. A coordinate that is NaN or infinite contributes nothing
        and has a gradient of zero; only border padding, but for bicubic, brings an infinity to the border.

    >>> import aclgrad, numpy
    >>> image, grid = numpy.arange(4.0).reshape(1, 1, 2, 2), numpy.zeros((1, 1, 1, 2))
    >>> grad_input, grad_grid = aclgrad.grid_sample_backward(numpy.ones((1, 1, 1, 1)), image, grid)
    >>> grad_input.ravel(), grad_grid.ravel()
    (array([0.25, 0.25, 0.25, 0.25]), array([1., 2.]))
    """
    return _core.grid_sample_backward(grad_output, input, grid, mode, padding_mode, align_corners, output_mask, out)


@function("grad_grad_output", "grad_input", "grad_grid")
def grid_sample_double_backward(
    grad_output: Array,
    input: Array,
    grid: Array,
    grad_grad_input: Array | None = None,
    grad_grad_grid: Array | None = None,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
    *,
    output_mask: tuple[bool, bool, bool] = (True, True, True),
    out: Sequence[Array | None] | None = None,
) -> tuple[Any, Any, Any]:
    """The gradients of `grid_sample_backward`, for arrays in the memory of the CPU.

    Args:
        grad_output: [N, C, Ho, Wo], as for `grid_sample_backward`.
        input, grid, mode, padding_mode, align_corners: as for `grid_sample`.
        grad_grad_input: [N, C, H, W], the gradient of the first result of `grid_sample_backward`. None means zeros.
        grad_grad_grid: [N, Ho, Wo, 2], the gradient of its second result. None means zeros.
        output_mask: whether the gradients of `grad_output`, `input` and `grid` are wanted. The others are None.
        out: the three arrays to write, as a tuple; None in it makes a new array.

    Returns:
        The gradients of `grad_output`, `input` and `grid`, of their shapes. What jumps has the derivative zero:
        rounding down, clipping, mirroring and the choice of the nearest pixel. A coordinate that is NaN or infinite
        contributes nothing; only border padding, but for bicubic, brings an infinity to the border.

    >>> import aclgrad, numpy
    >>> image, grid = numpy.arange(4.0).reshape(1, 1, 2, 2), numpy.zeros((1, 1, 1, 2))
    >>> grad_output, to_the_right = numpy.ones((1, 1, 1, 1)), numpy.array([[[[1.0, 0.0]]]])
    >>> grad_grad_output, grad_input, grad_grid = aclgrad.grid_sample_double_backward(
    ...     grad_output, image, grid, grad_grad_grid=to_the_right
    ... )
    >>> grad_grad_output.item(), grad_input.ravel(), grad_grid.ravel()
    (1.0, array([-0.5,  0.5, -0.5,  0.5]), array([0., 0.]))
    """
    return _core.grid_sample_double_backward(
        grad_output, input, grid, grad_grad_input, grad_grad_grid, mode, padding_mode, align_corners, output_mask, out
    )


@function("output", aclnn=["aclnnGridSampler3D"])
def grid_sample_3d(
    input: Array,
    grid: Array,
    mode: VolumeMode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
    *,
    out: Array | None = None,
) -> Any:
    """Reads a volume between its voxels, at the sampling locations of a grid; as `torch.nn.functional.grid_sample`.

    Args:
        input: [N, C, D, H, W].
        grid: [N, Do, Ho, Wo, 3] as (x, y, z), from -1 to 1 as for `grid_sample`.
        mode, padding_mode, align_corners: as for `grid_sample`; "bilinear" is trilinear.
        out: the array to write.

    Returns:
        [N, C, Do, Ho, Wo]. What `grid_sample` says of coordinates that are NaN or infinite holds here, too.

    >>> import aclgrad, numpy
    >>> volume = numpy.arange(8.0).reshape(1, 1, 2, 2, 2)
    >>> grid = numpy.array([[[[[0.0, 0.0, 0.0], [0.5, -0.5, -0.5]]]]])  # the centres of the volume and of one voxel
    >>> aclgrad.grid_sample_3d(volume, grid).ravel()
    array([3.5, 1. ])
    """
    return _core.grid_sample_3d(input, grid, mode, padding_mode, align_corners, out)


@function("grad_input", "grad_grid", aclnn=["aclnnGridSampler3DBackward"])
def grid_sample_3d_backward(
    grad_output: Array,
    input: Array,
    grid: Array,
    mode: VolumeMode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
    *,
    output_mask: tuple[bool, bool] = (True, True),
    out: Sequence[Array | None] | None = None,
) -> tuple[Any, Any]:
    """The gradients of `grid_sample_3d`.

    Args:
        grad_output: [N, C, Do, Ho, Wo], the gradient of the result.
        input, grid, mode, padding_mode, align_corners: as for `grid_sample_3d`.
        output_mask, out: as for `grid_sample_backward`.

    Returns:
        The gradients of `input` and `grid`, of their shapes, as those of `grid_sample_backward`.

    >>> import aclgrad, numpy
    >>> volume, grid = numpy.arange(8.0).reshape(1, 1, 2, 2, 2), numpy.zeros((1, 1, 1, 1, 3))
    >>> grad_input, grad_grid = aclgrad.grid_sample_3d_backward(numpy.ones((1, 1, 1, 1, 1)), volume, grid)
    >>> grad_input.ravel()[:2], grad_grid.ravel()
    (array([0.125, 0.125]), array([1., 2., 4.]))
    """
    return _core.grid_sample_3d_backward(grad_output, input, grid, mode, padding_mode, align_corners, output_mask, out)


@function("grad_grad_output", "grad_input", "grad_grid")
def grid_sample_3d_double_backward(
    grad_output: Array,
    input: Array,
    grid: Array,
    grad_grad_input: Array | None = None,
    grad_grad_grid: Array | None = None,
    mode: VolumeMode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
    *,
    output_mask: tuple[bool, bool, bool] = (True, True, True),
    out: Sequence[Array | None] | None = None,
) -> tuple[Any, Any, Any]:
    """The gradients of `grid_sample_3d_backward`, for arrays in the memory of the CPU.

    Args:
        grad_output: [N, C, Do, Ho, Wo], as for `grid_sample_3d_backward`.
        input, grid, mode, padding_mode, align_corners: as for `grid_sample_3d`.
        grad_grad_input, grad_grad_grid: as for `grid_sample_double_backward`, of the shapes of `input` and `grid`.
        output_mask, out: as for `grid_sample_double_backward`.

    Returns:
        The gradients of `grad_output`, `input` and `grid`, of their shapes, as those of `grid_sample_double_backward`.

    >>> import aclgrad, numpy
    >>> volume, grid = numpy.arange(8.0).reshape(1, 1, 2, 2, 2), numpy.zeros((1, 1, 1, 1, 3))
    >>> grad_output, to_the_right = numpy.ones((1, 1, 1, 1, 1)), numpy.array([[[[[1.0, 0.0, 0.0]]]]])
    >>> grad_grad_output, grad_input, grad_grid = aclgrad.grid_sample_3d_double_backward(
    ...     grad_output, volume, grid, grad_grad_grid=to_the_right
    ... )
    >>> grad_grad_output.item(), grad_input.ravel()[:2]
    (1.0, array([-0.25,  0.25]))
    """
    return _core.grid_sample_3d_double_backward(
        grad_output, input, grid, grad_grad_input, grad_grad_grid, mode, padding_mode, align_corners, output_mask, out
    )
