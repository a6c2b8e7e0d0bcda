# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The figures that are published: docs/performance.json, and what is made of it: docs/performance.md and .svg, and the
README's table. `python -m bench.report` makes these of the JSON; with --check it fails where they differ from that."""

import argparse
import json
import pathlib
import re
import sys
import textwrap

from bench import plot

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_SUMMARY = _ROOT / "docs" / "performance.json"
_PAGE = _ROOT / "docs" / "performance.md"
_PLOT = _ROOT / "docs" / "performance.svg"
_README = _ROOT / "README.md"
_WAYS_OF_CALLS = ("planned each time", "two threads", "planned once")
_BEGIN, _END = "<!-- figures: made by bench/report.py -->", "<!-- end of the figures -->"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _speedup(value: float) -> str:
    """Three digits about 1, so that what is slower is seen."""
    return f"{value:.{2 if value < 1.1 else 1 if value < 10 else 0}f}"


def _times(times: dict[str, float], name: str) -> str:
    by_time = sorted(times.items(), key=lambda item: item[1])
    return ", ".join(f"{variant or name} {_three_digits(ms)}" for variant, ms in by_time)


def predicted_ms(problem: str) -> dict[str, float]:
    """On an H100, by the table in docs/cuda.md, of our ways to compute a problem."""
    pattern = rf"^\| {re.escape(problem)}(?:, (\w+))?: (\d+) µs"
    rows = re.findall(pattern, (_ROOT / "docs" / "cuda.md").read_text(), re.MULTILINE)
    return {way: float(microseconds) / 1e3 for way, microseconds in rows}


def line(record: dict) -> str:
    """A record as the running benchmark prints it."""
    if "rooflines" in record:
        rates = ", ".join(f"{name} {rate / 1e9:.1f} GB/s" for name, rate in record["rooflines"].items())
        return f"\n{record['threads']} thread(s): {rates}"
    if "size" in record:
        cost = f"{record['nanoseconds_per_kib']:.1f} ns per KiB"
        return f"{record['operator']}, {record['type']}, {record['size']}: {cost}"
    title = f"{record['operator']}: {record['problem']}, {record['type']}"
    if "ours_ms" not in record:
        difference = record["difference"]
        return f"{title}: " + ("nothing to compare" if difference is None else f"differs by {difference:.1e}")
    percent = record["percent_of_roofline"]
    roofline = f", {percent:.0f} % of {record['roofline']}" if record["roofline"] else ""
    numpy = record["slower_in_numpy_memory"]
    numpy = f", in NumPy's memory {numpy:.2f} of the time" if numpy else ""
    before = ", ".join(f"{name or 'ours'} {ratio:.2f}x" for name, ratio in record["speedup_over_before"].items())
    predicted = {name: ms for name, ms in record["predicted_ms"].items() if name in record["ours_ms"]}
    predicted = f" | predicted for an H100: {_times(predicted, 'ours')}" if predicted else ""
    return (f"{title}: {record['ratio']:.1f}x{roofline}{numpy}{before and f'; over before: {before}'}\n"
            f"    ms: {_times(record['ours_ms'], 'ours')} | {_times(record['baselines_ms'], 'PyTorch')}{predicted}")


def cells(records: list[dict]) -> str:
    """How many problems of a run are faster than the fastest baseline, by number of threads, and the slowest ones."""
    text = ""
    for threads in sorted({r["threads"] for r in records}):
        ratios = sorted(((r["ratio"], f"{r['operator']}: {r['problem']}, {r['type']}", r["baseline"])
                         for r in records if r["threads"] == threads and "ratio" in r))
        counts = [sum(low <= ratio < high for ratio, *_ in ratios) for low, high in ((0, 1), (1, 1.3), (1.3, 1e9))]
        text += (f"\n{threads} thread(s), {len(ratios)} problems: {counts[0]} slower than the fastest baseline, "
                 f"{counts[1]} up to 1.3 times as fast, {counts[2]} more than that. The slowest:\n")
        text += "".join(f"    {ratio:.2f}x  {name}  ({baseline})\n" for ratio, name, baseline in ratios[:20])
    return text


# ---- The summary


def _summary(results: dict) -> dict:
    problems: dict[tuple, dict] = {}
    costs: dict[str, dict] = {}
    for r in results["records"]:
        if "size" in r:
            of_operator = costs.setdefault(f"{r['operator']}, {r['type']}", {})
            of_operator[r["size"]] = float(_three_digits(r["nanoseconds_per_kib"]))
        if "ours_ms" not in r:
            continue
        problem = problems.setdefault((r["operator"], r["problem"], r["type"]), {
            "operator": r["operator"], "problem": r["problem"], "type": r["type"], "readme": r["readme"],
            "roofline": r["roofline"], "threads": {}})
        problem["threads"][str(r["threads"])] = {
            "ours": r["ours"], "ours_ms": float(_three_digits(r["ours_ms"][r["ours"]])),
            "baseline": r["baseline"], "baseline_ms": float(_three_digits(r["baselines_ms"][r["baseline"]])),
            "ratio": float(_three_digits(r["ratio"])),
            "percent": None if r["percent_of_roofline"] is None else round(r["percent_of_roofline"]),
            "numpy": round(r["slower_in_numpy_memory"], 2)}
    for problem in problems.values():
        _count_one_thread(problem["threads"])
    rates = {str(r["threads"]): {name: round(rate / 1e9, 1) for name, rate in r["rooflines"].items()}
             for r in results["records"] if "rooflines" in r}
    calls: dict[str, dict] = {}
    for call in results["calls"]:
        _, operator, how, *_ = call["call"].split("/")
        calls.setdefault(operator, {})[how] = round(call["nanoseconds"] / 1000, 2)
    return results["circumstances"] | {"rooflines": rates, "problems": list(problems.values()), "costs": costs,
                                       "calls": calls}


def _count_one_thread(measured: dict[str, dict]) -> None:
    """Where PyTorch is faster on one thread than on all, that time is the baseline on all, too."""
    one = measured.get("1")
    for figures in measured.values():
        if one is None or one["baseline_ms"] >= figures["baseline_ms"]:
            continue
        figures["baseline"] = f"{one['baseline'] or 'PyTorch'}, 1 thread"
        figures["baseline_ms"] = one["baseline_ms"]
        figures["ratio"] = float(_three_digits(one["baseline_ms"] / figures["ours_ms"]))


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


def _paragraph(text: str) -> list[str]:
    return [*textwrap.wrap(text, 120), ""]


def _threads(summary: dict) -> list[str]:
    return sorted(summary["rooflines"], key=int)


def _heads(counts: list[str]) -> list[str]:
    return [f"{count} thread" + ("s" if count != "1" else "") for count in counts]


def _roofline(problem: dict, count: str) -> str:
    return f"{problem['threads'][count]['percent']} %" if problem["roofline"] else ""


def _fastest(problem: dict, counts: list[str]) -> str:
    return problem["threads"][counts[-1]]["baseline"]


def _figures(measured: dict) -> str:
    return f"{_speedup(measured['ratio'])}× ({_three_digits(measured['ours_ms'])} ms)"


def _range(values: list[float], digits: int) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def _worst(summary: dict) -> str:
    """Where a baseline is the closest, or faster, and what a call costs."""
    ratio, count, problem = min(((measured["ratio"], count, problem) for problem in summary["problems"]
                                 for count, measured in problem["threads"].items()), key=lambda entry: entry[0])
    baseline = problem["threads"][count]["baseline"]
    whose = next((peer for peer in ("OpenVINO", "OpenCV", "JAX", "plain C") if baseline.startswith(peer)), "PyTorch")
    threads = {"1": "one thread", "2": "two threads"}.get(count, f"{count} threads")
    calls = [times["planned each time"] for times in summary["calls"].values()]
    return (f"Slowest case: {_in_words(problem)}, {_speedup(ratio)}× {whose}'s speed on {threads}. The smallest "
            f"problems of {len(calls)} functions take {_range(calls, 1)} µs through the C interface, with both phases "
            f"and synchronisation.")


def _in_words(problem: dict) -> str:
    """N100 C2 30x40 to 13x13, grid only: the page of all problems says what the letters mean, the README does not."""
    def of_images(match: re.Match) -> str:
        samples = f", {match[4]} samples each" if match[4] else ""
        return f"{match[1]} image{'s' * (match[1] != '1')} of {match[2]} channels and {match[3]} pixels{samples}"

    text = re.sub(r"N(\d+) C(\d+) ([\dx]+)(?: to ([\dx]+))?", of_images, problem["problem"])
    text = re.sub(r"(?<=\d)x(?=\d)", "×", text.replace("grid only", "only the gradient of the grid"))
    return f"{problem['operator']}, {text}, {problem['type']}"


def readme_table(summary: dict) -> str:
    """The problems that have words for it."""
    counts = _threads(summary)
    body = [[problem["readme"], *(_figures(problem["threads"][count]) for count in counts), _fastest(problem, counts)]
            for problem in summary["problems"] if problem["readme"]]
    circumstances = f"{summary['machine']}; {summary['software'].split(',')[0]}; commit {summary['commit']}."
    return "\n".join([_BEGIN, circumstances, "", *_table(["", *_heads(counts), "fastest baseline"], body), "",
                      *_paragraph(_worst(summary))[:-1], _END])


def _in_numpy_memory(summary: dict) -> list[str]:
    numpy = [(measured["numpy"], problem) for problem in summary["problems"] for measured in problem["threads"].values()]
    most, problem = max(numpy, key=lambda entry: entry[0])
    return _paragraph(
        "PyTorch's tensors begin on a cache line, NumPy's large arrays 16 bytes past one. In NumPy's memory calls "
        f"take {min(ratio for ratio, _ in numpy):.2f} to {most:.2f} times as long; most in {_in_words(problem)}.")


def page(summary: dict) -> str:
    counts = _threads(summary)
    lines = [
        "# Performance", "",
        "![Speedups of all problems against the fastest baseline, and where memory bandwidth is the bound]"
        "(performance.svg)", "",
        "## How it was measured", "",
        f"- Command: `{summary['command']}`", f"- Machine: {summary['machine']}", f"- Software: {summary['software']}",
        f"- Commit: {summary['commit']}, {summary['date']}",
        *(f"- Memory bandwidth, {head}: read {summary['rooflines'][count]['read']} GB/s, copy "
          f"{summary['rooflines'][count]['copy']} GB/s (read and written bytes together)"
          for count, head in zip(counts, _heads(counts), strict=True)), "",
        *_paragraph(
            "Each problem runs in one process on the same data and the same number of threads, ours and every baseline "
            "in turn. Gradients are the backward pass alone. Times in brackets are aclgrad's medians, of the faster of two "
            "layouts where there are two."),
        *_paragraph(
            "A speedup is the median over the paired runs of the fastest baseline's time divided by ours. Baselines "
            "are PyTorch's operator or compositions, contiguous or channels-last, with or without `torch.compile`; "
            "OpenVINO, OpenCV and JAX where they have the problem; and plain loops in C, `gcc -O3 -march=native` on one "
            "thread, for float and partly for half. Where a baseline is faster on one thread than on all, its time on "
            "one thread counts for both. The tables name the one that was the fastest with all threads."),
        *_paragraph(
            "Where memory bandwidth bounds the problems of a table, its last column says how much of the bandwidth the "
            "compulsory bytes use with all threads: every input read once, every output written once. The bandwidth was "
            "measured once, by a loop that reads; where a machine's speed varies, more than 100 % is possible."),
        *_in_numpy_memory(summary),
        *_paragraph(
            "N is the number of images, C that of channels, then come the sides; *to* others: those of the output. "
            "*Smooth* grids distort an image a little, as in registration; *random* ones sample it anywhere. *Grid only* is "
            "the gradient of the grid alone, *border* the padding. In NSA "
            "compression T is the number of tokens, N that of heads, D the size of a head, 32/16 block and stride. "
            "MSDA's *encoder* is that of Deformable DETR, 22223 queries on 4 levels, whose samples are *local* or "
            "*uniformly random*; *BEV* is a level of a bird's-eye view; *bs* is the batch. *Even* groups of the "
            "grouped bias-add have the same size; the k-th of *skewed* ones has 1/k of the first one's."),
        *_paragraph("`./dev bench --filter MSDA` measures the problems of one operator on your machine.")]
    for operator in dict.fromkeys(p["operator"] for p in summary["problems"]):
        problems = [p for p in summary["problems"] if p["operator"] == operator]
        bounded = any(p["roofline"] for p in problems)
        head = ["problem", "type", *_heads(counts), "fastest baseline", *(["of memory bandwidth"] if bounded else [])]
        body = [[p["problem"], p["type"], *(_figures(p["threads"][c]) for c in counts),
                 _fastest(p, counts), *([_roofline(p, counts[-1])] if bounded else [])]
                for p in problems]
        lines += [f"## {operator[0].upper()}{operator[1:]}", "", *_table(head, body), ""]
    sizes = list(next(iter(summary["costs"].values())))
    lines += ["## Cost over size", "",
              *_paragraph(
                  "Nanoseconds for each KiB of compulsory traffic on one thread, for problems that read and write "
                  "about so much in a call: the smallest stay in the first-level cache, the largest outgrow all."),
              *_table(["operator", *sizes], [[name, *(f"{cost[size]:.0f}" for size in sizes)]
                                             for name, cost in summary["costs"].items()]), ""]
    lines += ["## Overhead of a call", "",
              *_paragraph(
                  "The smallest problem of these functions through the C interface, in microseconds. *Planned each "
                  "time* is phase 1, phase 2 and synchronisation; *two threads* is the same from two threads at once, "
                  "each with its stream, so that half of the time would be the best; *planned once* is phase 2 of a "
                  "repeatable executor and synchronisation."),
              *_table(["function", *_WAYS_OF_CALLS],
                      [[f"`{operator}`", *(f"{times[how]:.2f}" for how in _WAYS_OF_CALLS)]
                       for operator, times in summary["calls"].items()]), ""]
    return "\n".join(lines)


def _with_table(readme: str, table: str) -> str:
    before, rest = readme.split(_BEGIN)
    return before + table + rest.split(_END)[1]


def _made_of(summary: dict) -> dict[pathlib.Path, str]:
    return {_PAGE: page(summary), _PLOT: plot.svg(summary, _threads(summary)[-1]),
            _README: _with_table(_README.read_text(), readme_table(summary))}


def _write(summary: dict) -> None:
    for path, text in _made_of(summary).items():
        path.write_text(text)
        print(f"Written: {path}")


def publish(results: dict) -> None:
    summary = _summary(results)
    _SUMMARY.write_text(_json(summary))
    _write(summary)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    summary = json.loads(_SUMMARY.read_text())
    if not arguments.check:
        _write(summary)
        return 0
    wrong = [path for path, text in _made_of(summary).items() if not path.exists() or path.read_text() != text]
    for path in wrong:
        print(f"{path} does not show the figures of {_SUMMARY.name}: `python3 -m bench.report` makes it")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
