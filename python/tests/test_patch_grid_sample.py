# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""`torch.nn.functional.grid_sample` and what lies behind it, with and without our operators; patching, unpatching."""

import contextlib
import pickle
import sys
import types
import warnings

import pytest

torch = pytest.importorskip("torch")
import aclgrad.torch  # noqa: E402
from aclgrad.torch import patches  # noqa: E402
from aclgrad.torch.patches import TARGETS  # noqa: E402
from patching import (  # noqa: E402, F401
    GRID,
    IMAGE,
    VOLUME,
    VOLUME_GRID,
    calls_on_gpus,
    on_gpu,
    rule_of_speed,
    small_calls_are_ours,
    unpatched,
)
from tensors import counted  # noqa: E402

F = torch.nn.functional


@pytest.mark.filterwarnings("ignore:Default grid_sample")
def test_grid_sample_on_gpus_is_ours(calls_on_gpus, monkeypatch):
    monkeypatch.setattr(F, "grid_sample", lambda *arguments: "the original")
    with aclgrad.torch.patched("grid_sample"):
        assert F.grid_sample(*on_gpu(IMAGE, GRID)).is_cuda
        assert F.grid_sample(*on_gpu(IMAGE, GRID, index=1)) == "the original"  # for a GPU that we do not find
        assert F.grid_sample(on_gpu(IMAGE)[0], GRID) == "the original"
        assert calls_on_gpus == ["grid_sample"]


MODES = ["bilinear", "nearest", "bicubic"]
PADDING_MODES = ["zeros", "border", "reflection"]


OF_IMAGES = [(name, IMAGE, GRID, mode) for name in ("grid_sampler", "grid_sampler_2d") for mode in range(3)]
OF_VOLUMES = [(name, VOLUME, VOLUME_GRID, mode) for name in ("grid_sampler", "grid_sampler_3d") for mode in range(2)]


@pytest.mark.parametrize(("name", "image", "grid", "mode"), OF_IMAGES + OF_VOLUMES)
@pytest.mark.parametrize("padding_mode", range(3))
@pytest.mark.parametrize("align_corners", [False, True])
def test_grid_sample_and_functions_behind_it_are_ours(name, image, grid, mode, padding_mode, align_corners):
    if align_corners:
        image, grid = image.double(), grid.double()
    original = getattr(torch, name)
    expected = original(image, grid, mode, padding_mode, align_corners)
    with aclgrad.torch.patched("grid_sample"), counted() as calls:
        by_numbers = getattr(torch, name)(image, grid, mode, padding_mode, align_corners)
        by_words = F.grid_sample(image, grid, MODES[mode], PADDING_MODES[padding_mode], align_corners)
    assert calls["grid_sample"] + calls["grid_sample_3d"] == 2 and getattr(torch, name) is original
    for actual in (by_numbers, by_words):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize(("mode", "padding_mode"), [(3, 0), (0, -1)])
def test_functions_behind_grid_sample_leave_unknown_modes_to_pytorch(mode, padding_mode):
    with aclgrad.torch.patched("grid_sample"), counted() as calls, contextlib.suppress(RuntimeError):
        torch.grid_sampler(IMAGE, GRID, mode, padding_mode, False)
    assert calls["grid_sample"] == 0


def test_what_pytorch_refuses_it_still_refuses():
    with aclgrad.torch.patched("grid_sample"):
        if torch.__version__ < "2.15":  # which samples such volumes itself
            with pytest.raises(RuntimeError, match="bicubic"):
                F.grid_sample(VOLUME, VOLUME_GRID, "bicubic", align_corners=False)
        with pytest.raises(RuntimeError, match="Double"):
            F.grid_sample(IMAGE, GRID.double(), align_corners=False)
        with pytest.raises(RuntimeError, match="expected"):
            torch.grid_sampler_2d(VOLUME, VOLUME_GRID, 0, 0, False)
        with pytest.raises(RuntimeError, match="expected"):
            torch.grid_sampler_3d(IMAGE, GRID, 0, 0, False)


@pytest.mark.parametrize(
    "arguments", [(VOLUME.to("meta"), VOLUME_GRID.to("meta")), (IMAGE.to("meta"), GRID.to("meta"))]
)
def test_grid_sample_of_other_kinds_stays_with_pytorch(arguments):
    with aclgrad.torch.patched("grid_sample"), counted() as calls:
        result = F.grid_sample(*arguments, align_corners=False)
    assert calls["grid_sample"] == 0
    assert result.shape == F.grid_sample(*arguments, align_corners=False).shape


def test_patched_grid_sample_of_nan_is_that_of_gpus():
    grid = torch.full_like(GRID, float("nan"))
    assert F.grid_sample(IMAGE, grid, align_corners=False).isnan().all()
    with aclgrad.torch.patched("grid_sample"):
        assert F.grid_sample(IMAGE, grid, align_corners=False).count_nonzero() == 0
        assert F.grid_sample(IMAGE, grid, mode="bicubic", align_corners=False).isnan().all()


def test_patched_grid_sample_compiles():
    torch._dynamo.reset()
    compiled = torch.compile(lambda *a: F.grid_sample(*a, align_corners=True), fullgraph=True, backend="aot_eager")
    with aclgrad.torch.patched("grid_sample"):
        compiled(IMAGE, GRID)
        with counted() as calls:
            result = compiled(IMAGE, GRID)
    assert calls["grid_sample"] == 1
    torch.testing.assert_close(result, F.grid_sample(IMAGE, GRID, align_corners=True))


# PyTorch's are few channels, small results, and images of which little is sampled.
OURS = [
    ("bilinear", (1, 2, 128, 128), (128, 128)),
    ("nearest", (1, 4, 512, 512), (512, 512)),
    ("bicubic", (1, 1, 64, 64), (64, 64)),
    ("bilinear", (1, 1, 16, 16, 16), (16, 16, 16)),
    ("nearest", (1, 1, 16, 16, 16), (16, 16, 16)),
]
PYTORCHS = [
    ("bilinear", (1, 1, 256, 256), (256, 256)),
    ("bilinear", (1, 64, 8, 8), (4, 4)),
    ("bilinear", (1, 64, 512, 512), (32, 32)),
    ("bilinear", (4000, 3, 2, 2), (2, 2)),
    ("nearest", (1, 3, 512, 512), (512, 512)),
    ("bicubic", (1, 1, 32, 32), (32, 32)),
    ("nearest", (1, 1, 8, 8, 8), (8, 8, 8)),
]
by_speed = pytest.mark.usefixtures("rule_of_speed")


def _calls_of_patched(shape, sides, mode="bilinear", dtype=torch.float32):
    image, grid = torch.zeros(shape, dtype=dtype), torch.zeros(shape[0], *sides, len(sides), dtype=dtype)
    with aclgrad.torch.patched("grid_sample"), counted() as calls:
        F.grid_sample(image, grid, mode, align_corners=False)
    return calls["grid_sample"] + calls["grid_sample_3d"]


@by_speed
@pytest.mark.parametrize(("mode", "shape", "sides"), OURS + PYTORCHS)
def test_grid_sample_is_that_of_the_faster_one(mode, shape, sides):
    assert _calls_of_patched(shape, sides, mode) == ((mode, shape, sides) in OURS)


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


@pytest.mark.parametrize("name", ["grid_sampler", "grid_sampler_2d", "grid_sampler_3d"])
def test_functions_behind_grid_sample_are_pickled_by_name(name):
    with aclgrad.torch.patched("grid_sample"):
        replacement = getattr(torch, name)
        assert pickle.loads(pickle.dumps(replacement)) is replacement


@pytest.mark.parametrize("inner", [lambda function: function, torch.func.grad])
def test_functionalize_has_the_original(inner):
    def call(image):
        return (
            F.grid_sample(image, GRID, align_corners=False).sum() + torch.grid_sampler(image, GRID, 0, 0, False).sum()
        )

    expected = inner(call)(IMAGE)
    with aclgrad.torch.patched("grid_sample"), counted() as calls:
        torch.testing.assert_close(torch.func.functionalize(inner(call))(IMAGE), expected)
    assert not calls


class Subclass(torch.Tensor):
    handled = ()

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        if function in cls.handled:
            return keywords
        return super().__torch_function__(function, types, arguments, keywords or {})


def test_a_subclass_may_handle_grid_sample(monkeypatch):
    image, original = IMAGE.as_subclass(Subclass), F.grid_sample
    with aclgrad.torch.patched("grid_sample"), counted() as calls:
        assert type(F.grid_sample(image, GRID, align_corners=False)) is Subclass
        monkeypatch.setattr(Subclass, "handled", [original])
        assert F.grid_sample(image, GRID) == {"mode": "bilinear", "padding_mode": "zeros", "align_corners": None}
    assert calls["grid_sample"] == 1


@pytest.mark.parametrize("name", ["grid_sampler", "grid_sampler_2d"])
def test_a_subclass_may_handle_what_lies_behind_grid_sample(name, monkeypatch):
    original = getattr(torch, name)
    with aclgrad.torch.patched("grid_sample"):
        monkeypatch.setattr(Subclass, "handled", [original])
        assert getattr(torch, name)(IMAGE.as_subclass(Subclass), GRID, 0, 0, False) == {}


@pytest.mark.filterwarnings("ignore")
def test_distributed_tensors_go_to_the_original():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        image, grid = (distribute_tensor(tensor, mesh, [Shard(0)]) for tensor in (IMAGE, GRID))
        with aclgrad.torch.patched("grid_sample"):
            assert type(F.grid_sample(image, grid, align_corners=False)) is DTensor
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("wrong", [(0.0, 0, False), (0, 0.0, False), (["bilinear"],)])
def test_modes_of_other_types_are_refused_as_pytorch_does(wrong):
    function = "grid_sample" if len(wrong) == 1 else "grid_sampler"
    with pytest.raises((TypeError, ValueError)) as expected:
        getattr(F if len(wrong) == 1 else torch, function)(IMAGE, GRID, *wrong)
    with aclgrad.torch.patched("grid_sample"), pytest.raises(expected.type) as got:
        getattr(F if len(wrong) == 1 else torch, function)(IMAGE, GRID, *wrong)
    assert str(got.value) == str(expected.value)


def test_a_mode_sees_grid_sample():
    seen, original = [], F.grid_sample

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            seen.append(function)
            return function(*arguments, **keywords or {})

    with aclgrad.torch.patched("grid_sample"), counted() as calls, Mode():
        F.grid_sample(IMAGE, GRID, align_corners=False)
    assert seen[0] is original and calls["grid_sample"] == 1


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
