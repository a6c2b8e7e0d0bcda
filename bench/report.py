"""The figures that are published: docs/performance.json, and what is made of it: docs/performance.md and .png, and the
README's table. `python -m bench.report --check` fails where these are not what the JSON gives."""

import argparse
import json
import pathlib
import sys
from collections.abc import Callable

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_SUMMARY = _ROOT / "docs" / "performance.json"
_PAGE = _ROOT / "docs" / "performance.md"
_PLOT = _ROOT / "docs" / "performance.png"
_README = _ROOT / "README.md"
_BEGIN, _END = "<!-- figures: made by bench/report.py -->", "<!-- end of the figures -->"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _speedup(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _times(times: dict[str, float], name: str) -> str:
    parts = (f"{variant or name} {_three_digits(ms)}" for variant, ms in sorted(times.items(), key=lambda item: item[1]))
    return ", ".join(parts)


def line(record: dict) -> str:
    """A record as the running benchmark prints it."""
    if "rooflines" in record:
        rates = ", ".join(f"{name} {rate / 1e9:.1f} GB/s" for name, rate in record["rooflines"].items())
        return f"\n{record['threads']} thread(s): {rates}"
    title = f"{record['operator']}: {record['problem']}, {record['type']}"
    if "ours_ms" not in record:
        return f"{title}: differs by {record['difference']:.1e}"
    percent = record["percent_of_roofline"]
    roofline = f", {percent:.0f} % of {record['roofline']}" if record["roofline"] else ""
    before = ", ".join(f"{name or 'ours'} {ratio:.2f}x" for name, ratio in record["speedup_over_before"].items())
    return (f"{title}: {record['ratio']:.1f}x{roofline}{before and f'; over before: {before}'}\n    ms: {_times(record['ours_ms'], 'ours')} | "
            f"{_times(record['baselines_ms'], 'PyTorch')}")


# ---- The summary


def _summary(results: dict) -> dict:
    problems: dict[tuple, dict] = {}
    for r in results["records"]:
        if "rooflines" in r:
            continue
        problem = problems.setdefault((r["operator"], r["problem"], r["type"]), {
            "operator": r["operator"], "problem": r["problem"], "type": r["type"], "readme": r["readme"],
            "roofline": r["roofline"], "threads": {}})
        problem["threads"][str(r["threads"])] = {
            "ours": r["ours"], "ours_ms": float(_three_digits(r["ours_ms"][r["ours"]])),
            "baseline": r["baseline"], "baseline_ms": float(_three_digits(r["baselines_ms"][r["baseline"]])),
            "ratio": float(_three_digits(r["ratio"])),
            "percent": None if r["percent_of_roofline"] is None else round(r["percent_of_roofline"])}
    rates = {str(r["threads"]): {name: round(rate / 1e9, 1) for name, rate in r["rooflines"].items()}
             for r in results["records"] if "rooflines" in r}
    calls: dict[str, dict] = {}
    for call in results["calls"]:
        _, operator, how = call["call"].split("/")
        calls.setdefault(operator, {})[how] = round(call["nanoseconds"] / 1000, 2)
    return results["circumstances"] | {"rooflines": rates, "problems": list(problems.values()), "calls": calls}


def _json(summary: dict) -> str:
    """One line for each problem, so that a diff shows which changed."""
    lines = []
    for key, value in summary.items():
        if key == "problems":
            rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in value)
            lines.append(f' "problems": [\n{rows}\n ]')
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


# ---- What is made of it


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def _threads(summary: dict) -> list[str]:
    return sorted(summary["rooflines"], key=int)


def _heads(counts: list[str]) -> list[str]:
    return [f"{count} thread" + ("s" if count != "1" else "") for count in counts]


def _range(values: list[float], unit: str, written: Callable[[float], str] = _three_digits) -> str:
    low, high = written(min(values)), written(max(values))
    return f"{low} {unit}" if low == high else f"{low}–{high} {unit}"


def _roofline(problems: list[dict], count: str) -> str:
    percents = [p["threads"][count]["percent"] for p in problems if p["roofline"]]
    return _range(percents, "%") if percents else ""


def readme_table(summary: dict) -> str:
    """How many times as fast as the fastest baseline, and the time."""
    counts = _threads(summary)
    rows: dict[str, list[dict]] = {}
    for problem in summary["problems"]:
        if problem["readme"]:
            rows.setdefault(problem["readme"], []).append(problem)

    def cell(problems: list[dict], count: str) -> str:
        figures = [p["threads"][count] for p in problems]
        return f"{_range([f['ratio'] for f in figures], '×', _speedup)} ({_range([f['ours_ms'] for f in figures], 'ms')})"
    body = [[label, *(cell(problems, count) for count in counts), _roofline(problems, counts[-1])]
            for label, problems in rows.items()]
    return "\n".join([_BEGIN, f"{summary['machine']}; {summary['software'].split(',')[0]}; commit {summary['commit']}.", "",
                      *_table(["", *_heads(counts), "of memory bandwidth"], body), _END])


def page(summary: dict) -> str:
    counts = _threads(summary)
    head = ["problem", "type", *(f"{head}, ms" for head in _heads(counts)), *(f"speedup, {head}" for head in _heads(counts)),
            "fastest baseline", "of memory bandwidth"]
    lines = [
        "# Performance", "",
        f"Made by `{summary['command']}`: ours and every baseline in turn, in one process, on the same data and the same "
        "number of threads. Times are medians. The speedup is the median of the paired runs against the fastest baseline: "
        "PyTorch's operator or composition, contiguous or channels-last, with or without `torch.compile`; the baseline that "
        "is named was the fastest with all threads. Where ours is timed in two layouts, the faster one counts. Gradients "
        "are the backward pass alone. Memory bandwidth is measured in the same run; the last column says how much of it the "
        "compulsory bytes (every input read once, every output written once) use with all threads, where it is the bound.",
        "",
        f"- Machine: {summary['machine']}", f"- {summary['software']}", f"- Commit {summary['commit']}, {summary['date']}",
        *(f"- {head}: read {summary['rooflines'][count]['read']} GB/s, copy {summary['rooflines'][count]['copy']} GB/s "
          "(read and written bytes together)" for count, head in zip(counts, _heads(counts))), ""]
    for operator in dict.fromkeys(p["operator"] for p in summary["problems"]):
        problems = [p for p in summary["problems"] if p["operator"] == operator]
        body = [[p["problem"], p["type"], *(_three_digits(p["threads"][c]["ours_ms"]) for c in counts),
                 *(f"{_speedup(p['threads'][c]['ratio'])}×" for c in counts),
                 p["threads"][counts[-1]]["baseline"], _roofline([p], counts[-1])] for p in problems]
        lines += [f"## {operator[0].upper()}{operator[1:]}", "", *_table(head, body), ""]
    lines += ["## Cost of a call", "",
              "The smallest problem of each function through the C interface, in microseconds: planned each time (phase 1, "
              "phase 2, synchronise) and planned once (phase 2 of a repeatable executor, synchronise).", "",
              *_table(["function", "planned each time", "planned once"],
                      [[operator, *(f"{times[how]:.2f}" for how in ("planned each time", "planned once"))]
                       for operator, times in summary["calls"].items()]), "",
              "![Speedups](performance.png)", ""]
    return "\n".join(lines)


def _with_table(readme: str, table: str) -> str:
    before, rest = readme.split(_BEGIN)
    return before + table + rest.split(_END)[1]


def _plot(summary: dict) -> None:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [f"{p['operator']}: {p['problem']}, {p['type']}" for p in summary["problems"]]
    figure, axes = pyplot.subplots(figsize=(10, 0.34 * len(names) + 1.2))
    counts = _threads(summary)
    height = 0.8 / len(counts)
    for i, (count, label) in enumerate(zip(counts, _heads(counts))):
        ratios = [p["threads"][count]["ratio"] for p in summary["problems"]]
        axes.barh([at + i * height for at in range(len(names))], ratios, height, label=label)
    axes.set_yticks([at + 0.4 - height / 2 for at in range(len(names))], names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("speedup against the fastest baseline")
    axes.legend()
    figure.tight_layout()
    figure.savefig(_PLOT, dpi=110)


def publish(results: dict) -> None:
    summary = _summary(results)
    _SUMMARY.write_text(_json(summary))
    _PAGE.write_text(page(summary))
    _README.write_text(_with_table(_README.read_text(), readme_table(summary)))
    _plot(summary)
    print(f"Written: {_SUMMARY}, {_PAGE}, {_PLOT}, {_README}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", required=True)
    parser.parse_args()
    summary = json.loads(_SUMMARY.read_text())
    wanted = {_PAGE: page(summary), _README: _with_table(_README.read_text(), readme_table(summary))}
    wrong = [path for path, text in wanted.items() if path.read_text() != text]
    for path in wrong:
        print(f"{path} does not show the figures of {_SUMMARY.name}: `./dev bench --publish` makes both")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
