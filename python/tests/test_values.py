# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Every function, in every type and layout, against its reference."""

import inspect
import itertools

import aclgrad
import aclgrad.reference
import numpy
import pytest
from case import DTYPES, TOLERANCE, as_tuple, bits, relative_error
from cases import CASES
from operator_cases.multi_scale_deformable_attention import msda_twice

all_cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
# Layouts have their own tests, where the modes of grid sampling make no difference.
few_cases = pytest.mark.parametrize(
    "case",
    [case for name, case in CASES.items() if "," not in name or "bicubic, border, edges" in name],
    ids=lambda case: case.function,
)
all_dtypes = pytest.mark.parametrize("dtype", DTYPES)


@all_cases
@all_dtypes
def test_matches_the_definition(case, dtype):
    for actual, expected in zip(case.run(dtype), case.reference(dtype), strict=True):
        assert actual.dtype == DTYPES[dtype]
        assert actual.shape == expected.shape
        assert numpy.abs(expected).max() > 0 or "nearest" in case.others.values()
        assert relative_error(actual, expected) <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [">f8", "longdouble"])
def test_the_reference_computes_wide_types_in_double(dtype):
    generator = numpy.random.default_rng(0)
    arrays = generator.random((1, 1, 64, 64)), generator.random((1, 8, 8, 2)) * 2 - 1
    wide = (array.astype(dtype) for array in arrays)
    assert numpy.array_equal(aclgrad.reference.grid_sample(*wide), aclgrad.reference.grid_sample(*arrays))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_rows_of_more_pixels_than_float_has_numbers_for(mode):
    row = (numpy.arange(2**25) % 1009 + 1).astype(numpy.float32).reshape(1, 1, 1, -1)
    grid = numpy.zeros((1, 1, 2001, 2), numpy.float32)
    grid[..., 0] = numpy.linspace(-1, 1, 2001)
    expected = aclgrad.reference.grid_sample(row, grid, mode, "border")
    numpy.testing.assert_allclose(aclgrad.grid_sample(row, grid, mode, "border"), expected, rtol=1e-6)


def gapped(array):
    """The same values with room between all elements, and the room with its values."""
    room = numpy.full([2 * size + 1 for size in array.shape], 7, array.dtype)
    view = room[tuple(slice(1, None, 2) for _ in array.shape)]
    view[...] = array
    return view, room


def transposed(array):
    axes = tuple(reversed(range(array.ndim)))
    return numpy.ascontiguousarray(array.transpose(axes)).transpose(axes)


def reversed_in_memory(array):
    flip = tuple(slice(None, None, -1) for _ in array.shape)
    return numpy.ascontiguousarray(array[flip])[flip]


def misaligned(array):
    memory = numpy.empty(array.nbytes + 1, numpy.uint8)
    view = memory[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


LAYOUTS = {
    "transposed": transposed,
    "gapped": lambda array: gapped(array)[0],
    "reversed": reversed_in_memory,
    "misaligned": misaligned,
}


@few_cases
@all_dtypes
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_of_inputs_changes_no_bit(case, dtype, layout):
    changed = {
        name: LAYOUTS[layout](value) if isinstance(value, numpy.ndarray) else value
        for name, value in case.arguments(dtype).items()
    }
    assert bits(case.run(dtype, **changed)) == bits(case.run(dtype))


@few_cases
@all_dtypes
def test_out_gets_the_same_bits_and_its_gaps_stay(case, dtype):
    expected = case.run(dtype)
    views, rooms = zip(*(gapped(numpy.zeros_like(array)) for array in expected), strict=True)
    result = case.run(dtype, out=views if len(views) > 1 else views[0])
    for returned, view, room, wanted in zip(result, views, rooms, expected, strict=True):
        assert returned is view
        assert view.tobytes() == wanted.tobytes()
        view[...] = 7
        assert (room == 7).all()


def test_out_may_hold_only_some_of_the_results():
    case = CASES["msda_backward"]
    expected = case.run("float32")
    out = numpy.empty_like(expected[1])
    actual = case.run("float32", out=(None, out, None))
    assert actual[1] is out
    assert bits(actual) == bits(expected)


def test_read_only_inputs_are_read():
    case = CASES["nsa_compress"]
    arguments = case.arguments("float32")
    for name in ("x", "weight", "cu_seqlens"):
        arguments[name].flags.writeable = False
    assert aclgrad.nsa_compress(**arguments).shape == (21, 3, 20)


@pytest.mark.parametrize(
    "kind",
    [numpy.int32, numpy.int64, numpy.ndarray.tolist, lambda ends: tuple(ends.tolist()), lambda ends: range(10, 89, 26)],
)
def test_indices_of_every_kind(kind):
    case = CASES["grouped_bias_add_backward"]
    ends = numpy.array([10, 36, 62, 88])
    (actual,), (expected,) = (case.run("float32", group_ends=one) for one in (kind(ends), ends))
    assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["msda_backward", "msda_double_backward"])
def test_msda_takes_the_gradient_by_heads(name, dtype):
    """And has its own gradient in the same form."""
    case = CASES[name]
    by_heads = case.arguments(dtype)["grad_output"].reshape(2, 37, 3, 24)
    actual, expected = case.run(dtype, grad_output=by_heads), case.run(dtype)
    assert bits(actual) == bits(expected)
    if name == "msda_double_backward":
        assert (actual[0].shape, expected[0].shape) == (by_heads.shape, (2, 37, 72))


def has_mask(case):
    return "output_mask" in inspect.signature(getattr(aclgrad, case.function)).parameters


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if has_mask(case)])
def test_only_needed_gradients_are_computed(name):
    case = CASES[name]
    everything = case.run("float32")
    for mask in itertools.product((True, False), repeat=len(everything)):
        for actual, expected, needed in zip(case.run("float32", output_mask=mask), everything, mask, strict=True):
            assert actual is None if not needed else actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "name",
    ["msda_double_backward", "nsa_compress_double_backward", "grid_sample_double_backward, bilinear, zeros, edges"],
)
def test_double_backward_takes_what_is_absent_as_zero(name):
    case = CASES[name]
    tangents = [argument for argument in case.floats if argument.startswith("grad_grad_")]
    for given in itertools.product((True, False), repeat=len(tangents)):
        absent = [tangent for tangent, is_given in zip(tangents, given, strict=True) if not is_given]
        zeros = {tangent: numpy.zeros_like(case.arguments("float32")[tangent]) for tangent in absent}
        actual = case.run("float32", **dict.fromkeys(absent))
        for one, other in zip(actual, case.run("float32", **zeros), strict=True):
            numpy.testing.assert_array_equal(one, other)
        assert any(result.any() for result in actual) == any(given)
        case_in_double = case.arguments("float64") | dict.fromkeys(absent)
        expected = getattr(aclgrad.reference, case.function)(**case_in_double)
        for one, other in zip(case.run("float64", **dict.fromkeys(absent)), expected, strict=True):
            numpy.testing.assert_allclose(one, other, rtol=0, atol=1e-11)


def ones(shape, *names):
    return dict.fromkeys(names, numpy.ones(shape))


EMPTY_LEVELS = {"spatial_shapes": numpy.array([[0, 0], [0, 5], [7, 0]]), "level_start_index": numpy.zeros(3, int)}
# What is changed about the cases of a function, its gradient and the gradient of that, where they have it.
EMPTY = {
    "no queries": ("msda_forward", msda_twice(queries=0)),
    "no pixels": ("msda_forward", EMPTY_LEVELS | ones((2, 0, 3, 24), "value", "grad_grad_value")),
    "no window": (
        "nsa_compress",
        ones((5, 3, 20), "x", "grad_grad_x") | ones((0, 3, 20), "grad_output") | {"cu_seqlens": None},
    ),
    "no rows": ("grouped_bias_add", ones((0, 33), "x", "grad_output") | {"group_ends": [0, 0, 0, 0]}),
    "no columns": ("grouped_bias_add", ones((90, 0), "x", "grad_output") | ones((4, 0), "bias", "grad_grad_bias")),
    "no groups": ("grouped_bias_add", ones((0, 33), "bias", "grad_grad_bias") | {"group_ends": numpy.zeros(0, int)}),
}


@pytest.mark.parametrize("function", ["", "_backward", "_double_backward"])
@pytest.mark.parametrize("name", EMPTY)
def test_what_is_empty(name, function):
    forward, changes = EMPTY[name]
    case = CASES[forward.removesuffix("_forward") + function if function else forward]
    arguments = case.arguments("float64")
    arguments |= {name: value for name, value in changes.items() if name in arguments}
    actual = as_tuple(getattr(aclgrad, case.function)(**arguments))
    expected = as_tuple(getattr(aclgrad.reference, case.function)(**arguments))
    for one, other in zip(actual, expected, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-13, strict=True)


def test_second_gradients_of_rows_without_a_group_are_zero():
    rows, bias = numpy.ones((3, 2)), numpy.ones((2, 2))
    for group_bias, ends in ((bias, [0, 0]), (bias[:0], numpy.zeros(0, int))):
        assert not aclgrad.grouped_bias_add_double_backward(rows, group_bias, ends).any()
