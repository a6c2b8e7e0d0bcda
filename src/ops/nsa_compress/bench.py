# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""NSA compress and its gradient, and both passes through PyTorch."""

from functools import partial
from itertools import pairwise

import torch

from bench.case import Call, Case, Work, gradient_of


def windows_unfold(x, block, stride):
    return x.unfold(0, block, stride)  # [windows, heads, channels, block]


def _windows_strided(x, block, stride):
    tokens, heads, channels = x.shape
    count = (tokens - block) // stride + 1
    s = x.stride()
    return x.as_strided((count, heads, channels, block), (stride * s[0], s[1], s[2], s[0]))


_WINDOWS = {"unfold + einsum": windows_unfold, "as_strided + einsum": _windows_strided}


def compose(x, weight, ends, block, stride, windows):
    parts = [windows(x[b:e], block, stride) for b, e in pairwise([0, *ends]) if e - b >= block]
    return torch.cat([torch.einsum("knds,sn->knd", part, weight) for part in parts])


def _composed_gradient(windows, grad, x, weight, ends, block, stride, transform):
    leaves = [t.detach().requires_grad_() for t in (x, weight)]
    return gradient_of(transform(compose)(leaves[0], leaves[1], ends, block, stride, windows), leaves, grad)


def _composed_forward(windows, x, weight, ends, block, stride, transform):
    compress = transform(compose)

    def run():
        with torch.no_grad():
            return compress(x, weight, ends, block, stride, windows)
    return run


def _ragged(tokens, sequences):
    torch.manual_seed(3)
    return torch.randint(0, tokens, (sequences - 1,)).sort().values.tolist() + [tokens]


def _data(dtype, device, tokens, heads, channels, block, stride, ends):
    torch.manual_seed(4)
    windows = sum((e - b - block) // stride + 1 for b, e in pairwise([0, *ends]) if e - b >= block)
    shapes = (tokens, heads, channels), (block, heads), (windows, heads, channels)
    return [torch.randn(shape).to(dtype).to(device) for shape in shapes]


def _gradient(tokens, heads, channels, block, stride, ends):
    def prepare(dtype, device):
        x, weight, grad = _data(dtype, device, tokens, heads, channels, block, stride, ends)
        outputs = [torch.empty_like(x), torch.empty_like(weight)]
        # The kernel of the GPU benchmark takes one sequence.
        kernel = "nsa_compress_grad" if len(ends) == 1 else ""
        call = Call("aclnnNsaCompressGrad", [grad, x, weight, ends, block, stride, 0, "TND", *outputs],
                    [grad, x, weight], outputs, kernel, [tokens, heads, channels, block, stride, len(grad)])
        baselines = {name: partial(_composed_gradient, windows, grad, x, weight, ends, block, stride)
                     for name, windows in _WINDOWS.items()}
        return Work({"": call}, baselines)
    return prepare


def _forward(tokens, heads, channels, block, stride, ends):
    def prepare(dtype, device):
        x, weight, out = _data(dtype, device, tokens, heads, channels, block, stride, ends)
        call = Call("aclnnNsaCompress", [x, weight, ends, "TND", block, stride, 0, out], [x, weight], [out])
        baselines = {name: partial(_composed_forward, windows, x, weight, ends, block, stride)
                     for name, windows in _WINDOWS.items()}
        return Work({"": call}, baselines, lambda result: [result])
    return prepare


def _training(tokens, heads, channels, block, stride):
    def prepare(dtype, device):
        import aclgrad.torch

        x, weight, grad = _data(dtype, device, tokens, heads, channels, block, stride, [tokens])
        inputs = [x.requires_grad_(), weight.requires_grad_()]

        def ours():
            return torch.autograd.grad(aclgrad.torch.nsa_compress(x, weight, None, block, stride), inputs, grad)

        def composed():
            result = compose(x, weight, [tokens], block, stride, windows_unfold)
            return torch.autograd.grad(result, inputs, grad)
        return Work({"": ours}, {"unfold + einsum": lambda transform: composed})
    return prepare


def cases():
    gradient, f32, f16, bf16 = "NSA compress gradient", torch.float32, torch.float16, torch.bfloat16
    long, both = (65536, 4, 128, 32, 16), ("cpu", "cuda")
    return [
        Case(gradient, "T65536 N4 D128 32/16", f16, _gradient(*long, [65536]), "copy",
             "NSA compress gradient, 65536 tokens, half", both),
        Case(gradient, "T65536 N4 D128 32/16", bf16, _gradient(*long, [65536]), "copy", devices=both),
        Case(gradient, "T8192 N4 D192 32/16", f16, _gradient(8192, 4, 192, 32, 16, [8192]), "copy"),
        Case(gradient, "T65536 in 48 ragged sequences", f16, _gradient(*long, _ragged(65536, 48)), "copy"),
        Case("NSA compress forward", "T65536 N4 D128 32/16", f16, _forward(*long, [65536]), "read",
             "NSA compress forward, 65536 tokens, half"),
        Case("NSA compress in PyTorch, both passes", "T65536 N4 D128 32/16", f32, _training(*long), kind="python"),
    ]
