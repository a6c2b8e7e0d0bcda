# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Grid sampling in two and three dimensions as operators of PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ... import _core
from ...torch.checks import check_flag
from ...torch.registration import Gradient, Operator, in_float32, sum_of
from . import Mode, PaddingMode

__all__ = ["grid_sample"]


# By the numbers that PyTorch's operators have for them.
MODES: tuple[Mode, ...] = ("bilinear", "nearest", "bicubic")
PADDING_MODES: tuple[PaddingMode, ...] = ("zeros", "border", "reflection")


def _sample_tangent(
    tensors: Sequence[Any], attributes: Sequence[Any], tangents: Sequence[Tensor | None], shape: torch.Size
) -> Tensor:
    input, grid = tensors
    along_input, along_grid = tangents
    counts = _counts(input, grid, *attributes)
    terms = []
    if along_input is not None:
        along = _operator_for(along_input)(along_input, grid, *attributes)
        terms.append(torch.where(counts[:, None], along, 0))
    if along_grid is not None:
        terms.append(_sample_along_grid(input, grid, along_grid, counts[..., None], *attributes))
    return sum_of(terms)


def _sample_along_grid(
    input: Tensor, grid: Tensor, tangent: Tensor, counts: Tensor, mode: str, padding_mode: str, align_corners: bool
) -> Tensor:
    """The derivative along a tangent of the grid: the sum of the pixels that are read, each with its weight's
    derivative."""
    if mode == "nearest":
        return input.new_zeros(*input.shape[:2], *grid.shape[1:-1])
    sides = tuple(reversed(input.shape[2:]))  # as the grid's coordinates: x first
    grid, tangent = torch.where(counts, grid, 0), torch.where(counts, tangent, 0)
    # Float has no coordinate for each pixel of a side that is longer.
    image = input if max(sides) <= 2**20 else input.double()
    axis_taps = _cubic_taps if mode == "bicubic" else _linear_taps
    taps = []
    for i, side in enumerate(sides):
        place = _place(grid[..., i], side, align_corners)
        along = tangent[..., i] * ((side - 1) / 2 if align_corners else side / 2)
        of_axis = axis_taps(place, along, side, padding_mode, align_corners)
        taps.append([(_coordinate(at, side).to(image.dtype), *weights) for at, *weights in of_axis])
    terms = []
    for of_axes in itertools.product(*taps):
        coordinates = torch.stack([x for x, _, _ in of_axes], -1)
        pixel = _operator_for(image)(image, coordinates, "nearest", "zeros", False)
        terms.append(_weight_along([(weight, along) for _, weight, along in of_axes])[:, None] * pixel)
    return sum_of(terms).to(input.dtype)


def _counts(input: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    """Which samples have a part in the gradients: those at a place in pixels that is finite, or infinite and moved to
    the border."""
    sides = reversed(input.shape[2:])
    places = torch.stack([_place(x, side, align_corners) for x, side in zip(grid.unbind(-1), sides, strict=True)], -1)
    is_moved = mode != "bicubic" and padding_mode == "border"
    return (~places.isnan() if is_moved else places.isfinite()).all(-1)


def _place(x: Tensor, side: int, align_corners: bool) -> Tensor:
    """A coordinate in pixels."""
    return (x + 1) / 2 * (side - 1) if align_corners else ((x + 1) * side - 1) / 2


def _weight_along(of_axes: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """The derivative of a product of weights, from each weight and its derivative."""
    (weight, slope), *others = of_axes
    for other, other_slope in others:
        weight, slope = weight * other, slope * other + weight * other_slope
    return slope


def _mirrored(place: Tensor, side: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Where a place falls that is mirrored at the edges of the image, and whether the image runs backwards there. Exact
    for places of any size, as the remainder of a division is."""
    start, span = (0.0, side - 1) if align_corners else (-0.5, side)
    if span == 0:
        return torch.zeros_like(place), torch.zeros_like(place, dtype=torch.bool)
    distance = place - start
    rest = distance.abs().fmod(2 * span)
    is_odd = rest >= span
    return torch.where(is_odd, 2 * span - rest, rest) + start, is_odd ^ (distance < 0)


_Tap: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""A pixel's number, in double; its weight; and the weight's derivative along the tangent."""


def _linear_taps(place: Tensor, along: Tensor, side: int, padding_mode: str, align_corners: bool) -> list[_Tap]:
    """Of two pixels beside a place, which is padded itself."""
    if padding_mode == "reflection":
        place, is_backwards = _mirrored(place, side, align_corners)
        along = torch.where(is_backwards, -along, along)
    if padding_mode != "zeros":
        is_free = (place > 0) & (place < side - 1)
        along = torch.where(is_free, along, 0)
        place = torch.where(is_free, place, place.detach().clamp(0, side - 1))
    before = place.detach().floor()
    distance, first = place - before, before.double()
    return [(first, 1 - distance, -along), (first + 1, distance, along)]


# The weights of the four taps of bicubic interpolation, which is the cubic convolution with A = -3/4: coefficients of
# the powers of the distance from the second tap.
_CUBIC = (0.0, -0.75, 1.5, -0.75), (1.0, 0.0, -2.25, 1.25), (0.0, 0.75, 1.5, -1.25), (0.0, 0.0, -0.75, 0.75)


def _cubic_taps(place: Tensor, along: Tensor, side: int, padding_mode: str, align_corners: bool) -> list[_Tap]:
    """Of four pixels around a place, each of which is padded by itself."""
    before = place.detach().floor()
    # Where the neighbours of a pixel are the same number, all taps read it, and nothing depends on the place.
    has_neighbours = before.abs() < 2 / torch.finfo(place.dtype).eps
    along = torch.where(has_neighbours, along, 0)
    x = torch.where(has_neighbours, place, place.detach()) - before
    direction = torch.ones_like(before, dtype=torch.double)
    if padding_mode == "reflection":
        before, is_backwards = _mirrored(before, side, align_corners)
        before, direction = before.clamp(0, side - 1).trunc(), torch.where(is_backwards, -direction, direction)
    taps = []
    for i, (a, b, c, d) in enumerate(_CUBIC):
        at = before.double() + (i - 1) * direction
        if padding_mode == "reflection":
            at, _ = _mirrored(at, side, align_corners)
        if padding_mode != "zeros":
            at = at.clamp(0, side - 1)
        taps.append((at, a + x * (b + x * (c + x * d)), along * (b + x * (2 * c + x * (3 * d)))))
    return taps


def _coordinate(pixel: Tensor, side: int) -> Tensor:
    """The grid's coordinate at the centre of a pixel."""
    return (2 * pixel + 1) / side - 1


def _composed(input: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    """PyTorch's operator, which `aclgrad.torch.patch` does not replace."""
    numbers = MODES.index(mode), PADDING_MODES.index(padding_mode)
    return torch.ops.aten.grid_sampler(input, grid, *numbers, align_corners)  # type: ignore[no-any-return]


def _operator(name: str) -> Operator:
    gradient = Gradient(
        f"{name}_backward(Tensor grad_output, Tensor input, Tensor grid, str mode, str padding_mode, "
        "bool align_corners, bool[2] output_mask) -> Tensor[]",
        getattr(_core, f"{name}_backward"),
        _sample_tangent,
        floats=(0, 1),
        batch_axis=0,
        double_backward=getattr(_core, f"{name}_double_backward"),
        function="grid_sample_backward",
    )
    return Operator(
        f"{name}(Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners) -> Tensor",
        getattr(_core, name),
        gradient=gradient,
        floats=(0, 1),
        batch_axis=0,
        autocast_type=in_float32,
        function="grid_sample",
        composed=_composed,
    )


_sample, _sample_3d = _operator("grid_sample"), _operator("grid_sample_3d")


def _operator_for(input: Tensor) -> Operator:
    return _sample_3d if isinstance(input, Tensor) and input.dim() == 5 else _sample


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
) -> Tensor:
    """Reads an image between its pixels, or a volume between its voxels, at the sampling locations of a grid; as
    `torch.nn.functional.grid_sample`.

    Args:
        input: [N, C, H, W], or for a volume [N, C, D, H, W].
        grid: [N, Ho, Wo, 2] as (x, y), or for a volume [N, Do, Ho, Wo, 3] as (x, y, z), where -1 and 1 are the outer
            edges, or with `align_corners` the centres of the outermost pixels.
        mode: how to interpolate; for a volume not "bicubic".
        padding_mode: what a sample outside of the image reads: zeros, the nearest pixel of the border, or the image
            mirrored.
        align_corners: whether -1 and 1 are the centres of the outermost pixels. None means False, as for PyTorch.

    Returns:
        [N, C, Ho, Wo] or [N, C, Do, Ho, Wo]. Under autocast it computes in float32. A coordinate that is NaN or
        infinite gives what PyTorch gives on GPUs: bilinear with zeros padding 0, where PyTorch on CPUs gives NaN. Its
        gradients are zero, where PyTorch gives NaN or ends the process.

    >>> import torch, aclgrad.torch
    >>> image, grid = torch.arange(4.0).reshape(1, 1, 2, 2), torch.zeros(1, 1, 1, 2, requires_grad=True)
    >>> output = aclgrad.torch.grid_sample(image, grid)  # at the centre of the image
    >>> output.sum().backward()
    >>> output.item(), grid.grad.ravel()
    (1.5, tensor([1., 2.]))
    """
    if not isinstance(input, Tensor) and torch.overrides.has_torch_function_variadic(input, grid):
        # What stands for a tensor need not tell its axes, as in torch.fx.symbolic_trace.
        arguments = (input, grid, mode, padding_mode, align_corners)
        return torch.overrides.handle_torch_function(grid_sample, (input, grid), *arguments)
    if align_corners is not False:  # None means False, as for PyTorch's function
        align_corners = align_corners is not None and check_flag("torch.grid_sample", "align_corners", align_corners)
    return _operator_for(input)(input, grid, mode, padding_mode, align_corners)
