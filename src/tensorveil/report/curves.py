"""The trade-off curve of an audit: how often tests of one neighbour against the other err, and what is claimed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.report.pictures import GRID, INK, figure_class
from tensorveil.tensor.files.atomic import replacing

Array = NDArray[Any]


def save_curve(
    path: str | os.PathLike[str],
    points: Sequence[tuple[float, float, float, float]],
    claimed: Callable[[Array], Array],
    *,
    title: str,
    claim: str,
) -> None:
    """Draw false positives against misses, with the corner up to which each point's confidence reaches.

    ``points`` are (false positives, misses, false positives at most, misses at most); ``claimed`` gives the least
    misses that the claim allows. A point whose corner lies below that curve refutes the claim.
    """
    if not points:
        raise InputError("points must hold at least one test.")
    figure = figure_class()(figsize=(5.4, 5.0), dpi=150, layout="constrained")
    axis = figure.subplots()
    alpha = np.linspace(0.0, 1.0, 1001)
    axis.fill_between(alpha, 0.0, claimed(alpha), color="#f4c7c3", linewidth=0, label=f"excluded by {claim}")
    axis.plot(alpha, claimed(alpha), color="#c0392b", linewidth=1.3)
    axis.plot([0, 1], [1, 0], color=GRID, linewidth=1.0, linestyle="--", label="guessing")
    for number, (x, y, right, top) in enumerate(points):
        axis.add_patch(_corner(x, y, right, top, "" if number else "up to its confidence bounds"))
    axis.plot([p[0] for p in points], [p[1] for p in points], ".", color="#2171b5", markersize=5, label="measured")
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.set_xlabel("false positives", color=INK)
    axis.set_ylabel("misses", color=INK)
    axis.grid(color=GRID, linewidth=0.5)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=9, colors=INK)
    axis.legend(loc="upper right", fontsize=8, frameon=False)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    figure.suptitle(title, fontsize=11, color=INK)
    with replacing(Path(path)) as temporary:
        figure.savefig(temporary, format=Path(path).suffix[1:] or "png")


def _corner(x: float, y: float, right: float, top: float, label: str) -> Any:
    """Give the rectangle between a point and the upper bounds of its two rates."""
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), right - x, top - y, facecolor="#2171b5", alpha=0.15, linewidth=0, label=label)
