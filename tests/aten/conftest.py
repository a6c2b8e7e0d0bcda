# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import warnings

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
warnings.filterwarnings("ignore", category=DeprecationWarning)

from library import Worker  # noqa: E402


@pytest.fixture(scope="session")
def worker():
    worker = Worker(ACLGRAD_NUM_THREADS="1")
    yield worker
    worker.stop()


@pytest.fixture(scope="session")
def samples():
    import torch
    from samples import record, wanted_operators

    torch.set_num_threads(1)

    return record(wanted_operators())
