"""Makes code that others wrote use the operators of aclgrad on CPUs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from ..operators.grid_sampler_2d import Mode, PaddingMode
from ..operators.grid_sampler_2d.torch import grid_sample
from ..operators.multi_scale_deformable_attention.torch import multi_scale_deformable_attention
from .checks import message

Target: TypeAlias = Literal["transformers", "mmcv", "grid_sample"]


@dataclasses.dataclass(frozen=True)
class _Replaced:
    original: Any  # _INHERITED where the owner had it from its base class
    ours: Any


_INHERITED = object()
_replaced: dict[tuple[Any, str], _Replaced] = {}
"""What is replaced at present, by its owner and name."""


def patch(*targets: Target) -> None:
    """Replaces the implementations of others by ours, in this process and until `unpatch`.

    What ours cannot do still goes to the original: other devices, other numbers of axes, types that differ. Where a
    coordinate is NaN or infinite, results may differ from PyTorch's on CPUs: see `grid_sample` and
    `multi_scale_deformable_attention`.

    Args:
        targets: any of the following; all of them by default. What is not installed is left out.

            - `transformers`: multi-scale deformable attention in Hugging Face's Deformable DETR, RT-DETR (1 and 2),
              Grounding DINO, Mask2Former, OneFormer and all others that have it. D-FINE and DEIMv2 keep the function
              that they found when the model was built.
            - `mmcv`: `MultiScaleDeformableAttnFunction` and `multi_scale_deformable_attn_pytorch` of `mmcv.ops`.
            - `grid_sample`: `torch.nn.functional.grid_sample`.

    >>> import torch, aclgrad.torch
    >>> aclgrad.torch.patch("grid_sample")
    >>> torch.nn.functional.grid_sample(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[1.]]]])
    >>> aclgrad.torch.unpatch()
    """
    for target in targets:
        if not isinstance(target, str) or target not in _TARGETS:
            raise ValueError(message("torch.patch", "targets", ", ".join(_TARGETS), target))
    before = dict(_replaced)
    try:
        for target in targets or tuple(_TARGETS):
            _TARGETS[target]()
    except BaseException:
        _return_to(before)
        raise


def unpatch() -> None:
    """Undoes `patch`. What somebody put in the place of ours since then stays.

    >>> import torch, aclgrad.torch
    >>> original = torch.nn.functional.grid_sample
    >>> aclgrad.torch.patch("grid_sample")
    >>> aclgrad.torch.unpatch()
    >>> torch.nn.functional.grid_sample is original
    True
    """
    _return_to({})


@contextlib.contextmanager
def patched(*targets: Target) -> Iterator[None]:
    """`patch` in a `with` statement. At its end all is as before, whatever `patch` and `unpatch` did within.

    >>> import torch, aclgrad.torch
    >>> with aclgrad.torch.patched("grid_sample"):
    ...     torch.nn.functional.grid_sample(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[1.]]]])
    """
    before = dict(_replaced)
    try:
        patch(*targets)
        yield
    finally:
        _return_to(before)


def _replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    """Sets an attribute of a module or class to what `wrap` makes of it."""
    if (owner, name) not in _replaced:
        original = vars(owner).get(name, _INHERITED)
        _put(owner, name, _Replaced(original, wrap(getattr(owner, name))))


def _put(owner: Any, name: str, replaced: _Replaced) -> None:
    setattr(owner, name, replaced.ours)
    _replaced[owner, name] = replaced


def _return_to(before: dict[tuple[Any, str], _Replaced]) -> None:
    """Takes back what was replaced since, and replaces again what was taken back, unless somebody else changed it."""
    for (owner, name), replaced in list(_replaced.items()):
        if before.get((owner, name)) is not replaced:
            del _replaced[owner, name]
            if vars(owner).get(name) is replaced.ours:
                _restore(owner, name, replaced.original)
    for (owner, name), replaced in before.items():
        if (owner, name) not in _replaced and vars(owner).get(name, _INHERITED) is replaced.original:
            _put(owner, name, replaced)


def _restore(owner: Any, name: str, original: Any) -> None:
    if original is _INHERITED:
        delattr(owner, name)
    else:
        setattr(owner, name, original)


def _is_ours(*tensors: Any) -> bool:
    """Whether our kernels take these tensors."""
    for tensor in tensors:
        if not (isinstance(tensor, Tensor) and tensor.device.type == "cpu" and tensor.dtype in _TYPES):
            return False
    return torch.is_autocast_enabled("cpu") or all(tensor.dtype == tensors[0].dtype for tensor in tensors)


_TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


# ---- torch.nn.functional


def _patch_grid_sample() -> None:
    _replace(torch.nn.functional, "grid_sample", _grid_sample)


def _grid_sample(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(original)
    def replacement(
        input: Tensor,
        grid: Tensor,
        mode: Mode = "bilinear",
        padding_mode: PaddingMode = "zeros",
        align_corners: bool | None = None,
    ) -> Tensor:
        if _is_ours(input, grid) and input.dim() == grid.dim() == 4:
            return grid_sample(input, grid, mode, padding_mode, align_corners)
        return original(input, grid, mode, padding_mode, align_corners)

    return replacement


# ---- Hugging Face transformers

_WITH_CLASS = (
    "deformable_detr grounding_dino lw_detr mm_grounding_dino omdet_turbo pp_doclayout_v2 pp_doclayout_v3 "
    "pp_doclayout_v4 rf_detr rt_detr"
).split()
_WITH_FUNCTION = "mask2former oneformer".split()
_WITH_SECOND_FUNCTION = "d_fine deimv2 rt_detr_v2".split()


def _patch_transformers() -> None:
    for models, name, wrap in (
        (_WITH_CLASS, "MultiScaleDeformableAttention", None),
        (_WITH_FUNCTION, "multi_scale_deformable_attention", _attention_of_lists),
        (_WITH_SECOND_FUNCTION, "multi_scale_deformable_attention_v2", _attention_of_point_counts),
    ):
        for model in models:
            module = _import(f"transformers.models.{model}.modeling_{model}")
            if not hasattr(module, name):  # another version of transformers
                continue
            if wrap is None:
                _replace(getattr(module, name), "forward", _attention_method)
            else:
                _replace(module, name, wrap)


def _import(name: str) -> Any:
    """The module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def _levels(spatial_shapes: Sequence[tuple[int, int]] | Tensor) -> tuple[Tensor, Tensor]:
    """Shapes and starts of the levels as tensors."""
    shapes = torch.as_tensor(spatial_shapes, dtype=torch.int64)
    areas = shapes[:, 0] * shapes[:, 1]
    return shapes, areas.cumsum(0) - areas


def _attention_method(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(original)
    def replacement(
        self: torch.nn.Module,
        value: Tensor,
        value_spatial_shapes: Tensor,
        value_spatial_shapes_list: list[tuple[int, int]],
        level_start_index: Tensor,
        sampling_locations: Tensor,
        attention_weights: Tensor,
        im2col_step: int,
    ) -> Tensor:
        if _is_ours(value, sampling_locations, attention_weights):
            return multi_scale_deformable_attention(
                value, value_spatial_shapes, level_start_index, sampling_locations, attention_weights
            )
        return original(
            self,
            value,
            value_spatial_shapes,
            value_spatial_shapes_list,
            level_start_index,
            sampling_locations,
            attention_weights,
            im2col_step,
        )

    return replacement


def _attention_of_lists(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(original)
    def replacement(
        value: Tensor,
        value_spatial_shapes: Tensor | list[tuple[int, int]],
        sampling_locations: Tensor,
        attention_weights: Tensor,
    ) -> Tensor:
        if _is_ours(value, sampling_locations, attention_weights):
            return multi_scale_deformable_attention(
                value, *_levels(value_spatial_shapes), sampling_locations, attention_weights
            )
        return original(value, value_spatial_shapes, sampling_locations, attention_weights)

    return replacement


def _attention_of_point_counts(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(original)
    def replacement(
        value: Tensor,
        value_spatial_shapes: list[tuple[int, int]],
        sampling_locations: Tensor,
        attention_weights: Tensor,
        num_points_list: list[int],
        method: str = "default",
    ) -> Tensor:
        if method != "default" or not _is_ours(value, sampling_locations, attention_weights):
            return original(value, value_spatial_shapes, sampling_locations, attention_weights, num_points_list, method)
        # A level with more points than others is several levels in the same place.
        points = math.gcd(*num_points_list)
        repeats = torch.tensor(num_points_list) // points
        shapes, starts = (array.repeat_interleave(repeats, 0) for array in _levels(value_spatial_shapes))
        return multi_scale_deformable_attention(
            value,
            shapes,
            starts,
            sampling_locations.unflatten(3, (-1, points)),
            attention_weights.unflatten(3, (-1, points)),
        )

    return replacement


# ---- mmcv


def _patch_mmcv() -> None:
    module = _import("mmcv.ops.multi_scale_deform_attn")
    if module is not None:
        _replace(module.MultiScaleDeformableAttnFunction, "apply", _attention_apply)
        _replace(module, "multi_scale_deformable_attn_pytorch", _attention_of_lists)


def _attention_apply(original: Callable[..., Tensor]) -> Any:
    def replacement(
        value: Tensor,
        value_spatial_shapes: Tensor,
        value_level_start_index: Tensor,
        sampling_locations: Tensor,
        attention_weights: Tensor,
        im2col_step: int = 64,
    ) -> Tensor:
        if _is_ours(value, sampling_locations, attention_weights):
            return multi_scale_deformable_attention(
                value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights
            )
        return original(
            value,
            value_spatial_shapes,
            value_level_start_index,
            sampling_locations,
            attention_weights,
            im2col_step,
        )

    return staticmethod(replacement)


_TARGETS: dict[Target, Callable[[], None]] = {
    "transformers": _patch_transformers,
    "mmcv": _patch_mmcv,
    "grid_sample": _patch_grid_sample,
}
