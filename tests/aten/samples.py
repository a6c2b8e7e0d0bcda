# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Arguments of PyTorch's operators, recorded while its own samples (OpInfo) run, and what they are as arguments of
a function in the table."""

import itertools
import warnings
from collections import defaultdict
from typing import Any

import torch
from library import FUNCTIONS, Function, Mathematics, Node
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import ForeachFuncInfo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

MOST_OF_A_TYPE = 4  # samples of an operator
TYPES = (torch.float32, torch.int64, torch.float16, torch.complex64, torch.bool)


def overload(name: str) -> Any:
    packet, _, kind = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), kind or "default")


# Built-in functions that give their first argument, as it is or converted.
AS_THEY_ARE = "default to.dtype axes dense indexed sized needed filled divisor below squeeze widened".split()


class NoSample(Exception):
    pass


def solve(node: Node, value: Any, mathematics: Mathematics, found: dict[str, Any]) -> None:
    """Finds the arguments of the function for which the node has the value."""
    kind = node[0]
    if kind == "name" and node[1] in mathematics.definitions:
        solve(mathematics.definitions[node[1]], value, mathematics, found)
    elif kind == "name":
        if node[1] in found:
            raise NoSample
        found[node[1]] = value
    elif kind == "literal":
        if not isinstance(value, torch.Tensor) and node[1] == value:
            return
        raise NoSample
    elif kind == "member" and node[1][0] == "name":
        definition = mathematics.definitions[node[1][1]]
        if definition[:2] != ("call", "promote"):
            raise NoSample
        solve(definition[2][node[2]][1], value, mathematics, found)
    elif kind == "call":
        solve_call(node, value, mathematics, found)
    else:
        raise NoSample


def solve_call(node: Node, value: Any, mathematics: Mathematics, found: dict[str, Any]) -> None:
    name, arguments = node[1], [argument for _, argument in node[2]]
    if name in ("positive", "scale"):
        solve(arguments[0], 0 if value is None else value, mathematics, found)
    elif name in AS_THEY_ARE:
        solve(arguments[0], value, mathematics, found)
    elif name == "none_if":
        solve(arguments[0], arguments[1][1] if value is None else value, mathematics, found)
    elif name == "dtype":
        return
    elif name == "vector":
        solve(arguments[0], value.reshape(-1).tolist(), mathematics, found)
    elif name == "choose" and arguments[0][0] == "call" and arguments[0][1] == "given":
        if value is None:
            found[arguments[0][2][0][1][1]] = None
        else:
            solve(arguments[2], value, mathematics, found)
    elif name == "choose" and (checked := [a for a in arguments[1:] if a[0] == "call" and a[1] in ("sized", "filled")]):
        solve(checked[0], value, mathematics, found)
    elif name == "choose" and all(a[0] == "literal" for a in arguments[1:]):
        choices = [a[1] for a in arguments[1:]]
        if value not in choices:
            raise NoSample
        solve(arguments[0], choices.index(value), mathematics, found)
    else:
        raise NoSample


def calls_of(function: Function) -> list[tuple[Node, dict[str, Any]]]:
    """The calls that can be the whole result, each with the arguments that choose it."""
    mathematics = function.parsed
    results = mathematics.results
    # r := f(...); r[0]; choose(training, none, r[1]); ...
    if len(mathematics.definitions) == 1 and len(results) > 1:
        (name, definition), = mathematics.definitions.items()
        if results[0] == ("member", ("name", name), 0) and definition[0] == "call":
            return [(definition, {})]
    if len(results) > 1 and all(r == ("literal", None) for r in results[1:]):
        results = results[:1]
    if len(results) != 1 or results[0][0] != "call":
        return []
    call = results[0]
    if call[1] != "choose":
        return [(call, {})]
    selector = call[2][0][1]
    if selector[:2] == ("call", "keeps_all"):
        selector = selector[2][0][1]
    if selector[0] != "name":
        return []
    return [(c, {selector[1]: i}) for i, (_, c) in enumerate(call[2][1:]) if c[0] == "call"]


def functional(name: str) -> str:
    """The operator that computes the same, but not in place."""
    packet, dot, kind = name.partition(".")
    return packet.rstrip("_") + dot + kind if packet.endswith("_") and not packet.endswith("__") else name


def copied(value: Any) -> Any:
    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.detach()
        return leaf.clone() if leaf.numel() else torch.empty_like(leaf)

    return tree_map(copy, value)


class Recorder(TorchDispatchMode):
    def __init__(self, wanted: set[str]):
        super().__init__()
        self.wanted = wanted
        self.samples: dict[str, dict[Any, list[list[Any]]]] = defaultdict(lambda: defaultdict(list))
        self.type: Any = None

    def add(self, name: str, arguments: list[Any]) -> None:
        samples = self.samples[name][self.type]
        largest = max((leaf.numel() for leaf in leaves(arguments)), default=0)
        if len(samples) < MOST_OF_A_TYPE and largest <= 1 << 16:
            samples.append(copied(arguments))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        name = f"{name}.{func._schema.overload_name}".rstrip(".")
        if name in self.wanted or functional(name) in self.wanted:
            self.add(functional(name), bound(func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def leaves(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def bound(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments in the order of the schema, with its defaults."""
    parameters = enumerate(func._schema.arguments)
    return [args[i] if i < len(args) else kwargs.get(p.name, p.default_value) for i, p in parameters]


def composite(name: str) -> bool:
    try:
        overload(name)
    except AttributeError:  # there is only the one that works in place
        return False
    return torch._C._dispatch_has_kernel_for_dispatch_key("aten::" + name, "CompositeImplicitAutograd")


def record(wanted: set[str]) -> dict[str, list[list[Any]]]:
    recorder = Recorder(wanted)
    direct = defaultdict(list)  # operators that other ones are made of when they are called: not seen by the recorder
    for name in wanted:
        if composite(name):
            direct[name.partition(".")[0].lstrip("_")].append(name)
    packets = {name.partition(".")[0].strip("_") for name in wanted}
    for info in op_db:
        words = {info.name.rpartition(".")[2], info.name.replace(".", "_"), info.aten_name, info.variant_test_name}
        is_wanted = any(w and any(p.startswith(w.strip("_")) for p in packets) for w in words)
        for dtype in TYPES:
            if dtype in info.supported_dtypes("cpu") and (is_wanted or dtype == torch.float32):
                record_info(info, dtype, recorder, [n for w in words for n in direct.get(w, [])])
    return {name: list(itertools.chain(*by_type.values())) for name, by_type in recorder.samples.items()}


def record_info(info: Any, dtype: torch.dtype, recorder: Recorder, direct: list[str]) -> None:
    recorder.type = dtype
    backward = dtype == torch.float32 and info.supports_autograd and not isinstance(info, ForeachFuncInfo)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for sample in itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=backward), 12):
                record_sample(info, sample, recorder, direct, backward)
        except Exception:  # a sample that this build of PyTorch cannot make is none
            return


def record_sample(info: Any, sample: Any, recorder: Recorder, direct: list[str], backward: bool) -> None:
    for name in direct:
        func = overload(name)
        try:
            func(*copied((sample.input, *sample.args)), **copied(sample.kwargs))
        except Exception:
            continue
        recorder.add(name, bound(func, (sample.input, *sample.args), sample.kwargs))
    with recorder:
        try:
            result = info(sample.input, *sample.args, **sample.kwargs)
            if backward:
                outputs = [r for r in leaves(result) if r.requires_grad]
                if outputs:
                    torch.autograd.backward(outputs, [torch.randn_like(o) for o in outputs])
        except Exception:
            return


def wanted_operators() -> set[str]:
    return {functional(call[1]) for function in FUNCTIONS.values() for call, _ in calls_of(function)}
