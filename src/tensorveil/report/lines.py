"""Curves with bands: the trade-off between privacy and error, and other things that depend on a number."""

from __future__ import annotations

import math
from collections.abc import Callable

from tensorveil.markup import Markup, join, tag
from tensorveil.report.drawing import (
    Frame,
    both,
    left_room,
    list_samples,
    path,
    sample_chart,
    slot_of,
    svg,
    x_axis,
    y_axis,
)
from tensorveil.report.facts import Chart, Series
from tensorveil.report.page import data_table, figure
from tensorveil.report.scales import Axis, number, span_axis

__all__ = ["Extra", "axes", "chart_figure", "chart_height", "draw_chart"]

# Draws something more, on the axes of a chart.
Extra = Callable[[Frame, Axis, Axis], Markup]


def chart_figure(name: str, chart: Chart, *, extra: Extra | None = None, numbers: Markup | None = None) -> Markup:
    """Return a chart as a figure with legend, caption and numbers (its own table, if none is given)."""
    plots = both(lambda width: draw_chart(chart, width, extra=extra))
    table = chart_numbers(chart) if numbers is None else numbers
    return figure(name, chart.title, plots, chart.caption, legend=list_samples(sample_chart(chart)), numbers=table)


def draw_chart(chart: Chart, width: float, *, extra: Extra | None = None) -> Markup:
    """Draw curves, bands and lines on common axes."""
    height = chart_height(width)
    frame, across, up = axes(chart, width, height)
    bands = [_band(series, across, up, k) for k, series in enumerate(chart.series) if series.low is not None]
    levels = [
        tag("line", x1=frame.left, x2=frame.right, y1=up(level.y), y2=up(level.y), class_=f"level l{k % 4 + 1}")
        for k, level in enumerate(chart.levels)
    ]
    curves = [_curve(series, across, up, k, chart.markers) for k, series in enumerate(chart.series)]
    return svg(
        width,
        height,
        summary(chart),
        y_axis(up, frame, chart.y),
        *bands,
        *levels,
        *curves,
        x_axis(across, frame, chart.x),
        None if extra is None else extra(frame, across, up),
    )


def chart_height(width: float) -> float:
    """Return the height of a chart of this width."""
    return 380.0 if width > 500 else 300.0


def axes(chart: Chart, width: float, height: float) -> tuple[Frame, Axis, Axis]:
    """Lay the two axes out."""
    top, bottom = 26.0, height - 46.0
    heights = [value for series in chart.series for value in (*series.y, *(series.low or ()), *(series.high or ()))]
    heights += [level.y for level in chart.levels]
    if chart.most is not None:
        heights = [min(value, chart.most) for value in heights]
    up = span_axis(heights, bottom, top, log=chart.log_y, zero=not chart.log_y)
    frame = Frame(left=left_room(up, bottom - top), right=width - 14.0, top=top, bottom=bottom)
    values = [value for series in chart.series for value in series.x]
    across = span_axis(values, frame.left + 8, frame.right - 8, log=chart.log_x, air=0.0)
    return frame, across, up


def _curve(series: Series, across: Axis, up: Axis, slot: int, markers: bool) -> Markup:
    pieces: list[Markup] = []
    run: list[tuple[float, float]] = []
    points = [(x, y, _inside(y, up)) for x, y in zip(series.x, series.y, strict=True)]
    for x, y, inside in points:
        if inside:
            run.append((across(x), up(y)))
        elif run:
            pieces.append(path(run, f"line {slot_of(slot)}"))
            run = []
    if run:
        pieces.append(path(run, f"line {slot_of(slot)}"))
    if markers:
        pieces += [
            tag("circle", cx=across(x), cy=up(y), r=3.2, class_=f"dot {slot_of(slot)}") for x, y, seen in points if seen
        ]
    return join(*pieces)


def _inside(value: float, axis: Axis) -> bool:
    return math.isfinite(value) and (value > 0 or not axis.log) and -1e-9 <= axis.share(value) <= 1 + 1e-9


def _band(series: Series, across: Axis, up: Axis, slot: int) -> Markup:
    assert series.low is not None
    assert series.high is not None
    lower = [(across(x), up(y)) for x, y in zip(series.x, series.low, strict=True)]
    upper = [(across(x), up(y)) for x, y in zip(series.x, series.high, strict=True)]
    return path([*lower, *reversed(upper)], f"band {slot_of(slot)}", closed=True)


def summary(chart: Chart) -> str:
    """Say in words what a chart shows, for readers who cannot see it; all numbers follow in its table."""
    told = [
        f"{series.name} from {number(series.y[0])} at {number(series.x[0])} to {number(series.y[-1])} "
        f"at {number(series.x[-1])}"
        for series in chart.series
    ]
    told += [f"{level.name} at {number(level.y)}" for level in chart.levels]
    return f"{chart.title}. {chart.y} against {chart.x}: {'; '.join(told)}."


def chart_numbers(chart: Chart) -> Markup:
    """Return the numbers of all curves: one row per point, a column per curve, bands beside their curve."""
    places = sorted({x for series in chart.series for x in series.x})
    if len(places) > 40:
        places = places[:: math.ceil(len(places) / 40)]
    columns, rows = [chart.x], [[number(place)] for place in places]
    for series in chart.series:
        at = dict(
            zip(series.x, zip(series.y, series.low or series.y, series.high or series.y, strict=True), strict=True)
        )
        columns.append(series.name)
        for place, row in zip(places, rows, strict=True):
            row.append(_write_point(at.get(place), series.low is not None))
    columns += [level.name for level in chart.levels]
    for row in rows:
        row += [number(level.y) for level in chart.levels]
    return data_table(chart.title, columns, rows)


def _write_point(point: tuple[float, float, float] | None, banded: bool) -> str:
    if point is None:
        return "–"
    value, low, high = point
    return f"{number(value)} ({number(low)} to {number(high)})" if banded else number(value)
