# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import pytest
import reference
import torch


@pytest.mark.parametrize("sizes", [[1], [3, 0, 5], [0, 0, 4, 1], [17, 100, 1, 63], [0]])
@pytest.mark.parametrize("columns", [1, 7, 32])
def test_gradient_is_that_of_indexing_a_bias(sizes, columns):
    generator = torch.Generator().manual_seed(len(sizes) + columns)
    counts = torch.tensor(sizes)
    ends = counts.cumsum(0)
    rows = int(ends[-1]) + 2  # the last two belong to no group
    grad_y = reference.random(generator, rows, columns)

    bias = torch.zeros(len(sizes), columns, dtype=torch.float64, requires_grad=True)
    group_of_row = torch.repeat_interleave(torch.arange(len(sizes)), counts)
    bias[group_of_row].backward(grad_y[: int(ends[-1])])

    gradients = reference.call("grouped_bias_add_backward", grad_y, ends, "ends", (True,))
    reference.assert_all_equal(gradients, [bias.grad])

    # The gradient is linear, so that its own is its transpose: indexing.
    grad_grad = reference.random(generator, len(sizes), columns)
    expected = torch.zeros_like(grad_y)
    expected[: int(ends[-1])] = grad_grad[group_of_row]
    spread = reference.call("grouped_bias_add_double_backward", grad_y, grad_grad, ends, "ends")
    reference.assert_all_equal(spread, [expected])
