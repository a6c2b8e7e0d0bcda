# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import itertools
import math

import pytest
import reference
import torch
from torch.nn.functional import grid_sample

MODES = ["bilinear", "nearest", "bicubic"]
PADDINGS = ["zeros", "border", "reflection"]

# Where definitions tend to part: corners and centres of the image, and one, two and three widths away.
EDGES = [-5.0, -3.0, -2.0, -1.0, -0.75, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0]


def grid_with_edges(generator, axes, positions_in_double):
    edges = [EDGES, EDGES] if axes == 2 else [EDGES[::2], EDGES[1::2], EDGES[::3]]
    edges = torch.tensor(list(itertools.product(*edges)), dtype=torch.float64).expand(2, -1, -1)
    random = 2 * reference.random(generator, 2, 99, axes)
    if not positions_in_double:
        random = reference.random_coordinates(generator, -3, 3, 2, 99, axes)
    return torch.cat([random, edges], dim=1).view(2, *[1] * (axes - 1), -1, axes)


def both(image, grid, grad_output, *how):
    """The reference's result and its gradients, of images or volumes."""
    name = "reference_grid_sample" if image.dim() == 4 else "reference_grid_sample_3d"
    return [
        *reference.call(name, image, grid, *how),
        *reference.call(f"{name}_backward", grad_output, image, grid, *how),
    ]


IMAGES = [(1, 1), (1, 6), (5, 7), (8, 8), (33, 2)]
VOLUMES = [(1, 1, 1), (1, 6, 2), (5, 7, 4), (4, 8, 8), (9, 1, 3)]
MODES_OF_SIDES = [*itertools.product(MODES, IMAGES), *itertools.product(MODES[:2], VOLUMES)]


@pytest.mark.parametrize("positions_in_double", [False, True])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode, sides", MODES_OF_SIDES)
def test_forward_and_gradients(mode, sides, padding, align_corners, positions_in_double):
    generator = torch.Generator().manual_seed(sides[-2])
    image = reference.random(generator, 2, 3, *sides).requires_grad_()
    grid = grid_with_edges(generator, len(sides), positions_in_double).requires_grad_()
    expected = grid_sample(image, grid, mode, padding, align_corners)
    grad_output = reference.random(generator, *expected.shape)
    expected.backward(grad_output)

    actual = both(image, grid, grad_output, mode, padding, align_corners, positions_in_double)
    reference.assert_all_equal(actual, [expected, image.grad, grid.grad])


def at_coordinates(coordinates, mode, padding, align_corners, height, width):
    """The reference's results in double precision and PyTorch's, where each coordinate is x once and y once."""
    generator = torch.Generator().manual_seed(1)
    points = [(value, 0.3) for value in coordinates] + [(-0.2, value) for value in coordinates]
    image = reference.random(generator, 1, 2, height, width).requires_grad_()
    grid = torch.tensor(points, dtype=torch.float64).view(1, 1, -1, 2).requires_grad_()
    expected = grid_sample(image, grid, mode, padding, align_corners)
    grad_output = reference.random(generator, *expected.shape)
    actual = both(image, grid, grad_output, mode, padding, align_corners, True)
    return actual, (expected, *torch.autograd.grad(expected, [image, grid], grad_output))


@pytest.mark.parametrize("height, width", [(5, 7), (8, 3), (1, 2)])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_far_away(mode, padding, align_corners, height, width):
    # Further away PyTorch's own quotient of distance and size is no longer exact.
    far = [3e9, -3e9, 2147483648.5, -1073741823.25, 123456789012.75, -2.5e13]
    actual, expected = at_coordinates(far, mode, padding, align_corners, height, width)
    for ours, theirs in zip(actual, expected, strict=True):
        # PyTorch scales coordinates in another order: what is left of their fraction differs in its last bits.
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0.05)
    exact = [3e9 - 1, -3e9 - 1, 2.0**40 - 1, -(2.0**45) - 1]
    actual, expected = at_coordinates(exact, mode, padding, align_corners, height, width)
    reference.assert_all_equal(actual, expected)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_border_at_any_distance(mode, align_corners):
    actual, expected = at_coordinates([1e20, -1e20, 1e100, -1.7e307], mode, "border", align_corners, 5, 7)
    reference.assert_all_equal(actual, expected)


@pytest.mark.parametrize("padding", PADDINGS)
def test_bicubic_of_what_is_not_finite(padding):
    wrong = [math.nan, math.inf, -math.inf, 1.7e308]
    (output, image_grad, grid_grad), (expected, *_) = at_coordinates(wrong, "bicubic", padding, False, 5, 7)
    assert output.isnan().all() and expected.isnan().all()
    assert image_grad.count_nonzero() == 0 and grid_grad.count_nonzero() == 0  # PyTorch's are NaN


# ---- Second derivatives: those of the formula in plain tensor operations, which PyTorch's own operator has none of


def reflected(place, size, align_corners):
    """Without a derivative where it flips."""
    start, span = (0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return torch.zeros_like(place)
    distance = (place - start).abs()
    flips = (distance.detach() / span).floor()
    distance = distance - flips * span
    return torch.where(flips.remainder(2) == 1, span - distance, distance) + start


def padded(place, size, padding, align_corners):
    if padding == "reflection":
        place = reflected(place, size, align_corners)
    return place if padding == "zeros" else place.clamp(0, size - 1)


def cubic_weight(distance):
    x = distance.abs()
    near = 1.25 * x**3 - 2.25 * x**2 + 1
    return torch.where(x <= 1, near, -0.75 * x**3 + 3.75 * x**2 - 6 * x + 3)


def taps(x, size, mode, padding, align_corners):
    """Pixel and weight of each tap along an axis."""
    place = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2
    if mode == "bicubic":
        before = place.detach().floor()
        neighbours = [before + k for k in (-1, 0, 1, 2)]
        return [(padded(at, size, padding, align_corners), cubic_weight(place - at)) for at in neighbours]
    place = padded(place, size, padding, align_corners)
    if mode == "nearest":
        return [(place.detach().round(), torch.ones_like(place))]
    before = place.detach().floor()
    return [(before, before + 1 - place), (before + 1, place - before)]


def gather_and_weigh(image, grid, mode, padding, align_corners):
    batches, _, height, width = image.shape
    batch = torch.arange(batches).view(-1, 1, 1)
    result = 0
    for row, y_weight in taps(grid[..., 1], height, mode, padding, align_corners):
        for column, x_weight in taps(grid[..., 0], width, mode, padding, align_corners):
            is_pixel = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            pixels = image[batch, :, row.clamp(0, height - 1).long(), column.clamp(0, width - 1).long()]
            result = result + (is_pixel * y_weight * x_weight)[..., None] * pixels
    return result.movedim(-1, 1)


@pytest.mark.parametrize("height, width", IMAGES)
@pytest.mark.parametrize("positions_in_double", [False, True])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_second_gradients(mode, padding, align_corners, positions_in_double, height, width):
    generator = torch.Generator().manual_seed(height)
    image = reference.random(generator, 2, 3, height, width).requires_grad_()
    if positions_in_double:
        grid = 2 * reference.random(generator, 2, 9, 11, 2)
    else:
        grid = reference.random_coordinates(generator, -3, 3, 2, 9, 11, 2)
    grid.requires_grad_()
    result = gather_and_weigh(image, grid, mode, padding, align_corners)
    reference.assert_equal(result, grid_sample(image, grid, mode, padding, align_corners))
    grad_output = reference.random(generator, *result.shape).requires_grad_()
    unused = {"materialize_grads": True, "allow_unused": True}
    _, grad_grads, expected = reference.second_gradients(generator, result, [image, grid], grad_output, **unused)

    how = mode, padding, align_corners, positions_in_double
    actual = reference.call("reference_grid_sample_double_backward", grad_output, image, grid, *grad_grads, *how)
    reference.assert_all_equal(actual, expected)
