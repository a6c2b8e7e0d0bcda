# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The models of Hugging Face with and without our operators: small, with random weights, made from configurations."""

import contextlib

import pytest

torch = pytest.importorskip("torch")
import aclgrad.torch  # noqa: E402
from patching import calls_on_gpus, levels_and_points, on_gpu, small_calls_are_ours, unpatched  # noqa: E402, F401
from tensors import counted  # noqa: E402

SMALL = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "num_queries": 10,
    "num_labels": 4,
    "dropout": 0.0,
}
PIXELS = (1, 3, 64, 96)


STAGES = ["stage2", "stage3", "stage4"]


def backbone(config, layer_type="basic", stages=STAGES):
    sizes = {"embedding_size": 8, "hidden_sizes": [16, 24, 32, 40], "depths": [1, 1, 1, 1]}
    return config(**sizes, layer_type=layer_type, out_features=stages)


def box_labels():
    return [{"class_labels": torch.tensor([0, 1]), "boxes": torch.tensor([[0.3, 0.4, 0.2, 0.3], [0.6, 0.5, 0.3, 0.4]])}]


def deformable_detr(transformers):
    small = backbone(transformers.ResNetConfig)
    config = transformers.DeformableDetrConfig(backbone_config=small, num_feature_levels=4, **SMALL)
    return transformers.DeformableDetrForObjectDetection(config), {"labels": box_labels()}


def rt_detr(transformers, prefix="RTDetr"):
    sizes = {name: value for name, value in SMALL.items() if name not in ("encoder_layers", "num_queries")}
    config = getattr(transformers, f"{prefix}Config")(
        backbone_config=backbone(transformers.RTDetrResNetConfig, "bottleneck"),
        encoder_in_channels=[24, 32, 40],
        feat_strides=[8, 16, 32],
        encoder_hidden_dim=32,
        decoder_in_channels=[32, 32, 32],
        num_queries=10,
        num_denoising=0,
        anchor_image_size=None,
        **sizes,
    )
    return getattr(transformers, f"{prefix}ForObjectDetection")(config), {"labels": box_labels()}


def rt_detr_v2(transformers):
    return rt_detr(transformers, "RTDetrV2")


def grounding_dino(transformers, prefix="GroundingDino"):
    text = transformers.BertConfig(
        vocab_size=1100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    small = backbone(transformers.ResNetConfig)
    config = getattr(transformers, f"{prefix}Config")(
        backbone_config=small, text_config=text, num_feature_levels=4, max_text_len=8, **SMALL
    )
    model = getattr(transformers, f"{prefix}ForObjectDetection")(config)
    two_words = torch.tensor([[101, 7, 1012, 9, 1012, 102]])  # each with a full stop behind it
    return model, {"input_ids": two_words, "labels": box_labels()}


def mm_grounding_dino(transformers):
    return grounding_dino(transformers, "MMGroundingDino")


def mask_labels():
    generator = torch.Generator().manual_seed(0)
    return [(torch.rand(2, *PIXELS[2:], generator=generator) > 0.5).float()], [torch.tensor([0, 2])]


def mask2former(transformers):
    config = transformers.Mask2FormerConfig(
        backbone_config=backbone(transformers.ResNetConfig, stages=["stage1", *STAGES]),
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=32,
        encoder_layers=2,
        decoder_layers=2,
        dim_feedforward=32,
        num_attention_heads=2,
        num_queries=5,
        num_labels=4,
        train_num_points=50,
    )
    masks, classes = mask_labels()
    return transformers.Mask2FormerForUniversalSegmentation(config), {"mask_labels": masks, "class_labels": classes}


MODELS = [deformable_detr, rt_detr, rt_detr_v2, grounding_dino, mm_grounding_dino, mask2former]


def move_off_the_pixels(model):
    """New models sample at the centres of pixels, where the derivative for the place jumps and rounding decides."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "sampling_offsets" in name:
                parameter += 0.1 * torch.randn_like(parameter)


def training_step(make, *targets):
    """Loss, gradients by parameter, and the calls of our operators, with `targets` patched."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("scipy")  # transformers matches boxes with it
    torch.manual_seed(0)
    pixels = torch.randn(PIXELS)
    with aclgrad.torch.patched(*targets) if targets else contextlib.nullcontext():
        model, arguments = make(transformers)
        model.train()
        move_off_the_pixels(model)
        torch.manual_seed(1)
        with counted() as calls:
            loss = model(pixel_values=pixels, **arguments).loss
            loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return loss.detach(), gradients, calls


@pytest.mark.parametrize("make", MODELS)
def test_same_loss_and_gradients_with_and_without(make):
    loss, gradients, calls = training_step(make, "transformers", "grid_sample")
    assert calls["multi_scale_deformable_attention"] > 0
    assert calls["multi_scale_deformable_attention_backward"] > 0
    expected_loss, expected_gradients, _ = training_step(make)
    torch.testing.assert_close(loss, expected_loss, rtol=1e-4, atol=0)
    assert gradients.keys() == expected_gradients.keys() and len(gradients) > 20
    scale = max(gradient.norm() for gradient in expected_gradients.values())
    for name, gradient in gradients.items():
        difference = (gradient - expected_gradients[name]).norm()
        assert difference <= 2e-3 * expected_gradients[name].norm() + 1e-5 * scale, name


@pytest.mark.parametrize("model", ["rt_detr_v2", "d_fine", "deimv2"])
@pytest.mark.parametrize("method", ["default", "discrete"])
def test_levels_with_different_numbers_of_points(model, method):
    pytest.importorskip("transformers")
    module = pytest.importorskip(f"transformers.models.{model}.modeling_{model}")
    shapes, tensors = levels_and_points()

    def step():
        value, locations, weights = tensors
        output = module.multi_scale_deformable_attention_v2(value, shapes, locations, weights, [3, 6, 3], method=method)
        with counted() as calls:  # the discrete method has no gradient for locations
            gradients = torch.autograd.grad(output, tensors, torch.ones_like(output), allow_unused=True)
        return [output, *gradients], calls["multi_scale_deformable_attention_backward"]

    expected, _ = step()
    with aclgrad.torch.patched("transformers"):
        actual, ours = step()
    assert ours == (method == "default")
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", ["rt_detr_v2", "d_fine", "deimv2"])
def test_levels_with_different_numbers_of_points_on_gpus(model, calls_on_gpus):
    pytest.importorskip("transformers")
    module = pytest.importorskip(f"transformers.models.{model}.modeling_{model}")
    shapes, tensors = levels_and_points()
    value, locations, weights = on_gpu(*tensors)
    with aclgrad.torch.patched("transformers"):
        result = module.multi_scale_deformable_attention_v2(value, shapes, locations, weights, [3, 6, 3])
    assert result.device == value.device and calls_on_gpus == ["multi_scale_deformable_attention"]
