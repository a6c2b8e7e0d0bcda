# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What a call of the Python functions costs where there is next to nothing to compute: each operator's smallest size.

    ./dev bench overhead                              microseconds, the fastest of many short loops in turn
    ./dev bench python --filter smallest --threads 1  the median, as for every other case

The baseline is the least that PyTorch needs for as many tensors: an operator in C++ that does nothing, forward and
backward."""

import functools
import os
import sys

import numpy
import torch

from bench.case import Case, Work, gradient_of
from bench.measure import fastest_in_turn, repeated

_REPEAT = 100

_NOTHING = """
#include <torch/torch.h>

using torch::Tensor;

// Returns a copy of `output`, and as the gradient of each of the others a new tensor.
struct Nothing : torch::autograd::Function<Nothing> {
  static Tensor forward(torch::autograd::AutogradContext* ctx, Tensor output, Tensor a, Tensor b,
                        std::optional<Tensor> c) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({a, b, c.value_or(Tensor())});
    return output.clone();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list) {
    torch::autograd::variable_list gradients{Tensor()};
    for (const Tensor& saved : ctx->get_saved_variables()) {
      gradients.push_back(saved.defined() ? at::empty_like(saved) : Tensor());
    }
    return gradients;
  }
};

Tensor nothing(const Tensor& output, const Tensor&, const Tensor&, const std::optional<Tensor>&) {
  return output.clone();
}

Tensor record_nothing(const Tensor& output, const Tensor& a, const Tensor& b, const std::optional<Tensor>& c) {
  return Nothing::apply(output, a, b, c);
}

TORCH_LIBRARY(aclgrad_bench, library) {
  library.def("nothing(Tensor output, Tensor a, Tensor b, Tensor? c=None) -> Tensor");
  library.impl("nothing", torch::dispatch(c10::DispatchKey::CPU, nothing));
  library.impl("nothing", torch::dispatch(c10::DispatchKey::AutogradCPU, record_nothing));
}
"""


@functools.cache
def _nothing():
    """The least that PyTorch needs: an operator in C++ that does nothing, with a backward pass. It is compiled once."""
    from torch.utils.cpp_extension import load_inline

    # PyTorch's own ninja lies beside Python, which need not be in PATH.
    os.environ["PATH"] += os.pathsep + os.path.dirname(sys.executable)
    load_inline("aclgrad_bench_nothing", _NOTHING, is_python_module=False)
    return torch.ops.aclgrad_bench.nothing.default


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


def _with_gradients(arguments: tuple) -> list:
    return [a.clone().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
            for a in arguments]


def _floats(arguments) -> list:
    return [a for a in arguments if isinstance(a, torch.Tensor) and a.is_floating_point()]


def _arrays(arguments) -> list:
    return [a.detach().numpy() if isinstance(a, torch.Tensor) else a for a in arguments]


def _forward(name):
    def prepare(dtype, device):
        import aclgrad.torch

        arguments = _smallest()[name]
        function = getattr(aclgrad.torch, name)
        arrays = _arrays(arguments)
        in_numpy = getattr(aclgrad, _NUMPY.get(name, name))
        learned = _with_gradients(arguments)
        output = function(*arguments)
        ours = {"PyTorch": lambda: function(*arguments), "PyTorch, recording": lambda: function(*learned),
                "NumPy": lambda: torch.from_numpy(numpy.asarray(in_numpy(*arrays)))}
        floats, inputs = _floats(arguments), _floats(learned)
        baselines = {"empty operator": lambda transform: lambda: _nothing()(output, *floats),
                     "empty operator, recording": lambda transform: lambda: _nothing()(output, *inputs)}
        return Work(ours, baselines, repeat=_REPEAT)
    return prepare


def _backward(name):
    def prepare(dtype, device):
        import aclgrad.torch

        arguments = _with_gradients(_smallest()[name])
        inputs = _floats(arguments)
        output = getattr(aclgrad.torch, name)(*arguments)
        grad = torch.ones_like(output)
        nothing = _nothing()(output.detach(), *inputs)
        # The gradient of a sum needs no terms.
        arrays = _arrays(arguments[2:] if name == "grouped_bias_add" else arguments)
        in_numpy = getattr(aclgrad, _NUMPY.get(name, name).removesuffix("_forward") + "_backward")

        ours = {"PyTorch": gradient_of(output, inputs, grad), "NumPy": lambda: in_numpy(grad.numpy(), *arrays)}
        # There is nothing to compare: the baseline's gradients are not set.
        return Work(ours, {"empty operator": lambda transform: gradient_of(nothing, inputs, grad)}, lambda result: [],
                    _REPEAT)
    return prepare


def cases():
    directions = {"forward": _forward, "backward": _backward}
    return [Case("smallest call in Python", f"{name}, {direction}", torch.float32, make(name), kind="python")
            for name in _smallest() for direction, make in directions.items()]


def _microseconds(runs: list) -> list[float]:
    """The fastest call of each."""
    loops = [repeated(_REPEAT, run) for run in runs]
    return [1e6 * seconds / _REPEAT for seconds in fastest_in_turn(loops, rounds=400)]


def main() -> None:
    columns = "NumPy", "PyTorch", "recording", "empty, rec.", "NumPy, grad", "backward", "empty, backw."
    print(f"{'microseconds':34}", *(f"{column:>13}" for column in columns))
    for name in _smallest():
        forward, backward = (make(name)(torch.float32, "cpu") for make in (_forward, _backward))
        runs = [forward.ours[key] for key in ("NumPy", "PyTorch", "PyTorch, recording")]
        runs += [forward.baselines["empty operator, recording"](None), backward.ours["NumPy"]]
        runs += [backward.ours["PyTorch"], backward.baselines["empty operator"](None)]
        print(f"{name:34}", *(f"{value:13.2f}" for value in _microseconds(runs)), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
