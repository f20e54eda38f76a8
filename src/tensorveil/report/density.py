"""True against predicted values, one panel per method: how many entries fall into each of the small squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.markup import Markup, join, tag
from tensorveil.report.drawing import Frame, Sample, label, svg, x_axis, y_axis
from tensorveil.report.pictures import Picture
from tensorveil.report.scales import Axis, number

__all__ = ["Panel", "density_picture"]

SHADES = 5  # from a single entry to the fullest square
SQUARES = 42  # across a panel
_SIDE, _GAP, _LEFT, _TOP, _BOTTOM = 216.0, 22.0, 44.0, 56.0, 48.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """Predictions of one method for the same held-out values."""

    name: str
    predicted: NDArray[Any]
    rmse: float


def density_picture(true: NDArray[Any], panels: Sequence[Panel], *, title: str, values: str = "value") -> Picture:
    """Return true against predicted values as a picture; all panels share axes and shades.

    Parameters
    ----------
    true
        The held-out values.
    panels
        The predictions of each method, and their errors.
    title
        The line above the picture.
    values
        What the values are, for the axes.
    """
    if not panels:
        raise InputError("panels must hold at least one method.")
    edges = _edges(true, panels)
    counts = [np.histogram2d(true, panel.predicted, bins=(edges, edges))[0].T for panel in panels]
    fullest = max(int(count.max()) for count in counts)
    width = _LEFT + len(panels) * _SIDE + (len(panels) - 1) * _GAP + 8
    height = _TOP + _SIDE + _BOTTOM
    told = "; ".join(f"{panel.name}: root mean square error {number(panel.rmse)}" for panel in panels)
    summary = f"{title}. Predicted against true {values}s. {told}."
    parts = [
        _draw_panel(panel, count, edges, fullest, left=_LEFT + k * (_SIDE + _GAP), values=values, first=k == 0)
        for k, (panel, count) in enumerate(zip(panels, counts, strict=True))
    ]
    return Picture(
        title=title,
        summary=summary,
        drawing=svg(width, height, summary, *parts),
        width=width,
        height=height,
        legend=(*_shade_samples(fullest), Sample(css="claimed-curve", name="predicted = true")),
    )


def _edges(true: NDArray[Any], panels: Sequence[Panel]) -> NDArray[np.float64]:
    """Return the edges of the squares, the same along both axes, with a little air around the values."""
    everything = [true, *(panel.predicted for panel in panels)]
    low = min(float(np.min(values)) for values in everything)
    high = max(float(np.max(values)) for values in everything)
    air = 0.03 * (high - low) or 1.0
    return np.linspace(low - air, high + air, SQUARES + 1)


def _draw_panel(
    panel: Panel, counts: NDArray[Any], edges: NDArray[Any], fullest: int, *, left: float, values: str, first: bool
) -> Markup:
    frame = Frame(left=left, right=left + _SIDE, top=_TOP, bottom=_TOP + _SIDE)
    across = Axis(low=float(edges[0]), high=float(edges[-1]), start=frame.left, end=frame.right)
    up = Axis(low=float(edges[0]), high=float(edges[-1]), start=frame.bottom, end=frame.top)
    size = _SIDE / SQUARES
    shades = np.where(counts > 0, _shade(counts, fullest), -1)
    steps: list[list[str]] = [[] for _ in range(SHADES)]
    for row, column in zip(*np.nonzero(shades >= 0), strict=True):
        steps[shades[row, column]].append(f"M{column} {SQUARES - 1 - row}h1v1h-1z")
    place = f"translate({frame.left:g} {frame.top:g}) scale({size:.4f})"
    cells = [tag("path", d="".join(step), class_=f"c{k}") for k, step in enumerate(steps) if step]
    return join(
        label(left, 8, panel.name, css="title"),
        label(left, 26, f"RMSE {panel.rmse:.3f}"),
        y_axis(up, frame, "", numbers=first),
        tag("g", *cells, transform=place, class_="cells"),
        tag("line", x1=frame.left, x2=frame.right, y1=frame.bottom, y2=frame.top, class_="claimed-curve"),
        x_axis(across, frame, f"true {values}", ticks=[(value, number(value)) for value in up.ticks(4)]),
        label(0, 44, f"predicted {values}") if first else None,
    )


def _shade(counts: NDArray[Any], fullest: int) -> NDArray[np.int64]:
    """Return the shade of every count: equal ratios are equal steps, and a single entry has the lightest."""
    share = np.log(np.maximum(counts, 1)) / math.log(max(fullest, 2))
    shades: NDArray[np.int64] = np.minimum((SHADES * share).astype(np.int64), SHADES - 1)
    return shades


def _shade_samples(fullest: int) -> list[Sample]:
    """Name the shades by the counts that they stand for; small counts may need only some of them."""
    shades = _shade(np.arange(1, fullest + 1), fullest)
    found = []
    for shade in np.unique(shades).tolist():
        counts = np.flatnonzero(shades == shade) + 1
        low, high = int(counts[0]), int(counts[-1])
        words = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        found.append(Sample(css=f"c{shade}", name=f"{words} {'entry' if high == 1 else 'entries'}", form="box"))
    return found
