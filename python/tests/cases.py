# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Calls of every function, from the files in operator_cases."""

import pathlib
from importlib import import_module

FILES = sorted(pathlib.Path(__file__).with_name("operator_cases").glob("*.py"))
MODULES = [import_module(f"operator_cases.{file.stem}") for file in FILES]
CASES = {name: case for module in MODULES for name, case in module.CASES.items()}
