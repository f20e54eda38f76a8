"""Heat maps: a slice of a tensor, cell by cell, in nine colours that the page's style defines for light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.markup import Markup, join, shorten, tag, text_width
from tensorveil.models import CPModel, TuckerModel
from tensorveil.report.drawing import SMALL, both, label, svg
from tensorveil.report.scales import number
from tensorveil.tensor import Mode, ObservedTensor

__all__ = ["Slice", "choose_slice", "gather_observed", "heat_plots"]

LEVELS = 9
MOST_ROWS, MOST_COLUMNS = 30, 440
Model = CPModel | TuckerModel


@dataclass(frozen=True, kw_only=True, eq=False)
class Slice:
    """A slice of a model: which modes lie down and across, which indices of them, what the others are fixed at."""

    down: int
    across: int
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    fixed: Mapping[int, int]
    predicted: NDArray[Any]
    center: float
    below: float
    above: float
    sorted_columns: bool
    shown_of: tuple[int, int]


def choose_slice(model: Model) -> Slice:
    """Choose a slice by the model alone: the two longest modes, the others where their factor is strongest."""
    sizes = sorted(range(len(model.shape)), key=lambda m: -model.shape[m])
    across, down = sizes[0], sizes[1]
    fixed = {m: _strongest(model, m) for m in sizes[2:]}
    rows, columns = (_spread(model.shape[m], 8 * most) for m, most in ((down, MOST_ROWS), (across, MOST_COLUMNS)))
    cells = _predict(model, down, across, fixed, rows, columns)
    row_order = _order(model.modes[down], cells.mean(axis=1))
    column_order = _order(model.modes[across], cells.mean(axis=0))
    rows = rows[row_order][_spread(len(rows), MOST_ROWS)]
    columns = columns[column_order][_spread(len(columns), MOST_COLUMNS)]
    predicted = _predict(model, down, across, fixed, rows, columns)
    # A constant outside the bounds is never predicted: colours part at the bound.
    center = float(model.offset if model.bounds is None else np.clip(model.offset, *model.bounds))
    below, above = _reach(predicted, center, model.bounds)
    return Slice(
        down=down, across=across, rows=rows, columns=columns, fixed=fixed, predicted=predicted, center=center,
        below=below, above=above, sorted_columns=_sorts(model.modes[across]),
        shown_of=(model.shape[down], model.shape[across]),
    )  # fmt: skip


def _reach(predicted: NDArray[Any], center: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Return how far the colours reach below and above the centre: equally far, but not beyond the bounds."""
    reach = float(np.quantile(np.abs(predicted - center), 0.98)) or 1.0
    if bounds is None:
        return reach, reach
    least = 1e-6 * (bounds[1] - bounds[0])
    return min(reach, max(center - bounds[0], least)), min(reach, max(bounds[1] - center, least))


def _predict(
    model: Model, down: int, across: int, fixed: Mapping[int, int], rows: NDArray[Any], columns: NDArray[Any]
) -> NDArray[Any]:
    coords = np.zeros((len(rows) * len(columns), len(model.shape)), dtype=np.int64)
    coords[:, down] = np.repeat(rows, len(columns))
    coords[:, across] = np.tile(columns, len(rows))
    for mode, index in fixed.items():
        coords[:, mode] = index
    return np.asarray(model.predict(coords), dtype=np.float64).reshape(len(rows), len(columns))


def _strongest(model: Model, mode: int) -> int:
    return int(np.argmax(np.linalg.norm(model.factors[mode], axis=1)))


def _spread(size: int, most: int) -> NDArray[np.int64]:
    """Return all places, or ``most`` of them at equal distances."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.int64))


def _sorts(mode: Mode) -> bool:
    """Tell whether an order may be chosen: numbers and dates have one of their own."""
    return mode.labels is None or mode.labels.dtype.kind == "T"


def _order(mode: Mode, means: NDArray[Any]) -> NDArray[np.int64]:
    return np.argsort(means, kind="stable") if _sorts(mode) else np.arange(len(means))


def gather_observed(part: Slice, tensor: ObservedTensor) -> NDArray[Any]:
    """Return the observed values of the slice; NaN where there is none. Private."""
    inside = np.ones(tensor.n_entries, dtype=bool)
    for mode, index in part.fixed.items():
        inside &= tensor.columns[mode] == index
    places = []
    for mode, shown in ((part.down, part.rows), (part.across, part.columns)):
        place = np.full(tensor.shape[mode], -1)
        place[shown] = np.arange(len(shown))
        places.append(place[tensor.columns[mode]])
        inside &= places[-1] >= 0
    cells = np.full(part.predicted.shape, np.nan)
    cells[places[0][inside], places[1][inside]] = tensor.values[inside]
    return cells


def heat_plots(
    part: Slice, panels: Sequence[tuple[str, NDArray[Any]]], names: Sequence[str], across: str, summary: str
) -> tuple[Markup, Markup]:
    """Draw panels of the same cells below each other, and the key to their colours."""
    return both(lambda width: _draw(part, panels, names, across, summary, width))


def _draw(
    part: Slice, panels: Sequence[tuple[str, NDArray[Any]]], names: Sequence[str], across: str, summary: str,
    width: float,
) -> Markup:  # fmt: skip
    shown = [shorten(name, 16 if width > 500 else 10) for name in names]
    left = max((text_width(name, SMALL) for name in shown), default=0.0) + 8
    high = min(max(300.0 / len(shown), 8.0), 20.0)
    every = 1 if high >= 13 else 2
    parts, top = [], 0.0
    for title, cells in panels:
        parts.append(label(left, top + 9, title, css="title"))
        top += 24
        parts += [
            label(left - 8, top + (k + 0.5) * high, name, anchor="end")
            for k, name in enumerate(shown)
            if k % every == 0
        ]
        wide = (width - left - 2) / cells.shape[1]
        place = f"translate({left:.1f} {top:.1f}) scale({wide:.4f} {high:.4f})"
        parts.append(tag("g", *_cells(cells, part), transform=place, class_="cells"))
        top += high * len(shown) + 16
    parts.append(label((left + width) / 2, top + 2, across, anchor="middle", css="title"))
    holes = any(np.isnan(cells).any() for _, cells in panels)
    parts.append(_key(part, left, top + 26, width, holes))
    return svg(width, top + 62, summary, *parts)


def _cells(cells: NDArray[Any], part: Slice) -> list[Markup]:
    """Return one path per colour; neighbouring cells of a colour are drawn as one rectangle."""
    known = np.isfinite(cells)
    half = (LEVELS - 1) / 2
    away = cells - part.center
    scaled = np.where(known, away / np.where(away < 0, part.below, part.above) * half + half, 0.0)
    levels = np.where(known, np.clip(np.rint(scaled), 0, LEVELS - 1), LEVELS).astype(int)
    steps: list[list[str]] = [[] for _ in range(LEVELS + 1)]
    for y, row in enumerate(levels):
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        ends = np.append(starts[1:], len(row))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            steps[row[start]].append(f"M{start} {y}h{end - start}v1h{start - end}z")
    names = [f"q{k}" for k in range(LEVELS)] + ["missing"]
    return [tag("path", d="".join(step), class_=css) for css, step in zip(names, steps, strict=True) if step]


def _key(part: Slice, left: float, top: float, width: float, holes: bool) -> Markup:
    """Draw the nine colours with the numbers at their ends and in the middle, and what an empty cell means."""
    wide = min(width - left - (126 if holes else 8), 260.0) / LEVELS
    boxes = [tag("rect", x=left + k * wide, y=top, width=wide, height=10.0, class_=f"q{k}") for k in range(LEVELS)]
    ends = (
        (0.0, "start", part.center - part.below),
        (0.5, "middle", part.center),
        (1.0, "end", part.center + part.above),
    )
    texts = [label(left + share * LEVELS * wide, top + 22, number(v), anchor=side) for share, side, v in ends]
    beside = left + LEVELS * wide + 24
    empty = tag("rect", x=beside, y=top, width=14.0, height=10.0, class_="missing outlined")
    return join(*boxes, *texts, *((empty, label(beside + 20, top + 5, "not observed")) if holes else ()))
