"""The first round: how many entries every row has, and how values are spread within and between users."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.users.contract import LIMIT, Round, State
from tensorveil.users.grouping import People
from tensorveil.users.sums import Parts, bounded_sum, slice_lengths, sums_by_user

if TYPE_CHECKING:
    from tensorveil.users.recipe import Recipe

Array = NDArray[Any]

OWN = 5  # numbers of a user that belong to no row: 1, mean, squared mean, spread, and what spread expects of one
# How much a user's own numbers weigh beside the lengths of its counts.
_OWN_WEIGHT = 0.15
# Bounds of what is read off noisy sums, as shares of the squared half width of the bounds.
_LEAST_SPREAD, _LEAST_BETWEEN = 1e-4, 0.02
STATISTIC = "weighted numbers of entries per row; means and squares of users' values"


def size(recipe: Recipe) -> int:
    """Return how many integers the round has."""
    return recipe.rows.total + OWN


def contribute(recipe: Recipe, state: State, people: People, threads: int | None) -> Array:
    """Sum every user's numbers of entries per row, weighted, and what it knows of its own values."""

    def parts(piece: People) -> Parts:
        weights = user_weights(recipe, piece)
        return Parts(entries=weights[piece.owners][:, None], own=_own(recipe, piece) * _own_scale(recipe))

    return bounded_sum(people, recipe.rows, 1, OWN, _reach(recipe), parts, threads)


def user_weights(recipe: Recipe, people: People) -> Array:
    """Return how much each user counts: entries of users with many of them weigh less, so that no user outweighs."""
    lengths = slice_lengths(people, recipe.rows)
    return np.minimum(1.0, recipe.reach / np.maximum(lengths, 1e-12))


def _reach(recipe: Recipe) -> float:
    """The longest contribution: that of the counts and of the own numbers, none of which exceeds 1."""
    return math.hypot(recipe.reach, _own_scale(recipe) * math.sqrt(OWN))


def _own_scale(recipe: Recipe) -> float:
    return _OWN_WEIGHT * recipe.reach


def _own(recipe: Recipe, people: People) -> Array:
    """Return per user: 1, mean, squared mean, mean squared deviation and its expectation at spread 1, all within 1."""
    scaled = (people.values - recipe.middle) / recipe.half
    n = people.counts
    mean = sums_by_user(people, scaled) / n
    spread = sums_by_user(people, (scaled - mean[people.owners]) ** 2) / n
    return np.stack([np.ones(len(n)), mean, mean**2, spread, 1.0 - 1.0 / n], axis=1)


def advance(recipe: Recipe, state: State, total: Array, this: Round) -> State:
    """Read counts, offset, spread within users and spread between them off the noisy sums."""
    numbers = total * (_reach(recipe) / LIMIT)
    noise = _reach(recipe) / this.mu
    scales = recipe.row_scales
    counts = expected_counts(numbers[:-OWN] / scales, noise / scales, recipe)
    own, error = numbers[-OWN:] / _own_scale(recipe), noise / _own_scale(recipe)
    users = max(own[0], 2 * error, 1.0)  # where noise drowns the number of users, quotients are drawn to zero
    mean = float(np.clip(own[1] / users, -1, 1))
    spread = float(np.clip(own[3] / max(own[4], 2 * error, 1.0), _LEAST_SPREAD, 1.0))
    once = float(np.clip(1 - own[4] / users, 0, 1))  # the mean of 1 / n over users
    between = float(np.clip(own[2] / users - mean**2 - spread * once, _LEAST_BETWEEN * spread, 1.0))
    half = recipe.half
    return state.after(
        counts=counts,
        users=np.array([users]),
        offset=np.array([recipe.middle + half * mean]),
        spread=np.array([half**2 * spread]),
        taste_mean=np.zeros(1),
        taste_covariance=np.array([[half**2 * between]]),
    )


def expected_counts(noisy: Array, noise: Array, recipe: Recipe) -> Array:
    """Return what counts are expected to be, given that none is negative and what they are on average in their mode.

    Counts of a mode are taken to be exponentially distributed; given Gaussian noise they then follow a Gaussian that is
    cut off at zero.
    """
    from scipy.special import erfcx

    out = np.empty_like(noisy)
    for part in recipe.row_slices:
        seen, deviation = noisy[part], noise[part]
        typical = max(float(seen.mean()), 2 * float(deviation[0]) / math.sqrt(len(seen)), 1e-3)
        center = (seen - deviation**2 / typical) / deviation
        # The mean of a standard Gaussian that is known to exceed -center, without overflow.
        hazard = math.sqrt(2 / math.pi) / erfcx(np.clip(-center, -25.0, None) / math.sqrt(2))
        out[part] = np.maximum(deviation * (center + hazard), 1e-6)
    return out
