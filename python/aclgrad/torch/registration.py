# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""How an operator becomes one of PyTorch's, `torch.ops.aclgrad.*`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .. import _core
from .checks import check_is_dense, message, renamed
from .transforms import BatchingRule, Tangent, along, at_live_levels, curvature

_library = torch.library.Library("aclgrad", "DEF")

_is_tracing, _dispatch_modes = torch._C._is_tracing, torch._C._len_torch_dispatch_stack
_core.set_torch_objects(
    Tensor,
    torch.nn.Parameter,
    [
        _is_tracing,
        _dispatch_modes,
        torch._C._len_torch_function_stack,
        torch._C._are_functorch_transforms_active,
        torch._C._is_any_autocast_enabled,
        torch.autograd._profiler_enabled,
    ],
    torch._C._functorch.is_functorch_wrapped_tensor,
    getattr(getattr(torch._C, "_aoti", None), "alloc_tensors_by_stealing_from_void_ptrs", None),
)

# ---- What an operator and its gradient have in common

_WORDS = {
    "Tensor": "a tensor",
    "Optional[Tensor]": "a tensor or None",
    "int": "an integer",
    "str": "a string",
    "bool": "a bool",
}


def _is_of(kind: str, value: Any) -> bool:
    if kind == "int":
        return hasattr(value, "__index__") and not (isinstance(value, int) and value.bit_length() > 63)
    if kind in ("str", "bool"):
        return isinstance(value, str if kind == "str" else bool)
    return (value is None and kind != "Tensor") or isinstance(value, Tensor) or hasattr(value, "__torch_function__")


def _as_raised(error: Exception) -> Exception:
    """PyTorch makes a RuntimeError of a kernel's TypeError, and from 2.15 on of its ValueError, too."""
    if type(error) is RuntimeError and str(error).startswith("aclgrad."):
        return (ValueError if _core.failed_by_value() else TypeError)(str(error))
    return error


Derived: TypeAlias = Mapping[str, Callable[..., Any]]
"""Of letters in a contract that stand for no axis of an argument: their sizes, from the arguments."""

_FIRST_SOURCE, _MAX_RANK = 16, 8  # as FakeTensor has them


def _known_sizes(tensor: Tensor) -> list[int]:
    """-1 where nothing is known before the program runs."""

    def known(size: Any) -> int:
        if isinstance(size, int):
            return size
        return int(size.node.hint) if size.node.has_hint() else -1

    return [known(size) for size in tensor.shape]


def _is_below_autograd() -> bool:
    return torch._C._dispatch_tls_local_exclude_set().has(torch._C.DispatchKey.AutogradOther)


class _Registered:
    """An operator of PyTorch's, `aclgrad::<name>`. Its kernel is a function of `_core`, which the dispatcher calls
    through PyTorch's C interface. Errors name the `function` of `aclgrad.torch` that has it, by default its name.

    That interface has no derivatives: for these the dispatcher calls `_record`, or `_transform` within transforms of
    torch.func, which apply an autograd.Function. A call that nobody watches goes to the kernel or to the Function at
    once. `floats` and `batch_axis` are those of the batching rule. An export to ONNX, which does not know the operator,
    gets what is `composed` of PyTorch's.
    """

    def __init__(
        self,
        schema: str,
        kernel: Callable[..., Any],
        cuda_kernel: Callable[..., Any] | None,
        floats: Sequence[int],
        batch_axis: int,
        function: str | None = None,
        composed: Callable[..., Any] | None = None,
        derived: Derived = MappingProxyType({}),
    ) -> None:
        self._for_onnx = composed
        self.name, _, signature = schema.partition("(")
        self._caller = f"torch.{function or self.name}"
        _library.define(f"{self.name}({signature}", tags=(torch.Tag.pt2_compliant_tag,))
        self._operator = getattr(torch.ops.aclgrad, self.name).default
        self._overload = self._operator._op  # the same, at the least cost
        arguments, (result,) = self._operator._schema.arguments, self._operator._schema.returns
        self._returns_list = str(result.type) != "Tensor"
        self._parameters = [(argument.name, str(argument.type)) for argument in arguments]
        self._tensors = sum("Tensor" in kind for _, kind in self._parameters)
        self._floats = floats
        self._derived = derived
        self._function_name = kernel.__name__
        kinds = [kind for _, kind in self._parameters]
        self._kernel = _core.register_torch_kernel(self.name, self._caller, kernel.__name__, kinds, str(result.type))
        names = [name for name, _ in self._parameters[: self._tensors]]
        rule = BatchingRule(self._caller, self._call, self._fake, names, floats, batch_axis)

        def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:  # compiled autograd takes no method
            return self._backward(ctx, *gradients)

        methods = {
            "forward": self._forward,
            "setup_context": self._setup_context,
            "backward": backward,
            "jvp": self._jvp_among_others,
            "vmap": rule.of_function,
        }
        static = {name: staticmethod(method) for name, method in methods.items()}
        self._function: Any = type(self.name, (torch.autograd.Function,), static)
        # Outside of transforms, which the method of Function itself asks for at length.
        self._apply = super(torch.autograd.Function, self._function).apply
        _library.impl(self.name, self._record, "Autograd", with_keyset=True)
        _library.impl(self.name, self._transform, "FuncTorchDynamicLayerFrontMode")
        _library.impl(self.name, rule.of_old_vmap, "Batched")
        if cuda_kernel is not None:
            _library.impl(self.name, self._naming_caller(cuda_kernel), "CUDA")
        torch.library.register_fake(f"aclgrad::{self.name}", self._fake, lib=_library)

    def _fake(self, *arguments: Any) -> Any:
        """The results without contents. What is not known of symbolic sizes is checked when the program runs."""
        fakes = [
            _core.FakeTensor(i, str(a.dtype), str(a.device), a.device.index or 0 if a.is_cuda else -1, _known_sizes(a))
            for i, a in enumerate(arguments)
            if isinstance(a, Tensor)
        ]
        values = [None if isinstance(a, Tensor) else a for a in arguments]

        def size_of(code: int) -> Any:
            if code < 0:
                return self._derived[chr(-code)](*arguments)
            position, axis = divmod(code - _FIRST_SOURCE, _MAX_RANK)
            return code if position < 0 else arguments[position].shape[axis]

        shapes = _core.call_with_fakes(self._function_name, self._caller, values, fakes)
        like = arguments[self._floats[0]]
        results = [like.new_empty([size_of(code) for code in shape]) for shape in shapes]
        return results if self._returns_list else results[0]

    def _naming_caller(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def named(*arguments: Any) -> Any:
            try:
                return kernel(*arguments)
            except (TypeError, ValueError) as error:
                raise renamed(error, self._caller) from None

        return named

    # The last of the Function's arguments are the dispatcher's keys, or None where it is not called from there.

    def _forward(self, *arguments_and_keys: Any) -> Any:
        *arguments, keys = arguments_and_keys
        result = self._below_autograd(arguments) if keys is None else self._redispatch(keys, *arguments)
        return result if isinstance(result, Tensor) else tuple(r for r in result if r is not None)

    def _setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        raise NotImplementedError

    def _backward(self, ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        raise NotImplementedError

    def _jvp(self, ctx: Any, saved: Sequence[Tensor | None], tangents: Sequence[Any]) -> Any:
        raise NotImplementedError

    def _jvp_among_others(self, ctx: Any, *tangents: Any) -> Any:
        # PyTorch has forward differentiation switched off here, and with it that of transforms further out.
        with forward_ad._set_fwd_grad_enabled(True):
            # The only level there is, which a compiled program enters without telling `forward_ad`.
            saved = [None if t is None else forward_ad.unpack_dual(t, level=0).primal for t in ctx.saved_tensors]
            return self._jvp(ctx, saved, tangents)

    def _call(self, *arguments: Any) -> Any:
        """The operator, at the least cost. Compilers shall see nothing of that. Of gradients, those that are not needed
        are left out or None."""
        try:
            if torch.compiler.is_compiling():
                return self._operator(*arguments)
            result = self._kernel(*arguments)
            if result is None and not _is_below_autograd():
                return self._apply(*arguments, None)
            if result is not None and result is not NotImplemented:
                return result
            if self._for_onnx is not None and _is_tracing() and torch.onnx.is_in_onnx_export():
                return self._for_onnx(*arguments)
            return self._overload(*arguments)
        except (RuntimeError, AttributeError) as error:
            self._check_kinds(arguments)
            raise _as_raised(error) from None

    def _below_autograd(self, arguments: Sequence[Any]) -> Any:
        result = self._kernel(*arguments)
        if result is not None and result is not NotImplemented:
            return result
        below = torch._C._AutoDispatchBelowAutograd()
        try:
            return self._overload(*arguments)
        except RuntimeError as error:
            raise _as_raised(error) from None
        finally:
            del below

    def _record(self, keys: Any, *arguments: Any) -> Any:
        if self._for_onnx is not None and _dispatch_modes() and torch.onnx.is_in_onnx_export():
            return self._for_onnx(*arguments)
        if forward_ad._current_level < 0 and not torch.is_grad_enabled():
            return self._redispatch(keys, *arguments)
        return self._apply(*arguments, keys)

    def _redispatch(self, keys: Any, *arguments: Any) -> Any:
        try:
            return self._operator.redispatch(keys & torch._C._after_autograd_keyset, *arguments)
        except RuntimeError as error:
            raise _as_raised(error) from None

    def _transform(self, *arguments: Any) -> Any:
        return self._function.apply(*map(at_live_levels, arguments), None)

    def _check_kinds(self, arguments: Sequence[Any]) -> None:
        """What the dispatcher refuses in words of its own."""
        for (name, kind), value in zip(self._parameters, arguments, strict=True):
            if kind in _WORDS and not _is_of(kind, value):
                got = value if kind == "int" and isinstance(value, int) else type(value).__name__
                raise TypeError(message(self._caller, name, _WORDS[kind], got))
            if isinstance(value, Tensor):
                check_is_dense(self._caller, name, value)
            if isinstance(value, str) and not value.isascii():
                self._fake(*arguments)  # no function has such a choice, and it says which there are


# ---- Gradients


class _Gradients(_Registered):
    """An operator that computes the gradients that are needed, which the last argument says."""

    def __call__(
        self, tensors: Sequence[Tensor | None], attributes: Sequence[Any], output_mask: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """A gradient for each of `output_mask`, or None."""
        if not any(output_mask):
            return [None] * len(output_mask)
        return _spread(self._call(*tensors, *attributes, output_mask), output_mask)

    def _setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        tensors = inputs[: self._tensors]
        ctx.attributes, ctx.output_mask = inputs[self._tensors : -2], inputs[-2]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)


class Gradient(_Gradients):
    """The gradient of an operator.

    Its tensors are the gradient of the result and what the operator's `setup` saves, of which `floats` tells those that
    it has a derivative for.

    Its own gradient is composed of `tangent`, unless there is a `double_backward` for CPUs: a function of the tensors,
    of what `grad_grad_<name>` is for each of `floats`, or None where that is zero, of the attributes, and of a mask; it
    returns the gradients with respect to the gradient of the result and to each of `floats`.
    """

    def __init__(
        self,
        schema: str,
        core: Callable[..., tuple[Tensor | None, ...]],
        tangent: Tangent,
        floats: Sequence[int],
        batch_axis: int,
        double_backward: Callable[..., tuple[Tensor | None, ...]] | None = None,
        function: str | None = None,
    ) -> None:
        def cuda_kernel(*arguments: Any) -> list[Tensor]:
            return [gradient for gradient in core(*arguments) if gradient is not None]

        self._tangent = tangent
        self._saved_floats = floats
        super().__init__(schema, core, cuda_kernel, (0, *(1 + i for i in floats)), batch_axis, function)
        self._double_backward = double_backward and _DoubleBackward(self, schema, double_backward, batch_axis)

    def along(
        self,
        tensors: Sequence[Tensor | None],
        attributes: Sequence[Any],
        tangents: Sequence[Tensor | None],
        shape: torch.Size,
        dtype: torch.dtype,
    ) -> Tensor:
        """The operator's derivative along `tangents`."""
        first: Any = tensors[self._saved_floats[0]]
        double_backward = self._double_backward_for(first)
        if double_backward is None:
            return along(self._tangent, tensors, attributes, tangents, shape, dtype)
        # The first result of the double backward, which the gradient of the result has no part in.
        any_grad_output = first.new_zeros(()).expand(shape)
        output_mask = [True] + [False] * len(tangents)
        result, *_ = double_backward((any_grad_output, *tensors, *tangents), attributes, output_mask)
        return result  # type: ignore[return-value]

    def _double_backward_for(self, tensor: Tensor) -> _DoubleBackward | None:
        return self._double_backward if tensor.device.type == "cpu" else None

    def _curvature(
        self,
        ctx: Any,
        grad_output: Tensor,
        tensors: Sequence[Tensor | None],
        tangents: Sequence[Tensor | None],
        output_mask: Sequence[bool],
    ) -> Sequence[Tensor | None]:
        if double_backward := self._double_backward_for(grad_output):
            return double_backward((grad_output, *tensors, *tangents), ctx.attributes, output_mask)
        return curvature(self._tangent, self._saved_floats, grad_output, tensors, tangents, ctx.attributes)

    def _backward(self, ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_output, *tensors = ctx.saved_tensors
        if all(tangent is None for tangent in tangents):
            return (None,) * len(ctx.needs_input_grad)
        needs = [ctx.needs_input_grad[position] for position in self._floats]
        changes = self._curvature(ctx, grad_output, tensors, _spread(tangents, ctx.output_mask), needs)
        return _at_inputs(ctx, self._floats, changes)

    def _jvp(self, ctx: Any, saved: Sequence[Tensor | None], tangents: Sequence[Any]) -> tuple[Tensor, ...]:
        grad_output, *tensors = saved
        assert grad_output is not None
        along_grad_output, *along_tensors = tangents[: self._tensors]
        along_floats = [along_tensors[i] for i in self._saved_floats]
        if along_grad_output is None:
            along_grad_output = torch.zeros_like(grad_output)
        result = self((along_grad_output, *tensors), ctx.attributes, ctx.output_mask)
        if any(tangent is not None for tangent in along_floats):
            _, *changes = self._curvature(ctx, grad_output, tensors, along_floats, (False, *ctx.output_mask))
            result = [None if r is None else r + change for r, change in zip(result, changes, strict=True)]
        return tuple(tensor for tensor in result if tensor is not None)


class _DoubleBackward(_Gradients):
    """The gradient of a `Gradient`, in one kernel. Its own derivatives are composed."""

    def __init__(
        self, gradient: Gradient, schema: str, core: Callable[..., tuple[Tensor | None, ...]], batch_axis: int
    ) -> None:
        name, _, parameters = schema.removesuffix(") -> Tensor[]").partition("_backward(")
        *others, _ = parameters.split(", ")
        tensors = [parameter for parameter in others if parameter.startswith("Tensor")]
        floats = gradient._floats
        grad_grads = [f"grad_grad_{tensors[i].split()[-1]}" for i in floats[1:]]
        count = len(tensors)

        self._gradient = gradient
        self._inputs = count
        super().__init__(
            f"{name}_double_backward("
            + ", ".join([*tensors, *(f"Tensor? {label}" for label in grad_grads), *others[count:]])
            + f", bool[{len(floats)}] output_mask) -> Tensor[]",
            core,
            None,
            (*floats, *range(count, count + len(grad_grads))),
            batch_axis,
        )

    def _composed(
        self, ctx: Any, saved: Sequence[Tensor | None]
    ) -> tuple[list[int], Callable[..., tuple[Tensor, ...]]]:
        """The results as a function of the floating-point tensors that there are, and their positions."""

        def composed(*floats: Tensor) -> tuple[Tensor, ...]:
            replaced: list[Any] = list(saved)
            for position, tensor in zip(positions, floats, strict=True):
                replaced[position] = tensor
            grad_output, *tensors = replaced[: self._inputs]
            tangents = replaced[self._inputs :]
            if any(tangent is not None for tangent in tangents):
                of = self._gradient._tangent, self._gradient._saved_floats
                results = curvature(*of, grad_output, tensors, tangents, ctx.attributes)
            else:
                results = [torch.zeros_like(replaced[position]) for position in self._gradient._floats]
            return tuple(result for result, needed in zip(results, ctx.output_mask, strict=True) if needed)

        positions = [position for position in self._floats if saved[position] is not None]
        return positions, composed

    def _backward(self, ctx: Any, *grad_results: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = [*map(at_live_levels, ctx.saved_tensors)]
        if not any(ctx.output_mask[1:]):
            return _at_inputs(ctx, self._floats[1:], self._of_derivative(ctx, saved, *grad_results))
        positions, composed = self._composed(ctx, saved)
        results, pull = torch.func.vjp(composed, *(saved[position] for position in positions))
        return _at_inputs(ctx, positions, pull(_filled(grad_results, results)))

    def _of_derivative(
        self, ctx: Any, saved: Sequence[Tensor | None], grad_along: Tensor | None
    ) -> list[Tensor | None]:
        """Where only the first result is wanted, the operator's derivative along tangents: its product with
        `grad_along` is that of the operator's gradient for `grad_along` with the tangents."""
        _, *tensors = saved[: self._inputs]
        tangents = saved[self._inputs :]
        count = len(tangents)
        if grad_along is None:
            return [None] * (2 * count)
        needs = [ctx.needs_input_grad[position] for position in self._floats[1:]]
        _, *of_tensors = self((grad_along, *tensors, *tangents), ctx.attributes, [False, *needs[:count]])
        return [*of_tensors, *self._gradient((grad_along, *tensors), ctx.attributes, needs[count:])]

    def _jvp(self, ctx: Any, saved: Sequence[Tensor | None], tangents: Sequence[Any]) -> tuple[Tensor, ...]:
        """The transpose of the transpose: within forward differentiation PyTorch starts no other."""
        saved = [*map(at_live_levels, saved)]
        positions, composed = self._composed(ctx, saved)
        primals = [saved[position] for position in positions]
        results, pull = torch.func.vjp(composed, *primals)  # type: ignore[misc]
        _, push = torch.func.vjp(pull, tuple(torch.zeros_like(result) for result in results))
        (along_results,) = push(_filled([tangents[position] for position in positions], primals))
        return along_results  # type: ignore[no-any-return]


def _at_inputs(ctx: Any, positions: Sequence[int], gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Of all that a Function gets, which has no gradient elsewhere."""
    at = dict(zip(positions, gradients, strict=True))
    return tuple(at.get(position) for position in range(len(ctx.needs_input_grad)))


def _filled(values: Sequence[Tensor | None], like: Sequence[Any]) -> tuple[Tensor, ...]:
    return tuple(torch.zeros_like(one) if v is None else v for v, one in zip(values, like, strict=True))


def _spread(values: Sequence[Any], output_mask: Sequence[bool]) -> Sequence[Any]:
    if len(values) == len(output_mask):
        return values
    remaining = iter(values)
    return [next(remaining) if needed else None for needed in output_mask]


def is_exported_to_onnx() -> bool:
    is_traced = torch.compiler.is_compiling() or _is_tracing()
    return is_traced and torch.onnx.is_in_onnx_export()


# ---- Operators with gradients


def _backward_of(gradient: Gradient, floats: Sequence[int], count: int) -> Callable[..., tuple[Tensor | None, ...]]:
    """For an operator of `count` arguments, whose `setup` saves them all."""
    needs_of = itemgetter(*floats)
    # Behind the gradients there is a None, for the arguments that have none.
    spread = itemgetter(*(floats.index(i) if i in floats else -1 for i in range(count)))

    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        gradients = gradient((grad_output, *ctx.saved_tensors), ctx.attributes, needs_of(ctx.needs_input_grad))
        return spread((*gradients, None))  # type: ignore[no-any-return]

    return backward


class Operator(_Registered):
    """An operator with a gradient, whose tensors come first. `floats` are the positions of those with floating-point
    numbers, all of which `gradient` has a result for. Else `backward` and `tangent` are for the rest of an
    autograd.Function. `setup` saves `ctx.saved_tensors` and `ctx.attributes` for all of them, by default all that there
    are."""

    def __init__(
        self,
        schema: str,
        kernel: Callable[..., Tensor],
        tangent: Tangent | None = None,
        *,
        floats: Sequence[int],
        batch_axis: int,
        autocast_type: Callable[[str, list[torch.dtype]], torch.dtype],
        gradient: Gradient | None = None,
        backward: Callable[..., Any] | None = None,
        setup: Callable[[Any, tuple[Any, ...]], None] | None = None,
        cuda_kernel: Callable[..., Any] | None = None,
        function: str | None = None,
        composed: Callable[..., Tensor] | None = None,
        derived: Derived = MappingProxyType({}),
    ) -> None:
        self._setup = setup or self._save_all
        self._backward_of_kernel = backward or _backward_of(gradient, floats, schema.count(",") + 1)
        self._along = gradient.along if gradient is not None else partial(along, tangent)  # type: ignore[arg-type]
        super().__init__(schema, kernel, cuda_kernel or kernel, floats, batch_axis, function, composed, derived)
        self._autocast_type = autocast_type
        _library.impl(self.name, partial(self._cast_and_call, "cpu"), "AutocastCPU")
        _library.impl(self.name, partial(self._cast_and_call, "cuda"), "AutocastCUDA")

    __call__ = _Registered._call

    def _save_all(self, ctx: Any, inputs: tuple[Any, ...]) -> None:
        ctx.attributes = inputs[self._tensors :]
        ctx.save_for_backward(*inputs[: self._tensors])

    def _setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        self._setup(ctx, inputs[:-1])
        ctx.save_for_forward(*ctx.to_save)
        ctx.set_materialize_grads(False)
        ctx.shape, ctx.dtype = output.shape, output.dtype

    def _backward(self, ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        (grad_output,) = gradients
        if grad_output is None:
            return (None,) * len(ctx.needs_input_grad)
        return *self._backward_of_kernel(ctx, grad_output), None

    def _jvp(self, ctx: Any, saved: Sequence[Tensor | None], tangents: Sequence[Any]) -> Tensor:
        along_floats = [tangents[position] for position in self._floats]
        return self._along(saved, ctx.attributes, along_floats, ctx.shape, ctx.dtype)

    def _transform(self, *arguments: Any) -> Any:
        device = arguments[0].device.type
        if device in ("cpu", "cuda") and torch.is_autocast_enabled(device):
            return self._cast_and_call(device, *arguments)
        return super()._transform(*arguments)

    def _cast_and_call(self, device: str, *arguments: Any) -> Tensor:
        def is_cast(argument: Any) -> bool:
            return isinstance(argument, Tensor) and argument.is_floating_point() and argument.dtype != torch.float64

        self._check_mixed_with_double(arguments)
        dtype = self._autocast_type(device, [argument.dtype for argument in arguments if is_cast(argument)])
        with torch.autocast(device, enabled=False):
            cast = [argument.to(dtype) if is_cast(argument) else argument for argument in arguments]
            return self._call(*cast)  # type: ignore[no-any-return]

    def _check_mixed_with_double(self, arguments: Sequence[Any]) -> None:
        """Autocast leaves float64 as it is. Else the kernel would name the types that it makes of the others."""
        floats = {self._parameters[i][0]: arguments[i] for i in self._floats if isinstance(arguments[i], Tensor)}
        if any(tensor.dtype == torch.float64 for tensor in floats.values()):
            name, first = next(iter(floats.items()))
            for other, tensor in floats.items():
                if tensor.dtype != first.dtype:
                    expected, got = (str(t.dtype).removeprefix("torch.") for t in (first, tensor))
                    raise TypeError(message(self._caller, other, f"{expected}, as {name} is", got))


# ---- The type that autocast makes of floating-point tensors but float64


def in_float32(device: str, types: list[torch.dtype]) -> torch.dtype:
    """For coordinates: eight bits of bfloat16 do not tell the pixels of a large map apart."""
    return torch.float32


def in_autocast_type(device: str, types: list[torch.dtype]) -> torch.dtype:
    return torch.get_autocast_dtype(device)


def in_widest_type(device: str, types: list[torch.dtype]) -> torch.dtype:
    return torch.float32 if len(set(types)) != 1 else types[0]


# ---- What formulas are made of


def sum_of(terms: list[Tensor]) -> Tensor:
    first, *others = terms
    for term in others:
        first = first + term
    return first
