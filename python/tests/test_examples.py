# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The examples in Python run, write their pictures and learn something in a few steps."""

import importlib
import pathlib

import pytest

pytest.importorskip("torch")
pytest.importorskip("tqdm")
pytest.importorskip("matplotlib").use("Agg")

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


@pytest.mark.skipif(not EXAMPLES.exists(), reason="needs examples/ beside python/")
@pytest.mark.parametrize(
    ("name", "steps"),
    [("fit_warp", 6), ("register_volume", 6), ("deformable_detr", 8), ("distance_field", 6), ("compress_text", 6)],
)
def test_example(name, steps, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    losses = importlib.import_module(name).main(["--steps", str(steps), "--out", str(tmp_path)])
    assert len(losses) == steps and losses[-1] < losses[0]
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
