# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Programs exported to ONNX, by both exporters of PyTorch: what runs there gives the same results."""

import pytest

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
import aclgrad.torch  # noqa: E402
from tensors import random  # noqa: E402
from torch_cases import CALLS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
OPSET = 20  # the first with samples of volumes
EXPORTED = [name for name in CALLS if name.startswith(("sample", "attention"))]

IMAGE = random(2, 3, 5, 4)
GRID = random(2, 3, 2, 2) / 2


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, first, *others):
        return self.function(first * self.weight, *others)


def exported(module, tensors, exporter, path):
    if exporter == "of a program":
        program = torch.export.export(module, tensors)
        torch.onnx.export(program, (), path, dynamo=True, opset_version=OPSET, verbose=False)
    else:
        is_new = exporter == "new"
        torch.onnx.export(module, tensors, path, dynamo=is_new, opset_version=OPSET, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = {i.name: tensor.numpy() for i, tensor in zip(session.get_inputs(), tensors, strict=True)}
    return torch.from_numpy(session.run(None, inputs)[0])


# What is exported first is no other operator then: one of them will do.
DIRECT = [(name, exporter) for name in EXPORTED for exporter in ("new", "old")] + [("attention", "of a program")]
each_exporter = pytest.mark.parametrize("exporter", ["new", "of a program", "old"])


@pytest.mark.parametrize(("name", "exporter"), DIRECT)
def test_direct_calls(name, exporter, tmp_path):
    function, make = CALLS[name]
    arguments = make()
    tensors = tuple(argument for argument in arguments if isinstance(argument, torch.Tensor))
    module = Module(lambda *tensors: function(*tensors, *arguments[len(tensors) :]))
    actual = exported(module, tensors, exporter, tmp_path / "model.onnx")
    torch.testing.assert_close(actual, module(*tensors).detach(), rtol=1e-4, atol=1e-5)


@each_exporter
def test_patched_calls(exporter, tmp_path):
    module = Module(lambda *tensors: torch.nn.functional.grid_sample(*tensors, align_corners=False))
    expected = module(IMAGE, GRID).detach()
    with aclgrad.torch.patched("grid_sample"):
        actual = exported(module, (IMAGE, GRID), exporter, tmp_path / "model.onnx")
    torch.testing.assert_close(actual, expected)
