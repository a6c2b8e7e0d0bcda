"""The problems that are measured: real sizes of real models, each with our call and its peers."""

import ctypes
import dataclasses
from collections.abc import Callable
from functools import partial

import torch

import aclnn
import peers

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2
_ZEROS, _BORDER = 0, 1


@dataclasses.dataclass
class Work:
    """A case made ready: callables over one set of data."""

    ours: dict[str, Callable[[], None]]  # our call, by layout of its tensors where it is timed in several
    peers: dict[str, Callable[[Callable], Callable[[], object]]]  # each takes torch.compile or identity
    check: Callable[[], float]  # relative difference between our results and the first peer's
    compulsory_bytes: int  # every input read once, every output written once
    keep: list  # what must live as long as the callables


@dataclasses.dataclass
class Case:
    operator: str
    size: str
    dtype: torch.dtype
    floor: str  # "read" or "copy" for operators that memory bounds, else ""
    prepare: Callable[[torch.dtype], Work]


def identity(function):
    return function


def _bytes(*tensors: torch.Tensor) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    ours, theirs = ours.double().flatten(), theirs.double().flatten()
    return float((ours - theirs).norm() / theirs.norm())


def _work(operator, arguments, outputs, inputs, ways, first_results) -> Work:
    return _work_in_layouts({"": aclnn.Call(operator, *arguments)}, {"": outputs}, {"": inputs}, ways, first_results)


def _work_in_layouts(calls, outputs, inputs, ways, first_results) -> Work:
    """The same problem in several layouts: calls and their tensors by the name of the layout."""
    def check() -> float:
        expected = first_results(next(iter(ways.values()))(identity)())
        for call in calls.values():
            call.run()
        return max(_difference(o, t) for of_layout in outputs.values() for o, t in zip(of_layout, expected))

    ours = {name: call.run for name, call in calls.items()}
    size = _bytes(*next(iter(inputs.values())), *next(iter(outputs.values())))
    return Work(ours, ways, check, size, [calls, inputs, outputs])


# ---- multi-scale deformable attention

_DETR_LEVELS = [(100, 167), (50, 84), (25, 42), (13, 21)]


def _msda_data(dtype, batch, queries, levels, heads, channels, points, spread):
    torch.manual_seed(1)
    keys = sum(h * w for h, w in levels)
    value = torch.randn(batch, keys, heads, channels).to(dtype)
    if spread is None:
        location = torch.rand(batch, queries, heads, len(levels), points, 2)
    else:
        # Each query samples around a reference point: the pixel centres in raster order for an encoder, whose queries
        # are the keys, and random points for a decoder.
        if queries == keys:
            centres = [torch.stack(torch.meshgrid((torch.arange(w) + 0.5) / w, (torch.arange(h) + 0.5) / h,
                                                  indexing="xy"), -1).reshape(-1, 2) for h, w in levels]
            reference = torch.cat(centres)[None, :, None, None, None]
        else:
            reference = torch.rand(1, queries, 1, 1, 1, 2)
        pixel = torch.tensor([[1 / w, 1 / h] for h, w in levels])[None, None, None, :, None]
        location = reference + spread * torch.randn(batch, queries, heads, len(levels), points, 2) * pixel
    attention = torch.rand(batch, queries, heads, len(levels), points).flatten(3).softmax(-1)
    attention = attention.view(batch, queries, heads, len(levels), points)
    shapes = torch.tensor(levels, dtype=torch.int64)
    starts = torch.tensor([0] + [h * w for h, w in levels]).cumsum(0)[:-1].contiguous()
    return value, shapes, starts, location.to(dtype), attention.to(dtype)


def _msda_gradient(batch, queries, levels, heads, channels, points, spread):
    def prepare(dtype):
        value, shapes, starts, location, attention = _msda_data(dtype, batch, queries, levels, heads, channels, points, spread)
        grad = torch.randn(batch, queries, heads * channels).to(dtype)
        outputs = [torch.empty_like(t) for t in (value, location, attention)]
        inputs = [value, shapes, starts, location, attention, grad]
        arguments = [aclnn.tensor(t) for t in inputs + outputs]
        ways = {"autograd through grid_sample": partial(peers.msda_gradient, value, levels, location, attention, grad)}
        return _work("aclnnMultiScaleDeformableAttentionGrad", arguments, outputs, inputs, ways, lambda result: result)
    return prepare


def _msda_forward(batch, queries, levels, heads, channels, points, spread):
    def prepare(dtype):
        value, shapes, starts, location, attention = _msda_data(dtype, batch, queries, levels, heads, channels, points, spread)
        out = torch.empty(batch, queries, heads * channels, dtype=dtype)
        inputs = [value, shapes, starts, location, attention]
        arguments = [aclnn.tensor(t) for t in inputs + [out]]
        ways = {"grid_sample composition": partial(peers.msda_forward, value, levels, location, attention)}
        return _work("aclnnMultiScaleDeformableAttnFunction", arguments, [out], inputs, ways, lambda result: [result])
    return prepare


# ---- grid sampler

def _grid_data(dtype, n, c, h, w, ho, wo, smooth, scale):
    torch.manual_seed(2)
    image = torch.randn(n, c, h, w).to(dtype)
    if smooth:
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, ho), torch.linspace(-1, 1, wo), indexing="ij")
        grid = torch.stack([xs + 0.05 * torch.sin(3 * ys), ys + 0.05 * torch.cos(2 * xs)], -1).expand(n, ho, wo, 2)
    else:
        grid = torch.rand(n, ho, wo, 2) * 2.1 - 1.05
    return image, (scale * grid).to(dtype).contiguous(), torch.randn(n, c, ho, wo).to(dtype)


def _grid_gradient(n, c, h, w, ho, wo, mode=_BILINEAR, padding=_ZEROS, smooth=True, mask=(True, True)):
    def prepare(dtype):
        image, grid, grad = _grid_data(dtype, n, c, h, w, ho, wo, smooth, 1.0)
        calls, wanted, inputs = {}, {}, {}
        for name, layout in (("", torch.contiguous_format), ("channels last", torch.channels_last)):
            tensors = [grad.contiguous(memory_format=layout), image.contiguous(memory_format=layout), grid]
            outputs = [torch.empty_like(t) for t in tensors[1:]]
            handles = [aclnn.tensor(t) for t in tensors + outputs]
            arguments = [*handles[:3], ctypes.c_int64(mode), ctypes.c_int64(padding), ctypes.c_bool(False),
                         aclnn.bool_array(list(mask)), *handles[3:]]
            calls[name] = aclnn.Call("aclnnGridSampler2DBackward", *arguments)
            inputs[name] = tensors
            wanted[name] = [o for o, m in zip(outputs, mask) if m]
        common = (grad, image, grid, mode, padding, False, list(mask))
        ways = {"grid_sampler_2d_backward": partial(peers.grid_gradient, *common),
                "grid_sampler_2d_backward, channels last": partial(peers.grid_gradient_channels_last, *common)}
        return _work_in_layouts(calls, wanted, inputs, ways,
                                lambda result: [r for r, m in zip(result, mask) if m])
    return prepare


def _grid_forward(n, c, h, w, ho, wo, mode=_BILINEAR, padding=_ZEROS, smooth=True):
    def prepare(dtype):
        image, grid, grad = _grid_data(dtype, n, c, h, w, ho, wo, smooth, 1.0)
        out = torch.empty_like(grad)
        arguments = [aclnn.tensor(image), aclnn.tensor(grid), ctypes.c_int64(mode), ctypes.c_int64(padding),
                     ctypes.c_bool(False), aclnn.tensor(out)]
        ways = {"grid_sampler_2d": partial(peers.grid_forward, image, grid, mode, padding, False)}
        return _work("aclnnGridSampler2D", arguments, [out], [image, grid], ways, lambda result: [result])
    return prepare


# ---- NSA compression

def _ragged(tokens, sequences):
    torch.manual_seed(3)
    cuts = torch.randint(0, tokens, (sequences - 1,)).sort().values.tolist()
    return cuts + [tokens]


def _nsa(tokens, heads, channels, block, stride, ends, gradient):
    windows = sum((e - b - block) // stride + 1 for b, e in zip([0] + ends[:-1], ends) if e - b >= block)

    def prepare(dtype):
        torch.manual_seed(4)
        x = torch.randn(tokens, heads, channels).to(dtype)
        weight = torch.randn(block, heads).to(dtype)
        y = torch.randn(windows, heads, channels).to(dtype)
        lengths = aclnn.int_array(ends)
        sizes = (ctypes.c_int64(block), ctypes.c_int64(stride), ctypes.c_int64(0))
        layout = ctypes.c_char_p(b"TND")
        if gradient:
            outputs = [torch.empty_like(x), torch.empty_like(weight)]
            arguments = [aclnn.tensor(y), aclnn.tensor(x), aclnn.tensor(weight), lengths, *sizes, layout,
                         *map(aclnn.tensor, outputs)]
            common = (y, x, weight, ends, block, stride)
            ways = {"unfold + einsum": partial(peers.nsa_gradient_unfold, *common),
                    "as_strided + einsum": partial(peers.nsa_gradient_strided, *common)}
            return _work("aclnnNsaCompressGrad", arguments, outputs, [x, weight, y], ways, lambda result: result)
        arguments = [aclnn.tensor(x), aclnn.tensor(weight), lengths, layout, *sizes, aclnn.tensor(y)]
        common = (x, weight, ends, block, stride)
        ways = {"unfold + einsum": partial(peers.nsa_forward_unfold, *common),
                "as_strided + einsum": partial(peers.nsa_forward_strided, *common)}
        return _work("aclnnNsaCompress", arguments, [y], [x, weight], ways, lambda result: [result])
    return prepare


# ---- grouped bias

def _bias(rows, columns, groups, skewed):
    def prepare(dtype):
        torch.manual_seed(5)
        grad = torch.randn(rows, columns).to(dtype)
        shares = 1.0 / torch.arange(1, groups + 1) if skewed else torch.ones(groups)
        ends = (rows * shares.cumsum(0) / shares.sum()).round().to(torch.int64)
        ends[-1] = rows
        out = torch.empty(groups, columns, dtype=dtype)
        ways = {"index_add": partial(peers.bias_index_add, grad, ends), "sum of each group": partial(peers.bias_group_sums, grad, ends),
                "segment_reduce": partial(peers.bias_segment_reduce, grad, ends)}
        return _work("aclnnGroupedBiasAddGrad", [aclnn.tensor(grad), aclnn.tensor(ends), aclnn.tensor(out)], [out],
                     [grad], ways, lambda result: [result])
    return prepare


def _encoder(spread, operator=_msda_gradient):
    return operator(1, 22223, _DETR_LEVELS, 8, 32, 4, spread)


def all_cases() -> list[Case]:
    f32, f64, f16, bf16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
    msda, forward = "MSDA gradient", "MSDA forward"
    grid, nsa, bias = "grid sampler gradient", "NSA compress gradient", "grouped bias gradient"
    return [
        Case(msda, "encoder bs 1, local", f32, "", _encoder(2.0)),
        Case(msda, "encoder bs 1, local", bf16, "", _encoder(2.0)),
        Case(msda, "encoder bs 1, uniformly random", f32, "", _encoder(None)),
        Case(msda, "decoder bs 2, 300 queries", f32, "", _msda_gradient(2, 300, _DETR_LEVELS, 8, 32, 4, 2.0)),
        Case(msda, "BEV 200x200, 1 level", f32, "", _msda_gradient(1, 40000, [(200, 200)], 8, 32, 4, 2.0)),
        Case(forward, "encoder bs 1, local", f32, "", _encoder(2.0, _msda_forward)),
        Case(forward, "encoder bs 1, uniformly random", f32, "", _encoder(None, _msda_forward)),
        Case(grid, "N1 C64 128x128, smooth", f32, "", _grid_gradient(1, 64, 128, 128, 128, 128)),
        Case(grid, "N1 C64 128x128, random", f32, "", _grid_gradient(1, 64, 128, 128, 128, 128, smooth=False)),
        Case(grid, "N8 C64 128x128, smooth", f32, "", _grid_gradient(8, 64, 128, 128, 128, 128)),
        Case(grid, "N1 C3 1080x1920, smooth", f32, "", _grid_gradient(1, 3, 1080, 1920, 1080, 1920)),
        Case(grid, "N1 C64 128x128, bicubic", f32, "", _grid_gradient(1, 64, 128, 128, 128, 128, _BICUBIC)),
        Case(grid, "N1 C64 128x128, border, half", f16, "", _grid_gradient(1, 64, 128, 128, 128, 128, padding=_BORDER)),
        Case(grid, "N100 C2 30x40 to 13x13, grid only", f32, "",
             _grid_gradient(100, 2, 30, 40, 13, 13, padding=_BORDER, smooth=False, mask=(False, True))),
        Case(grid, "N100 C2 1000x1200 to 13x13, grid only", f32, "",
             _grid_gradient(100, 2, 1000, 1200, 13, 13, padding=_BORDER, smooth=False, mask=(False, True))),
        Case(grid, "N1 C64 300x400 to 13x13, grid only", f32, "",
             _grid_gradient(1, 64, 300, 400, 13, 13, smooth=False, mask=(False, True))),
        Case(grid, "N1 C64 1000x1200 to 13x13, grid only", f32, "",
             _grid_gradient(1, 64, 1000, 1200, 13, 13, smooth=False, mask=(False, True))),
        Case(grid, "N1 C1 512x512, smooth", f32, "", _grid_gradient(1, 1, 512, 512, 512, 512)),
        Case(grid, "N3072 C1 48x64 to 9x9, random", f32, "", _grid_gradient(3072, 1, 48, 64, 9, 9, smooth=False)),
        Case(grid, "N1 C64 128x128, smooth", f64, "", _grid_gradient(1, 64, 128, 128, 128, 128)),
        Case("grid sampler forward", "N1 C64 128x128, smooth", f32, "", _grid_forward(1, 64, 128, 128, 128, 128)),
        Case("grid sampler forward", "N1 C3 1080x1920, smooth", f32, "", _grid_forward(1, 3, 1080, 1920, 1080, 1920)),
        Case(nsa, "T65536 N4 D128 32/16", f16, "copy", _nsa(65536, 4, 128, 32, 16, [65536], True)),
        Case(nsa, "T65536 N4 D128 32/16", bf16, "copy", _nsa(65536, 4, 128, 32, 16, [65536], True)),
        Case(nsa, "T8192 N4 D192 32/16", f16, "copy", _nsa(8192, 4, 192, 32, 16, [8192], True)),
        Case(nsa, "T65536 in 48 ragged sequences", f16, "copy", _nsa(65536, 4, 128, 32, 16, _ragged(65536, 48), True)),
        Case("NSA compress forward", "T65536 N4 D128 32/16", f16, "read", _nsa(65536, 4, 128, 32, 16, [65536], False)),
        Case(bias, "16384x4096, 8 even groups", f32, "read", _bias(16384, 4096, 8, False)),
        Case(bias, "16384x4096, 128 skewed groups", f32, "read", _bias(16384, 4096, 128, True)),
        Case(bias, "16384x4096, 128 skewed groups", f16, "read", _bias(16384, 4096, 128, True)),
        Case(bias, "16384x4096, 8 even groups", f16, "read", _bias(16384, 4096, 8, False)),
        Case(bias, "16384x4096, 8 even groups", bf16, "read", _bias(16384, 4096, 8, False)),
        Case(bias, "65536x2880, 32 skewed groups", bf16, "read", _bias(65536, 2880, 32, True)),
    ]
