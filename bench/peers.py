# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Baselines beside PyTorch: OpenVINO, OpenCV, JAX, and plain C. A function returns what a call runs, or raises Unsupported
where the library does not have the problem."""

import ctypes
import functools
import subprocess

import torch

from bench.case import ROOT, Run

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


class Unsupported(Exception):
    pass


def _need(holds: bool) -> None:
    if not holds:
        raise Unsupported


# ---- OpenVINO


def compiled_by_openvino(module: torch.nn.Module, *inputs: torch.Tensor) -> Run:
    """A module in float32, without gradients."""
    import openvino

    model = openvino.convert_model(module, example_input=inputs, input=[tuple(t.shape) for t in inputs])
    return _openvino_run(model, inputs)


def _openvino_run(model, inputs) -> Run:
    import openvino

    threads = torch.get_num_threads()
    options = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
    request = openvino.Core().compile_model(model, "CPU", options).create_infer_request()
    for index, tensor in enumerate(inputs):
        request.set_input_tensor(index, openvino.Tensor(tensor.numpy(), shared_memory=True))

    def run():
        request.infer()
        return torch.from_numpy(request.get_output_tensor(0).data)
    return run


def openvino_grid_sample(image, grid, mode, padding) -> Run:
    _need(image.dtype == torch.float32 and image.dim() == 4 and image.is_contiguous())
    import openvino
    from openvino import opset9

    nodes = [opset9.parameter(t.shape, openvino.Type.f32) for t in (image, grid)]
    sampled = opset9.grid_sample(*nodes, {"align_corners": False, "mode": _MODES[mode],
                                          "padding_mode": _PADDINGS[padding]})
    return _openvino_run(openvino.Model([sampled], nodes), [image, grid])


# ---- OpenCV


def opencv_remap(image, grid, mode, padding) -> Run:
    """Pictures as OpenCV has them where channels are last, else one plane after the other. The coordinates in pixels are
    computed before."""
    _need(image.dtype == torch.float32 and image.dim() == 4 and padding == 0)
    import cv2

    channels, height, width = image.shape[1:]
    last = channels > 1 and image.is_contiguous(memory_format=torch.channels_last)
    _need(max(*image.shape[2:], *grid.shape[1:3]) < 1 << 15 and not (last and channels > 4))
    cv2.setNumThreads(torch.get_num_threads())
    interpolation = (cv2.INTER_LINEAR, cv2.INTER_NEAREST, cv2.INTER_CUBIC)[mode]
    size = torch.tensor([width, height])
    maps = [(((g + 1) * size - 1) / 2).unbind(-1) for g in grid]
    maps = [[axis.contiguous().numpy() for axis in axes] for axes in maps]
    out = image.new_empty(*image.shape[:2], *grid.shape[1:3]).contiguous(
        memory_format=torch.channels_last if last else torch.contiguous_format)
    images = [[i.permute(1, 2, 0).numpy()] if last else list(i.numpy()) for i in image]
    outs = [[o.permute(1, 2, 0).numpy()] if last else list(o.numpy()) for o in out]

    def run():
        for planes, axes, results in zip(images, maps, outs, strict=True):
            for plane, result in zip(planes, results, strict=True):
                cv2.remap(plane, *axes, interpolation, result, cv2.BORDER_CONSTANT, 0)
        return out
    return run


# ---- JAX


def _jax_sampling(volume, grid):
    import jax
    from jax.scipy.ndimage import map_coordinates

    _need(volume.dtype == torch.float32 and volume.shape[:2] == (1, 1))
    size = torch.tensor(volume.shape[:1:-1])  # x, y, z
    places = ((grid[0] + 1) * size - 1) / 2
    coordinates = [jax.numpy.asarray(axis.numpy()) for axis in reversed(places.unbind(-1))]
    return jax, jax.numpy.asarray(volume[0, 0].numpy()), coordinates, functools.partial(
        map_coordinates, order=1, mode="constant")


def jax_map_coordinates(volume, grid) -> Run:
    jax, data, coordinates, sample = _jax_sampling(volume, grid)
    compiled = jax.jit(sample)

    def run():
        result = compiled(data, coordinates).block_until_ready()
        return torch.from_dlpack(result)[None, None]
    return run


def jax_map_coordinates_gradient(grad, volume, grid) -> Run:
    """Its gradients are those of its coordinates, in pixels; these turn into the grid's by a factor an axis."""
    jax, data, coordinates, sample = _jax_sampling(volume, grid)
    seed = jax.numpy.asarray(grad[0, 0].numpy())
    compiled = jax.jit(lambda data, coordinates, seed: jax.vjp(sample, data, coordinates)[1](seed))
    factors = torch.tensor(volume.shape[:1:-1]) / 2

    def run():
        of_data, of_coordinates = jax.block_until_ready(compiled(data, coordinates, seed))
        of_axes = [torch.from_dlpack(axis) for axis in reversed(of_coordinates)]
        return torch.from_dlpack(of_data)[None, None], torch.stack(of_axes, -1)[None] * factors
    return run


# ---- Plain C


@functools.cache
def _plain_c(element: str) -> ctypes.CDLL:
    library = ROOT / "build" / "bench" / f"libplain{element}.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-O3", "-march=native", f"-DElement={element}", "-shared", "-fPIC", ROOT / "bench" / "plain.c",
               "-o", library, "-lm"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def plain_c(function: str, sizes: list[int], inputs: list[torch.Tensor], like: list[torch.Tensor],
            has_half: bool = False) -> Run:
    """A function of plain.c, which has one thread, with results `like` those."""
    elements = {torch.float32: "float"} | ({torch.float16: "_Float16"} if has_half else {})
    dtypes = {t.dtype for t in inputs + like if t.is_floating_point()}
    _need(len(dtypes) == 1 and dtypes <= elements.keys())
    call = getattr(_plain_c(elements[dtypes.pop()]), function)
    numbers = (ctypes.c_int64 * len(sizes))(*sizes)
    outputs = [torch.empty_like(t) for t in like]
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in inputs + outputs]

    def run():
        call(numbers, *pointers)
        return outputs
    return run


def plain_c_grid_sampler(function, inputs, like, mode, padding) -> Run:
    image, grid = inputs[-2:]
    channels_last = torch.channels_last if image.dim() == 4 else torch.channels_last_3d
    last = image.shape[1] > 1 and image.is_contiguous(memory_format=channels_last)
    _need(mode == 0 and padding == 0 and (last or image.is_contiguous()))
    return plain_c(function, [*image.shape, *grid.shape[1:-1], int(last)], inputs, like)
