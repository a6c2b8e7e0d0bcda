"""The operators as custom operators of PyTorch, `torch.ops.aclgrad.*`, with derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .. import GroupKind, Mode, PaddingMode, _core
from .checks import Checks, check_flag
from .registration import Gradient, Operator


def _in_float32(device: str, types: list[torch.dtype]) -> torch.dtype:
    """For coordinates: eight bits of bfloat16 do not tell the pixels of a large map apart."""
    return torch.float32


def _in_autocast_type(device: str, types: list[torch.dtype]) -> torch.dtype:
    return torch.get_autocast_dtype(device)


def _in_widest_type(device: str, types: list[torch.dtype]) -> torch.dtype:
    return torch.float32 if len(set(types)) != 1 else types[0]


def _sum(terms: list[Tensor]) -> Tensor:
    first, *others = terms
    for term in others:
        first = first + term
    return first


def _needed(tensors: Sequence[Tensor], needs: Sequence[bool]) -> list[Tensor]:
    return [tensor.new_empty(tensor.shape) for tensor, needed in zip(tensors, needs, strict=True) if needed]


# ---- Multi-scale deformable attention


def _attention_kernel(value: Tensor, *others: Any) -> Tensor:
    return _core.msda_forward(value, *others, None)


def _check_attention(
    checks: Checks, value: Tensor, spatial_shapes: Tensor, level_start_index: Tensor, locations: Tensor, weights: Tensor
) -> None:
    indices = {"spatial_shapes": spatial_shapes, "level_start_index": level_start_index}
    checks.floats(value=value, sampling_locations=locations, attention_weights=weights)
    checks.integers(**indices)
    checks.same_device(value=value, **indices)
    checks.rank("value", value, 4)
    checks.rank("sampling_locations", locations, 6)
    batches, _, heads, _ = value.shape
    queries, levels, points = locations.shape[1], locations.shape[3], locations.shape[4]
    checks.shape("sampling_locations", locations, (batches, queries, heads, levels, points, 2))
    checks.shape("attention_weights", weights, (batches, queries, heads, levels, points))
    checks.shape("spatial_shapes", spatial_shapes, (levels, 2))
    checks.shape("level_start_index", level_start_index, (levels,))


def _attention_fake(value: Tensor, *others: Tensor) -> Tensor:
    _check_attention(Checks("multi_scale_deformable_attention"), value, *others)
    return value.new_empty(value.shape[0], others[2].shape[1], value.shape[2] * value.shape[3])


def _attention_gradient_fake(grad_output: Tensor, *inputs_and_needs: Any) -> list[Tensor]:
    *inputs, needs = inputs_and_needs
    value, _, _, locations, weights = inputs
    checks = Checks("multi_scale_deformable_attention_backward")
    _check_attention(checks, *inputs)
    checks.floats(value=value, grad_output=grad_output)
    batches, _, heads, channels = value.shape
    by_heads = (heads, channels) if grad_output.dim() == 4 else (heads * channels,)
    checks.shape("grad_output", grad_output, (batches, locations.shape[1], *by_heads))
    return _needed((value, locations, weights), needs)


def _attention_setup(ctx: Any, inputs: tuple[Any, ...]) -> None:
    ctx.attributes = ()
    ctx.save_for_backward(*inputs)


def _attention_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    needs_value, _, _, needs_locations, needs_weights = ctx.needs_input_grad[:5]
    grad_value, grad_locations, grad_weights = _attention_gradient(
        (grad_output, *ctx.saved_tensors), (), (needs_value, needs_locations, needs_weights)
    )
    return grad_value, None, None, grad_locations, grad_weights


def _attention_tangent(
    tensors: Sequence[Any], attributes: Sequence[Any], tangents: Sequence[Tensor | None], shape: torch.Size
) -> Tensor:
    value, spatial_shapes, level_start_index, locations, weights = tensors
    along_value, along_locations, along_weights = tangents
    levels = spatial_shapes, level_start_index
    terms = []
    if along_value is not None:
        terms.append(_attention(along_value, *levels, locations, weights))
    if along_weights is not None:
        terms.append(_attention(value, *levels, locations, along_weights))
    if along_locations is not None:
        corners = _corners_along(spatial_shapes, locations, weights, along_locations)
        terms.append(_attention(value, *levels, *corners))
    return _sum(terms)


def _corners_along(
    spatial_shapes: Tensor, locations: Tensor, weights: Tensor, tangent: Tensor
) -> tuple[Tensor, Tensor]:
    """Four samples for each, at the centres of the pixels around it, whose weights are the derivatives along `tangent`
    of those that bilinear interpolation has."""
    size = spatial_shapes.flip(1).to(locations)[:, None]  # width and height of each level, beside any points
    place = locations * size - 0.5
    counts = ((place > -1) & (place < size)).all(-1, keepdim=True)
    place = torch.where(counts, place, 0)
    corner = place.detach().floor()
    along_x, along_y = torch.where(counts, weights[..., None] * size * tangent, 0).unbind(-1)
    (right, below), (left, above) = (place - corner).unbind(-1), (1 - (place - corner)).unbind(-1)
    changes = (
        -along_x * above - along_y * left,
        along_x * above - along_y * right,
        -along_x * below + along_y * left,
        along_x * below + along_y * right,
    )
    steps = [corner.new_tensor(step) for step in ((0.5, 0.5), (1.5, 0.5), (0.5, 1.5), (1.5, 1.5))]
    return torch.cat([(corner + step) / size for step in steps], 4), torch.cat(changes, 4)


_ATTENTION_FLOATS = 0, 3, 4
_attention_gradient = Gradient(
    "multi_scale_deformable_attention_backward(Tensor grad_output, Tensor value, Tensor spatial_shapes, "
    "Tensor level_start_index, Tensor sampling_locations, Tensor attention_weights, bool[3] needs) -> Tensor[]",
    _core.msda_backward,
    _attention_gradient_fake,
    _attention_tangent,
    floats=_ATTENTION_FLOATS,
    batch_axis=0,
)
_attention = Operator(
    "multi_scale_deformable_attention(Tensor value, Tensor spatial_shapes, Tensor level_start_index, "
    "Tensor sampling_locations, Tensor attention_weights) -> Tensor",
    _attention_kernel,
    _attention_fake,
    _attention_setup,
    _attention_backward,
    _attention_tangent,
    floats=_ATTENTION_FLOATS,
    batch_axis=0,
    autocast_type=_in_float32,
)


def multi_scale_deformable_attention(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
) -> Tensor:
    """Multi-scale deformable attention: each query sums samples of several feature maps, with a weight for each.

    With B batches, S pixels in all levels, M heads, C channels of a head, Q queries, L levels and P points:

    Args:
        value: [B, S, M, C], the feature maps, one level after the other.
        spatial_shapes: [L, 2], height and width of each level, int32 or int64.
        level_start_index: [L], the first row of each level in `value`, int32 or int64.
        sampling_locations: [B, Q, M, L, P, 2] as (x, y), where 0 and 1 are the outer edges of a level.
        attention_weights: [B, Q, M, L, P].

    Returns:
        [B, Q, M * C]. Samples are bilinear, and pixels outside of their level count as zero. Under autocast it
        computes in float32. A location that is NaN or infinite counts as zero, too, and so do its gradients, as in the
        CUDA extensions of models; composed of `torch.nn.functional.grid_sample`, attention is NaN there on CPUs.
    """
    return _attention(value, spatial_shapes, level_start_index, sampling_locations, attention_weights)


# ---- NSA compression


def _compress_kernel(x: Tensor, *others: Any) -> Tensor:
    return _core.nsa_compress("cu_seqlens", x, *others, None)


def _check_compression(
    checks: Checks, x: Tensor, weight: Tensor, cu_seqlens: Tensor | None, block: int, stride: int
) -> None:
    checks.floats(x=x, weight=weight)
    checks.no_double_on_gpu("x", x)
    checks.rank("x", x, 3)
    checks.value(block >= 1, "block", "at least 1", block)
    checks.value(stride >= 1, "stride", "at least 1", stride)
    checks.shape("weight", weight, (block, x.shape[1]))
    if cu_seqlens is not None:
        checks.integers(cu_seqlens=cu_seqlens)
        expected = "a tensor in the memory of the CPU, since the number of windows follows from its contents"
        checks.value(cu_seqlens.device.type == "cpu", "cu_seqlens", expected, f"one on {cu_seqlens.device}")
        checks.rank("cu_seqlens", cu_seqlens, 1)


def _windows(x: Tensor, block: int, stride: int) -> Any:
    """Of one sequence."""
    return torch.sym_max((x.shape[0] - block + stride) // stride, 0)


def _compress_fake(x: Tensor, weight: Tensor, cu_seqlens: Tensor | None, block: int, stride: int) -> Tensor:
    _check_compression(Checks("nsa_compress"), x, weight, cu_seqlens, block, stride)
    if cu_seqlens is None:
        windows = _windows(x, block, stride)
    else:
        windows = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(windows, *x.shape[1:])


def _compress_gradient_fake(
    grad_output: Tensor,
    x: Tensor,
    weight: Tensor,
    cu_seqlens: Tensor | None,
    block: int,
    stride: int,
    needs: list[bool],
) -> list[Tensor]:
    checks = Checks("nsa_compress_backward")
    _check_compression(checks, x, weight, cu_seqlens, block, stride)
    checks.floats(x=x, grad_output=grad_output)
    checks.rank("grad_output", grad_output, 3)
    windows = _windows(x, block, stride) if cu_seqlens is None else grad_output.shape[0]
    checks.shape("grad_output", grad_output, (windows, *x.shape[1:]))
    return _needed((x, weight), needs)


def _compress_setup(ctx: Any, inputs: tuple[Any, ...]) -> None:
    tensors, ctx.attributes = inputs[:3], inputs[3:]
    ctx.save_for_backward(*tensors)


def _compress_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    tensors = (grad_output, *ctx.saved_tensors)
    grad_x, grad_weight = _compress_gradient(tensors, ctx.attributes, ctx.needs_input_grad[:2])
    return grad_x, grad_weight, None, None, None


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
    return _sum(terms)


_compress_gradient = Gradient(
    "nsa_compress_backward(Tensor grad_output, Tensor x, Tensor weight, Tensor? cu_seqlens, int block, int stride, "
    "bool[2] needs) -> Tensor[]",
    partial(_core.nsa_compress_backward, "cu_seqlens"),
    _compress_gradient_fake,
    _compress_tangent,
    floats=(0, 1),
    batch_axis=1,
)
_compress = Operator(
    "nsa_compress(Tensor x, Tensor weight, Tensor? cu_seqlens, int block, int stride) -> Tensor",
    _compress_kernel,
    _compress_fake,
    _compress_setup,
    _compress_backward,
    _compress_tangent,
    floats=(0, 1),
    batch_axis=1,
    autocast_type=_in_autocast_type,
)


def nsa_compress(x: Tensor, weight: Tensor, cu_seqlens: Tensor | None, block: int, stride: int) -> Tensor:
    """The key compression of native sparse attention: weighted sums over windows that slide along each sequence.

    Window k starts at token `stride * k` of its sequence and holds `block` tokens. A tail that fills no window is
    dropped. y[k, n, d] = sum over j < block of weight[j, n] * x[start of k + j, n, d].

    Args:
        x: [T, N, D], the tokens of all sequences, one sequence after the other, of N heads with D channels.
        weight: [block, N].
        cu_seqlens: the token after the last one of each sequence, int32 or int64; the last entry is T. A 0 may come
            first. None: one sequence. On the CPU wherever `x` is, since the size of the result follows from it.
        block: tokens of a window.
        stride: tokens from one window of a sequence to the next.

    Returns:
        [windows, N, D], sequence after sequence. Under autocast it computes as a matrix product does, in autocast's
        type with sums in float32.
    """
    return _compress(x, weight, cu_seqlens, block, stride)


# ---- Grid sampling


def _sample_kernel(input: Tensor, *others: Any) -> Tensor:
    return _core.grid_sample(input, *others, None)


_MODES = "bilinear", "nearest", "bicubic"
_PADDING_MODES = "zeros", "border", "reflection"


def _check_sampling(
    checks: Checks, input: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool
) -> None:
    checks.floats(input=input, grid=grid)
    checks.one_of("mode", mode, _MODES)
    checks.one_of("padding_mode", padding_mode, _PADDING_MODES)
    checks.rank("input", input, 4)
    checks.rank("grid", grid, 4)
    checks.shape("grid", grid, (input.shape[0], *grid.shape[1:3], 2))
    for side in input.shape[2:]:
        if isinstance(side, int):  # a limit for a symbol would be one for the program's user
            checks.value(0 < side < 2**30, "input", "a height and a width from 1 to 2^30 - 1", side)


def _sample_fake(input: Tensor, grid: Tensor, *attributes: Any) -> Tensor:
    _check_sampling(Checks("grid_sample"), input, grid, *attributes)
    return input.new_empty(*input.shape[:2], *grid.shape[1:3])


def _sample_gradient_fake(grad_output: Tensor, input: Tensor, grid: Tensor, *others: Any) -> list[Tensor]:
    *attributes, needs = others
    checks = Checks("grid_sample_backward")
    _check_sampling(checks, input, grid, *attributes)
    checks.floats(input=input, grad_output=grad_output)
    checks.shape("grad_output", grad_output, (*input.shape[:2], *grid.shape[1:3]))
    return _needed((input, grid), needs)


def _sample_setup(ctx: Any, inputs: tuple[Any, ...]) -> None:
    input, grid, *ctx.attributes = inputs
    ctx.save_for_backward(input, grid)


def _sample_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    tensors = (grad_output, *ctx.saved_tensors)
    grad_input, grad_grid = _sample_gradient(tensors, ctx.attributes, ctx.needs_input_grad[:2])
    return grad_input, grad_grid, None, None, None


def _sample_tangent(
    tensors: Sequence[Any], attributes: Sequence[Any], tangents: Sequence[Tensor | None], shape: torch.Size
) -> Tensor:
    input, grid = tensors
    along_input, along_grid = tangents
    terms = []
    if along_input is not None:
        terms.append(_sample(along_input, grid, *attributes))
    if along_grid is not None:
        terms.append(_sample_along_grid(input, grid, along_grid, *attributes))
    return _sum(terms)


# The first of the pixels that an axis reads, beside the one at or before the place; and their weights, as coefficients
# of the powers of the distance from that one. Bicubic is the cubic convolution with A = -3/4.
_TAPS = {
    "bilinear": (0, ((1.0, -1.0), (0.0, 1.0))),
    "bicubic": (
        -1,
        ((0.0, -0.75, 1.5, -0.75), (1.0, 0.0, -2.25, 1.25), (0.0, 0.75, 1.5, -1.25), (0.0, 0.0, -0.75, 0.75)),
    ),
}


def _sample_along_grid(
    input: Tensor, grid: Tensor, tangent: Tensor, mode: str, padding_mode: str, align_corners: bool
) -> Tensor:
    """The derivative along a tangent of the grid: the sum of the pixels that are read, each with its weight's
    derivative."""
    if mode == "nearest":
        return input.new_zeros(*input.shape[:2], *grid.shape[1:3])
    height, width = input.shape[2:]
    # Of bicubic sampling each pixel is padded by itself, else the place is, and then all lies within the image.
    pads_place = mode == "bilinear" and padding_mode != "zeros"
    clips = pads_place and padding_mode == "border"
    counts = (~grid.isnan() if clips else grid.isfinite()).all(-1, keepdim=True)
    grid, tangent = torch.where(counts, grid, 0), torch.where(counts, tangent, 0)
    if clips:
        grid = grid.clamp(-2, 2)  # infinities, too; all beyond 1 is the border
    padding_of_pixels = "border" if pads_place else padding_mode
    pixels_align = align_corners and padding_of_pixels == "reflection"
    (x, along_x), (y, along_y) = (
        _place_along(grid[..., i], tangent[..., i], side, padding_mode if pads_place else None, align_corners)
        for i, side in ((0, width), (1, height))
    )
    columns, rows = _taps(x, mode), _taps(y, mode)
    terms = []
    for row, weight_y, slope_y in rows:
        for column, weight_x, slope_x in columns:
            place = torch.stack((_normalised(column, width, pixels_align), _normalised(row, height, pixels_align)), -1)
            pixel = _sample(input, place, "nearest", padding_of_pixels, pixels_align)
            terms.append((slope_x * weight_y * along_x + weight_x * slope_y * along_y)[:, None] * pixel)
    return _sum(terms)


def _place_along(
    x: Tensor, tangent: Tensor, side: int, padding_mode: str | None, align_corners: bool
) -> tuple[Tensor, Tensor]:
    """The place on one axis in pixels, and its derivative along `tangent`."""
    place = (x + 1) / 2 * (side - 1) if align_corners else ((x + 1) * side - 1) / 2
    tangent = tangent * ((side - 1) / 2 if align_corners else side / 2)
    if padding_mode == "reflection":
        start, span = (0.0, side - 1) if align_corners else (-0.5, side)
        distance = (place - start).abs()
        flips = (distance.detach() / max(span, 1)).floor()
        is_odd = flips.remainder(2) == 1
        distance = distance - flips * span
        tangent = torch.where((place < start) ^ is_odd, -tangent, tangent)
        place = torch.where(is_odd, span - distance, distance) + start
    if padding_mode is not None:
        tangent = torch.where((place > 0) & (place < side - 1), tangent, 0)
        place = place.clamp(0, side - 1)
    return place, tangent


def _taps(place: Tensor, mode: str) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Position, weight and the weight's derivative for each pixel that is read along an axis."""
    first, coefficients = _TAPS[mode]
    before = place.detach().floor()
    powers = [torch.ones_like(place), place - before]
    while len(powers) < len(coefficients[0]):
        powers.append(powers[-1] * powers[1])
    taps = []
    for i, of_powers in enumerate(coefficients):
        weight = _sum([c * power for c, power in zip(of_powers, powers, strict=True)])
        slope = _sum([n * c * power for n, (c, power) in enumerate(zip(of_powers[1:], powers, strict=False), 1)])
        taps.append((before + (first + i), weight, slope))
    return taps


def _normalised(pixel: Tensor, side: int, align_corners: bool) -> Tensor:
    return 2 * pixel / max(side - 1, 1) - 1 if align_corners else (2 * pixel + 1) / side - 1


_sample_gradient = Gradient(
    "grid_sample_backward(Tensor grad_output, Tensor input, Tensor grid, str mode, str padding_mode, "
    "bool align_corners, bool[2] needs) -> Tensor[]",
    _core.grid_sample_backward,
    _sample_gradient_fake,
    _sample_tangent,
    floats=(0, 1),
    batch_axis=0,
)
_sample = Operator(
    "grid_sample(Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners) -> Tensor",
    _sample_kernel,
    _sample_fake,
    _sample_setup,
    _sample_backward,
    _sample_tangent,
    floats=(0, 1),
    batch_axis=0,
    autocast_type=_in_float32,
)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
) -> Tensor:
    """Reads an image between its pixels, at the places that a grid names; as `torch.nn.functional.grid_sample`.

    Args:
        input: [N, C, H, W].
        grid: [N, Ho, Wo, 2] as (x, y), where -1 and 1 are the outer edges of the image, or the centres of its
            outermost pixels with `align_corners`. None means False, as for PyTorch's function.
        mode: how to interpolate.
        padding_mode: what a place outside of the image reads: zeros, the nearest pixel of the border, or the image
            mirrored.

    Returns:
        [N, C, Ho, Wo]. Under autocast it computes in float32. A coordinate that is NaN or infinite gives what PyTorch
        gives on GPUs: bilinear with zeros padding 0, where PyTorch on CPUs gives NaN. Its gradients are zero, where
        PyTorch gives NaN or ends the process.
    """
    if align_corners is not False:  # None means False, as for PyTorch's function
        align_corners = align_corners is not None and check_flag("grid_sample", "align_corners", align_corners)
    return _sample(input, grid, mode, padding_mode, align_corners)


# ---- Grouped bias-add


def _bias_kernel(x: Tensor, *others: Any) -> Tensor:
    return _core.grouped_bias_add(x, *others, None)


def _bias_on_cuda(x: Tensor, bias: Tensor, group_ends: Tensor | None, kind: str) -> Tensor:
    """Composed of PyTorch's operators, as the library has no kernel for it. Ends that fall are not told from others."""
    groups = x.shape[0] if group_ends is None else group_ends.shape[0]
    if bias.dtype != x.dtype:
        raise TypeError(f"aclgrad.grouped_bias_add: bias: expected {x.dtype}, as x is, got {bias.dtype}")
    if x.dim() != (3 if group_ends is None else 2) or bias.shape != (groups, x.shape[-1]):
        shapes = f"{list(x.shape)} and {list(bias.shape)}"
        raise ValueError(f"aclgrad.grouped_bias_add: expected x [R, H] or [G, R, H], and bias [G, H], got {shapes}")
    if group_ends is None:
        return x + bias[:, None]
    if groups == 0:
        return x.clone()
    ends = group_ends.cumsum(0) if kind == "counts" else group_ends
    group = torch.searchsorted(ends, torch.arange(x.shape[0], device=x.device, dtype=ends.dtype), right=True)
    return torch.where((group < groups)[:, None], x + bias[group.clamp(max=groups - 1)], x)


def _check_grouping(checks: Checks, name: str, rows: Tensor, group_ends: Tensor | None, kind: str) -> None:
    checks.floats(**{name: rows})
    checks.one_of("kind", kind, ("ends", "counts"))
    checks.rank(name, rows, 3 if group_ends is None else 2)
    if group_ends is not None:
        checks.integers(group_ends=group_ends)
        checks.same_device(**{name: rows, "group_ends": group_ends})
        checks.rank("group_ends", group_ends, 1)


def _groups(rows: Tensor, group_ends: Tensor | None) -> Any:
    return rows.shape[0] if group_ends is None else group_ends.shape[0]


def _bias_fake(x: Tensor, bias: Tensor, group_ends: Tensor | None, kind: str) -> Tensor:
    checks = Checks("grouped_bias_add")
    checks.floats(x=x, bias=bias)
    _check_grouping(checks, "x", x, group_ends, kind)
    checks.shape("bias", bias, (_groups(x, group_ends), x.shape[-1]))
    return x.new_empty(x.shape)


def _bias_gradient_fake(grad_y: Tensor, group_ends: Tensor | None, kind: str, needs: list[bool]) -> list[Tensor]:
    checks = Checks("grouped_bias_add_backward")
    _check_grouping(checks, "grad_y", grad_y, group_ends, kind)
    checks.no_double_on_gpu("grad_y", grad_y)
    return [grad_y.new_empty(_groups(grad_y, group_ends), grad_y.shape[-1])] if needs[0] else []


def _bias_setup(ctx: Any, inputs: tuple[Any, ...]) -> None:
    _, _, group_ends, kind = inputs
    ctx.attributes = (kind,)
    ctx.save_for_backward(group_ends)


def _bias_backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
    needs_x, *needs = ctx.needs_input_grad[:2]
    (grad_bias,) = _bias_gradient((grad_y, *ctx.saved_tensors), ctx.attributes, needs)
    return grad_y if needs_x else None, grad_bias, None, None


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


def _bias_gradient_tangent(
    tensors: Sequence[Any], attributes: Sequence[Any], tangents: Sequence[Tensor | None], shape: torch.Size
) -> Tensor:
    return _bias_tangent(tensors, attributes, (None, *tangents), shape)


def _bias_gradient_core(
    grad_y: Tensor, group_ends: Tensor | None, kind: str, needs: Sequence[bool], out: None
) -> tuple[Tensor | None]:
    return (_core.grouped_bias_add_backward(grad_y, group_ends, kind, out) if needs[0] else None,)


_bias_gradient = Gradient(
    "grouped_bias_add_backward(Tensor grad_y, Tensor? group_ends, str kind, bool[1] needs) -> Tensor[]",
    _bias_gradient_core,
    _bias_gradient_fake,
    _bias_gradient_tangent,
    floats=(),
    batch_axis=-1,
)
_bias = Operator(
    "grouped_bias_add(Tensor x, Tensor bias, Tensor? group_ends, str kind) -> Tensor",
    _bias_kernel,
    _bias_fake,
    _bias_setup,
    _bias_backward,
    _bias_tangent,
    floats=(0, 1),
    batch_axis=-1,
    autocast_type=_in_widest_type,
    cuda_kernel=_bias_on_cuda,
)


def grouped_bias_add(
    x: Tensor, bias: Tensor, group_ends: Tensor | None = None, *, kind: GroupKind = "ends"
) -> Tensor:
    """Adds to each row the bias of its group, as behind the matrix products of a mixture of experts.

    Args:
        x: [R, H], rows sorted by group; [G, R, H] without `group_ends`, for G groups of R rows.
        bias: [G, H].
        group_ends: [G], the row after the last one of each group, or with `kind="counts"` the number of its rows;
            int32 or int64. Rows after the last group stay as they are.

    Returns:
        As `x`. Under autocast it computes in the wider of the two types.
    """
    return _bias(x, bias, group_ends, kind)
