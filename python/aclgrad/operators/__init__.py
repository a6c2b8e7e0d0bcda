# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The operators, a folder for each: `__init__.py` has its functions over arrays, `torch.py` makes it one of PyTorch's.
They are found, not listed: all that `aclgrad`, its `reference`, `verify` and `torch` have comes from here."""

from importlib import import_module as _import_module
from pkgutil import iter_modules as _iter_modules

from .._registry import FUNCTIONS

NAMES = tuple(module.name for module in _iter_modules(__path__))
for _name in NAMES:
    _import_module(f"{__name__}.{_name}")

__all__ = list(FUNCTIONS)
globals().update({_name: _function.call for _name, _function in FUNCTIONS.items()})
