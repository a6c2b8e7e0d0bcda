"""Time the CUDA kernels of the gradients against PyTorch's ways to do the same, on the GPU of this machine.

Usage: python bench/gpu.py LIBRARY, where LIBRARY is libaclgrad_gpu_kernels.so. Every time is the median of 20 runs,
measured with CUDA events after 3 runs to warm up. Each result is compared with PyTorch's first.
"""

import ctypes
import statistics
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F

DATA_TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 27}
library: ctypes.CDLL


def milliseconds(run: Callable[[], object]) -> float:
    times = []
    for repetition in range(23):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        if repetition >= 3:
            times.append(start.elapsed_time(end))
    return statistics.median(times)


class Ours:
    """One of the library's functions, bound to its tensors, with a workspace of its own."""

    def __init__(self, name: str, sizes: list[int], tensors: list[torch.Tensor], deterministic: bool) -> None:
        self.function = getattr(library, name)
        self.function.restype = ctypes.c_int64
        self.leading = [
            ctypes.c_int32(DATA_TYPES[tensors[0].dtype]),
            (ctypes.c_int64 * len(sizes))(*sizes),
            *(ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors),
        ]
        self.tensors = tensors
        self.deterministic = ctypes.c_bool(deterministic)
        size = self.call(None)
        self.workspace = torch.empty(max(size, 1), dtype=torch.uint8, device="cuda")

    def call(self, workspace: int | None) -> int:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        size = self.function(*self.leading, ctypes.c_void_p(workspace), stream, self.deterministic)
        if size < 0:
            raise RuntimeError("the kernel failed")
        return size

    def __call__(self) -> None:
        self.call(self.workspace.data_ptr())


def compare(
    title: str,
    name: str,
    sizes: list[int],
    inputs: list[torch.Tensor],
    outputs: list[torch.Tensor],
    peer: Callable[[], list[torch.Tensor]],
    bytes_moved: int,
) -> None:
    expected = peer()
    theirs = milliseconds(peer)
    for deterministic in (False, True):
        run = Ours(name, sizes, inputs + outputs, deterministic)
        run()
        for ours, reference in zip(outputs, expected, strict=True):
            error = (ours.float() - reference.float()).norm() / reference.float().norm().clamp_min(1e-30)
            if not error < 0.02:
                print(f"{title}: differs from PyTorch by {error:.2g}")
        time = milliseconds(run)
        mode = "deterministic" if deterministic else "fast"
        print(
            f"{title:44} {mode:13} {time:8.3f} ms  PyTorch {theirs:8.3f} ms  {theirs / time:6.2f}x  "
            f"{bytes_moved / time / 1e6:6.0f} GB/s",
            flush=True,
        )


def size_in_bytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def attend(
    value: torch.Tensor, shapes: list[tuple[int, int]], location: torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    """Multi-scale deformable attention composed of PyTorch's operators, as detectors do without an extension."""
    batches, _, heads, channels = value.shape
    queries = location.shape[1]
    sampled = []
    for level, values in enumerate(value.split([height * width for height, width in shapes], dim=1)):
        image = values.permute(0, 2, 3, 1).reshape(batches * heads, channels, *shapes[level])
        grid = (2 * location[:, :, :, level] - 1).transpose(1, 2).flatten(0, 1)
        sampled.append(F.grid_sample(image, grid, align_corners=False))
    weights = weight.transpose(1, 2).reshape(batches * heads, 1, queries, -1)
    output = (torch.stack(sampled, dim=-2).flatten(-2) * weights).sum(-1)
    return output.view(batches, heads * channels, queries).transpose(1, 2)


def multi_scale_deformable_attention(dtype: torch.dtype, random_locations: bool) -> None:
    batches, heads, channels, points = 2, 8, 32, 4
    shapes = [(100, 134), (50, 67), (25, 34), (13, 17)]
    rows = sum(height * width for height, width in shapes)
    value = torch.randn(batches, rows, heads, channels, device="cuda", dtype=dtype)
    location = torch.rand(batches, rows, heads, len(shapes), points, 2, device="cuda")
    if not random_locations:  # near the query's own place, as trained models sample
        centres = []
        for height, width in shapes:
            y = (torch.arange(height, device="cuda") + 0.5) / height
            x = (torch.arange(width, device="cuda") + 0.5) / width
            centres.append(torch.cartesian_prod(y, x).flip(-1))
        location = torch.cat(centres).view(1, rows, 1, 1, 1, 2) + 0.02 * (location - 0.5)
    location = location.to(dtype)
    weight = torch.rand(batches, rows, heads, len(shapes), points, device="cuda", dtype=dtype)
    grad_output = torch.randn(batches, rows, heads * channels, device="cuda", dtype=dtype)
    leaves = [tensor.clone().requires_grad_() for tensor in (value, location, weight)]
    output = attend(leaves[0], shapes, leaves[1], leaves[2])

    def peer() -> list[torch.Tensor]:
        return list(torch.autograd.grad(output, leaves, grad_output, retain_graph=True))

    spatial_shape = torch.tensor(shapes, device="cuda")
    start = torch.cat([spatial_shape.new_zeros(1), spatial_shape.prod(1).cumsum(0)[:-1]])
    inputs = [value, spatial_shape, start, location.contiguous(), weight, grad_output]
    outputs = [torch.empty_like(value), torch.empty_like(inputs[3]), torch.empty_like(weight)]
    sizes = [batches, rows, heads, channels, rows, len(shapes), points]
    where = "random" if random_locations else "local"
    title = f"MSDA gradient, encoder, {where}, {dtype}".replace("torch.", "")
    compare(title, "msda_grad", sizes, inputs, outputs, peer, size_in_bytes(inputs + outputs))


def grid_sampler(dtype: torch.dtype, smooth: bool) -> None:
    batch, channels, side = 8, 64, 256
    image = torch.randn(batch, channels, side, side, device="cuda", dtype=dtype)
    grad_output = torch.randn_like(image)
    grid = torch.rand(batch, side, side, 2, device="cuda") * 2 - 1
    if smooth:
        identity = torch.eye(2, 3, device="cuda").expand(batch, 2, 3)
        grid = F.affine_grid(identity, [batch, 1, side, side], align_corners=False) + 0.01 * grid
    grid = grid.to(dtype)

    def peer() -> list[torch.Tensor]:
        return list(
            torch.ops.aten.grid_sampler_2d_backward(grad_output, image, grid, 0, 0, False, [True, True])
        )

    inputs, outputs = [grad_output, image, grid], [torch.empty_like(image), torch.empty_like(grid)]
    title = f"grid sampler gradient, {'smooth' if smooth else 'random'}, {dtype}".replace("torch.", "")
    sizes = [batch, channels, side, side, side, side]
    compare(title, "grid_sampler_grad", sizes, inputs, outputs, peer, size_in_bytes(inputs + outputs))


def nsa_compress(dtype: torch.dtype) -> None:
    tokens, heads, channels, block, stride = 65536, 4, 128, 32, 16
    windows = (tokens - block) // stride + 1
    x = torch.randn(tokens, heads, channels, device="cuda", dtype=dtype)
    weight = torch.randn(block, heads, device="cuda", dtype=dtype)
    grad = torch.randn(windows, heads, channels, device="cuda", dtype=dtype)

    def peer() -> list[torch.Tensor]:
        unfolded = x.unfold(0, block, stride)
        weight_grad = torch.einsum("knd,kndj->jn", grad, unfolded)
        terms = torch.einsum("jn,knd->kjnd", weight, grad).reshape(-1, heads, channels)
        index = (torch.arange(windows, device="cuda")[:, None] * stride + torch.arange(block, device="cuda")).view(-1)
        return [torch.zeros_like(x).index_add_(0, index, terms), weight_grad]

    inputs, outputs = [grad, x, weight], [torch.empty_like(x), torch.empty_like(weight)]
    title = f"NSA compress gradient, {dtype}".replace("torch.", "")
    sizes = [tokens, heads, channels, block, stride, windows]
    compare(title, "nsa_compress_grad", sizes, inputs, outputs, peer, size_in_bytes(inputs + outputs))


def grouped_bias_add(dtype: torch.dtype, skewed: bool) -> None:
    rows, columns, groups = 65536, 4096, 128
    grad_y = torch.randn(rows, columns, device="cuda", dtype=dtype)
    shares = torch.ones(groups)
    if skewed:  # one group has half of the rows, a tenth has none
        shares[0] = groups
        shares[::10] = 0
        shares[1] = groups
    counts = (shares / shares.sum() * rows).long()
    counts[-1] += rows - counts.sum()
    ends = counts.cumsum(0).cuda()
    group_of_row = torch.repeat_interleave(torch.arange(groups), counts).cuda()

    def peer() -> list[torch.Tensor]:
        return [torch.zeros(groups, columns, device="cuda", dtype=dtype).index_add_(0, group_of_row, grad_y)]

    inputs, outputs = [grad_y, ends], [torch.empty(groups, columns, device="cuda", dtype=dtype)]
    title = f"grouped bias gradient, {'skewed' if skewed else 'even'}, {dtype}".replace("torch.", "")
    sizes = [rows, columns, groups]
    compare(title, "grouped_bias_add_grad", sizes, inputs, outputs, peer, size_in_bytes(inputs + outputs))


def main() -> None:
    global library
    library = ctypes.CDLL(sys.argv[1])
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for dtype in (torch.float32, torch.bfloat16):
        for other in (False, True):
            multi_scale_deformable_attention(dtype, other)
            grid_sampler(dtype, other)
            grouped_bias_add(dtype, other)
        nsa_compress(dtype)


if __name__ == "__main__":
    main()
