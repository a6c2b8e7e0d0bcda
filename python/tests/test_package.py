# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What the installed package is made of."""

import pathlib
import subprocess
import sys

import aclgrad
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


def test_the_module_of_the_extension_lies_beside_the_package():
    assert (FOLDER.parent / "MultiScaleDeformableAttention.py").exists()


def test_package_is_typed():
    assert (FOLDER / "py.typed").exists() and (FOLDER / "_core.pyi").exists()


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
