"""Biases of the released modes: noisy sums of what users leave unexplained, shrunk by the known size of the noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import (
    BASIS,
    BIAS_PRECISIONS,
    BIAS_SUMS,
    BIASES,
    COUNTS,
    LIMIT,
    OFFSET,
    SPREAD,
    TASTE_COVARIANCE,
    TASTE_MEAN,
    TRAITS,
    State,
    Step,
)
from tensorveil.rounds.counts import adapt_scales, weigh_users
from tensorveil.rounds.grouping import People
from tensorveil.rounds.own_part import find_residuals, lay_out_public, make_ridge, widen_tastes
from tensorveil.rounds.stage import Setup, Stage, Updates
from tensorveil.rounds.sums import Parts, Rows, sum_bounded

Array = NDArray[Any]

# Where users' residuals are clipped, in deviations: all of a user's together, not entry by entry.
CUT = 0.9
_LEAST_VARIANCE = 1e-3  # of biases, as a share of the spread
# The variance of users' coefficients of the two traits before a round has measured it: of the bias, a number without
# unit; of the frequency, a share of the spread.
_BIAS_TASTE, _COUNT_TASTE = 0.2, 0.02
N_TRAITS = 2


class Biases(Stage):
    """Estimate the bias of every row, and from biases and counts the rows' traits."""

    statistic = "weighted sums of users' residuals per row"
    reads = frozenset(
        {
            OFFSET, SPREAD, COUNTS, BIASES, BIAS_SUMS, BIAS_PRECISIONS, TRAITS, TASTE_MEAN, TASTE_COVARIANCE, BASIS,
        }
    )  # fmt: skip
    writes = frozenset({BIASES, BIAS_SUMS, BIAS_PRECISIONS, TRAITS, TASTE_MEAN, TASTE_COVARIANCE})

    def size(self, setup: Setup, step: Step) -> int:
        """Return the number of rows."""
        return setup.rows.total

    def contribute(self, setup: Setup, step: Step, state: State, people: People, threads: int | None) -> Array:
        """Sum residuals per row, after each user's own bias and tastes have been fitted to the user's entries."""
        public = lay_out_public(setup, state, make_ridge(state))

        def parts(piece: People) -> Parts:
            weights = weigh_users(setup, piece)[piece.owners]
            left = find_residuals(public, piece)
            return Parts(entries=(weights * left)[:, None], own=np.empty((piece.n_users, 0)))

        return sum_bounded(people, _rows(setup, state), 1, 0, _reach(setup, state), parts, threads)

    def advance(self, setup: Setup, step: Step, state: State, total: Array, mu: float) -> Updates:
        """Combine this round's sums with those of earlier rounds, each weighted by its precision."""
        reach = _reach(setup, state)
        scales, counts, spread = _rows(setup, state).scales, state[COUNTS], float(state[SPREAD][0])
        noise = (reach / mu / scales) ** 2
        seen = total * (reach / LIMIT) / scales + counts * state[BIASES]
        # Users' weights are at most 1, so that the variance of a sum is at most its count.
        variance = noise + 0.5 * spread * counts
        weighted = state[BIAS_SUMS] + counts * seen / variance
        known = state[BIAS_PRECISIONS] + counts**2 / variance
        biases = np.empty(setup.rows.total)
        for part in setup.rows.slices:
            shrunk = _shrink(weighted[part], known[part], spread)
            biases[part] = shrunk - np.average(shrunk, weights=counts[part])
        traits = make_traits(setup.rows, biases, counts)
        more: dict[str, Array] = {}
        if TRAITS not in state:
            more = widen_tastes(state, np.tile([_BIAS_TASTE, _COUNT_TASTE * spread], len(setup.rows.slices)))
        return {BIAS_SUMS: weighted, BIAS_PRECISIONS: known, BIASES: biases, TRAITS: traits, **more}


def _rows(setup: Setup, state: State) -> Rows:
    """Return the rows with their adaptive scales."""
    adapted = [adapt_scales(state[COUNTS][part]) for part in setup.rows.slices]
    return replace(setup.rows, scales=setup.rows.scales * np.concatenate(adapted))


def _reach(setup: Setup, state: State) -> float:
    """Return the norm to which contributions are clipped: about that of a typical user's scaled residuals."""
    counts, scales = state[COUNTS], _rows(setup, state).scales
    smaller = np.sum(counts * scales**2) / np.sum(counts * setup.rows.scales**2)
    return CUT * setup.reach * float(np.sqrt(state[SPREAD][0] * smaller))


def make_traits(rows: Rows, biases: Array, counts: Array) -> Array:
    """Return what is known of every row: its bias, and its frequency (standardised logarithm of the count).

    Users differ in how closely they follow the common opinion and in how much they like what is popular. Both traits
    are released anyway, and a user's coefficients of them stay with the user, so they cost no budget.
    """
    traits = np.zeros((rows.total, N_TRAITS))
    traits[:, 0] = biases
    for part in rows.slices:
        often, weights = np.log1p(counts[part]), counts[part]
        often = often - np.average(often, weights=weights)
        deviation = float(np.sqrt(np.average(often**2, weights=weights)))
        traits[part, 1] = often / max(deviation, 0.1)
    return traits


def _shrink(weighted: Array, known: Array, spread: float) -> Array:
    """Return posterior means of biases whose variance is found by maximum likelihood among a few candidates."""
    known = np.maximum(known, 1e-300)
    estimate = weighted / known
    candidates = spread * np.geomspace(_LEAST_VARIANCE, 2.0, 24)

    def likelihood(variance: float) -> float:
        total = variance + 1 / known
        return float(-np.sum(np.log(total) + estimate**2 / total))

    variance = max(candidates, key=likelihood)
    out: Array = weighted / (known + 1 / variance)
    return out
