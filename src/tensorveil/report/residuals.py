"""Residuals: what a model leaves of the values it is held against. Computed from private data without protection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.markup import Markup
from tensorveil.models import CPModel, TuckerModel
from tensorveil.models.evaluate import predict_columns
from tensorveil.report.bars import Bar, bar_plots, histogram_plots
from tensorveil.report.factors import SHORT, index_labels
from tensorveil.report.facts import Chart, Series
from tensorveil.report.lines import chart_figure
from tensorveil.report.model_parts import Captioner
from tensorveil.report.page import Section, data_table, figure
from tensorveil.report.scales import number
from tensorveil.tensor import Mode, ObservedTensor

__all__ = ["residual_section"]

BINS, GROUPS = 40, 20
LARGEST = 12
MOST = 1_000_000  # entries; of more, as many at equal distances show the same
Model = CPModel | TuckerModel


def residual_section(model: Model, tensor: ObservedTensor, caption: Captioner, *, which: str) -> Section:
    """Show residuals altogether, against the prediction, and mode by mode; ``which`` names the entries."""
    columns, values = tensor.columns, tensor.values
    told = f"{tensor.n_entries:,} {which}"
    if tensor.n_entries > MOST:
        places = np.linspace(0, tensor.n_entries - 1, MOST).astype(np.int64)
        columns, values, told = columns[:, places], values[places], f"{MOST:,} of the {told}, at equal distances"
    predicted = np.asarray(predict_columns(model, columns), dtype=np.float64)
    residual = np.asarray(values, dtype=np.float64) - predicted
    modes = [_by_mode(k, model.modes[k], columns[k], residual, caption) for k in range(len(model.shape))]
    return Section(
        name="residuals",
        title="Residuals",
        lead=f"Value minus prediction, for {told}.",
        blocks=(_all(residual, caption), _by_prediction(predicted, residual, caption), *modes),
    )


def _all(residual: NDArray[Any], caption: Captioner) -> Markup:
    spread = float(np.sqrt(np.mean(residual**2)))
    low, high = (float(q) for q in np.quantile(residual, (0.1, 0.9)))
    summary = (
        f"Histogram of residuals: root mean square {number(spread)}, from {number(low)} to {number(high)} for 80 %."
    )
    plots = histogram_plots(residual, bins=BINS, title="residual", summary=summary)
    text = f"Root mean square {number(spread)}; eight of ten lie between {number(low)} and {number(high)}."
    counts, edges = np.histogram(residual, bins=10)
    rows = [
        [f"{number(float(a))} to {number(float(b))}", f"{c:,}"]
        for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    table = data_table("residuals by size", ["residual", "entries"], rows)
    return figure("residuals-all", "All residuals", plots, caption(text), numbers=table)


def _by_prediction(predicted: NDArray[Any], residual: NDArray[Any], caption: Captioner) -> Markup:
    """Draw median and the middle eight tenths in groups of equal size: a good model has a flat line at zero."""
    order = np.argsort(predicted, kind="stable")
    groups = [group for group in np.array_split(order, min(GROUPS, max(len(order) // 20, 1))) if len(group)]
    low, middle, high = np.array([np.quantile(residual[group], (0.1, 0.5, 0.9)) for group in groups]).T
    at = np.array([predicted[group].mean() for group in groups])
    kept = np.flatnonzero(np.diff(at, prepend=-np.inf) > 0)  # equal predictions, as of a constant, are one point
    series = Series(
        name="median",
        x=tuple(at[kept].tolist()),
        y=tuple(middle[kept].tolist()),
        low=tuple(low[kept].tolist()),
        high=tuple(high[kept].tolist()),
    )
    text = "Entries are grouped by prediction. A band that leaves zero at an end shows shrinkage or clipping there."
    return chart_figure(
        "residuals-predicted",
        Chart(
            title="Residuals against predictions",
            x="prediction",
            y="residual",
            series=(series,),
            caption=caption(text),
            band="eight tenths of the entries",
        ),
    )


def _by_mode(place: int, mode: Mode, column: NDArray[Any], residual: NDArray[Any], caption: Captioner) -> Markup:
    """Draw the root mean square residual of every index, or of the worst ones of a long mode."""
    size = int(column.max(initial=-1)) + 1
    counts = np.bincount(column, minlength=size)
    squares = np.bincount(column, residual**2, minlength=size)
    seen = np.flatnonzero(counts)
    errors = np.sqrt(squares[seen] / counts[seen])
    short = len(seen) <= SHORT
    order = np.arange(len(seen)) if short else np.argsort(-errors, kind="stable")[:LARGEST]
    names = index_labels(mode, size, seen[order])
    bars = [
        Bar(name=name, value=float(errors[k]), told=f"{number(float(errors[k]))} ({counts[seen[k]]:,})")
        for name, k in zip(names, order, strict=True)
    ]
    typical = float(np.median(errors))
    title = f"Residuals by {mode.name}" + ("" if short else f": the {LARGEST} largest of {len(seen):,}")
    text = (
        f"Root mean square residual of every index, with its number of entries. The median index has {number(typical)}."
    )
    told = f"{title}: {', '.join(f'{bar.name} {number(bar.value)}' for bar in bars)}."
    rows = [[name, number(errors[k]), f"{counts[seen[k]]:,}"] for name, k in zip(names, order, strict=True)]
    table = data_table(title, [mode.name, "root mean square residual", "entries"], rows)
    return figure(f"residuals-mode-{place + 1}", title, bar_plots(bars, told), caption(text), numbers=table)
