"""Synthetic tensors: cells drawn from a model of expected counts, by its components, never by looking at all cells.

A component of non-negative factors is a weight and a share of every index of every mode. How many entries it has is a
Poisson number, and their indices are drawn mode by mode: together that is an independent Poisson number in every cell,
whose mean is the model's prediction. So time and memory go with what is drawn. A mode may get any number of new
indices, each with the row of one that the model has: so an open model of a thousand patients makes a hundred thousand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.memory import check_memory
from tensorveil.models.components import has_components
from tensorveil.models.cp import CPModel
from tensorveil.models.link import IDENTITY
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.modes import find_axis

__all__ = ["synthesise"]

# A yes is drawn as so many times as many Poisson entries as are expected, of whose cells a part is kept. Cells that
# are certain are then missed once in e^8.
_TIMES: Final = 8.0
_EMPTY: Final = "no cell was drawn: the model expects next to none. Try another seed."
_YES_NO, _COUNTS = "bernoulli", "poisson"


def synthesise(model: Any, *, seed: int | None = None, rows: Mapping[Any, int] | None = None) -> ObservedTensor:
    """Draw a synthetic tensor from a model of counts, or of yes and no, in which unlisted cells are zero.

    Counts are Poisson numbers around the predictions, and no larger than the model's upper bound; yes comes as often as
    the model says. Cells are drawn independently of each other. Drawing from a released model is post-processing: it
    costs no budget, and whatever the release promises holds for the drawn cells too, however many are drawn.

    Parameters
    ----------
    model
        A fitted `PrivateCP` or `PrivateLowRankMatrix` of unlisted zeros, a `UserLevelCounts`, an open `CP` with
        ``loss="poisson"`` and ``nonnegative=True``, or a model of these.
    seed
        Draws the same tensor again. By default another one each time.
    rows
        How many indices a mode is to have, such as {"patient": 100_000}. Each gets the row of an index of the model,
        drawn at random, and a mode that is drawn anew has no labels.

    Examples
    --------
    >>> import tensorveil as tv
    >>> factors = [[2.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, 3.0]]
    >>> model = tv.CPModel(factors=factors, loss="poisson")
    >>> drawn = tv.synthesise(model, seed=0)
    >>> drawn.shape, drawn.unlisted
    ((2, 2), 'zero')
    """
    fitted, rng = getattr(model, "model_", model), np.random.default_rng(seed)
    _check(fitted)
    fitted = _draw_rows(fitted, rows or {}, rng)
    if not has_components(fitted):
        return _draw_cells(fitted, rng)
    flags = fitted.loss == _YES_NO
    factors = [np.asarray(factor, dtype=np.float64) for factor in fitted.factors]
    weights = np.prod([factor.sum(axis=0) for factor in factors], axis=0) * (_TIMES if flags else 1.0)
    most = weights.sum() + 10 * math.sqrt(weights.sum()) + 10
    check_memory(int(most) * (12 * fitted.order + 40), "the synthetic tensor", "Draw from a model of fewer entries.")
    columns = _draw(factors, weights, rng)
    if not columns.shape[1]:
        raise InputError(_EMPTY)
    drawn = ObservedTensor(
        columns.T, np.ones(columns.shape[1]), shape=fitted.shape, modes=fitted.modes, duplicates="sum", unlisted="zero"
    )
    values = _keep_yes(fitted, drawn, rng) if flags else _cut(fitted, drawn.values)
    kept = values > 0
    if not kept.any():
        raise InputError(_EMPTY)
    return ObservedTensor(
        drawn.columns.T[kept], values[kept], shape=fitted.shape, modes=fitted.modes, unlisted="zero",
        bounds=fitted.bounds,
    )  # fmt: skip


def _check(model: Any) -> None:
    """Refuse models whose predictions are no sums of products of shares."""
    counted = isinstance(model, CPModel) and model.loss in (_COUNTS, _YES_NO) and model.link.name == IDENTITY.name
    if not counted or not (has_components(model) or model.loss == _YES_NO):
        raise InputError(
            "model must be one of expected counts: a private CP or matrix of unit entry that was fitted with "
            'unlisted="zero", or an open CP with loss="poisson", nonnegative=True and baseline="none".'
        )
    if model.bounds is not None and model.bounds[1] < 1:
        raise InputError("model must predict counts, and its upper bound is below 1. Measure values in a smaller unit.")


def _draw_rows(model: CPModel, rows: Mapping[Any, int], rng: np.random.Generator) -> CPModel:
    """Return the model with new rows in some modes, each a copy of one of its own."""
    factors, modes = list(model.factors), list(model.modes)
    for name, count in rows.items():
        at = find_axis(model.modes, name)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= np.iinfo(np.int32).max:
            raise InputError(f"rows must give a whole number of at least 1 per mode; got {count!r}. Try 1000.")
        check_memory(8 * count * model.rank, "the rows of the synthetic tensor", "Draw fewer.")
        factors[at] = factors[at][rng.integers(len(factors[at]), size=count)]
        modes[at] = Mode(modes[at].name)
    return replace(model, factors=tuple(factors), modes=tuple(modes)) if rows else model


def _draw_cells(model: CPModel, rng: np.random.Generator) -> ObservedTensor:
    """Draw every cell of a model of yes and no by itself: releases of small tensors may have negative numbers."""
    cells = math.prod(model.shape)
    check_memory(30 * cells, "the synthetic tensor", "Draw from a model of fewer cells.")
    drawn = np.flatnonzero(rng.random(cells) < np.clip(model.dense(), 0.0, 1.0).reshape(-1))
    if not len(drawn):
        raise InputError(_EMPTY)
    coords = np.stack(np.unravel_index(drawn, model.shape), axis=1)
    return ObservedTensor(
        coords, np.ones(len(drawn)), shape=model.shape, modes=model.modes, unlisted="zero", bounds=model.bounds
    )


def _draw(factors: list[NDArray[Any]], weights: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int32]:
    """Return the (order, n) cells of Poisson numbers of entries."""
    parts = []
    for component, count in enumerate(rng.poisson(weights)):
        if count:
            shares = [factor[:, component] / factor[:, component].sum() for factor in factors]
            parts.append(np.stack([rng.choice(len(share), count, p=share).astype(np.int32) for share in shares]))
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(factors), 0), dtype=np.int32)


def _keep_yes(model: CPModel, drawn: ObservedTensor, rng: np.random.Generator) -> NDArray[Any]:
    """Return 1 for cells to keep, so that each is there as often as the model says, and 0 for others."""
    expected = np.asarray(model.predict(drawn.columns.T, clip=False), dtype=np.float64)
    share = np.minimum(expected, 1.0) / -np.expm1(-_TIMES * expected)
    return (rng.random(len(share)) < share).astype(np.float64)


def _cut(model: CPModel, values: NDArray[Any]) -> NDArray[Any]:
    return values if model.bounds is None else np.minimum(values, np.floor(model.bounds[1]))
