# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The PyTorch interface: values, gradients, and what PyTorch asks of custom operators."""

import subprocess
import sys

import aclgrad
import aclgrad.reference
import numpy
import pytest
from case import as_tuple
from cases import CASES

torch = pytest.importorskip("torch")
import aclgrad.torch  # noqa: E402
from tensors import CallOf, counted, gradients, is_float, random, same_bits, tensors_of, with_gradients  # noqa: E402
from torch_cases import CALLS, OPERATORS, gradient_calls  # noqa: E402
from torch_operator_cases.grid_sampler import sample_arguments  # noqa: E402
from torch_operator_cases.multi_scale_deformable_attention import attention_arguments  # noqa: E402
from torch_operator_cases.nsa_compress import compress_arguments  # noqa: E402

each_call = pytest.mark.parametrize("name", CALLS)


# ---- Values and gradients

PAIRS = {
    "msda_forward": ("msda_backward", aclgrad.torch.multi_scale_deformable_attention),
    "nsa_compress": ("nsa_compress_backward", aclgrad.torch.nsa_compress),
    "grid_sample, bicubic, reflection, edges": (
        "grid_sample_backward, bicubic, reflection, edges",
        aclgrad.torch.grid_sample,
    ),
    "grouped_bias_add": ("grouped_bias_add_backward", aclgrad.torch.grouped_bias_add),
}


@pytest.mark.parametrize("forward", PAIRS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_same_bits_as_the_numpy_functions(forward, dtype):
    backward, function = PAIRS[forward]
    case = CASES[forward]
    arguments = {
        name: torch.from_numpy(value) if isinstance(value, numpy.ndarray) else value
        for name, value in case.arguments(dtype).items()
    }
    for name in case.floats:
        arguments[name].requires_grad_()
    result = function(**arguments)
    assert result.detach().numpy().tobytes() == case.run(dtype)[0].tobytes()

    expected = as_tuple(CASES[backward].run(dtype))
    grad_output = torch.from_numpy(CASES[backward].arguments(dtype)["grad_output"])
    inputs = [arguments[name] for name in case.floats]
    actual = torch.autograd.grad(result, inputs, grad_output)
    for gradient, reference in zip(actual[-len(expected) :], expected, strict=True):
        assert gradient.numpy().tobytes() == reference.tobytes()


# ---- Coordinates far away, or not finite

each_mode = pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
each_padding = pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
FAR = [3e9, -3e9, 2.0**31 + 1024, 1e20, -1e20, 123456.0]


def samples_at(sample, coordinates, mode, padding, align_corners, dtype):
    """The result and the gradients, where each coordinate is x once and y once."""
    points = [(value, 0.3) for value in coordinates] + [(-0.2, value) for value in coordinates]
    # Sizes that are powers of two: PyTorch's quotients of distance and size are exact then.
    shape = (5, 9) if align_corners else (4, 8)
    image = random(1, 3, *shape, dtype=dtype).requires_grad_()
    grid = torch.tensor(points, dtype=dtype).view(1, 1, -1, 2).requires_grad_()
    result = sample(image, grid, mode, padding, align_corners)
    return result, *torch.autograd.grad(result, [image, grid], random(*result.shape, dtype=dtype))


@each_mode
@each_padding
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_coordinates_read_what_they_read_in_pytorch(mode, padding, align_corners, dtype):
    actual = samples_at(aclgrad.torch.grid_sample, FAR, mode, padding, align_corners, dtype)
    expected = samples_at(torch.nn.functional.grid_sample, FAR, mode, padding, align_corners, dtype)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4 if dtype == torch.float32 else 1e-12)


@each_mode
@each_padding
def test_what_is_not_finite_differs_from_pytorch_where_the_documentation_says(mode, padding):
    wrong = [float("nan"), float("inf"), float("-inf")]
    result, image_grad, grid_grad = samples_at(aclgrad.torch.grid_sample, wrong, mode, padding, False, torch.float32)
    with torch.no_grad():
        image = random(1, 3, 4, 8)
        points = [(value, 0.3) for value in wrong] + [(-0.2, value) for value in wrong]
        expected = torch.nn.functional.grid_sample(image, torch.tensor(points).view(1, 1, -1, 2), mode, padding, False)
    if mode == "bilinear" and padding == "zeros":
        assert expected.isnan().all()
        expected = torch.zeros_like(expected)
    torch.testing.assert_close(result, expected, equal_nan=True)
    samples = grid_grad.reshape(2, 3, 2)
    assert samples[0, :, 0].count_nonzero() == samples[1, :, 1].count_nonzero() == 0
    brings_infinity = padding == "border" and mode != "bicubic"
    assert image_grad.isfinite().all() and (image_grad.count_nonzero() > 0) == brings_infinity


def test_attention_at_what_is_not_finite_counts_as_zero():
    arguments = with_gradients(attention_arguments())
    locations = arguments[3]
    with torch.no_grad():
        locations[0, 0, :, :, :, 0] = float("nan")
        locations[0, 1, :, :, :, 1] = float("inf")
    result = aclgrad.torch.multi_scale_deformable_attention(*arguments)
    assert result[0, :2].count_nonzero() == 0 and result[0, 2].count_nonzero() > 0
    of_value, of_locations, of_weights = torch.autograd.grad(
        result, [arguments[0], locations, arguments[4]], torch.ones_like(result)
    )
    assert of_value.isfinite().all()
    assert of_locations[0, :2].count_nonzero() == of_weights[0, :2].count_nonzero() == 0


@each_call
def test_no_gradient_is_recorded_without_need(name):
    function, make = CALLS[name]
    assert not function(*make()).requires_grad
    with torch.no_grad():
        assert not function(*with_gradients(make())).requires_grad


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_tensors_that_a_kernel_cannot_read_are_resolved(needs_gradient):
    """PyTorch carries out the negation of a view, and fills known zeros, when they are used."""
    grid = sample_arguments()[1].requires_grad_(needs_gradient)
    for pending in (torch._neg_view(random(2, 3, 5, 4)), torch._efficientzerotensor((2, 3, 5, 4))):
        resolved = aclgrad.torch.grid_sample(pending.clone(), grid)
        assert torch.equal(aclgrad.torch.grid_sample(pending, grid), resolved)
    if needs_gradient:
        negated = torch._neg_view(random(*resolved.shape))
        (actual,) = torch.autograd.grad(resolved, grid, negated, retain_graph=True)
        assert torch.equal(actual, *torch.autograd.grad(resolved, grid, negated.clone()))


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (torch.Tensor.to_sparse, "one of torch.sparse_coo"),
        (lambda tensor: tensor.flatten(1).to_sparse_csr(), "one of torch.sparse_csr"),
        (torch.Tensor.to_mkldnn, "one of torch._mkldnn"),
        (lambda tensor: torch.quantize_per_tensor(tensor, 0.1, 0, torch.quint8), "a quantised one of torch.quint8"),
        (lambda tensor: torch.nested.nested_tensor([*tensor]), "a nested one"),
        (lambda tensor: torch.nested.nested_tensor([*tensor], layout=torch.jagged), "a nested one"),
    ],
)
@pytest.mark.parametrize("records", [False, True])
def test_tensors_that_are_not_dense_are_refused(change, got, records):
    image, grid, *attributes = sample_arguments()
    grid.requires_grad_(records)
    with pytest.raises(TypeError, match=f"aclgrad.torch.grid_sample: input: expected a dense tensor, got {got}"):
        aclgrad.torch.grid_sample(change(image), grid, *attributes)


@pytest.mark.parametrize("records", [False, True])
def test_tensors_whose_memory_was_freed_are_refused(records):
    image, grid, *attributes = sample_arguments()
    image = image.clone()
    image.untyped_storage().resize_(0)
    grid.requires_grad_(records)
    with pytest.raises(ValueError, match="grid_sample: input: expected a tensor with memory, got one without"):
        aclgrad.torch.grid_sample(image, grid, *attributes)


@pytest.mark.parametrize("mode", ["bilinear\0x", "\udcff"])
@pytest.mark.parametrize("records", [False, True])
def test_strings_that_no_choice_is_are_said_whole(mode, records):
    image, grid, *_ = sample_arguments()
    arrays = image.numpy(), grid.numpy()
    grid.requires_grad_(records)
    for function, arguments in ((aclgrad.torch.grid_sample, (image, grid)), (aclgrad.grid_sample, arrays)):
        with pytest.raises(ValueError) as error:
            function(*arguments, mode)
        assert str(error.value).endswith(f"mode: expected 'bilinear', 'nearest' or 'bicubic', got {mode!r}")


# ---- What PyTorch asks of custom operators


@each_call
def test_opcheck(name):
    _, make = CALLS[name]
    arguments = [*with_gradients(make()), *(["ends"] if name.startswith("bias") else [])]
    torch.library.opcheck(getattr(torch.ops.aclgrad, OPERATORS[name]).default, arguments)


@pytest.mark.parametrize("name", gradient_calls())
def test_opcheck_of_gradients(name):
    operator, arguments = gradient_calls()[name]
    torch.library.opcheck(operator.default, arguments)


@each_call
def test_compiled(name):
    function, make = CALLS[name]
    torch._dynamo.reset()

    def around(*arguments):
        return function(*arguments) * 2.0

    compiled = torch.compile(around, fullgraph=True, backend="aot_eager")
    assert same_bits(gradients(compiled, make()), gradients(around, make()))


@each_call
def test_compiled_backward_of_an_eager_call(name):
    function, make = CALLS[name]
    expected = gradients(function, make())
    torch._dynamo.reset()
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        arguments = with_gradients(make())
        result = function(*arguments)
        result.backward(random(*result.shape))
    assert same_bits([result, *(a.grad for a in arguments if is_float(a))], expected)


@each_call
def test_calls_without_the_dispatcher(name):
    function, make = CALLS[name]
    with torch.no_grad():
        assert function(*make())._use_count() == 1  # nobody else keeps it
    with torch._C._AutoDispatchBelowAutograd():
        assert not function(*with_gradients(make())).requires_grad


@each_call
@pytest.mark.parametrize("records", [False, True])
def test_an_operator_has_one_name(name, records):
    function, make = CALLS[name]
    arguments = with_gradients(make()) if records else make()
    with counted() as calls:
        function(*arguments)
    assert calls == {OPERATORS[name]: 1}

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            seen.append(str(function))
            return function(*arguments, **(keywords or {}))

    seen = []
    with Mode():
        function(*arguments)
    ours = [function for function in seen if function.startswith("aclgrad.")]
    assert ours and set(ours) <= {f"aclgrad.{OPERATORS[name]}", f"aclgrad.{OPERATORS[name]}.default"}


@each_call
@pytest.mark.parametrize("records", [False, True])
def test_traced(name, records):
    """PyTorch checks a trace without gradients."""
    function, make = CALLS[name]
    call, tensors = CallOf(function, make()), tensors_of(with_gradients(make()))

    def around(*tensors):
        return call(*tensors) * 2.0

    with torch.set_grad_enabled(records), pytest.warns((DeprecationWarning, FutureWarning)):
        traced = torch.jit.trace(around, tensors)
    assert f"aclgrad::{OPERATORS[name]}(" in str(traced.graph)
    floats = [tensor for tensor in tensors if is_float(tensor)]
    result, expected = traced(*tensors), around(*tensors)
    assert torch.equal(result, expected)
    assert same_bits(*(torch.autograd.grad(r, floats, torch.ones_like(r)) for r in (result, expected)))


def test_a_symbolic_trace_serves_images_and_volumes():
    class Sampler(torch.nn.Module):
        def forward(self, image, grid):
            return aclgrad.torch.grid_sample(image, grid, "nearest")

    traced = torch.fx.symbolic_trace(Sampler())
    for image, grid in (sample_arguments()[:2], (torch.randn(1, 2, 4, 5, 3), torch.rand(1, 3, 3, 2, 3))):
        assert torch.equal(traced(image, grid), Sampler()(image, grid))


def _in_new_process(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)


def test_a_saved_program_needs_the_import(tmp_path):
    file = tmp_path / "program.pt2"
    arguments = torch.ones(1, 1, 4, 4), torch.zeros(1, 2, 2, 2)
    torch.export.save(torch.export.export(CallOf(aclgrad.torch.grid_sample), arguments), file)
    load = f"program = torch.export.load({str(file)!r}).module()"
    refused = _in_new_process(f"import torch; {load}")
    assert refused.returncode != 0
    assert "failed to resolve torch.ops.aclgrad.grid_sample" in refused.stderr
    call = "print(program(torch.ones(1, 1, 4, 4), torch.zeros(1, 2, 2, 2)).sum().item())"
    assert _in_new_process(f"import torch, aclgrad.torch; {load}; {call}").stdout == "4.0\n"


THREADS = """
import os, torch, aclgrad.torch
torch.set_num_threads(1)
aclgrad.set_num_threads(4)
image, grid = torch.rand(1, 8, 512, 512, requires_grad=True), torch.rand(1, 512, 512, 2) * 2 - 1
image.sum().backward()  # starts PyTorch's own threads, of which each GPU has one

def started(call):
    before = len(os.listdir("/proc/self/task"))
    call()
    return len(os.listdir("/proc/self/task")) - before

print(started(lambda: aclgrad.torch.grid_sample(image, grid).sum().backward()))
torch.set_num_threads(3)
print(started(lambda: aclgrad.torch.grid_sample(image, grid).sum().backward()))
"""


def test_calls_use_no_more_threads_than_pytorch_does():
    run = _in_new_process(THREADS)
    assert run.stderr == ""
    alone, three = map(int, run.stdout.split())
    assert alone == 0 and three > 0


def test_an_old_version_is_told_in_one_line():
    run = _in_new_process("import torch; torch.__version__ = '2.4.1+cpu'; import aclgrad.torch")
    expected = "ImportError: aclgrad.torch needs PyTorch 2.10 or later, got 2.4.1+cpu: pip install 'aclgrad[torch]'"
    assert run.stderr.splitlines()[-1] == expected


def _replace(arguments, changes):
    arguments = list(arguments)
    for position, change in changes.items():
        arguments[position] = change(arguments[position]) if callable(change) else change
    return arguments


@pytest.mark.parametrize("sample", [torch.ops.aclgrad.grid_sample, aclgrad.torch.grid_sample])
@pytest.mark.parametrize("records", [False, True])
def test_a_type_that_kernels_do_not_know(sample, records):
    grid = torch.zeros(1, 1, 1, 2, requires_grad=records)
    with pytest.raises(TypeError, match="aclgrad.torch.grid_sample: input: expected float32, .*, got torch.int8"):
        sample(torch.ones(1, 1, 2, 2, dtype=torch.int8), grid, "bilinear", "zeros", False)


def test_align_corners_none_means_false_on_every_path():
    image, grid, mode, padding_mode, _ = sample_arguments()
    expected = aclgrad.torch.grid_sample(image, grid, mode, padding_mode, False)

    def sample(*tensors):
        return aclgrad.torch.grid_sample(*tensors, mode, padding_mode, None)

    torch._dynamo.reset()
    assert torch.equal(sample(image, grid), expected)
    assert torch.equal(torch.func.vmap(sample)(image[None], grid[None])[0], expected)
    assert torch.equal(torch.compile(sample, fullgraph=True, backend="aot_eager")(image, grid), expected)
    assert sample(image.to("meta"), grid.to("meta")).shape == expected.shape
    arrays = image.numpy(), grid.numpy()
    for sample in (aclgrad.grid_sample, aclgrad.reference.grid_sample):
        results = [sample(*arrays, mode, padding_mode, align_corners) for align_corners in (None, False)]
        assert numpy.array_equal(*results)
    assert torch.equal(aclgrad.torch.grid_sample(image, grid, mode, padding_mode, numpy.False_), expected)


@each_call
def test_what_is_no_tensor_is_named(name):
    function, make = CALLS[name]
    kinds = [i for i, argument in enumerate(make()) if isinstance(argument, torch.Tensor)]
    for position in kinds:
        for change in (torch.Tensor.tolist, torch.Tensor.numpy):
            arguments = _replace(make(), {position: change})
            words = r"aclgrad\.torch\.\w+: \w+: expected a tensor( or None)?, got (list|ndarray)"
            with pytest.raises(TypeError, match=words):
                function(*arguments)
            with pytest.raises(TypeError, match=words):
                torch.func.vmap(lambda x, arguments=arguments: function(*arguments) + x)(torch.ones(2))
    with pytest.raises(TypeError, match=r"aclgrad\.torch\.\w+: \w+: expected an? .*, got NoneType"):
        function(*_replace(make(), {0: None}))


INDICES = [
    ("attention", torch.tensor([0, 31]), {}, r"multi_scale_deformable_attention: level_start_index\[1\]: expected"),
    ("compress", torch.tensor([19]), {}, "nsa_compress: cu_seqlens: expected 20 as its last entry"),
    ("bias", torch.tensor([7, 3, 20]), {}, r"grouped_bias_add: group_ends\[1\]: expected at least 7, the entry before"),
    ("bias", torch.tensor([7, 7, 9]), {"kind": "counts"}, r"group_ends\[2\]: expected 0 to 8, of 22 rows, got 9"),
]


@pytest.mark.parametrize(("name", "indices", "keywords", "text"), INDICES)
def test_indices_are_checked_in_cpu_memory(name, indices, keywords, text):
    function, make = CALLS[name]
    with pytest.raises(ValueError, match=text):
        function(*_replace(make(), {2: indices}), **keywords)


def test_gradients_name_themselves():
    x, weight, *_ = compress_arguments()
    with pytest.raises(ValueError, match="nsa_compress_backward: cu_seqlens: expected .* as its last entry"):
        torch.ops.aclgrad.nsa_compress_backward(x, x, weight, torch.tensor([19]), 4, 2, [True, True])


# ---- Autocast


def autocast_call(name, change):
    function, make = CALLS[name]
    arguments = list(make())
    for position, dtype in change.items():
        arguments[position] = arguments[position].to(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        return function(*with_gradients(arguments))


@pytest.mark.parametrize(
    ("name", "change", "dtype"),
    [
        ("attention", {0: torch.bfloat16}, torch.float32),
        ("sample", {0: torch.bfloat16, 1: torch.bfloat16}, torch.float32),
        ("compress", {}, torch.bfloat16),
        ("compress", {0: torch.bfloat16}, torch.bfloat16),
        ("bias", {0: torch.bfloat16}, torch.float32),
        ("bias", {0: torch.bfloat16, 1: torch.bfloat16}, torch.bfloat16),
        ("sample", {0: torch.float64, 1: torch.float64}, torch.float64),
    ],
)
def test_autocast(name, change, dtype):
    result = autocast_call(name, change)
    assert result.dtype == dtype
    result.sum().backward()


@pytest.mark.parametrize(("first", "second"), [("float64", "bfloat16"), ("bfloat16", "float64")])
@pytest.mark.parametrize("name", ["attention", "sample", "compress", "bias"])
def test_autocast_names_the_types_that_were_passed(name, first, second):
    positions = [i for i, argument in enumerate(CALLS[name][1]()) if is_float(argument)]
    change = {i: getattr(torch, second if i == positions[1] else first) for i in positions}
    with pytest.raises(TypeError, match=rf"aclgrad\.torch\.\w+: \w+: expected {first}, as \w+ is, got {second}"):
        autocast_call(name, change)


def test_autocast_without_gradients():
    arguments = sample_arguments()
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        actual = aclgrad.torch.grid_sample(arguments[0].bfloat16(), *arguments[1:])
    assert torch.equal(actual, aclgrad.torch.grid_sample(arguments[0].bfloat16().float(), *arguments[1:]))
