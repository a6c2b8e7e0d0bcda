"""Times aclgrad against PyTorch, in turn, in one process, on the same data and the same number of threads.

    ./dev bench                             every case, with one thread and with all, and the cost of a call;
                                            writes docs/performance.{md,json,png}
    ./dev bench --filter MSDA --no-compile  the cases whose name holds the word, without torch.compile, printed only
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

_ROOT = pathlib.Path(__file__).resolve().parent.parent

_LONG = 0.2  # seconds
_FAR_BEHIND = 3  # times as slow as the fastest way: such a one is timed once
_SPINNING = 0.02  # seconds, by when threads that have nothing more to do have gone to sleep


def _timed(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _timed_again(function) -> float:
    """The time of a call that finds the caches as the one before left them. For long ones that makes no difference."""
    first = _timed(function)
    return _timed(function) if first < _LONG else first


def _floors(seconds: float) -> dict[str, float]:
    """Bytes a second that memory can be read and copied with: the best of several tries."""
    import aclnn

    floors = aclnn.Floors(_ROOT / "build" / "release" / "bench" / "libaclgrad_bench_stream.so")
    rates = {}
    for name, work in (("read", floors.read), ("copy", floors.copy)):
        work()
        tries = []
        start = time.perf_counter()
        while len(tries) < 5 or time.perf_counter() - start < seconds:
            tries.append(work() / _timed(work))
        rates[name] = max(tries)
    return rates


def _measure(case, seconds: float, rates: dict[str, float], compiled: bool) -> dict:
    import cases
    import torch

    torch.compiler.reset()  # or PyTorch gives up compiling one function for ever more sizes
    work = case.prepare(case.dtype)
    difference = work.check()
    transforms = {"": cases.identity, ", torch.compile": torch.compile} if compiled else {"": cases.identity}
    peers = {}
    for name, way in work.peers.items():
        for suffix, transform in transforms.items():
            try:
                ready = way(transform)
                ready()
                peers[name + suffix] = ready
            except Exception as error:  # a way that this PyTorch cannot run is not a peer
                print(f"    {name + suffix}: does not run ({type(error).__name__})", file=sys.stderr)
    ours = {"ours" + (f", {layout}" if layout else ""): run for layout, run in work.ours.items()}
    ways = {**ours, **peers}
    times = {name: [] for name in ways}
    rounds, start = 0, time.perf_counter()
    while rounds < 5 or (time.perf_counter() - start < seconds and rounds < 200):
        for name, way in ways.items():
            time.sleep(_SPINNING)
            times[name].append(_timed_again(way))
        rounds += 1
        far = {side: _FAR_BEHIND * min(times[name][0] for name in of_side)
               for side, of_side in (("ours", ours), ("peers", peers))}
        ways = {name: way for name, way in ways.items() if times[name][0] < far["ours" if name in ours else "peers"]}
    medians = {name: statistics.median(runs) for name, runs in times.items()}
    our_best, best = (min(of_side, key=medians.get) for of_side in (ours, peers))
    return {
        "operator": case.operator,
        "size": case.size,
        "dtype": str(case.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "ours_ms": 1e3 * medians[our_best],
        "ours_by_layout_ms": {layout: 1e3 * medians[name] for layout, name in zip(work.ours, ours)},
        "peers_ms": {name: 1e3 * medians[name] for name in peers},
        "best_peer": best,
        "ratio": statistics.median(t / o for t, o in zip(times[best], times[our_best])),
        "floor": case.floor,
        "percent_of_floor": 100 * work.compulsory_bytes / rates[case.floor or "copy"] / medians[our_best],
        "difference": difference,
        "rounds": rounds,
    }


def _child(arguments) -> None:
    import torch
    import torch._functorch.config

    torch.set_num_threads(arguments.child)
    torch._functorch.config.donated_buffer = False  # or a compiled backward pass can run only once
    sys.path.insert(0, str(_ROOT / "bench"))
    import aclnn
    import cases

    aclnn.load(arguments.prefix)
    rates = _floors(1.0)
    print(json.dumps({"threads": arguments.child, "floors": rates}), flush=True)
    for case in cases.all_cases():
        if arguments.filter.lower() in f"{case.operator} {case.size} {case.dtype}".lower():
            print(json.dumps(_measure(case, arguments.seconds, rates, arguments.compile)), flush=True)


def _run_child(threads: int, arguments) -> tuple[dict, list[dict]]:
    environment = dict(os.environ, ACLGRAD_DEVICES="cpu", ACLGRAD_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
    command = [sys.executable, __file__, "--child", str(threads), *sys.argv[1:]]
    floors, results = {}, []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            record = json.loads(line)
            if "floors" in record:
                floors = record
                print(f"\n{threads} thread(s): read {record['floors']['read'] / 1e9:.1f} GB/s, "
                      f"copy {record['floors']['copy'] / 1e9:.1f} GB/s")
                continue
            results.append(record)
            print(_row(record), flush=True)
    if process.returncode != 0:
        sys.exit(process.returncode)
    return floors, results


def _calls() -> list[dict]:
    """What a call costs beside its work: nanoseconds of tiny problems through the C interface."""
    program = _ROOT / "build" / "release" / "bench" / "bench_calls"
    output = subprocess.run([program, "--benchmark_format=json"], check=True, capture_output=True, text=True).stdout
    return [{"call": run["name"], "nanoseconds": run["real_time"]} for run in json.loads(output)["benchmarks"]]


def _key(r: dict) -> tuple:
    return r["operator"], r["size"], r["dtype"]


def _name(r: dict) -> str:
    return "{}: {}, {}".format(*_key(r))


def _times(ways: dict[str, float], digits: int) -> str:
    return ", ".join(f"{name} {ms:.{digits}f}".strip() for name, ms in sorted(ways.items(), key=lambda way: way[1]))


def _row(r: dict, alone: dict | None = None) -> str:
    """A line of the table; `alone` is the same case with one thread."""
    floor = f"{r['percent_of_floor']:.0f} % of {r['floor']}" if r["floor"] else f"({r['percent_of_floor']:.0f} %)"
    ours, peers = _times(r["ours_by_layout_ms"], 3), _times(r["peers_ms"], 2)
    speedup = f"{alone['ours_ms'] / r['ours_ms']:.1f}×" if alone and alone is not r else ""
    return (f"| {r['operator']} | {r['size']} | {r['dtype']} | {r['threads']} | {ours} | {peers} | **{r['ratio']:.1f}×** | "
            f"{floor} | {speedup} |")


def _machine() -> str:
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    features = pathlib.Path("/proc/cpuinfo").read_text()
    widest = "AVX-512" if "avx512f" in features else "AVX2" if "avx2" in features else "no AVX2"
    return f"{model}, {len(os.sched_getaffinity(0))} processors, {widest}"


def _write(floors: list[dict], results: list[dict], calls: list[dict], arguments) -> None:
    import torch

    one_thread = {_key(r): r for r in results if r["threads"] == 1}

    commit = subprocess.run(["git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    lines = [
        "# Performance",
        "",
        f"Made by `{' '.join(['./dev bench', *sys.argv[1:]])}`: ours and every peer in turn, in one process, on the same "
        "data and the same number of threads. Times are medians in milliseconds; the ratio is the median of the paired "
        "runs against the fastest PyTorch way. Where tensors are timed in two layouts, contiguous (unnamed) and channels "
        "last, it sets the faster one of ours against the fastest of PyTorch's. The percentage sets the compulsory bytes "
        "(every input read once, every output written once) against the memory bandwidth measured in the same run; it is "
        "in brackets where caches, not memory, are the limit. The last column sets ours with all threads against ours "
        "with one. Gradients are the backward pass alone.",
        "",
        f"- Machine: {_machine()}",
        f"- PyTorch {torch.__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}",
        f"- Commit {commit.stdout.strip() or 'unknown'}, {datetime.date.today().isoformat()}",
        *(f"- {f['threads']} thread(s): stream read {f['floors']['read'] / 1e9:.1f} GB/s, copy "
          f"{f['floors']['copy'] / 1e9:.1f} GB/s (read and written bytes together)" for f in floors),
        "",
        "| operator | size | dtype | threads | ours, ms | PyTorch's ways, ms | ratio | of the floor | all threads against one |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_row(r, one_thread.get(_key(r))) for r in results),
        "",
        "![Ratios](performance.png)",
        "",
        "What a call of the C interface costs beside its work: a tiny problem, planned each time (phase 1, phase 2, "
        "synchronise) and planned once (phase 2 of a repeatable executor, synchronise).",
        "",
        "| gradient | microseconds |",
        "| --- | --- |",
        *(f"| {c['call'].replace('/', ', ').replace('_', ' ')} | {c['nanoseconds'] / 1000:.2f} |" for c in calls),
        "",
    ]
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    (out / "performance.md").write_text("\n".join(lines))
    (out / "performance.json").write_text(json.dumps({"floors": floors, "results": results, "calls": calls}, indent=1) + "\n")
    _plot(results, out / "performance.png")
    print(f"\nWritten: {out}/performance.md, .json, .png")


def _plot(results: list[dict], path: pathlib.Path) -> None:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    threads = sorted({r["threads"] for r in results})
    names = list(dict.fromkeys(map(_name, results)))
    figure, axes = pyplot.subplots(figsize=(10, 0.34 * len(names) + 1.2))
    height = 0.8 / len(threads)
    for i, count in enumerate(threads):
        ratios = {_name(r): r["ratio"] for r in results if r["threads"] == count}
        axes.barh([names.index(n) + i * height for n in ratios], list(ratios.values()), height, label=f"{count} thread(s)")
    axes.set_yticks([i + 0.4 - height / 2 for i in range(len(names))], names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times as fast as the fastest PyTorch way")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", type=pathlib.Path, default=_ROOT / "build" / "prefix", help="install prefix of aclgrad")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, len(os.sched_getaffinity(0))}))
    parser.add_argument("--filter", default="", help="measure only cases whose name holds this")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each case")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave torch.compile of the peers out")
    parser.add_argument("--out", type=pathlib.Path, default=_ROOT / "docs")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        _child(arguments)
        return
    runs = [_run_child(threads, arguments) for threads in arguments.threads]
    if not arguments.filter:
        results = [r for _, child in runs for r in child]
        order = {key: i for i, key in enumerate(dict.fromkeys(map(_key, results)))}
        results.sort(key=lambda r: (order[_key(r)], r["threads"]))
        _write([floors for floors, _ in runs], results, _calls(), arguments)


if __name__ == "__main__":
    main()
