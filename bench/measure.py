# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Runs cases in one process with one number of threads: ours and every baseline in turn, on the same data."""

import ctypes
import functools
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import torch

from bench import peers
from bench.aclnn import GpuKernel, Library, Planned
from bench.case import ROOT, Call, Case, Run, Work, identity, joined
from bench.report import predicted_ms

_LONG = 0.2  # seconds
_FAR_BEHIND = 3  # times as slow as the fastest implementation: such a one is timed once
_SPINNING = 0.02  # seconds, by when threads that have nothing more to do have gone to sleep
_HEAD_START = 500_000  # clocks that a GPU is kept busy, so that all kernels of a call are queued when the first begins
_IN_NUMPY_MEMORY = "NumPy's memory"
_LARGEST_DIFFERENCE = 0.02  # relative, between ours and a baseline, which computes in other types and orders


def _seconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _seconds_on_gpu(run: Run) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(_HEAD_START)
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def fastest_in_turn(runs: list[Run], rounds: int) -> list[float]:
    """Seconds of the fastest call of each."""
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        best = [min(before, _seconds(run)) for before, run in zip(best, runs, strict=True)]
    return best


class Measurement:
    """How to run and time on one device: with the C interface on a CPU, kernel by kernel on a GPU."""

    def __init__(self, device: str, libraries: dict[str, pathlib.Path], transforms: bool):
        self.device = device
        self._transforms = {"torch.compile": torch.compile} if transforms else {}
        self._seconds = _seconds if device == "cpu" else _seconds_on_gpu
        if device == "cpu":
            self._loops = ctypes.CDLL(str(ROOT / "build" / "release" / "bench" / "libaclgrad_bench_loops.so"))
            self._libraries = {name: Library(prefix) for name, prefix in libraries.items()}
        else:
            self._kernels = ctypes.CDLL(str(libraries[""]))

    def rooflines(self, seconds: float) -> dict[str, float]:
        """Bytes a second that memory can be read and copied with: the best of several tries."""
        size = 1 << 28
        source = torch.ones(size, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        if self.device == "cpu":
            pointers = [ctypes.c_void_p(t.data_ptr()) for t in (source, target)]
            work = {"read": (size, lambda: self._loops.stream_read(pointers[0], ctypes.c_int64(size))),
                    "copy": (2 * size, lambda: self._loops.stream_copy(*pointers, ctypes.c_int64(size)))}
        else:
            work = {"read": (size, source.view(torch.float32).sum), "copy": (2 * size, lambda: target.copy_(source))}
        return {name: amount / self._fastest(run, seconds) for name, (amount, run) in work.items()}

    def _fastest(self, run: Run, seconds: float) -> float:
        run()
        times, start = [], time.perf_counter()
        while len(times) < 5 or time.perf_counter() - start < seconds:
            times.append(self._seconds(run))
        return min(times)

    def _ours(self, work: Work) -> dict[str, Run]:
        """Everything of ours that is timed, by layout and library."""
        runs = {}
        for layout, call in work.ours.items():
            if not isinstance(call, Call):
                runs[layout] = repeated(work.repeat, call)
            elif self.device == "cpu":
                for name, library in self._libraries.items():
                    if library.has(call.operator):  # an earlier version need not
                        runs[joined(layout, name)] = Planned(library, call.operator, call.arguments)
            elif call.kernel:
                for name, deterministic in (("", False), ("deterministic", True)):
                    runs[joined(layout, name)] = GpuKernel(
                        self._kernels, call.kernel, call.sizes, call.inputs + call.outputs, deterministic)
        return runs

    def _baselines(self, case: Case, work: Work) -> dict[str, Run]:
        transforms = {"": identity} | (self._transforms if case.kind == "operators" else {})
        makes = {joined(name, suffix): functools.partial(make, transform)
                 for name, make in work.baselines.items() for suffix, transform in transforms.items()}
        runs = {}
        for name, make in (makes | (work.peers if self.device == "cpu" else {})).items():
            try:
                run = repeated(work.repeat, make())
                run()
                runs[name] = run
            except peers.Unsupported:
                pass
            except Exception as error:  # what this PyTorch cannot run is no baseline
                print(f"    {name}: does not run ({type(error).__name__})", file=sys.stderr)
        return runs

    def measure(self, case: Case, seconds: float, rates: dict[str, float]) -> dict:
        """The times of one case in milliseconds; with `seconds` 0 no more than a check of the results."""
        torch.compiler.reset()  # or PyTorch gives up compiling one function for ever more sizes
        work = case.prepare(case.dtype, self.device)
        if self.device == "cpu":
            work.ours |= {joined(layout, _IN_NUMPY_MEMORY): call.in_numpy_memory()
                          for layout, call in work.ours.items() if isinstance(call, Call)}
        ours, baselines = self._ours(work), self._baselines(case, work)
        result = {"operator": case.operator, "problem": case.problem, "type": case.name().rpartition(" ")[2],
                  "readme": case.readme, "roofline": case.roofline, "threads": torch.get_num_threads(),
                  "difference": _check(case, work, ours, baselines)}
        if seconds == 0:
            return result
        times = self._times(ours, baselines, seconds)
        medians = {name: statistics.median(runs) / work.repeat for name, runs in times.items()}
        now = [name for name in ours if not name.endswith("before")]
        our_best = min((("ours", name) for name in now if _IN_NUMPY_MEMORY not in name), key=medians.get)
        in_numpy_memory = "ours", joined(our_best[1], _IN_NUMPY_MEMORY)
        best = min((("baseline", name) for name in baselines), key=medians.get)
        call = next(iter(work.ours.values()))
        rate = rates[case.roofline or "copy"]
        return result | {
            "ours_ms": {name: 1e3 * medians["ours", name] for name in ours},
            "predicted_ms": predicted_ms(case.name()) if self.device == "cuda" else {},
            "baselines_ms": {name: 1e3 * medians["baseline", name] for name in baselines},
            "ours": our_best[1],
            "baseline": best[1],
            "ratio": _paired_ratio(times[best], times[our_best]),
            "slower_in_numpy_memory": _paired_ratio(times[in_numpy_memory], times[our_best])
                                      if in_numpy_memory in times else None,
            "percent_of_roofline": 100 * call.bytes() / rate / medians[our_best] if isinstance(call, Call) else None,
            "speedup_over_before": {name: _paired_ratio(times["ours", joined(name, "before")], times["ours", name])
                                    for name in now if joined(name, "before") in ours},
            "rounds": len(times[our_best]),
        }

    def cost(self, case: Case, seconds: float) -> dict:
        """Nanoseconds for each KiB of compulsory traffic, of the fastest loop of calls."""
        call = next(iter(case.prepare(case.dtype, self.device).ours.values()))
        planned = Planned(self._libraries[""], call.operator, call.arguments)
        times = 1 + (1 << 22) // call.bytes()
        fastest = self._fastest(lambda: planned.repeat(self._loops, times), seconds / 10) / times
        return {"operator": case.operator, "size": case.problem, "threads": 1, "type": case.name().rpartition(" ")[2],
                "nanoseconds_per_kib": 1e9 * fastest / call.bytes() * 1024}

    def _times(
        self, ours: dict[str, Run], baselines: dict[str, Run], seconds: float
    ) -> dict[tuple[str, str], list[float]]:
        runs = {("ours", name): run for name, run in ours.items()}
        runs |= {("baseline", name): run for name, run in baselines.items()}
        times = {key: [] for key in runs}
        rounds, start = 0, time.perf_counter()
        while rounds < 5 or (time.perf_counter() - start < seconds and rounds < 200):
            for key, run in runs.items():
                if torch.get_num_threads() > 1:
                    time.sleep(_SPINNING)
                times[key].append(self._seconds_again(run))
            rounds += 1
            limits = {side: _FAR_BEHIND * min(t[0] for (s, _), t in times.items() if s == side) for side, _ in runs}
            runs = {key: run for key, run in runs.items() if times[key][0] < limits[key[0]]}
        return times

    def _seconds_again(self, run: Run) -> float:
        """The time of a call that finds the caches as the one before left them; long calls are not repeated for it."""
        first = self._seconds(run)
        return self._seconds(run) if first < _LONG else first


def repeated(times: int, run: Run) -> Run:
    def runs():
        for _ in range(times - 1):
            run()
        return run()
    return runs if times > 1 else run


def _layout(name: str) -> str:
    """Of ours, by the name of what is timed."""
    return name.removesuffix("before").removesuffix("deterministic").removesuffix(", ")


def _paired_ratio(times: list[float], than: list[float]) -> float:
    """Of the rounds that both took part in: what is far behind is left out of the later ones."""
    return statistics.median(a / b for a, b in zip(times, than, strict=False))


def _difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    ours, theirs = ours.detach().double().flatten(), theirs.detach().double().flatten()
    return float((ours - theirs).norm() / theirs.norm().clamp_min(1e-300))


def _check(case: Case, work: Work, ours: dict[str, Run], baselines: dict[str, Run]) -> float | None:
    """The relative difference of our results from the first baseline's. Raises where they are wrong, or other baselines'
    are, but for those in 16 bits, some of which add up in them. None where there is nothing to compare."""
    if not baselines:
        raise RuntimeError(f"{case.name()}: no baseline runs")
    expected = work.expected(next(iter(baselines.values()))())
    largest = {}
    for name, run in (ours | baselines).items():
        results = run()
        call = work.ours[_layout(name)] if name in ours else None
        outputs = call.outputs if isinstance(call, Call) else work.expected(results)
        if not outputs and not expected:
            continue
        largest[name] = max(_difference(o, e) for o, e in zip(outputs, expected, strict=True))
        is_judged = name in ours or case.dtype.itemsize > 2
        if is_judged and not largest[name] <= _LARGEST_DIFFERENCE:
            raise RuntimeError(f"{case.name()}: {name or 'ours'} differs from {next(iter(baselines))} by {largest[name]:.2g}")
    return max((largest[name] for name in ours if name in largest), default=None)


def all_measured(cases: list[Case], measurement: Measurement, seconds: float, report: Callable[[dict], None]) -> None:
    rates = measurement.rooflines(seconds=1.0) if seconds else {}
    report({"threads": torch.get_num_threads(), "rooflines": rates})
    for case in cases:
        if case.kind != "sizes":
            report(measurement.measure(case, seconds, rates))
        elif seconds and torch.get_num_threads() == 1:
            report(measurement.cost(case, seconds))
