# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Functions and references with random shapes, strides and types against PyTorch, and with wrong arguments."""

import dataclasses
from collections.abc import Callable
from typing import Any

import aclgrad
import aclgrad.reference
import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("hypothesis")
import aclgrad.torch  # noqa: E402
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch_cases import CALLS, OPERATORS  # noqa: E402

F = torch.nn.functional
func = torch.func

# The same examples in every run: what fails fails for everybody.
bounded = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}
sizes = st.integers(1, 5)


@dataclasses.dataclass
class Problem:
    """A call as a function of its floating-point tensors, ours and as PyTorch users write it. The reference and its
    gradients, which get the gradient of the result first."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    reference: Callable[..., Any]
    reference_gradients: Callable[..., Any]
    floats: list[Any]
    differentiable: list[bool]  # not where rounding decides on which side of a jump a coordinate lies


@st.composite
def layouts(draw, tensor):
    """The same values elsewhere in memory: axes in another order, gaps, an offset."""
    order = draw(st.permutations(range(tensor.dim())))
    steps = [draw(st.integers(1, 2)) for _ in order]
    offset = draw(st.integers(0, 3))
    padded = [tensor.shape[axis] * step for axis, step in zip(order, steps, strict=True)]
    memory = torch.full((int(numpy.prod(padded)) + offset,), 7, dtype=tensor.dtype)[offset:].view(padded)
    view = memory[tuple(slice(None, None, step) for step in steps)]
    view = view.permute(*(order.index(axis) for axis in range(tensor.dim())))
    return view.copy_(tensor)


@st.composite
def tensors(draw, shape, dtype, change=lambda x: x):
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    return draw(layouts(change(torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype)))


dtypes = st.sampled_from(list(TOLERANCE))


def is_half(dtype):
    return dtype in (torch.float16, torch.bfloat16)


def with_edges(grid):
    """Some coordinates exactly at edges, corners and centres of images and of mirror images, where definitions part."""
    return torch.where(grid.abs() % 0.5 < 0.25, (2 * grid).round() / 2, 0.9 * grid)


@st.composite
def samplings(draw):
    dtype = draw(dtypes)
    axes = draw(st.sampled_from([2, 3]))
    batches, channels, *sides = (draw(sizes) for _ in range(2 + 2 * axes))
    mode = draw(st.sampled_from(["bilinear", "nearest", "bicubic"][: 5 - axes]))
    attributes = mode, draw(st.sampled_from(["zeros", "border", "reflection"])), draw(st.booleans())
    image = draw(tensors((batches, channels, *sides[:axes]), dtype))
    grid = draw(tensors((batches, *sides[axes:], axes), dtype, with_edges))
    name = "grid_sample" if axes == 2 else "grid_sample_3d"
    return Problem(
        lambda i, g: aclgrad.torch.grid_sample(i, g, *attributes),
        lambda i, g: F.grid_sample(i, g, *attributes),
        lambda i, g: getattr(aclgrad.reference, name)(i, g, *attributes),
        lambda c, i, g: getattr(aclgrad.reference, f"{name}_backward")(c, i, g, *attributes),
        [image, grid],
        [True, not is_half(dtype)],
    )


def attention_of_grid_samples(value, levels, places, weights):
    batches, _, heads, channels = value.shape
    queries, points = places.shape[1], places.shape[4]
    maps = value.permute(0, 2, 3, 1).flatten(0, 1).split([height * width for height, width in levels], -1)
    grids = (2 * places - 1).transpose(1, 2).flatten(0, 1)
    samples = [
        F.grid_sample(level.unflatten(-1, shape), grids[:, :, i], align_corners=False)
        for i, (level, shape) in enumerate(zip(maps, levels, strict=True))
    ]
    weights = weights.transpose(1, 2).reshape(batches * heads, 1, queries, len(levels) * points)
    output = (torch.stack(samples, -2).flatten(-2) * weights).sum(-1)
    return output.view(batches, heads * channels, queries).transpose(1, 2)


@st.composite
def attentions(draw):
    dtype = draw(dtypes)
    batches, heads, channels, queries, points = (draw(sizes) for _ in range(5))
    levels = draw(st.lists(st.tuples(sizes, sizes), min_size=1, max_size=3))
    shapes = torch.tensor(levels, dtype=draw(st.sampled_from([torch.int32, torch.int64])))
    areas = shapes.prod(1)
    starts = (areas.cumsum(0) - areas).to(draw(st.sampled_from([torch.int32, torch.int64])))
    value = draw(tensors((batches, int(areas.sum()), heads, channels), dtype))
    places = draw(tensors((batches, queries, heads, len(levels), points, 2), dtype, lambda x: 0.5 + 0.4 * x))
    weights = draw(tensors((batches, queries, heads, len(levels), points), dtype))
    return Problem(
        lambda v, p, w: aclgrad.torch.multi_scale_deformable_attention(v, shapes, starts, p, w),
        lambda v, p, w: attention_of_grid_samples(v, levels, p, w),
        lambda v, p, w: aclgrad.reference.msda_forward(v, shapes, starts, p, w),
        lambda c, v, p, w: aclgrad.reference.msda_backward(c, v, shapes, starts, p, w),
        [value, places, weights],
        [True, not is_half(dtype), True],
    )


@st.composite
def compressions(draw):
    dtype = draw(dtypes)
    heads, channels, block, stride = (draw(sizes) for _ in range(4))
    lengths = draw(st.lists(st.integers(0, 12), min_size=1, max_size=4))
    ends = torch.tensor(lengths).cumsum(0)
    ends = draw(st.sampled_from([ends, ends.int(), None]))

    def by_unfold(x, weight):
        windows = [
            torch.einsum("wndb,bn->wnd", part.unfold(0, block, stride), weight)
            for part in (x.split(lengths) if ends is not None else [x])
            if len(part) >= block
        ]
        return torch.cat(windows) if windows else x[:0] * weight[:1, :, None].sum(0)

    x = draw(tensors((sum(lengths), heads, channels), dtype))
    return Problem(
        lambda x, weight: aclgrad.torch.nsa_compress(x, weight, ends, block, stride),
        by_unfold,
        lambda x, weight: aclgrad.reference.nsa_compress(x, weight, ends, block, stride),
        lambda c, x, weight: aclgrad.reference.nsa_compress_backward(c, x, weight, ends, block, stride),
        [x, draw(tensors((block, heads), dtype))],
        [True, True],
    )


@st.composite
def bias_additions(draw):
    dtype, columns = draw(dtypes), draw(sizes)
    counts = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    further = draw(st.integers(0, 3))
    kind = draw(st.sampled_from(["ends", "counts"]))
    indices = torch.tensor(counts if kind == "counts" else numpy.cumsum(counts).tolist())
    group = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))

    def by_index(x, bias):
        return torch.cat([x[: len(group)] + bias[group], x[len(group) :]])

    return Problem(
        lambda x, bias: aclgrad.torch.grouped_bias_add(x, bias, indices, kind=kind),
        by_index,
        lambda x, bias: aclgrad.reference.grouped_bias_add(x, bias, indices, kind=kind),
        lambda c, x, bias: (None, aclgrad.reference.grouped_bias_add_backward(c, indices, kind)),
        [draw(tensors((len(group) + further, columns), dtype)), draw(tensors((len(counts), columns), dtype))],
        [True, True],
    )


def check_close(actual, expected, dtype, tolerance=None):
    assert actual.dtype == dtype and actual.shape == expected.shape
    difference = (actual.double() - expected.double()).norm()
    allowed = TOLERANCE[dtype] if tolerance is None else tolerance
    assert difference <= allowed * (expected.double().norm() + 0.1 * expected.numel() ** 0.5)


def widened(tensor):
    return tensor.float() if is_half(tensor.dtype) else tensor


def check_against_pytorch(problem, data):
    floats = problem.floats
    dtype = floats[0].dtype
    wide = [widened(x).detach().clone().requires_grad_() for x in floats]
    expected = problem.theirs(*wide)
    result = problem.ours(*floats)
    check_close(result, expected, dtype)

    grad_output = data.draw(tensors(expected.shape, dtype))
    expected_gradients = torch.autograd.grad(expected, wide, widened(grad_output))
    expected = expected.detach()
    recorded = torch.autograd.grad(
        problem.ours(*(learned := [x.requires_grad_() for x in floats])), learned, grad_output
    )
    floats = [x.detach() for x in floats]
    check_reference(problem, floats, grad_output, expected, expected_gradients)
    result, pull = func.vjp(problem.ours, *floats)
    check_close(result, expected, dtype)
    for both in zip(recorded, pull(grad_output), expected_gradients, problem.differentiable, strict=True):
        *actual, reference, differentiable = both
        if differentiable:
            for gradient in actual:
                check_close(gradient, reference, dtype)

    # The derivative along tangents, by its product with the gradient of the result.
    tangents = [
        data.draw(tensors(x.shape, dtype)) if differentiable else torch.zeros_like(x)
        for x, differentiable in zip(floats, problem.differentiable, strict=True)
    ]
    _, slope = func.jvp(problem.ours, tuple(floats), tuple(tangents))
    product = (slope.double() * grad_output.double()).sum()
    products = [(g.double() * t.double()).sum() for g, t in zip(expected_gradients, tangents, strict=True)]
    scale = sum(g.double().norm() * t.double().norm() for g, t in zip(expected_gradients, tangents, strict=True))
    scale += slope.double().norm() * grad_output.double().norm()
    assert abs(product - sum(products)) <= TOLERANCE[dtype] * (scale + 1)


def check_reference(problem, floats, grad_output, expected, expected_gradients):
    """In double precision, of which float32 is as far away as PyTorch's rounding errors are."""
    tolerance = 1e-13 if expected.dtype == torch.float64 else TOLERANCE[torch.float32]
    actual = problem.reference(*floats), *problem.reference_gradients(grad_output, *floats)
    differentiable = True, *problem.differentiable
    for one, other, is_right in zip(actual, (expected, *expected_gradients), differentiable, strict=True):
        if one is not None and is_right:
            check_close(torch.from_numpy(one), other, torch.float64, tolerance)


@pytest.mark.parametrize("problems", [samplings, attentions, compressions, bias_additions])
def test_values_and_derivatives(problems):
    @bounded
    @given(problems(), st.data())
    def check(problem, data):
        check_against_pytorch(problem, data)

    check()


# ---- What is wrong

CHANGES = {
    "None": lambda a: None,
    "list": lambda a: a.tolist() if isinstance(a, torch.Tensor) else [a],
    "text": lambda a: "text",
    "number": lambda a: 2.5,
    "negative": lambda a: -a if isinstance(a, torch.Tensor) else -1,
    "huge": lambda a: a + 2**40 if isinstance(a, torch.Tensor) and not a.is_floating_point() else 2**70,
    "double": lambda a: a.double() if isinstance(a, torch.Tensor) else a,
    "integers": lambda a: a.long() if isinstance(a, torch.Tensor) else a,
    "bools": lambda a: a.bool() if isinstance(a, torch.Tensor) else True,
    "complex": lambda a: a.to(torch.complex64) if isinstance(a, torch.Tensor) else 1j,
    "fewer axes": lambda a: a[0] if isinstance(a, torch.Tensor) else a,
    "more axes": lambda a: a[None] if isinstance(a, torch.Tensor) else a,
    "no axes": lambda a: a.sum() if isinstance(a, torch.Tensor) else a,
    "shorter": lambda a: a[..., :-1] if isinstance(a, torch.Tensor) else a,
    "empty": lambda a: a[:0] if isinstance(a, torch.Tensor) else a,
    "sparse": lambda a: a.to_sparse() if isinstance(a, torch.Tensor) else a,
    "meta": lambda a: a.to("meta") if isinstance(a, torch.Tensor) else a,
    "NumPy": lambda a: a.numpy() if isinstance(a, torch.Tensor) else a,
    "expanded": lambda a: a[:1].expand_as(a) if isinstance(a, torch.Tensor) else a,
}


@bounded
@given(st.sampled_from(list(CALLS)), st.lists(st.tuples(st.integers(0, 4), st.sampled_from(list(CHANGES))), max_size=3))
def test_wrong_arguments_are_results_or_errors_of_ours(name, changes):
    """Also in pairs, where one makes up for the other."""
    function, make = CALLS[name]
    arguments = list(make())
    for position, change in changes:
        position %= len(arguments)
        try:
            arguments[position] = CHANGES[change](arguments[position])
        except (AttributeError, IndexError, TypeError, RuntimeError, NotImplementedError):
            pass  # a change that the argument, as others left it, does not take
    short = {"multi_scale_deformable_attention": "msda_forward"}
    on_numpy = getattr(aclgrad, short.get(OPERATORS[name], OPERATORS[name]))
    for call in (function, on_numpy):
        try:
            call(*arguments)
        except (TypeError, ValueError) as error:
            assert "aclgrad." in str(error)
        except RuntimeError as error:  # of a fake tensor, in PyTorch's words
            assert call is function and "aclgrad::" in str(error) and "data-dependent shape" in str(error)
