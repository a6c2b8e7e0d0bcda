# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Calls that have to be refused. Without a check of ours, most of them end the process or write outside of a tensor."""

from typing import Any

import pytest
import torch
from tensors import call_with


def wrong(name: str, *values: Any, words: str, late: bool = False) -> Any:
    """A call that has to be refused: in phase 1, or where only the kernel sees what is wrong, by the synchronisation."""
    return pytest.param(call_with(name, *values), words, (3, 507015) if late else (1, 161002), id=f"{name}: {words}")


X, ROWS, INDEX = torch.zeros(2, 3), torch.zeros(5, 4), torch.zeros(5, dtype=torch.int64)
SIX, PADDED = torch.zeros(2, 6, 4), {n: torch.zeros(2, 3, *[4] * n) for n in (1, 2, 3)}


def pad_backward(kind: str, n: int, channels: int, padding: list[int], words: str) -> Any:
    grad = torch.zeros(2, channels, *[6] * n)
    return wrong(f"{kind}Pad{n}dBackward", grad, PADDED[n], padding, PADDED[n], words=words)


def group_norm(name: str, *rest: Any) -> Any:
    words = f"{'numGroups' if name == 'GroupNormSwish' else 'group'}: expected a number that is not 0, got 0"
    return wrong(name, SIX, SIX[0, :, 0], SIX[0, :, 0], *rest, SIX.clone(), SIX[:, :3, 0].clone(), SIX[:, :3, 0].clone(), words=words)


def batch_norm_backward(training: bool, missing: str) -> Any:
    given = [None if p == missing else X[0] for p in ("runningMean", "runningVar", "saveMean", "saveInvstd")]
    outputs = [SIX[:, :3].clone(), X[0].clone(), X[0].clone()]
    arguments = [SIX[:, :3], SIX[:, :3], X[0], *given, training, 1e-5, [True] * 3, *outputs]
    return wrong("BatchNormBackward", *arguments, words=f"{missing}: expected an argument, got null")


WRONG = [
    wrong("Randperm", 5, 1, 0, torch.zeros(10, dtype=torch.int64), words="out: expected shape [5], got [10]"),
    wrong("Randperm", 6, 1, 0, torch.zeros(6, 8)[::3, ::3], words="out: expected shape [6], got [2, 3]"),
    *[wrong("EmbeddingDenseBackward", ROWS, INDEX + i, 10, -1, scale, torch.zeros(10, 4), words=f"0 to 9, got {i}", late=True)
      for i in (300, -3, 10**8) for scale in (True, False)],
    wrong("Celu", X, 1j, X, words="alpha: expected such that PyTorch takes, got: value cannot be converted to type double"),
    wrong("Cumprod", X, 1j, torch.float32, X, words="dim: expected such that PyTorch takes, got: value cannot be converted to type int64_t"),
    wrong("Arange", 0, 2j, 1, X[0], words="end: expected such that PyTorch takes, got: value cannot be converted to type double"),
    wrong("AvgPool2d", X[None], [1, 2**40], [1], [0], False, True, 0, 0, X[None], words="cannot be converted to type int"),
    wrong("Quantize", X[0, 0], X[0], None, torch.int8, 0, X[0, 0], words="tensor has no dimensions"),
    wrong("AscendQuantV3", X[0, 0], X[0], None, False, "round", torch.int8, 0, X[0, 0], words="tensor has no dimensions"),
    wrong("Index", X, [], X, words="indices: expected indices of at least one axis, got none"),
    wrong("IndexPutImpl", X, [], X, False, False, words="indices: expected indices of at least one axis, got none"),
    wrong("ScatterNd", X, INDEX[None, :0], X, X, words="indices: expected indices of at least one axis, got none"),
    wrong("Renorm", X.to(torch.uint64), 2, 0, 1, X.to(torch.uint64), words="PyTorch: Unrecognized ScalarType: UInt64", late=True),
    group_norm("GroupNorm", 2, 6, 4, 0, 1e-5),
    group_norm("GroupNormSilu", 0, 1e-5),
    group_norm("GroupNormSiluV2", 0, 1e-5, True),
    group_norm("GroupNormSwish", 0, None, 1e-5, True, 1.0),
    wrong("GroupNormBackward", SIX, SIX, X, X, SIX[0, :, 0], 2, 6, 4, 0, [True] * 3, SIX.clone(), SIX[0, :, 0].clone(), SIX[0, :, 0].clone(),
          words="group: expected a number that is not 0"),
    wrong("Range", 0, 5, 0.4, torch.zeros(6, dtype=torch.int32), words="step: expected a number that is not 0, got 0.4"),
    wrong("TransformBiasRescaleQkv", SIX.repeat(1, 1, 3), torch.zeros(12), 0, *[torch.zeros(2, 1, 6, 4) for _ in range(3)],
          words="numHeads: expected a number that is not 0"),
    wrong("TransformBiasRescaleQkv", SIX[:0].repeat(1, 1, 3), torch.zeros(12), 1, *[torch.zeros(0, 1, 6, 4) for _ in range(3)],
          words="qkv: expected elements along each"),
    wrong("SmoothL1LossBackward", *[X.int()] * 3, 2, 0.5, X.int(), words="beta: expected a number that is not 0, got 0.5"),
    *[pad_backward(kind, n, 3, [], f"padding: expected {2 * n} entries, got 0") for kind in ("Reflection", "Replication") for n in (1, 2, 3)],
    *[pad_backward(kind, n, 1, [1] * 2 * n, "gradOutput: expected shape") for kind in ("Reflection", "Replication") for n in (1, 2, 3)],
    wrong("LogSoftmaxBackward", ROWS, ROWS[:1], 1, ROWS.clone(), words="output: expected shape [5, 4], got [1, 4]"),
    wrong("LogSoftmaxBackward", X, torch.zeros(2, 30), 1, X.clone(), words="output: expected shape [2, 3], got [2, 30]"),
    wrong("AdaptiveAvgPool2dBackward", SIX, SIX[..., :0], SIX[..., :0], words="self: expected elements along each"),
    wrong("AdaptiveAvgPool3dBackward", PADDED[2], PADDED[2][..., :0], PADDED[2][..., :0], words="self: expected elements along each"),
    *[wrong("AvgPool2dBackward", grad, PADDED[2][:, :, :3, :3], [1, 3], [1, 3], [0, 0], False, True, 0, 0, PADDED[2][:, :, :3, :3].clone(),
            words="gradOutput: expected shape") for grad in (torch.zeros(4, 3, 3, 1), torch.zeros(0, 3, 3, 1))],
    wrong("AvgPool3dBackward", torch.zeros(0, 3, 2, 2, 2), PADDED[3], [2] * 3, [], [0] * 3, False, True, 0, PADDED[3].clone(),
          words="gradOutput: expected shape"),
    *[wrong("MaxPool3dWithArgmaxBackward", torch.zeros(2, 3, 2, 2, 2), image, torch.zeros(batch, 3, 2, 2, 2, dtype=torch.int64),
            [2] * 3, [2] * 3, [0] * 3, [1] * 3, False, PADDED[3].clone(), words=words)
      for image, batch, words in ((PADDED[3][:0], 2, "gradOutput: expected shape"), (PADDED[3], 0, "indices: expected shape"))],
    *[batch_norm_backward(True, p) for p in ("saveMean", "saveInvstd")],
    *[batch_norm_backward(False, p) for p in ("runningMean", "runningVar")],
    wrong("BatchNorm", SIX[:0], None, None, None, None, True, 0.1, 1e-5, SIX[:0], SIX[0, :, 0].clone(), SIX[0, :, 0].clone(),
          words="input: expected elements along each"),
    *[wrong(f"UpsampleB{kind}2dAA", PADDED[2], [3, 7], False, 0.0, scale, torch.zeros(2, 3, 3, 7), words="scalesW: expected a scale from 4 to 7")
      for kind in ("icubic", "ilinear") for scale in (0.5, 1.0)],
    *[wrong(f"UpsampleB{kind}", torch.zeros(2, 3, 3, 7), [3, 7], [2, 3, 4, 4], False, 0.0, 1.0, PADDED[2].clone(), words="scalesW: expected a scale")
      for kind in ("icubic2dAAGrad", "ilinear2dAABackward")],
    wrong("Pdist", torch.zeros(8, 8, 0), 2.0, torch.zeros(16), words="self: expected shape [8, 0], got [8, 8, 0]"),
    *[wrong("GeluBackward", grad, torch.zeros(3, 16), torch.zeros(3, 16), words="gradOutput: expected shape [3, 16], got [16]")
      for grad in (torch.zeros(16), torch.zeros(1).expand(16))],
    wrong("Histc", X[0, :1], 10**9 + 7, 0, 1, torch.zeros(1), words="out: expected shape [1000000007], got [1]"),
    wrong("MoeTokenUnpermuteGrad", ROWS, ROWS, INDEX, None, False, None, ROWS[:2].clone(), None, words="permutedTokensGradOut: expected shape [5, 4]"),
    wrong("FusedMatmul", ROWS[:4], ROWS[:4], None, None, "mul", 0, ROWS[:4].clone(), words="x3: expected an argument, got null"),
    *[wrong(f"ForeachAddc{kind}", [X, X], [X, X], [X], torch.ones(2), [X.clone(), X.clone()], words="x3: expected 2 tensors, got 1")
      for kind in ("divList", "divScalarList", "mulList", "mulScalarList")],
    wrong("ForeachAbs", [X[i % 2] for i in range(12)], [X[0, :1].expand(3) if i == 1 else torch.zeros(3) for i in range(12)],
          words="memory of its own for each element"),
]  # fmt: skip
