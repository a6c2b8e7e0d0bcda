# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Functions that draw random numbers: their arguments, and what holds of the numbers."""

from collections.abc import Callable
from typing import Any

import torch

MANY = torch.zeros(100, 100)
EVEN = torch.full((100, 100), 0.25)
TENSORS = {"seedTensor": torch.tensor([7]), "offsetTensor": torch.tensor([3])}


def near(value: float, wanted: float) -> bool:
    return abs(value - wanted) < 0.05


def is_normal(mean: float, std: float) -> Callable[[torch.Tensor], bool]:
    return lambda x: near(x.mean().item(), mean) and near(x.std().item(), std)


def is_uniform(low: float, high: float) -> Callable[[torch.Tensor], bool]:
    def holds(x: torch.Tensor) -> bool:
        in_range = low <= x.min() < low + 0.01 and high - 0.01 < x.max() <= high
        return in_range and near(x.mean().item(), (low + high) / 2)

    return holds


def is_bernoulli(x: torch.Tensor) -> bool:
    return set(x.unique().tolist()) == {0.0, 1.0} and near(x.mean().item(), 0.25)


def is_integers(x: torch.Tensor) -> bool:
    return x.unique().tolist() == list(range(2, 9)) and near(x.mean().item(), 5)


def is_drawn(x: torch.Tensor) -> bool:
    return x.max() == 1 and near(x.double().mean().item(), 0.75)


def is_dropped(x: torch.Tensor) -> bool:
    return set(x.unique().tolist()) == {0.0, 1.25} and near(x.mean().item(), 1)


def is_bits(x: torch.Tensor) -> bool:
    ones = sum(int(byte).bit_count() for byte in x[:1250].tolist())
    return near(ones / 10000, 0.75) and x[1250:].sum() == 0


DRAWS = {"self": torch.tensor([1.0, 3.0, 0.0]), "numsamples": 9999, "replacement": True}
NORMAL = {"mean": 1.0, "std": 0.5}
UNIFORM = {"from": -1.0, "to": 2.0}
MASK = torch.zeros(1264, dtype=torch.uint8)
MASKED = {"shape": [100, 100], "prob": 0.25, "probDataType": torch.float32}
SLOPES = {"lower": 0.25, "upper": 0.75, "training": True}
# By function: arguments without seed and offset, outputs, what holds of the first of them.
RANDOM: dict[str, tuple[dict[str, Any], list[torch.Tensor], Callable[[torch.Tensor], bool]]] = {
    "Bernoulli": ({"self": MANY, "prob": 0.25}, [MANY], is_bernoulli),
    "BernoulliTensor": ({"self": MANY, "prob": EVEN}, [MANY], is_bernoulli),
    "InplaceBernoulli": ({"selfRef": MANY, "prob": 0.25}, [], is_bernoulli),
    "InplaceBernoulliTensor": ({"selfRef": MANY, "prob": EVEN}, [], is_bernoulli),
    "InplaceNormal": ({"selfRef": MANY, **NORMAL}, [], is_normal(1, 0.5)),
    "InplaceNormalTensor": ({"selfRef": MANY, **NORMAL, **TENSORS}, [], is_normal(1, 0.5)),
    "NormalFloatFloat": (NORMAL, [MANY], is_normal(1, 0.5)),
    "NormalFloatTensor": ({"mean": 1.0, "std": EVEN}, [MANY], is_normal(1, 0.25)),
    "NormalTensorFloat": ({"mean": EVEN, "std": 0.5}, [MANY], is_normal(0.25, 0.5)),
    "NormalTensorTensor": ({"mean": EVEN, "std": EVEN}, [MANY], is_normal(0.25, 0.25)),
    "InplaceRandom": ({"selfRef": MANY, "from": 2, "to": 9}, [], is_integers),
    "InplaceRandomTensor": ({"selfRef": MANY, "from": 2, "to": 9, **TENSORS}, [], is_integers),
    "InplaceRandomWithoutFromTo": ({"selfRef": MANY}, [], lambda x: x.min() >= 0 and x.max() > 1e6),
    "InplaceRandomWithoutFromToTensor": ({"selfRef": MANY, **TENSORS}, [], lambda x: x.min() >= 0 and x.max() > 1e6),
    "Dropout": ({"input": MANY + 1, "p": 0.2, "train": True}, [MANY, MASK], is_dropped),
    "DropoutV3": ({"input": MANY + 1, "p": 0.2}, [MANY, MASK], is_dropped),
    "DropoutGenMask": (MASKED, [MASK], is_bits),
    "DropoutGenMaskV2": (MASKED, [MASK], is_bits),
    "DropoutGenMaskV2Tensor": ({**MASKED, **TENSORS}, [MASK], is_bits),
    "InplaceUniform": ({"selfRef": MANY, **UNIFORM}, [], is_uniform(-1, 2)),
    "InplaceUniformTensor": ({"selfRef": MANY, **UNIFORM, **TENSORS}, [], is_uniform(-1, 2)),
    "Randperm": ({"n": 1000}, [torch.arange(1000)], lambda x: x.sort().values.equal(torch.arange(1000))),
    "Multinomial": (DRAWS, [torch.arange(9999)], is_drawn),
    "MultinomialTensor": ({**DRAWS, **TENSORS}, [torch.arange(9999)], is_drawn),
    "RReluWithNoise": ({"self": MANY - 1, "noise": MANY, **SLOPES}, [MANY], is_uniform(-0.75, -0.25)),
    "InplaceRReluWithNoise": ({"self": MANY - 1, "noise": MANY, **SLOPES}, [], is_uniform(-0.75, -0.25)),
}  # fmt: skip
