# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""NSA compress and its gradient, and both passes through PyTorch."""

from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F

from bench import peers
from bench.case import SIZES, Call, Case, Work, gradient_of


def windows_unfold(x, block, stride):
    return x.unfold(0, block, stride)  # [windows, heads, channels, block]


def _windows_strided(x, block, stride):
    tokens, heads, channels = x.shape
    count = (tokens - block) // stride + 1
    s = x.stride()
    return x.as_strided((count, heads, channels, block), (stride * s[0], s[1], s[2], s[0]))


def compose(x, weight, ends, block, stride, windows):
    parts = [windows(x[b:e], block, stride) for b, e in pairwise([0, *ends]) if e - b >= block]
    return torch.cat([torch.einsum("knds,sn->knd", part, weight) for part in parts])


def _multiply_and_sum(x, weight, ends, block, stride):
    """A multiply and an add for each token of a window: torch.compile makes one loop of them."""
    parts = []
    for b, e in pairwise([0, *ends]):
        if e - b >= block:
            last = (e - b - block) // stride * stride
            tokens = (x[b + j : b + j + last + 1 : stride] for j in range(block))
            parts.append(sum(token * weight[j, :, None] for j, token in enumerate(tokens)))
    return torch.cat(parts)


def _depthwise_convolution(x, weight, ends, block, stride):
    """The heads' channels as the channels of an image one pixel wide, channels last."""
    heads, channels = x.shape[1:]
    kernel = weight.t().repeat_interleave(channels, 0)[:, None, :, None].contiguous(memory_format=torch.channels_last)
    images = (x[b:e].reshape(1, e - b, 1, -1).permute(0, 3, 1, 2) for b, e in pairwise([0, *ends]) if e - b >= block)
    parts = (F.conv2d(image, kernel, stride=(stride, 1), groups=heads * channels) for image in images)
    return torch.cat([part[0, :, :, 0].t().reshape(-1, heads, channels) for part in parts])


_COMPOSITIONS = {"unfold + einsum": partial(compose, windows=windows_unfold),
                 "as_strided + einsum": partial(compose, windows=_windows_strided),
                 "multiply and sum": _multiply_and_sum, "depthwise convolution": _depthwise_convolution}


def _composed_gradient(composition, grad, x, weight, ends, block, stride, transform):
    leaves = [t.detach().requires_grad_() for t in (x, weight)]
    return gradient_of(transform(composition)(*leaves, ends, block, stride), leaves, grad)


def _composed_forward(composition, x, weight, ends, block, stride, transform):
    compress = transform(composition)

    def run():
        with torch.no_grad():
            return compress(x, weight, ends, block, stride)
    return run


def _plain_c(function, inputs, outputs, ends, block, stride):
    def make():
        if len(ends) != 1:
            raise peers.Unsupported
        sizes = [*inputs[-2].shape, block, stride, (ends[0] - block) // stride + 1]
        return peers.plain_c(function, sizes, inputs, outputs, has_half=True)
    return {"plain C": make}


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
        baselines = {name: partial(_composed_gradient, composition, grad, x, weight, ends, block, stride)
                     for name, composition in _COMPOSITIONS.items()}
        if dtype == torch.bfloat16:  # two hundred times the time of the fastest
            del baselines["depthwise convolution"]
        if len(ends) > 1:  # minutes for torch.compile; of one sequence it is slower than unfold and einsum
            del baselines["multiply and sum"]
        return Work({"": call}, baselines,
                    peers=_plain_c("nsa_compress_backward", [grad, x, weight], outputs, ends, block, stride))
    return prepare


def _forward(tokens, heads, channels, block, stride, ends):
    def prepare(dtype, device):
        x, weight, out = _data(dtype, device, tokens, heads, channels, block, stride, ends)
        call = Call("aclnnNsaCompress", [x, weight, ends, "TND", block, stride, 0, out], [x, weight], [out])
        baselines = {name: partial(_composed_forward, composition, x, weight, ends, block, stride)
                     for name, composition in _COMPOSITIONS.items()}
        return Work({"": call}, baselines,
                    peers=_plain_c("nsa_compress", [x, weight], [out], ends, block, stride))
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
        *(Case(title, size, f16, work(count // token, 1, 128, 32, 16, [count // token]), kind="sizes")
          for title, work, token in ((gradient, _gradient, 528), ("NSA compress forward", _forward, 272))
          for size, count in SIZES.items()),
        Case("NSA compress in PyTorch, both passes", "T65536 N4 D128 32/16", f32, _training(*long), kind="python"),
    ]
