"""How tastes are distributed over users: one step of expectation maximisation on bounded second moments.

Tastes are standardised by the prior that is known so far, so that a user's moments have a known size: the mean of z and
E[zz'] - 1 over users say how far the prior was off.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import (
    BASIS,
    BIASES,
    LIMIT,
    OFFSET,
    SPREAD,
    TASTE_COVARIANCE,
    TASTE_MEAN,
    TRAITS,
    USERS,
    State,
    Step,
)
from tensorveil.rounds.grouping import People
from tensorveil.rounds.own_part import lay_out_public
from tensorveil.rounds.soundness import make_definite
from tensorveil.rounds.stage import Setup, Stage, Updates
from tensorveil.rounds.sums import Parts, Rows, sum_bounded

Array = NDArray[Any]

_ERRORS = 2
_CUT = 1.5  # a user's moments are clipped at this many times the square root of the number of tastes
_LEAST = 0.02  # variances shrink at most to this share in one step
_NO_ROWS = Rows(modes=(), sizes=(), scales=np.empty(0))


class Tastes(Stage):
    """Estimate the mean and covariance of users' tastes, and the variance that tastes leave unexplained."""

    statistic = "means and second moments of users' standardised tastes; size of their residuals"
    reads = frozenset({OFFSET, SPREAD, USERS, BIASES, TRAITS, TASTE_MEAN, TASTE_COVARIANCE, BASIS})
    writes = frozenset({SPREAD, TASTE_MEAN, TASTE_COVARIANCE})

    def size(self, setup: Setup, step: Step) -> int:
        """Return the number of means, second moments and errors."""
        return step.tastes + step.tastes * (step.tastes + 1) // 2 + _ERRORS

    def contribute(self, setup: Setup, step: Step, state: State, people: People, threads: int | None) -> Array:
        """Sum every user's mean and second moments of standardised tastes."""
        root = np.linalg.cholesky(state[TASTE_COVARIANCE])
        d, spread = len(root), float(state[SPREAD][0])
        stretch, unit = _stretch(d), np.eye(d)[np.tril_indices(d)]

        public = lay_out_public(setup, state)

        def parts(piece: People) -> Parts:
            from tensorveil.kernels.tastes import taste_moments

            tastes = np.empty((piece.n_users, d))
            moments = np.empty((piece.n_users, len(stretch)))
            errors = np.empty((piece.n_users, _ERRORS))
            taste_moments(
                piece.pointers, piece.columns, piece.values, public, state[TASTE_MEAN], root, spread, tastes, moments,
                errors,
            )  # fmt: skip
            own = np.concatenate([tastes, (moments - unit) * stretch, errors], axis=1)
            return Parts(entries=np.empty((len(piece.values), 1)), own=own)

        return sum_bounded(people, _NO_ROWS, 1, self.size(setup, step), _reach(d), parts, threads)

    def advance(self, setup: Setup, step: Step, state: State, total: Array, mu: float) -> Updates:
        """Move the prior of tastes, and the spread of residuals, to what the noisy moments say."""
        covariance = state[TASTE_COVARIANCE]
        d, users = len(covariance), float(state[USERS][0])
        numbers = total * (_reach(d) / LIMIT)
        noise = _reach(d) / mu / users
        mean, packed, errors = np.split(numbers / users, [d, len(numbers) - _ERRORS])
        moments = np.zeros((d, d))
        moments[np.tril_indices(d)] = packed / _stretch(d)
        moments = moments + np.tril(moments, -1).T
        # What noise alone would show is no reason to move: shrink by the share of the squares that is not noise.
        signal = _measure_signal(np.append(mean, packed), noise)
        values, vectors = np.linalg.eigh(np.eye(d) + signal * moments - np.outer(signal * mean, signal * mean))
        second = (vectors * np.maximum(values, _LEAST)) @ vectors.T
        root = np.linalg.cholesky(covariance)
        spread = float(state[SPREAD][0])
        ratio = float(np.clip(errors[0] / max(errors[1], 2 * noise, 0.05), 0.25, 2.0))
        spread *= 1 + (ratio - 1) * _measure_signal(errors, noise)
        return {
            TASTE_MEAN: state[TASTE_MEAN] + root @ (signal * mean),
            TASTE_COVARIANCE: make_definite(root @ second @ root.T),
            SPREAD: np.array([spread]),
        }


def _stretch(d: int) -> Array:
    """Return the factors that keep norms: off the diagonal an element stands for two of the symmetric matrix."""
    low, high = np.tril_indices(d)
    return np.where(low == high, 1.0, math.sqrt(2.0))


def _reach(d: int) -> float:
    return _CUT * math.sqrt(d) + 1.0


def _measure_signal(numbers: Array, noise: float) -> float:
    """Return the share of the numbers' squares that noise of this deviation does not explain."""
    squares = float(np.mean(numbers**2))
    return max(0.0, 1.0 - noise**2 / max(squares, 1e-300))
