"""How tastes are spread over users: one step of expectation maximisation on bounded second moments.

Tastes are standardised by the prior that is known so far, so that a user's moments are of a known size: the mean of z
and E[zz'] - 1 over users say how far the prior was off.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import LIMIT, State, Step
from tensorveil.rounds.grouping import People
from tensorveil.rounds.own_part import design, target
from tensorveil.rounds.sums import Parts, Rows, bounded_sum

if TYPE_CHECKING:
    from tensorveil.rounds.recipe import Recipe

Array = NDArray[Any]

STATISTIC = "means and second moments of users' standardised tastes; size of their residuals"
_ERRORS = 2
_CUT = 1.5  # a user's moments are cut at this many times the square root of their number of tastes
_LEAST = 0.02  # variances shrink at most to this share in one step
_NOBODY = Rows(modes=(), sizes=(), scales=np.empty(0))


def size(recipe: Recipe, step: Step) -> int:
    """Return how many integers the round has: means, second moments, errors."""
    return step.tastes + step.tastes * (step.tastes + 1) // 2 + _ERRORS


def contribute(recipe: Recipe, step: Step, state: State, people: People, threads: int | None) -> Array:
    """Sum every user's mean and second moments of standardised tastes."""
    root = np.linalg.cholesky(state["taste_covariance"])
    d, spread = len(root), float(state["spread"][0])
    stretch, unit = _stretch(d), np.eye(d)[np.tril_indices(d)]

    def parts(piece: People) -> Parts:
        from tensorveil.kernels.users import standardise, taste_moments

        given, wanted = design(recipe, state, piece), target(recipe, state, piece)
        standard = np.empty_like(given)
        standardise(given, root, state["taste_mean"], wanted, standard)
        tastes = np.empty((piece.n_users, d))
        moments = np.empty((piece.n_users, len(stretch)))
        errors = np.empty((piece.n_users, _ERRORS))
        taste_moments(piece.pointers, standard, wanted, spread, tastes, moments, errors)
        own = np.concatenate([tastes, (moments - unit) * stretch, errors], axis=1)
        return Parts(entries=np.empty((len(wanted), 1)), own=own)

    return bounded_sum(people, _NOBODY, 1, size(recipe, step), _reach(d), parts, threads)


def _stretch(d: int) -> Array:
    """Off the diagonal an element stands for two of the matrix; its length is that of both."""
    low, high = np.tril_indices(d)
    return np.where(low == high, 1.0, math.sqrt(2.0))


def _reach(d: int) -> float:
    return _CUT * math.sqrt(d) + 1.0


def advance(recipe: Recipe, step: Step, state: State, total: Array, mu: float) -> State:
    """Move the prior of tastes, and the spread of residuals, to what the noisy moments say."""
    covariance = state["taste_covariance"]
    d, users = len(covariance), float(state["users"][0])
    numbers = total * (_reach(d) / LIMIT)
    noise = _reach(d) / mu / users
    mean, packed, errors = np.split(numbers / users, [d, len(numbers) - _ERRORS])
    moments = np.zeros((d, d))
    moments[np.tril_indices(d)] = packed / _stretch(d)
    moments = moments + np.tril(moments, -1).T
    # What noise alone would do is no reason to move: shrink by the share of the squares that is not noise.
    kept = _kept(np.append(mean, packed), noise)
    values, vectors = np.linalg.eigh(np.eye(d) + kept * moments - np.outer(kept * mean, kept * mean))
    second = (vectors * np.maximum(values, _LEAST)) @ vectors.T
    root = np.linalg.cholesky(covariance)
    spread = float(state["spread"][0])
    ratio = float(np.clip(errors[0] / max(errors[1], 2 * noise, 0.05), 0.25, 2.0))
    spread *= 1 + (ratio - 1) * _kept(errors, noise)
    return state.after(
        taste_mean=state["taste_mean"] + root @ (kept * mean),
        taste_covariance=root @ second @ root.T,
        spread=np.array([spread]),
    )


def _kept(numbers: Array, noise: float) -> float:
    """Return the share of the numbers' squares that noise of this deviation does not explain."""
    squares = float(np.mean(numbers**2))
    return max(0.0, 1.0 - noise**2 / max(squares, 1e-300))
