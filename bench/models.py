# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Training steps of whole models of Hugging Face with random weights: with and without aclgrad.torch.patch()."""

import torch
from torch import Tensor

from bench.case import Case, Work


def _deformable_detr(batch: int = 1, train_backbone: bool = False):
    from transformers import DeformableDetrConfig, DeformableDetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(out_features=["stage2", "stage3", "stage4"])
    config = DeformableDetrConfig(backbone_config=backbone, num_labels=91)
    model = DeformableDetrForObjectDetection(config).train()
    if train_backbone:  # which Hugging Face's model leaves as it is
        model.model.backbone.requires_grad_()
    return _with_boxes(model, torch.randn(batch, 3, 800, 1066))


def _rt_detr():
    from transformers import RTDetrConfig, RTDetrForObjectDetection

    return _with_boxes(RTDetrForObjectDetection(RTDetrConfig(num_labels=91)).train(), torch.randn(4, 3, 640, 640))


def _with_boxes(model: torch.nn.Module, images: Tensor):
    labels = [{"class_labels": torch.tensor([1, 2, 3]), "boxes": 0.1 + 0.4 * torch.rand(3, 4)} for _ in images]
    return model, {"pixel_values": images, "labels": labels}


def _mask2former():
    from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation, ResNetConfig

    backbone = ResNetConfig(out_features=["stage1", "stage2", "stage3", "stage4"])
    model = Mask2FormerForUniversalSegmentation(Mask2FormerConfig(backbone_config=backbone)).train()
    masks, classes = [(torch.rand(3, 512, 512) > 0.5).float()], [torch.tensor([0, 1, 2])]
    return model, {"pixel_values": torch.randn(1, 3, 512, 512), "mask_labels": masks, "class_labels": classes}


def _step(make):
    def prepare(dtype, device):
        import aclgrad.torch

        torch.manual_seed(0)
        model, arguments = make()

        def train():
            torch.manual_seed(1)  # of the dropout
            model.zero_grad()
            loss = model(**arguments).loss
            loss.backward()
            return loss

        def patched():
            with aclgrad.torch.patched("transformers"):
                return train()
        return Work({"": patched}, {"transformers": lambda transform: train}, lambda loss: [loss])
    return prepare


def cases():
    return [Case("training step", name, torch.float32, _step(make), kind="models") for name, make in (
        ("Deformable DETR, 800 x 1066", _deformable_detr),
        ("Deformable DETR, batch of 2", lambda: _deformable_detr(batch=2)),
        ("Deformable DETR, backbone trained, too", lambda: _deformable_detr(train_backbone=True)),
        ("Mask2Former, 512 x 512", _mask2former),
        ("RT-DETR, 640 x 640, batch of 4", _rt_detr),
    )]
