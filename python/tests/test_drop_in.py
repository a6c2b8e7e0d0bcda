# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What stands in for other packages: the extension of deformable attention, and torch_npu's names."""

import pathlib
import shutil
import subprocess
import sys
import textwrap
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, PathFinder

import numpy
import pytest

torch = pytest.importorskip("torch")
import aclgrad.torch  # noqa: E402
import aclgrad.torch.npu as torch_npu  # noqa: E402
import MultiScaleDeformableAttention as MSDA  # noqa: E402
from tensors import gradients, random, same_bits, with_gradients  # noqa: E402
from torch_operator_cases.multi_scale_deformable_attention import attention_arguments  # noqa: E402
from torch_operator_cases.nsa_compress import compress_arguments  # noqa: E402

# ---- The extension, as repositories call it


class MSDeformAttnFunction(torch.autograd.Function):
    """As in the repositories of models."""

    @staticmethod
    def forward(ctx, value, spatial_shapes, level_start_index, sampling_locations, attention_weights, im2col_step):
        tensors = value, spatial_shapes, level_start_index, sampling_locations, attention_weights
        ctx.im2col_step = im2col_step
        ctx.save_for_backward(*tensors)
        return MSDA.ms_deform_attn_forward(*tensors, im2col_step)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        of_value, of_locations, of_weights = MSDA.ms_deform_attn_backward(
            *ctx.saved_tensors, grad_output, ctx.im2col_step
        )
        return of_value, None, None, of_locations, of_weights, None


def batch_arguments():
    value, *levels, locations, weights = attention_arguments()
    scales = 1 + torch.arange(3.0) / 10
    return (
        value.expand(3, -1, -1, -1) * scales[:, None, None, None],
        *levels,
        locations.expand(3, *locations.shape[1:]) / scales[:, None, None, None, None, None],
        weights.expand(3, *weights.shape[1:]).contiguous(),
    )


@pytest.mark.parametrize("im2col_step", [1, 2, 64])
def test_functions_of_repositories_run_as_they_are(im2col_step):
    actual = gradients(lambda *a: MSDeformAttnFunction.apply(*a, im2col_step), batch_arguments())
    expected = gradients(aclgrad.torch.multi_scale_deformable_attention, batch_arguments())
    assert same_bits(actual, expected)


def test_such_a_function_in_a_compiled_model():
    torch._dynamo.reset()

    def doubled(*arguments):
        return MSDeformAttnFunction.apply(*arguments, 64) * 2

    compiled = torch.compile(doubled, backend="aot_eager", fullgraph=True)
    actual, expected = (gradients(function, attention_arguments()) for function in (compiled, doubled))
    assert same_bits(actual, expected)


TENSORS = "value", "spatial_shapes", "level_start_index", "sampling_locations", "attention_weights"


def test_shapes_and_kinds_of_the_results():
    arguments = batch_arguments()
    output = MSDA.ms_deform_attn_forward(*arguments, 64)
    assert output.shape == (3, 3, 8)
    by_name = dict(zip(TENSORS, arguments, strict=True))
    gradients = MSDA.ms_deform_attn_backward(**by_name, grad_output=random(3, 3, 8), im2col_step=64)
    assert isinstance(gradients, list)
    assert [g.shape for g in gradients] == [arguments[i].shape for i in (0, 3, 4)]
    by_head = MSDA.ms_deform_attn_backward(*arguments, random(3, 3, 8).view(3, 3, 2, 4), 64)
    assert same_bits(by_head, gradients)


def test_such_a_function_under_autocast():
    """The arguments of models have several types there; extensions refuse that, or their callers cast."""
    value, *levels, locations, weights = batch_arguments()
    arguments = with_gradients([value.bfloat16(), *levels, locations, weights])
    with torch.autocast("cpu", torch.bfloat16):
        output = MSDeformAttnFunction.apply(*arguments, 64)
    assert output.dtype == torch.float32
    output.backward(random(*output.shape))
    in_float32 = value.bfloat16().float(), *levels, locations, weights
    expected = MSDA.ms_deform_attn_backward(*in_float32, random(*output.shape), 64)
    assert torch.equal(output, MSDA.ms_deform_attn_forward(*in_float32, 64))
    assert torch.equal(arguments[0].grad, expected[0].bfloat16())
    assert same_bits([arguments[3].grad, arguments[4].grad], expected[1:])


def test_gradients_of_mixed_types_compile():
    value, *others = attention_arguments()
    arguments = value.bfloat16(), *others, random(1, 3, 8), 64
    torch._dynamo.reset()
    compiled = torch.compile(MSDA.ms_deform_attn_backward, backend="aot_eager", fullgraph=True)
    assert same_bits(compiled(*arguments), MSDA.ms_deform_attn_backward(*arguments))


@pytest.mark.parametrize("third", [torch.float32, torch.bfloat16])
def test_types_that_were_passed_are_named(third):
    """Not the float32 that others become where types are mixed."""
    value, *levels, locations, weights = batch_arguments()
    arguments = value.double(), *levels, locations.half(), weights.to(third)
    expected = "_backward: sampling_locations: expected float64, as value is, got float16"
    with pytest.raises(TypeError, match=expected):
        MSDA.ms_deform_attn_backward(*arguments, random(3, 3, 8).double(), 64)


WRONG_CALLS = [
    ("im2col_step", 0, ValueError, "at least 1, got 0"),
    ("im2col_step", -64, ValueError, "at least 1, got -64"),
    ("im2col_step", 64.0, TypeError, "an integer, got 64.0"),
    ("im2col_step", None, TypeError, "an integer, got None"),
    ("value", random(1, 30, 2, 4).double(), TypeError, None),
    ("value", random(1, 30, 2, 4).numpy(), TypeError, "a tensor, got ndarray"),
    ("value", random(30, 2, 4), ValueError, r"4 axes, got shape \[30, 2, 4\]"),
    ("spatial_shapes", [[6, 4], [3, 2]], TypeError, "a tensor, got list"),
    ("spatial_shapes", torch.tensor([[6.0, 4.0], [3.0, 2.0]]), TypeError, "int32 or int64"),
    ("level_start_index", torch.tensor([0, 99]), ValueError, "0 to 30, the rows of value, got 99"),
    ("sampling_locations", random(1, 3, 2, 2, 2, 3), ValueError, r"shape \[1, 3, 2, 2, 2, 2\]"),
    ("attention_weights", random(1, 3, 2, 2, 3), ValueError, r"shape \[1, 3, 2, 2, 2\], got \[1, 3, 2, 2, 3\]"),
]


@pytest.mark.parametrize(("argument", "wrong", "error", "text"), WRONG_CALLS)
@pytest.mark.parametrize("backward", [False, True])
def test_errors_name_function_and_argument(argument, wrong, error, text, backward):
    arguments = dict(zip(TENSORS, attention_arguments(), strict=True)) | {"im2col_step": 64, argument: wrong}
    function = MSDA.ms_deform_attn_backward if backward else MSDA.ms_deform_attn_forward
    if backward:
        arguments["grad_output"] = random(1, 3, 8)
    # Where types differ, the one that differs from the first is named.
    place = rf"{argument}(\[\d+\])?: expected " if text else r"\w+: expected float64, as value is, got float32"
    if text is None and backward:
        place = r"\w+: expected float\d\d, as \w+ is, got float\d\d"
    name = rf"{function.__module__}\.{function.__name__}"
    with pytest.raises(error, match=rf"^{name}: {place}{text and f'.*{text}' or ''}"):
        function(**arguments)


def test_grad_output_is_checked():
    with pytest.raises(ValueError, match=r"ms_deform_attn_backward: grad_output: expected shape \[1, 3, 8\], got \["):
        MSDA.ms_deform_attn_backward(*attention_arguments(), random(1, 3, 7), 64)
    with pytest.raises(TypeError, match="ms_deform_attn_backward: grad_output: expected a tensor, got NoneType"):
        MSDA.ms_deform_attn_backward(*attention_arguments(), None, 64)


# ---- An extension that is installed goes first

NAME = "MultiScaleDeformableAttention"
OURS = pathlib.Path(MSDA.__file__)
PRINT_ORIGIN = "import MultiScaleDeformableAttention as m; print(getattr(m, 'origin', 'aclgrad'), m.__name__)"


def origin_of_import(*folders, program=PRINT_ORIGIN):
    """Whose module a program gets, with our package and then `folders` on its path."""
    path = [str(OURS.parent), *map(str, folders)]
    program = f"import sys; sys.path[1:1] = {path}\n" + textwrap.dedent(program)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return run.stdout.split()[0] if run.returncode == 0 else run.stderr


def write_package(folder, source="origin = 'theirs'"):
    (folder / NAME).mkdir(parents=True)
    (folder / NAME / "__init__.py").write_text(source)
    return folder


def test_without_an_extension_it_is_ours(tmp_path):
    (tmp_path / NAME).mkdir()  # a clone's folder is no module
    assert origin_of_import(tmp_path) == "aclgrad"


def test_an_extension_behind_ours_on_the_path_is_taken(tmp_path):
    (tmp_path / f"{NAME}.py").write_text("origin = 'theirs'")  # what loads the extension in an egg
    assert origin_of_import(tmp_path) == "theirs"
    assert origin_of_import(write_package(tmp_path / "package")) == "theirs"


def test_an_extension_that_other_finders_know_is_taken(tmp_path):
    write_package(tmp_path)
    program = f"""
        from importlib.machinery import PathFinder
        class Editable:
            @staticmethod
            def find_spec(name, path=None, target=None):
                return PathFinder.find_spec(name, [{str(tmp_path)!r}]) if name == {NAME!r} else None
        sys.meta_path.append(Editable)
    """
    assert origin_of_import(program=textwrap.dedent(program) + PRINT_ORIGIN) == "theirs"


def test_an_egg_that_a_path_file_names_is_taken(tmp_path):
    write_package(tmp_path / "attention.egg")
    (tmp_path / "easy-install.pth").write_text("./attention.egg\n")
    program = f"import site; site.addsitedir({str(tmp_path)!r})\n{PRINT_ORIGIN}"
    assert origin_of_import(program=program) == "theirs"


def test_a_second_copy_of_ours_is_no_extension(tmp_path):
    shutil.copy(OURS, tmp_path)
    (tmp_path / "aclgrad").mkdir()
    assert origin_of_import(tmp_path) == "aclgrad"
    assert origin_of_import(tmp_path, write_package(tmp_path / "package")) == "theirs"


def test_what_keeps_an_extension_from_loading_is_told(tmp_path):
    write_package(tmp_path, "raise ImportError('undefined symbol: cudaLaunch')")
    assert "ImportError: undefined symbol: cudaLaunch" in origin_of_import(tmp_path)
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled" / f"{NAME}{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    assert "ImportError" in origin_of_import(tmp_path / "compiled")


def test_python_takes_an_extension_in_the_same_folder(tmp_path):
    shutil.copy(OURS, tmp_path)
    (tmp_path / f"{NAME}{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    assert isinstance(PathFinder.find_spec(NAME, [str(tmp_path)]).loader, ExtensionFileLoader)
    PathFinder.invalidate_caches()
    write_package(tmp_path)
    assert PathFinder.find_spec(NAME, [str(tmp_path)]).origin == str(tmp_path / NAME / "__init__.py")


# ---- torch_npu's names


ENDS = [7, 7, 20]
ENDS_OF_KINDS = [(kind(ENDS), torch.tensor(ENDS)) for kind in (list, tuple, numpy.array, torch.tensor)]


@pytest.mark.parametrize(("actual_seq_len", "ends"), [*ENDS_OF_KINDS, (None, None), ([], None)])
def test_npu_compression_is_ours(actual_seq_len, ends):
    x, weight, _, block, stride = compress_arguments()
    expected = aclgrad.torch.nsa_compress(x, weight, ends, block, stride)
    for default_device in ("cpu", "meta"):
        with torch.device(default_device):
            actual = torch_npu.npu_nsa_compress(x, weight, block, stride, actual_seq_len=actual_seq_len)
        assert torch.equal(actual, expected)
    with pytest.raises(TypeError, match="positional"):
        torch_npu.npu_nsa_compress(x, weight, block, stride, actual_seq_len)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_npu_gradient_is_that_of_autograd(dtype):
    x, weight, ends, block, stride = with_gradients(compress_arguments(dtype))
    arguments = {
        "input": x,
        "weight": weight,
        "compress_block_size": block,
        "compress_stride": stride,
        "actual_seq_len": ends.tolist(),
    }
    output = torch_npu.npu_nsa_compress(**arguments)
    grad = random(*output.shape, dtype=dtype)
    expected = torch.autograd.grad(output, [x, weight], grad)
    with torch.no_grad():
        actual = torch_npu.npu_nsa_compress_grad(grad, **arguments)
    assert isinstance(actual, tuple) and same_bits(actual, expected)
    assert same_bits(torch_npu.npu_nsa_compress_grad(grad, **arguments), expected)


def test_npu_compression_compiles():
    torch._dynamo.reset()
    x, weight, ends, block, stride = with_gradients(compress_arguments())

    def compress(x, weight):
        return torch_npu.npu_nsa_compress(x, weight, block, stride, actual_seq_len=ENDS) * 2

    compiled = torch.compile(compress, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x, weight), compress(x, weight))


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"input": random(20, 6)}, ValueError, r"input: expected 3 axes, got shape \[20, 6\]"),
        ({"input": numpy.ones((20, 2, 3))}, TypeError, "input: expected a tensor, got ndarray"),
        ({"weight": random(4, 3)}, ValueError, r"weight: expected shape \[4, 2\], got \[4, 3\]"),
        ({"weight": random(4, 2).double()}, TypeError, "weight: expected float32, as input is, got float64"),
        ({"compress_block_size": 0}, ValueError, "compress_block_size: expected at least 1, got 0"),
        ({"compress_block_size": 4.0}, TypeError, "compress_block_size: expected an integer, got "),
        ({"compress_stride": -1}, ValueError, "compress_stride: expected at least 1, got -1"),
        ({"actual_seq_len": [9, 7, 20]}, ValueError, r"actual_seq_len\[1\]: expected at least 9, the entry before"),
        ({"actual_seq_len": [7, 19]}, ValueError, "actual_seq_len: expected 20 as its last entry, .*, got 19"),
        ({"actual_seq_len": [7, 20.5]}, TypeError, r"actual_seq_len: expected integers or None, got \[7, 20.5\]"),
        ({"actual_seq_len": 20}, TypeError, "actual_seq_len: expected integers or None, got 20"),
        ({"actual_seq_len": [2**64]}, ValueError, "actual_seq_len: expected integers of 64 bits"),
    ],
)
@pytest.mark.parametrize("backward", [False, True])
def test_npu_errors_use_the_callers_names(changed, error, text, backward):
    x, weight, ends, block, stride = compress_arguments()
    arguments = {"input": x, "weight": weight, "compress_block_size": block, "compress_stride": stride}
    arguments |= {"actual_seq_len": ends.tolist()} | changed
    function = torch_npu.npu_nsa_compress_grad if backward else torch_npu.npu_nsa_compress
    if backward:
        arguments["grad"] = random(7, 2, 3)
    with pytest.raises(error, match=rf"^{function.__module__}\.{function.__name__}: {text}"):
        function(**arguments)
