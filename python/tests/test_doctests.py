# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The examples in the documentation of all that is public."""

import doctest
import importlib

import aclgrad
import aclgrad.reference  # noqa: F401  whose examples are run, too
import pytest

MODULES = ["aclgrad", "aclgrad.torch", "aclgrad.torch.ms_deform_attn", "aclgrad.torch.npu"]
# What is said of the whole module stands for its functions.
ALL_AT_ONCE = ["aclgrad.reference", "aclgrad.verify"]


def functions_of(module):
    return [getattr(module, name) for name in module.__all__]


def run(documented, name):
    (test,) = doctest.DocTestFinder(recurse=False).find(documented, name, globs={})
    assert test.examples, f"{name} has no example"
    report = []
    doctest.DocTestRunner().run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_function_has_an_example(name):
    if ".torch" in name:
        pytest.importorskip("torch")
    functions = functions_of(importlib.import_module(name))
    assert functions
    for function in functions:
        run(function, f"{name}.{function.__name__}")


@pytest.mark.parametrize("name", ALL_AT_ONCE)
def test_module_has_an_example(name):
    run(importlib.import_module(name), name)
