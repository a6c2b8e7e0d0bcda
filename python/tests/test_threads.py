# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Calls from many threads."""

import pathlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import aclgrad
import numpy
import pytest
from case import bits
from cases import CASES


def test_other_threads_run_during_a_call():
    """The reference in double precision takes long enough for this thread to look several times."""
    generator = numpy.random.default_rng(0)
    x, weight = generator.standard_normal((20000, 8, 16)), generator.standard_normal((64, 8))
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(aclgrad.nsa_compress, x, weight, None, 64, 16)
        while not call.running():
            pass
        looks = 0
        while not call.done():
            looks += 1
            time.sleep(0.001)
    assert call.result().shape == ((20000 - 64) // 16 + 1, 8, 16)
    assert looks >= 5


def test_concurrent_calls_have_the_same_bits():
    cases = [CASES[name] for name in ("msda_backward", "nsa_compress_backward", "grouped_bias_add_backward")] * 20
    expected = {case.function: bits(case.run("float32")) for case in cases}
    with ThreadPoolExecutor(8) as pool:
        for case, results in zip(cases, pool.map(lambda case: case.run("float32"), cases), strict=True):
            assert bits(results) == expected[case.function]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_first_calls_from_several_threads(kind):
    pytest.importorskip(kind)
    program = pathlib.Path(__file__).with_name("first_calls.py")
    subprocess.run([sys.executable, "-W", "ignore", str(program), kind], check=True)


DAEMONS = """
import threading, time
import aclgrad, aclgrad.reference, numpy

image, grid = numpy.ones((1, 4, 64, 64), "f"), numpy.zeros((1, 64, 64, 2), "f")

def run():
    while True:
        {module}.grid_sample(image, grid)

{module}.grid_sample(image, grid)
for _ in range(4):
    threading.Thread(target=run, daemon=True).start()
time.sleep(0.2)
"""


@pytest.mark.parametrize("module", ["aclgrad", "aclgrad.reference"])
def test_daemon_threads_in_kernels_end_with_the_process(module):
    """They come out of their kernels when there is no interpreter to return to."""
    for _ in range(5):
        run = subprocess.run([sys.executable, "-c", DAEMONS.format(module=module)], capture_output=True, timeout=60)
        assert (run.returncode, run.stderr) == (0, b"")
