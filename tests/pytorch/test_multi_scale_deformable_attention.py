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
    for gradient, tensor in zip(gradients, inputs):
        reference.assert_equal(gradient, tensor.grad)
