# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Makes code that others wrote use the operators of aclgrad, on CPUs and GPUs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import math
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .. import _core
from ..operators.grid_sampler.torch import MODES, PADDING_MODES, grid_sample
from ..operators.multi_scale_deformable_attention.torch import multi_scale_deformable_attention
from .checks import message
from .ms_deform_attn import ms_deform_attn_backward, ms_deform_attn_forward
from .registration import is_exported_to_onnx

Target: TypeAlias = Literal[
    "transformers", "mmcv", "ultralytics", "detrex", "groundingdino", "rfdetr", "adet", "loaded", "grid_sample"
]


@dataclasses.dataclass(frozen=True)
class _Replaced:
    original: Any  # _INHERITED where the owner had it from its base class
    ours: Any


_INHERITED = object()
_replaced: dict[tuple[Any, str], _Replaced] = {}
"""What is replaced at present, by its owner and name."""


def patch(*targets: Target, verbose: bool = False) -> list[str]:
    """Replaces the implementations of others by ours, in this process and until `unpatch`.

    What ours cannot do still goes to the original: other devices than the CPU and, where aclgrad was built with CUDA,
    GPUs; subclasses such as DTensor; other numbers of axes; types that differ. Where a coordinate is NaN or infinite,
    results may differ from PyTorch's on CPUs: see `grid_sample` and `multi_scale_deformable_attention`. `python -m
    aclgrad.torch` lists what is found.

    Args:
        targets: any of the following; all of them by default. What cannot be imported is left out, with a warning if
            it was named.

            - `transformers`: multi-scale deformable attention in Hugging Face's Deformable DETR, RT-DETR (1 and 2),
              Grounding DINO, MM Grounding DINO, Mask2Former, OneFormer, OmDet-Turbo, LW-DETR, RF-DETR and PP-DocLayout.
              D-FINE and DEIMv2 keep the function that they found when the model was built. RT-DETRv2's discrete
              sampling stays as it is.
            - `mmcv`, `detrex`, `groundingdino`: their `MultiScaleDeformableAttnFunction` and
              `multi_scale_deformable_attn_pytorch`. mmcv's extension need not be installed (mmcv-lite): `mmcv.ops` can
              be imported then. What stands for `mmcv._ext` has deformable attention, which BEVFormer calls itself; its
              other functions raise ImportError when they are called. The same holds for `detrex._C`.
            - `ultralytics`: `multi_scale_deformable_attn_pytorch`, of RT-DETR.
            - `rfdetr`: `ms_deform_attn_core_pytorch`.
            - `adet`: `ms_deform_attn_forward` and `ms_deform_attn_backward` of `adet._C` (DeepSolo and others of
              AdelaiDet's family), which need not be installed.
            - `loaded`: in all modules that are imported by now, `deformable_attention_core_func` and
              `deformable_attention_core_func_v2` (RT-DETR, D-FINE and DEIM), which are known by the names of their
              parameters, and `ms_deform_attn_forward` and `ms_deform_attn_backward` of an extension of any name. Models
              of RT-DETRv2, D-FINE and DEIM keep the functions that they found when they were built.
            - `grid_sample`: `torch.nn.functional.grid_sample`, `torch.grid_sampler`, `torch.grid_sampler_2d` and
              `torch.grid_sampler_3d`, but for calls in float32 or float64 on a CPU that PyTorch computes as fast or
              faster: few samples, and in images bilinear with one channel and nearest with fewer than 4.
        verbose: prints what is replaced and which targets are left out.

    Returns:
        The full names of what was replaced, and had not been before.

    >>> import torch, aclgrad.torch
    >>> aclgrad.torch.patch("grid_sample")
    ['torch.nn.functional.grid_sample', 'torch.grid_sampler', 'torch.grid_sampler_2d', 'torch.grid_sampler_3d']
    >>> torch.nn.functional.grid_sample(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[1.]]]])
    >>> aclgrad.torch.unpatch()
    """
    for target in targets:
        if not isinstance(target, str) or target not in TARGETS:
            raise ValueError(message("torch.patch", "targets", ", ".join(TARGETS), target))
    before = dict(_replaced)
    names, left_out = [], []
    try:
        for target in targets or tuple(TARGETS):
            found = find(target)
            names += [full_name for place, full_name, *at in found if _replace(*at, place.wrap)]
            if not found:
                left_out.append(f"{target}: {why_not_found(target)}")
    except BaseException:
        _return_to(before)
        raise
    for line in left_out if targets else ():
        warnings.warn(f"aclgrad.torch.patch: {line}", stacklevel=2)
    for line in [*names, *left_out] if verbose else ():
        print(line)
    return names


def unpatch() -> None:
    """Undoes `patch`. A function that replaced ours since then stays.

    >>> import torch, aclgrad.torch
    >>> original = torch.nn.functional.grid_sample
    >>> names = aclgrad.torch.patch("grid_sample")
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


def _replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> bool:
    """Sets an attribute of a module or class to what `wrap` makes of it, unless that was done before."""
    original = vars(owner).get(name, _INHERITED)
    known = _replaced.get((owner, name))
    if known is not None and original is known.ours:  # it is not where the module was reloaded
        return False
    _put(owner, name, _Replaced(original, wrap(getattr(owner, name))))
    return True


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
    first = tensors[0]
    if not isinstance(first, Tensor):
        return False
    device, dtype = first.device, first.dtype
    have_one_type = True
    for tensor in tensors:
        if not (isinstance(tensor, Tensor) and tensor.device == device and tensor.dtype in _TYPES):
            return False
        if type(tensor) is not Tensor and is_traceable_wrapper_subclass(tensor):  # such as DTensor
            return False
        have_one_type &= tensor.dtype == dtype
    if is_exported_to_onnx() or not (first.is_cpu or (first.is_cuda and device.index < _gpu_count())):
        return False
    return (have_one_type or torch.is_autocast_enabled(device.type)) and not _is_functionalized()


@torch.compiler.assume_constant_result
def _is_functionalized() -> bool:
    """Within `torch.func.functionalize`, for which an autograd.Function has no rule."""
    functorch = torch._C._functorch
    return torch._C._are_functorch_transforms_active() and any(
        level.key() == functorch.TransformType.Functionalize for level in functorch.get_interpreter_stack()
    )


@torch.compiler.assume_constant_result
def _gpu_count() -> int:
    """How many GPUs have our kernels. Asked where a tensor lies on one: to ask starts CUDA, which no fork survives."""
    return _core.cuda_device_count() if hasattr(Tensor, "__dlpack_c_exchange_api__") else 0


_TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


# ---- Where others have what ours replaces


@dataclasses.dataclass(frozen=True)
class _Place:
    """A function of a module, or a method of a class in it."""

    module: str
    name: str
    wrap: Callable[[Any], Any]
    is_optional: bool = False  # as not every version has it

    def find(self) -> Iterator[tuple[str, Any, str]]:
        """Its full name, its owner and its name there; nothing where it cannot be imported."""
        owner = _import(self.module)
        if owner is None:
            return
        *path, name = self.name.split(".")
        try:
            for part in path:
                owner = getattr(owner, part)
            getattr(owner, name)
        except (AttributeError, ImportError):  # what stands for a class whose extension is missing raises the latter
            if self.is_optional:
                return
            raise
        yield f"{self.module}.{self.name}", owner, name


@dataclasses.dataclass(frozen=True)
class _Loaded:
    """A function of this name in whatever modules have one, which import it from each other. It is known by the names
    of its first parameters, or that of an extension, which does not always tell them, by their number."""

    name: str
    parameters: tuple[str, ...] | int
    wrap: Callable[[Any], Any]

    def find(self) -> Iterator[tuple[str, Any, str]]:
        for module_name, module in list(sys.modules.items()):
            function = vars(module).get(self.name) if isinstance(module, types.ModuleType) else None
            if callable(function) and function not in _OURS and self._has_parameters(function):
                yield f"{module_name}.{self.name}", module, self.name

    def _has_parameters(self, function: Callable[..., Any]) -> bool:
        try:
            names = tuple(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            return isinstance(self.parameters, int)
        if isinstance(self.parameters, int):
            return len(names) == self.parameters
        return names[: len(self.parameters)] == self.parameters


_OURS = ms_deform_attn_forward, ms_deform_attn_backward


def _import(name: str) -> Any:
    """The module, or None where it cannot be imported, for whatever reason: then nobody else can use it either."""
    with contextlib.suppress(Exception):
        return importlib.import_module(name)
    package = name.partition(".")[0]
    extension = _EXTENSIONS.get(package)
    if extension is None or extension.__name__ in sys.modules or not _is_installed(package):
        return None
    sys.modules[extension.__name__] = extension
    with contextlib.suppress(Exception):
        return importlib.import_module(name)
    del sys.modules[extension.__name__]
    return None


def _write_gradients(
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    grad_output: Tensor,
    grad_value: Tensor,
    grad_sampling_loc: Tensor,
    grad_attn_weight: Tensor,
    im2col_step: int,
) -> None:
    """The extension of mmcv gets the gradients as tensors to write."""
    inputs = value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights
    gradients = ms_deform_attn_backward(*inputs, grad_output, im2col_step)
    for given, gradient in zip((grad_value, grad_sampling_loc, grad_attn_weight), gradients, strict=True):
        given.copy_(gradient)


class _MissingExtension(types.ModuleType):
    """Stands for an extension that a package cannot be imported without, or has no class without. It has deformable
    attention, which BEVFormer takes from mmcv's, and DeepSolo from adet's."""

    def __init__(self, name: str, backward: Callable[..., Any]) -> None:
        super().__init__(name)
        self.ms_deform_attn_forward = ms_deform_attn_forward
        self.ms_deform_attn_backward = backward

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*arguments: Any, **keywords: Any) -> Any:
            text = f"{self.__name__}.{name}: the extension of {self.__name__.partition('.')[0]} is not installed"
            raise ImportError(text, name=self.__name__)

        return missing


_EXTENSIONS = {
    "mmcv": _MissingExtension("mmcv._ext", _write_gradients),
    "adet": _MissingExtension("adet._C", ms_deform_attn_backward),
    "detrex": _MissingExtension("detrex._C", ms_deform_attn_backward),
}


def find(target: Target) -> list[tuple[_Place | _Loaded, str, Any, str]]:
    """The functions and methods that `patch` replaces: the full name of each, its owner, and its name there."""
    return [(place, *found) for place in TARGETS[target] for found in place.find()]


def package_of(target: Target) -> str:
    return "torch" if target in ("grid_sample", "loaded") else target


def why_not_found(target: Target) -> str:
    if target == "loaded":
        return "no module that is imported has such functions"
    return "installed, but cannot be imported" if _is_installed(package_of(target)) else "not installed"


def _is_installed(package: str) -> bool:
    return sys.modules.get(package) is not None or importlib.util.find_spec(package) is not None


# ---- torch.nn.functional


def _has_kernel(input: Tensor, grid: Tensor, mode: str, ranks: Sequence[int] = (4, 5)) -> bool:
    """Whether there are images to sample, or volumes, which have no bicubic mode."""
    rank = input.dim()
    return rank == grid.dim() and rank in ranks and isinstance(mode, str) and (rank == 4 or mode != "bicubic")


# By the axes and the mode: the least channels, elements of a result and samples of an image, from which on our kernels
# were faster than PyTorch's, forward and backward, where the image has not many more pixels than are sampled.
_FASTER_FROM = {
    (4, "bilinear"): (2, 2**15, 9),
    (4, "nearest"): (4, 2**20, 49),
    (4, "bicubic"): (1, 2**11, 16),
    (5, "bilinear"): (1, 2**12, 8),
    (5, "nearest"): (1, 2**12, 27),
}
_MAX_PIXELS_FOR_EACH_SAMPLE = 8


def _is_faster(input: Tensor, grid: Tensor, mode: str) -> bool:
    """Whether our kernels are, where PyTorch has any. Programs of `torch.jit.trace`, `torch.compile` and `torch.export`
    always have ours: they may be called with other sizes."""
    if input.dtype not in (torch.float32, torch.float64) or not input.is_cpu:
        return True
    if torch.compiler.is_compiling() or torch._C._is_tracing() or _derives_beyond_pytorch():
        return True
    if (rule := _FASTER_FROM.get((input.dim(), mode))) is None:
        return False
    min_channels, min_elements, min_samples = rule
    batch, channels, *sides = input.shape
    samples = grid.numel() // max(grid.shape[-1], 1)
    if channels < min_channels or samples * channels < min_elements or samples < batch * min_samples:
        return False
    return batch * math.prod(sides) <= samples * _MAX_PIXELS_FOR_EACH_SAMPLE


def _derives_beyond_pytorch() -> bool:
    """PyTorch's operator has no derivative along a tangent, and transforms need one."""
    return forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()


def _grid_sample(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    about_default_corners = _warnings_about_default_corners(original)

    def replacement(
        input: Tensor,
        grid: Tensor,
        mode: str = "bilinear",
        padding_mode: str = "zeros",
        align_corners: bool | None = None,
    ) -> Tensor:
        if not torch.jit.is_scripting():  # type: ignore[attr-defined]
            if torch.overrides.has_torch_function_variadic(input, grid):
                # A subclass without a handler calls the original. That calls `torch.grid_sampler`, which is replaced, too.
                return torch.overrides.handle_torch_function(
                    original,
                    (input, grid),
                    input,
                    grid,
                    mode=mode,
                    padding_mode=padding_mode,
                    align_corners=align_corners,
                )
            if align_corners is None and not torch.compiler.is_compiling():
                for message in about_default_corners:
                    warnings.warn(message, stacklevel=2)
                align_corners = False
            if _is_ours(input, grid) and _has_kernel(input, grid, mode) and _is_faster(input, grid, mode):
                return grid_sample(input, grid, mode, padding_mode, align_corners)  # type: ignore[arg-type]
        return original(input, grid, mode, padding_mode, align_corners)

    functools.update_wrapper(replacement, original)
    # Of this torch.jit.script would take the source.
    del replacement.__wrapped__  # type: ignore[attr-defined]
    return replacement


def _warnings_about_default_corners(original: Callable[..., Tensor]) -> list[str]:
    """What PyTorch's function itself says, so that filters of warnings know it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        original(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 2))
    return [str(warning.message) for warning in caught]


def _is_mode(number: object) -> bool:
    return isinstance(number, int) and 0 <= number < len(MODES)


def _grid_sampler(*ranks: int) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """With numbers for the modes, as the functions behind `grid_sample` have them. `ranks` are of their tensors."""

    def wrap(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def replacement(
            input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
        ) -> Tensor:
            if not torch.jit.is_scripting():  # type: ignore[attr-defined]
                if torch.overrides.has_torch_function_variadic(input, grid):
                    return torch.overrides.handle_torch_function(
                        original, (input, grid), input, grid, interpolation_mode, padding_mode, align_corners
                    )
                if _is_mode(interpolation_mode) and _is_mode(padding_mode) and _is_ours(input, grid):
                    mode = MODES[interpolation_mode]
                    if _has_kernel(input, grid, mode, ranks) and _is_faster(input, grid, mode):
                        return grid_sample(input, grid, mode, PADDING_MODES[padding_mode], align_corners)
            return original(input, grid, interpolation_mode, padding_mode, align_corners)

        name = original.__name__
        # By these pickle finds it.
        replacement.__module__, replacement.__name__, replacement.__qualname__ = "torch", name, name
        return replacement

    return wrap


# ---- Deformable attention


_Shapes: TypeAlias = Sequence[tuple[int, int]] | Tensor


def _levels(spatial_shapes: _Shapes, device: torch.device, times: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    """Shapes and starts of the levels as tensors on the device. `times`, where given, repeats each level."""
    is_traced = torch.compiler.is_compiling() or type(torch.empty(0)) is not Tensor
    if device.type == "cpu" or isinstance(spatial_shapes, Tensor) or is_traced:
        return _new_levels(spatial_shapes, device, times)
    return _kept_levels(tuple(map(tuple, spatial_shapes)), device, tuple(times))


def _new_levels(spatial_shapes: _Shapes, device: torch.device, times: Sequence[int]) -> tuple[Tensor, Tensor]:
    here = spatial_shapes.device if isinstance(spatial_shapes, Tensor) else "cpu"  # whatever the default device is
    shapes = torch.as_tensor(spatial_shapes, dtype=torch.int64, device=here)
    areas = shapes[:, 0] * shapes[:, 1]
    starts = areas.cumsum(0) - areas
    if times:
        levels = [level for level, count in enumerate(times) for _ in range(count)]
        shapes, starts = shapes[levels], starts[levels]
    return shapes.to(device), starts.to(device)


@functools.cache
def _kept_levels(
    spatial_shapes: tuple[tuple[int, int], ...], device: torch.device, times: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """To bring them to a GPU waits for it, which each layer would do, and no CUDA graph can capture. They are kept for
    good, as graphs that were captured read them.

    A thread of its own has no transform and no inference mode on, outside of which they could not be used."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_new_levels, spatial_shapes, device, times).result()


def _replaces(ours: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`ours` returns NotImplemented where a call is the original's. torch.jit.script takes the original, too: of
    `__wrapped__` it reads the source, whose names it looks up where the original stands."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def replacement(*arguments: Any, **keywords: Any) -> Any:
            result = ours(*arguments, **keywords)
            return original(*arguments, **keywords) if result is NotImplemented else result

        names = getattr(original, "__globals__", globals())
        there = types.FunctionType(replacement.__code__, names, None, None, replacement.__closure__)
        return functools.wraps(original)(there)

    return wrap


def _attention_of_tensors(
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int = 64,
) -> Tensor:
    """As extensions have it, and the `apply` of autograd.Functions that call them."""
    if not _is_ours(value, sampling_locations, attention_weights):
        return NotImplemented
    return multi_scale_deformable_attention(
        value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights
    )


def _attention_gradients(*arguments: Any, **keywords: Any) -> Any:
    """As extensions have them that return them: mmcv's writes them."""
    if len(arguments) != 7 or keywords or not _is_ours(arguments[0], *arguments[3:6]):
        return NotImplemented
    return ms_deform_attn_backward(*arguments)


def _attention_method(
    self: torch.nn.Module,
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_spatial_shapes_list: list[tuple[int, int]],
    level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> Tensor:
    return _attention_of_tensors(value, value_spatial_shapes, level_start_index, sampling_locations, attention_weights)


def _attention_of_lists(
    value: Tensor, value_spatial_shapes: _Shapes, sampling_locations: Tensor, attention_weights: Tensor
) -> Tensor:
    """Levels and points may be one axis."""
    if not _is_ours(value, sampling_locations, attention_weights):
        return NotImplemented
    shapes, starts = _levels(value_spatial_shapes, value.device)
    if sampling_locations.dim() == 5:
        sampling_locations = sampling_locations.unflatten(3, (len(shapes), -1))
    if attention_weights.dim() == 4:
        attention_weights = attention_weights.unflatten(3, (len(shapes), -1))
    return multi_scale_deformable_attention(value, shapes, starts, sampling_locations, attention_weights)


def _attention_by_channels(
    value: Tensor,
    value_spatial_shapes: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    value_spatial_shapes_hw: list[tuple[int, int]] | None = None,
) -> Tensor:
    """Where `value` is [B, M, C, S]."""
    shapes = value_spatial_shapes if value_spatial_shapes_hw is None else value_spatial_shapes_hw
    return _attention_of_lists(value.permute(0, 3, 1, 2), shapes, sampling_locations, attention_weights)


def _attention_of_point_counts(
    value: Tensor | Sequence[Tensor],
    value_spatial_shapes: list[tuple[int, int]],
    sampling_locations: Tensor,
    attention_weights: Tensor,
    num_points_list: list[int],
    method: str = "default",
    value_shape: str = "default",
) -> Tensor:
    """`value` may be levels of [B, M, C, pixels]."""
    if method != "default":
        return NotImplemented
    if not isinstance(value, Tensor):
        value = torch.cat(tuple(value), -1).permute(0, 3, 1, 2)
    if not _is_ours(value, sampling_locations, attention_weights):
        return NotImplemented
    # A level with more points than others is several levels in the same place.
    points = math.gcd(*num_points_list)
    times = [count // points for count in num_points_list]
    shapes, starts = _levels(value_spatial_shapes, value.device, times)
    locations = sampling_locations.unflatten(3, (-1, points))
    return multi_scale_deformable_attention(
        value, shapes, starts, locations, attention_weights.unflatten(3, (-1, points))
    )


# ---- What there is to replace

_WITH_CLASS = (
    "deformable_detr grounding_dino lw_detr mm_grounding_dino omdet_turbo pp_doclayout_v2 pp_doclayout_v3 "
    "pp_doclayout_v4 rf_detr rt_detr"
).split()
_WITH_FUNCTION = "mask2former oneformer".split()
_WITH_SECOND_FUNCTION = "d_fine deimv2 rt_detr_v2".split()


def _of_transformers() -> Iterator[_Place]:
    for models, name, ours in (
        (_WITH_CLASS, "MultiScaleDeformableAttention.forward", _attention_method),
        (_WITH_FUNCTION, "multi_scale_deformable_attention", _attention_of_lists),
        (_WITH_SECOND_FUNCTION, "multi_scale_deformable_attention_v2", _attention_of_point_counts),
    ):
        for model in models:
            yield _Place(f"transformers.models.{model}.modeling_{model}", name, _replaces(ours), is_optional=True)


def _of_mmcv(module: str, has_extension: bool = True) -> tuple[_Place, ...]:
    """mmcv's, which others took over, some of them without the extension."""
    return (
        _Place(
            module,
            "MultiScaleDeformableAttnFunction.apply",
            lambda original: staticmethod(_replaces(_attention_of_tensors)(original)),
            is_optional=not has_extension,
        ),
        _Place(module, "multi_scale_deformable_attn_pytorch", _replaces(_attention_of_lists)),
    )


def _in_modules(name: str, ours: Callable[..., Any], *modules: str) -> tuple[_Place, ...]:
    """A function that modules import from each other by its name."""
    return tuple(_Place(module, name, _replaces(ours)) for module in modules)


_OF_EXTENSION = {
    "ms_deform_attn_forward": (_attention_of_tensors, 6),
    "ms_deform_attn_backward": (_attention_gradients, 7),
}


def _of_extension(module: str) -> tuple[_Place, ...]:
    return tuple(_Place(module, name, _replaces(ours)) for name, (ours, _) in _OF_EXTENSION.items())


_BY_LEVELS = "value", "value_spatial_shapes", "sampling_locations", "attention_weights"

TARGETS: dict[Target, tuple[_Place | _Loaded, ...]] = {
    "transformers": tuple(_of_transformers()),
    "mmcv": _of_mmcv("mmcv.ops.multi_scale_deform_attn"),
    "ultralytics": _in_modules(
        "multi_scale_deformable_attn_pytorch",
        _attention_of_lists,
        "ultralytics.nn.modules.utils",
        "ultralytics.nn.modules.transformer",
    ),
    "detrex": (*_of_extension("detrex._C"), *_of_mmcv("detrex.layers.multi_scale_deform_attn", has_extension=False)),
    "groundingdino": _of_mmcv("groundingdino.models.GroundingDINO.ms_deform_attn", has_extension=False),
    "rfdetr": _in_modules(
        "ms_deform_attn_core_pytorch",
        _attention_by_channels,
        "rfdetr.models.ops.functions.ms_deform_attn_func",
        "rfdetr.models.ops.functions",
        "rfdetr.models.ops.modules.ms_deform_attn",
    ),
    "adet": _of_extension("adet._C"),
    "loaded": (
        _Loaded("deformable_attention_core_func", _BY_LEVELS, _replaces(_attention_of_lists)),
        _Loaded(
            "deformable_attention_core_func_v2", (*_BY_LEVELS, "num_points_list"), _replaces(_attention_of_point_counts)
        ),
        *(_Loaded(name, count, _replaces(ours)) for name, (ours, count) in _OF_EXTENSION.items()),
    ),
    "grid_sample": (
        _Place("torch.nn.functional", "grid_sample", _grid_sample),
        _Place("torch", "grid_sampler", _grid_sampler(4, 5)),
        _Place("torch", "grid_sampler_2d", _grid_sampler(4)),
        _Place("torch", "grid_sampler_3d", _grid_sampler(5)),
    ),
}
