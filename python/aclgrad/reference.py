# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The functions of aclgrad as plain loops in double precision, to compare fast code with.

Arguments are those of the functions of the same names in `aclgrad`, without `output_mask` and `out`: arrays of any
floating-point types, which need not be the same and are widened first, of any library and device, with or without a
gradient. Results are new float64 NumPy arrays. Positions are computed in float32 unless the arrays are float64 or wider.

>>> import aclgrad.reference, numpy
>>> aclgrad.reference.nsa_compress(numpy.ones((6, 1, 1), numpy.float16), numpy.ones((4, 1)), None, 4, 2).ravel()
array([4., 4.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from . import _core
from . import operators as _operators
from ._registry import FUNCTIONS, Function, as_numpy


def _reference_of(function: Function) -> Callable[..., Any]:
    name = f"reference.{function.name}"
    # Where there is none, that of float64 is the reference.
    in_double = getattr(_core, f"reference_{function.name}", None)

    def reference(*arguments: Any, **keywords: Any) -> Any:
        try:
            bound = function.signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"aclgrad.{name}: {error}") from None
        bound.apply_defaults()
        values = bound.arguments
        absent = {array for array in function.optional_inputs if values[array] is None}
        floats = {array: as_numpy(name, array, values[array]) for array in function.floats if array not in absent}
        values |= {array: floats[array].astype(numpy.float64, copy=False) for array in floats}
        if in_double is None:
            return function.call(**values)
        first = next(array for array in floats if array != "grad_output")
        return in_double(*values.values(), floats[first].dtype.itemsize >= 8)

    reference.__name__ = reference.__qualname__ = function.name
    reference.__doc__ = f"See `aclgrad.{function.name}`."
    reference.__signature__ = function.signature  # type: ignore[attr-defined]
    return reference


__all__ = list(_operators.__all__)
globals().update({name: _reference_of(FUNCTIONS[name]) for name in __all__})
