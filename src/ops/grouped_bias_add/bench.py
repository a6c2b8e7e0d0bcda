# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The grouped bias-add gradient, and both passes through PyTorch."""

from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F

from bench import peers
from bench.case import SIZES, Call, Case, Work, as_list, identity


def _index_add(grad, ends, transform):
    counts = torch.diff(ends, prepend=ends.new_zeros(1))
    group_of_row = torch.repeat_interleave(torch.arange(len(ends), device=grad.device), counts)
    return transform(lambda: grad.new_zeros(len(ends), grad.shape[1]).index_add_(0, group_of_row, grad))


def _group_sums(grad, ends, transform):
    bounds = [0] + ends.tolist()
    out = grad.new_empty(len(ends), grad.shape[1])

    def run():
        for group, (begin, end) in enumerate(pairwise(bounds)):
            torch.sum(grad[begin:end], 0, out=out[group])
        return out
    return transform(run)


def _segment_reduce(grad, ends, transform):
    lengths = torch.diff(ends, prepend=ends.new_zeros(1))
    return transform(lambda: torch.segment_reduce(grad, "sum", lengths=lengths, axis=0))


def _ones_times_group(grad, ends, transform):
    """A product of matrices for each group."""
    bounds = [0] + ends.tolist()
    ones, out = grad.new_ones(1, len(grad)), grad.new_empty(len(ends), grad.shape[1])

    def run():
        for group, (begin, end) in enumerate(pairwise(bounds)):
            torch.mm(ones[:, begin:end], grad[begin:end], out=out[group : group + 1])
        return out
    return transform(run)


def _embedding_bag(grad, ends, transform):
    """The groups as bags of rows."""
    rows, starts = torch.arange(len(grad), device=grad.device), torch.cat([ends.new_zeros(1), ends[:-1]])
    return transform(lambda: F.embedding_bag(rows, grad, starts, mode="sum"))


def _gradient(rows, columns, groups, skewed):
    def prepare(dtype, device):
        torch.manual_seed(5)
        grad = torch.randn(rows, columns).to(dtype).to(device)
        shares = 1.0 / torch.arange(1, groups + 1) if skewed else torch.ones(groups)
        ends = (rows * shares.cumsum(0) / shares.sum()).round().to(torch.int64).to(device)
        ends[-1] = rows
        out = torch.empty(groups, columns, dtype=dtype, device=device)
        call = Call("aclnnGroupedBiasAddGrad", [grad, ends, out], [grad, ends], [out],
                    "grouped_bias_add_grad", [rows, columns, groups])

        def expected(result):
            if dtype == torch.bfloat16:  # in which PyTorch adds up on a GPU
                return [_index_add(grad.float(), ends, identity)()]
            return as_list(result)
        return Work({"": call}, {"index_add": partial(_index_add, grad, ends),
                                 "sum of each group": partial(_group_sums, grad, ends),
                                 "segment_reduce": partial(_segment_reduce, grad, ends),
                                 "ones @ group": partial(_ones_times_group, grad, ends),
                                 "embedding_bag": partial(_embedding_bag, grad, ends)},
                    expected,
                    peers={"plain C": lambda: peers.plain_c("grouped_bias_add_grad", [rows, columns, groups],
                                                            [grad, ends], [out], has_half=True)})
    return prepare


def _training(rows, columns, groups):
    def prepare(dtype, device):
        import aclgrad.torch

        tokens, bias = torch.randn(rows, columns, dtype=dtype), torch.randn(groups, columns, dtype=dtype)
        ends = torch.arange(1, groups + 1) * (rows // groups)
        group = torch.repeat_interleave(torch.arange(groups), rows // groups)
        inputs, grad = [tokens.requires_grad_(), bias.requires_grad_()], torch.randn(rows, columns, dtype=dtype)

        def ours():
            return torch.autograd.grad(aclgrad.torch.grouped_bias_add(tokens, bias, ends), inputs, grad)

        def indexed():
            return torch.autograd.grad(tokens + bias[group], inputs, grad)
        return Work({"": ours}, {"indexing": lambda transform: indexed})
    return prepare


def cases():
    gradient, f32, f16, bf16 = "grouped bias-add gradient", torch.float32, torch.float16, torch.bfloat16
    both, one = ("cpu", "cuda"), ("cpu",)
    return [
        *(Case(gradient, problem, dtype, _gradient(*sizes), "read", readme, devices)
          for problem, dtype, sizes, readme, devices in (
              ("16384x4096, 8 even groups", f32, (16384, 4096, 8, False),
               "grouped bias-add gradient, 16384 × 4096, 8 groups", both),
              ("16384x4096, 128 skewed groups", f32, (16384, 4096, 128, True), "", both),
              ("16384x4096, 128 skewed groups", f16, (16384, 4096, 128, True), "", one),
              ("16384x4096, 8 even groups", f16, (16384, 4096, 8, False), "", one),
              ("16384x4096, 8 even groups", bf16, (16384, 4096, 8, False), "", one),
              ("65536x2880, 32 skewed groups", bf16, (65536, 2880, 32, True), "", both))),
        *(Case(gradient, size, f32, _gradient(count // 4096, 1024, 4, False), kind="sizes")
          for size, count in SIZES.items()),
        Case("grouped bias-add in PyTorch, both passes", "16384x4096, 8 groups", f32, _training(16384, 4096, 8),
             kind="python"),
    ]
