# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/accuracy.md: errors over the functions' test cases, ours beside PyTorch's in float.

usage: accuracy.py PROGRAM PAGE, where PROGRAM is accuracy_cases. What lies between the markers in PAGE is replaced.
"""

import collections
import pathlib
import subprocess
import sys

import numpy
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from bench.case import operator_module  # noqa: E402

msda = operator_module("multi_scale_deformable_attention")
nsa = operator_module("nsa_compress")

MODES = ["bilinear", "nearest", "bicubic"]
PADDINGS = ["zeros", "border", "reflection"]
FEW = 100  # elements of a result: the root mean square of fewer says little
BEGIN, END = "<!-- tables: ./dev accuracy -->\n", "<!-- end of tables -->\n"


def read_cases(stream):
    """Yields (function, type, attributes, arrays by kind and name)."""
    case = None
    while line := stream.readline():
        kind, name, *words = line.decode().split()
        if kind == "case":
            if case is not None:
                yield case
            case = (words[0], name, {}, {"input": {}, "ours": {}, "expected": {}, "in_terms": {}, "in_double": {}})
        elif kind == "attribute":
            case[2][name] = int(words[0])
        else:
            shape = [int(word) for word in words]
            case[3][kind][name] = numpy.frombuffer(stream.read(8 * int(numpy.prod(shape)))).reshape(shape)
    yield case


# ---- The same in PyTorch, in float: the forward function of an operator, and the names of the tensors it depends on


def attention(value, spatial_shapes, sampling_locations, attention_weights, **_):
    sizes = [(int(height), int(width)) for height, width in spatial_shapes]
    return msda.compose(value, sizes, sampling_locations, attention_weights)


def grid_sampler(input, grid, mode, padding, align_corners):  # noqa: A002
    return F.grid_sample(input, grid, MODES[mode], PADDINGS[padding], bool(align_corners))


def compress(input, weight, stride, sequence_ends=None):  # noqa: A002
    ends = [len(input)] if sequence_ends is None else [int(end) for end in sequence_ends]
    return nsa.compose(input, weight, ends, len(weight), stride, nsa.windows_unfold)


FORWARD = {
    "multi_scale_deformable_attention": (attention, ["value", "sampling_locations", "attention_weights"]),
    "grid_sampler_2d": (grid_sampler, ["input", "grid"]),
    "grid_sampler_3d": (grid_sampler, ["input", "grid"]),
    "nsa_compress": (compress, ["input", "weight"]),
}


# PyTorch's grid_sample has no second derivative. A row of a double backward of the grouped bias-add is a copy.
TWICE_DIFFERENTIABLE = {"nsa_compress"}


def name_of(function):
    """Of the operator, and whether the function is its double backward."""
    return function.removesuffix("_backward").removesuffix("_double"), function.endswith("_double_backward")


def bias(grad_output, kind, group_idx=None):
    if group_idx is None:
        return grad_output.sum(1)
    ends = (group_idx.cumsum(0) if kind else group_idx).clamp(0, len(grad_output)).long().tolist()
    begins = [0] + ends[:-1]
    return torch.stack([grad_output[begin:end].sum(0) for begin, end in zip(begins, ends, strict=True)])


def of_pytorch(function, attributes, arrays):
    """The function's outputs, or None of a function that has no counterpart here."""
    inputs = {name: torch.from_numpy(array.copy()).float() for name, array in arrays.items()}
    if function == "grouped_bias_add_backward":
        return {"grad_bias": bias(**inputs, **attributes)}
    name, is_second = name_of(function)
    if name not in FORWARD or (is_second and name not in TWICE_DIFFERENTIABLE):
        return None
    forward, leaves = FORWARD[name]
    grad_output = inputs.pop("grad_output", None)
    grad_grads = [inputs.pop(f"grad_grad_{leaf}", None) for leaf in leaves]
    for leaf in leaves:
        inputs[leaf].requires_grad_()
    output = forward(**inputs, **attributes)
    if grad_output is None:
        return {"output": output.detach()}
    wanted = {f"grad_{leaf}": inputs[leaf] for leaf in leaves}
    of, weights = [output], [grad_output.view_as(output)]
    if is_second:
        gradients = torch.autograd.grad(of, list(wanted.values()), weights[0].requires_grad_(), create_graph=True)
        wanted = {"grad_grad_output": weights[0], **wanted}
        of = [gradient for gradient, weight in zip(gradients, grad_grads, strict=True) if weight is not None]
        weights = [weight for weight in grad_grads if weight is not None]
    results = torch.autograd.grad(of, list(wanted.values()), weights, materialize_grads=True)
    return dict(zip(wanted, results, strict=True))


# ---- Errors


class Errors:
    """Of one result of a function in one type, over all cases, against one reference."""

    def __init__(self):
        self.worst_case = 0.0  # in the L2 norm of a result, relative
        self.elements = []  # relative to the root mean square of their result

    def add(self, actual, expected):
        size = numpy.sqrt(numpy.mean(expected**2))
        if len(expected) < FEW or size < 1e-6:  # nothing but rounding is left of terms that cancel
            return
        errors = numpy.abs(actual - expected) / size
        self.worst_case = max(self.worst_case, numpy.sqrt(numpy.mean(errors**2)))
        self.elements.append(errors)

    def numbers(self):
        """In the L2 norm; median, 99.9 % and worst of the elements."""
        errors = numpy.concatenate(self.elements)
        return [self.worst_case, numpy.median(errors), numpy.quantile(errors, 0.999), errors.max()]


class Result:
    def __init__(self):
        self.at_positions, self.ours, self.theirs = Errors(), Errors(), Errors()
        self.in_terms = []

    def add(self, arrays, name, theirs):
        ours, expected, in_double = (arrays[kind][name].ravel() for kind in ("ours", "expected", "in_double"))
        self.at_positions.add(ours, expected)
        self.in_terms.append(arrays["in_terms"][name].ravel())
        self.ours.add(ours, in_double)
        if theirs is not None:
            self.theirs.add(theirs[name].double().numpy().ravel(), in_double)

    def numbers_in_terms(self):
        """99.9 % and worst."""
        errors = numpy.concatenate(self.in_terms)
        return [numpy.quantile(errors, 0.999), errors.max()]


def title_of(function, attributes):
    name, is_second = name_of(function)
    mode = [MODES[attributes["mode"]]] if "mode" in attributes else []
    return ", ".join([name, *mode, *(["double backward"] if is_second else [])])


def measure(program):
    results = {}
    with subprocess.Popen([program], stdout=subprocess.PIPE) as process:
        for function, type_name, attributes, arrays in read_cases(process.stdout):
            is_empty = any(array.size == 0 for array in arrays["input"].values())
            if is_empty or all(array.size < FEW for array in arrays["ours"].values()):
                continue
            theirs = of_pytorch(function, attributes, arrays["input"]) if type_name == "float32" else None
            for name in arrays["ours"]:
                key = (type_name, title_of(function, attributes), name)
                results.setdefault(key, Result()).add(arrays, name, theirs)
    if process.returncode != 0:
        sys.exit(f"{program} ended with status {process.returncode}")
    return {key: result for key, result in results.items() if result.ours.elements}


def number(value):
    return "0" if value == 0 else f"{value:.1e}".replace("e-0", "e-")


def cells_of_float(result):
    """Where there is PyTorch's, it stands after a stroke."""
    cells = [number(value) for value in result.ours.numbers()]
    if result.theirs.elements:
        cells = [f"{cell} / {number(value)}" for cell, value in zip(cells, result.theirs.numbers(), strict=True)]
    return [number(result.at_positions.worst_case), *cells, *(f"{value:.2g}" for value in result.numbers_in_terms())]


def cells_of_others(results):
    """The largest numbers of a function's results; empty where it does not take the type."""
    if not results:
        return ["", "", ""]
    l2, _, _, worst = map(max, zip(*(result.ours.numbers() for result in results), strict=True))
    in_terms = max(result.numbers_in_terms()[-1] for result in results)
    return [number(l2), number(worst), f"{in_terms:.2g}"]


def table(names, columns, rows):
    """Of rows that are names and cells. What is exact has none."""
    lines = [[*names, *columns], ["---"] * len([*names, *columns])]
    lines += [[*row, *cells] for row, cells in rows if not set(cells) <= {"", "0", "0 / 0"}]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def tables(results):
    of_float = [
        ([title, f"`{name}`"], cells_of_float(result))
        for (type_name, title, name), result in sorted(results.items(), key=lambda item: item[0][1])
        if type_name == "float32"
    ]
    columns = ["L2, same positions", "L2", "median", "99.9 %", "worst", "terms, 99.9 %", "terms, worst"]
    others = collections.defaultdict(list)
    types = ["float16", "bfloat16", "float64"]
    for title in sorted({title for _, title, _ in results}):
        for type_name in types:
            of_type = [result for key, result in results.items() if key[:2] == (type_name, title)]
            others[title] += cells_of_others(of_type)
    short = [f"{type_name}: {column}" for type_name in types for column in ("L2", "worst", "terms, worst")]
    rows = [([title], cells) for title, cells in others.items()]
    return f"{table(['function', 'result'], columns, of_float)}\n{table(['function'], short, rows)}"


def main():
    program, page = sys.argv[1], pathlib.Path(sys.argv[2])
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{tables(measure(program))}\n{END}{after}")


if __name__ == "__main__":
    main()
