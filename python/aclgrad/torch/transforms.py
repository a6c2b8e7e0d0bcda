# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What the transforms of torch.func, and the vmap that autograd has kept from before them, need of an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .checks import message

Tangent: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Sequence[Tensor | None], torch.Size], Tensor]
"""The derivative of an operator along tangents of its floating-point arguments, which are None where they are zero,
from the tensors and attributes that its gradient gets and the shape of its result. It is made of operators that have
derivatives themselves: so it serves forward differentiation and derivatives of any order."""


# ---- Derivatives that are composed


def at_live_levels(value: Any) -> Any:
    """A tensor that was saved may be wrapped for a level of torch.func that has ended. PyTorch's own operators unwrap
    it; an autograd.Function does not, nor does a new level, which may get the number of the old."""
    return value.view_as(value) if isinstance(value, Tensor) else value


def _widened(tensor: Tensor | None) -> Tensor | None:
    """Coordinates need more digits than a half has."""
    if tensor is None or tensor.dtype not in (torch.float16, torch.bfloat16):
        return tensor
    return tensor.float()


def along(
    tangent: Tangent,
    tensors: Sequence[Tensor | None],
    attributes: Sequence[Any],
    tangents: Sequence[Tensor | None],
    shape: torch.Size,
    dtype: torch.dtype,
) -> Tensor:
    """The derivative along `tangents`, rounded once."""
    return tangent([_widened(t) for t in tensors], attributes, [_widened(t) for t in tangents], shape).to(dtype)


def curvature(
    tangent: Tangent,
    floats: Sequence[int],
    grad_output: Tensor,
    tensors: Sequence[Tensor | None],
    tangents: Sequence[Tensor | None],
    attributes: Sequence[Any],
) -> list[Tensor]:
    """The operator's derivative along `tangents`, and the gradients of its product with `grad_output`: the change of
    the gradients along `tangents`, as second derivatives are symmetric. `floats` are positions among `tensors`."""
    tensors, tangents = [*map(at_live_levels, tensors)], [*map(at_live_levels, tangents)]

    def derivative(*floating: Tensor) -> Tensor:
        replaced = list(tensors)
        for i, tensor in zip(floats, floating, strict=True):
            replaced[i] = tensor
        return along(tangent, replaced, attributes, tangents, grad_output.shape, grad_output.dtype)

    if not floats:
        return [derivative()]
    result, pull = torch.func.vjp(derivative, *(tensors[i] for i in floats))  # type: ignore[misc]
    return [result.reshape(grad_output.shape), *pull(grad_output.reshape(result.shape))]


# ---- Batching rules


class BatchingRule:
    """Folds the mapped axis into one of the operator's own.

    `batch_axis` is the axis of all floating-point tensors, results among them, along which the operator does the same
    to each entry. `names` are those of all tensors, which come first among the arguments, and `floats` the positions of
    the floating-point ones. `fake` says what is wrong with arguments."""

    def __init__(
        self,
        caller: str,
        call: Callable[..., Any],
        fake: Callable[..., Any],
        names: Sequence[str],
        floats: Sequence[int],
        batch_axis: int,
    ) -> None:
        self._caller, self._call, self._fake = caller, call, fake
        self._names, self._floats, self._batch_axis = names, floats, batch_axis

    def __call__(self, size: int, in_dims: Sequence[int | None], arguments: Sequence[Any]) -> tuple[Any, Any]:
        """The results and their mapped axes."""
        if size == 0:
            return self._of_none(in_dims, arguments)
        folded = list(arguments)
        for position, (name, tensor, axis) in enumerate(zip(self._names, arguments, in_dims, strict=False)):
            if position in self._floats and tensor is not None:
                folded[position] = self._fold(tensor, axis, size)
            elif axis is not None:
                raise ValueError(message(self._caller, name, "one for all calls under vmap", "a mapped tensor"))
        try:
            result = self._call(*folded)
        except (TypeError, ValueError) as error:
            raise self._of_one_call(error, arguments, in_dims) from None
        if isinstance(result, Tensor):
            return self._unfold(result, size)
        unfolded = [self._unfold(tensor, size) for tensor in result if tensor is not None]
        return tuple(tensor for tensor, _ in unfolded), tuple(axis for _, axis in unfolded)

    def _of_one_call(self, error: Exception, arguments: Sequence[Any], in_dims: Sequence[int | None]) -> Exception:
        """What is wrong with the tensors as the mapped function has them, if it can be told from one call's."""
        of_one = [a if axis is None else a.select(axis, 0) for a, axis in zip(arguments, in_dims, strict=True)]
        try:
            self._fake(*of_one)
        except (TypeError, ValueError) as of_shapes:
            return of_shapes
        except RuntimeError:  # it knows no size that follows from contents
            pass
        return error

    def _of_none(self, in_dims: Sequence[int | None], arguments: Sequence[Any]) -> tuple[Any, Any]:
        """Where no call is mapped, the results have the other axes of one call's."""

        def with_one(argument: Any, axis: int | None) -> Any:
            if axis is None:
                return argument
            one = argument.new_zeros([1 if i == axis else extent for i, extent in enumerate(argument.shape)])
            return torch.cat((argument, one), axis)

        results, axes = self(1, in_dims, [*map(with_one, arguments, in_dims)])
        if isinstance(results, Tensor):
            return results.narrow(axes, 0, 0), axes
        return tuple(result.narrow(axis, 0, 0) for result, axis in zip(results, axes, strict=True)), axes

    def _fold(self, tensor: Tensor, mapped_axis: int | None, count: int) -> Tensor:
        rank = tensor.dim() - (mapped_axis is not None)
        if rank == 0:
            return tensor  # which the operator refuses
        axis = self._batch_axis % rank
        if mapped_axis is None:
            tensor = tensor.unsqueeze(axis).expand(*tensor.shape[:axis], count, *tensor.shape[axis:])
        else:
            tensor = tensor.movedim(mapped_axis, axis)
        # Not `flatten`, for which the old vmap has no rule: this may be within another.
        return tensor.reshape(*tensor.shape[:axis], count * tensor.shape[axis + 1], *tensor.shape[axis + 2 :])

    def _unfold(self, tensor: Tensor, count: int) -> tuple[Tensor, int]:
        axis = self._batch_axis % tensor.dim()
        sizes = count, tensor.shape[axis] // count
        return tensor.reshape(*tensor.shape[:axis], *sizes, *tensor.shape[axis + 1 :]), axis

    def of_function(self, info: Any, in_dims: Sequence[int | None], *arguments: Any) -> tuple[Any, Any]:
        """As an autograd.Function has it, whose last argument is not the operator's."""
        of_tensors = [axis if isinstance(a, Tensor) else None for a, axis in zip(arguments, in_dims, strict=True)]
        return self(info.batch_size, of_tensors[:-1], arguments[:-1])

    def of_old_vmap(self, *arguments: Any) -> Any:
        """That of autograd, for `is_grads_batched` and vectorised Jacobians; within another one, of the inner one."""
        level = max(_innermost_level(argument) for argument in arguments if isinstance(argument, Tensor))
        in_dims = [0 if isinstance(a, Tensor) and _is_mapped(a, level) else None for a in arguments]
        plain = [a if d is None else _mapped_along_first(a, level) for a, d in zip(arguments, in_dims, strict=True)]
        size = next(a.shape[0] for a, d in zip(plain, in_dims, strict=True) if d is not None)
        with _as_above_autograd():
            results, axes = self(size, in_dims, plain)
            if isinstance(results, Tensor):
                return _mapped(results, axes, level)
            return [_mapped(result, axis, level) for result, axis in zip(results, axes, strict=True)]


_is_old_mapped = torch._C._functorch.is_legacy_batchedtensor

_AUTOGRAD = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradFunctionality)
for _key in (torch._C.DispatchKey.AutogradOther, torch._C.DispatchKey.AutogradNestedTensor):
    _AUTOGRAD |= torch._C.DispatchKeySet(_key)


def _mapped_along_first(tensor: Tensor, level: int, size: int = 1) -> Tensor:
    """What is mapped at a level of the old vmap, or else as many copies."""
    return torch._remove_batch_dim(tensor, level, size, 0)


def _is_mapped(tensor: Tensor, level: int) -> bool:
    return _is_old_mapped(tensor) and (
        _mapped_along_first(tensor, level, 1).shape == _mapped_along_first(tensor, level, 2).shape
    )


def _mapped(tensor: Tensor, axis: int, level: int) -> Tensor:
    # A tangent can be mapped along the first axis only.
    return torch._add_batch_dim(tensor.movedim(axis, 0).contiguous(), 0, level)


def _innermost_level(tensor: Tensor) -> int:
    """PyTorch does not say it. Levels count from 1, and 0 is none."""
    level = 0
    while _is_old_mapped(tensor):
        level += 1
        if _is_mapped(tensor, level):
            tensor = _mapped_along_first(tensor, level)
    return level


def _as_above_autograd() -> Any:
    """A mapped tensor does not tell whether it requires a gradient, and a call of one may have gone below autograd."""
    included, excluded = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    return torch._C._ForceDispatchKeyGuard(included, excluded - _AUTOGRAD)
