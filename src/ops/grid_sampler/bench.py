# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The grid sampler and its gradient, and both passes through PyTorch."""

import itertools
import math
from functools import partial

import torch
import torch.nn.functional as F

from bench import peers
from bench.case import SIZES, Call, Case, Work, gradient_of, identity, joined

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2
_MODES = ("bilinear", "nearest", "bicubic")
_ZEROS, _BORDER = 0, 1


def _torch_gradient(grad, image, grid, mode, padding, mask, transform):
    return transform(lambda: torch.ops.aten.grid_sampler_2d_backward(grad, image, grid, mode, padding, False, mask))


def _torch_gradient_channels_last(grad, image, *rest):
    return _torch_gradient(*(t.contiguous(memory_format=torch.channels_last) for t in (grad, image)), *rest)


def _torch_forward(image, grid, mode, padding, transform):
    return transform(lambda: torch.ops.aten.grid_sampler_2d(image, grid, mode, padding, False))


def _grid(kind, n, ho, wo):
    if kind == "random":
        return torch.rand(n, ho, wo, 2) * 2.1 - 1.05
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, ho), torch.linspace(-1, 1, wo), indexing="ij")
    if kind == "rotated":  # by 30 degrees
        axes = [0.87 * xs - 0.5 * ys, 0.5 * xs + 0.87 * ys]
    else:
        axes = [xs + 0.05 * torch.sin(3 * ys), ys + 0.05 * torch.cos(2 * xs)]
    return torch.stack(axes, -1).expand(n, ho, wo, 2)


def _data(dtype, device, n, c, h, w, ho, wo, smooth):
    torch.manual_seed(2)
    image = torch.randn(n, c, h, w)
    grid = _grid("smooth" if smooth else "random", n, ho, wo)
    return [t.to(dtype).to(device).contiguous() for t in (image, grid, torch.randn(n, c, ho, wo))]


def _as_list(result):
    return [result] if isinstance(result, torch.Tensor) else result


def _plain_c(function, inputs, outputs, layout="", mode=_BILINEAR, padding=_ZEROS):
    return {joined("plain C", layout): partial(peers.plain_c_grid_sampler, function, inputs, outputs, mode, padding)}


def _gradient(n, c, h, w, ho, wo, mode=_BILINEAR, padding=_ZEROS, smooth=True, mask=(True, True)):
    def prepare(dtype, device):
        image, grid, grad = _data(dtype, device, n, c, h, w, ho, wo, smooth)
        ours, plain_c = {}, {}
        for name, layout in (("", torch.contiguous_format), ("channels last", torch.channels_last)):
            inputs = [grad.contiguous(memory_format=layout), image.contiguous(memory_format=layout), grid]
            outputs = [torch.empty_like(t) for t in inputs[1:]]
            wanted = [o for o, m in zip(outputs, mask, strict=True) if m]
            # The kernel of the GPU benchmark takes contiguous tensors, and only what its sizes say.
            plain = name == "" and (mode, padding, all(mask)) == (_BILINEAR, _ZEROS, True)
            ours[name] = Call("aclnnGridSampler2DBackward", [*inputs, mode, padding, False, list(mask), *outputs],
                              inputs, wanted, "grid_sampler_grad" if plain else "", [n, c, h, w, ho, wo])
            plain_c |= _plain_c("grid_sampler_2d_backward", inputs, outputs, name, mode, padding)
        common = (grad, image, grid, mode, padding, list(mask))

        def expected(result):
            if dtype == torch.float16:  # in which PyTorch computes positions, while ours does so in float
                in_float = (tensor.float() for tensor in (grad, image, grid))
                result = _torch_gradient(*in_float, mode, padding, list(mask), identity)()
            return [r for r, m in zip(result, mask, strict=True) if m]
        return Work(ours, {"grid_sampler_2d_backward": partial(_torch_gradient, *common),
                           "grid_sampler_2d_backward, channels last": partial(_torch_gradient_channels_last, *common)},
                    expected, peers=plain_c if all(mask) else {})
    return prepare


def _forward(n, c, h, w, ho, wo):
    def prepare(dtype, device):
        image, grid, out = _data(dtype, device, n, c, h, w, ho, wo, smooth=True)
        ours, theirs = {}, {}
        others = {"OpenVINO": partial(peers.openvino_grid_sample, image, grid, _BILINEAR, _ZEROS)}
        for name, layout in (("", torch.contiguous_format), ("channels last", torch.channels_last)):
            images, outputs = (t.contiguous(memory_format=layout) for t in (image, out))
            ours[name] = Call("aclnnGridSampler2D", [images, grid, _BILINEAR, _ZEROS, False, outputs], [images, grid],
                              [outputs])
            theirs[joined("grid_sampler_2d", name)] = partial(_torch_forward, images, grid, _BILINEAR, _ZEROS)
            others[joined("OpenCV", name)] = partial(peers.opencv_remap, images, grid, _BILINEAR, _ZEROS)
            others |= _plain_c("grid_sampler_2d", [images, grid], [outputs], name)
        return Work(ours, theirs, _as_list, peers=others)
    return prepare


def _training(*sizes):
    def prepare(dtype, device):
        import aclgrad.torch

        image, grid, grad = _data(dtype, device, *sizes, smooth=False)
        inputs = [image.requires_grad_(), grid.requires_grad_()]

        def both(sample):
            return lambda: torch.autograd.grad(sample(image, grid), inputs, grad)
        theirs = both(partial(F.grid_sample, align_corners=False))
        return Work({"": both(aclgrad.torch.grid_sample)}, {"grid_sample": lambda transform: theirs})
    return prepare


def _gather_and_weigh(image, grid):
    """Bilinear sampling in plain tensor operations: that of PyTorch has no second derivative."""
    n, c, h, w = image.shape
    places = [((grid[..., axis] + 1) * size - 1) / 2 for axis, size in enumerate((w, h))]
    before = [place.detach().floor() for place in places]
    result = 0
    for right, below in ((0, 0), (1, 0), (0, 1), (1, 1)):
        x, y = before[0] + right, before[1] + below
        inside = (x >= 0) & (x < w) & (y >= 0) & (y < h)
        weight = inside * (1 - (places[0] - x).abs()) * (1 - (places[1] - y).abs())
        index = (y.clamp(0, h - 1) * w + x.clamp(0, w - 1)).long().view(n, 1, -1).expand(-1, c, -1)
        result = result + weight[:, None] * image.flatten(2).gather(2, index).view(n, c, *grid.shape[1:3])
    return result


def _double_backward(*sizes, layout=torch.contiguous_format, smooth=True):
    """Beside the first gradient, whose time is what it is measured by."""
    def prepare(dtype, device):
        import aclgrad

        image, grid, grad = _data(dtype, device, *sizes, smooth=smooth)
        image, grad = (t.contiguous(memory_format=layout) for t in (image, grad))
        grad_grads = [torch.randn_like(image), torch.randn_like(grid)]
        second = [torch.empty_like(t) for t in (grad, image, grid)]
        first = [torch.empty_like(t) for t in (image, grid)]

        def composed():
            inputs = [t.detach().requires_grad_() for t in (grad, image, grid)]
            result = _gather_and_weigh(*inputs[1:])
            gradients = torch.autograd.grad(result, inputs[1:], inputs[0], create_graph=True)
            return torch.autograd.grad(gradients, inputs, grad_grads)

        def gradient():  # for its time: its results are others
            aclgrad.grid_sample_backward(grad, image, grid, out=first)
            return second
        return Work({"": lambda: aclgrad.grid_sample_double_backward(grad, image, grid, *grad_grads, out=second)},
                    {"gather and weigh": lambda transform: composed,
                     "grid_sample_backward": lambda transform: gradient})
    return prepare


def _data_3d(n, c, d, h, w, samples):
    torch.manual_seed(2)
    volume = torch.randn(n, c, d, h, w)
    if samples is None:
        zs, ys, xs = torch.meshgrid(*(torch.linspace(-1, 1, side) for side in (d, h, w)), indexing="ij")
        shift = [torch.sin(3 * ys), torch.cos(2 * zs), torch.sin(2 * xs)]
        grid = torch.stack([at + 0.05 * by for at, by in zip((xs, ys, zs), shift, strict=True)], -1)
        grid = grid.expand(n, d, h, w, 3)
    else:
        grid = torch.rand(n, 1, 1, samples, 3) * 2.1 - 1.05
    return volume, grid.contiguous(), torch.randn(n, c, *grid.shape[1:4])


def _gradient_3d(*sizes, samples=None, mask=(True, True)):
    def prepare(dtype, device):
        volume, grid, grad = (t.to(dtype).to(device) for t in _data_3d(*sizes, samples))

        def theirs(layout, transform):
            tensors = [t.contiguous(memory_format=layout) for t in (grad, volume)]
            return transform(lambda: torch.ops.aten.grid_sampler_3d_backward(*tensors, grid, 0, 0, False, list(mask)))
        ours = {}
        others = {"JAX": partial(peers.jax_map_coordinates_gradient, grad, volume, grid)}
        for name, layout in (("", torch.contiguous_format), ("channels last", torch.channels_last_3d)):
            inputs = [*(t.contiguous(memory_format=layout) for t in (grad, volume)), grid]
            outputs = [torch.empty_like(t) for t in inputs[1:]]
            wanted = [o for o, m in zip(outputs, mask, strict=True) if m]
            ours[name] = Call("aclnnGridSampler3DBackward",
                              [*inputs, _BILINEAR, _ZEROS, False, list(mask), *outputs], inputs, wanted)
            others |= _plain_c("grid_sampler_3d_backward", inputs, outputs, name)
        return Work(ours, {"grid_sampler_3d_backward": partial(theirs, torch.contiguous_format),
                           "grid_sampler_3d_backward, channels last": partial(theirs, torch.channels_last_3d)},
                    lambda result: [r for r, m in zip(result, mask, strict=True) if m],
                    peers=others if all(mask) else {})
    return prepare


def _forward_3d(*sizes):
    def prepare(dtype, device):
        volume, grid, out = (t.to(dtype).to(device) for t in _data_3d(*sizes, None))
        call = Call("aclnnGridSampler3D", [volume, grid, _BILINEAR, _ZEROS, False, out], [volume, grid], [out])

        def theirs(transform):
            return transform(lambda: torch.ops.aten.grid_sampler_3d(volume, grid, 0, 0, False))
        return Work({"": call}, {"grid_sampler_3d": theirs}, _as_list, peers={
            "JAX": partial(peers.jax_map_coordinates, volume, grid),
            **_plain_c("grid_sampler_3d", [volume, grid], [out])})
    return prepare


# ---- Cells: PyTorch's operator on a dense table of problems, and every other library that has them


def _cell(shape, grid, mode, layout, wanted):
    """`wanted`: which gradients; () for the forward pass."""
    def prepare(dtype, device):
        import aclgrad.torch

        torch.manual_seed(2)
        n, c, h, w = shape
        image, grad = (torch.randn(shape).contiguous(memory_format=layout) for _ in range(2))
        inputs = [image, _grid(grid, n, h, w).contiguous()]
        options = {"mode": _MODES[mode], "align_corners": False}
        repeat = max(1, 4096 // (n * c * h * w))
        if not wanted:
            return Work({"": lambda: aclgrad.torch.grid_sample(*inputs, **options)},
                        {"PyTorch": lambda transform: lambda: F.grid_sample(*inputs, **options)}, _as_list, repeat,
                        {"OpenVINO": partial(peers.openvino_grid_sample, *inputs, mode, _ZEROS),
                         "OpenCV": partial(peers.opencv_remap, *inputs, mode, _ZEROS),
                         **_plain_c("grid_sampler_2d", inputs, [grad], mode=mode)})
        leaves = [tensor.requires_grad_(index in wanted) for index, tensor in enumerate(inputs)]
        differentiated = [leaves[index] for index in wanted]

        def both(sample):
            return gradient_of(sample(*leaves, **options), differentiated, grad)
        others = _plain_c("grid_sampler_2d_backward", [grad, *inputs], inputs, mode=mode) if len(wanted) == 2 else {}
        return Work({"": both(aclgrad.torch.grid_sample)}, {"PyTorch": lambda transform: both(F.grid_sample)},
                    repeat=repeat, peers=others)
    return prepare


def _cell_sizes():
    """Batch, channels, sides: from a few bytes to a picture that outgrows the caches."""
    for channels in (1, 2, 3, 4, 16, 64):
        for batch, sides in ((1, (2, 32, 64, 128, 256, 512, 1024)), (8, (32, 64, 128, 256)), (100, (2, 32, 64))):
            for side in sides:
                if batch * channels * side * side <= 1 << 23:
                    yield batch, channels, side, side
        if channels <= 4:
            yield 1, channels, 1080, 1920


def _cells():
    contiguous, last = torch.contiguous_format, torch.channels_last
    passes = {"forward": (), "both gradients": (0, 1), "grad_input": (0,), "grad_grid": (1,)}
    grids = {_BILINEAR: ("smooth", "rotated", "random"), _BICUBIC: ("smooth", "random"), _NEAREST: ("rotated", "random")}
    for n, c, h, w in _cell_sizes():
        for layout, mode in itertools.product((contiguous, last), grids):
            for grid, (title, wanted) in itertools.product(grids[mode], passes.items()):
                is_alone = len(wanted) == 1
                if is_alone and (mode != _BILINEAR or layout == last or h not in (64, 512) or grid == "rotated"):
                    continue
                if layout == last and (c not in (3, 4, 64) or grid == "rotated"):
                    continue
                words = [f"N{n} C{c} {h}x{w}", _MODES[mode], grid, *(["channels last"] if layout == last else [])]
                yield Case(f"grid sampler, {title}", ", ".join(words), torch.float32,
                           _cell((n, c, h, w), grid, mode, layout, wanted), kind="cells")


def _cell_3d(side):
    def prepare(dtype, device):
        import aclgrad.torch

        volume, grid, _ = _data_3d(1, 1, side, side, side, None)
        return Work({"": lambda: aclgrad.torch.grid_sample(volume, grid)},
                    {"PyTorch": lambda transform: lambda: F.grid_sample(volume, grid, align_corners=False)},
                    _as_list, peers={"JAX": partial(peers.jax_map_coordinates, volume, grid)})
    return prepare


def _gradient_cell_3d(side):
    def prepare(dtype, device):
        import aclgrad.torch

        volume, grid, grad = _data_3d(1, 1, side, side, side, None)
        jax = {"JAX": partial(peers.jax_map_coordinates_gradient, grad, volume.clone(), grid.clone())}
        leaves = [volume.requires_grad_(), grid.requires_grad_()]

        def both(sample):
            return gradient_of(sample(*leaves, align_corners=False), leaves, grad)
        return Work({"": both(aclgrad.torch.grid_sample)}, {"PyTorch": lambda transform: both(F.grid_sample)},
                    peers=jax)
    return prepare


def _of_sizes():
    for size, count in SIZES.items():
        side, voxel_side = math.isqrt(count // 208), round((count / 120) ** (1 / 3))
        square, volume = (1, 16, *4 * [side]), (1, 8, *3 * [voxel_side])
        for title, work in (("gradient, C16", _gradient(*square)),
                            ("forward, C16", _forward(*square)),
                            ("gradient, C8 in 3-D", _gradient_3d(*volume)),
                            ("forward, C8 in 3-D", _forward_3d(*volume))):
            yield Case(f"grid sampler {title}", size, torch.float32, work, kind="sizes")


def cases():
    f32, f64, f16 = torch.float32, torch.float64, torch.float16
    gradient, forward = "grid sampler gradient", "grid sampler forward"
    square, large, screen = (64, 128, 128, 128, 128), (64, 256, 256, 256, 256), (1, 3, 1080, 1920, 1080, 1920)
    only, both = (False, True), ("cpu", "cuda")
    few = {"padding": _BORDER, "smooth": False, "mask": only}
    return [
        Case(gradient, "N1 C64 128x128, smooth", f32, _gradient(1, *square),
             readme="grid sampler gradient, 64 channels of 128², smooth grid"),
        Case(gradient, "N1 C64 128x128, random", f32, _gradient(1, *square, smooth=False)),
        Case(gradient, "N8 C64 128x128, smooth", f32, _gradient(8, *square), devices=both),
        Case(gradient, "N8 C64 256x256, smooth", f32, _gradient(8, *large), devices=("cuda",)),
        Case(gradient, "N8 C64 256x256, random", f32, _gradient(8, *large, smooth=False), devices=("cuda",)),
        Case(gradient, "N1 C3 1080x1920, smooth", f32, _gradient(*screen), devices=both),
        Case(gradient, "N1 C64 128x128, bicubic", f32, _gradient(1, *square, _BICUBIC)),
        Case(gradient, "N1 C64 128x128, border, half", f16, _gradient(1, *square, padding=_BORDER)),
        Case(gradient, "N100 C2 30x40 to 13x13, grid only", f32, _gradient(100, 2, 30, 40, 13, 13, **few)),
        Case(gradient, "N100 C2 1000x1200 to 13x13, grid only", f32, _gradient(100, 2, 1000, 1200, 13, 13, **few)),
        *(Case(gradient, f"N1 C64 {h}x{w} to 13x13, grid only", f32,
               _gradient(1, 64, h, w, 13, 13, smooth=False, mask=only)) for h, w in ((300, 400), (1000, 1200))),
        Case(gradient, "N1 C1 512x512, smooth", f32, _gradient(1, 1, 512, 512, 512, 512)),
        Case(gradient, "N3072 C1 48x64 to 9x9, random", f32, _gradient(3072, 1, 48, 64, 9, 9, smooth=False)),
        Case(gradient, "N1 C64 128x128, smooth", f64, _gradient(1, *square)),
        Case(gradient, "N1 C32 48x96x96, smooth", f32, _gradient_3d(1, 32, 48, 96, 96)),
        Case(gradient, "N1 C1 128x128x128, smooth", f32, _gradient_3d(1, 1, 128, 128, 128),
             readme="3-D grid sampler gradient, 1 channel of 128³, smooth grid"),
        *(Case(gradient, f"N1 C16 {s}x{s}x{s} to 10000, grid only", f32,
               _gradient_3d(1, 16, s, s, s, samples=10_000, mask=only)) for s in (64, 256)),
        Case(forward, "N1 C32 48x96x96, smooth", f32, _forward_3d(1, 32, 48, 96, 96)),
        Case(forward, "N1 C1 128x128x128, smooth", f32, _forward_3d(1, 1, 128, 128, 128)),
        Case(forward, "N1 C64 128x128, smooth", f32, _forward(1, *square),
             readme="grid sampler forward, 64 channels of 128²"),
        Case(forward, "N1 C3 1080x1920, smooth", f32, _forward(*screen)),
        Case("grid_sample in PyTorch, both passes", "N8 C64 128x128, random", f32, _training(8, *square),
             kind="python"),
        *(Case("grid_sample_double_backward", f"N1 C{channels} {side}x{side}, {grid}{title}", f32,
               _double_backward(1, channels, *[side] * 4, layout=layout, smooth=grid == "smooth"), kind="python")
          for channels, side in ((3, 256), (64, 128))
          for grid in ("smooth", "random")
          for title, layout in (("", torch.contiguous_format), (", channels last", torch.channels_last))),
        *_of_sizes(),
        *_cells(),
        *(Case(f"grid sampler, {title}", f"N1 C1 {side}x{side}x{side}, smooth", f32, make(side), kind="cells")
          for title, make in (("forward", _cell_3d), ("both gradients", _gradient_cell_3d)) for side in (32, 128)),
    ]
