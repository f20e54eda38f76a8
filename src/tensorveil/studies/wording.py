"""Captions and Markdown tables, made of results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tensorveil.studies.study import CLAIMED, NOT_PRIVATE, PROVEN, REFUTED, Results
from tensorveil.studies.summary import Point, methods_of, summarise

MEANINGS = {
    PROVEN: "proven",
    CLAIMED: "claimed by its paper (true in exact arithmetic, not for the floating-point noise drawn)",
    REFUTED: "claimed by its paper and refuted",
    NOT_PRIVATE: "not private",
}
SEEDED = (
    "Noise is drawn from recorded seeds so that it can be drawn again: no fit shown is private itself; a status is "
    "that of the method with secure noise."
)


def caption(results: Results, *, shown: str, unit: str, epsilon: str, delta: str) -> str:
    """State what is shown, the unit, epsilon, delta, the number of runs, and the status of every method."""
    points = summarise(results.rows)
    numbers = sorted({point.runs for point in points})
    repeats = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    runs = f"Runs per point: {repeats}{', a quick run' if results.quick else ''}."
    words = [f"{shown} Unit: {unit}. Epsilon: {epsilon}. Delta: {delta}. {runs}", statuses(points), SEEDED]
    return " ".join(words)


def statuses(points: Sequence[Point]) -> str:
    """Say of every method whether its guarantee is proven, claimed, refuted, or none."""
    by_status: dict[str, list[str]] = {}
    for method, status in methods_of(points).items():
        by_status.setdefault(status, []).append(method)
    parts = [f"{MEANINGS[status]}: {'; '.join(by_status[status])}" for status in MEANINGS if status in by_status]
    return "Guarantees: " + " | ".join(parts) + "."


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Give a Markdown table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


def mean_and_spread(point: Point, digits: int = 3) -> str:
    """Give a mean and its standard deviation over runs, or say that runs diverged."""
    if point.mean is None:
        return f"diverges ({point.diverged} of {point.runs})"
    spread = "" if point.deviation is None else f" ± {point.deviation:.{digits}f}"
    return f"{point.mean:.{digits}f}{spread}"


def small(point: Point) -> str:
    """Give a mean with its deviation where errors span many orders of magnitude."""
    if point.mean is None or (point.mean and point.mean < 1e-4):
        return mean_and_spread(point) if point.mean is None else f"{point.mean:.0e}"
    return mean_and_spread(point, 4)


def listed(values: Iterable[float]) -> str:
    """Give numbers with commas, or say that there are none."""
    return ", ".join(f"{value:g}" for value in values) or "none"


def shown_number(value: float | None, digits: int = 3) -> str:
    """Give a number in few digits; None and infinity in words."""
    if value is None or math.isinf(value):
        return "none"
    return f"{value:.{digits}g}"


def curves_table(points: Sequence[Point], digits: int = 3) -> str:
    """Give all methods of one panel, a row each, by the places of the curves; lines have one number throughout."""
    places = sorted({point.x for point in points if point.x is not None})
    rows = []
    for method, status in methods_of(points).items():
        own = {point.x: point for point in points if point.method == method}
        cells = [own.get(place, own.get(None)) for place in places]
        rows.append([method, status, *("" if cell is None else mean_and_spread(cell, digits) for cell in cells)])
    return table(["method", "guarantee", *(f"{place:g}" for place in places)], rows)
