# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The grid sampler and its gradient, and both passes through PyTorch."""

import itertools
import math
from functools import partial

import torch
import torch.nn.functional as F

from bench import peers
from bench.case import SIZES, Call, Case, Work, gradient_of, joined

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2
_MODES = ("bilinear", "nearest", "bicubic")
_ZEROS, _BORDER = 0, 1
_TURNS = {"tilted": (0.996, 0.087), "rotated": (0.87, 0.5)}  # by 5 and 30 degrees: cosine and sine


def _layouts(image):
    return {"": torch.contiguous_format,
            "channels last": torch.channels_last if image.dim() == 4 else torch.channels_last_3d}


def _name(image, suffix=""):
    return f"grid_sampler_{image.dim() - 2}d{suffix}"


def _aten(image, suffix=""):
    return getattr(torch.ops.aten, _name(image, suffix))


def _grid(kind, n, sides):
    if kind == "random":
        return torch.rand(n, *sides, len(sides)) * 2.1 - 1.05
    axes = torch.meshgrid(*(torch.linspace(-1, 1, side) for side in sides), indexing="ij")[::-1]
    xs, ys, zs = axes if len(axes) == 3 else (*axes, axes[0])
    if kind in _TURNS:
        cosine, sine = _TURNS[kind]
        axes = [cosine * xs - sine * ys, sine * xs + cosine * ys]
    else:
        shifts = torch.sin(3 * ys), torch.cos(2 * zs), torch.sin(2 * xs)
        axes = [axis + 0.05 * shift for axis, shift in zip(axes, shifts, strict=False)]
    return torch.stack(axes, -1).expand(n, *sides, len(sides))


def _data(shape, sides, kind, dtype=torch.float32, device="cpu"):
    """Image, grid and the gradient of the output, which has these sides."""
    torch.manual_seed(2)
    image = torch.randn(shape)
    grid = _grid(kind, shape[0], sides)
    return [t.to(dtype).to(device).contiguous() for t in (image, grid, torch.randn(*shape[:2], *sides))]


def _plain_c(suffix, inputs, outputs, layout="", mode=_BILINEAR, padding=_ZEROS):
    function = _name(inputs[0], suffix)
    return {joined("plain C", layout): partial(peers.plain_c_grid_sampler, function, inputs, outputs, mode, padding)}


def _jax_forward(image, grid):
    return {"JAX": partial(peers.jax_map_coordinates, image, grid)} if image.dim() == 5 else {}


def _jax_gradient(grad, image, grid):
    return {"JAX": partial(peers.jax_map_coordinates_gradient, grad, image, grid)} if image.dim() == 5 else {}


def _gradient(shape, sides=None, mode=_BILINEAR, padding=_ZEROS, kind="smooth", mask=(True, True)):
    """`sides` of the output: of the image, unless they are given."""
    def prepare(dtype, device):
        image, grid, grad = _data(shape, sides or shape[2:], kind, dtype, device)

        def theirs(layout, transform):
            tensors = [t.contiguous(memory_format=layout) for t in (grad, image)]
            operator = _aten(image, "_backward")
            return transform(lambda: operator(*tensors, grid, mode, padding, False, list(mask)))
        ours, baselines, others = {}, {}, _jax_gradient(grad, image, grid)
        for name, layout in _layouts(image).items():
            inputs = [grad.contiguous(memory_format=layout), image.contiguous(memory_format=layout), grid]
            outputs = [torch.empty_like(t) for t in inputs[1:]]
            wanted = [o for o, m in zip(outputs, mask, strict=True) if m]
            # The kernel of the GPU benchmark takes contiguous images, and only what its sizes say.
            plain = name == "" and image.dim() == 4 and (mode, padding, all(mask)) == (_BILINEAR, _ZEROS, True)
            ours[name] = Call(f"aclnnGridSampler{image.dim() - 2}DBackward",
                              [*inputs, mode, padding, False, list(mask), *outputs], inputs, wanted,
                              "grid_sampler_grad" if plain else "", [*shape, *grid.shape[1:-1]])
            baselines[joined(_name(image, "_backward"), name)] = partial(theirs, layout)
            others |= _plain_c("_backward", inputs, outputs, name, mode, padding)

        def expected(result):
            if dtype == torch.float16:  # in which PyTorch computes positions, while ours does so in float
                in_float = (tensor.float() for tensor in (grad, image, grid))
                result = _aten(image, "_backward")(*in_float, mode, padding, False, list(mask))
            return [r for r, m in zip(result, mask, strict=True) if m]
        return Work(ours, baselines, expected, peers=others if all(mask) else {})
    return prepare


def _forward(*shape):
    def prepare(dtype, device):
        image, grid, out = _data(shape, shape[2:], "smooth", dtype, device)

        def theirs(images, transform):
            return transform(lambda: _aten(image)(images, grid, _BILINEAR, _ZEROS, False))
        ours, baselines = {}, {}
        others = {"OpenVINO": partial(peers.openvino_grid_sample, image, grid, _BILINEAR, _ZEROS),
                  **_jax_forward(image, grid)}
        for name, layout in _layouts(image).items():
            images, outputs = (t.contiguous(memory_format=layout) for t in (image, out))
            ours[name] = Call(f"aclnnGridSampler{image.dim() - 2}D", [images, grid, _BILINEAR, _ZEROS, False, outputs],
                              [images, grid], [outputs])
            baselines[joined(_name(image), name)] = partial(theirs, images)
            others[joined("OpenCV", name)] = partial(peers.opencv_remap, images, grid, _BILINEAR, _ZEROS)
            others |= _plain_c("", [images, grid], [outputs], name)
        return Work(ours, baselines, peers=others)
    return prepare


def _training(*shape):
    def prepare(dtype, device):
        import aclgrad.torch

        image, grid, grad = _data(shape, shape[2:], "random", dtype, device)
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


def _double_backward(*shape, layout=torch.contiguous_format, kind="smooth"):
    """Beside the first gradient, whose time is what it is measured by."""
    def prepare(dtype, device):
        import aclgrad

        image, grid, grad = _data(shape, shape[2:], kind, dtype, device)
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


# ---- Cells: PyTorch's operator on a dense table of problems, and every other library that has them


def _cell(shape, grid, mode, layout, wanted):
    """`wanted`: which gradients; () for the forward pass."""
    def prepare(dtype, device):
        import aclgrad.torch

        torch.manual_seed(2)
        image, grad = (torch.randn(shape).to(device).contiguous(memory_format=layout) for _ in range(2))
        inputs = [image, _grid(grid, shape[0], shape[2:]).to(device).contiguous()]
        options = {"mode": _MODES[mode], "align_corners": False}
        repeat = max(1, 4096 // image.numel()) if device == "cpu" else 1
        if not wanted:
            return Work({"": lambda: aclgrad.torch.grid_sample(*inputs, **options)},
                        {"PyTorch": lambda transform: lambda: F.grid_sample(*inputs, **options)}, repeat=repeat,
                        peers={"OpenVINO": partial(peers.openvino_grid_sample, *inputs, mode, _ZEROS),
                               "OpenCV": partial(peers.opencv_remap, *inputs, mode, _ZEROS),
                               **_jax_forward(*inputs), **_plain_c("", inputs, [grad], mode=mode)})
        others = {}
        if len(wanted) == 2:
            copies = [tensor.clone() for tensor in inputs]
            others = _jax_gradient(grad, *copies) | _plain_c("_backward", [grad, *copies], copies, mode=mode)
        leaves = [tensor.requires_grad_(index in wanted) for index, tensor in enumerate(inputs)]
        differentiated = [leaves[index] for index in wanted]

        def both(sample):
            return gradient_of(sample(*leaves, **options), differentiated, grad)
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
    """Those of volumes are few."""
    contiguous, last, both = torch.contiguous_format, torch.channels_last, ("cpu", "cuda")
    passes = {"forward": (), "both gradients": (0, 1), "grad_input": (0,), "grad_grid": (1,)}
    grids = {_BILINEAR: ("smooth", *_TURNS, "random"), _BICUBIC: ("smooth", "random"), _NEAREST: ("rotated", "random")}
    for n, c, h, w in _cell_sizes():
        for layout, mode in itertools.product((contiguous, last), grids):
            for grid, (title, wanted) in itertools.product(grids[mode], passes.items()):
                is_alone = len(wanted) == 1
                if is_alone and (mode != _BILINEAR or layout == last or h not in (64, 512) or grid in _TURNS):
                    continue
                if layout == last and c not in (3, 4, 64):
                    continue
                words = [f"N{n} C{c} {h}x{w}", _MODES[mode], grid, *(["channels last"] if layout == last else [])]
                yield Case(f"grid sampler, {title}", ", ".join(words), torch.float32,
                           _cell((n, c, h, w), grid, mode, layout, wanted), kind="cells", devices=both)
    for (title, wanted), side in itertools.product(itertools.islice(passes.items(), 2), (32, 128)):
        yield Case(f"grid sampler, {title}", f"N1 C1 {side}x{side}x{side}, smooth", torch.float32,
                   _cell((1, 1, side, side, side), "smooth", _BILINEAR, contiguous, wanted), kind="cells",
                   devices=both)


def _of_sizes():
    for size, count in SIZES.items():
        side, voxel_side = math.isqrt(count // 208), round((count / 120) ** (1 / 3))
        square, volume = (1, 16, side, side), (1, 8, *3 * [voxel_side])
        for title, work in (("gradient, C16", _gradient(square)),
                            ("forward, C16", _forward(*square)),
                            ("gradient, C8 in 3-D", _gradient(volume)),
                            ("forward, C8 in 3-D", _forward(*volume))):
            yield Case(f"grid sampler {title}", size, torch.float32, work, kind="sizes")


def cases():
    f32, f64, f16 = torch.float32, torch.float64, torch.float16
    gradient, forward = "grid sampler gradient", "grid sampler forward"
    square, large, screen = (64, 128, 128), (64, 256, 256), (1, 3, 1080, 1920)
    only, both = (False, True), ("cpu", "cuda")
    few = {"padding": _BORDER, "kind": "random", "mask": only}
    return [
        Case(gradient, "N1 C64 128x128, smooth", f32, _gradient((1, *square)),
             readme="grid sampler gradient, 64 channels of 128², smooth grid"),
        Case(gradient, "N1 C64 128x128, random", f32, _gradient((1, *square), kind="random")),
        Case(gradient, "N8 C64 128x128, smooth", f32, _gradient((8, *square)), devices=both),
        Case(gradient, "N8 C64 256x256, smooth", f32, _gradient((8, *large)), devices=("cuda",)),
        Case(gradient, "N8 C64 256x256, random", f32, _gradient((8, *large), kind="random"), devices=("cuda",)),
        Case(gradient, "N1 C3 1080x1920, smooth", f32, _gradient(screen), devices=both),
        Case(gradient, "N1 C64 128x128, bicubic", f32, _gradient((1, *square), mode=_BICUBIC)),
        Case(gradient, "N1 C64 128x128, border, half", f16, _gradient((1, *square), padding=_BORDER)),
        Case(gradient, "N100 C2 30x40 to 13x13, grid only", f32, _gradient((100, 2, 30, 40), (13, 13), **few)),
        Case(gradient, "N100 C2 1000x1200 to 13x13, grid only", f32, _gradient((100, 2, 1000, 1200), (13, 13), **few)),
        *(Case(gradient, f"N1 C64 {h}x{w} to 13x13, grid only", f32,
               _gradient((1, 64, h, w), (13, 13), kind="random", mask=only)) for h, w in ((300, 400), (1000, 1200))),
        Case(gradient, "N1 C1 512x512, smooth", f32, _gradient((1, 1, 512, 512))),
        Case(gradient, "N3072 C1 48x64 to 9x9, random", f32, _gradient((3072, 1, 48, 64), (9, 9), kind="random")),
        Case(gradient, "N1 C64 128x128, smooth", f64, _gradient((1, *square))),
        Case(gradient, "N1 C32 48x96x96, smooth", f32, _gradient((1, 32, 48, 96, 96))),
        Case(gradient, "N1 C1 128x128x128, smooth", f32, _gradient((1, 1, 128, 128, 128)),
             readme="3-D grid sampler gradient, 1 channel of 128³, smooth grid"),
        *(Case(gradient, f"N1 C16 {s}x{s}x{s} to 10000, grid only", f32,
               _gradient((1, 16, s, s, s), (1, 1, 10_000), kind="random", mask=only)) for s in (64, 256)),
        Case(forward, "N1 C32 48x96x96, smooth", f32, _forward(1, 32, 48, 96, 96)),
        Case(forward, "N1 C1 128x128x128, smooth", f32, _forward(1, 1, 128, 128, 128)),
        Case(forward, "N1 C64 128x128, smooth", f32, _forward(1, *square),
             readme="grid sampler forward, 64 channels of 128²"),
        Case(forward, "N1 C3 1080x1920, smooth", f32, _forward(*screen)),
        Case("grid_sample in PyTorch, both passes", "N8 C64 128x128, random", f32, _training(8, *square),
             kind="python"),
        *(Case("grid_sample_double_backward", f"N1 C{channels} {side}x{side}, {grid}{title}", f32,
               _double_backward(1, channels, side, side, layout=layout, kind=grid), kind="python")
          for channels, side in ((3, 256), (64, 128))
          for grid in ("smooth", "random")
          for title, layout in (("", torch.contiguous_format), (", channels last", torch.channels_last))),
        *_of_sizes(),
        *_cells(),
    ]
