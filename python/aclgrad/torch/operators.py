"""The operators as custom operators of PyTorch, `torch.ops.aclgrad.*`, with gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .. import GroupKind, Mode, PaddingMode, _core

_library = torch.library.Library("aclgrad", "DEF")


# ---- How an operator is registered and called


def _register(
    schema: str, kernel: Callable[..., Any], fake: Callable[..., Any], cuda_kernel: Callable[..., Any] | None = None
) -> Any:
    name = schema.partition("(")[0]
    _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(name, kernel, "CPU")
    _library.impl(name, cuda_kernel or kernel, "CUDA")
    torch.library.register_fake(f"aclgrad::{name}", fake, lib=_library)
    return getattr(torch.ops.aclgrad, name).default


try:
    # Where a PyTorch does not tell what its dispatcher will do, every call goes through it.
    from torch._C import (
        _dispatch_keys,
        _dispatch_tls_local_exclude_set,
        _dispatch_tls_local_include_set,
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


_PLAIN_TYPES = frozenset((Tensor, torch.nn.Parameter, type(None)))


def _are_plain(tensors: Sequence[Tensor | None]) -> bool:
    """Whether these are common tensors. A kernel itself refuses what else it cannot read."""
    for tensor in tensors:
        if type(tensor) not in _PLAIN_TYPES:
            return False
    return True


def _has_nothing_to_dispatch() -> bool:
    """Whether the dispatcher would only record gradients and call the kernel: no tracing, autocast, function transform,
    mode or profiler. Its way, which for Python takes longer than a small kernel, is left out then."""
    if is_compiling() or _profiler_enabled():
        return False
    # These types define `==` alone, and `!=` takes longer.
    if not _dispatch_tls_local_include_set() == _PLAIN_INCLUDED:
        return False
    return _dispatch_tls_local_exclude_set() == _PLAIN_EXCLUDED


def _is_unwatched() -> bool:
    """The same within the backward pass of a call that had nothing to dispatch, where less can be on."""
    if is_compiling() or _profiler_enabled() or torch.is_grad_enabled():
        return False
    return _len_torch_dispatch_stack() == 0 and peek_interpreter_stack() is None


def _may_be_resolved(tensors: Sequence[Tensor | None]) -> bool:
    """Whether the dispatcher knows what to do with tensors that a kernel cannot read: of other devices or layouts, or
    with a pending negation."""
    return any(tensor is not None and _dispatch_keys(tensor) != _PLAIN_KEYS for tensor in tensors)


class _Gradient:
    """An operator that computes the gradients that are needed, which the last argument says, and has none itself."""

    def __init__(self, schema: str, core: Callable[..., tuple[Tensor | None, ...]], fake: Callable[..., Any]) -> None:
        def kernel(*arguments: Any) -> list[Tensor]:
            *others, needs = arguments
            return [gradient for gradient in core(*others, *needs, None) if gradient is not None]

        self._core = core
        self._overload = _register(schema, kernel, fake)
        name = self._overload.name()

        def refuse(*_: Any) -> None:
            raise NotImplementedError(f"{name} has no gradient: there are no second derivatives")

        torch.library.register_autograd(name, refuse, lib=_library)

    def __call__(
        self, tensors: Sequence[Tensor | None], attributes: Sequence[Any], needs: Sequence[bool]
    ) -> Sequence[Tensor | None]:
        """A gradient for each of `needs`, or None."""
        if _is_unwatched() and _are_plain(tensors):
            try:
                return self._core(*tensors, *attributes, *needs, None)
            except Exception:
                if not _may_be_resolved(tensors):
                    raise
        gradients = iter(self._overload(*tensors, *attributes, needs))
        return [next(gradients) if needed else None for needed in needs]


class _Operator:
    """An operator with a gradient, whose tensors come first."""

    def __init__(
        self,
        schema: str,
        kernel: Callable[..., Tensor],
        fake: Callable[..., Tensor],
        setup_context: Callable[..., None],
        backward: Callable[..., Any],
        autocast_type: Callable[[str, list[torch.dtype]], torch.dtype],
        cuda_kernel: Callable[..., Any] | None = None,
    ) -> None:
        self._kernel = kernel
        self._overload = _register(schema, kernel, fake, cuda_kernel)
        self._tensors = schema.partition("->")[0].count("Tensor")
        name = self._overload.name()
        torch.library.register_autograd(name, backward, setup_context=setup_context, lib=_library)
        methods = {"forward": kernel, "setup_context": setup_context, "backward": backward}
        function = type(name, (torch.autograd.Function,), {k: staticmethod(method) for k, method in methods.items()})
        # Without what Function.apply does for function transforms, which `_has_nothing_to_dispatch` excludes.
        self._record: Callable[..., Tensor] = super(torch.autograd.Function, function).apply  # type: ignore[misc]
        self._autocast_type = autocast_type
        _library.impl(name, partial(self._cast_and_call, "cpu"), "AutocastCPU")
        _library.impl(name, partial(self._cast_and_call, "cuda"), "AutocastCUDA")

    def __call__(self, *arguments: Any) -> Tensor:
        tensors = arguments[: self._tensors]
        if _has_nothing_to_dispatch() and _are_plain(tensors):
            try:
                if torch.is_grad_enabled():
                    for tensor in tensors:
                        if tensor is not None and tensor.requires_grad:
                            return self._record(*arguments)
                return self._kernel(*arguments)
            except Exception:
                if not _may_be_resolved(tensors):
                    raise
        result: Tensor = self._overload(*arguments)
        return result

    def _cast_and_call(self, device: str, *arguments: Any) -> Any:
        def is_cast(argument: Any) -> bool:
            return isinstance(argument, Tensor) and argument.is_floating_point() and argument.dtype != torch.float64

        dtype = self._autocast_type(device, [argument.dtype for argument in arguments if is_cast(argument)])
        with torch.autocast(device, enabled=False):
            return self._overload(*(argument.to(dtype) if is_cast(argument) else argument for argument in arguments))


def _in_float32(device: str, types: list[torch.dtype]) -> torch.dtype:
    """For coordinates: eight bits of bfloat16 do not tell the pixels of a large map apart."""
    return torch.float32


def _in_autocast_type(device: str, types: list[torch.dtype]) -> torch.dtype:
    return torch.get_autocast_dtype(device)


def _in_widest_type(device: str, types: list[torch.dtype]) -> torch.dtype:
    return torch.float32 if len(set(types)) != 1 else types[0]


# ---- Multi-scale deformable attention


def _attention_kernel(value: Tensor, *others: Any) -> Tensor:
    return _core.msda_forward(value, *others, None)


def _attention_fake(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
) -> Tensor:
    batches, queries = sampling_locations.shape[:2]
    return value.new_empty(batches, queries, value.shape[2] * value.shape[3])


def _attention_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _attention_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    needs_value, _, _, needs_locations, needs_weights = ctx.needs_input_grad
    grad_value, grad_locations, grad_weights = _attention_gradient(
        (grad_output, *ctx.saved_tensors), (), (needs_value, needs_locations, needs_weights)
    )
    return grad_value, None, None, grad_locations, grad_weights


def _attention_gradient_fake(
    grad_output: Tensor,
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    needs: list[bool],
) -> list[Tensor]:
    inputs = (value, sampling_locations, attention_weights)
    return [array.new_empty(array.shape) for array, needed in zip(inputs, needs, strict=True) if needed]


_attention_gradient = _Gradient(
    "multi_scale_deformable_attention_backward(Tensor grad_output, Tensor value, Tensor spatial_shapes, "
    "Tensor level_start_index, Tensor sampling_locations, Tensor attention_weights, bool[3] needs) -> Tensor[]",
    _core.msda_backward,
    _attention_gradient_fake,
)
_attention = _Operator(
    "multi_scale_deformable_attention(Tensor value, Tensor spatial_shapes, Tensor level_start_index, "
    "Tensor sampling_locations, Tensor attention_weights) -> Tensor",
    _attention_kernel,
    _attention_fake,
    _attention_setup,
    _attention_backward,
    _in_float32,
)


def multi_scale_deformable_attention(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
) -> Tensor:
    """Multi-scale deformable attention: each query sums samples of several feature maps, with a weight for each.

    With B batches, S pixels in all levels, M heads, C channels of a head, Q queries, L levels and P points:

    Args:
        value: [B, S, M, C], the feature maps, one level after the other.
        spatial_shapes: [L, 2], height and width of each level, int32 or int64.
        level_start_index: [L], the first row of each level in `value`, int32 or int64.
        sampling_locations: [B, Q, M, L, P, 2] as (x, y), where 0 and 1 are the outer edges of a level.
        attention_weights: [B, Q, M, L, P].

    Returns:
        [B, Q, M * C]. Samples are bilinear, and pixels outside of their level count as zero. Under autocast it
        computes in float32. A location that is NaN or infinite counts as zero, too, and so do its gradients, as in the
        CUDA extensions of models; composed of `torch.nn.functional.grid_sample`, attention is NaN there on CPUs.
    """
    return _attention(value, spatial_shapes, level_start_index, sampling_locations, attention_weights)


# ---- NSA compression


def _compress_kernel(x: Tensor, *others: Any) -> Tensor:
    return _core.nsa_compress("cu_seqlens", x, *others, None)


def _compress_fake(x: Tensor, weight: Tensor, cu_seqlens: Tensor | None, block: int, stride: int) -> Tensor:
    if cu_seqlens is None:
        windows = torch.sym_max((x.shape[0] - block + stride) // stride, 0)
    else:
        windows = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(windows, *x.shape[1:])


def _compress_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, cu_seqlens, ctx.block, ctx.stride = inputs
    ctx.save_for_backward(x, weight, cu_seqlens)


def _compress_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    tensors = (grad_output, *ctx.saved_tensors)
    grad_x, grad_weight = _compress_gradient(tensors, (ctx.block, ctx.stride), ctx.needs_input_grad[:2])
    return grad_x, grad_weight, None, None, None


def _compress_gradient_fake(
    grad_output: Tensor,
    x: Tensor,
    weight: Tensor,
    cu_seqlens: Tensor | None,
    block: int,
    stride: int,
    needs: list[bool],
) -> list[Tensor]:
    return [array.new_empty(array.shape) for array, needed in zip((x, weight), needs, strict=True) if needed]


_compress_gradient = _Gradient(
    "nsa_compress_backward(Tensor grad_output, Tensor x, Tensor weight, Tensor? cu_seqlens, int block, int stride, "
    "bool[2] needs) -> Tensor[]",
    partial(_core.nsa_compress_backward, "cu_seqlens"),
    _compress_gradient_fake,
)
_compress = _Operator(
    "nsa_compress(Tensor x, Tensor weight, Tensor? cu_seqlens, int block, int stride) -> Tensor",
    _compress_kernel,
    _compress_fake,
    _compress_setup,
    _compress_backward,
    _in_autocast_type,
)


def nsa_compress(x: Tensor, weight: Tensor, cu_seqlens: Tensor | None, block: int, stride: int) -> Tensor:
    """The key compression of native sparse attention: weighted sums over windows that slide along each sequence.

    Window k starts at token `stride * k` of its sequence and holds `block` tokens. A tail that fills no window is
    dropped. y[k, n, d] = sum over j < block of weight[j, n] * x[start of k + j, n, d].

    Args:
        x: [T, N, D], the tokens of all sequences, one sequence after the other, of N heads with D channels.
        weight: [block, N].
        cu_seqlens: the token after the last one of each sequence, int32 or int64; the last entry is T. A 0 may come
            first. None: one sequence. On the CPU wherever `x` is, since the size of the result follows from it.
        block: tokens of a window.
        stride: tokens from one window of a sequence to the next.

    Returns:
        [windows, N, D], sequence after sequence. Under autocast it computes as a matrix product does, in autocast's
        type with sums in float32.
    """
    return _compress(x, weight, cu_seqlens, block, stride)


# ---- Grid sampling


def _sample_kernel(input: Tensor, *others: Any) -> Tensor:
    return _core.grid_sample(input, *others, None)


def _sample_fake(input: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    return input.new_empty(*input.shape[:2], *grid.shape[1:3])


def _sample_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, grid, *ctx.attributes = inputs
    ctx.save_for_backward(input, grid)


def _sample_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    tensors = (grad_output, *ctx.saved_tensors)
    grad_input, grad_grid = _sample_gradient(tensors, ctx.attributes, ctx.needs_input_grad[:2])
    return grad_input, grad_grid, None, None, None


def _sample_gradient_fake(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    mode: str,
    padding_mode: str,
    align_corners: bool,
    needs: list[bool],
) -> list[Tensor]:
    return [array.new_empty(array.shape) for array, needed in zip((input, grid), needs, strict=True) if needed]


_sample_gradient = _Gradient(
    "grid_sample_backward(Tensor grad_output, Tensor input, Tensor grid, str mode, str padding_mode, "
    "bool align_corners, bool[2] needs) -> Tensor[]",
    _core.grid_sample_backward,
    _sample_gradient_fake,
)
_sample = _Operator(
    "grid_sample(Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners) -> Tensor",
    _sample_kernel,
    _sample_fake,
    _sample_setup,
    _sample_backward,
    _in_float32,
)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Reads an image between its pixels, at the places that a grid names; as `torch.nn.functional.grid_sample`.

    Args:
        input: [N, C, H, W].
        grid: [N, Ho, Wo, 2] as (x, y), where -1 and 1 are the outer edges of the image, or the centres of its
            outermost pixels with `align_corners`.
        mode: how to interpolate.
        padding_mode: what a place outside of the image reads: zeros, the nearest pixel of the border, or the image
            mirrored.

    Returns:
        [N, C, Ho, Wo]. Under autocast it computes in float32. A coordinate that is NaN or infinite gives what PyTorch
        gives on GPUs: bilinear with zeros padding 0, where PyTorch on CPUs gives NaN. Its gradients are zero, where
        PyTorch gives NaN or ends the process.
    """
    return _sample(input, grid, mode, padding_mode, align_corners)


# ---- Grouped bias-add


def _bias_kernel(x: Tensor, *others: Any) -> Tensor:
    return _core.grouped_bias_add(x, *others, None)


def _bias_on_cuda(x: Tensor, bias: Tensor, group_ends: Tensor | None, kind: str) -> Tensor:
    """Composed of PyTorch's operators, as the library has no kernel for it. Ends that fall are not told from others."""
    groups = x.shape[0] if group_ends is None else group_ends.shape[0]
    if bias.dtype != x.dtype:
        raise TypeError(f"aclgrad.grouped_bias_add: bias: expected {x.dtype}, as x is, got {bias.dtype}")
    if x.dim() != (3 if group_ends is None else 2) or bias.shape != (groups, x.shape[-1]):
        shapes = f"{list(x.shape)} and {list(bias.shape)}"
        raise ValueError(f"aclgrad.grouped_bias_add: expected x [R, H] or [G, R, H], and bias [G, H], got {shapes}")
    if group_ends is None:
        return x + bias[:, None]
    if groups == 0:
        return x.clone()
    ends = group_ends.cumsum(0) if kind == "counts" else group_ends
    group = torch.searchsorted(ends, torch.arange(x.shape[0], device=x.device, dtype=ends.dtype), right=True)
    return torch.where((group < groups)[:, None], x + bias[group.clamp(max=groups - 1)], x)


def _bias_fake(x: Tensor, bias: Tensor, group_ends: Tensor | None, kind: str) -> Tensor:
    return x.new_empty(x.shape)


def _bias_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, _, group_ends, ctx.kind = inputs
    ctx.save_for_backward(group_ends)


def _bias_backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
    needs_x, *needs = ctx.needs_input_grad[:2]
    (grad_bias,) = _bias_gradient((grad_y, *ctx.saved_tensors), (ctx.kind,), needs)
    return grad_y if needs_x else None, grad_bias, None, None


def _bias_gradient_core(
    grad_y: Tensor, group_ends: Tensor | None, kind: str, needs_bias: bool, out: None
) -> tuple[Tensor | None]:
    return (_core.grouped_bias_add_backward(grad_y, group_ends, kind, out) if needs_bias else None,)


def _bias_gradient_fake(grad_y: Tensor, group_ends: Tensor | None, kind: str, needs: list[bool]) -> list[Tensor]:
    groups = grad_y.shape[0] if group_ends is None else group_ends.shape[0]
    return [grad_y.new_empty(groups, grad_y.shape[-1])] if needs[0] else []


_bias_gradient = _Gradient(
    "grouped_bias_add_backward(Tensor grad_y, Tensor? group_ends, str kind, bool[1] needs) -> Tensor[]",
    _bias_gradient_core,
    _bias_gradient_fake,
)
_bias = _Operator(
    "grouped_bias_add(Tensor x, Tensor bias, Tensor? group_ends, str kind) -> Tensor",
    _bias_kernel,
    _bias_fake,
    _bias_setup,
    _bias_backward,
    _in_widest_type,
    _bias_on_cuda,
)


def grouped_bias_add(
    x: Tensor, bias: Tensor, group_ends: Tensor | None = None, *, kind: GroupKind = "ends"
) -> Tensor:
    """Adds to each row the bias of its group, as behind the matrix products of a mixture of experts.

    Args:
        x: [R, H], rows sorted by group; [G, R, H] without `group_ends`, for G groups of R rows.
        bias: [G, H].
        group_ends: [G], the row after the last one of each group, or with `kind="counts"` the number of its rows;
            int32 or int64. Rows after the last group stay as they are.

    Returns:
        As `x`. Under autocast it computes in the wider of the two types.
    """
    return _bias(x, bias, group_ends, kind)
