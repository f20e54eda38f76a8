"""Horizontal bars with their names and numbers beside them; histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorveil.markup import Markup, join, shorten, tag, text_width
from tensorveil.report.drawing import SMALL, Frame, both, label, left_room, svg, x_axis, y_axis
from tensorveil.report.scales import Axis, number, span_axis

__all__ = ["Bar", "bar_plots", "histogram_plots"]

ROW = 34.0


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar: its name, its length, what is written behind it, and how it is drawn (a class of the style).

    ``mark`` draws a tick across the bar at another number, such as what was claimed.
    """

    name: str
    value: float
    told: str = ""
    css: str = "bar"
    mark: float | None = None


def bar_plots(bars: Sequence[Bar], summary: str) -> tuple[Markup, Markup]:
    """Draw bars from zero, one below the other."""
    return both(lambda width: _draw(bars, summary, width))


def _draw(bars: Sequence[Bar], summary: str, width: float) -> Markup:
    """Draw names above the bars on narrow screens and where they are long, and beside them else."""
    beside = width > 500 and all(len(bar.name) <= 44 for bar in bars)
    row = ROW if beside else ROW + 14
    letters = 80 if width > 500 else 40
    names = [shorten(bar.name, letters) for bar in bars]
    left = max((text_width(name, SMALL + 1) for name in names), default=0.0) + 14 if beside else 0.0
    right = width - max((text_width(_write_value(bar), SMALL + 1) for bar in bars), default=0.0) - 12
    largest = max((max(bar.value, bar.mark or 0.0) for bar in bars), default=0.0) or 1.0
    axis = Axis(low=0.0, high=largest, start=left, end=max(right, left + 60))
    parts = []
    for k, (bar, name) in enumerate(zip(bars, names, strict=True)):
        middle = k * row + row / 2 + (0 if beside else 8)
        named = label(0, middle if beside else middle - 18, name, css="name")
        parts.append(join(named, _bar(bar, axis, middle)))
    return svg(width, len(bars) * row + 4, summary, *parts)


def _bar(bar: Bar, axis: Axis, middle: float) -> Markup:
    long = max(axis(bar.value) - axis.start, 1.5)
    shown = tag("rect", x=axis.start, y=middle - 7, width=long, height=14.0, rx=2, class_=bar.css)
    mark = None
    end = long
    if bar.mark is not None:
        at = axis(bar.mark)
        mark = tag("line", x1=at, x2=at, y1=middle - 11, y2=middle + 11, class_="mark-line")
        end = max(long, at - axis.start)
    return join(shown, mark, label(axis.start + end + 8, middle, _write_value(bar), css="name number"))


def _write_value(bar: Bar) -> str:
    return bar.told or number(bar.value)


def histogram_plots(values: NDArray[np.float64], *, bins: int, title: str, summary: str) -> tuple[Markup, Markup]:
    """Draw how often numbers occur: columns on a horizontal axis."""
    counts, edges = np.histogram(values, bins=bins)

    def draw(width: float) -> Markup:
        height = 260.0 if width > 500 else 220.0
        up = span_axis([0.0, float(counts.max(initial=1))], height - 46.0, 26.0, zero=True)
        left = max(left_room(up, up.start - up.end), 52.0)
        frame = Frame(left=left, right=width - 14.0, top=26.0, bottom=height - 46.0)
        across = Axis(low=float(edges[0]), high=float(edges[-1]), start=frame.left, end=frame.right)
        places = [across(float(edge)) for edge in edges]
        columns = []
        for start, end, count in zip(places[:-1], places[1:], counts.tolist(), strict=True):
            high = frame.bottom - up(count)
            columns.append(
                tag("rect", x=start + 0.5, y=up(count), width=max(end - start - 1, 0.5), height=high, class_="bar")
            )
        return svg(width, height, summary, y_axis(up, frame, "entries"), *columns, x_axis(across, frame, title))

    return both(draw)
