"""Writes the tables of docs/accuracy.md: errors over the operators' test cases, ours beside PyTorch's in float.

usage: accuracy.py PROGRAM PAGE, where PROGRAM is accuracy_runs. What lies between the markers in PAGE is replaced.
"""

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


def read_runs(stream):
    """Yields (operation, type, attributes, arrays by kind and name)."""
    run = None
    while line := stream.readline():
        kind, name, *numbers = line.decode().split()
        if kind == "run":
            if run is not None:
                yield run
            run = (" ".join(numbers), name, {}, {"input": {}, "ours": {}, "expected": {}, "in_double": {}})
        elif kind == "attribute":
            run[2][name] = [int(number) for number in numbers]
        else:
            shape = [int(number) for number in numbers]
            values = numpy.frombuffer(stream.read(8 * int(numpy.prod(shape))))
            run[3][kind][name] = values.reshape(shape)
    yield run


# ---- The same in PyTorch, in float


def with_gradients(names, function, leaves, grad_output):
    leaves = [leaf.requires_grad_() for leaf in leaves]
    output = function(*leaves)
    return dict(zip(names, [output.detach(), *torch.autograd.grad(output, leaves, grad_output)], strict=True))


def attention(attributes, inputs):
    shapes = attributes["spatial_shapes"]
    sizes = list(zip(shapes[::2], shapes[1::2], strict=True))
    return with_gradients(
        ["output", "grad_value", "grad_locations", "grad_weights"],
        lambda value, locations, weights: msda.compose(value, sizes, locations, weights),
        [inputs["value"], inputs["locations"], inputs["weights"]],
        inputs["grad_output"],
    )


def grid_sampler(attributes, inputs):
    (mode,), (padding,), (align_corners,) = (attributes[name] for name in ("mode", "padding", "align_corners"))
    return with_gradients(
        ["output", "grad_input", "grad_grid"],
        lambda image, grid: F.grid_sample(image, grid, MODES[mode], PADDINGS[padding], bool(align_corners)),
        [inputs["input"], inputs["grid"]],
        inputs["grad_output"],
    )


def compress(attributes, inputs):
    (block,), (stride,) = attributes["block"], attributes["stride"]
    return with_gradients(
        ["output", "grad_x", "grad_weight"],
        lambda x, weight: nsa.compose(x, weight, attributes["ends"], block, stride, nsa.windows_unfold),
        [inputs["x"], inputs["weight"]],
        inputs["grad_output"],
    )


def bias(attributes, inputs):
    groups = zip(attributes["begin"], attributes["end"], strict=True)
    return {"grad_bias": torch.stack([inputs["grad_y"][begin:end].sum(0) for begin, end in groups])}


def of_pytorch(operation, attributes, inputs):
    name = operation.split(",")[0]
    function = {
        "multi-scale deformable attention": attention,
        "grid sampler": grid_sampler,
        "NSA compress": compress,
        "grouped bias-add": bias,
    }[name]
    return function(attributes, {name: torch.from_numpy(array.copy()).float() for name, array in inputs.items()})


# ---- Errors


class Errors:
    """Of one result of an operation in one type, over all cases, against one definition."""

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

    def add(self, arrays, name, theirs):
        self.at_positions.add(arrays["ours"][name], arrays["expected"][name])
        self.ours.add(arrays["ours"][name], arrays["in_double"][name])
        if theirs is not None:
            self.theirs.add(theirs[name].double().numpy().ravel(), arrays["in_double"][name])


def measure(program):
    results = {}
    with subprocess.Popen([program], stdout=subprocess.PIPE) as process:
        for operation, type_name, attributes, arrays in read_runs(process.stdout):
            theirs = of_pytorch(operation, attributes, arrays["input"]) if arrays["input"] else None
            for name in arrays["ours"]:
                results.setdefault((type_name, operation, name), Result()).add(arrays, name, theirs)
    if process.returncode != 0:
        sys.exit(f"{program} ended with status {process.returncode}")
    return results


def number(value):
    return "0" if value == 0 else f"{value:.1e}".replace("e-0", "e-")


def table(type_name, results):
    """One row a result; where there is PyTorch's, it stands after a stroke."""
    head = [type_name, "result", "L2, same positions", "L2", "median", "99.9 %", "worst"]
    lines = [head, ["---"] * len(head)]
    for (of_type, operation, name), result in results.items():
        if of_type != type_name:
            continue
        cells = [number(value) for value in result.ours.numbers()]
        if result.theirs.elements:
            cells = [f"{cell} / {number(value)}" for cell, value in zip(cells, result.theirs.numbers(), strict=True)]
        lines.append([operation, f"`{name}`", number(result.at_positions.worst_case), *cells])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def tables(results):
    return "\n".join(table(type_name, results) for type_name in ("float32", "float16", "bfloat16", "float64"))


def main():
    program, page = sys.argv[1], pathlib.Path(sys.argv[2])
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{tables(measure(program))}\n{END}{after}")


if __name__ == "__main__":
    main()
