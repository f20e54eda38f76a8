"""From measured numbers to a study's charts and tables: means and ranges over runs, method by method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from tensorveil.errors import InputError
from tensorveil.report.drawing import SLOTS
from tensorveil.report.facts import Caption, Cell, Chart, Level, Method, Series, Study, TableOf
from tensorveil.report.scales import number

__all__ = ["Measurement", "study_of_rows"]


class Measurement(Protocol):
    """One number of one run; any object with these fields will do."""

    @property
    def panel(self) -> str:
        """The chart or table that it belongs to."""

    @property
    def method(self) -> str:
        """The method's name."""

    @property
    def status(self) -> str:
        """The standing of its guarantee: proven, claimed, refuted, "not private"."""

    @property
    def x(self) -> float | None:
        """Where it stands on the horizontal axis; None for a line, or in a table."""

    @property
    def metric(self) -> str:
        """What was measured."""

    @property
    def value(self) -> float | None:
        """The number; None where the method diverged."""


def study_of_rows(
    rows: Sequence[Measurement],
    *,
    title: str,
    finding: str,
    unit: str,
    epsilon: str,
    delta: float | str,
    x: str = "epsilon",
    log_x: bool = False,
    log_y: bool = False,
    source: str = "",
    notes: Sequence[str] = (),
    small_print: str = "",
) -> Study:
    """Gather measured numbers into a study: a chart for every panel and metric.

    A panel becomes a table where there is no axis, or more curves than the eye can keep apart.

    Parameters
    ----------
    rows: the numbers, each with its panel, method, status, place, metric and value.
    title, finding, source, notes: see `Study`.
    unit, epsilon, delta, small_print: see `Caption`; they hold for every figure.
    x: the name of the horizontal axis.
    log_x, log_y: whether axes are logarithmic.

    >>> from types import SimpleNamespace as Row
    >>> rows = [
    ...     Row(panel="CP", method="input", status="proven", x=e, metric="RMSE", value=1 / e + run)
    ...     for e in (1.0, 4.0) for run in range(3)
    ... ]
    >>> found = study_of_rows(rows, title="t", finding="f", unit="value", epsilon="1, 4", delta=0.0)
    >>> found.charts[0].series[0].y, found.charts[0].caption.runs
    ((2.0, 1.25), 3)
    """
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for row in rows:
        groups.setdefault((row.panel, row.metric), []).append(row)
    charts, tables = [], []
    for (panel, metric), group in groups.items():
        several = len({other for place, other in groups if place == panel}) > 1
        name = metric if not panel else f"{panel}: {metric}" if several else panel
        caption = _caption(group, metric, unit, epsilon, delta, small_print)
        series = _curves(group)
        if 0 < len(series) <= SLOTS:
            charts.append(
                Chart(
                    title=name, x=x, y=metric, series=series, levels=_levels(group), caption=caption, log_x=log_x,
                    log_y=log_y,
                )
            )  # fmt: skip
        else:
            tables.append(_grid(name, group, series, x, caption) if series else _table(name, group, caption))
    if not groups:
        raise InputError("rows must hold at least one number.")
    return Study(
        title=title, finding=finding, charts=tuple(charts), tables=tuple(tables), source=source, notes=tuple(notes)
    )


def _known(row: Measurement) -> bool:
    return row.value is not None and math.isfinite(row.value)


def _values(group: Sequence[Measurement], method: str, x: float | None) -> list[float]:
    return [row.value for row in group if row.method == method and row.x == x and row.value is not None and _known(row)]


def _names(group: Sequence[Measurement]) -> list[str]:
    return list(dict.fromkeys(row.method for row in group))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _curves(group: Sequence[Measurement]) -> tuple[Series, ...]:
    found = []
    for method in _names(group):
        places = sorted({row.x for row in group if row.method == method and row.x is not None and _known(row)})
        if not places:
            continue
        points = [_values(group, method, place) for place in places]
        banded = any(len(values) > 1 for values in points)
        found.append(
            Series(
                name=method,
                x=tuple(places),
                y=tuple(_mean(values) for values in points),
                low=tuple(min(values) for values in points) if banded else None,
                high=tuple(max(values) for values in points) if banded else None,
            )
        )
    return tuple(found)


def _levels(group: Sequence[Measurement]) -> tuple[Level, ...]:
    found = [(method, _values(group, method, None)) for method in _names(group)]
    return tuple(Level(name=method, y=_mean(values)) for method, values in found if values)


def _table(title: str, group: Sequence[Measurement], caption: Caption) -> TableOf:
    rows: list[tuple[Cell, ...]] = []
    for method in _names(group):
        values = _values(group, method, None)
        (status, *_) = [row.status for row in group if row.method == method]
        numbers = (_mean(values), min(values), max(values)) if values else (None, None, None)
        rows.append((method, *numbers, len(values), status))
    columns = ("method", "mean", "lowest", "highest", "runs", "guarantee")
    return TableOf(title=title, columns=columns, rows=tuple(rows), caption=caption)


def _grid(title: str, group: Sequence[Measurement], series: Sequence[Series], x: str, caption: Caption) -> TableOf:
    """Give the means of many curves: a row for each, a column for each place, and the lines that have no place."""
    places = sorted({place for each in series for place in each.x})
    rows: list[tuple[Cell, ...]] = []
    for each in series:
        at = dict(zip(each.x, each.y, strict=True))
        rows.append((each.name, *(at.get(place) for place in places)))
    rows += [(level.name, *(level.y for _ in places)) for level in _levels(group)]
    columns = ("method", *(f"{x} {number(place)}" for place in places))
    return TableOf(title=title, columns=columns, rows=tuple(rows), caption=caption)


def _caption(
    group: Sequence[Measurement], metric: str, unit: str, epsilon: str, delta: float | str, small_print: str
) -> Caption:
    counts: dict[tuple[str, float | None], int] = {}
    lost: dict[str, int] = {}
    for row in group:
        counts[row.method, row.x] = counts.get((row.method, row.x), 0) + 1
        if not _known(row):
            lost[row.method] = lost.get(row.method, 0) + 1
    of = {method: sum(row.method == method for row in group) for method in lost}
    told = ", ".join(f"{method} ({count} of {of[method]})" for method, count in lost.items())
    return Caption(
        text=f"{metric}: mean over the runs, with the range from lowest to highest.",
        unit=unit,
        epsilon=epsilon,
        delta=delta,
        runs=max(counts.values()),
        methods=_methods(group),
        small_print=" ".join(
            filter(None, (f"Left out, because there is no finite number: {told}." if told else "", small_print))
        ),
    )


def _methods(group: Sequence[Measurement]) -> tuple[Method, ...]:
    """Name every method with its status; one whose status changes along the axis is named once for each."""
    found = []
    for method in _names(group):
        by_status: dict[str, set[float]] = {}
        for row in group:
            if row.method == method:
                by_status.setdefault(row.status, set()).update([] if row.x is None else [row.x])
        for status, places in by_status.items():
            where = f" at {', '.join(number(place) for place in sorted(places))}" if len(by_status) > 1 else ""
            found.append(Method(name=method + where, status=status))
    return tuple(found)
