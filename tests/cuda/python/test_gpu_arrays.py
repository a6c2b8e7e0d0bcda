# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Tensors on GPUs through the Python functions, on the GPUs of the PTX machine."""

import aclgrad
import aclgrad.torch
import numpy
import pytest
import torch
from case import TOLERANCE, as_tuple, relative_error
from cases import CASES
from gpu_tensor import GpuTensor

ON_CPUS_ALONE = ("grouped_bias_add", *{case.function for case in CASES.values() if "double" in case.function})
ON_GPU = [name for name, case in CASES.items() if case.function not in ON_CPUS_ALONE]


def on_gpu(arguments, change=lambda array: array, device=0):
    """Wraps the arrays but for cu_seqlens, whose place is the CPU."""
    return {
        name: GpuTensor(change(value), device) if isinstance(value, numpy.ndarray) and name != "cu_seqlens" else value
        for name, value in arguments.items()
    }


def run(case, arguments):
    return [result.array for result in as_tuple(getattr(aclgrad, case.function)(**arguments))]


def check(case, dtype, results):
    for result, reference in zip(results, case.reference(dtype), strict=True):
        assert relative_error(result, reference) <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ON_GPU)
def test_values(name, dtype):
    case = CASES[name]
    check(case, dtype, run(case, on_gpu(case.arguments(dtype))))


@pytest.mark.parametrize("name", ["msda_backward", "grid_sample_backward, bilinear, zeros, edges"])
def test_float64(name):
    case = CASES[name]
    check(case, "float64", run(case, on_gpu(case.arguments("float64"))))


@pytest.mark.parametrize("name", ["nsa_compress", "nsa_compress_backward", "grouped_bias_add_backward"])
def test_float64_is_refused_where_a_kernel_has_none(name):
    case = CASES[name]
    with pytest.raises(TypeError, match="expected float32, float16 or bfloat16 on a GPU, got float64"):
        run(case, on_gpu(case.arguments("float64")))


@pytest.mark.parametrize("function", ON_CPUS_ALONE)
def test_what_has_no_kernel_is_refused(function):
    case = next(case for case in CASES.values() if case.function == function)
    with pytest.raises(ValueError, match="expected an array in the memory of the CPU, got one on CUDA device 0"):
        run(case, on_gpu(case.arguments("float32")))


def spread(array):
    """The same values, every second element of a larger array."""
    larger = numpy.zeros([2 * size for size in array.shape], array.dtype)
    view = larger[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


@pytest.mark.parametrize("name", ON_GPU)
def test_strided_tensors(name):
    case = CASES[name]
    check(case, "float32", run(case, on_gpu(case.arguments("float32"), spread)))


@pytest.mark.parametrize("name", ["msda_backward", "grid_sample_backward, bilinear, zeros, edges"])
def test_deterministic_where_pytorch_asks_for_it(name):
    case = CASES[name]
    fast = run(case, on_gpu(case.arguments("float32")))
    torch.use_deterministic_algorithms(True)
    try:
        deterministic = run(case, on_gpu(case.arguments("float32")))
    finally:
        torch.use_deterministic_algorithms(False)
    check(case, "float32", deterministic)
    assert fast[0].tobytes() != deterministic[0].tobytes(), "another way of summing"


def test_patch_knows_how_many_gpus_there_are():
    assert aclgrad._core.cuda_device_count() == 8
    assert aclgrad.torch.patches._gpu_count() == (8 if hasattr(torch.Tensor, "__dlpack_c_exchange_api__") else 0)


def test_nothing_is_copied():
    case = CASES["msda_forward"]
    GpuTensor.allocated = 0
    run(case, on_gpu(case.arguments("float32")))
    assert GpuTensor.allocated == 1, "the result alone"


def test_results_given_by_the_caller():
    case = CASES["msda_forward"]
    arguments = on_gpu(case.arguments("float32"))
    out = GpuTensor(numpy.empty((2, 37, 72), "float32"))
    assert aclgrad.msda_forward(**arguments, out=out) is out
    check(case, "float32", [out.array])


def test_all_on_one_device():
    case = CASES["msda_forward"]
    arguments = case.arguments("float32")
    mixed = on_gpu(arguments) | {"spatial_shapes": arguments["spatial_shapes"]}
    with pytest.raises(ValueError, match="spatial_shapes: expected an array on CUDA device 0, as value is, got one on"):
        aclgrad.msda_forward(**mixed)
    mixed = on_gpu(arguments) | {"attention_weights": GpuTensor(arguments["attention_weights"], 1)}
    with pytest.raises(ValueError, match="attention_weights: expected an array on CUDA device 0, .* CUDA device 1"):
        aclgrad.msda_forward(**mixed)
    check(case, "float32", run(case, on_gpu(arguments, device=1)))


def test_sequence_ends_are_read_on_the_cpu():
    case = CASES["nsa_compress"]
    arguments = on_gpu(case.arguments("float32"))
    arguments["cu_seqlens"] = GpuTensor(arguments["cu_seqlens"])
    with pytest.raises(ValueError, match="cu_seqlens: expected an array in the memory of the CPU"):
        aclgrad.nsa_compress(**arguments)


def test_a_device_that_is_not_there():
    case = CASES["msda_forward"]
    with pytest.raises(ValueError, match="value: expected an array in the memory of the CPU, .* CUDA device 99"):
        run(case, on_gpu(case.arguments("float32"), device=99))
