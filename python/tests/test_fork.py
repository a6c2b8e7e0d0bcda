# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Forked processes: of a process whose other threads are in kernels, and the workers of PyTorch's DataLoader."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aclgrad
import numpy
import pytest
from case import bits
from cases import CASES
from children import SECONDS_OF_CHILD, in_child

pytestmark = pytest.mark.filterwarnings("ignore:.*fork")  # of Python and of packages that are loaded and dislike forks

FORKS = 20


def large_gradient() -> numpy.ndarray:
    """Long enough for several threads."""
    return aclgrad.grouped_bias_add_backward(numpy.ones((4096, 1024), numpy.float32), [2048, 4096])


@contextmanager
def busy_thread(work: Callable[[], object]) -> Iterator[None]:
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            work()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_child_computes_while_its_parent_was_in_a_kernel():
    expected = {name: bits(case.run("float32")) for name, case in CASES.items()}
    expected_large = bits(large_gradient())

    def check() -> None:
        assert aclgrad.get_num_threads() == 1
        assert bits(large_gradient()) == expected_large
        for name, case in CASES.items():
            assert bits(case.run("float32")) == expected[name], name
        aclgrad.set_num_threads(4)
        assert bits(large_gradient()) == expected_large

    def check_and_fork() -> None:
        check()
        assert in_child(check) == 0

    with busy_thread(large_gradient):
        for number in range(FORKS):
            time.sleep(number % 5 / 1000)
            assert in_child(check_and_fork if number == 0 else check) == 0
        assert bits(large_gradient()) == expected_large


def test_workers_of_a_data_loader_compute_during_training():
    torch = pytest.importorskip("torch")
    import aclgrad.torch

    class Warped(torch.utils.data.Dataset):
        """Images that the workers warp, one with NumPy's interface and one with PyTorch's."""

        def __len__(self) -> int:
            return 12

        def __getitem__(self, index: int):
            generator = torch.Generator().manual_seed(index)
            image = torch.rand(1, 3, 64, 64, generator=generator)
            grid = torch.rand(1, 64, 64, 2, generator=generator) * 2 - 1
            warped = aclgrad.grid_sample(image.numpy(), grid.numpy())
            return torch.from_numpy(warped)[0], aclgrad.torch.grid_sample(image, grid)[0], large_gradient()[0, 0]

    dataset = Warped()
    expected = [dataset[index] for index in range(len(dataset))]
    image = torch.rand(2, 16, 128, 128, requires_grad=True)
    grid = torch.rand(2, 128, 128, 2) * 2 - 1

    def train() -> None:
        aclgrad.torch.grid_sample(image, grid).square().sum().backward()

    train()
    with busy_thread(large_gradient):
        for _ in range(3):  # each with workers of its own
            loader = torch.utils.data.DataLoader(
                dataset, batch_size=3, num_workers=2, multiprocessing_context="fork", timeout=SECONDS_OF_CHILD
            )
            number = 0
            for batch in loader:
                train()
                for sample in zip(*batch, strict=True):
                    for actual, wanted in zip(sample, expected[number], strict=True):
                        assert bits(actual) == bits(wanted)
                    number += 1
            assert number == len(dataset)


@pytest.mark.parametrize("count", [1000, 100_000, 2**31 - 1])
def test_the_number_of_threads_is_bounded(count):
    try:
        aclgrad.set_num_threads(count)
        processors = len(os.sched_getaffinity(0))
        assert 1 <= aclgrad.get_num_threads() <= 8 * processors
        assert bits(large_gradient()) == [numpy.full((2, 1024), 2048, numpy.float32).tobytes()]
    finally:
        aclgrad.set_num_threads(None)
