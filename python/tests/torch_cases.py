"""Calls of every function of aclgrad.torch, from the files in torch_operator_cases."""

import pathlib
from importlib import import_module

FILES = sorted(pathlib.Path(__file__).with_name("torch_operator_cases").glob("*.py"))
CALLS = {
    name: call for file in FILES for name, call in import_module(f"torch_operator_cases.{file.stem}").CALLS.items()
}
