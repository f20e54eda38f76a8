"""Rows in short: mean, standard deviation and number of runs for each point of a curve or field of a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tensorveil_evidence.studies.study import Row


@dataclass(frozen=True, kw_only=True)
class Point:
    """All runs of one method at one place.

    ``mean`` and ``deviation`` are None where a run diverged: those that did not say nothing about the method.
    ``deviation`` is None for a single run too.
    """

    panel: str
    method: str
    status: str
    x: float | None
    metric: str
    runs: int
    diverged: int
    mean: float | None
    deviation: float | None

    @property
    def error(self) -> float | None:
        """The standard error of the mean."""
        return None if self.deviation is None else self.deviation / math.sqrt(self.runs)


def summarise(rows: Sequence[Row]) -> list[Point]:
    """Group rows by panel, method, place and metric, in the order of their first occurrence."""
    groups: dict[tuple[str, str, float | None, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.panel, row.method, row.x, row.metric), []).append(row)
    return [_point(group) for group in groups.values()]


def _point(group: Sequence[Row]) -> Point:
    first = group[0]
    assert {row.status for row in group} == {first.status}, first.method
    values = [row.value for row in group if row.value is not None]
    whole = len(values) == len(group)
    return Point(
        panel=first.panel,
        method=first.method,
        status=first.status,
        x=first.x,
        metric=first.metric,
        runs=len(group),
        diverged=len(group) - len(values),
        mean=statistics.fmean(values) if whole else None,
        deviation=statistics.stdev(values) if whole and len(values) > 1 else None,
    )


def pick(
    points: Sequence[Point], *, panel: str | None = None, method: str | None = None, metric: str | None = None
) -> list[Point]:
    """Return the points that have all that is given, by growing x."""
    found = [
        point
        for point in points
        if panel in (None, point.panel) and method in (None, point.method) and metric in (None, point.metric)
    ]
    return sorted(found, key=lambda point: -math.inf if point.x is None else point.x)


def mean_at(points: Sequence[Point], panel: str, method: str, x: float | None = None, metric: str = "RMSE") -> float:
    """Return the mean at one place; infinite where a run diverged."""
    for point in points:
        if (point.panel, point.method, point.x, point.metric) == (panel, method, x, metric):
            return math.inf if point.mean is None else point.mean
    raise KeyError(f"{panel}, {method}, {x}, {metric}")


def methods_of(points: Sequence[Point]) -> dict[str, str]:
    """Return every method with the status of its guarantee, in their order."""
    return {point.method: point.status for point in points}
