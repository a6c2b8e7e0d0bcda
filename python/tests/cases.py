# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Calls of every function, from the files in operator_cases."""

import pathlib
from importlib import import_module

FILES = sorted(pathlib.Path(__file__).with_name("operator_cases").glob("*.py"))
CASES = {name: case for file in FILES for name, case in import_module(f"operator_cases.{file.stem}").CASES.items()}
