# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Times aclgrad against PyTorch, in turn, in one process, on the same data and the same number of threads.

    ./dev bench                              every operator through the C interface, with one thread and with all
    ./dev bench python                       PyTorch and NumPy functions
    ./dev bench models                       training steps of models of Hugging Face (bench/models.py)
    ./dev bench overhead                     what a call costs from Python (bench/overhead.py)
    ./dev bench sizes                        how the cost of a call grows with its problem, on one thread, ours alone
    ./dev bench cells --seconds 0.3          a dense table against PyTorch, OpenVINO, OpenCV, JAX and plain C, the
                                             slowest cells last; on a GPU (python3 -m bench cells --device cuda) against PyTorch, with the
                                             package that is installed
    ./dev bench --filter MSDA --no-compile   cases whose name holds the word, without torch.compile
    ./dev bench --before PREFIX              the library of another install prefix, too, in the same turns
    ./dev bench --publish                    every operator; then writes the figures into docs/ and the README
    ./dev bench --check                      only compares the results, without timing

All figures go to build/bench/results.json.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

from bench import report

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_LIBRARIES = {"cpu": "build/prefix", "cuda": "build/gpu/libaclgrad_gpu_kernels.so"}
_KINDS = ["operators", "sizes", "python", "cells"]


def _child(arguments) -> None:
    """Measures with one number of threads and prints a line of JSON for each case."""
    import torch
    import torch._functorch.config

    from bench import measure
    from bench.case import all_cases

    torch.set_num_threads(arguments.child)
    torch._functorch.config.donated_buffer = False  # or a compiled backward pass can run only once
    libraries = {"": arguments.library}
    if arguments.before:
        libraries["before"] = arguments.before
    cases = [case for case in all_cases() if case.kind in arguments.kinds and arguments.device in case.devices
             and arguments.filter.lower() in case.name().lower()]
    measurement = measure.Measurement(arguments.device, libraries, arguments.compile and not arguments.check)
    measure.all_measured(cases, measurement, 0 if arguments.check else arguments.seconds,
                         lambda record: print(json.dumps(record), flush=True))


def _run_child(threads: int, arguments) -> list[dict]:
    count = str(threads)
    environment = dict(os.environ, ACLGRAD_DEVICES="cpu", ACLGRAD_NUM_THREADS=count, OMP_NUM_THREADS=count,
                       NPROC=count)  # which is what JAX asks
    command = [sys.executable, "-m", "bench", "--child", str(threads), *sys.argv[1:]]
    records = []
    with subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            records.append(json.loads(line))
            print(report.line(records[-1]), flush=True)
    if process.returncode != 0:
        sys.exit(process.returncode)
    return records


def _calls() -> list[dict]:
    """What a call costs beside its work: nanoseconds of the smallest problems through the C interface."""
    program = _ROOT / "build" / "release" / "bench" / "bench_calls"
    command = [program, "--benchmark_format=json", "--benchmark_filter=smallest"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [{"call": run["name"], "nanoseconds": run["real_time"]} for run in json.loads(output)["benchmarks"]]


def _machine() -> str:
    information = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in information.splitlines() if line.startswith("model name")),
                 platform.machine())
    widest = "AVX-512" if "avx512f" in information else "AVX2" if "avx2" in information else "no AVX2"
    return f"{model}, {len(os.sched_getaffinity(0))} processors, {widest}"


def _circumstances() -> dict[str, str]:
    from importlib.metadata import version

    commit = subprocess.run(["git", "-C", _ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {
        "command": " ".join(["./dev bench", *sys.argv[1:]]),
        "machine": _machine(),
        "software": f"PyTorch {version('torch')}, Python {platform.python_version()}, "
                    f"{platform.system()} {platform.release()}",
        "commit": commit.stdout.strip() or "unknown",
        "date": datetime.date.today().isoformat(),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="kind", help=f"{', '.join(_KINDS)}; default: operators")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--library", type=pathlib.Path,
                        help=f"default: {_LIBRARIES['cpu']}, an install prefix; with --device cuda {_LIBRARIES['cuda']}")
    parser.add_argument("--before", type=pathlib.Path, help="install prefix of another version, to compare with")
    parser.add_argument("--threads", type=int, nargs="+", help="default: 1 and all processors; on a GPU 1")
    parser.add_argument("--filter", default="", help="measure only cases whose name holds this")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each case")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave torch.compile out")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="compare the results and time nothing")
    what.add_argument("--publish", action="store_true", help="write docs/performance.* and the README's table")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.library = arguments.library or _ROOT / _LIBRARIES[arguments.device]
    arguments.kinds = arguments.kinds or (["operators", "sizes"] if arguments.publish else ["operators"])
    for kind in arguments.kinds:
        if kind not in _KINDS:
            parser.error(f"expected {', '.join(_KINDS)}, got {kind}")
    is_whole = (arguments.device == "cpu" and set(arguments.kinds) == {"operators", "sizes"}
                and 1 in (arguments.threads or [1]))
    if arguments.publish and (arguments.filter or arguments.before or not is_whole):
        parser.error("--publish needs the kinds operators and sizes, --device cpu and 1 among --threads, "
                     "and neither --filter nor --before")
    if arguments.threads is None:
        processors = len(os.sched_getaffinity(0))
        counts = [processors] if arguments.check else sorted({1, processors})
        arguments.threads = [1] if arguments.device == "cuda" else counts
    return arguments


def main() -> None:
    arguments = _arguments()
    if arguments.child is not None:
        _child(arguments)
        return
    records = [record for threads in arguments.threads for record in _run_child(threads, arguments)]
    if arguments.check:
        return
    print(report.cells(records), end="")
    calls = _calls() if arguments.device == "cpu" and not arguments.filter else []
    results = {"circumstances": _circumstances(), "records": records, "calls": calls}
    out = _ROOT / "build" / "bench" / "results.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nWritten: {out}")
    if arguments.publish:
        report.publish(results)


if __name__ == "__main__":
    main()
