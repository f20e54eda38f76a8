"""Public features of released rows as further traits of a shared model: post-processing, which costs no budget.

A user's coefficients of a film's genres are tastes like any others: computed from the user's own entries where these
are, and never released (rounds/own_part.py). So a public table can be added to a model once the rounds are over, by
whoever has both.

How much users differ in such tastes is not measured. Their variance is a fixed share of the spread, and a column of
the table is used only if what was released anyway tells that it speaks of the rows: if biases or latent features of
rows with unlike features differ by more than chance allows (an F test). So tables that say nothing are left out. The
share and the level were chosen on one split of MovieLens 1M (docs/explanation/measurements.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.shared import SharedModel

Array = NDArray[Any]

SHARE: Final = 0.04  # of the spread: the variance of a user's coefficient of a feature
LEVEL: Final = 1e-3  # of the F test, for all comparisons of one column together


@dataclass(frozen=True, kw_only=True)
class Extended:
    """A model with features, and which columns of each table it uses, by mode and number."""

    model: SharedModel
    used: Mapping[int, tuple[int, ...]]


def add_features(model: SharedModel, tables: Mapping[int, tuple[Array, Array]]) -> Extended:
    """Add tables by mode: features (size, k) of mean zero, and the number of the column that each comes from."""
    released = [m for m in range(len(model.shape)) if m != model.protect]
    used: dict[int, tuple[int, ...]] = {}
    for mode, (features, sources) in tables.items():
        at = released.index(mode)
        known = _released_numbers(model, at)
        used[mode] = tuple(s for s in np.unique(sources).tolist() if speaks(features[:, sources == s], known))
        kept = features[:, np.isin(sources, used[mode])]
        if kept.shape[1]:
            model = _widen(model, at, kept)
    return Extended(model=model, used=used)


def speaks(features: Array, known: Array) -> bool:
    """Tell whether rows with unlike features differ in any column of ``known`` by more than chance."""
    from scipy.special import fdtrc

    known = known - known.mean(axis=0)
    total = np.sum(known**2, axis=0)
    varied = total > 1e-12 * max(float(total.max(initial=0.0)), 1e-300)
    basis, strengths, _ = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
    basis = basis[:, strengths > 1e-9 * strengths.max()]
    free, left = basis.shape[1], len(features) - 1 - basis.shape[1]
    if left < 1 or not varied.any():
        return False
    explained = np.sum((basis.T @ known[:, varied]) ** 2, axis=0)
    rest = np.maximum(total[varied] - explained, 1e-300)
    chance = fdtrc(free, left, explained / free / (rest / left))
    return bool(np.min(chance) * np.count_nonzero(varied) < LEVEL)


def _released_numbers(model: SharedModel, at: int) -> Array:
    """Return what was released of each row of a mode: its bias and its latent features."""
    factor = model.factors[at]
    if model.core is None:
        latent = factor[:, model.n_traits :]
    else:
        latent = factor[:, : model.basis_columns[at]]
    return np.column_stack([model.biases[at], latent])


def _widen(model: SharedModel, at: int, features: Array) -> SharedModel:
    """Return the model with traits of one mode added to those that it has."""
    old, more = model.n_traits, features.shape[1]
    mean = np.insert(model.taste_mean, [1 + old] * more, 0.0)
    kept = np.r_[: 1 + old, 1 + old + more : len(mean)]
    covariance = np.zeros((len(mean), len(mean)))
    covariance[np.ix_(kept, kept)] = model.taste_covariance
    new = np.arange(1 + old, 1 + old + more)
    covariance[new, new] = SHARE * model.spread
    factors, core = list(model.factors), model.core
    if core is None:
        for m, factor in enumerate(factors):
            column = features if m == at else np.ones((len(factor), more))
            factors[m] = np.column_stack([factor[:, :old], column, factor[:, old:]])
    else:
        ones = model.basis_columns
        first = factors[at].shape[1]
        factors[at] = np.column_stack([factors[at], features])
        wide = np.zeros((len(core) + more, *(f.shape[1] for f in factors)))
        parts = np.r_[:old, old + more : len(wide)]
        wide[(parts, *(slice(n) for n in core.shape[1:]))] = core
        for k in range(more):
            wide[(old + k, *(first + k if m == at else ones[m] for m in range(len(factors))))] = 1.0
        core = wide
    return replace(
        model, factors=tuple(factors), core=core, n_traits=old + more, taste_mean=mean, taste_covariance=covariance
    )
