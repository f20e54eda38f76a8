"""Captions and Markdown tables, made of results."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence

from tensorveil_evidence.quotations import quote
from tensorveil_evidence.studies.study import CLAIMED, NOT_PRIVATE, PROVEN, REFUTED, Results, Stated
from tensorveil_evidence.studies.summary import Point, mean_at, methods_of, summarise

MEANINGS = {
    PROVEN: "proven",
    CLAIMED: "claimed by its paper (true in exact arithmetic, not for the floating-point noise drawn)",
    REFUTED: "claimed by its paper and refuted",
    NOT_PRIVATE: "not private",
}
NOT_RUN = "not run"
SEEDED = (
    "Noise is drawn from recorded seeds so that it can be drawn again: no fit shown is private itself; a status is "
    "that of the method with secure noise."
)


def caption(results: Results, *, shown: str, unit: str, epsilon: str, delta: str, runs: str = "") -> Stated:
    """State what is shown, the unit, epsilon, delta, the number of runs, and the status of every method."""
    points = summarise(results.rows)
    numbers = sorted({point.runs for point in points})
    repeats = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return Stated(
        shown=shown,
        unit=unit,
        epsilon=epsilon,
        delta=delta,
        runs=f"{runs or repeats}{', a quick run' if results.quick else ''}",
        guarantees=statuses(points),
        small_print=SEEDED,
    )


def statuses(points: Sequence[Point]) -> str:
    """Say of every method whether its guarantee is proven, claimed, refuted, or none."""
    places: dict[str, dict[str, set[float | None]]] = {}
    for point in points:
        places.setdefault(point.method, {}).setdefault(point.status, set()).add(point.x)
    by_status: dict[str, list[str]] = {}
    for method, found in places.items():
        for status, where in found.items():
            only = "" if len(found) == 1 else f" at {join_numbers(sorted(x for x in where if x is not None))}"
            by_status.setdefault(status, []).append(method + only)
    parts = [f"{MEANINGS[status]}: {'; '.join(by_status[status])}" for status in MEANINGS if status in by_status]
    return "Guarantees: " + " | ".join(parts) + "."


def answer(key: str, told: str) -> str:
    """Return a list item: what a paper says, in its own words, and what is measured."""
    return f"- {quote(key)}: {told}"


def fill(text: str, width: int = 120) -> str:
    """Break the paragraphs and list items of a page into lines; tables, headings, code and pictures stay."""
    out = []
    for block in text.split("\n\n"):
        if block.startswith(("|", "#", "    ", "!", "*")):
            out.append(block)
            continue
        items = [" ".join(item.split()) for item in f"\n{block}".split("\n- ")]
        if items[0]:
            items[0] = textwrap.fill(items[0], width, break_long_words=False, break_on_hyphens=False)
        listed_items = [
            textwrap.fill(
                f"- {item}", width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
            for item in items[1:]
        ]  # fmt: skip
        out.append("\n".join([item for item in (items[0], *listed_items) if item]))
    return "\n\n".join(out).rstrip() + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


def mean_and_spread(point: Point, digits: int = 3) -> str:
    """Write a mean and its standard deviation over runs, or say that runs diverged."""
    if point.mean is None:
        return f"diverges ({point.diverged} of {point.runs})"
    spread = "" if point.deviation is None else f" ± {point.deviation:.{digits}f}"
    return f"{point.mean:.{digits}f}{spread}"


def tell_multiples(points: Sequence[Point], panel: str, method: str, base: str, epsilons: Iterable[float]) -> str:
    """Write a method's errors as multiples of a line's, a dash where a run diverged."""
    ratios = [mean_at(points, panel, method, e) / mean_at(points, panel, base) for e in epsilons]
    return " ".join(f"{ratio:.2f}" if math.isfinite(ratio) else "-" for ratio in ratios)


def small(point: Point) -> str:
    """Write a mean with its deviation, where errors span many orders of magnitude."""
    if point.mean is None or (point.mean and point.mean < 1e-4):
        return mean_and_spread(point) if point.mean is None else f"{point.mean:.0e}"
    return mean_and_spread(point, 4)


def join_numbers(values: Iterable[float]) -> str:
    """Write numbers, separated by commas."""
    return ", ".join(f"{value:g}" for value in values)


def at_epsilons(values: Iterable[float]) -> str:
    """Say at which of the budgets tried something holds."""
    found = list(values)
    return f"at epsilon {join_numbers(found)}" if found else "at no epsilon tried"


def write_number(value: float | None, digits: int = 3) -> str:
    """Write a number in few digits; None and infinity in words."""
    if value is None or math.isinf(value):
        return "none"
    return f"{value:.{digits}g}"


def curves_table(points: Sequence[Point], digits: int = 3) -> str:
    """Return a Markdown table of one panel: a row per method, a column per place; lines have one number throughout."""
    places = sorted({point.x for point in points if point.x is not None})
    rows = []
    for method, status in methods_of(points).items():
        own = {point.x: point for point in points if point.method == method}
        cells = [own.get(place, own.get(None)) for place in places]
        told = (NOT_RUN if cell is None else mean_and_spread(cell, digits) for cell in cells)
        rows.append([method, status, *told])
    return table(["method", "guarantee", *(f"{place:g}" for place in places)], rows)
