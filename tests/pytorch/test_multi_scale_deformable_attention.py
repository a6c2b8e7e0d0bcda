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


@pytest.mark.parametrize("shapes", [[(1, 1)], [(8, 8), (4, 4)], [(13, 7), (1, 9), (30, 2), (5, 5)]])
@pytest.mark.parametrize("low, high", [(0, 1), (-0.5, 1.5), (-3, 4)])
@pytest.mark.parametrize("batches, heads, channels, queries, points", [(1, 1, 1, 1, 1), (2, 3, 8, 11, 4)])
def test_forward_and_gradients(shapes, low, high, batches, heads, channels, queries, points):
    generator = torch.Generator().manual_seed(len(shapes) + batches)
    spatial_shape = torch.tensor(shapes)
    areas = spatial_shape.prod(1)
    rows = int(areas.sum())
    value = reference.random(generator, batches, rows, heads, channels).requires_grad_()
    samples = (batches, queries, heads, len(shapes), points)
    location = reference.random_coordinates(generator, low, high, *samples, 2).requires_grad_()
    weight = reference.random(generator, *samples).requires_grad_()
    expected = attend(value, shapes, location, weight)
    grad_output = reference.random(generator, batches, queries, heads, channels)
    expected.backward(grad_output)

    inputs = (value, location, weight)
    gradients = [torch.empty_like(tensor) for tensor in inputs]
    output = torch.empty_like(grad_output)
    sizes = (batches, rows, heads, channels, queries, len(shapes), points)
    level_start_index = areas.cumsum(0) - areas
    reference.call(
        "multi_scale_deformable_attention", sizes, spatial_shape, level_start_index, *inputs, grad_output, output,
        *gradients,
    )
    reference.assert_equal(output, expected)
    for gradient, tensor in zip(gradients, inputs, strict=True):
        reference.assert_equal(gradient, tensor.grad)


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
    generator = torch.Generator().manual_seed(len(shapes) + batches)
    spatial_shape = torch.tensor(shapes)
    areas = spatial_shape.prod(1)
    rows = int(areas.sum())
    value = reference.random(generator, batches, rows, heads, channels).requires_grad_()
    samples = (batches, queries, heads, len(shapes), points)
    location = reference.random_coordinates(generator, low, high, *samples, 2).requires_grad_()
    weight = reference.random(generator, *samples).requires_grad_()
    inputs = (value, location, weight)
    output = gather_and_weigh(value, shapes, location, weight)
    reference.assert_equal(output, attend(value, shapes, location, weight))
    grad_output = reference.random(generator, *output.shape).requires_grad_()
    gradients = torch.autograd.grad(output, inputs, grad_output, create_graph=True)
    grad_grads = [reference.random(generator, *tensor.shape) for tensor in inputs]
    loss = sum((one * other).sum() for one, other in zip(gradients, grad_grads, strict=True))
    expected = torch.autograd.grad(loss, [grad_output, *inputs])

    actual = [torch.empty_like(tensor) for tensor in (grad_output, *inputs)]
    reference.call(
        "multi_scale_deformable_attention_double_backward",
        (batches, rows, heads, channels, queries, len(shapes), points),
        spatial_shape, areas.cumsum(0) - areas, *inputs, grad_output, *grad_grads, *actual,
    )
    for ours, theirs in zip(actual, expected, strict=True):
        reference.assert_equal(ours, theirs)
