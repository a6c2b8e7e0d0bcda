# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, and what is refused."""

import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys
import warnings

import aclgrad
import aclgrad.reference
import numpy
import pytest
from arrays import KINDS, OnlyDLPack, arguments_of_kind
from case import DTYPES, as_tuple, bits
from cases import CASES
from operator_cases.grid_sampler import grid
from operator_cases.grouped_bias_add import bias
from operator_cases.nsa_compress import nsa

X = bias()["x"].astype(numpy.float32)
ENDS = bias()["group_ends"]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["msda_backward", "nsa_compress_backward", "grouped_bias_add_backward"])
def test_arrays_of_every_kind(name, kind, dtype):
    if kind in ("torch", "jax"):
        pytest.importorskip(kind)
    lacking = ("memoryview", "bfloat16"), ("dlpack", "bfloat16"), ("jax", "float64"), ("ctypes", "float16"), ("ctypes", "bfloat16")
    if (kind, dtype) in lacking:
        pytest.skip("there is no such array")
    case = CASES[name]
    arguments = arguments_of_kind(kind, case, dtype)
    results = as_tuple(getattr(aclgrad, case.function)(**arguments))
    for result, expected in zip(results, case.run(dtype), strict=True):
        assert str(result.dtype) == ("torch." if kind == "torch" else "") + dtype
        assert bits(result.view(sys.modules["torch"].uint8) if kind == "torch" else result) == bits(expected)
    assert bits(getattr(aclgrad.reference, case.function)(**arguments)) == bits(case.reference(dtype))


def test_torch_out_and_strides(torch):
    tensor = torch.from_numpy(X)
    out = torch.zeros(33, 4).t()
    assert aclgrad.grouped_bias_add_backward(tensor.t().contiguous().t(), ENDS, out=out) is out
    assert (out.numpy() == aclgrad.grouped_bias_add_backward(X, ENDS)).all()


def test_torch_tensors_whose_memory_does_not_hold_the_values(torch):
    pending = torch.complex(torch.ones(4, 3), torch.ones(4, 3)).conj().imag
    for tensor, message in (
        (pending, "grad_output: expected a tensor whose memory holds its values, got a view with a pending negation"),
        (torch._efficientzerotensor((4, 3)), "grad_output: expected a tensor with memory, got one without"),
        (torch.ones(4, 3).to_sparse(), "grad_output: expected a dense array of .*, got device cpu, .*layout torch.sparse_coo"),
        (torch.nested.nested_tensor([torch.ones(4, 3)]), "grad_output: expected a dense array of .*, got .*, nested"),
        (torch.quantize_per_tensor(torch.ones(4, 3), 1, 0, torch.quint8), "grad_output: expected a dense array of .*, got .* torch.quint8"),
        (torch.ones(4, 3, device="meta"), "grad_output: expected a dense array of .* in the memory of the CPU, got device meta"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            aclgrad.grouped_bias_add_backward(tensor, [4])
        if tensor is not pending and not tensor._is_zerotensor():
            with pytest.raises(TypeError, match="grad_output: expected a floating-point array, got dtype .*, layout "):
                aclgrad.reference.grouped_bias_add_backward(tensor, [4])
    assert aclgrad.grouped_bias_add_backward(pending.resolve_neg(), [4]).tolist() == [[-4.0, -4.0, -4.0]]
    with pytest.raises(TypeError, match="grad_output: expected a floating-point array, got OnlyDLPack"):
        aclgrad.reference.grouped_bias_add_backward(OnlyDLPack(torch.ones(4, 3, dtype=torch.bfloat16)), [4])


def test_gradients_of_torch_are_not_lost_silently(torch):
    tensor = torch.ones(4, 3, requires_grad=True)
    with pytest.raises(TypeError, match="grad_output: expected a tensor without gradient"):
        aclgrad.grouped_bias_add_backward(tensor, [4])
    with torch.no_grad():
        assert (aclgrad.grouped_bias_add_backward(tensor, [4]) == 4).all()


def test_tangents_of_torch_are_not_lost_silently(torch):
    from torch.autograd import forward_ad

    tensor = torch.ones(4, 3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(tensor, tensor)
        for modes in (contextlib.nullcontext(), torch.no_grad()):
            with modes, pytest.raises(TypeError, match="grad_output: expected a tensor without tangent"):
                aclgrad.grouped_bias_add_backward(dual, [4])
        assert (aclgrad.grouped_bias_add_backward(tensor, [4]) == 4).all()
        assert (aclgrad.grouped_bias_add_backward(forward_ad.unpack_dual(dual).primal, [4]) == 4).all()


@pytest.mark.parametrize("has_out", [False, True])
def test_traces_do_not_keep_results_silently(torch, has_out):
    """They would hold the results of one call, or memory without contents, for those of all later calls."""
    from torch.fx.experimental.proxy_tensor import make_fx

    x, out = torch.from_numpy(X), torch.zeros(4, 33) if has_out else None

    def call(x):
        return aclgrad.grouped_bias_add_backward(x, ENDS, out=out)

    expected = "grad_output: expected a tensor outside of traces and dispatch modes .aclgrad.torch has functions"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        for trace in (lambda: torch.jit.trace(call, (x,)), lambda: make_fx(call)(x)):
            with pytest.raises(TypeError, match=expected):
                trace()


def test_results_that_a_transform_wraps_are_refused(torch):
    x = torch.ones(4, 3).as_subclass(type("Subclass", (torch.Tensor,), {}))
    with pytest.raises(TypeError, match="grouped_bias_add_backward: out: expected a dense array of float32"):
        torch.func.grad(lambda y: (y * aclgrad.grouped_bias_add_backward(x, [4])).sum())(torch.ones(3))


@pytest.mark.parametrize("kind", [memoryview, OnlyDLPack, numpy.ctypeslib.as_ctypes])
def test_out_of_other_kinds(kind):
    out = numpy.zeros((4, 33), numpy.float32)
    aclgrad.grouped_bias_add_backward(X, ENDS, out=kind(out))
    assert out.tobytes() == aclgrad.grouped_bias_add_backward(X, ENDS).tobytes()


def test_exchange_tables_that_do_not_serve_are_left_alone(torch):
    """DLPack allows tables without the function that is called. Those of other libraries than PyTorch do not tell what
    may be written to."""
    from gpu_tensor import Exchange, capsule_of

    table = Exchange(1, 1)

    class OfOthers(OnlyDLPack):
        __dlpack_c_exchange_api__ = capsule_of(table)

    class LikeTorch(OfOthers):
        requires_grad = False

        def is_neg(self):
            return False

    expected = aclgrad.grouped_bias_add_backward(X, ENDS)
    for kind in (OfOthers, LikeTorch):
        assert bits(aclgrad.grouped_bias_add_backward(X, kind(ENDS))) == bits(expected)
    with pytest.raises(TypeError, match="out: expected a writable array of float32, got .*OfOthers"):
        aclgrad.grouped_bias_add_backward(X, ENDS, out=OfOthers(frozen(X[:4])))


def test_memory_is_given_back():
    import weakref

    array = numpy.array(X)
    watch = weakref.ref(array)
    aclgrad.grouped_bias_add_backward(OnlyDLPack(array), ENDS)
    aclgrad.grouped_bias_add_backward(array, ENDS)
    del array
    assert watch() is None


def test_import_needs_numpy_alone():
    code = "import sys, aclgrad; assert not {'torch', 'ml_dtypes', 'jax', 'matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("arguments", [["-c", "import aclgrad.torch"], ["-m", "aclgrad.torch"], ["-c", "import aclgrad.torch.npu"]])
def test_without_pytorch_the_package_to_install_is_named(arguments, tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('No module named torch', name='torch')")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(pathlib.Path(aclgrad.__file__).parents[1])))}
    run = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    assert run.returncode == 1
    assert "aclgrad.torch needs PyTorch 2.10 or later: pip install 'aclgrad[torch]'" in run.stderr.splitlines()[-1]
    assert "ModuleNotFoundError" not in run.stderr
    if arguments[0] == "-m":
        assert len(run.stderr.splitlines()) == 1


class SaysTwo(list):
    def __len__(self):
        return 2


class Empty(ctypes.Structure):
    """Has elements of no bytes."""


G, N = grid(), nsa()
REFUSED = [
    (TypeError, "grad_output: expected .*float32.*, got int64", lambda: aclgrad.grouped_bias_add_backward(X.astype(int), ENDS)),
    (TypeError, "grad_output: expected .*, got complex64", lambda: aclgrad.grouped_bias_add_backward(X * 1j, ENDS)),
    (TypeError, "grad_output: expected .*, got >f4", lambda: aclgrad.grouped_bias_add_backward(X.astype(">f4"), ENDS)),
    (TypeError, "grad_output: expected an array.*, got NoneType", lambda: aclgrad.grouped_bias_add_backward(None, ENDS)),
    (TypeError, "grad_output: expected an array.*, got test_arrays.Empty_Array_3", lambda: aclgrad.grouped_bias_add_backward((Empty * 3)(), ENDS)),
    (TypeError, "grad_output: expected an array.*, got list", lambda: aclgrad.grouped_bias_add_backward(X.tolist(), ENDS)),
    (TypeError, "group_ends: expected int32 or int64, got float64", lambda: aclgrad.grouped_bias_add_backward(X, ENDS * 1.0)),
    (TypeError, "group_ends: expected int32 or int64, got float64", lambda: aclgrad.grouped_bias_add_backward(X, [10.5, 33])),
    (ValueError, r"group_ends: expected 1 axis, got shape \[2, 2\]", lambda: aclgrad.grouped_bias_add_backward(X, ENDS.reshape(2, 2))),
    (ValueError, r"grad_output: expected 3 axes, got shape \[90, 33\]", lambda: aclgrad.grouped_bias_add_backward(X)),
    (ValueError, "kind: expected 'ends' or 'counts', got 'sizes'", lambda: aclgrad.grouped_bias_add_backward(X, ENDS, "sizes")),
    (ValueError, r"out: expected shape \[4, 33\], got \[4, 32\]", lambda: aclgrad.grouped_bias_add_backward(X, ENDS, out=X[:4, :32])),
    (TypeError, "out: expected float32, as grad_output is, got float64", lambda: aclgrad.grouped_bias_add_backward(X, ENDS, out=numpy.empty((4, 33)))),
    (ValueError, "out: expected an array that may be written to", lambda: aclgrad.grouped_bias_add_backward(X, ENDS, out=frozen(X[:4]))),
    (TypeError, "bias: expected float32, as x is, got float64", lambda: aclgrad.grouped_bias_add(X, bias()["bias"], ENDS)),
    (ValueError, r"grid: expected shape \[2, 6, 7, 2\], got \[2, 6, 7, 3\]", lambda: aclgrad.grid_sample(G["input"], numpy.zeros((2, 6, 7, 3)))),
    (ValueError, "mode: expected 'bilinear'.*, got 'cubic'", lambda: aclgrad.grid_sample(G["input"], G["grid"], "cubic")),
    (TypeError, "mode: expected a string, got int", lambda: aclgrad.grid_sample(G["input"], G["grid"], 2)),
    (ValueError, "input: expected a height from 1 to .*, got 0", lambda: aclgrad.grid_sample(G["input"][:, :, :0], G["grid"])),
    (TypeError, "out: expected a tuple of 2 arrays", lambda: aclgrad.grid_sample_backward(**G, out=G["input"])),
    (ValueError, "out: expected 2 entries, got 1", lambda: aclgrad.grid_sample_backward(**G, out=(None,))),
    (ValueError, r"out\[1\]: expected shape", lambda: aclgrad.grid_sample_backward(**G, out=(None, G["input"]))),
    (TypeError, "stride: expected an integer, got 4.5", lambda: aclgrad.nsa_compress(N["x"], N["weight"], None, 8, 4.5)),
    (ValueError, "stride: expected at least 1, got 0", lambda: aclgrad.nsa_compress(N["x"], N["weight"], None, 8, 0)),
    (ValueError, "stride: expected at most 2.53 - 1, got 9007199254740992", lambda: aclgrad.nsa_compress(N["x"], N["weight"], None, 8, 2**53)),
    (TypeError, r"cu_seqlens: expected integers in a rectangular array, got \[\[50\], 100\]", lambda: aclgrad.nsa_compress(N["x"], N["weight"], [[50], 100], 8, 4)),
    (ValueError, r"weight: expected shape \[9, 3\], got \[8, 3\]", lambda: aclgrad.nsa_compress(N["x"], N["weight"], None, 9, 4)),
    (ValueError, r"cu_seqlens\[1\]: expected at least 20, the entry before, got 10", lambda: aclgrad.nsa_compress(N["x"], N["weight"], [20, 10, 100], 8, 4)),
    (ValueError, "cu_seqlens: expected 100 as its last entry, the number of tokens, got 99", lambda: aclgrad.nsa_compress(N["x"], N["weight"], [99], 8, 4)),
    (ValueError, r"cu_seqlens\[0\]: expected at least 0, got -1", lambda: aclgrad.nsa_compress(N["x"], N["weight"], [-1, 100], 8, 4)),
    (ValueError, "count: expected at least 1 or None, got 0", lambda: aclgrad.set_num_threads(0)),
    (TypeError, "count: expected an integer or None, got 2.5", lambda: aclgrad.set_num_threads(2.5)),
    (TypeError, "count: expected an integer or None, got '2'", lambda: aclgrad.set_num_threads("2")),
    (TypeError, "align_corners: expected a bool, got 'no'", lambda: aclgrad.grid_sample(G["input"], G["grid"], align_corners="no")),
    (TypeError, "align_corners: expected a bool, got 1", lambda: aclgrad.grid_sample_backward(**G, align_corners=1)),
    (TypeError, "align_corners: expected a bool, got 1", lambda: aclgrad.reference.grid_sample(G["input"], G["grid"], align_corners=1)),
    (ValueError, r"output_mask: expected a tuple of 2 bools, got \(True,\)", lambda: aclgrad.grid_sample_backward(**G, output_mask=(True,))),
    (ValueError, r"output_mask: expected a tuple of 2 bools, got \[\]", lambda: aclgrad.grid_sample_backward(**G, output_mask=SaysTwo())),
    (ValueError, "out: expected 2 entries, got 0", lambda: aclgrad.grid_sample_backward(**G, out=SaysTwo())),
    (TypeError, "output_mask: expected a tuple of 2 bools, got True", lambda: aclgrad.grid_sample_backward(**G, output_mask=True)),
    (TypeError, r"output_mask: expected a tuple of 2 bools, got \(1, 0\)", lambda: aclgrad.grid_sample_backward(**G, output_mask=(1, 0))),
    (TypeError, "grad_output: expected an array in which every element counts, got a masked array", lambda: aclgrad.grouped_bias_add_backward(numpy.ma.masked_array(X), ENDS)),
    (TypeError, "out: expected an array in which every element counts", lambda: aclgrad.grouped_bias_add_backward(X, ENDS, out=numpy.ma.zeros((4, 33), "f"))),
    (TypeError, "grad_output: expected a floating-point array, got a masked array", lambda: aclgrad.reference.grouped_bias_add_backward(numpy.ma.masked_array(X), ENDS)),
    (TypeError, "grad_output: expected a floating-point array, got int64", lambda: aclgrad.reference.grouped_bias_add_backward(X.astype(int), ENDS)),
    (TypeError, "x: expected a floating-point array, got list", lambda: aclgrad.reference.grouped_bias_add(X.tolist(), X[:4], ENDS)),
    (TypeError, "input: expected a floating-point array, got NoneType", lambda: aclgrad.reference.grid_sample(None, G["grid"])),
    (ValueError, r"group_ends\[1\]: expected at least 64, the entry before, got 10", lambda: aclgrad.grouped_bias_add(X, X[:3], [64, 10, 88])),
    (ValueError, r"group_ends\[0\]: expected at least 0, got -1", lambda: aclgrad.grouped_bias_add(X, X[:2], [-1, 88])),
    (ValueError, r"group_ends\[1\]: expected 0 to 90, of 90 rows, got 91", lambda: aclgrad.grouped_bias_add_backward(X, [3, 91])),
    (ValueError, r"group_ends\[1\]: expected 0 to 80, of 90 rows, got -5", lambda: aclgrad.grouped_bias_add(X, X[:2], [10, -5], kind="counts")),
    (ValueError, r"group_ends\[1\]: expected 0 to 80, of 90 rows, got 81", lambda: aclgrad.grouped_bias_add_backward(X, [10, 81], "counts")),
    (ValueError, r"group_ends\[1\]: expected 0 to 89, of 90 rows, got 9223372036854775807", lambda: aclgrad.grouped_bias_add_backward(X, [1, 2**63 - 1], "counts")),
]  # fmt: skip


def frozen(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize(("kind", "message", "call"), REFUSED, ids=[message for _, message, _ in REFUSED])
def test_what_is_wrong_is_named(kind, message, call):
    with pytest.raises(kind, match=r"aclgrad\.[\w.]+: " + message):
        call()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"level_start_index": [0, -1, 178]}, r"level_start_index\[1\]: expected 0 to 181, the rows of value, got -1"),
        ({"level_start_index": [0, 143, 182]}, r"level_start_index\[2\]: expected 0 to 181, .*, got 182"),
        ({"level_start_index": [0, 2**62, 0]}, r"level_start_index\[1\]: expected 0 to 181"),
        (
            {"level_start_index": [0, 147, 178]},
            r"spatial_shapes\[1\]: expected a level of at most 34 pixels, the rows of value from 147 on, got \[7, 5\]",
        ),
        (
            {"spatial_shapes": [[13, 11], [7, -5], [1, 3]]},
            r"spatial_shapes\[1\]: expected a height and a width of at least 0, got \[7, -5\]",
        ),
        (
            {"spatial_shapes": [[-1, -4], [7, 5], [1, 3]]},
            r"spatial_shapes\[0\]: expected a height and a width of at least 0, got \[-1, -4\]",
        ),
        ({"spatial_shapes": [[2**40, 2**40], [7, 5], [1, 3]]}, r"spatial_shapes\[0\]: expected a level of at most 181"),
    ],
)
def test_msda_names_the_level_that_leaves_value(changes, message):
    forward, backward = CASES["msda_forward"], CASES["msda_backward"]
    for function, case in (
        (aclgrad.msda_forward, forward),
        (aclgrad.msda_backward, backward),
        (aclgrad.reference.msda_forward, forward),
        (aclgrad.reference.msda_backward, backward),
    ):
        with pytest.raises(ValueError, match=message):
            function(**(case.arguments("float32") | changes))


def test_msda_takes_levels_that_overlap_or_are_empty():
    case = CASES["msda_forward"]
    changes = {"spatial_shapes": [[13, 11], [7, 5], [0, 2**40]], "level_start_index": [0, 20, 181]}
    assert numpy.isfinite(case.run("float32", **changes)[0]).all()


# ---- Results given by the caller


def strided(array, shape, strides):
    return numpy.lib.stride_tricks.as_strided(array, shape, [4 * stride for stride in strides])


def test_results_that_share_memory_with_themselves_are_refused():
    memory = numpy.zeros(400, numpy.float32)
    for strides in ((0, 1), (33, 0), (32, 1), (1, 1), (1, 3)):
        with pytest.raises(ValueError, match="out: expected memory of its own for each element"):
            aclgrad.grouped_bias_add_backward(X, ENDS, out=strided(memory, (4, 33), strides))


def test_results_whose_axes_interleave_are_written():
    """Each element has memory of its own, though no axis steps over all that another reaches."""
    memory = numpy.full(200, 7, numpy.float32)
    out = strided(memory, (4, 33), (3, 4))  # 3 i + 4 k, and i < 4
    aclgrad.grouped_bias_add_backward(X, ENDS, out=out)
    assert out.tobytes() == aclgrad.grouped_bias_add_backward(X, ENDS).tobytes()


def test_results_that_share_memory_are_refused():
    arguments = {name: array.astype(numpy.float32) for name, array in grid().items()}
    memory = numpy.zeros(2 * 5 * 9 * 14 + 100, numpy.float32)
    into = memory[: 2 * 5 * 9 * 14].reshape(2, 5, 9, 14)
    for start in (0, 1, 100, 2 * 5 * 9 * 14 - 1):
        if start + 168 > memory.size:
            start = memory.size - 168
        with pytest.raises(ValueError, match=r"out\[1\]: expected memory of its own, got memory that out\[0\] has, too"):
            aclgrad.grid_sample_backward(**arguments, out=(into, memory[start : start + 168].reshape(2, 6, 7, 2)))
    x, weight = (nsa()[name].astype(numpy.float32) for name in ("x", "weight"))
    grad_output = nsa()["grad_output"].astype(numpy.float32)
    with pytest.raises(ValueError, match=r"out\[0\]: expected memory of its own, got memory that x has, too"):
        aclgrad.nsa_compress_backward(grad_output, x, weight, [20, 25, 100], 8, 4, out=(x, None))
    value = CASES["msda_backward"].arguments("float32")
    with pytest.raises(ValueError, match=r"out\[0\]: expected memory of its own, got memory that value has, too"):
        aclgrad.msda_backward(**value, out=(value["value"][:, ::-1], None, None))
    rows = X.copy()
    with pytest.raises(ValueError, match="out: expected memory of its own, got memory that x has, too"):
        aclgrad.grouped_bias_add(rows, X[:4].copy(), ENDS, out=rows)


def test_results_in_the_gaps_of_others_are_written():
    expected = aclgrad.grid_sample_backward(**grid(), output_mask=(False, True))[1]
    memory = numpy.zeros((2, 6, 7, 4))
    arguments = grid()
    memory[..., ::2] = arguments["grid"]
    arguments["grid"] = memory[..., ::2]
    aclgrad.grid_sample_backward(**arguments, output_mask=(False, True), out=(None, memory[..., 1::2]))
    assert memory[..., 1::2].tobytes() == expected.tobytes()
    assert memory[..., ::2].tobytes() == grid()["grid"].tobytes()


def test_torch_knows_what_is_overwritten(torch):
    x, out = torch.from_numpy(X), torch.ones(4, 33)
    learned = torch.ones(4, 33, requires_grad=True)
    product = learned * out  # saves `out` for its gradient
    aclgrad.grouped_bias_add_backward(x, ENDS, out=out.t().contiguous().t().copy_(out))
    torch.autograd.grad(product.sum(), learned, retain_graph=True)
    for change in (
        lambda: aclgrad.grouped_bias_add_backward(x, ENDS, out=out),
        lambda: aclgrad.grouped_bias_add_backward(x, ENDS, out=out[:, :]),  # a view
        lambda: aclgrad.grouped_bias_add_backward(X, ENDS, out=out),
    ):
        product = learned * out
        change()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(product.sum(), learned)
    results = torch.zeros(2, 5, 9, 14), torch.zeros(2, 6, 7, 2)
    arguments = {name: torch.from_numpy(array.astype(numpy.float32)) for name, array in grid().items()}
    aclgrad.grid_sample_backward(**arguments, out=results)
    assert [result._version for result in results] == [1, 1]
    with pytest.raises(ValueError, match="out"):
        aclgrad.grid_sample_backward(**arguments, out=(results[0], results[0]))
    assert [result._version for result in results] == [1, 1]
    with torch.inference_mode():
        aclgrad.grouped_bias_add_backward(x, ENDS, out=torch.ones(4, 33))
