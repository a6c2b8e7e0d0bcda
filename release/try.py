# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Uses the installed package as its users do: NumPy, the command line, and PyTorch where it is installed."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import aclgrad
import numpy as np

print(f"aclgrad {aclgrad.__version__}, Python {sys.version.split()[0]}, NumPy {np.__version__}")
random = np.random.default_rng(1)
image = random.standard_normal((2, 5, 12, 16), dtype=np.float32)
grid = random.uniform(-1, 1, (2, 9, 7, 2)).astype(np.float32)
grad_output = random.standard_normal((2, 5, 9, 7), dtype=np.float32)
grad_image, grad_grid = aclgrad.grid_sample_backward(grad_output, image, grid)
# The operator is linear in the image, so that both sides are one sum.
np.testing.assert_allclose(
    np.vdot(aclgrad.grid_sample(image, grid), grad_output), np.vdot(image, grad_image), rtol=1e-4
)
with tempfile.TemporaryDirectory() as folder:
    archive = pathlib.Path(folder) / "all.npz"
    np.savez(archive, grad_output=grad_output, input=image, grid=grid, grad_input=grad_image, grad_grid=grad_grid)
    subprocess.run([sys.executable, "-m", "aclgrad", "verify", "grid_sample_backward", archive], check=True)

if importlib.util.find_spec("torch"):
    import aclgrad.torch
    import torch

    print(f"PyTorch {torch.__version__}")
    wanted = torch.from_numpy(aclgrad.grid_sample(image, grid))
    learned = torch.zeros(image.shape, requires_grad=True)
    optimizer = torch.optim.Adam([learned], lr=0.1)
    losses = []
    for _ in range(50):
        loss = (aclgrad.torch.grid_sample(learned, torch.from_numpy(grid)) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3g}")
    assert losses[-1] < losses[0] / 100
