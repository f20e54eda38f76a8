"""Factors, mode by mode, with labels: bars for short modes; for long ones the sorted or ordered row of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.markup import Markup, join, shorten, tag, text_width
from tensorveil.models import CPModel, TuckerModel
from tensorveil.report.drawing import SMALL, both, label, svg
from tensorveil.report.page import data_table
from tensorveil.report.scales import number
from tensorveil.tensor import Mode

__all__ = ["Loadings", "loading_plots", "loading_table", "mode_loadings"]

SHOWN = 4  # components; the weaker ones are told of in the caption
SHORT = 24  # up to so many indices each gets a bar and its label
_OFF = 1e-3  # a component this much weaker than the strongest was switched off
Model = CPModel | TuckerModel


@dataclass(frozen=True, kw_only=True, eq=False)
class Loadings:
    """What a model holds about one mode: named columns, each scaled to a largest size of 1, strongest first.

    ``sizes`` are what they were divided by; ``left_out`` counts components that are not shown.
    """

    mode: Mode
    names: tuple[str, ...]
    columns: NDArray[np.float64]
    sizes: tuple[float, ...]
    left_out: int

    def labels(self, places: Sequence[int] | NDArray[Any] | None = None) -> list[str]:
        """Return the labels of these indices, or of all of them; their numbers if they have no labels."""
        return index_labels(self.mode, len(self.columns), None if places is None else np.asarray(places))


def index_labels(mode: Mode, size: int, places: NDArray[Any] | None = None) -> list[str]:
    """Return the labels of a mode's indices, or of some of them."""
    shown = np.arange(size) if places is None else places
    return [str(item) for item in (shown if mode.labels is None else mode.labels[shown])]


def mode_loadings(model: Model, mode: int) -> Loadings:
    """Return bias and strongest components of one mode."""
    strength = _strength(model, mode)
    order = np.argsort(-strength, kind="stable")
    alive = [int(k) for k in order if strength[k] > _OFF * strength.max(initial=0.0)]
    kept = alive[:SHOWN]
    columns = [model.factors[mode][:, k] for k in kept]
    names = [f"component {k + 1}" for k in range(len(kept))]
    if model.biases is not None and np.any(model.biases[mode]):
        columns, names = [model.biases[mode], *columns], ["bias", *names]
    sizes = [float(np.max(np.abs(column))) or 1.0 for column in columns]
    matrix = np.zeros((model.shape[mode], 0)) if not columns else np.stack(columns, axis=1) / sizes
    return Loadings(
        mode=model.modes[mode],
        names=tuple(names),
        columns=np.asarray(matrix, dtype=np.float64),
        sizes=tuple(sizes),
        left_out=len(alive) - len(kept),
    )


def _strength(model: Model, mode: int) -> NDArray[np.float64]:
    """Return how much each component of a mode contributes to predictions."""
    norms = [np.linalg.norm(np.asarray(factor, dtype=np.float64), axis=0) for factor in model.factors]
    if isinstance(model, CPModel):
        return np.asarray(np.prod(norms, axis=0))
    core = np.moveaxis(np.asarray(model.core, dtype=np.float64), mode, 0)
    return np.asarray(np.linalg.norm(core.reshape(len(core), -1), axis=1) * norms[mode])


def loading_plots(loadings: Loadings) -> tuple[Markup, Markup]:
    """Draw the columns of one mode."""
    short = len(loadings.columns) <= SHORT
    return both(lambda width: (_draw_bars if short else _draw_profiles)(loadings, width))


def _summary(loadings: Loadings) -> str:
    told = []
    for name, column in zip(loadings.names, loadings.columns.T, strict=True):
        high, low = loadings.labels([int(np.argmax(column)), int(np.argmin(column))])
        told.append(f"{name} is highest for {high} and lowest for {low}")
    return f"Factors of mode {loadings.mode.name}: {'; '.join(told)}."


def _draw_bars(loadings: Loadings, width: float) -> Markup:
    """Draw one line per index, one field per column, bars to the right for positive numbers."""
    names = [shorten(name, 22 if width > 500 else 11) for name in loadings.labels()]
    left = max(text_width(name, SMALL) for name in names) + 10
    field = (width - left) / len(loadings.names)
    row, top = 20.0, 26.0
    height = top + row * len(names) + 4
    parts = [label(left - 10, top + (k + 0.5) * row, name, anchor="end") for k, name in enumerate(names)]
    for k, (name, column) in enumerate(zip(loadings.names, loadings.columns.T, strict=True)):
        middle = left + (k + 0.5) * field
        short = name if text_width(name, SMALL) < field - 4 else name.removeprefix("component ")
        parts.append(label(middle, 8, short, anchor="middle", css="title"))
        parts.append(tag("line", x1=middle, x2=middle, y1=top - 4, y2=height - 2, class_="axis"))
        half = field / 2 - 5
        for line, value in enumerate(column.tolist()):
            x = middle + min(value, 0.0) * half
            y = top + line * row + 4
            css = "positive" if value >= 0 else "negative"
            parts.append(tag("rect", x=x, y=y, width=max(abs(value) * half, 0.5), height=row - 8, class_=css))
    return svg(width, height, _summary(loadings), *parts)


def _draw_profiles(loadings: Loadings, width: float) -> Markup:
    """Draw one strip per column: sorted where labels are names, in their own order where they are numbers or dates."""
    by_value = loadings.mode.labels is not None and loadings.mode.labels.dtype.kind == "T"
    high, gap = 44.0, 50.0
    parts: list[Markup] = []
    for k, (name, column) in enumerate(zip(loadings.names, loadings.columns.T, strict=True)):
        top = k * (high + gap)
        order = np.argsort(-column, kind="stable") if by_value else np.arange(len(column))
        parts.append(label(0, top + 8, name, css="title"))
        parts.append(_strip(column[order], top + 20, high, width))
        parts.append(_ends(loadings, order, top + 20 + high + 11, width, by_value))
    return svg(width, len(loadings.names) * (high + gap), _summary(loadings), *parts)


def _strip(values: NDArray[np.float64], top: float, high: float, width: float) -> Markup:
    """Draw the numbers as areas above and below a line; where pixels are few, the extremes of each."""
    pieces = np.array_split(values, min(len(values), int(width)))
    wide = width / len(pieces)
    middle, half = top + high / 2, high / 2
    areas = []
    for css, pick in (("positive", np.max), ("negative", np.min)):
        sizes = [max(pick(p), 0.0) if css == "positive" else min(pick(p), 0.0) for p in pieces]
        steps = "".join(f"V{middle - half * size:.1f}h{wide:.3f}" for size in sizes)
        areas.append(tag("path", d=f"M0 {middle:.1f}{steps}V{middle:.1f}z", class_=css))
    return join(*areas, tag("line", x1=0.0, x2=width, y1=middle, y2=middle, class_="axis"))


def _ends(loadings: Loadings, order: NDArray[Any], y: float, width: float, by_value: bool) -> Markup:
    """Name the ends of a strip: the highest and lowest labels, as many as there is room for, or the first and last."""
    most = 5 if by_value else 1
    for count in range(most, 0, -1):
        left, right = (
            ", ".join(shorten(name, 20) for name in index_labels(loadings.mode, len(order), places))
            for places in (order[:count], order[-count:])
        )
        if max(text_width(left, SMALL), text_width(right, SMALL)) < 0.48 * width:
            break
    else:
        left, right = (shorten(text, int(0.06 * width)) for text in (left, right))
    return join(label(0, y, left), label(width, y, right, anchor="end"))


def loading_table(loadings: Loadings) -> Markup:
    """Return the numbers: all of a short mode, the largest of every column of a long one."""
    title = f"factors of mode {loadings.mode.name}"
    if len(loadings.columns) <= SHORT:
        rows = [
            [name, *map(number, row)] for name, row in zip(loadings.labels(), loadings.columns.tolist(), strict=True)
        ]
        return data_table(title, [loadings.mode.name, *loadings.names], rows)
    largest: list[Sequence[str]] = []
    for name, column in zip(loadings.names, loadings.columns.T, strict=True):
        order = np.argsort(-np.abs(column), kind="stable")[:10]
        told = zip(loadings.labels(order), column[order].tolist(), strict=True)
        largest.append([name, "; ".join(f"{item} {number(value)}" for item, value in told)])
    return data_table(title, ["column", "the ten largest, by size"], largest)
