"""PyTorch's ways to do what the operators do: what people run on a CPU today.

Each function takes the tensors of a problem and `transform`, which is torch.compile or does nothing, and returns a
callable that does the work once.
"""

import torch
import torch.nn.functional as F


def _gradient(outputs: torch.Tensor, inputs: list[torch.Tensor], grad: torch.Tensor):
    return lambda: torch.autograd.grad(outputs, inputs, grad, retain_graph=True)


# ---- multi-scale deformable attention: the composition that models fall back to without a CUDA extension

def msda_compose(value, sizes, location, attention):
    """One grid_sample for each level, then the weighted sum."""
    batch, _, heads, channels = value.shape
    queries, levels, points = location.shape[1], location.shape[3], location.shape[4]
    grids = (2 * location - 1).permute(3, 0, 2, 1, 4, 5).reshape(levels, batch * heads, queries, points, 2)
    samples = []
    for level, rows in enumerate(value.split([h * w for h, w in sizes], dim=1)):
        h, w = sizes[level]
        image = rows.permute(0, 2, 3, 1).reshape(batch * heads, channels, h, w)
        samples.append(F.grid_sample(image, grids[level], mode="bilinear", padding_mode="zeros", align_corners=False))
    weights = attention.permute(0, 2, 1, 3, 4).reshape(batch * heads, 1, queries, levels * points)
    out = (torch.stack(samples, dim=-2).flatten(-2) * weights).sum(-1)
    return out.view(batch, heads * channels, queries).transpose(1, 2)


def msda_forward(value, sizes, location, attention, transform):
    compose = transform(msda_compose)

    def run():
        with torch.no_grad():
            return compose(value, sizes, location, attention)
    return run


def msda_gradient(value, sizes, location, attention, grad, transform):
    leaves = [t.detach().requires_grad_() for t in (value, location, attention)]
    return _gradient(transform(msda_compose)(leaves[0], sizes, leaves[1], leaves[2]), leaves, grad)


# ---- grid sampler

def grid_gradient(grad, image, grid, mode, padding, align, mask, transform):
    return transform(lambda: torch.ops.aten.grid_sampler_2d_backward(grad, image, grid, mode, padding, align, mask))


def grid_gradient_channels_last(grad, image, grid, mode, padding, align, mask, transform):
    grad, image = (t.contiguous(memory_format=torch.channels_last) for t in (grad, image))
    return grid_gradient(grad, image, grid, mode, padding, align, mask, transform)


def grid_forward(image, grid, mode, padding, align, transform):
    return transform(lambda: torch.ops.aten.grid_sampler_2d(image, grid, mode, padding, align))


# ---- NSA compression

def windows_unfold(x, block, stride):
    return x.unfold(0, block, stride)  # [windows, heads, channels, block]


def _windows_strided(x, block, stride):
    tokens, heads, channels = x.shape
    count = (tokens - block) // stride + 1
    s = x.stride()
    return x.as_strided((count, heads, channels, block), (stride * s[0], s[1], s[2], s[0]))


def nsa_compose(x, weight, ends, block, stride, windows):
    begins = [0] + ends[:-1]
    parts = [windows(x[b:e], block, stride) for b, e in zip(begins, ends) if e - b >= block]
    return torch.cat([torch.einsum("knds,sn->knd", part, weight) for part in parts])


def _nsa_gradient(windows):
    def prepare(grad, x, weight, ends, block, stride, transform):
        leaves = [t.detach().requires_grad_() for t in (x, weight)]
        return _gradient(transform(nsa_compose)(leaves[0], leaves[1], ends, block, stride, windows), leaves, grad)
    return prepare


def _nsa_forward(windows):
    def prepare(x, weight, ends, block, stride, transform):
        compress = transform(nsa_compose)

        def run():
            with torch.no_grad():
                return compress(x, weight, ends, block, stride, windows)
        return run
    return prepare


nsa_gradient_unfold = _nsa_gradient(windows_unfold)
nsa_gradient_strided = _nsa_gradient(_windows_strided)
nsa_forward_unfold = _nsa_forward(windows_unfold)
nsa_forward_strided = _nsa_forward(_windows_strided)


# ---- grouped bias

def bias_index_add(grad, ends, transform):
    counts = torch.diff(ends, prepend=ends.new_zeros(1))
    group_of_row = torch.repeat_interleave(torch.arange(len(ends)), counts)
    return transform(lambda: grad.new_zeros(len(ends), grad.shape[1]).index_add_(0, group_of_row, grad))


def bias_group_sums(grad, ends, transform):
    bounds = [0] + ends.tolist()
    out = grad.new_empty(len(ends), grad.shape[1])

    def run():
        for group, (begin, end) in enumerate(zip(bounds, bounds[1:])):
            torch.sum(grad[begin:end], 0, out=out[group])
    return transform(run)


def bias_segment_reduce(grad, ends, transform):
    lengths = torch.diff(ends, prepend=ends.new_zeros(1))
    return transform(lambda: torch.segment_reduce(grad, "sum", lengths=lengths, axis=0))
