# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""What the CUDA kernels do in the problems of ./dev bench --device cuda, as the PTX machine counts it, and how long a
GPU should take for that: the table in docs/cuda.md.

predictions.py NVCC docs/cuda.md [--check]: writes the table, or fails where it differs.
"""

import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = tempfile.TemporaryDirectory()
COUNTS = pathlib.Path(FOLDER.name) / "counts"
os.environ |= {"ACLGRAD_DEVICES": "cuda", "PTX_COUNTS": str(COUNTS), "PTX_SAMPLE": "64"}
sys.path += [str(ROOT), str(ROOT / "python" / "tests")]

import aclgrad  # noqa: E402
import gpu_tensor  # noqa: E402
import ml_dtypes  # noqa: E402
import torch  # noqa: E402
from bench.case import all_cases  # noqa: E402
from registers import kernel_name, main  # noqa: E402

# An H100 SXM5. By NVIDIA's data sheet: 3.35 TB/s, and 67 teraFLOPS of float, which makes the clock. By the CUDA
# programming guide: four schedulers of one instruction a clock, 128 bytes a clock of the first-level cache. By the white
# paper of the A100, as there is nothing about the H100: 5120 bytes a clock of the second-level cache. Nothing is
# published about atomic additions: each sector is taken to need the time in which two could be read.
PROCESSORS, CLOCK, MEMORY = 132, 1.98e9, 3.35e12
INSTRUCTIONS = 4 * CLOCK  # of warps, on a multiprocessor in a second
FIRST_LEVEL = 4 * CLOCK  # sectors, likewise
SECOND_LEVEL = 160 * CLOCK
SECTOR = 32
THREADS = 256  # of most blocks
NO_TIME = 1e-6  # seconds, of a kernel that has no row of its own
ACCESSES = ("loads", "stores", "atomics")
NOTHING = {"launches": 1, "threads": 1, "warps": 0, "bytes": 0} | dict.fromkeys(ACCESSES, "0/0/0/0/0")


def prediction(counts):
    """Seconds, and what bounds them: whatever takes longest, as if nothing else took any."""
    (_, loaded, _, missed, read), (_, stored, _, _, written), (_, added, _, _, changed) = counts["accesses"]
    processors = min(PROCESSORS, counts["blocks"])
    moved = SECTOR * (read + written + 2 * changed) + counts["filled"]
    times = {
        "instructions": counts["warps"] / processors / INSTRUCTIONS,
        "L1": (loaded + stored + added) / processors / FIRST_LEVEL,
        "L2": (missed + stored + 2 * added) / SECOND_LEVEL,
        "DRAM": moved / MEMORY,
    }
    bound = max(times, key=times.get)
    return times[bound], bound, [counts["warps"], loaded + stored, missed + stored, added, moved]


def on_gpu(tensor):
    if tensor.dtype == torch.bfloat16:
        return gpu_tensor.GpuTensor(tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return gpu_tensor.GpuTensor(tensor.numpy())


def runs_of(call):
    """The functions whose kernels the benchmark measures, and the forward passes."""
    tensors = [on_gpu(tensor) for tensor in call.inputs]
    match call.kernel:
        case "msda_grad":
            backward, forward = aclgrad.msda_backward, aclgrad.msda_forward
            tensors = [tensors[-1], *tensors[:-1]]
        case "grid_sampler_grad":
            backward, forward = aclgrad.grid_sample_backward, aclgrad.grid_sample
        case "nsa_compress_grad":
            tensors += [None, *call.sizes[3:5]]
            backward, forward = aclgrad.nsa_compress_backward, aclgrad.nsa_compress
        case "grouped_bias_add_grad":
            return {"": lambda: aclgrad.grouped_bias_add_backward(*tensors)}

    runs = {"": lambda: backward(*tensors)}
    if call.kernel != "nsa_compress_grad":  # which is deterministic in any case
        runs["deterministic"] = lambda: deterministic(runs[""])
    return runs | {"forward": lambda: forward(*tensors[1:])}


def deterministic(run):
    torch.use_deterministic_algorithms(True)
    run()
    torch.use_deterministic_algorithms(False)


def counted(run):
    """Of each kernel by its name."""
    COUNTS.write_text("")
    run()
    gpu_tensor._machine.ptxWriteCounts()
    for line in COUNTS.read_text().splitlines():
        name, fields, *_ = line.split("\t")
        fields = NOTHING | dict(field.split("=") for field in fields.split())
        accesses = [[*map(int, fields[key].split("/"))] for key in ACCESSES]
        launches, threads, warps, filled = (int(fields[key]) for key in ("launches", "threads", "warps", "bytes"))
        blocks = -(-threads // launches // THREADS)
        yield kernel_name(name), {"blocks": blocks, "warps": warps, "accesses": accesses, "filled": filled}


def short(number):
    return "0" if number < 0.001 else f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def table(_):
    lines = [
        "| problem | kernel | instructions, 10⁶ | sectors, 10⁶ | of L2, 10⁶ | added to, 10⁶ | DRAM, MB | prediction, µs "
        "| by |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in all_cases():
        if case.kind != "operators" or "cuda" not in case.devices:
            continue
        call = next(call for call in case.prepare(case.dtype, "cpu").ours.values() if call.kernel)
        for what, run in runs_of(call).items():
            rows = [(name, *prediction(counts)) for name, counts in sorted(counted(run), key=lambda row: row[0])]
            microseconds = 1e6 * sum(seconds for _, seconds, *_ in rows)
            problem = f"{case.name()}{what and f', {what}'}: {microseconds:.0f} µs"
            for name, seconds, bound, columns in rows:
                if seconds < NO_TIME:
                    continue
                numbers = " | ".join(short(column / 1e6) for column in columns)
                lines.append(f"| {problem} | `{name}` | {numbers} | {short(1e6 * seconds)} | {bound} |")
                problem = ""
    return lines


if __name__ == "__main__":
    main("predictions", table)
