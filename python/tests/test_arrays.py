"""Arrays of other libraries, and what is refused."""

import subprocess
import sys

import aclgrad
import ml_dtypes
import numpy
import pytest
from cases import CASES, bias, grid, nsa

X = bias()["x"].astype(numpy.float32)
ENDS = bias()["group_ends"]


def torch_arguments(torch, case, dtype):
    arguments = {}
    for name, value in case.arguments("float32").items():
        arguments[name] = torch.from_numpy(value) if isinstance(value, numpy.ndarray) else value
        if name in case.floats:
            arguments[name] = arguments[name].to(dtype)
    return arguments


@pytest.mark.parametrize("name", ["msda_backward", "nsa_compress_backward", "grouped_bias_add_backward"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_torch_tensors_in_and_out(name, dtype):
    torch = pytest.importorskip("torch")
    case = CASES[name]
    result = getattr(aclgrad, case.function)(**torch_arguments(torch, case, getattr(torch, dtype)))
    expected = case.run("float32") if dtype == "float32" else None
    for i, tensor in enumerate(result if isinstance(result, tuple) else (result,)):
        assert isinstance(tensor, torch.Tensor) and tensor.dtype == getattr(torch, dtype)
        if expected is not None:
            assert tensor.numpy().tobytes() == expected[i].tobytes()


def test_torch_and_numpy_bfloat16_agree():
    torch = pytest.importorskip("torch")
    x = X.astype(ml_dtypes.bfloat16)
    tensor = torch.from_numpy(x.view(numpy.int16)).view(torch.bfloat16)
    expected = aclgrad.grouped_bias_add_backward(x, ENDS)
    actual = aclgrad.grouped_bias_add_backward(tensor, ENDS)
    assert actual.view(torch.int16).numpy().tobytes() == expected.tobytes()


def test_torch_out_and_strides():
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(X)
    out = torch.zeros(33, 4).t()
    assert aclgrad.grouped_bias_add_backward(tensor.t().contiguous().t(), ENDS, out=out) is out
    assert (out.numpy() == aclgrad.grouped_bias_add_backward(X, ENDS)).all()


def test_torch_tensors_whose_memory_does_not_hold_the_values():
    torch = pytest.importorskip("torch")
    pending = torch.complex(torch.ones(4, 3), torch.ones(4, 3)).conj().imag
    for tensor, message in (
        (pending, "grad_y: expected a tensor whose memory holds its values, got a view with a pending negation"),
        (torch._efficientzerotensor((4, 3)), "grad_y: expected a tensor with memory, got one without"),
        (torch.ones(4, 3).to_sparse(), "grad_y: expected a dense array of .*, got device cpu, .*layout torch.sparse_coo"),
        (torch.ones(4, 3, device="meta"), "grad_y: expected a dense array of .* in the memory of the CPU, got device meta"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            aclgrad.grouped_bias_add_backward(tensor, [4])
    assert aclgrad.grouped_bias_add_backward(pending.resolve_neg(), [4]).tolist() == [[-4.0, -4.0, -4.0]]


def test_gradients_of_torch_are_not_lost_silently():
    torch = pytest.importorskip("torch")
    tensor = torch.ones(4, 3, requires_grad=True)
    with pytest.raises(TypeError, match="grad_y: expected a tensor without gradient"):
        aclgrad.grouped_bias_add_backward(tensor, [4])
    with torch.no_grad():
        assert (aclgrad.grouped_bias_add_backward(tensor, [4]) == 4).all()


def test_jax_arrays_are_read():
    jax = pytest.importorskip("jax")
    actual = aclgrad.grouped_bias_add_backward(jax.numpy.asarray(X), jax.numpy.asarray(ENDS))
    assert isinstance(actual, numpy.ndarray)
    assert actual.tobytes() == aclgrad.grouped_bias_add_backward(X, ENDS).tobytes()


def test_buffers_are_read_and_written():
    expected = aclgrad.grouped_bias_add_backward(X, ENDS)
    assert aclgrad.grouped_bias_add_backward(memoryview(X), memoryview(ENDS)).tobytes() == expected.tobytes()
    out = bytearray(expected.nbytes)
    aclgrad.grouped_bias_add_backward(X, ENDS, out=memoryview(out).cast("f", expected.shape))
    assert bytes(out) == expected.tobytes()


class OnlyDLPack:
    """What has DLPack and nothing else; counts who asks."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_is_read_without_a_copy_and_written():
    out = numpy.zeros((4, 33), numpy.float32)
    aclgrad.grouped_bias_add_backward(OnlyDLPack(X), OnlyDLPack(ENDS), out=OnlyDLPack(out))
    assert out.tobytes() == aclgrad.grouped_bias_add_backward(X, ENDS).tobytes()


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


G, N = grid(), nsa()
REFUSED = [
    (TypeError, "grad_y: expected .*float32.*, got int64", lambda: aclgrad.grouped_bias_add_backward(X.astype(int), ENDS)),
    (TypeError, "grad_y: expected .*, got complex64", lambda: aclgrad.grouped_bias_add_backward(X * 1j, ENDS)),
    (TypeError, "grad_y: expected .*, got >f4", lambda: aclgrad.grouped_bias_add_backward(X.astype(">f4"), ENDS)),
    (TypeError, "grad_y: expected an array.*, got NoneType", lambda: aclgrad.grouped_bias_add_backward(None, ENDS)),
    (TypeError, "grad_y: expected an array.*, got list", lambda: aclgrad.grouped_bias_add_backward(X.tolist(), ENDS)),
    (TypeError, "group_ends: expected int32 or int64, got float64", lambda: aclgrad.grouped_bias_add_backward(X, ENDS * 1.0)),
    (TypeError, "group_ends: expected int32 or int64, got float64", lambda: aclgrad.grouped_bias_add_backward(X, [10.5, 33])),
    (ValueError, r"group_ends: expected 1 axis, got shape \[2, 2\]", lambda: aclgrad.grouped_bias_add_backward(X, ENDS.reshape(2, 2))),
    (ValueError, r"grad_y: expected 3 axes, got shape \[90, 33\]", lambda: aclgrad.grouped_bias_add_backward(X)),
    (ValueError, "kind: expected 'ends' or 'counts', got sizes", lambda: aclgrad.grouped_bias_add_backward(X, ENDS, "sizes")),
    (ValueError, r"out: expected shape \[4, 33\], got \[4, 32\]", lambda: aclgrad.grouped_bias_add_backward(X, ENDS, out=X[:4, :32])),
    (TypeError, "out: expected float32, got float64", lambda: aclgrad.grouped_bias_add_backward(X, ENDS, out=numpy.empty((4, 33)))),
    (ValueError, "out: expected an array that may be written to", lambda: aclgrad.grouped_bias_add_backward(X, ENDS, out=frozen(X[:4]))),
    (ValueError, "out: expected memory of its own", lambda: aclgrad.grouped_bias_add_backward(X, ENDS, out=spread(X[:1], (4, 33)))),
    (TypeError, "bias: expected float32, as x is, got float64", lambda: aclgrad.grouped_bias_add(X, bias()["bias"], ENDS)),
    (ValueError, r"grid: expected shape \[2, 6, 7, 2\], got \[2, 6, 7, 3\]", lambda: aclgrad.grid_sample(G["input"], numpy.zeros((2, 6, 7, 3)))),
    (ValueError, "mode: expected 'bilinear'.*, got cubic", lambda: aclgrad.grid_sample(G["input"], G["grid"], "cubic")),
    (TypeError, "mode: expected a string, got int", lambda: aclgrad.grid_sample(G["input"], G["grid"], 2)),
    (ValueError, "input: expected a height and a width.*, got 0", lambda: aclgrad.grid_sample(G["input"][:, :, :0], G["grid"])),
    (TypeError, "out: expected a tuple of 2 arrays", lambda: aclgrad.grid_sample_backward(**G, out=G["input"])),
    (ValueError, "out: expected 2 entries, got 1", lambda: aclgrad.grid_sample_backward(**G, out=(None,))),
    (ValueError, r"out\[1\]: expected shape", lambda: aclgrad.grid_sample_backward(**G, out=(None, G["input"]))),
    (TypeError, "stride: expected an integer, got 4.5", lambda: aclgrad.nsa_compress(N["x"], N["weight"], None, 8, 4.5)),
    (ValueError, "stride: expected at least 1, got 0", lambda: aclgrad.nsa_compress(N["x"], N["weight"], None, 8, 0)),
    (ValueError, r"weight: expected shape \[9, 3\], got \[8, 3\]", lambda: aclgrad.nsa_compress(N["x"], N["weight"], None, 9, 4)),
    (ValueError, "seq_ends: expected entries that do not fall, got 10", lambda: aclgrad.nsa_compress(N["x"], N["weight"], [20, 10, 100], 8, 4)),
    (ValueError, "seq_ends: expected the number of tokens.*, got 99", lambda: aclgrad.nsa_compress(N["x"], N["weight"], [99], 8, 4)),
    (ValueError, "seq_ends: expected no negative entry, got -1", lambda: aclgrad.nsa_compress(N["x"], N["weight"], [-1, 100], 8, 4)),
    (ValueError, "count: expected at least 1 or None, got 0", lambda: aclgrad.set_num_threads(0)),
]  # fmt: skip


def frozen(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def spread(array, shape):
    return numpy.lib.stride_tricks.as_strided(array, shape, (0, array.strides[1]))


@pytest.mark.parametrize(("kind", "message", "call"), REFUSED, ids=[message for _, message, _ in REFUSED])
def test_what_is_wrong_is_named(kind, message, call):
    with pytest.raises(kind, match=r"aclgrad\.\w+: " + message):
        call()


@pytest.mark.parametrize(
    "name", ["spatial_shapes", "level_start_index", "sampling_locations", "attention_weights", "value"]
)
def test_msda_names_the_argument_of_the_wrong_shape(name):
    arguments = CASES["msda_backward"].arguments("float32")
    arguments[name] = arguments[name][..., :-1]
    with pytest.raises(ValueError, match=r"aclgrad\.msda_backward: \w+: expected shape"):
        aclgrad.msda_backward(**arguments)
