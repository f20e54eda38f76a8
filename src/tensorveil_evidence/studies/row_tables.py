"""From measured numbers to the tables and captions of a study's page: means and deviations over runs, by method."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tensorveil.errors import InputError
from tensorveil.report.facts import Caption, Cell, Standing, TableOf
from tensorveil.report.scales import number

__all__ = ["Conditions", "Measurement", "make_caption", "tabulate"]


class Measurement(Protocol):
    """One number of one run; any object with these fields will do."""

    @property
    def panel(self) -> str:
        """The table that it belongs to."""

    @property
    def method(self) -> str:
        """The method's name."""

    @property
    def status(self) -> str:
        """The standing of its guarantee: proven, claimed, refuted, "not private"."""

    @property
    def x(self) -> float | None:
        """Where it stands on the horizontal axis; None for what does not depend on it."""

    @property
    def metric(self) -> str:
        """What was measured."""

    @property
    def value(self) -> float | None:
        """The number; None where the method diverged."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What holds for every number of a study; the fields are those of `Caption`."""

    unit: str
    epsilon: str
    delta: float | str
    small_print: str = ""


def tabulate(
    rows: Sequence[Measurement], conditions: Conditions, *, axis: str = "epsilon"
) -> tuple[TableOf, ...]:  # fmt: skip
    """Gather measured numbers into tables, one for every panel and metric.

    Parameters
    ----------
    rows
        The numbers, each with its panel, method, status, place, metric and value.
    conditions
        Unit, budget and small print, for the captions.
    axis
        What the places are.

    >>> from types import SimpleNamespace as Row
    >>> rows = [
    ...     Row(panel="CP", method="input", status="proven", x=e, metric="RMSE", value=1 / e + run)
    ...     for e in (1.0, 4.0) for run in range(3)
    ... ]
    >>> (table,) = tabulate(rows, Conditions(unit="value", epsilon="1, 4", delta=0.0))
    >>> table.columns, table.rows
    (('method', 'epsilon 1', 'epsilon 4'), (('input', '2 ± 1', '1.25 ± 1'),))
    """
    if not rows:
        raise InputError("rows must hold at least one number.")
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for row in rows:
        groups.setdefault((row.panel, row.metric), []).append(row)
    tables = []
    for (panel, metric), group in groups.items():
        several = len({other for place, other in groups if place == panel}) > 1
        title = metric if not panel else f"{panel}: {metric}" if several else panel
        text = f"{metric}: mean and standard deviation over the runs."
        if all(row.x is None for row in group):
            text = f"{metric}: mean over the runs, lowest and highest."
            tables.append(_table(title, group, make_caption(group, conditions, text)))
        else:
            tables.append(_grid(title, group, axis, make_caption(group, conditions, text)))
    return tuple(tables)


def make_caption(rows: Sequence[Measurement], conditions: Conditions, text: str) -> Caption:
    """Make the caption of what shows these rows: it names every method's standing, and what is left out."""
    counts: dict[tuple[str, str, str, float | None], int] = {}
    lost: dict[str, int] = {}
    for row in rows:
        key = (row.panel, row.metric, row.method, row.x)
        counts[key] = counts.get(key, 0) + 1
        if not _is_known(row):
            lost[row.method] = lost.get(row.method, 0) + 1
    of = {method: sum(row.method == method for row in rows) for method in lost}
    named = ", ".join(f"{method} ({count} of {of[method]})" for method, count in lost.items())
    missing = f"Left out, because there is no finite number: {named}." if named else ""
    return Caption(
        text=text,
        unit=conditions.unit,
        epsilon=conditions.epsilon,
        delta=conditions.delta,
        runs=max(counts.values()),
        methods=_standings(rows),
        small_print=" ".join(filter(None, (missing, conditions.small_print))),
    )


def _is_known(row: Measurement) -> bool:
    return row.value is not None and math.isfinite(row.value)


def _values(group: Sequence[Measurement], method: str, x: float | None) -> list[float]:
    own = [row for row in group if row.method == method and row.x == x and _is_known(row)]
    return [row.value for row in own if row.value is not None]


def _methods(group: Sequence[Measurement]) -> list[str]:
    return list(dict.fromkeys(row.method for row in group))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _table(title: str, group: Sequence[Measurement], caption: Caption) -> TableOf:
    """Make the table of methods that have no place on an axis: mean, range, runs, standing."""
    rows: list[tuple[Cell, ...]] = []
    for method in _methods(group):
        values = _values(group, method, None)
        (status, *_) = [row.status for row in group if row.method == method]
        numbers = (_mean(values), min(values), max(values)) if values else (None, None, None)
        rows.append((method, *numbers, len(values), status))
    columns = ("method", "mean", "lowest", "highest", "runs", "guarantee")
    return TableOf(title=title, columns=columns, rows=tuple(rows), caption=caption)


def _grid(title: str, group: Sequence[Measurement], axis: str, caption: Caption) -> TableOf:
    """Make the table of curves: a row for each, a column for each place; lines have one number throughout."""
    places = sorted({row.x for row in group if row.x is not None})
    rows: list[tuple[Cell, ...]] = []
    for method in _methods(group):
        throughout = _values(group, method, None)
        rows.append((method, *(_write_cell(_values(group, method, place) or throughout) for place in places)))
    columns = ("method", *(f"{axis} {number(place)}" for place in places))
    return TableOf(title=title, columns=columns, rows=tuple(rows), caption=caption)


def _write_cell(values: Sequence[float]) -> str | None:
    if not values:
        return None
    mean = number(_mean(values))
    return f"{mean} ± {number(statistics.stdev(values), 2)}" if len(values) > 1 else mean


def _standings(rows: Sequence[Measurement]) -> tuple[Standing, ...]:
    """Name every method with its status; one whose status changes along the axis is named once for each."""
    found = []
    for method in _methods(rows):
        by_status: dict[str, set[float]] = {}
        for row in rows:
            if row.method == method:
                by_status.setdefault(row.status, set()).update([] if row.x is None else [row.x])
        for status, places in by_status.items():
            where = f" at {', '.join(number(place) for place in sorted(places))}" if len(by_status) > 1 else ""
            found.append(Standing(name=method + where, status=status))
    return tuple(found)
