"""Times the PyTorch interface: calls of the smallest size, each operator, and training steps of models.

    ./dev bench-python                          everything, with all threads
    ./dev bench-python calls operators          parts of it: calls, operators, step, models
    ./dev bench-python step --threads 2

Needs the package aclgrad, PyTorch and, for the step, transformers. Ours and PyTorch's run in turn.
"""

import argparse
import contextlib
import statistics
import time
import timeit
from collections.abc import Callable

import aclgrad
import aclgrad.torch
import torch
from torch import Tensor
from torch.nn import functional as F


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def microseconds(function: Callable[[], object], runs: int = 5000) -> float:
    """The fastest of several rounds."""
    function()
    return min(timeit.repeat(function, number=runs, repeat=5)) / runs * 1e6


# ---- Calls of the smallest size


def calls() -> None:
    """What a call costs where there is next to nothing to compute, with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    print(f"\n{'smallest call, microseconds':28} {'NumPy':>7} {'backw.':>7} {'torch':>7} {'+ graph':>8} {'backw. beyond engine':>21}")
    value, shapes, starts = torch.randn(1, 1, 1, 8), torch.tensor([[1, 1]]), torch.tensor([0])
    places, weights = torch.rand(1, 1, 1, 1, 1, 2), torch.rand(1, 1, 1, 1, 1)
    image, grid = torch.randn(1, 1, 2, 2), torch.zeros(1, 1, 1, 2)
    x, window, rows, bias, ends = torch.randn(4, 1, 8), torch.ones(4, 1), torch.randn(4, 8), torch.randn(1, 8), torch.tensor([4])
    for name, forward, backward, arguments in (
        ("multi_scale_deformable_attention", aclgrad.msda_forward, aclgrad.msda_backward, (value, shapes, starts, places, weights)),
        ("nsa_compress", aclgrad.nsa_compress, aclgrad.nsa_compress_backward, (x, window, ends, 4, 2)),
        ("grid_sample", aclgrad.grid_sample, aclgrad.grid_sample_backward, (image, grid)),
        ("grouped_bias_add", aclgrad.grouped_bias_add, lambda g, x, b, e: aclgrad.grouped_bias_add_backward(g, e), (rows, bias, ends)),
    ):  # fmt: skip
        function = getattr(aclgrad.torch, name)
        arrays = [a.numpy() if isinstance(a, Tensor) else a for a in arguments]
        learned = [a.clone().requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in arguments]
        inputs = [a for a in learned if isinstance(a, Tensor) and a.requires_grad]
        output = function(*learned)
        grad_output = torch.ones_like(output)
        # A gradient that costs PyTorch nothing but its engine, with as many inputs.
        nothing, one = _Nothing.apply(*inputs), torch.ones(1)
        engine = microseconds(lambda: torch.autograd.grad(nothing, inputs, one, retain_graph=True))
        times = (
            microseconds(lambda: forward(*arrays)),
            microseconds(lambda: backward(grad_output.numpy(), *arrays)),
            microseconds(lambda: function(*arguments)),
            microseconds(lambda: function(*learned)),
            microseconds(lambda: torch.autograd.grad(output, inputs, grad_output, retain_graph=True)) - engine,
        )
        print(f"{name[:28]:28} {times[0]:7.1f} {times[1]:7.1f} {times[2]:7.1f} {times[3]:8.1f} {times[4]:21.1f}")
    torch.set_num_threads(threads)


class _Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        ctx.gradients = [torch.zeros_like(tensor) for tensor in inputs]
        return torch.zeros(1)

    @staticmethod
    def backward(ctx, grad_output):
        return tuple(ctx.gradients)


# ---- Operators


def attention_of_grid_samples(value: Tensor, levels: list[tuple[int, int]], places: Tensor, weights: Tensor) -> Tensor:
    """Deformable attention as PyTorch users write it without a kernel."""
    batches, _, heads, channels = value.shape
    queries, points = places.shape[1], places.shape[4]
    maps = value.permute(0, 2, 3, 1).flatten(0, 1).split([h * w for h, w in levels], -1)
    grids = (2 * places - 1).transpose(1, 2).flatten(0, 1)
    samples = [
        F.grid_sample(level.unflatten(-1, shape), grids[:, :, i], align_corners=False)
        for i, (level, shape) in enumerate(zip(maps, levels, strict=True))
    ]
    weights = weights.transpose(1, 2).reshape(batches * heads, 1, queries, len(levels) * points)
    output = (torch.stack(samples, -2).flatten(-2) * weights).sum(-1)
    return output.view(batches, heads * channels, queries).transpose(1, 2)


def compress_by_unfold(x: Tensor, weight: Tensor, block: int, stride: int) -> Tensor:
    return torch.einsum("wndb,bn->wnd", x.unfold(0, block, stride), weight)


def operators() -> None:
    """Forward and backward pass together, in milliseconds."""
    torch.manual_seed(0)
    levels = [(100, 134), (50, 67), (25, 34), (13, 17)]
    shapes = torch.tensor(levels)
    starts = shapes.prod(1).cumsum(0) - shapes.prod(1)
    rows = int(shapes.prod(1).sum())
    value = torch.randn(1, rows, 8, 32)
    centres = torch.cat([torch.stack(torch.meshgrid((torch.arange(w) + 0.5) / w, (torch.arange(h) + 0.5) / h, indexing="xy"), -1).flatten(0, 1) for h, w in levels])  # fmt: skip
    places = centres[None, :, None, None, None] + 0.02 * torch.randn(1, rows, 8, 4, 4, 2)
    weights = torch.rand(1, rows, 8, 4, 4) / 16
    image, grid = torch.randn(8, 64, 128, 128), torch.rand(8, 128, 128, 2) * 2.1 - 1.05
    x, window = torch.randn(65536, 4, 128), torch.randn(32, 4)
    tokens, bias, ends = torch.randn(16384, 4096), torch.randn(8, 4096), torch.arange(1, 9) * 2048
    group = torch.repeat_interleave(torch.arange(8), 2048)
    print(f"\n{'forward and backward, ms':52} {'ours':>8} {'PyTorch':>9}  faster")
    for name, ours, theirs, tensors in (
        ("deformable attention, encoder of 800 x 1066", lambda v, p, w: aclgrad.torch.multi_scale_deformable_attention(v, shapes, starts, p, w),
         lambda v, p, w: attention_of_grid_samples(v, levels, p, w), (value, places, weights)),
        ("grid_sample, 8 x 64 x 128 x 128", aclgrad.torch.grid_sample, lambda i, g: F.grid_sample(i, g, align_corners=False), (image, grid)),
        ("nsa_compress, 65536 x 4 x 128, 32/16", lambda x, w: aclgrad.torch.nsa_compress(x, w, None, 32, 16),
         lambda x, w: compress_by_unfold(x, w, 32, 16), (x, window)),
        ("grouped_bias_add, 16384 x 4096, 8 groups", lambda x, b: aclgrad.torch.grouped_bias_add(x, b, ends), lambda x, b: x + b[group], (tokens, bias)),
    ):  # fmt: skip
        tensors = [tensor.requires_grad_() for tensor in tensors]
        grad_output = torch.randn_like(ours(*tensors))
        times: dict[Callable[..., Tensor], list[float]] = {ours: [], theirs: []}
        for round_ in range(6):
            for way, runs in times.items():
                time_taken = seconds(lambda way=way: torch.autograd.grad(way(*tensors), tensors, grad_output))
                if round_ > 0:
                    runs.append(time_taken)
        mine, other = (statistics.median(runs) * 1e3 for runs in times.values())
        print(f"{name:52} {mine:8.1f} {other:9.1f}  {other / mine:5.1f}x", flush=True)


# ---- Training steps of whole models


def deformable_detr(batch: int = 1, height: int = 800, width: int = 1066, train_backbone: bool = False) -> Callable[[], Tensor]:
    """The loss of a model with random weights, as a function. Hugging Face's model leaves this backbone as it is."""
    from transformers import DeformableDetrConfig, DeformableDetrForObjectDetection, ResNetConfig

    config = DeformableDetrConfig(backbone_config=ResNetConfig(out_features=["stage2", "stage3", "stage4"]), num_labels=91)
    model = DeformableDetrForObjectDetection(config).train()
    if train_backbone:
        model.model.backbone.requires_grad_()
    return with_boxes(model, torch.randn(batch, 3, height, width))


def rt_detr() -> Callable[[], Tensor]:
    from transformers import RTDetrConfig, RTDetrForObjectDetection

    return with_boxes(RTDetrForObjectDetection(RTDetrConfig(num_labels=91)).train(), torch.randn(4, 3, 640, 640))


def with_boxes(model: torch.nn.Module, images: Tensor) -> Callable[[], Tensor]:
    labels = [{"class_labels": torch.tensor([1, 2, 3]), "boxes": 0.1 + 0.4 * torch.rand(3, 4)} for _ in images]
    return lambda: with_fresh_gradients(model, lambda: model(pixel_values=images, labels=labels).loss)


def mask2former() -> Callable[[], Tensor]:
    from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation, ResNetConfig

    backbone = ResNetConfig(out_features=["stage1", "stage2", "stage3", "stage4"])
    model = Mask2FormerForUniversalSegmentation(Mask2FormerConfig(backbone_config=backbone)).train()
    image = torch.randn(1, 3, 512, 512)
    masks, classes = [(torch.rand(3, 512, 512) > 0.5).float()], [torch.tensor([0, 1, 2])]
    return lambda: with_fresh_gradients(
        model, lambda: model(pixel_values=image, mask_labels=masks, class_labels=classes).loss
    )


def with_fresh_gradients(model: torch.nn.Module, loss: Callable[[], Tensor]) -> Tensor:
    torch.manual_seed(1)  # of the dropout
    model.zero_grad()
    return loss()


STEPS = {
    "Deformable DETR, 800 x 1066": deformable_detr,
    "RT-DETR, 640 x 640, batch of 4": rt_detr,
    "Mask2Former, 512 x 512": mask2former,
    "Deformable DETR, batch of 2": lambda: deformable_detr(batch=2),
    "Deformable DETR, backbone trained, too": lambda: deformable_detr(train_backbone=True),
}


def step() -> None:
    """Of Deformable DETR, with what takes the time."""
    name, make = next(iter(STEPS.items()))
    train = time_step(name, make, rounds=3)
    for title, patches in (("with", ["transformers"]), ("without", [])):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            patched_step(train, *patches)
        events = sorted(profile.key_averages(), key=lambda event: -event.self_cpu_time_total)
        total = sum(event.self_cpu_time_total for event in events)
        print(f"  where the time goes {title} patch():")
        for event in events[:10]:
            print(f"    {event.self_cpu_time_total / 1e6:6.2f} s {100 * event.self_cpu_time_total / total:4.0f} %  {event.key}")


def models() -> None:
    """Of each model, once after a first step that is not counted."""
    for name, make in STEPS.items():
        time_step(name, make, rounds=1)


def patched_step(train: Callable[[], Tensor], *targets: str) -> None:
    with aclgrad.torch.patched(*targets) if targets else contextlib.nullcontext():
        train().backward()


def time_step(name: str, make: Callable[[], Callable[[], Tensor]], rounds: int) -> Callable[[], Tensor]:
    """Times forward and backward pass, ours and Hugging Face's in turn."""
    torch.manual_seed(0)
    train = make()
    times: dict[tuple[str, ...], list[float]] = {("transformers",): [], (): []}
    for round_ in range(rounds + 1):
        for patches, runs in times.items():
            time_taken = seconds(lambda patches=patches: patched_step(train, *patches))
            if round_ > 0:
                runs.append(time_taken)
    mine, other = (statistics.median(runs) for runs in times.values())
    # What is not attention is the same both times.
    rest = mine - attention_seconds(train)
    print(f"{name:46} {mine:6.2f} s with patch(), {other:6.2f} s without: {other / mine:.2f}x; attention is "
          f"{100 * (1 - rest / mine):.0f} % with, {100 * (1 - rest / other):.0f} % without; "
          f"were it free: {other / rest:.2f}x", flush=True)  # fmt: skip
    return train


def attention_seconds(train: Callable[[], Tensor]) -> float:
    """The time in our kernels of deformable attention."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        patched_step(train, "transformers")
    events = [event for event in profile.key_averages() if "multi_scale_deformable_attention" in event.key]
    return sum(event.self_cpu_time_total for event in events) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"calls": calls, "operators": operators, "step": step, "models": models}
    parser.add_argument("parts", nargs="*", help=", ".join(parts))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    aclgrad.set_num_threads(options.threads)
    print(f"PyTorch {torch.__version__}, {options.threads} thread(s)")
    for part in options.parts or parts:
        if part not in parts:
            parser.error(f"expected {', '.join(parts)}, got {part}")
        parts[part]()


if __name__ == "__main__":
    main()
