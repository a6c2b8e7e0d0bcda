# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What packages have of deformable attention, with and without our operators, and what `patch` finds of it. Those that
are not installed have stand-ins."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import types
import warnings

import pytest

torch = pytest.importorskip("torch")
import aclgrad.torch  # noqa: E402
from aclgrad.torch.patches import TARGETS  # noqa: E402
from patching import calls_on_gpus, levels_and_points, on_gpu, small_calls_are_ours, unpatched  # noqa: E402, F401
from tensors import counted, same_bits  # noqa: E402

SHAPES, STARTS = torch.tensor([[3, 4], [2, 2]]), torch.tensor([0, 12])


def attention_tensors():
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(1, 16, 2, 4, generator=generator).requires_grad_()
    locations = torch.rand(1, 5, 2, 2, 3, 2, generator=generator)
    return value, locations, torch.rand(1, 5, 2, 2, 3, generator=generator)


def attention(value, locations, weights):
    return aclgrad.torch.multi_scale_deformable_attention(value, SHAPES, STARTS, locations, weights)


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
    yield modules
    sys.modules.pop("detrex._C", None)


@each_function
def test_function_of_a_package(stand_ins, target, module, name, form):
    tensors = attention_tensors()
    expected, arguments = attention(*tensors), form(*tensors)
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
    expected = attention(value, locations, weights)
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
    with aclgrad.torch.patched(target), counted() as calls:
        actual = getattr(package, name)(*form(*tensors))
    assert calls["multi_scale_deformable_attention"] == 1
    torch.testing.assert_close(actual, expected)


# Modules that ask for the extension of their package while they are imported.
ASKING = {
    "mmcv": ("mmcv.ops.multi_scale_deform_attn", "mmcv._ext"),
    "detrex": ("detrex.layers.multi_scale_deform_attn", "detrex._C"),
    "adet": ("adet.layers.ms_deform_attn", "adet._C"),
}


@pytest.fixture
def file_of_package(package, tmp_path, monkeypatch):
    """The file of such a module, in a package without its extension."""

    def forget():
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            monkeypatch.delitem(sys.modules, name)

    name, extension = ASKING[package]
    *_, folder, module = name.split(".")
    (tmp_path / package / folder).mkdir(parents=True)
    (tmp_path / package / "__init__.py").write_text(f"from . import {folder}\n")
    (tmp_path / package / folder / "__init__.py").write_text(f"from . import {module}\n")
    file = tmp_path / package / folder / f"{module}.py"
    file.write_text(
        "import importlib\n"
        f"extension = importlib.import_module('{extension}')\n"
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


@pytest.mark.parametrize("package", ASKING)
def test_package_that_asks_for_its_extension(package, file_of_package):
    name, extension = ASKING[package]
    with aclgrad.torch.patched(package):
        module = importlib.import_module(name)

    def backward(*arguments):
        if package != "mmcv":
            return module.extension.ms_deform_attn_backward(*arguments)
        *tensors, step = arguments  # as BEVFormer's own autograd.Function calls it
        gradients = [torch.zeros_like(tensors[i]) for i in (0, 3, 4)]
        module.extension.ms_deform_attn_backward(*tensors, *gradients, im2col_step=step)
        return gradients

    check_extension(module.extension.ms_deform_attn_forward, backward)
    with pytest.raises(ImportError, match=f"{extension}.nms: the extension of {package} is not installed"):
        module.extension.nms()
    if package != "adet":
        value, locations, weights = attention_tensors()
        with aclgrad.torch.patched(package):
            function = module.MultiScaleDeformableAttnFunction
            assert function.apply(value, SHAPES, STARTS, locations, weights, 64).shape == (1, 5, 8)


@pytest.mark.parametrize("package", ["mmcv"])
def test_package_that_cannot_be_imported_even_so_is_left_out(package, file_of_package):
    file_of_package.write_text(file_of_package.read_text() + "import a_package_that_nobody_has\n")
    with aclgrad.torch.patched("mmcv"):
        pass
    assert "mmcv._ext" not in sys.modules


def test_attention_on_gpus_is_ours(calls_on_gpus, stand_ins):
    mmcv = stand_ins["mmcv.ops.multi_scale_deform_attn"]
    shapes, tensors = levels_and_points()
    value, locations, weights = on_gpu(*tensors)
    with aclgrad.torch.patched("mmcv"):
        levels = locations.view(2, 10, 4, 3, 4, 2), weights.view(2, 10, 4, 3, 4)
        result = mmcv.multi_scale_deformable_attn_pytorch(value, shapes, *levels)
    assert result.device == value.device and calls_on_gpus == ["multi_scale_deformable_attention"]


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
    expected = attention(value, locations, weights)
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


def check_extension(forward, backward):
    value, locations, weights = tensors = [tensor.detach().requires_grad_() for tensor in attention_tensors()]
    expected = attention(*tensors)
    grad_output = torch.arange(expected.numel(), dtype=expected.dtype).reshape(expected.shape)
    with torch.no_grad():
        arguments = value, SHAPES, STARTS, locations, weights
        assert torch.equal(forward(*arguments, 64), expected)
        actual = backward(*arguments, grad_output, 64)
    assert same_bits(actual, torch.autograd.grad(expected, tensors, grad_output))


def test_extension_of_any_name(monkeypatch):
    module = types.ModuleType("somebody._C")
    module.ms_deform_attn_forward, module.ms_deform_attn_backward = forward_of_extension, backward_of_extension
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with aclgrad.torch.patched("loaded"):
        check_extension(module.ms_deform_attn_forward, module.ms_deform_attn_backward)
    with pytest.raises(RuntimeError, match="Not implemented"):
        check_extension(module.ms_deform_attn_forward, module.ms_deform_attn_backward)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_scripts_have_the_original_and_its_names(tmp_path, monkeypatch):
    (tmp_path / "scripted_core.py").write_text(
        "from torch import Tensor\n"
        "def total(x: Tensor):\n"
        "    return x.sum()\n"
        "def deformable_attention_core_func(\n"
        "    value: Tensor, value_spatial_shapes: list[tuple[int, int]], sampling_locations: Tensor,"
        " attention_weights: Tensor\n"
        "):\n"
        "    return total(sampling_locations) * len(value_spatial_shapes)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("scripted_core")
    arguments = by_levels(*attention_tensors())
    arguments = arguments[0], SHAPES.tolist(), *arguments[2:]
    expected = module.deformable_attention_core_func(*arguments)
    with aclgrad.torch.patched("loaded"):
        assert module.deformable_attention_core_func(*arguments).shape == (1, 5, 8)
        script = torch.jit.script(module.deformable_attention_core_func)
    del sys.modules["scripted_core"]
    assert script(arguments[0], [tuple(sides) for sides in arguments[1]], *arguments[2:]) == expected


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


@pytest.mark.parametrize("arguments", [["aclgrad.torch"], ["aclgrad", "--help"]], ids=" ".join)
def test_commands_whose_output_nobody_reads_end_without_a_traceback(arguments):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as nobody:
        run = subprocess.run([sys.executable, "-m", *arguments], stdout=nobody, stderr=subprocess.PIPE, text=True)
    assert run.returncode != 0 and "Traceback" not in run.stderr and "Exception ignored" not in run.stderr


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
    names = aclgrad.torch.patch()
    assert {f"{module}.{name}" for _, module, name, _ in FUNCTIONS} | {"torch.grid_sampler_2d"} <= set(names)
    assert aclgrad.torch.patch() == []


def test_patch_says_what_is_not_installed(nothing_installed, capsys):
    names = "nn.functional.grid_sample", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d"
    samplers = [f"torch.{name}" for name in names]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert aclgrad.torch.patch(verbose=True) == samplers
        assert capsys.readouterr().out.splitlines() == samplers + NOT_INSTALLED
        assert aclgrad.torch.patch("grid_sample", verbose=True) == []
    with pytest.warns(UserWarning, match="aclgrad.torch.patch: mmcv: not installed") as said:
        assert aclgrad.torch.patch("mmcv", "grid_sample") == []
    assert len(said) == 1 and said[0].filename == __file__
    assert not capsys.readouterr().out


def test_functions_of_a_module_that_was_loaded_again(loaded):
    aclgrad.torch.patch("loaded")
    ours = loaded[0].deformable_attention_core_func
    loaded[0].deformable_attention_core_func = core  # as importlib.reload does
    assert aclgrad.torch.patch("loaded") == ["src.zoo.rtdetr.utils.deformable_attention_core_func"]
    assert loaded[0].deformable_attention_core_func not in (core, ours)
    aclgrad.torch.unpatch()
    assert loaded[0].deformable_attention_core_func is core


def test_levels_are_kept_for_gpus():
    """On the device "meta", which has what it takes."""
    levels = aclgrad.torch.patches._levels
    shapes, device = [(8, 12), (4, 6)], torch.device("meta")
    with torch.inference_mode():
        kept = levels(shapes, device, [1, 2])
    assert not kept[0].is_inference() and [tensor.shape[0] for tensor in kept] == [3, 3]
    assert levels(shapes, device, [1, 2])[0] is kept[0]
    assert aclgrad.torch.patches._kept_levels.cache_info().maxsize is None  # a CUDA graph may read them
    with device:  # by default
        on_cpu = levels(shapes, torch.device("cpu"), [1, 2])
    assert on_cpu[0].tolist() == [[8, 12], [4, 6], [4, 6]] and on_cpu[1].tolist() == [0, 96, 96]
    assert levels(torch.tensor(shapes), torch.device("cpu"))[1].tolist() == [0, 96]
