# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Training on two processes of this machine, with PyTorch's DistributedDataParallel."""

import os
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
STEPS = 3


def train(rank, rendezvous, results):
    sys.path.insert(0, str(EXAMPLES))
    import distributed

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.save(distributed.train(STEPS), f"{results}.{rank}")
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not EXAMPLES.exists(), reason="needs examples/ beside python/")
def test_gradients_of_two_processes_are_those_of_one(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import distributed

    torch.multiprocessing.spawn(train, (tmp_path / "rendezvous", tmp_path / "results"), nprocs=2)
    expected_losses, expected_gradients = distributed.train(STEPS)
    for rank in range(2):
        losses, gradients = torch.load(f"{tmp_path / 'results'}.{rank}")
        assert losses == pytest.approx(expected_losses, rel=1e-5)
        torch.testing.assert_close(gradients, expected_gradients, rtol=1e-4, atol=1e-6)
