# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""The plot of docs/performance.md: a bar for each problem, as SVG. It needs no library, and the same figures give the
same file."""

import math
from collections.abc import Iterator
from html import escape

_LABELS, _BARS, _MARGIN, _ROW = 420, 500, 60, 17  # pixels
_TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 300, 1000, 3000)


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>'


def _line(x: float, top: float, bottom: float, style: str) -> str:
    return f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" class="{style}"/>'


class _Axis:
    """Speedups on a logarithmic axis."""

    def __init__(self, values: list[float]) -> None:
        self.low = max(tick for tick in _TICKS if tick <= min(values))
        self.high = min((tick for tick in _TICKS if tick >= max(values)), default=max(values))

    def __call__(self, value: float) -> float:
        return _LABELS + _BARS * math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[float]:
        return [tick for tick in _TICKS if self.low <= tick <= self.high]


def _roofline(measured: dict) -> list[float]:
    """The speedup at which the compulsory bytes would take all of the memory bandwidth. There is none where a kernel
    reads only a part of its input."""
    return [measured["ratio"] * 100 / measured["percent"]] if measured["percent"] <= 100 else []


def _bars(problems: list[dict], threads: str, axis: _Axis, y: float) -> Iterator[str]:
    """One line for each problem, so that a diff shows which changed."""
    for problem in problems:
        measured = problem["threads"][threads]
        ratio = measured["ratio"]
        start, end = sorted((axis(1), axis(ratio)))
        yield "".join([
            _text(_LABELS - 70, y + 12, f"{problem['problem']}, {problem['type']}", 'text-anchor="end"'),
            _text(_LABELS - 25, y + 12, f"{ratio:.1f}×" if ratio < 10 else f"{ratio:.0f}×", 'text-anchor="end"'),
            f'<rect x="{start:.1f}" y="{y + 3:.1f}" width="{end - start:.1f}" height="{_ROW - 5}" '
            f'class="{"faster" if ratio >= 1 else "slower"}"/>',
            *(_line(axis(roofline), y + 1, y + _ROW - 1, "roofline") for roofline in _roofline(measured))])
        y += _ROW


def svg(summary: dict, threads: str) -> str:
    operators = dict.fromkeys(problem["operator"] for problem in summary["problems"])
    measured = [problem["threads"][threads] for problem in summary["problems"]]
    axis = _Axis([1.0, *(m["ratio"] for m in measured), *sum(map(_roofline, measured), [])])
    top = _MARGIN
    height = top + _ROW * (len(measured) + 1.5 * len(operators)) + 20
    marks, y = [], float(top)
    for operator in operators:
        problems = [problem for problem in summary["problems"] if problem["operator"] == operator]
        marks.append(_text(_LABELS - 70, y + _ROW, operator, 'text-anchor="end" font-weight="bold"'))
        y += 1.4 * _ROW
        marks += _bars(problems, threads, axis, y)
        y += _ROW * (len(problems) + 0.1)
    for tick in axis.ticks():
        marks.insert(0, _line(axis(tick), top, height - 14, "one" if tick == 1 else "grid"))
        marks.append(_text(axis(tick), top - 6, f"{tick:g}×", 'text-anchor="middle"'))
    width = _LABELS + _BARS + 30
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" '
        f'viewBox="0 0 {width} {height:.0f}" font-family="sans-serif" font-size="12">',
        "<style>.faster{fill:#3b75af}.slower{fill:#c0504d}.grid{stroke:#ddd}.one{stroke:black}"
        ".roofline{stroke:#e08214;stroke-width:2.5}</style>",
        '<rect width="100%" height="100%" fill="white"/>',
        _text(10, 20, f"Speedup against the fastest baseline, {threads} threads"
              f" ({summary['machine']}; commit {summary['commit']})", 'font-weight="bold"'),
        _text(10, 38, "Orange: the roofline, every input read once and every output written once at the measured "
              "bandwidth"),
        *marks, "</svg>", ""])  # fmt: skip
