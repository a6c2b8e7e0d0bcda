# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The examples in Python: they run, write their pictures and learn something in a few steps; two processes learn as one
does, with PyTorch's DistributedDataParallel."""

import importlib
import os
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
STEPS = 3
pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="needs examples/ beside python/")


@pytest.mark.parametrize(
    ("name", "steps"),
    [("fit_warp", 6), ("register_volume", 6), ("deformable_detr", 8), ("distance_field", 6), ("compress_text", 6)],
)
def test_example(name, steps, tmp_path, monkeypatch):
    pytest.importorskip("tqdm")
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    losses = importlib.import_module(name).main(["--steps", str(steps), "--out", str(tmp_path)])
    assert len(losses) == steps and losses[-1] < losses[0]
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def train(rank, rendezvous, results):
    sys.path.insert(0, str(EXAMPLES))
    import distributed

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.save(distributed.train(STEPS), f"{results}.{rank}")
    torch.distributed.destroy_process_group()


def test_gradients_of_two_processes_are_those_of_one(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import distributed

    torch.multiprocessing.spawn(train, (tmp_path / "rendezvous", tmp_path / "results"), nprocs=2)
    expected_losses, expected_gradients = distributed.train(STEPS)
    for rank in range(2):
        losses, gradients = torch.load(f"{tmp_path / 'results'}.{rank}")
        assert losses == pytest.approx(expected_losses, rel=1e-5)
        torch.testing.assert_close(gradients, expected_gradients, rtol=1e-4, atol=1e-6)
