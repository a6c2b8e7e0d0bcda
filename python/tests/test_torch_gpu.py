# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The PyTorch interface on GPUs: where there is none, what fake tensors and the CPU can tell of it."""

import pytest

torch = pytest.importorskip("torch")
import aclgrad.torch  # noqa: E402
from aclgrad import _core  # noqa: E402
from aclgrad.operators.grouped_bias_add.torch import _bias_on_cuda  # noqa: E402
from aclgrad.operators.multi_scale_deformable_attention.torch import _attention  # noqa: E402
from gpu_tensor import GpuTensor  # noqa: E402
from tensors import gradients, is_float, same_bits, with_gradients  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch_cases import CALLS, gradient_calls  # noqa: E402
from torch_operator_cases.grid_sampler import sample_arguments  # noqa: E402
from torch_operator_cases.grouped_bias_add import bias_arguments  # noqa: E402
from torch_operator_cases.multi_scale_deformable_attention import attention_arguments  # noqa: E402
from torch_operator_cases.nsa_compress import ENDS  # noqa: E402

each_call = pytest.mark.parametrize("name", CALLS)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def on_gpu(arguments):
    return [a.cuda() if torch.is_tensor(a) and a is not ENDS else a for a in arguments]


def fake_on_gpu(argument):
    if not torch.is_tensor(argument) or argument is ENDS:  # which lies on the CPU, as it is the size of the result
        return argument
    return torch.empty(argument.shape, dtype=argument.dtype, device="cuda")


FAKES = {name: (function, make()) for name, (function, make) in CALLS.items() if name != "compress"}
FAKES |= {f"gradient of {name}": call for name, call in gradient_calls().items()}


@pytest.mark.parametrize("name", FAKES)
def test_fake_tensors_of_gpus(name):
    function, arguments = FAKES[name]
    expected = torch.utils._pytree.tree_leaves(function(*arguments))
    with FakeTensorMode(allow_non_fake_inputs=True):
        actual = torch.utils._pytree.tree_leaves(function(*map(fake_on_gpu, arguments)))
    assert [(a.device.type, a.shape) for a in actual] == [("cuda", e.shape) for e in expected]


def test_gpu_arrays_are_refused_where_there_is_no_such_gpu():
    image, grid = (GpuTensor(a.numpy(), device=99) for a in sample_arguments()[:2])
    expected = "grid_sample: input: expected an array in the memory of the CPU, .* device 99"
    with pytest.raises(ValueError, match=expected):
        aclgrad.grid_sample(image, grid)


def test_kernels_of_gpus_name_the_caller():
    """They are functions for arrays, too, and those have names of their own."""
    arguments = list(attention_arguments())
    kernel = _attention._naming_caller(_core.msda_forward)
    assert torch.equal(kernel(*arguments), aclgrad.torch.multi_scale_deformable_attention(*arguments))
    arguments[0] = arguments[0][0]
    with pytest.raises(ValueError, match=r"^aclgrad\.torch\.multi_scale_deformable_attention: value: expected 4 axes"):
        kernel(*arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bias_as_gpus_add_it(dtype):
    x, bias, ends = bias_arguments(dtype)
    for change, kind in ((ends, "ends"), (ends.int(), "ends"), (torch.tensor([7, 0, 9]), "counts"), (None, "ends")):
        rows = x if change is not None else x[:21].reshape(3, 7, 5)
        expected = aclgrad.torch.grouped_bias_add(rows, bias, change, kind=kind)
        assert same_bits([_bias_on_cuda(rows, bias, change, kind)], [expected])
    assert torch.equal(_bias_on_cuda(x, bias[:0], ends[:0], "ends"), x)
    for arguments, message in (
        ((x.double(), bias, ends, "ends"), "bias: expected float64, as x is, got "),
        ((x, bias[:2], ends, "ends"), r"bias: expected shape \[3, 5\], got \[2, 5\]"),
        ((x, bias, ends, "count"), "kind: expected 'ends' or 'counts', got 'count'"),
        ((x, bias, ends.float(), "ends"), "group_ends: expected int32 or int64, got float32"),
        ((x, bias, ends[0], "ends"), r"group_ends: expected 1 axis, got shape \[\]"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"aclgrad.torch.grouped_bias_add: {message}"):
            _bias_on_cuda(*arguments)


@needs_gpu
@each_call
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gpu_results_are_those_of_the_cpu(name, dtype):
    function, make = CALLS[name]
    expected = gradients(function, make(dtype))
    for tensor, reference in zip(gradients(function, on_gpu(make(dtype))), expected, strict=True):
        assert tensor.is_cuda
        error = (tensor.cpu().double() - reference.double()).norm() / reference.double().norm().clamp_min(1e-30)
        assert error < (1e-5 if dtype == torch.float32 else 1e-2)


@needs_gpu
@each_call
def test_cuda_graphs_capture_the_operators(name):
    """Nothing waits for the GPU, and replays see new contents of the same tensors."""
    function, make = CALLS[name]
    arguments = with_gradients(on_gpu(make()))
    inputs = [a for a in arguments if is_float(a)]

    def step():
        result = function(*arguments)
        return [result.detach(), *torch.autograd.grad(result, inputs, torch.ones_like(result))]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # a first call loads the kernels
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        inputs[0].mul_(2)
    graph.replay()
    for tensor, reference in zip(captured, step(), strict=True):
        torch.testing.assert_close(tensor, reference)


@needs_gpu
@pytest.mark.parametrize("name", ["attention", "sample"])
def test_deterministic_algorithms_give_the_same_bits(name):
    function, make = CALLS[name]
    torch.use_deterministic_algorithms(True)
    try:
        first, *others = (gradients(function, on_gpu(make())) for _ in range(3))
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(same_bits(first, other) for other in others)


@needs_gpu
def test_nothing_is_copied_to_the_host():
    arguments = on_gpu(attention_arguments())
    aclgrad.torch.multi_scale_deformable_attention(*arguments)
    torch.cuda.set_sync_debug_mode("error")
    try:
        aclgrad.torch.multi_scale_deformable_attention(*arguments)
    finally:
        torch.cuda.set_sync_debug_mode("default")
