# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What the installed package is made of."""

import doctest
import importlib
import pathlib
import subprocess
import sys

import aclgrad
import aclgrad.reference  # noqa: F401  whose examples are run, too
import pytest
from aclgrad import _core

FOLDER = pathlib.Path(aclgrad.__file__).parent


def test_libraries_come_from_the_package():
    listing = subprocess.run(["ldd", _core.__file__], capture_output=True, text=True, check=True).stdout
    system = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libstdc++.so", "libgcc_s.so")
    for line in listing.splitlines():
        name = line.split()[0]
        if not pathlib.Path(name).name.startswith(system):
            assert str(FOLDER) in line, line


def test_what_others_wrote_comes_with_its_licence():
    licences = {path.stem for path in (FOLDER / "licenses").iterdir()}
    assert licences == {"Highway", "fmt", "nanobind", "nlohmann-json", "oneTBB", "robin-map"}


def test_types_and_the_module_of_the_extension_come_with_it():
    for file in ("py.typed", "_core.pyi", "../MultiScaleDeformableAttention.py"):
        assert (FOLDER / file).exists()


def test_a_program_passes_a_strict_type_checker(tmp_path):
    api = pytest.importorskip("mypy.api")
    program = pathlib.Path(__file__).with_name("typed_program.py")
    report, errors, status = api.run(["--strict", "--cache-dir", str(tmp_path), str(program)])
    assert status == 0, report + errors


def test_the_package_passes_a_strict_type_checker(tmp_path):
    """But for aclgrad.torch, which needs PyTorch."""
    api = pytest.importorskip("mypy.api")
    modules = [f"--module={name}" for name in ("aclgrad", "aclgrad.reference", "aclgrad.verify", "aclgrad.__main__")]
    report, errors, status = api.run(["--strict", "--cache-dir", str(tmp_path), *modules])
    assert status == 0, report + errors


def test_free_threaded_python_is_refused():
    program = "import sys; sys.abiflags = 't'; import aclgrad"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    expected = "ImportError: aclgrad needs a Python with the global interpreter lock, got a free-threaded one"
    assert run.stderr.splitlines()[-1] == expected


# ---- The examples in the documentation of all that is public

MODULES = ["aclgrad", "aclgrad.torch", "aclgrad.torch.ms_deform_attn", "aclgrad.torch.npu"]
# What is said of the whole module stands for its functions.
ALL_AT_ONCE = ["aclgrad.reference", "aclgrad.verify"]


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
    module = importlib.import_module(name)
    assert module.__all__
    for function in module.__all__:
        run(getattr(module, function), f"{name}.{function}")


@pytest.mark.parametrize("name", ALL_AT_ONCE)
def test_module_has_an_example(name):
    run(importlib.import_module(name), name)
