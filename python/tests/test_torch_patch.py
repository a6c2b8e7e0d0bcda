# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The models of Hugging Face with and without our operators: small, with random weights, made from configurations."""

import contextlib
import importlib.machinery
import importlib.util
import sys
import types
import warnings

import pytest

torch = pytest.importorskip("torch")
import aclgrad.torch  # noqa: E402
from aclgrad.torch import patches  # noqa: E402
from aclgrad.torch.patches import TARGETS  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def unpatched():
    yield
    aclgrad.torch.unpatch()


IS_FASTER = patches._is_faster


@pytest.fixture(autouse=True)
def small_calls_are_ours(monkeypatch):
    """As tests are small, which `grid_sample` leaves to PyTorch."""
    monkeypatch.setattr(patches, "_is_faster", lambda *arguments: True)


@pytest.fixture
def rule_of_speed(small_calls_are_ours, monkeypatch):
    monkeypatch.setattr(patches, "_is_faster", IS_FASTER)


class Calls:
    """Counts the calls of our kernels."""

    def __init__(self):
        self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])

    def __enter__(self):
        self.profile.__enter__()
        return self

    def __exit__(self, *error):
        self.profile.__exit__(*error)

    def count(self, name):
        return sum(event.count for event in self.profile.key_averages() if event.key == f"aclgrad::{name}")


# ---- Hugging Face transformers

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


def resnet(transformers, stages=STAGES):
    return transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[16, 24, 32, 40],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=stages,
    )


def box_labels():
    return [{"class_labels": torch.tensor([0, 1]), "boxes": torch.tensor([[0.3, 0.4, 0.2, 0.3], [0.6, 0.5, 0.3, 0.4]])}]


def deformable_detr(transformers):
    config = transformers.DeformableDetrConfig(backbone_config=resnet(transformers), num_feature_levels=4, **SMALL)
    return transformers.DeformableDetrForObjectDetection(config), {"labels": box_labels()}


def rt_detr(transformers, prefix="RTDetr"):
    backbone = transformers.RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[16, 24, 32, 40],
        depths=[1, 1, 1, 1],
        layer_type="bottleneck",
        out_features=STAGES,
    )
    sizes = {name: value for name, value in SMALL.items() if name not in ("encoder_layers", "num_queries")}
    config = getattr(transformers, f"{prefix}Config")(
        backbone_config=backbone,
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
    config = getattr(transformers, f"{prefix}Config")(
        backbone_config=resnet(transformers),
        text_config=text,
        num_feature_levels=4,
        max_text_len=8,
        **SMALL,
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
        backbone_config=resnet(transformers, ["stage1", *STAGES]),
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
    torch.manual_seed(0)
    pixels = torch.randn(PIXELS)
    with aclgrad.torch.patched(*targets) if targets else contextlib.nullcontext():
        model, arguments = make(transformers)
        model.train()
        move_off_the_pixels(model)
        torch.manual_seed(1)
        with Calls() as calls:
            loss = model(pixel_values=pixels, **arguments).loss
            loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return loss.detach(), gradients, calls


@pytest.mark.parametrize("make", MODELS)
def test_same_loss_and_gradients_with_and_without(make):
    loss, gradients, calls = training_step(make, "transformers", "grid_sample")
    assert calls.count("multi_scale_deformable_attention") > 0
    assert calls.count("multi_scale_deformable_attention_backward") > 0
    expected_loss, expected_gradients, _ = training_step(make)
    torch.testing.assert_close(loss, expected_loss, rtol=1e-4, atol=0)
    assert gradients.keys() == expected_gradients.keys() and len(gradients) > 20
    scale = max(gradient.norm() for gradient in expected_gradients.values())
    for name, gradient in gradients.items():
        difference = (gradient - expected_gradients[name]).norm()
        assert difference <= 2e-3 * expected_gradients[name].norm() + 1e-5 * scale, name


def levels_and_points(dtype=torch.float32):
    """Arguments with 3, 6 and 3 points in three levels, all of which require gradients."""
    torch.manual_seed(0)
    shapes = [(8, 12), (4, 6), (2, 3)]
    value = torch.randn(2, 126, 4, 8, dtype=dtype)
    locations = torch.rand(2, 10, 4, 12, 2, dtype=dtype) * 1.2 - 0.1
    return shapes, [tensor.requires_grad_() for tensor in (value, locations, torch.rand(2, 10, 4, 12, dtype=dtype))]


@pytest.mark.parametrize("model", ["rt_detr_v2", "d_fine", "deimv2"])
@pytest.mark.parametrize("method", ["default", "discrete"])
def test_levels_with_different_numbers_of_points(model, method):
    pytest.importorskip("transformers")
    module = pytest.importorskip(f"transformers.models.{model}.modeling_{model}")
    shapes, tensors = levels_and_points()

    def step():
        value, locations, weights = tensors
        output = module.multi_scale_deformable_attention_v2(value, shapes, locations, weights, [3, 6, 3], method=method)
        with Calls() as calls:  # the discrete method has no gradient for locations
            gradients = torch.autograd.grad(output, tensors, torch.ones_like(output), allow_unused=True)
        return [output, *gradients], calls.count("multi_scale_deformable_attention_backward")

    expected, _ = step()
    with aclgrad.torch.patched("transformers"):
        actual, ours = step()
    assert ours == (method == "default")
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


# ---- Packages with deformable attention of their own

SHAPES, STARTS = torch.tensor([[3, 4], [2, 2]]), torch.tensor([0, 12])


def attention_tensors():
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(1, 16, 2, 4, generator=generator).requires_grad_()
    locations = torch.rand(1, 5, 2, 2, 3, 2, generator=generator)
    return value, locations, torch.rand(1, 5, 2, 2, 3, generator=generator)


def by_levels(value, locations, weights):
    return value, SHAPES, locations, weights


def in_one_axis(value, locations, weights):
    return value, SHAPES.tolist(), locations.flatten(3, 4), weights.flatten(3, 4)


def channels_first(value, locations, weights):
    return value.permute(0, 2, 3, 1), SHAPES, locations, weights.flatten(3, 4)


def channels_first_in_one_axis(value, locations, weights):
    return value.permute(0, 2, 3, 1), SHAPES, locations.flatten(3, 4), weights.flatten(3, 4), SHAPES.tolist()


MMCV = "multi_scale_deformable_attn_pytorch"
RFDETR = "ms_deform_attn_core_pytorch"
FUNCTIONS = [
    ("mmcv", "mmcv.ops.multi_scale_deform_attn", MMCV, by_levels),
    ("ultralytics", "ultralytics.nn.modules.utils", MMCV, in_one_axis),
    ("ultralytics", "ultralytics.nn.modules.transformer", MMCV, in_one_axis),
    ("detrex", "detrex.layers.multi_scale_deform_attn", MMCV, by_levels),
    ("groundingdino", "groundingdino.models.GroundingDINO.ms_deform_attn", MMCV, by_levels),
    ("rfdetr", "rfdetr.models.ops.functions.ms_deform_attn_func", RFDETR, channels_first),
    ("rfdetr", "rfdetr.models.ops.functions", RFDETR, channels_first_in_one_axis),
    ("rfdetr", "rfdetr.models.ops.modules.ms_deform_attn", RFDETR, channels_first_in_one_axis),
]
each_function = pytest.mark.parametrize(("target", "module", "name", "form"), FUNCTIONS)
WITH_EXTENSION = [module for target, module, *_ in FUNCTIONS if target in ("mmcv", "detrex", "groundingdino")]


class Function(torch.autograd.Function):
    """Stands for `MultiScaleDeformableAttnFunction`."""

    @staticmethod
    def forward(ctx, value, shapes, starts, sampling_locations, attention_weights, im2col_step=64):
        return torch.full((1,), 7.0)


class OfMissingExtension(type):
    def __getattr__(cls, name):
        raise ImportError("the extension is not compiled")


@pytest.fixture
def stand_ins(monkeypatch):
    """Modules with the public names and arguments of all packages, whose functions return 8."""
    modules = {}
    for _, name, function, _ in FUNCTIONS:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            full = ".".join(parts[:end])
            modules.setdefault(full, types.ModuleType(full)).__path__ = []
        setattr(modules[name], function, lambda *arguments: torch.full((1,), 8.0))
        if name in WITH_EXTENSION:
            modules[name].MultiScaleDeformableAttnFunction = type("AttentionFunction", (Function,), {})
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return modules


@each_function
def test_function_of_a_package(stand_ins, target, module, name, form):
    value, locations, weights = attention_tensors()
    expected = aclgrad.torch.multi_scale_deformable_attention(value, SHAPES, STARTS, locations, weights)
    arguments = form(value, locations, weights)
    package = stand_ins[module]
    with aclgrad.torch.patched(target):
        result = getattr(package, name)(*arguments)
        assert torch.equal(result, expected) and result.requires_grad
        on_meta = [argument.to("meta") if isinstance(argument, torch.Tensor) else argument for argument in arguments]
        assert getattr(package, name)(*on_meta) == 8
        assert getattr(package, name)(arguments[0].double(), *arguments[1:]) == 8
    assert getattr(package, name)(*arguments) == 8


@pytest.mark.parametrize("module", WITH_EXTENSION)
def test_autograd_function_of_a_package(stand_ins, module):
    value, locations, weights = attention_tensors()
    expected = aclgrad.torch.multi_scale_deformable_attention(value, SHAPES, STARTS, locations, weights)
    function = stand_ins[module].MultiScaleDeformableAttnFunction
    arguments = value, SHAPES, STARTS, locations, weights
    with aclgrad.torch.patched(module.partition(".")[0]):
        result = function.apply(*arguments, 64)
        assert torch.equal(result, expected) and result.requires_grad
        assert function.apply(*[tensor.to("meta") for tensor in arguments], 64) == 7
    assert function.apply(*arguments, 64) == 7


@pytest.mark.parametrize("module", WITH_EXTENSION[1:])
def test_package_without_its_extension(stand_ins, module):
    value, locations, weights = attention_tensors()
    stand_ins[module].MultiScaleDeformableAttnFunction = OfMissingExtension("Dummy", (), {})
    with aclgrad.torch.patched(module.partition(".")[0]):
        result = stand_ins[module].multi_scale_deformable_attn_pytorch(value, SHAPES, locations, weights)
    assert result.shape == (1, 5, 8)


@each_function
def test_function_of_an_installed_package(target, module, name, form):
    with aclgrad.torch.patched("mmcv"):  # without its extension, mmcv.ops can be imported only so
        package = pytest.importorskip(module, exc_type=ImportError)
    tensors = attention_tensors()
    expected = getattr(package, name)(*form(*tensors))
    with aclgrad.torch.patched(target), Calls() as calls:
        actual = getattr(package, name)(*form(*tensors))
    assert calls.count("multi_scale_deformable_attention") == 1
    torch.testing.assert_close(actual, expected)


@pytest.fixture
def mmcv_lite(tmp_path, monkeypatch):
    """mmcv without its extension, for which each module of mmcv.ops asks while it is imported: the file of one."""

    def forget():
        for name in [name for name in sys.modules if name.partition(".")[0] == "mmcv"]:
            monkeypatch.delitem(sys.modules, name)

    operators = tmp_path / "mmcv" / "ops"
    operators.mkdir(parents=True)
    (tmp_path / "mmcv" / "__init__.py").touch()
    (operators / "__init__.py").write_text("from . import multi_scale_deform_attn\n")
    file = operators / "multi_scale_deform_attn.py"
    file.write_text(
        "import importlib\n"
        "extension = importlib.import_module('mmcv._ext')\n"
        "assert hasattr(extension, 'nms')\n"
        "class MultiScaleDeformableAttnFunction:\n"
        "    apply = None\n"
        "def multi_scale_deformable_attn_pytorch(*arguments):\n"
        "    return None\n"
    )
    forget()
    monkeypatch.syspath_prepend(tmp_path)
    yield file
    forget()


def test_mmcv_without_its_extension(mmcv_lite):
    with aclgrad.torch.patched("mmcv"):
        from mmcv.ops import multi_scale_deform_attn as module
    value, locations, weights = attention_tensors()
    with aclgrad.torch.patched("mmcv"):
        function = module.MultiScaleDeformableAttnFunction
        assert function.apply(value, SHAPES, STARTS, locations, weights, 64).shape == (1, 5, 8)
    with pytest.raises(ImportError, match="mmcv._ext.nms: the extension of mmcv is not installed"):
        module.extension.nms()


def test_functions_of_mmcvs_missing_extension(mmcv_lite):
    """As BEVFormer's own autograd.Function calls them."""
    with aclgrad.torch.patched("mmcv"):
        from mmcv.ops import multi_scale_deform_attn as module
    value, locations, weights = tensors = [tensor.detach().requires_grad_() for tensor in attention_tensors()]
    expected = aclgrad.torch.multi_scale_deformable_attention(value, SHAPES, STARTS, locations, weights)
    grad_output = torch.arange(expected.numel(), dtype=expected.dtype).reshape(expected.shape)
    with torch.no_grad():
        result = module.extension.ms_deform_attn_forward(value, SHAPES, STARTS, locations, weights, im2col_step=64)
        actual = [torch.zeros_like(tensor) for tensor in tensors]
        module.extension.ms_deform_attn_backward(
            value, SHAPES, STARTS, locations, weights, grad_output, *actual, im2col_step=64
        )
    assert torch.equal(result, expected)
    for gradient, reference in zip(actual, torch.autograd.grad(expected, tensors, grad_output), strict=True):
        assert torch.equal(gradient, reference)


def test_mmcv_that_cannot_be_imported_even_so_is_left_out(mmcv_lite):
    mmcv_lite.write_text(mmcv_lite.read_text() + "import a_package_that_nobody_has\n")
    with aclgrad.torch.patched("mmcv"):
        pass
    assert "mmcv._ext" not in sys.modules


# ---- Functions that modules of any name have, and adet's extension


def core(value, value_spatial_shapes, sampling_locations, attention_weights):
    return "the original"


def core_v2(
    value, value_spatial_shapes, sampling_locations, attention_weights, num_points_list, method="default", shape=""
):
    return "the original"


def other_core(value, sampling_locations):
    return "another"


@pytest.fixture
def loaded(monkeypatch):
    """Modules as RT-DETR (1 and 2), D-FINE and DEIM have, where one imports from the other."""
    modules = [types.ModuleType(name) for name in ("src.zoo.rtdetr.utils", "src.zoo.rtdetr.decoder", "engine.utils")]
    for module in modules[:2]:
        module.deformable_attention_core_func, module.deformable_attention_core_func_v2 = core, core_v2
    modules[2].deformable_attention_core_func = other_core
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return modules


def test_core_functions_of_loaded_modules(loaded):
    value, locations, weights = attention_tensors()
    expected = aclgrad.torch.multi_scale_deformable_attention(value, SHAPES, STARTS, locations, weights)
    in_one_axis = SHAPES.tolist(), locations.flatten(3, 4), weights.flatten(3, 4)
    of_levels = value.permute(0, 2, 3, 1).split([height * width for height, width in SHAPES.tolist()], -1)
    with aclgrad.torch.patched("loaded"):
        for module in loaded[:2]:
            results = (
                module.deformable_attention_core_func(value, SHAPES.tolist(), locations, weights),
                module.deformable_attention_core_func_v2(value, *in_one_axis, [3, 3]),
                module.deformable_attention_core_func_v2(of_levels, *in_one_axis, num_points_list=[3, 3]),
            )
            assert all(torch.equal(result, expected) and result.requires_grad for result in results)
            assert module.deformable_attention_core_func_v2(value, *in_one_axis, [3, 3], "discrete") == "the original"
        assert loaded[2].deformable_attention_core_func(value, locations) == "another"
    assert loaded[1].deformable_attention_core_func is core


def test_loaded_modules_have_nothing_to_replace():
    with pytest.warns(UserWarning, match="patch: loaded: no module that is imported has such functions"):
        assert aclgrad.torch.patch("loaded") == []


def forward_of_extension(value, shapes, starts, locations, weights, step):
    raise RuntimeError("Not implemented on the CPU")


def backward_of_extension(value, shapes, starts, locations, weights, grad_output, step):
    raise RuntimeError("Not implemented on the CPU")


def check_extension(module):
    value, locations, weights = tensors = [tensor.detach().requires_grad_() for tensor in attention_tensors()]
    expected = aclgrad.torch.multi_scale_deformable_attention(value, SHAPES, STARTS, locations, weights)
    with torch.no_grad():
        arguments = value, SHAPES, STARTS, locations, weights
        assert torch.equal(module.ms_deform_attn_forward(*arguments, 64), expected)
        actual = module.ms_deform_attn_backward(*arguments, torch.ones_like(expected), 64)
    for gradient, reference in zip(actual, torch.autograd.grad(expected.sum(), tensors), strict=True):
        assert torch.equal(gradient, reference)


def test_extension_of_any_name(monkeypatch):
    module = types.ModuleType("somebody._C")
    module.ms_deform_attn_forward, module.ms_deform_attn_backward = forward_of_extension, backward_of_extension
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with aclgrad.torch.patched("loaded"):
        check_extension(module)
    with pytest.raises(RuntimeError, match="Not implemented"):
        check_extension(module)


def test_adet_without_its_extension(tmp_path, monkeypatch):
    (tmp_path / "adet").mkdir()
    (tmp_path / "adet" / "__init__.py").write_text("from . import layers\n")
    (tmp_path / "adet" / "layers.py").write_text("from adet import _C\n")
    monkeypatch.syspath_prepend(tmp_path)
    with aclgrad.torch.patched("adet"):
        from adet import layers
    check_extension(layers._C)
    with pytest.raises(ImportError, match="adet._C.bezier_align_forward: the extension of adet is not installed"):
        layers._C.bezier_align_forward()
    for name in ("adet", "adet.layers", "adet._C"):
        monkeypatch.delitem(sys.modules, name)


def test_levels_that_are_kept_outlive_a_transform():
    from aclgrad.torch.patches import _kept_levels

    def levels():
        return _kept_levels(((4, 5), (2, 3)), torch.device("cpu"), ())

    _kept_levels.cache_clear()
    torch.func.grad(lambda x: (x * levels()[1].sum()).sum())(torch.ones(2))
    shapes, starts = levels()
    assert shapes.tolist() == [[4, 5], [2, 3]] and starts.tolist() == [0, 20]
    assert shapes.data_ptr() and starts.data_ptr()  # which a tensor of a transform does not have


def test_command_lists_what_would_be_patched(stand_ins, capsys):
    from aclgrad.torch.__main__ import main

    for name, module in stand_ins.items():
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    stand_ins["mmcv"].__version__ = "2.2.0"
    del stand_ins["detrex.layers.multi_scale_deform_attn"].multi_scale_deformable_attn_pytorch
    main()
    lines = capsys.readouterr().out.splitlines()
    assert "mmcv: mmcv 2.2.0" in lines and f"grid_sample: torch {torch.__version__}" in lines
    assert "  mmcv.ops.multi_scale_deform_attn.MultiScaleDeformableAttnFunction.apply" in lines
    assert "  torch.grid_sampler_3d" in lines and "  torch.nn.functional.grid_sample" in lines
    assert any(line.startswith("detrex: of a version that cannot be patched") for line in lines)
    assert all(f"  {module}.{name}" in lines for target, module, name, _ in FUNCTIONS if target != "detrex")


@pytest.fixture
def nothing_installed(monkeypatch):
    """But PyTorch."""
    for target, places in TARGETS.items():
        for module in (target, *(place.module for place in places)) if target not in OF_PYTORCH else ():
            monkeypatch.setitem(sys.modules, module, None)


OF_PYTORCH = "loaded", "grid_sample"
NOT_INSTALLED = [f"{target}: not installed" for target in TARGETS if target not in OF_PYTORCH]
NOT_INSTALLED.append("loaded: no module that is imported has such functions")


def test_command_says_what_is_not_installed(nothing_installed, capsys):
    from aclgrad.torch.__main__ import main

    main()
    assert [line for line in capsys.readouterr().out.splitlines() if ": no" in line] == NOT_INSTALLED


def test_patch_returns_what_it_replaced(stand_ins):
    try:
        names = aclgrad.torch.patch()
        assert {f"{module}.{name}" for _, module, name, _ in FUNCTIONS} | {"torch.grid_sampler_2d"} <= set(names)
        assert aclgrad.torch.patch() == []
    finally:
        aclgrad.torch.unpatch()


def test_patch_says_what_is_not_installed(nothing_installed, capsys):
    names = "nn.functional.grid_sample", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d"
    samplers = [f"torch.{name}" for name in names]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert aclgrad.torch.patch(verbose=True) == samplers
            assert capsys.readouterr().out.splitlines() == samplers + NOT_INSTALLED
            assert aclgrad.torch.patch("grid_sample", verbose=True) == []
        with pytest.warns(UserWarning, match="aclgrad.torch.patch: mmcv: not installed") as said:
            assert aclgrad.torch.patch("mmcv", "grid_sample") == []
        assert len(said) == 1 and said[0].filename == __file__
        assert not capsys.readouterr().out
    finally:
        aclgrad.torch.unpatch()


# ---- torch.nn.functional.grid_sample

_generator = torch.Generator().manual_seed(0)
IMAGE = torch.randn(2, 3, 8, 9, generator=_generator)
GRID = torch.rand(2, 4, 5, 2, generator=_generator) * 2 - 1


@pytest.mark.parametrize(
    "arguments",
    [
        (IMAGE, GRID),
        (IMAGE.double(), GRID.double(), "bicubic", "reflection", True),
        (IMAGE, GRID, "nearest", "border"),
    ],
)
@pytest.mark.filterwarnings("ignore:Default grid_sample")
def test_grid_sample_is_ours(arguments):
    expected = F.grid_sample(*arguments)
    with aclgrad.torch.patched("grid_sample"), Calls() as calls:
        actual = F.grid_sample(*arguments)
    assert calls.count("grid_sample") == 1
    torch.testing.assert_close(actual, expected)


@pytest.fixture
def calls_on_gpus(monkeypatch):
    """As if there were one GPU: its fake tensors, and the calls of our functions, whose arguments are all there."""
    patches = aclgrad.torch.patches
    calls = []

    def count(function):
        def replacement(*arguments):
            tensors = [a for a in arguments if torch.is_tensor(a)]
            assert {tensor.device for tensor in tensors} == {torch.device("cuda:0")}
            calls.append(function.__name__)
            return function(*arguments)

        return replacement

    monkeypatch.setattr(patches, "_gpu_count", lambda: 1)
    for name in ("grid_sample", "multi_scale_deformable_attention"):
        monkeypatch.setattr(patches, name, count(getattr(patches, name)))
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield calls


def on_gpu(*tensors, index=0):
    return [torch.empty_like(tensor, device=f"cuda:{index}") for tensor in tensors]


@pytest.mark.filterwarnings("ignore:Default grid_sample")
def test_grid_sample_on_gpus_is_ours(calls_on_gpus, monkeypatch):
    monkeypatch.setattr(F, "grid_sample", lambda *arguments: "the original")
    with aclgrad.torch.patched("grid_sample"):
        assert F.grid_sample(*on_gpu(IMAGE, GRID)).is_cuda
        assert F.grid_sample(*on_gpu(IMAGE, GRID, index=1)) == "the original"  # for a GPU that we do not find
        assert F.grid_sample(on_gpu(IMAGE)[0], GRID) == "the original"
        assert calls_on_gpus == ["grid_sample"]


def test_attention_on_gpus_is_ours(calls_on_gpus, stand_ins):
    mmcv = stand_ins["mmcv.ops.multi_scale_deform_attn"]
    shapes, tensors = levels_and_points()
    value, locations, weights = on_gpu(*tensors)
    with aclgrad.torch.patched("mmcv"):
        levels = locations.view(2, 10, 4, 3, 4, 2), weights.view(2, 10, 4, 3, 4)
        result = mmcv.multi_scale_deformable_attn_pytorch(value, shapes, *levels)
    assert result.device == value.device and calls_on_gpus == ["multi_scale_deformable_attention"]


@pytest.mark.parametrize("model", ["rt_detr_v2", "d_fine", "deimv2"])
def test_levels_with_different_numbers_of_points_on_gpus(model, calls_on_gpus):
    pytest.importorskip("transformers")
    module = pytest.importorskip(f"transformers.models.{model}.modeling_{model}")
    shapes, tensors = levels_and_points()
    value, locations, weights = on_gpu(*tensors)
    with aclgrad.torch.patched("transformers"):
        result = module.multi_scale_deformable_attention_v2(value, shapes, locations, weights, [3, 6, 3])
    assert result.device == value.device and calls_on_gpus == ["multi_scale_deformable_attention"]


def test_levels_are_kept_for_gpus():
    """On the device "meta", which has what it takes."""
    levels = aclgrad.torch.patches._levels
    shapes, device = [(8, 12), (4, 6)], torch.device("meta")
    with torch.inference_mode():
        kept = levels(shapes, device, [1, 2])
    assert not kept[0].is_inference() and [tensor.shape[0] for tensor in kept] == [3, 3]
    assert levels(shapes, device, [1, 2])[0] is kept[0]
    on_cpu = levels(shapes, torch.device("cpu"), [1, 2])
    assert on_cpu[0].tolist() == [[8, 12], [4, 6], [4, 6]] and on_cpu[1].tolist() == [0, 96, 96]
    assert levels(torch.tensor(shapes), torch.device("cpu"))[1].tolist() == [0, 96]


MODES = ["bilinear", "nearest", "bicubic"]
PADDING_MODES = ["zeros", "border", "reflection"]


@pytest.mark.parametrize("name", ["grid_sampler", "grid_sampler_2d"])
@pytest.mark.parametrize("mode", range(3))
@pytest.mark.parametrize("padding_mode", range(3))
@pytest.mark.parametrize("align_corners", [False, True])
def test_functions_behind_grid_sample_are_ours(name, mode, padding_mode, align_corners):
    arguments = IMAGE, GRID, mode, padding_mode, align_corners
    original = getattr(torch, name)
    expected = original(*arguments)
    torch.testing.assert_close(
        F.grid_sample(IMAGE, GRID, MODES[mode], PADDING_MODES[padding_mode], align_corners), expected
    )
    with aclgrad.torch.patched("grid_sample"), Calls() as calls:
        actual = getattr(torch, name)(*arguments)
    assert calls.count("grid_sample") == 1 and getattr(torch, name) is original
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize(("mode", "padding_mode"), [(3, 0), (0, -1)])
def test_functions_behind_grid_sample_leave_unknown_modes_to_pytorch(mode, padding_mode):
    with aclgrad.torch.patched("grid_sample"), Calls() as calls, contextlib.suppress(RuntimeError):
        torch.grid_sampler(IMAGE, GRID, mode, padding_mode, False)
    assert calls.count("grid_sample") == 0


VOLUME, VOLUME_GRID = torch.randn(1, 2, 3, 4, 5, generator=_generator), torch.rand(1, 2, 3, 4, 3, generator=_generator)


@pytest.mark.parametrize("name", ["grid_sampler", "grid_sampler_3d"])
@pytest.mark.parametrize("mode", range(2))
def test_functions_behind_grid_sample_of_volumes_are_ours(name, mode):
    expected = getattr(torch, name)(VOLUME, VOLUME_GRID, mode, 1, False)
    with aclgrad.torch.patched("grid_sample"), Calls() as calls:
        torch.testing.assert_close(getattr(torch, name)(VOLUME, VOLUME_GRID, mode, 1, False), expected)
        torch.testing.assert_close(F.grid_sample(VOLUME, VOLUME_GRID, MODES[mode], "border", False), expected)
    assert calls.count("grid_sample_3d") == 2


def test_what_pytorch_refuses_it_still_refuses():
    with aclgrad.torch.patched("grid_sample"):
        with pytest.raises(RuntimeError, match="bicubic"):
            F.grid_sample(VOLUME, VOLUME_GRID, "bicubic", align_corners=False)
        with pytest.raises(RuntimeError, match="expected"):
            torch.grid_sampler_2d(VOLUME, VOLUME_GRID, 0, 0, False)
        with pytest.raises(RuntimeError, match="expected"):
            torch.grid_sampler_3d(IMAGE, GRID, 0, 0, False)


@pytest.mark.parametrize(
    "arguments",
    [
        (VOLUME.to("meta"), VOLUME_GRID.to("meta")),
        (IMAGE.to("meta"), GRID.to("meta")),
    ],
)
def test_grid_sample_of_other_kinds_stays_with_pytorch(arguments):
    with aclgrad.torch.patched("grid_sample"), Calls() as calls:
        result = F.grid_sample(*arguments, align_corners=False)
    assert calls.count("grid_sample") == 0
    assert result.shape == F.grid_sample(*arguments, align_corners=False).shape


def test_patched_grid_sample_of_nan_is_that_of_gpus():
    grid = torch.full_like(GRID, float("nan"))
    assert F.grid_sample(IMAGE, grid, align_corners=False).isnan().all()
    with aclgrad.torch.patched("grid_sample"):
        assert F.grid_sample(IMAGE, grid, align_corners=False).count_nonzero() == 0
        assert F.grid_sample(IMAGE, grid, mode="bicubic", align_corners=False).isnan().all()


def test_grid_sample_refuses_what_pytorch_refuses():
    with aclgrad.torch.patched("grid_sample"), pytest.raises(RuntimeError, match="Double"):
        F.grid_sample(IMAGE, GRID.double(), align_corners=False)


def test_patched_grid_sample_compiles():
    torch._dynamo.reset()
    compiled = torch.compile(lambda *a: F.grid_sample(*a, align_corners=True), fullgraph=True, backend="aot_eager")
    with aclgrad.torch.patched("grid_sample"):
        compiled(IMAGE, GRID)
        with Calls() as calls:
            result = compiled(IMAGE, GRID)
    assert calls.count("grid_sample") == 1
    torch.testing.assert_close(result, F.grid_sample(IMAGE, GRID, align_corners=True))


# What each mode leaves to PyTorch: few channels, small results, and large images of which little is sampled.
FAST = {"bilinear": (1, 16, 64, 64), "nearest": (2, 64, 64, 64), "bicubic": (1, 3, 64, 64)}
SLOW = [
    ("bilinear", (1, 3, 256, 256), (256, 256)),
    ("bilinear", (1, 64, 8, 8), (4, 4)),
    ("bilinear", (1, 64, 512, 512), (32, 32)),
    ("nearest", (1, 16, 64, 64), (64, 64)),
    ("bicubic", (1, 1, 64, 64), (64, 64)),
    ("nearest", (1, 1, 32, 32, 32), (32, 32, 32)),
]
by_speed = pytest.mark.usefixtures("rule_of_speed")


def _calls_of_patched(shape, sides, mode="bilinear", dtype=torch.float32):
    image, grid = torch.zeros(shape, dtype=dtype), torch.zeros(shape[0], *sides, len(sides), dtype=dtype)
    with aclgrad.torch.patched("grid_sample"), Calls() as calls:
        F.grid_sample(image, grid, mode, align_corners=False)
    return calls.count("grid_sample") + calls.count("grid_sample_3d")


@by_speed
@pytest.mark.parametrize("mode", FAST)
def test_grid_sample_is_ours_where_it_is_faster(mode):
    assert _calls_of_patched(FAST[mode], FAST[mode][2:], mode) == 1
    assert _calls_of_patched((1, 1, 16, 16, 16), (16, 16, 16)) == 1


@by_speed
@pytest.mark.parametrize(("mode", "shape", "sides"), SLOW)
def test_grid_sample_is_pytorchs_where_that_is_faster(mode, shape, sides):
    assert _calls_of_patched(shape, sides, mode) == 0


@by_speed
def test_small_calls_are_ours_where_pytorch_has_none():
    assert _calls_of_patched(IMAGE.shape, (2, 2), dtype=torch.float16) == 1
    tangent = torch.ones_like(GRID)
    with aclgrad.torch.patched("grid_sample"):
        _, along = torch.func.jvp(lambda grid: F.grid_sample(IMAGE, grid, align_corners=False), (GRID,), (tangent,))
    assert along.abs().max() > 0


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_patched_grid_sample_in_scripts():
    """TorchScript has the original."""

    def sample(image: torch.Tensor, grid: torch.Tensor):
        sampled = torch.nn.functional.grid_sample(image, grid, padding_mode="border", align_corners=False)
        return sampled + torch.grid_sampler(image, grid, 0, 1, False) + torch.grid_sampler_2d(image, grid, 0, 1, False)

    expected = sample(IMAGE, GRID)
    with aclgrad.torch.patched("grid_sample"):
        script = torch.jit.script(sample)
        torch.testing.assert_close(script(IMAGE, GRID), expected)


@pytest.mark.parametrize("is_ours", [False, True])
def test_default_of_align_corners_warns_as_pytorch_does(is_ours, monkeypatch):
    monkeypatch.setattr(patches, "_is_faster", lambda *arguments: is_ours)
    for context in (contextlib.nullcontext(), aclgrad.torch.patched("grid_sample")):
        with context, pytest.warns(UserWarning, match="^Default grid_sample and affine_grid behavior has ch") as said:
            F.grid_sample(IMAGE, GRID)
        assert [warning.filename for warning in said] == [__file__]
    with warnings.catch_warnings(), aclgrad.torch.patched("grid_sample"):
        warnings.simplefilter("error")
        F.grid_sample(IMAGE, GRID, align_corners=False)


# ---- Patching and undoing


def test_everything_is_as_before():
    original = F.grid_sample
    aclgrad.torch.patch("grid_sample")
    aclgrad.torch.patch("grid_sample")
    assert F.grid_sample is not original
    with aclgrad.torch.patched("grid_sample"):
        pass
    assert F.grid_sample is not original  # for it was patched before
    aclgrad.torch.unpatch()
    assert F.grid_sample is original
    with pytest.raises(ZeroDivisionError), aclgrad.torch.patched("grid_sample"):
        assert F.grid_sample is not original
        raise ZeroDivisionError
    assert F.grid_sample is original


def test_patched_restores_what_was_there_before_even_after_unpatch():
    original = F.grid_sample
    aclgrad.torch.patch("grid_sample")
    ours = F.grid_sample
    for change in (
        aclgrad.torch.unpatch,
        aclgrad.torch.patch,
        lambda: (aclgrad.torch.unpatch(), aclgrad.torch.patch("grid_sample")),
    ):
        with aclgrad.torch.patched("grid_sample"):
            change()
        assert F.grid_sample is ours
    aclgrad.torch.unpatch()
    with aclgrad.torch.patched("grid_sample"):
        aclgrad.torch.unpatch()
        assert F.grid_sample is original
    assert F.grid_sample is original


def test_what_others_put_over_ours_stays():
    original = F.grid_sample

    def theirs(*arguments, **keywords):
        return ours(*arguments, **keywords)

    try:
        for leave in (aclgrad.torch.unpatch, lambda: None):
            with aclgrad.torch.patched("grid_sample"):
                ours = F.grid_sample
                F.grid_sample = theirs
                leave()
                assert F.grid_sample is theirs
            assert F.grid_sample is theirs
            F.grid_sample = original
    finally:
        F.grid_sample = original


def test_unknown_targets_are_named_before_anything_changes():
    original = F.grid_sample
    for targets, got in ((("jax",), "jax"), (("grid_sample", "jax"), "jax"), (("grid_sample", ["mmcv"]), "mmcv")):
        with pytest.raises(ValueError, match=f"targets: expected {', '.join(TARGETS)}, got .*{got}"):
            aclgrad.torch.patch(*targets)
        with pytest.raises(ValueError, match="targets"), aclgrad.torch.patched(*targets):
            pass
        assert F.grid_sample is original


def test_nothing_changes_where_a_target_fails(monkeypatch):
    original = F.grid_sample
    broken = types.ModuleType("mmcv.ops.multi_scale_deform_attn")  # of another version
    for name in ("mmcv", "mmcv.ops"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, broken.__name__, broken)
    with pytest.raises(AttributeError):
        aclgrad.torch.patch("grid_sample", "mmcv")
    assert F.grid_sample is original


@pytest.mark.filterwarnings("ignore:Default grid_sample")
def test_align_corners_of_the_patched_function():
    with aclgrad.torch.patched("grid_sample"):
        assert torch.equal(F.grid_sample(IMAGE, GRID), F.grid_sample(IMAGE, GRID, align_corners=False))
        with pytest.raises(TypeError, match="align_corners: expected a bool, got 'yes'"):
            F.grid_sample(IMAGE, GRID, align_corners="yes")
