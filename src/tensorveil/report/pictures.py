"""True against predicted values, one panel per method; error against privacy budget."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError, MissingDependencyError

PANEL_INCHES = 3.1
CELLS_ACROSS = 42
INK, GRID = "#222222", "#d9d9d9"


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """Predictions of one method for the same held-out values."""

    name: str
    predicted: NDArray[Any]
    rmse: float


@dataclass(frozen=True, kw_only=True)
class Tried:
    """Errors at one budget: one for each repetition with other noise."""

    epsilon: float
    method: str
    errors: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the errors."""
        return float(np.mean(self.errors))


def save_trade_off(
    path: str | os.PathLike[str], tried: Sequence[Tried], lines: Mapping[str, float], *, title: str
) -> None:
    """Draw error against epsilon: mean and range of the repetitions, with lines for what does not depend on it."""
    if not tried:
        raise InputError("tried must hold at least one budget.")
    figure_class, _ = _matplotlib()
    figure = figure_class(figsize=(7.2, 4.6), dpi=150, layout="constrained")
    axis = figure.subplots()
    tried = sorted(tried, key=lambda each: each.epsilon)
    epsilons = [each.epsilon for each in tried]
    low, high = [min(each.errors) for each in tried], [max(each.errors) for each in tried]
    axis.set_xscale("log")
    axis.fill_between(epsilons, low, high, color="#6baed6", alpha=0.35, linewidth=0, label="lowest to highest")
    axis.plot(epsilons, [each.mean for each in tried], color="#2171b5", linewidth=1.6, label="mean", zorder=3)
    for method, marker in zip(dict.fromkeys(each.method for each in tried), "osD^vP", strict=False):
        points = [(each.epsilon, each.mean) for each in tried if each.method == method]
        axis.plot(*zip(*points, strict=True), marker, color="#2171b5", markersize=6, zorder=4, label=f"by {method}")
    for (name, error), style in zip(lines.items(), ("--", "-.", ":"), strict=False):
        axis.axhline(error, color="#c0392b", linewidth=1.1, linestyle=style, label=f"{name}: {error:.2f}")
    _dress_trade_off(axis, epsilons, max([*high, *lines.values()]))
    figure.suptitle(title, fontsize=12, color=INK)
    figure.savefig(Path(path))


def _dress_trade_off(axis: Any, epsilons: Sequence[float], highest: float) -> None:
    """Name the axes, and write the budgets that were tried on the logarithmic one."""
    axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axis.minorticks_off()
    axis.set_ylim(0, 1.08 * highest)
    axis.set_xlabel("epsilon (stronger protection to the left)", color=INK)
    axis.set_ylabel("held-out RMSE", color=INK)
    axis.grid(color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=9, colors=INK)
    axis.legend(loc="lower left", fontsize=8, frameon=False, ncols=2)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def save_true_against_predicted(
    path: str | os.PathLike[str],
    true: NDArray[Any],
    panels: Sequence[Panel],
    *,
    title: str,
    value_label: str = "value",
) -> None:
    """Draw one panel per method, on shared axes, into an image file (PNG, SVG or PDF by its name)."""
    if not panels:
        raise InputError("panels must hold at least one method.")
    figure_class, colors = _matplotlib()
    # The object interface: no pyplot, so no global state and no window system.
    size = (PANEL_INCHES * len(panels) + 1.2, PANEL_INCHES + 1.0)
    figure = figure_class(figsize=size, dpi=150, layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(panels), sharex=True, sharey=True))
    low, high = _limits(true, panels)
    scale = (_colour_map(colors), colors.LogNorm(vmin=1, vmax=_fullest(true, panels, low, high)))
    for axis, panel in zip(axes, panels, strict=True):
        drawn = _draw_panel(axis, true, panel, low, high, scale)
    axes[0].legend(loc="upper left", fontsize=8, frameon=False)
    axes[0].set_ylabel(f"predicted {value_label}", color=INK)
    figure.supxlabel(f"true {value_label} (held out)", fontsize=10, color=INK)
    bar = figure.colorbar(drawn, ax=list(axes), pad=0.01, aspect=28)
    bar.set_label("held-out entries per cell", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    figure.suptitle(title, fontsize=12, color=INK)
    figure.savefig(Path(path))


def _draw_panel(axis: Any, true: NDArray[Any], panel: Panel, low: float, high: float, scale: Any) -> Any:
    """Draw one panel: counts in hexagons, and the line on which predictions are right."""
    axis.plot([low, high], [low, high], color="#c0392b", linewidth=1.1, zorder=3, label="predicted = true")
    extent = (low, high, low, high)
    cmap, norm = scale
    drawn = axis.hexbin(
        true,
        panel.predicted,
        gridsize=CELLS_ACROSS,
        extent=extent,
        mincnt=1,
        norm=norm,
        cmap=cmap,
        linewidths=0.1,
    )
    axis.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    axis.set_title(f"{panel.name}\nRMSE {panel.rmse:.3f}", fontsize=10, color=INK)
    axis.grid(color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8, colors=INK)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return drawn


def _limits(true: NDArray[Any], panels: Sequence[Panel]) -> tuple[float, float]:
    """Give common limits with a little air around."""
    everything = [true, *(panel.predicted for panel in panels)]
    low = min(float(np.min(values)) for values in everything)
    high = max(float(np.max(values)) for values in everything)
    air = 0.03 * (high - low) or 1.0
    return low - air, high + air


def _fullest(true: NDArray[Any], panels: Sequence[Panel], low: float, high: float) -> float:
    """Give the common end of the colour scale: about the fullest cell of the best panel."""
    best = min(panels, key=lambda panel: panel.rmse)
    edges = np.linspace(low, high, CELLS_ACROSS + 1)
    counts, _, _ = np.histogram2d(true, best.predicted, bins=(edges, edges))
    return max(2.0, float(counts.max()))


def _colour_map(colors: Any) -> Any:
    """Give light to dark blue: the fuller a cell, the darker, and a single entry still shows."""
    return colors.LinearSegmentedColormap.from_list("counts", ["#c6dbef", "#6baed6", "#2171b5", "#08306b"])


def figure_class() -> Any:
    """Return matplotlib's figure; the object interface has no global state and needs no window system."""
    return _matplotlib()[0]


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib import colors
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            "pictures need matplotlib. Install it with: pip install 'tensorveil[plots]'"
        ) from error
    return Figure, colors
