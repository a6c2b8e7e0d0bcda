# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Training steps of models of Hugging Face with random weights, with and without aclgrad.torch.patch("transformers").

    ./dev bench models [MODEL ...]           prints the table of docs/guides/train.md
    python3 -m bench.models --device cuda    the same on a GPU, with the package that is installed

A step is forward pass, loss and backward pass, in float32. Both ways run in one process, on the same weights and
images, in turn if they are not compiled, and must give the same loss. A cell has the fastest step of each."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from bench.measure import fastest_in_turn

_LARGEST_DIFFERENCE = 1e-3  # of two losses, relative
_IMAGE = 3, 480, 640


def _backbone(first_stage: int):
    from transformers import ResNetConfig

    return ResNetConfig(out_features=[f"stage{i}" for i in range(first_stage, 5)])


def _detection(images: int, **more) -> dict:
    labels = [{"class_labels": torch.arange(3), "boxes": 0.1 + 0.4 * torch.rand(3, 4)} for _ in range(images)]
    return {"pixel_values": torch.randn(images, *_IMAGE), "labels": labels, **more}


def _deformable_detr():
    from transformers import DeformableDetrConfig, DeformableDetrForObjectDetection

    config = DeformableDetrConfig(backbone_config=_backbone(2), num_labels=91)
    return DeformableDetrForObjectDetection(config), _detection(1)


def _rt_detr_v2():
    from transformers import RTDetrV2Config, RTDetrV2ForObjectDetection

    return RTDetrV2ForObjectDetection(RTDetrV2Config(num_labels=91)), _detection(2)


def _d_fine():
    from transformers import DFineConfig, DFineForObjectDetection

    return DFineForObjectDetection(DFineConfig(num_labels=91)), _detection(2)


def _mask2former():
    from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation

    model = Mask2FormerForUniversalSegmentation(Mask2FormerConfig(backbone_config=_backbone(1)))
    masks = [(torch.rand(3, *_IMAGE[1:]) > 0.5).float()]
    return model, {"pixel_values": torch.randn(1, *_IMAGE), "mask_labels": masks, "class_labels": [torch.arange(3)]}


def _grounding_dino():
    from transformers import GroundingDinoConfig, GroundingDinoForObjectDetection

    words = torch.tensor([[101, 4937, 1012, 3899, 1012, 6847, 1012, 102]])  # "cat. dog. bird."
    model = GroundingDinoForObjectDetection(GroundingDinoConfig(backbone_config=_backbone(2)))
    return model, _detection(1, input_ids=words)


_MODELS = {"deformable_detr": _deformable_detr, "rt_detr_v2": _rt_detr_v2, "d_fine": _d_fine,
           "mask2former": _mask2former, "grounding_dino": _grounding_dino}


def _steps(name: str, is_compiled: bool, device: str) -> list[Callable[[], Tensor]]:
    """The step without and with our operators. D-FINE keeps the function that is there when it is built."""
    import aclgrad.torch

    def operators(are_ours: bool) -> contextlib.AbstractContextManager[None]:
        return aclgrad.torch.patched("transformers") if are_ours else contextlib.nullcontext()

    def step(is_patched: bool):
        torch.manual_seed(0)
        with operators(is_patched):
            model, arguments = _MODELS[name]()
        model = model.to(device).train()
        arguments = tree_map_only(Tensor, lambda tensor: tensor.to(device), arguments)
        call = torch.compile(model) if is_compiled else model

        def run() -> Tensor:
            torch.manual_seed(1)  # of dropout, and of points where a loss is computed
            model.zero_grad()
            with operators(is_patched):
                loss = call(**arguments).loss
            loss.backward()
            return loss.detach().cpu()  # when a GPU is done
        return run
    return [step(False), step(True)]


def _seconds(steps: list[Callable[[], Tensor]], rounds: int, is_compiled: bool) -> list[float]:
    """The fastest step of each. Compiled steps run one after another: patching in between would compile them again."""
    groups = [[step] for step in steps] if is_compiled else [steps]
    losses, best = [], []
    for group in groups:
        torch.compiler.reset()
        losses += [step() for step in group]
        best += fastest_in_turn(group, rounds)
    if not torch.isclose(losses[1], losses[0], rtol=_LARGEST_DIFFERENCE, atol=0):
        sys.exit(f"the patched model has a loss of {losses[1]}, the original one of {losses[0]}")
    return best


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench models", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(_MODELS))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="also with torch.compile: minutes a model")
    arguments = parser.parse_args()
    counts = [1] if arguments.device == "cuda" else sorted({1, len(os.sched_getaffinity(0))})
    print("| model | threads | seconds without | with | faster |" + " compiled without | with | faster |" * arguments.compile)
    print("| --- | --- |" + " --- | --- | --- |" * (1 + arguments.compile))
    for name in arguments.models or _MODELS:
        ways = [(_steps(name, is_compiled, arguments.device), arguments.rounds, is_compiled)
                for is_compiled in (False, True)[:1 + arguments.compile]]
        for threads in counts:
            torch.set_num_threads(threads)
            cells = [f"{without:.3g} | {patched:.3g} | {without / patched:.2f}"
                     for without, patched in (_seconds(*way) for way in ways)]
            print(f"| {name} | {threads} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
