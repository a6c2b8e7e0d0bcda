"""How an operator becomes one of PyTorch's, `torch.ops.aclgrad.*`, and how a call of it goes the shortest way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .checks import message

_library = torch.library.Library("aclgrad", "DEF")

try:
    # Where a PyTorch does not tell what its dispatcher will do, every call goes through it.
    from torch._C import (
        _dispatch_keys,
        _dispatch_tls_local_exclude_set,
        _dispatch_tls_local_include_set,
        _is_torch_function_mode_enabled,
        _len_torch_dispatch_stack,
    )
    from torch._C._autograd import _profiler_enabled
    from torch._C._functorch import peek_interpreter_stack
    from torch.compiler import is_compiling

    # A new thread has nothing switched on.
    with ThreadPoolExecutor(1) as _pool:
        _PLAIN_INCLUDED = _pool.submit(_dispatch_tls_local_include_set).result()
        _PLAIN_EXCLUDED = _pool.submit(_dispatch_tls_local_exclude_set).result()
        _PLAIN_KEYS = _pool.submit(lambda: _dispatch_keys(torch.empty(0))).result()
except ImportError:

    def is_compiling() -> bool:
        return True

    def peek_interpreter_stack() -> Any:  # type: ignore[misc]
        return None


# ---- When the dispatcher has nothing to do

_PLAIN_TYPES = frozenset((Tensor, torch.nn.Parameter, type(None)))


def _are_plain(tensors: Sequence[Tensor | None]) -> bool:
    """Whether these are common tensors. A kernel itself refuses what else it cannot read."""
    for tensor in tensors:
        if type(tensor) not in _PLAIN_TYPES:
            return False
    return True


def _is_observed() -> bool:
    """Whether a tracer, a profiler, a mode for functions, or forward differentiation is on."""
    return is_compiling() or _profiler_enabled() or forward_ad._current_level >= 0 or _is_torch_function_mode_enabled()


def _has_nothing_to_dispatch() -> bool:
    """Whether the dispatcher would only record gradients and call the kernel: no tracing, autocast, function transform,
    mode or profiler. Its way, which for Python takes longer than a small kernel, is left out then."""
    if _is_observed():
        return False
    # These types define `==` alone, and `!=` takes longer.
    if not _dispatch_tls_local_include_set() == _PLAIN_INCLUDED:
        return False
    return _dispatch_tls_local_exclude_set() == _PLAIN_EXCLUDED


def _is_unwatched() -> bool:
    """The same within the backward pass of a call that had nothing to dispatch, where less can be on."""
    if _is_observed() or torch.is_grad_enabled():
        return False
    return _len_torch_dispatch_stack() == 0 and peek_interpreter_stack() is None


def _may_be_resolved(tensors: Sequence[Tensor | None]) -> bool:
    """Whether the dispatcher knows what to do with tensors that a kernel cannot read: of other devices or layouts, or
    with a pending negation."""
    return any(tensor is not None and _dispatch_keys(tensor) != _PLAIN_KEYS for tensor in tensors)


def is_transformed() -> bool:
    """Whether a transform of torch.func is on. Compilers trace the operator instead."""
    return not is_compiling() and peek_interpreter_stack() is not None


# ---- What an operator and its gradient have in common

Tangent: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Sequence[Tensor | None], torch.Size], Tensor]
"""The derivative of an operator along tangents of its floating-point arguments, which are None where they are zero,
from the tensors and attributes that its gradient gets and the shape of its result. It is made of operators that have
derivatives themselves: so it serves forward differentiation and derivatives of any order."""

_WORDS = {
    "Tensor": "a tensor",
    "Optional[Tensor]": "a tensor or None",
    "int": "an integer",
    "str": "a string",
    "bool": "a bool",
}


def _is_of(kind: str, value: Any) -> bool:
    if kind == "int":
        return hasattr(value, "__index__")
    if kind in ("str", "bool"):
        return isinstance(value, str if kind == "str" else bool)
    return (value is None and kind != "Tensor") or isinstance(value, Tensor) or hasattr(value, "__torch_function__")


def _function(name: str, **methods: Callable[..., Any]) -> Any:
    return type(name, (torch.autograd.Function,), {name: staticmethod(method) for name, method in methods.items()})


class _Registered:
    """An operator of the library that transforms of torch.func can see.

    `function` is it as an autograd.Function, with one argument more: what the dispatcher has still to do, or None where
    it was not asked yet. `batch_axis` is the axis of all floating-point tensors, results among them, into which `vmap`
    may fold its own: one along which the operator does the same to each entry.
    """

    def __init__(
        self,
        schema: str,
        kernel: Callable[..., Any],
        cuda_kernel: Callable[..., Any] | None,
        fake: Callable[..., Any],
        floats: Sequence[int],
        batch_axis: int,
    ) -> None:
        self.name = schema.partition("(")[0]
        _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        self._overload = getattr(torch.ops.aclgrad, self.name).default
        _library.impl(self.name, kernel, "CPU")
        _library.impl(self.name, cuda_kernel or kernel, "CUDA")
        _library.impl(self.name, self._record_from_dispatcher, "Autograd", with_keyset=True)
        torch.library.register_fake(f"aclgrad::{self.name}", fake, lib=_library)
        torch.library.register_vmap(f"aclgrad::{self.name}", partial(self._vmap, self._overload), lib=_library)
        self._floats = frozenset(floats)
        self._batch_axis = batch_axis
        self._parameters = [(argument.name, str(argument.type)) for argument in self._overload._schema.arguments]
        self._tensors = sum("Tensor" in kind for _, kind in self._parameters)
        self.function = _function(
            self.name,
            forward=self._forward,
            setup_context=self._setup_context,
            backward=self._backward,
            jvp=self._jvp_among_others,
            vmap=partial(self._vmap, self._call),
        )

    def _setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        raise NotImplementedError

    def _backward(self, ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        raise NotImplementedError

    def _jvp(self, ctx: Any, saved: Sequence[Tensor | None], tangents: Sequence[Any]) -> Any:
        raise NotImplementedError

    def _jvp_among_others(self, ctx: Any, *tangents: Any) -> Any:
        # PyTorch has forward differentiation switched off here, and with it that of transforms further out.
        with forward_ad._set_fwd_grad_enabled(True):
            saved = [None if t is None else forward_ad.unpack_dual(t).primal for t in ctx.saved_tensors]
            return self._jvp(ctx, saved, tangents)

    def _forward(self, *arguments_and_keys: Any) -> Any:
        *arguments, keys = arguments_and_keys
        if keys is None:
            result = self._overload(*arguments)
        else:
            with torch._C._AutoDispatchBelowAutograd():
                result = self._overload.redispatch(keys & torch._C._after_autograd_keyset, *arguments)
        return tuple(result) if isinstance(result, list) else result

    def _record_from_dispatcher(self, keys: Any, *arguments: Any) -> Any:
        if peek_interpreter_stack() is not None:
            raise NotImplementedError(
                f"torch.ops.aclgrad.{self.name}: expected no transform of torch.func around it, got one: only the "
                "functions of aclgrad.torch have derivatives there, and not within torch.compile"
            )
        result = self.function.apply(*arguments, keys)
        return list(result) if isinstance(result, tuple) else result

    def _check_kinds(self, arguments: Sequence[Any]) -> None:
        """What the dispatcher would refuse in words of its own."""
        for (name, kind), value in zip(self._parameters, arguments, strict=True):
            if kind in _WORDS and not _is_of(kind, value):
                raise TypeError(message(self.name, name, _WORDS[kind], type(value).__name__))

    def _vmap(self, call: Callable[..., Any], info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        """Folds the mapped axis into one of the operator's own."""
        folded: list[Any] = list(arguments[: len(self._parameters)])
        for position in range(self._tensors):
            tensor, axis = arguments[position], in_dims[position]
            name = self._parameters[position][0]
            if position in self._floats:
                if tensor.dim() - (axis is not None) < 2:
                    raise ValueError(message(self.name, name, "at least 2 axes of its own", list(tensor.shape)))
                folded[position] = self._fold(tensor, axis, info.batch_size)
            elif axis is not None:
                raise ValueError(message(self.name, name, "one for all calls under vmap", "a mapped tensor"))
        result = call(*folded)
        if isinstance(result, Tensor):
            return self._unfold(result, info.batch_size)
        unfolded = [self._unfold(tensor, info.batch_size) for tensor in result]
        return type(result)(tensor for tensor, _ in unfolded), type(result)(axis for _, axis in unfolded)

    def _call(self, *arguments: Any) -> Any:
        """Through transforms of torch.func, or else the dispatcher."""
        if not is_transformed():
            return self._overload(*arguments)
        # Where torch.compile gave up on a function around it, it must not try the functions within.
        apply = self._apply_uncompiled if "torch._dynamo" in sys.modules else self.function.apply
        return apply(*arguments, None)

    @cached_property
    def _apply_uncompiled(self) -> Any:
        return torch.compiler.disable(self.function.apply)

    def _fold(self, tensor: Tensor, mapped_axis: int | None, count: int) -> Tensor:
        rank = tensor.dim() - (mapped_axis is not None)
        axis = self._batch_axis % rank
        if mapped_axis is None:
            tensor = tensor.unsqueeze(axis).expand(*tensor.shape[:axis], count, *tensor.shape[axis:])
        else:
            tensor = tensor.movedim(mapped_axis, axis)
        return tensor.flatten(axis, axis + 1)

    def _unfold(self, tensor: Tensor, count: int) -> tuple[Tensor, int]:
        axis = self._batch_axis % tensor.dim()
        return tensor.unflatten(axis, (count, tensor.shape[axis] // count)), axis


def _widened(tensor: Tensor | None) -> Tensor | None:
    """Coordinates need more digits than a half has."""
    if tensor is None or tensor.dtype not in (torch.float16, torch.bfloat16):
        return tensor
    return tensor.float()


def _along(
    tangent: Tangent,
    tensors: Sequence[Tensor | None],
    attributes: Sequence[Any],
    tangents: Sequence[Tensor | None],
    shape: torch.Size,
    dtype: torch.dtype,
) -> Tensor:
    """The derivative along `tangents`, rounded once."""
    return tangent([_widened(t) for t in tensors], attributes, [_widened(t) for t in tangents], shape).to(dtype)


# ---- Gradients


class Gradient(_Registered):
    """An operator that computes the gradients that are needed, which the last argument says.

    Its tensors are the gradient of the result and what the operator's `setup` saves, of which `floats` tells those that
    it has a derivative for.
    """

    def __init__(
        self,
        schema: str,
        core: Callable[..., tuple[Tensor | None, ...]],
        fake: Callable[..., Any],
        tangent: Tangent,
        floats: Sequence[int],
        batch_axis: int,
    ) -> None:
        def kernel(*arguments: Any) -> list[Tensor]:
            return [gradient for gradient in core(*arguments) if gradient is not None]

        self._core = core
        self._tangent = tangent
        self._saved_floats = floats
        super().__init__(schema, kernel, None, fake, (0, *(1 + i for i in floats)), batch_axis)

    def __call__(
        self, tensors: Sequence[Tensor | None], attributes: Sequence[Any], output_mask: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """A gradient for each of `output_mask`, or None."""
        if _are_plain(tensors) and _is_unwatched():
            try:
                return self._core(*tensors, *attributes, output_mask)
            except Exception:
                if not _may_be_resolved(tensors):
                    raise
        if not any(output_mask):
            return [None] * len(output_mask)
        self._check_kinds((*tensors, *attributes, output_mask))
        return _spread(self._call(*tensors, *attributes, output_mask), output_mask)

    def _setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        tensors = inputs[: self._tensors]
        ctx.attributes, ctx.output_mask = inputs[self._tensors : -2], inputs[-2]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)

    def _curvature(
        self, ctx: Any, grad_output: Tensor, tensors: Sequence[Tensor | None], tangents: Sequence[Tensor | None]
    ) -> tuple[Tensor, list[Tensor]]:
        """The operator's derivative along `tangents`, and the gradients of its product with `grad_output`: the change
        of the gradients along `tangents`, as second derivatives are symmetric."""

        def along(*floats: Tensor) -> Tensor:
            replaced = list(tensors)
            for i, tensor in zip(self._saved_floats, floats, strict=True):
                replaced[i] = tensor
            return _along(self._tangent, replaced, ctx.attributes, tangents, grad_output.shape, grad_output.dtype)

        if not self._saved_floats:
            return along(), []
        result, pull = torch.func.vjp(along, *(tensors[i] for i in self._saved_floats))  # type: ignore[misc]
        return result.reshape(grad_output.shape), list(pull(grad_output.reshape(result.shape)))

    def _backward(self, ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_output, *tensors = ctx.saved_tensors
        gradients: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        if any(tangent is not None for tangent in tangents):
            gradients[0], others = self._curvature(ctx, grad_output, tensors, _spread(tangents, ctx.output_mask))
            for i, gradient in zip(self._saved_floats, others, strict=True):
                gradients[1 + i] = gradient
        return tuple(gradients)

    def _jvp(self, ctx: Any, saved: Sequence[Tensor | None], tangents: Sequence[Any]) -> tuple[Tensor, ...]:
        grad_output, *tensors = saved
        assert grad_output is not None
        along_grad_output, *along_tensors = tangents[: self._tensors]
        along_floats = [along_tensors[i] for i in self._saved_floats]
        if along_grad_output is None:
            along_grad_output = torch.zeros_like(grad_output)
        result = self((along_grad_output, *tensors), ctx.attributes, ctx.output_mask)
        if any(tangent is not None for tangent in along_floats):
            _, changes = self._curvature(ctx, grad_output, tensors, along_floats)
            result = [None if r is None else r + change for r, change in zip(result, changes, strict=True)]
        return tuple(tensor for tensor in result if tensor is not None)


def _spread(values: Sequence[Any], output_mask: Sequence[bool]) -> list[Any]:
    remaining = iter(values)
    return [next(remaining) if needed else None for needed in output_mask]


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
    numbers, all of which `gradient` has a result for. Else `backward` is for the rest of an autograd.Function. `setup`
    saves `ctx.saved_tensors` and `ctx.attributes` for both and for `tangent`, by default all that there are."""

    def __init__(
        self,
        schema: str,
        kernel: Callable[..., Tensor],
        fake: Callable[..., Tensor],
        tangent: Tangent,
        floats: Sequence[int],
        batch_axis: int,
        autocast_type: Callable[[str, list[torch.dtype]], torch.dtype],
        gradient: Gradient | None = None,
        backward: Callable[..., Any] | None = None,
        setup: Callable[[Any, tuple[Any, ...]], None] | None = None,
        cuda_kernel: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(schema, kernel, cuda_kernel, fake, floats, batch_axis)
        if backward is None:
            assert gradient is not None
            backward = _backward_of(gradient, floats, len(self._parameters))
        setup = setup or self._save_all
        self._kernel = kernel
        self._setup = setup
        self._backward_of_kernel = backward
        self._tangent = tangent
        self._positions = floats
        self._autocast_type = autocast_type
        eager = _function(
            self.name, forward=kernel, setup_context=lambda ctx, inputs, _: setup(ctx, inputs), backward=backward
        )
        # Without what Function.apply does for function transforms, which `_has_nothing_to_dispatch` excludes.
        self._record: Callable[..., Tensor] = super(torch.autograd.Function, eager).apply  # type: ignore[misc]
        _library.impl(self.name, partial(self._cast_and_call, "cpu"), "AutocastCPU")
        _library.impl(self.name, partial(self._cast_and_call, "cuda"), "AutocastCUDA")

    def __call__(self, *arguments: Any) -> Tensor:
        tensors = arguments[: self._tensors]
        if _are_plain(tensors) and _has_nothing_to_dispatch():
            try:
                if torch.is_grad_enabled():
                    for tensor in tensors:
                        if tensor is not None and tensor.requires_grad:
                            return self._record(*arguments)
                return self._kernel(*arguments)
            except Exception:
                if not _may_be_resolved(tensors):
                    raise
        self._check_kinds(arguments)
        if is_transformed():  # and so before autocast
            device = arguments[0].device.type
            if device in ("cpu", "cuda") and torch.is_autocast_enabled(device):
                return self._cast_and_call(device, *arguments)
        return self._call(*arguments)  # type: ignore[no-any-return]

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
        return (*self._backward_of_kernel(ctx, grad_output), None)

    def _jvp(self, ctx: Any, saved: Sequence[Tensor | None], tangents: Sequence[Any]) -> Tensor:
        along_floats = [tangents[position] for position in self._positions]
        return _along(self._tangent, saved, ctx.attributes, along_floats, ctx.shape, ctx.dtype)

    def _cast_and_call(self, device: str, *arguments: Any) -> Tensor:
        def is_cast(argument: Any) -> bool:
            return isinstance(argument, Tensor) and argument.is_floating_point() and argument.dtype != torch.float64

        dtype = self._autocast_type(device, [argument.dtype for argument in arguments if is_cast(argument)])
        with torch.autocast(device, enabled=False):
            cast = [argument.to(dtype) if is_cast(argument) else argument for argument in arguments]
            return self._call(*cast)  # type: ignore[no-any-return]


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


def new_gradients(tensors: Sequence[Tensor], output_mask: Sequence[bool]) -> list[Tensor]:
    return [tensor.new_empty(tensor.shape) for tensor, needed in zip(tensors, output_mask, strict=True) if needed]
