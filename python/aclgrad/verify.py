# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Compares results of these operators, as from an NPU or a GPU, with the reference in double precision.

    >>> import aclgrad.verify, numpy
    >>> inputs = {"x": numpy.ones((6, 1, 1)), "weight": numpy.ones((4, 1))}
    >>> y = numpy.full((2, 1, 1), 4.0)
    >>> report = aclgrad.verify.verify("nsa_compress", inputs, {"output": y}, {"block": 4, "stride": 2})
    >>> report.passed
    True
    >>> print(report)  # doctest: +ELLIPSIS
    nsa_compress: results against the reference in double precision
    ...
    PASS

`python -m aclgrad verify` does the same with files.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy

import aclgrad.reference

from ._registry import FUNCTIONS, Function, as_numpy

OPERATORS: Mapping[str, Function] = FUNCTIONS


def operator_of(name: str) -> Function:
    """By its name here or in aclnn."""
    for function in OPERATORS.values():
        if name == function.name or name in function.aclnn:
            return function
    raise ValueError(f"operator: expected one of {', '.join(OPERATORS)}, got {name!r}")


@dataclasses.dataclass(frozen=True)
class _Precision:
    """A floating-point type, and how much its results may be off.

    The rule is the one that Ascend asks of contributed operators: 99 % of the elements within
    absolute + relative * |reference|, and none off by more than `largest`. The limit on single elements is taken
    relative to those above 1, because rounding alone puts large numbers further off.
    """

    fraction_bits: int
    smallest_exponent: int
    relative: float
    absolute: float
    largest: float
    max_ulp: float  # by default


_SINGLE = _Precision(23, -126, 2.0**-10, 2.0**-16, 0.01, 1024)
_PRECISIONS: Mapping[str, _Precision] = {
    "float16": _Precision(10, -14, 2.0**-9, 2.0**-9, 0.1, 4),
    "bfloat16": _Precision(7, -126, 2.0**-6, 2.0**-6, 1.0, 4),
    "float32": _SINGLE,
    "float64": dataclasses.replace(_SINGLE, fraction_bits=52, smallest_exponent=-1022),
}
_SHARE_WITHIN = 0.99

# Upper bounds of the histogram's bins, in ULP.
_BINS = (0.0, 0.5, *(2.0**exponent for exponent in range(11)))


@dataclasses.dataclass(frozen=True)
class Errors:
    """How far one array is from the reference, element by element. Infinite where only one of them is finite."""

    absolute: Any
    ulp: Any

    @property
    def largest_ulp(self) -> float:
        return float(self.ulp.max(initial=0.0))

    def histogram(self) -> list[int]:
        """The number of elements in each of the bins, and beyond the last."""
        bins = numpy.searchsorted(numpy.array(_BINS), self.ulp.ravel())
        return [int(count) for count in numpy.bincount(bins, minlength=len(_BINS) + 1)]


@dataclasses.dataclass(frozen=True)
class OutputReport:
    """The verdict on one output."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    reference: Any
    actual: Any
    errors: Errors | None  # None where the shapes differ
    our_errors: Errors | None
    max_ulp: float

    @property
    def outside(self) -> int:
        """The number of elements beyond the rule's tolerance."""
        assert self.errors is not None
        rule = _PRECISIONS[self.dtype]
        tolerance = rule.absolute + rule.relative * _finite_magnitude(self.reference)
        return int(numpy.count_nonzero(self.errors.absolute > tolerance))

    @property
    def largest_error(self) -> float:
        """Relative for elements above 1, else absolute."""
        assert self.errors is not None
        return float((self.errors.absolute / numpy.maximum(_finite_magnitude(self.reference), 1.0)).max(initial=0.0))

    @property
    def passes_rule(self) -> bool:
        few_outside = self.outside <= (1 - _SHARE_WITHIN) * self.reference.size
        return few_outside and self.largest_error <= _PRECISIONS[self.dtype].largest

    @property
    def passes_ulp(self) -> bool:
        return self.errors is not None and self.errors.largest_ulp <= self.max_ulp

    @property
    def passed(self) -> bool:
        return self.errors is not None and self.passes_rule and self.passes_ulp

    def worst(self, count: int = 5) -> list[tuple[int, ...]]:
        """The indices of the elements that are furthest off, worst first. Exact ones are none of them."""
        assert self.errors is not None
        ulp = self.errors.ulp.ravel()
        order = numpy.argsort(-ulp, kind="stable")[:count]
        return [tuple(map(int, numpy.unravel_index(i, self.shape))) for i in order if ulp[i] > 0]

    def as_json(self) -> dict[str, Any]:
        verdict = {"name": self.name, "dtype": self.dtype, "shape": self.shape, "passed": self.passed}
        if self.errors is None or self.our_errors is None:
            return verdict | {"expected_shape": self.reference.shape}
        rule = _PRECISIONS[self.dtype]
        return verdict | {
            "accuracy_rule": {
                "passed": self.passes_rule,
                "elements": self.reference.size,
                "outside": self.outside,
                "absolute": rule.absolute,
                "relative": rule.relative,
                "largest_error": _for_json(self.largest_error),
                "limit": rule.largest,
            },
            "ulp": {
                "passed": self.passes_ulp,
                "largest": _for_json(self.errors.largest_ulp),
                "limit": _for_json(self.max_ulp),
                "largest_of_aclgrad": _for_json(self.our_errors.largest_ulp),
                "histogram": {
                    "up_to": [*_BINS, _for_json(numpy.inf)],
                    "elements": self.errors.histogram(),
                    "elements_of_aclgrad": self.our_errors.histogram(),
                },
            },
            "worst": [
                {
                    "index": index,
                    "value": _for_json(self.actual[index]),
                    "reference": _for_json(self.reference[index]),
                    "ulp": _for_json(self.errors.ulp[index]),
                }
                for index in self.worst()
            ],
        }


@dataclasses.dataclass(frozen=True)
class Report:
    """The verdict, `passed`, on the `outputs` that were given, and one on each. As text it is made to be read."""

    operator: str
    outputs: tuple[OutputReport, ...]

    @property
    def passed(self) -> bool:
        return all(output.passed for output in self.outputs)

    def __str__(self) -> str:
        lines = [f"{self.operator}: results against the reference in double precision", ""]
        for output in self.outputs:
            lines += [*_describe(output), ""]
        failed = [output.name for output in self.outputs if not output.passed]
        lines.append(f"FAIL: {', '.join(failed)}" if failed else "PASS")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """What the text says, for `json.dumps`. Values that are not finite are "inf", "-inf" or "nan"."""
        outputs = [output.as_json() for output in self.outputs]
        return {"operator": self.operator, "passed": self.passed, "outputs": outputs}

    def plot(self, path: str) -> None:
        """Draws the histogram of errors of each output. Needs matplotlib."""
        from matplotlib.figure import Figure

        outputs = [output for output in self.outputs if output.errors is not None]
        figure = Figure(figsize=(8, 3 * max(1, len(outputs))), layout="constrained")
        for number, output in enumerate(outputs, start=1):
            axes = figure.add_subplot(len(outputs), 1, number)
            _draw(axes, output)
        figure.suptitle(f"{self.operator}: {'PASS' if self.passed else 'FAIL'}")
        figure.savefig(path, dpi=120)


def verify(
    operator: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    attributes: Mapping[str, Any] | None = None,
    *,
    max_ulp: float | None = None,
) -> Report:
    """Computes the reference and compares `outputs` with it.

    Args:
        operator: the name of a function of aclgrad, or of one of aclnn.
        inputs: its array arguments by name. All floating-point arrays have the same type.
        outputs: what shall be verified, by the names in `OPERATORS[operator].outputs`. Some may be left out.
        attributes: its other arguments by name.
        max_ulp: how many units in the last place an element may be off. The unit is that of the element or of the
            root mean square of all, whichever is larger, as sums cancel. By default 4 for the types of 16 bits, 1024
            for the others.
    """
    description = operator_of(operator)
    attributes = dict(attributes or {})
    _check_names("inputs", inputs, description.inputs, description.optional_inputs)
    _check_names("outputs", outputs, description.outputs, description.outputs)
    _check_names(
        "attributes",
        attributes,
        [attribute.name for attribute in description.attributes],
        [attribute.name for attribute in description.attributes if attribute.default is not None],
    )
    if not outputs:
        raise ValueError(f"outputs: expected at least one of {', '.join(description.outputs)}, got none")
    if max_ulp is not None and not max_ulp >= 0:
        raise ValueError(f"max_ulp: expected a number that is not negative, got {max_ulp}")
    inputs = {**dict.fromkeys(description.optional_inputs), **inputs}
    # The function refuses PyTorch's tensors that require a gradient.
    inputs = {name: array.detach() if hasattr(array, "detach") else array for name, array in inputs.items()}

    reference = _results(getattr(aclgrad.reference, description.name)(**inputs, **attributes))
    ours = _results(description.call(**inputs, **attributes))
    reports = [
        _compare(name, outputs[name], expected, own, max_ulp, description.name.startswith("msda_"))
        for name, expected, own in zip(description.outputs, reference, ours, strict=True)
        if name in outputs
    ]
    return Report(description.name, tuple(reports))


def _check_names(what: str, given: Collection[str], known: Iterable[str], optional: Iterable[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"{what}: expected {', '.join(known)}, got {', '.join(unknown)}")
    missing = [name for name in known if name not in {*optional, *given}]
    if missing:
        got = f"only {', '.join(given)}" if given else "none"
        raise ValueError(f"{what}: expected {', '.join(missing)}, got {got}")


def _results(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _compare(
    name: str, actual: Any, reference: Any, ours: Any, max_ulp: float | None, may_split_heads: bool
) -> OutputReport:
    dtype = str(getattr(actual, "dtype", type(actual).__name__)).removeprefix("torch.")
    if dtype not in _PRECISIONS:
        raise TypeError(f"outputs: {name}: expected {', '.join(_PRECISIONS)}, got {dtype}")
    precision = _PRECISIONS[dtype]
    actual = _widened(name, actual)
    is_split = actual.shape[:-2] == reference.shape[:-1] and math.prod(actual.shape[-2:]) == reference.shape[-1]
    if may_split_heads and is_split:
        reference = reference.reshape(actual.shape)
    errors = our_errors = None
    if actual.shape == reference.shape:
        errors = _errors(actual, reference, precision)
        our_errors = _errors(_widened(name, ours).reshape(reference.shape), reference, precision)
    limit = precision.max_ulp if max_ulp is None else max_ulp
    return OutputReport(name, dtype, actual.shape, reference, actual, errors, our_errors, limit)


def _widened(name: str, array: Any) -> numpy.ndarray[Any, Any]:
    return as_numpy("verify.verify", name, array).astype(numpy.float64, copy=False)


def _errors(actual: Any, reference: Any, precision: _Precision) -> Errors:
    """Both arrays are float64. What overflows in the actual type is expected to be infinite there."""
    top = 2.0 ** (1 - precision.smallest_exponent) * (2 - 2.0 ** -(precision.fraction_bits + 1))
    with numpy.errstate(all="ignore"):
        expected = numpy.where(numpy.abs(reference) >= top, numpy.copysign(numpy.inf, reference), reference)
        same = (actual == expected) | (numpy.isnan(actual) & numpy.isnan(expected))
        both_finite = numpy.isfinite(actual) & numpy.isfinite(expected)
        absolute = numpy.where(same, 0.0, numpy.where(both_finite, numpy.abs(actual - reference), numpy.inf))
    finite = reference[numpy.isfinite(reference)]
    magnitude = numpy.maximum(_finite_magnitude(reference), _root_mean_square(finite))
    exponent = numpy.maximum(numpy.frexp(magnitude)[1] - 1, precision.smallest_exponent)
    return Errors(absolute, absolute / numpy.ldexp(1.0, exponent - precision.fraction_bits))


def _root_mean_square(values: Any) -> float:
    """Computed of parts of the largest value, whose square may overflow."""
    largest = float(numpy.abs(values).max(initial=0.0))
    return largest * math.sqrt(numpy.mean(numpy.square(values / largest))) if largest > 0 else 0.0


def _finite_magnitude(values: Any) -> Any:
    return numpy.where(numpy.isfinite(values), numpy.abs(values), 0.0)


def _for_json(value: Any) -> float | str:
    return float(value) if numpy.isfinite(value) else str(float(value))


def _describe(output: OutputReport) -> list[str]:
    verdict = "PASS" if output.passed else "FAIL"
    head = f"{output.name}  {list(output.shape)}  {output.dtype}  {verdict}"
    if output.errors is None or output.our_errors is None:
        return [head, f"  shape: expected {list(output.reference.shape)}"]
    rule = _PRECISIONS[output.dtype]
    ulp_bounds = [*_BINS, output.max_ulp]
    largest_ulp, our_largest_ulp = (
        _distinct(errors.largest_ulp, ulp_bounds) for errors in (output.errors, output.our_errors)
    )
    lines = [
        head,
        f"  accuracy rule  {_verdict(output.passes_rule)}  {output.outside} of {output.reference.size} elements are "
        f"off by more than {rule.absolute:.3g} + {rule.relative:.3g} * |reference| (1 % may be); "
        f"largest error {_distinct(output.largest_error, [rule.largest])} (limit {rule.largest:g})",
        f"  ULP bound      {_verdict(output.passes_ulp)}  at most {largest_ulp} units in the last place "
        f"(limit {output.max_ulp:g}); aclgrad itself: {our_largest_ulp}",
    ]
    worst = output.worst()
    if worst:
        rows = [("worst elements", "value", "reference", "ULP")]
        for index in worst:
            value, reference, ulp = output.actual[index], output.reference[index], output.errors.ulp[index]
            rows.append((str(list(index)), f"{value:.9g}", f"{reference:.9g}", _distinct(ulp, ulp_bounds)))
        lines += ["", *_table(rows)]
    lines += ["", *_histogram_text(output)]
    return lines


def _distinct(value: float, bounds: Sequence[float]) -> str:
    """Three digits, and more where it would be taken for one of the bounds that it only comes close to."""
    texts = (f"{value:.{digits}g}" for digits in range(3, 18))
    return next(text for text in texts if all((float(text) <= bound) == (value <= bound) for bound in bounds))


def _verdict(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  " + "  ".join(cells))
    return lines


def _bin_names() -> list[str]:
    return ["exact", *(f"<= {bound:g}" for bound in _BINS[1:]), f"> {_BINS[-1]:g}"]


def _shares(errors: Errors) -> list[float]:
    counts = errors.histogram()
    return [100 * count / max(1, sum(counts)) for count in counts]


def _histogram_text(output: OutputReport) -> list[str]:
    assert output.errors is not None and output.our_errors is not None
    shares, our_shares = _shares(output.errors), _shares(output.our_errors)
    used = max(i for i in range(len(shares)) if shares[i] + our_shares[i] > 0 or i == 0)
    lines = ["  error in ULP       elements  aclgrad's kernel"]
    for name, share, our_share in list(zip(_bin_names(), shares, our_shares, strict=True))[: used + 1]:
        lines.append(f"  {name:<12} {share:12.4f} %  {our_share:12.4f} %  {'#' * round(share / 2.5)}".rstrip())
    return lines


def _draw(axes: Any, output: OutputReport) -> None:
    assert output.errors is not None and output.our_errors is not None
    positions = numpy.arange(len(_BINS) + 1)
    axes.bar(positions - 0.2, output.errors.histogram(), 0.4, label="verified")
    axes.bar(positions + 0.2, output.our_errors.histogram(), 0.4, label="aclgrad")
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.5)  # a single element is the one to be seen
    axes.set_xticks(positions, _bin_names(), rotation=45)
    axes.set_xlabel("error in units in the last place")
    axes.set_ylabel("elements")
    axes.set_title(f"{output.name} {list(output.shape)} {output.dtype}: {_verdict(output.passed)}")
    axes.legend()
