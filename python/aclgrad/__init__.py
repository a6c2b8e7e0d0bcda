"""Operators of vision and language models with their gradients, fast and reproducible on CPUs.

Arrays go in and arrays come out: NumPy's, PyTorch's on the CPU, and whatever else has DLPack or the buffer protocol
(JAX on the CPU, memoryviews). Nothing is copied on the way in unless a kernel cannot use the layout. Results are
PyTorch tensors where the first array is one, else NumPy arrays; with `out=` they are written where you say, which must
share memory neither with an input nor with another result. Any strides will do. A masked array is refused.

Floating-point arrays of one call have one type: float32, float16, bfloat16 (of ml_dtypes or PyTorch) or float64. The
first three compute in float32 and round once. float64 computes in double, which is meant for checking and slow, except
for grid sampling. Indices are int32 or int64, in arrays or sequences; on the CPU their contents are checked.

Results have the same bits for any number of threads, any strides and run after run. Python's lock is released while
a kernel runs. What is wrong with an argument is a ValueError or TypeError that names function, argument, what was
expected and what came. None of these functions records gradients for PyTorch's autograd: a tensor that requires one is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias

from . import _core

if TYPE_CHECKING:
    import numpy

__version__: str = _core.__version__

__all__ = [
    "get_num_threads",
    "grid_sample",
    "grid_sample_backward",
    "grouped_bias_add",
    "grouped_bias_add_backward",
    "msda_backward",
    "msda_forward",
    "nsa_compress",
    "nsa_compress_backward",
    "set_num_threads",
]


class SupportsDLPack(Protocol):
    def __dlpack__(self, *, stream: Any = None) -> Any: ...


Array: TypeAlias = "numpy.ndarray[Any, Any] | SupportsDLPack | memoryview[Any]"
Indices: TypeAlias = "Array | Sequence[int] | Sequence[Sequence[int]]"
Mode = Literal["bilinear", "nearest", "bicubic"]
PaddingMode = Literal["zeros", "border", "reflection"]
GroupKind = Literal["ends", "counts"]


def msda_forward(
    value: Array,
    spatial_shapes: Indices,
    level_start_index: Indices,
    sampling_locations: Array,
    attention_weights: Array,
    *,
    out: Array | None = None,
) -> Any:
    """Multi-scale deformable attention: each query sums samples of several feature maps, with a weight for each.

    With B batches, S pixels in all levels, M heads, C channels of a head, Q queries, L levels and P points:

    Args:
        value: [B, S, M, C], the feature maps, one level after the other.
        spatial_shapes: [L, 2], height and width of each level.
        level_start_index: [L], the first row of each level in `value`.
        sampling_locations: [B, Q, M, L, P, 2] as (x, y), where 0 and 1 are the outer edges of a level.
        attention_weights: [B, Q, M, L, P].
        out: where the result shall go.

    Returns:
        [B, Q, M * C]. Samples are bilinear, and pixels outside of their level count as zero.
    """
    return _core.msda_forward(value, spatial_shapes, level_start_index, sampling_locations, attention_weights, out)


def msda_backward(
    grad_output: Array,
    value: Array,
    spatial_shapes: Indices,
    level_start_index: Indices,
    sampling_locations: Array,
    attention_weights: Array,
    *,
    needs: tuple[bool, bool, bool] = (True, True, True),
    out: Sequence[Array | None] | None = None,
) -> tuple[Any, Any, Any]:
    """The gradients of `msda_forward`.

    With B batches, S pixels in all levels, M heads, C channels of a head, Q queries, L levels and P points:

    Args:
        grad_output: [B, Q, M * C] or [B, Q, M, C], the gradient of the result.
        value: [B, S, M, C], the feature maps, one level after the other.
        spatial_shapes: [L, 2], height and width of each level.
        level_start_index: [L], the first row of each level in `value`.
        sampling_locations: [B, Q, M, L, P, 2] as (x, y), where 0 and 1 are the outer edges of a level.
        attention_weights: [B, Q, M, L, P].
        needs: whether the gradients of `value`, `sampling_locations` and `attention_weights` are wanted. What is not
            is None.
        out: where the three results shall go, or None for those that shall be new.

    Returns:
        The gradients of `value`, `sampling_locations` and `attention_weights`, of their shapes.
    """
    return _core.msda_backward(
        grad_output,
        value,
        spatial_shapes,
        level_start_index,
        sampling_locations,
        attention_weights,
        needs,
        out,
    )


def nsa_compress(
    x: Array,
    weight: Array,
    seq_ends: Indices | None,
    block: int,
    stride: int,
    *,
    out: Array | None = None,
) -> Any:
    """The key compression of native sparse attention: weighted sums over windows that slide along each sequence.

    Window k starts at token `stride * k` of its sequence and holds `block` tokens. A tail that fills no window is
    dropped. y[k, n, d] = sum over j < block of weight[j, n] * x[start of k + j, n, d].

    Args:
        x: [T, N, D], the tokens of all sequences, one sequence after the other, of N heads with D channels.
        weight: [block, N].
        seq_ends: the token after the last one of each sequence; the last entry is T. None: one sequence.
        block: tokens of a window.
        stride: tokens from one window of a sequence to the next.
        out: where the result shall go.

    Returns:
        [windows, N, D], sequence after sequence.
    """
    return _core.nsa_compress("seq_ends", x, weight, seq_ends, block, stride, out)


def nsa_compress_backward(
    grad_output: Array,
    x: Array,
    weight: Array,
    seq_ends: Indices | None,
    block: int,
    stride: int,
    *,
    needs: tuple[bool, bool] = (True, True),
    out: Sequence[Array | None] | None = None,
) -> tuple[Any, Any]:
    """The gradients of `nsa_compress`.

    Args:
        grad_output: [windows, N, D], the gradient of the result.
        x: [T, N, D], as for `nsa_compress`.
        weight: [block, N].
        seq_ends: the token after the last one of each sequence; the last entry is T. None: one sequence.
        block: tokens of a window.
        stride: tokens from one window of a sequence to the next.
        needs: whether the gradients of `x` and `weight` are wanted. What is not is None.
        out: where the two results shall go, or None for those that shall be new.

    Returns:
        The gradients of `x` and `weight`, of their shapes. Tokens that no window covers get exact zeros.
    """
    return _core.nsa_compress_backward("seq_ends", grad_output, x, weight, seq_ends, block, stride, needs, out)


def grid_sample(
    input: Array,
    grid: Array,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
    *,
    out: Array | None = None,
) -> Any:
    """Reads an image between its pixels, at the places that a grid names; as `torch.nn.functional.grid_sample`.

    Args:
        input: [N, C, H, W].
        grid: [N, Ho, Wo, 2] as (x, y), where -1 and 1 are the outer edges of the image, or the centres of its
            outermost pixels with `align_corners`. None means False, as for PyTorch's function.
        mode: how to interpolate.
        padding_mode: what a place outside of the image reads: zeros, the nearest pixel of the border, or the image
            mirrored.
        out: where the result shall go.

    Returns:
        [N, C, Ho, Wo]. A coordinate that is NaN or infinite gives NaN with bicubic. Else it gives 0 with zeros padding,
        and with the others pixel 0; but border padding brings an infinity to the border.
    """
    return _core.grid_sample(input, grid, mode, padding_mode, align_corners, out)


def grid_sample_backward(
    grad_output: Array,
    input: Array,
    grid: Array,
    mode: Mode = "bilinear",
    padding_mode: PaddingMode = "zeros",
    align_corners: bool | None = False,
    *,
    needs: tuple[bool, bool] = (True, True),
    out: Sequence[Array | None] | None = None,
) -> tuple[Any, Any]:
    """The gradients of `grid_sample`.

    Args:
        grad_output: [N, C, Ho, Wo], the gradient of the result.
        input: [N, C, H, W].
        grid: [N, Ho, Wo, 2] as (x, y), as for `grid_sample`.
        mode: how to interpolate.
        padding_mode: what a place outside of the image reads.
        align_corners: whether -1 and 1 are the centres of the outermost pixels.
        needs: whether the gradients of `input` and `grid` are wanted. What is not costs nothing and is None.
        out: where the two results shall go, or None for those that shall be new.

    Returns:
        The gradients of `input` and `grid`, of their shapes. A coordinate that is NaN or infinite contributes nothing
        and has a gradient of zero; only border padding, but for bicubic, brings an infinity to the border.
    """
    return _core.grid_sample_backward(grad_output, input, grid, mode, padding_mode, align_corners, needs, out)


def grouped_bias_add(
    x: Array,
    bias: Array,
    group_ends: Indices | None = None,
    *,
    kind: GroupKind = "ends",
    out: Array | None = None,
) -> Any:
    """Adds to each row the bias of its group, as behind the matrix products of a mixture of experts.

    Args:
        x: [R, H], rows sorted by group; [G, R, H] without `group_ends`, for G groups of R rows.
        bias: [G, H].
        group_ends: [G], the row after the last one of each group, or with `kind="counts"` the number of its rows.
            Rows after the last group stay as they are.
        out: where the result shall go.

    Returns:
        As `x`.
    """
    return _core.grouped_bias_add(x, bias, group_ends, kind, out)


def grouped_bias_add_backward(
    grad_y: Array,
    group_ends: Indices | None = None,
    kind: GroupKind = "ends",
    *,
    out: Array | None = None,
) -> Any:
    """The gradient of `grouped_bias_add` for `bias`: the sum of each group's rows. That for `x` is `grad_y` itself.

    Args:
        grad_y: [R, H], or [G, R, H] without `group_ends`: the gradient of the result.
        group_ends: [G], the row after the last one of each group, or with `kind="counts"` the number of its rows.
        out: where the result shall go.

    Returns:
        [G, H]. An empty group has zeros.
    """
    return _core.grouped_bias_add_backward(grad_y, group_ends, kind, out)


_INT_MAX = 2**31 - 1


def get_num_threads() -> int:
    """How many threads one call may use.

    It starts as ACLGRAD_NUM_THREADS, else as the number of processors that the process may use by its affinity and the
    quota of its control group. In a process that was forked after a call had used threads it is 1.
    """
    return _core.thread_count()


def set_num_threads(count: int | None) -> None:
    """Sets how many threads later calls may use; None for the number at the start. It changes no result.

    More than 8 for each processor that the process may use count as 8. A forked process, see `get_num_threads`, stays
    with 1.
    """
    if count is None:
        count = 0
    elif not isinstance(count, SupportsIndex):
        raise TypeError(f"aclgrad.set_num_threads: count: expected an integer or None, got {count!r}")
    elif index(count) < 1:
        raise ValueError(f"aclgrad.set_num_threads: count: expected at least 1 or None, got {count}")
    _core.set_thread_count(min(index(count), _INT_MAX))
