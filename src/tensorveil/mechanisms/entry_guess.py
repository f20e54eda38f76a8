"""Unit "entry": what a mechanism may achieve, guessed before anything is spent, from a declared number of entries.

In this unit the number of entries is private, so no mechanism compares itself with others by such a guess, and none
knows it while it runs; only somebody who plans, and declares a number that is not read off the data, gets one.

The typical tensor is the planner's: a quarter of the variance are biases, a third interactions. "gram" has no biases,
so each mode's take a component of their own, and of all components, taken to be equally strong, as many are found as
the rank. From how far the factors of the other modes agree with the truth follows how far the next one will, step by
step from the random start. Rows are solved with the ridge of the mechanism; the noise of their Gram matrices shows
only in it. Of "crosstabs" it is guessed that it does as tables of unit value do with half of the budget, or as input
perturbation with a third of it, if the table of all modes can be measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from tensorveil.mechanisms import input as at_once
from tensorveil.mechanisms import margins, mean, tables
from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.crosstab_plan import MOST_CELLS
from tensorveil.mechanisms.gram import SWEEPS
from tensorveil.mechanisms.method import Expected
from tensorveil.mechanisms.tallies import sum_noise
from tensorveil.mechanisms.tradeoffs import SIGNAL

__all__ = ["EXPECTED"]

_MEAN_SHARE = 0.1  # of the budget, as gram.py has it
_LARGEST_NORM_DIMENSION = 1024  # beyond it, noise is not norm-shaped but Laplace
_SUMS_SHARE, _CELLS_SHARE = 0.5, 0.35  # of the budget of crosstabs
# Guesses of tables rise by a hundredth here and there, where they begin to clip less; no run need spend everything.
_SPENT = np.geomspace(0.6, 1.0, 6).tolist()
_LOST = 1 / 3  # variance of a mean that could be anywhere between the bounds, in squared half widths


def predict_gram(case: Case) -> float:
    """Predict the squared error of alternating least squares on noisy Gram matrices, as a share of the variance.

    ``case.n_entries`` is a declared number of entries.
    """
    order, n = len(case.shape), case.n_entries
    # Values are measured from the middle of the bounds, in half widths.
    variance = (2 * case.spread) ** 2
    lost_mean = min(_noise(case.part(_MEAN_SHARE), 2) / n**2, _LOST)
    step = case.part((1 - _MEAN_SHARE) / (SWEEPS * order))
    agreements = [min(1.0, case.ranks[m] ** (1 / (order - 1)) / case.shape[m]) for m in range(order)]
    error = 0.0
    for turn in range(SWEEPS * order):
        mode = turn % order
        of_others = math.prod(agreements[m] for m in range(order) if m != mode)
        agreements[mode], error = _solve_rows(case, step, mode, of_others, variance)
    return (lost_mean + error) / variance


def predict_crosstabs(case: Case) -> float:
    """Predict the squared error of counts and sums: that of tables of unit value with a part of the budget.

    The rest of it is what counts cost, which are public there.
    """
    parts = [case.part(_SUMS_SHARE * spent) for spent in _SPENT]
    found = min(method.predict_error(part) for method in (mean, margins, tables) for part in parts)
    if math.prod(case.shape) > MOST_CELLS:
        return float(found)
    noise = sum_noise(case.part(_CELLS_SHARE).noise, pure=case.epsilon is not None)
    cells = replace(case, epsilon=None, mu=1.0 / math.sqrt(noise))
    # Which cells have entries is as uncertain as what is in them.
    sampling = (1 - SIGNAL) * case.parameters / case.n_entries
    return float(min(found, at_once.predict_error(cells) + sampling))


def _solve_rows(case: Case, step: Case, mode: int, of_others: float, variance: float) -> tuple[float, float]:
    """Return how far the rows of a mode agree with the truth, and the error of predictions by them."""
    rank = case.ranks[mode]
    noise = _noise(step, rank * (rank + 1) // 2 + rank)
    longest = _longest(case, mode)
    typical = math.prod(r for m, r in enumerate(case.ranks) if m != mode) if case.core else 1.0
    # A row's Gram matrix is this times the unit matrix, designs being scaled by the longest.
    curvature = case.n_entries / case.shape[mode] * typical / longest
    components = rank + len(case.shape)
    strength = SIGNAL * variance / components
    signal = curvature**2 * longest / typical * of_others * strength
    agreement = signal / (signal + noise + curvature * variance)
    ridge = 2.0 * math.sqrt(noise * rank)
    # More entries than the ridge is right for would be guessed to harm; they do, but a little.
    sampling = variance / (curvature * longest / typical)
    kept = min(curvature / (curvature + ridge), strength * of_others / (strength * of_others + sampling))
    found = strength * (1 - of_others * kept * (2 - kept)) + kept**2 * sampling
    added = noise / (curvature + ridge) ** 2 * typical / longest
    return agreement, rank * (found + added) + (components - rank) * strength


def _noise(case: Case, dimension: int) -> float:
    """Return the variance of the noise on each number of a row of length sqrt(2), as `Spend.bounded_rows` adds it."""
    if case.epsilon is None:
        return 2.0 * case.noise
    return (dimension + 1.0 if dimension <= _LARGEST_NORM_DIMENSION else 2.0 * dimension) * case.noise


def _longest(case: Case, mode: int) -> float:
    """Return the squared length of the longest possible design: rows of factors are taken to be Gaussian."""
    from scipy.special import chdtri

    rows = [
        float(chdtri(rank, min(0.5, 1.0 / size)))
        for m, (size, rank) in enumerate(zip(case.shape, case.ranks, strict=True))
        if m != mode
    ]
    return math.prod(rows) * (math.prod(case.ranks) if case.core else 1.0)


# By the name of the mechanism, as in `names.py`.
EXPECTED: Final[Mapping[str, Expected]] = {"crosstabs": predict_crosstabs, "gram": predict_gram}
