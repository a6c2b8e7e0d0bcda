# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import pytest
import reference
import torch


def compress(x, weight, stride, lengths):
    """Windows of every sequence by unfold, weighted by einsum."""
    windows = [
        sequence.unfold(0, weight.shape[0], stride)  # [windows, heads, channels, block]
        for sequence in x.split(lengths)
        if sequence.shape[0] >= weight.shape[0]
    ]
    return torch.einsum("kndj,jn->knd", torch.cat(windows), weight)


@pytest.mark.parametrize("block, stride", [(16, 16), (32, 16), (64, 16), (48, 32), (3, 2), (2, 5)])
@pytest.mark.parametrize("lengths", [[64], [100, 70], [0, 65, 10, 64, 0, 130], [63, 1, 200]])
def test_forward_and_first_and_second_gradients(block, stride, lengths):
    generator = torch.Generator().manual_seed(sum(lengths) + block + stride)
    tokens, heads, channels = sum(lengths), 3, 8
    x = reference.random(generator, tokens, heads, channels).requires_grad_()
    weight = reference.random(generator, block, heads).requires_grad_()
    expected = compress(x, weight, stride, lengths)
    output_grad = reference.random(generator, *expected.shape).requires_grad_()
    gradients, grad_grads, second = reference.second_gradients(generator, expected, [x, weight], output_grad)

    how = torch.tensor(lengths).cumsum(0), block, stride
    reference.assert_all_equal(reference.call("nsa_compress", x, weight, *how), [expected])
    actual = reference.call("nsa_compress_backward", output_grad, x, weight, *how, (True, True))
    reference.assert_all_equal(actual, gradients)
    ends, *windows = how
    tensors = output_grad, x, weight, ends, *grad_grads
    actual = reference.call("nsa_compress_double_backward", *tensors, *windows, (True, True, True))
    reference.assert_all_equal(actual, second)
