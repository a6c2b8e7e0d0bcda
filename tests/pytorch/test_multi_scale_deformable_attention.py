# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import itertools

import pytest
import reference
import torch
from torch.nn.functional import grid_sample


def attend(value, shapes, location, weight):
    """Deformable attention composed of grid_sample, one call for each level."""
    batches, queries, heads, levels, points, _ = location.shape
    channels = value.shape[-1]
    output = 0
    for level, level_value in enumerate(value.split([height * width for height, width in shapes], dim=1)):
        image = level_value.permute(0, 2, 3, 1).reshape(batches * heads, channels, *shapes[level])
        grid = 2 * location[:, :, :, level] - 1  # [batches, queries, heads, points, 2]
        grid = grid.transpose(1, 2).reshape(batches * heads, queries, points, 2)
        sampled = grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
        sampled = sampled.view(batches, heads, channels, queries, points)
        output = output + torch.einsum("bmcqp,bqmp->bqmc", sampled, weight[:, :, :, level])
    return output


def problem(shapes, low, high, batches, heads, channels, queries, points):
    """A generator of numbers, the arguments of the references, and of these value, locations and weights."""
    generator = torch.Generator().manual_seed(len(shapes) + batches)
    areas = torch.tensor(shapes).prod(1)
    value = reference.random(generator, batches, int(areas.sum()), heads, channels).requires_grad_()
    samples = (batches, queries, heads, len(shapes), points)
    location = reference.random_coordinates(generator, low, high, *samples, 2).requires_grad_()
    weight = reference.random(generator, *samples).requires_grad_()
    arguments = value, torch.tensor(shapes), areas.cumsum(0) - areas, location, weight
    return generator, arguments, (value, location, weight)


@pytest.mark.parametrize("shapes", [[(1, 1)], [(8, 8), (4, 4)], [(13, 7), (1, 9), (30, 2), (5, 5)]])
@pytest.mark.parametrize("low, high", [(0, 1), (-0.5, 1.5), (-3, 4)])
@pytest.mark.parametrize("batches, heads, channels, queries, points", [(1, 1, 1, 1, 1), (2, 3, 8, 11, 4)])
def test_forward_and_gradients(shapes, low, high, batches, heads, channels, queries, points):
    generator, arguments, inputs = problem(shapes, low, high, batches, heads, channels, queries, points)
    value, location, weight = inputs
    expected = attend(value, shapes, location, weight)
    grad_output = reference.random(generator, batches, queries, heads, channels)
    expected.backward(grad_output)

    output = reference.call("reference_msda_forward", *arguments, False)
    reference.assert_all_equal(output, [expected.flatten(2)])
    gradients = reference.call("reference_msda_backward", grad_output, *arguments, False)
    reference.assert_all_equal(gradients, [tensor.grad for tensor in inputs])


# ---- Second derivatives: those of the formula in plain tensor operations, which PyTorch's grid_sample has none of


def gather_and_weigh(value, shapes, location, weight):
    batch = torch.arange(value.shape[0]).view(-1, 1, 1, 1)
    head = torch.arange(value.shape[2])[:, None]
    output = 0
    for level, level_value in enumerate(value.split([height * width for height, width in shapes], dim=1)):
        height, width = shapes[level]
        place = location[:, :, :, level] * torch.tensor([width, height]) - 0.5  # [batches, queries, heads, points, 2]
        before = place.detach().floor()
        after_x, after_y = (place - before).unbind(-1)
        for dy, dx in itertools.product((0, 1), repeat=2):
            column, row = before[..., 0] + dx, before[..., 1] + dy
            is_pixel = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            pixel = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
            corner_weight = (after_x if dx else 1 - after_x) * (after_y if dy else 1 - after_y)
            factor = is_pixel * corner_weight * weight[:, :, :, level]
            output = output + (factor[..., None] * level_value[batch, pixel.long(), head]).sum(3)
    return output


@pytest.mark.parametrize("shapes", [[(1, 1)], [(8, 8), (4, 4)], [(13, 7), (1, 9), (30, 2), (5, 5)]])
@pytest.mark.parametrize("low, high", [(0, 1), (-0.5, 1.5)])
@pytest.mark.parametrize("batches, heads, channels, queries, points", [(1, 1, 1, 1, 1), (2, 3, 8, 11, 4)])
def test_second_gradients(shapes, low, high, batches, heads, channels, queries, points):
    generator, arguments, inputs = problem(shapes, low, high, batches, heads, channels, queries, points)
    value, location, weight = inputs
    output = gather_and_weigh(value, shapes, location, weight)
    reference.assert_equal(output, attend(value, shapes, location, weight))
    grad_output = reference.random(generator, *output.shape).requires_grad_()
    _, grad_grads, expected = reference.second_gradients(generator, output, inputs, grad_output)
    name = "reference_msda_double_backward"
    actual = reference.call(name, grad_output, *arguments, *grad_grads, False)
    reference.assert_all_equal(actual, expected)
