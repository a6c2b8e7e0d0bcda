# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The functions that the operators have for PyTorch."""

from importlib import import_module as _import_module

from ..operators import NAMES as _NAMES

_modules = [_import_module(f"aclgrad.operators.{_name}.torch") for _name in _NAMES]
__all__ = [_name for _module in _modules for _name in _module.__all__]
globals().update({_name: getattr(_module, _name) for _module in _modules for _name in _module.__all__})
