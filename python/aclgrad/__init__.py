# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Operators of vision and language models with their gradients, fast and reproducible on CPUs.

Arrays go in and arrays come out: NumPy's, PyTorch's on the CPU, and whatever else has DLPack or the buffer protocol
(JAX on the CPU, memoryviews). Results are PyTorch tensors where the first array is one, else NumPy arrays. They are
bitwise the same for any number of threads, any strides and run after run. None of these functions records gradients for
PyTorch's autograd: a tensor that requires one is refused. The documentation's page on Python says what else holds for
all of them: types, copies, `out`, errors, threads and forks.
"""

from __future__ import annotations

import sys
from operator import index
from typing import SupportsIndex

if "t" in sys.abiflags:
    raise ImportError("aclgrad needs a Python with the global interpreter lock, got a free-threaded one", name=__name__)

from . import _core, operators
from ._registry import Array as Array
from ._registry import Indices as Indices
from .operators import *  # noqa: F403

__version__: str = _core.VERSION

__all__ = ["get_num_threads", "set_num_threads"]
__all__ += operators.__all__

_INT_MAX = 2**31 - 1


def get_num_threads() -> int:
    """How many threads one call may use.

    It starts as ACLGRAD_NUM_THREADS, else as the number of processors that the process may use by its affinity and the
    quota of its control group. In a process that was forked after a call had used threads it is 1.

    >>> import aclgrad
    >>> aclgrad.get_num_threads() >= 1
    True
    """
    return _core.thread_count()


def set_num_threads(count: int | None) -> None:
    """Sets how many threads later calls may use, or with None the number at the start. No result depends on it.

    More than 8 for each processor that the process may use count as 8. A forked process, see `get_num_threads`, stays
    with 1.

    >>> import aclgrad
    >>> aclgrad.set_num_threads(2)
    >>> aclgrad.get_num_threads()
    2
    >>> aclgrad.set_num_threads(None)
    """
    if count is None:
        count = 0
    elif not isinstance(count, SupportsIndex):
        raise TypeError(f"aclgrad.set_num_threads: count: expected an integer or None, got {count!r}")
    elif index(count) < 1:
        raise ValueError(f"aclgrad.set_num_threads: count: expected at least 1 or None, got {count}")
    _core.set_thread_count(min(index(count), _INT_MAX))
