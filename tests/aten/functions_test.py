# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Each function on PyTorch's own samples, contiguous and strided, against PyTorch."""

import copy
import json
import os
import pathlib
from typing import Any

import pytest
import torch
from library import FUNCTIONS, INT4, Call, Function, Memory, Worker
import made_compositions  # noqa: F401
from made import ARGUMENTS, BESIDE_SAMPLES, REFERENCES, arguments_for
from made_wrong import WRONG
from random_numbers import RANDOM, SLOPES
from samples import NoSample, calls_of, copied, functional, leaves, overload, record, solve, wanted_operators
from tensors import TYPES, call_of, call_with, contiguous, strided, tensor_of, untouched, written

COUNTS: dict[str, list[Any]] = {}  # samples, types


@pytest.fixture(scope="session")
def worker():
    return Worker()


@pytest.fixture(scope="session")
def samples():
    torch.set_num_threads(1)
    return record(wanted_operators())


def count(name: str, calls: list[Call]) -> None:
    values = [v for call in calls for value in call.values.values() for v in (value if isinstance(value, list) else [value])]
    numbers = {v.type for v in values if isinstance(v, Memory)}
    COUNTS[name] = [len(calls), [str(t).removeprefix("torch.") for t, n in TYPES.items() if n in numbers]]


def has(function: Function, *roles: str) -> bool:
    return any(p.role in roles for p in function.parameters)


def compute(name: str, arguments: list[Any]) -> Any:
    """PyTorch's answer; None where it refuses."""
    func = overload(name)
    arguments = copied(arguments)
    try:
        keywords = {p.name: a for p, a in zip(func._schema.arguments, arguments, strict=False) if p.kwarg_only}
        by_place = [a for p, a in zip(func._schema.arguments, arguments, strict=False) if not p.kwarg_only]
        result = func(*by_place, **keywords)
    except Exception:
        return None
    if result is None and name.partition(".")[0].endswith("_"):  # a list that was changed
        return arguments[0]
    return result


def of_samples(function: Function, samples: dict[str, list[list[Any]]]) -> list[tuple[dict[str, Any], list[Any]]]:
    """Arguments with their results."""
    found = []
    for call, chosen in calls_of(function):
        recorded = samples.get(functional(call[1])) or arguments_for(call[1])
        for arguments in recorded:
            values = dict(chosen)
            schema = overload(call[1])._schema.arguments
            nodes = {keyword or schema[i].name: node for i, (keyword, node) in enumerate(call[2])}
            try:
                for parameter, argument in zip(schema, arguments, strict=False):
                    if parameter.name in nodes:
                        solve(nodes[parameter.name], argument, function.parsed, values)
                    elif argument != parameter.default_value:
                        raise NoSample
            except (NoSample, KeyError, RuntimeError, AttributeError):
                continue
            result = compute(call[1], arguments)
            is_resized = call[1].partition(".")[0].endswith("_") and isinstance(arguments[0], torch.Tensor) and (
                result is None or result.shape != arguments[0].shape
            )
            if result is None or is_resized:
                continue
            results = list(result) if isinstance(result, tuple) else [result]
            is_complex = [any(t.is_complex() for t in leaves(part)) for part in (values, results)]
            if "dtype" in values and is_complex == [True, False]:
                continue  # the type of the sum: PyTorch derives it where it is not said
            complete(function, values, results)
            found.append((values, results))
    return found


def complete(function: Function, values: dict[str, Any], results: list[Any]) -> None:
    """What PyTorch's callers may leave out, and a C call has to say."""
    for p in function.parameters:
        if p.kind in ("t", "t32", "t64") and values.get(p.name, 0) is None:
            values[p.name] = results[0].dtype
        if p.name == "outputSize" and p.kind == "i" and values.get(p.name, 0) is None:
            values[p.name] = results[0].shape[values["dim"]] if values.get("dim") is not None else results[0].numel()


def of_reference(function: Function) -> list[tuple[dict[str, Any], list[Any]]]:
    found = []
    for arguments in ARGUMENTS[function.name]:
        result = REFERENCES[function.name](**copied(arguments))
        found.append((arguments, list(result) if isinstance(result, tuple) else [result]))
    return found


def in_int32(arguments: dict[str, Any]) -> dict[str, Any]:
    """Indices as most programs have them."""

    def narrow(value: Any) -> Any:
        return value.int() if isinstance(value, torch.Tensor) and value.dtype == torch.int64 else value

    indices = {n: v for n, v in arguments.items() if n in ("index", "indices")}
    return arguments | {n: list(map(narrow, v)) if isinstance(v, list) else narrow(v) for n, v in indices.items()}


PAIRS: dict[str, list[tuple[dict[str, Any], list[Any]]]] = {}


def pairs_of(function: Function, samples: dict[str, list[list[Any]]]) -> list[tuple[dict[str, Any], list[Any]]]:
    """Arguments with PyTorch's results, computed once."""
    if function.name not in PAIRS:
        pairs = of_reference(function) if function.name in REFERENCES else []
        if function.name in BESIDE_SAMPLES or not pairs:
            pairs = of_samples(function, samples) + pairs
        PAIRS[function.name] = pairs + [(in_int32(a), results) for a, results in pairs[:1] if a.keys() & {"index", "indices"}]
    return PAIRS[function.name]


def made_call(function: Function, arguments: dict[str, Any], results: list[Any], layout: Any) -> tuple[Call, list[Any]] | None:
    """The call and its results; none where C cannot say it."""
    results = [torch.tensor(r) if isinstance(r, (bool, int, float)) else r for r in results]
    if any(isinstance(r, torch.Tensor) and r.is_sparse for r in results):
        return None
    try:
        return call_of(function, arguments, results if has(function, "output", "sized_by_data") else [], layout), results
    except TypeError:
        return None


def largest_error(result: torch.Tensor) -> dict[str, float]:
    if result.dtype in (torch.float16, torch.bfloat16):
        return {"rtol": 1e-2, "atol": 1e-2}
    if result.dtype in (torch.float32, torch.complex64):
        return {"rtol": 2e-5, "atol": 1e-4 if result.dtype == torch.complex64 else 2e-5}
    exact = not (result.is_floating_point() or result.is_complex())
    return {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-12, "atol": 1e-12}


def compare(expected: Any, found: Any) -> None:
    if expected is None or found is None:
        return
    if isinstance(expected, (list, tuple)):
        assert len(expected) == len(found)
        for e, f in zip(expected, found, strict=False):
            compare(e, f)
        return
    expected = expected.detach()
    if expected.dtype == torch.complex32:  # which the comparison does not know
        expected, found = expected.to(torch.complex64), found.to(torch.complex64)
    if expected.dtype == found.dtype and torch.equal(expected, found):
        return
    torch.testing.assert_close(found.to(expected.dtype), expected, equal_nan=True, **largest_error(expected))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in RANDOM])
def test_computes_what_pytorch_computes(name, samples, worker):
    function = FUNCTIONS[name]
    pairs = pairs_of(function, samples)
    layouts = [contiguous] if has(function, "sized_by_data") else [contiguous, strided]
    made = [made_call(function, *pair, layout) for layout in layouts for pair in pairs]
    assert any(made), "no sample"
    calls, expected = zip(*filter(None, made), strict=True)
    for i, answer in enumerate(worker.call(calls)):
        if answer.status:  # not a comparison, which would show all of the memory
            pytest.fail(f"phase {answer.phase}: {answer.message} {describe(calls[i])}")
        for result, found in zip(expected[i], written(function, answer), strict=False):
            compare(result, found)
        for p in function.parameters:
            if p.kind == "T" and calls[i].values[p.name] is not None:
                if not untouched(calls[i].values[p.name], answer.values[p.name]):
                    pytest.fail(f"{p.name}: written between its elements: {describe(calls[i])}")
    count(name, calls)


def describe(call: Any) -> str:
    def text(value: Any) -> str:
        return f"[{value.type} {value.sizes}]" if hasattr(value, "sizes") else str(value)

    return ", ".join(f"{k}={[text(x) for x in v] if isinstance(v, list) else text(v)}" for k, v in call.values.items())


@pytest.fixture(scope="session", autouse=True)
def counts():
    yield
    if path := os.environ.get("ACLGRAD_ATEN_COUNTS"):
        pathlib.Path(path).write_text(json.dumps(COUNTS) + "\n")


@pytest.mark.parametrize("name", RANDOM)
def test_draws_numbers_that_seed_and_offset_decide(name, worker):
    function = FUNCTIONS[name]
    arguments, outputs, holds = RANDOM[name]
    results, calls = [], []
    for layout in (contiguous, strided):
        for seed, offset in ((5, 0), (5, 0), (6, 0), (5, 1)):
            call = call_of(function, {**arguments, "seed": seed, "offset": offset}, outputs, layout)
            calls.append(call)
            (answer,) = worker.call([call])
            assert not answer.status, answer.message
            results.append(written(function, answer)[0])
    assert all(holds(result) for result in results)
    first, again, other_seed, other_offset = results[:4]
    assert torch.equal(first, again)
    assert not torch.equal(first, other_offset)
    assert not torch.equal(first, other_seed) or "seedTensor" in arguments  # which has the seed
    count(name, calls)


WRONG_SHAPE = (2, 3, 1, 7)


def first_call(function: Function, samples: dict[str, list[list[Any]]]) -> Call:
    if function.name in RANDOM:
        arguments, results, _ = RANDOM[function.name]
        return call_of(function, {**arguments, "seed": 1, "offset": 0}, results, contiguous)
    return next(filter(None, (made_call(function, *pair, contiguous) for pair in pairs_of(function, samples))))[0]


def test_refuses_null_dead_types_and_outputs_of_another_shape(samples, worker):
    """Of each function, each pointer null; each output of a shape and a type that no result has."""
    calls, wanted = [], []
    for function in FUNCTIONS.values():
        made = first_call(function, samples)
        for p in function.parameters:
            call = copy.deepcopy(made)
            if p.kind in "TLsSIFBc" and not p.optional:
                call.values[p.name] = None
                calls.append(call)
                wanted.append((p.name, {(1, 161001)}))
            is_output = p.role in ("output", "sized_by_data") and p.kind == "T" and call.values[p.name] is not None
            if is_output and not function.name.startswith("Normal"):  # which fill an output of any shape
                call = copy.deepcopy(made)
                call.values[p.name] = contiguous(torch.zeros(WRONG_SHAPE, dtype=tensor_of(call.values[p.name]).dtype))
                calls.append(call)
                wanted.append((p.name, {(1, 161002), (3, 507015)}))
            if p.kind == "T" and call.values[p.name] is not None:
                call = copy.deepcopy(made)
                call.values[p.name].type = 36  # ACL_FLOAT8_E4M3FN
                calls.append(call)
                wanted.append((p.name, {(1, 161002)}))
    answers = worker.call(calls)
    early = 0
    for call, answer, (parameter, allowed) in zip(calls, answers, wanted, strict=False):
        assert (answer.phase, answer.status) in allowed, (call.function, parameter, answer.phase, answer.message)
        assert f"aclnn{call.function}" in answer.message
        early += answer.phase == 1
    assert early / len(calls) > 0.9


def test_refuses_an_odd_offset_of_int4_after_a_call_with_an_even_one(worker):
    """Of the same shapes, for which the first call is prepared once."""
    function = FUNCTIONS["WeightQuantBatchMatmulV2"]
    calls = (made_call(function, *pair, contiguous)[0] for pair in pairs_of(function, {}))
    even = next(call for call in calls if call.values["weight"].type == INT4)
    even.values["weight"].storage.append(0)
    odd = copy.deepcopy(even)
    odd.values["weight"].offset = 1
    first, second = worker.call([even, odd])
    assert not first.status, first.message
    assert (second.phase, second.status) == (1, 161002)
    assert "weight: expected an even offset of int4 elements, got 1" in second.message


def test_reads_inputs_before_it_writes_into_their_memory(worker):
    square, line = torch.arange(9.0).reshape(3, 3), torch.arange(12.0)
    numbers = torch.zeros(6)
    halves = numbers.view(torch.float16)[:6].copy_(torch.arange(6))
    cases = [
        (call_with("Permute", square, [1, 0], square), [square.T]),
        (call_with("SplitTensor", line, 4, 0, [line[8:], line[4:8], line[:4]]), [list(line.split(4))]),
        (call_with("Slice", line, 0, 0, 4, 1, line[1:5]), [line[:4]]),
        (call_with("Cast", halves, torch.float32, numbers), [torch.arange(6.0)]),
        (call_with("Add", line[:11], line[1:], 1.0, line[1:]), [line[:11] + line[1:]]),
        (call_with("InplaceCopy", line[4:], line[:8]), [line[:8]]),
        (call_with("InplaceAdd", square, square[0], 1.0), [square + square[0]]),
    ]
    calls, expected = zip(*cases, strict=True)
    for call, answer, results in zip(calls, worker.call(calls), expected, strict=True):
        assert not answer.status, answer.message
        compare(results, written(FUNCTIONS[call.function], answer))


def test_refuses_what_does_not_fit_in_phase_1(samples, worker):
    """Where PyTorch says so, and where it would compute something else."""
    x, row, wide, index = torch.zeros(2, 3), torch.zeros(3), torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.int64)
    calls = [
        call_with("Add", x, wide, 1.0, x),
        call_with("Mul", x, wide, x),
        call_with("InplaceAdd", row, x[:, 0], 1.0),
        call_with("Cat", [x, wide], 0, torch.zeros(4, 3)),
        call_with("Matmul", x, x, x, 0),
        call_with("Mm", x, x, x, 0),
        call_with("Addmm", row, x, x, 1.0, 1.0, x, 0),
        call_with("Gather", x, 5, index, x),
        call_with("Softmax", x, 5, x),
        call_with("Cumsum", row, 3, torch.float32, row),
        call_with("Triu", row, 0, row),
        call_with("InplaceScatterUpdate", x.reshape(1, 1, 2, 3), torch.zeros(1, 2, dtype=torch.int64), x.reshape(1, 1, 2, 3), -2),
        call_with("GeluMul", x, None, x[:, :1]),
        call_with("Nonzero", x, torch.zeros(2, 6, dtype=torch.int64).T),
        call_with("ConvertWeightToINT4Pack", index.int(), Memory(bytearray(3), INT4, 1, (2, 3), (1, 2), 0)),
    ]
    for function in FUNCTIONS.values():
        if any(p.name == "reduction" for p in function.parameters):
            calls.append(first_call(function, samples))
            calls[-1].values["reduction"] = 7
    attention = FUNCTIONS["FusedInferAttentionScore"]
    arguments = next(a for a in ARGUMENTS[attention.name] if a["sparseMode"] == 3)
    short = {"actualSeqLengthsKvOptional": [7, 6]}
    calls.append(call_of(attention, arguments | short, [arguments["query"]], contiguous))
    for call, answer in zip(calls, worker.call(calls), strict=True):
        assert (answer.phase, answer.status) == (1, 161002), (call.function, answer.phase, answer.message)


SIZED = {
    "ApplyAdamWV2": "mRef vRef grad",
    "FusedSgd": "gradsRef momentumBufferListOptionalRef",
    "BatchNorm": "weight bias runningMean runningVar",
    "BatchNormBackward": "gradOut weight saveMean saveInvstd",
    "LayerNormBackward": "gradOut mean rstd weightOptional",
    "AddLayerNormGrad": "dy x2 mean rstd",
    "AdaptiveAvgPool3dBackward": "gradOutput",
    "AdaptiveMaxPool2dBackward": "gradOutput indices",
    "AdaptiveMaxPool3dBackward": "gradOutput indices",
    "CdistBackward": "grad cdist",
    "CtcLossBackward": "gradOut negLogLikelihood logAlpha",
    "TransformBiasRescaleQkv": "qkvBias",
    "UnfoldGrad": "gradOut",
    "GluBackward": "gradOut",
}


def test_refuses_tensors_outside_of_which_pytorch_would_read(samples, worker):
    def smaller(value: Any) -> Any:
        if isinstance(value, list):
            return [smaller(t) for t in value]
        axis = max(range(value.dim()), key=value.size, default=0)
        return value.narrow(axis, 0, 1) if value.numel() > 1 and value.dim() > 0 else value.new_zeros(5, 5)

    calls = []
    for name, parameters in SIZED.items():
        for p in parameters.split():
            arguments, results = next((a, r) for a, r in pairs_of(FUNCTIONS[name], samples) if a.get(p) is not None)
            calls.append(made_call(FUNCTIONS[name], arguments | {p: smaller(arguments[p])}, results, contiguous)[0])
    for call, answer in zip(calls, worker.call(calls), strict=True):
        assert (answer.phase, answer.status) == (1, 161002), (call.function, answer.phase, answer.message)


def test_takes_what_is_empty_and_padding_of_any_value(worker):
    nothing, three, grad = torch.zeros(2, 0), torch.zeros(3), torch.zeros(3, 0)
    places = torch.tensor([1])
    no_images, kernel, window = torch.zeros(0, 3, 6), torch.zeros(3, 3, 3), ([1], [1], [1], False, [0], 1)
    log_probs, targets = torch.zeros(4, 2, 5), torch.tensor([[1, 2, 3], [1, 100, -100]])
    calls = [
        call_with("SwiGlu", nothing, -1, nothing),
        call_with("LayerNormBackward", grad, grad, [0], three[:, None], three[:, None], None, None, [True, False, False], grad, None, None),
        call_with("CtcLoss", log_probs, targets, [4, 4], [3, 1], 0, False, torch.zeros(2), torch.zeros(2, 4, 7)),
        call_with("Index", three.repeat(3, 1), [places[:, None], places[:0, None]], torch.zeros(0, 1)),
        call_with("ConvolutionBackward", no_images, no_images, kernel, None, *window, [True] * 3, 0, no_images, kernel, three),
    ]
    for call, answer in zip(calls, worker.call(calls), strict=True):
        assert not answer.status, (call.function, answer.message)


@pytest.mark.parametrize("name", ["MaxPool2dWithIndicesBackward", "AdaptiveMaxPool2dBackward", "AdaptiveMaxPool3dBackward"])
def test_refuses_indices_outside_of_the_image(name, samples, worker):
    arguments, results = pairs_of(FUNCTIONS[name], samples)[0]
    wrong = arguments | {"indices": torch.full_like(arguments["indices"], 10**8)}
    (answer,) = worker.call([made_call(FUNCTIONS[name], wrong, results, contiguous)[0]])
    assert (answer.phase, answer.status) == (3, 507015) and "indices: expected indices from 0 to " in answer.message


@pytest.mark.parametrize("name", ["MedianDim", "NanMedianDim"])
def test_takes_the_median_of_one_element_that_is_repeated(name, worker):
    one = torch.tensor([3.0]).expand(16, 16)
    (answer,) = worker.call([call_with(name, one, 1, True, one[:, :1].clone(), torch.zeros(16, 1, dtype=torch.int64))])
    assert not answer.status, answer.message
    values, indices = written(FUNCTIONS[name], answer)
    assert (values == 3).all() and (indices < 16).all() and (indices >= 0).all()


@pytest.mark.parametrize("name", ["RReluWithNoise", "InplaceRReluWithNoise"])
def test_writes_noise_of_any_strides(name, worker):
    x = torch.arange(-8.0, 4).reshape(3, 4)
    answers = {}
    for layout in (contiguous, strided):
        call = call_of(FUNCTIONS[name], {"self": x, "noise": x, **SLOPES, "seed": 5, "offset": 0}, [x], layout)
        (answers[layout],) = worker.call([call])
        assert untouched(call.values["noise"], answers[layout].values["noise"])
    for p in ("self", "noise", *(["out"] if name == "RReluWithNoise" else [])):
        assert torch.equal(*(tensor_of(answer.values[p]) for answer in answers.values())), p


@pytest.mark.parametrize("call, words, answered", WRONG)
def test_says_what_is_wrong(call, words, answered, worker):
    (answer,) = worker.call([call])
    assert (answer.phase, answer.status) == answered, answer.message
    assert words in answer.message
