"""What a call of the Python functions costs where there is next to nothing to compute: the smallest size of each operator.

The baseline is the least that PyTorch needs for as many tensors: a function that does nothing, with its backward pass."""

import numpy
import torch

from bench.case import Case, Work

_REPEAT = 1000


class _Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output, *inputs):
        ctx.gradients = [torch.zeros_like(tensor) for tensor in inputs]
        return output.clone()

    @staticmethod
    def backward(ctx, grad_output):
        return None, *ctx.gradients


def _smallest() -> dict[str, tuple]:
    """The arguments of each function of aclgrad.torch."""
    return {
        "multi_scale_deformable_attention": (torch.randn(1, 1, 1, 8), torch.tensor([[1, 1]]), torch.tensor([0]),
                                             torch.rand(1, 1, 1, 1, 1, 2), torch.rand(1, 1, 1, 1, 1)),
        "nsa_compress": (torch.randn(4, 1, 8), torch.ones(4, 1), torch.tensor([4]), 4, 2),
        "grid_sample": (torch.randn(1, 1, 2, 2), torch.zeros(1, 1, 1, 2)),
        "grouped_bias_add": (torch.randn(4, 8), torch.randn(1, 8), torch.tensor([4])),
    }


_NUMPY = {"multi_scale_deformable_attention": "msda_forward"}


def _repeated(run):
    def repeat():
        for _ in range(_REPEAT - 1):
            run()
        return run()
    return repeat


def _with_gradients(arguments: tuple) -> list:
    return [a.clone().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments]


def _forward(name):
    def prepare(dtype, device):
        import aclgrad.torch

        arguments = _smallest()[name]
        function = getattr(aclgrad.torch, name)
        arrays = [a.numpy() if isinstance(a, torch.Tensor) else a for a in arguments]
        in_numpy = getattr(aclgrad, _NUMPY.get(name, name))
        learned = _with_gradients(arguments)
        output = function(*arguments)
        ours = {"PyTorch": _repeated(lambda: function(*arguments)),
                "PyTorch, recording": _repeated(lambda: function(*learned)),
                "NumPy": _repeated(lambda: torch.from_numpy(numpy.asarray(in_numpy(*arrays))))}
        return Work(ours, {"clone": lambda transform: _repeated(output.clone)}, lambda result: [result], _REPEAT)
    return prepare


def _backward(name):
    def prepare(dtype, device):
        import aclgrad.torch

        arguments = _with_gradients(_smallest()[name])
        inputs = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
        output = getattr(aclgrad.torch, name)(*arguments)
        grad = torch.ones_like(output)
        nothing = _Nothing.apply(output.detach(), *inputs)

        def gradient(of):
            return _repeated(lambda: torch.autograd.grad(of, inputs, grad, retain_graph=True))
        # There is nothing to compare: the baseline's gradients are zeros.
        return Work({"": gradient(output)}, {"empty function": lambda transform: gradient(nothing)}, lambda result: [], _REPEAT)
    return prepare


def cases():
    directions = {"forward": _forward, "backward": _backward}
    return [Case("smallest call in Python", f"{name}, {direction}", torch.float32, make(name), kind="python")
            for name in _smallest() for direction, make in directions.items()]
