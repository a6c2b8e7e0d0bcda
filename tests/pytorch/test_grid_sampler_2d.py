import itertools

import pytest
import reference
import torch
from torch.nn.functional import grid_sample

MODES = ["bilinear", "nearest", "bicubic"]
PADDINGS = ["zeros", "border", "reflection"]

# Where definitions tend to part: corners and centres of the image, and one, two and three widths away.
EDGES = [-5.0, -3.0, -2.0, -1.0, -0.75, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0]


def grid_with_edges(generator, batches, positions_in_double):
    shape = (batches, 9, len(EDGES), 2)
    if positions_in_double:
        random = 2 * reference.random(generator, *shape)
    else:
        random = reference.random_coordinates(generator, -3, 3, *shape)
    edges = torch.tensor(list(itertools.product(EDGES, EDGES)), dtype=torch.float64)
    edges = edges.view(1, len(EDGES), len(EDGES), 2).expand(batches, -1, -1, -1)
    return torch.cat([random, edges], dim=1)


@pytest.mark.parametrize("height, width", [(1, 1), (1, 6), (5, 7), (8, 8), (33, 2)])
@pytest.mark.parametrize("positions_in_double", [False, True])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_forward_and_gradients(mode, padding, align_corners, positions_in_double, height, width):
    generator = torch.Generator().manual_seed(height)
    batches, channels = 2, 3
    image = reference.random(generator, batches, channels, height, width).requires_grad_()
    grid = grid_with_edges(generator, batches, positions_in_double).requires_grad_()
    expected = grid_sample(image, grid, mode, padding, align_corners)
    grad_output = reference.random(generator, *expected.shape)
    expected.backward(grad_output)

    sizes = (batches, channels, height, width, *grid.shape[1:3], MODES.index(mode), PADDINGS.index(padding))
    sizes += (align_corners, positions_in_double)
    output = torch.empty_like(grad_output)
    reference.call("grid_sampler_2d", sizes, image, grid, output)
    reference.assert_equal(output, expected)

    image_grad, grid_grad = torch.empty_like(image), torch.empty_like(grid)
    reference.call("grid_sampler_2d_backward", sizes, grad_output, image, grid, image_grad, grid_grad)
    reference.assert_equal(image_grad, image.grad)
    reference.assert_equal(grid_grad, grid.grad)
