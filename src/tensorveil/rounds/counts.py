"""The first round: how many entries every row has, and how values are spread within and between users."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import LIMIT, State, Step
from tensorveil.rounds.grouping import People
from tensorveil.rounds.sums import Parts, bounded_sum, slice_lengths, sums_by_user

if TYPE_CHECKING:
    from tensorveil.rounds.recipe import Recipe

Array = NDArray[Any]

# A user's numbers that belong to no row: 1, mean, and one of so many half octaves, in which the user's deviation lies.
_OCTAVES = 40
OWN = 2 + _OCTAVES
_OWN_LENGTH = math.sqrt(3.0)
# How much a user's own numbers weigh beside the lengths of its counts.
_OWN_WEIGHT = 0.18
_ADAPT = 0.4  # the power by which rows weigh less that occur more often than the mean
# Before anything is known: variance of values as a share of the squared half width, of users' biases as one of that.
_SPREAD, _BETWEEN = 0.25, 0.2
STATISTIC = "weighted numbers of entries per row; means and deviations of users' values"


def size(recipe: Recipe, step: Step) -> int:
    """Return how many integers the round has."""
    return recipe.rows.total + OWN


def contribute(recipe: Recipe, step: Step, state: State, people: People, threads: int | None) -> Array:
    """Sum every user's numbers of entries per row, weighted, and what it knows of its own values."""

    def parts(piece: People) -> Parts:
        weights = user_weights(recipe, piece)
        return Parts(entries=weights[piece.owners][:, None], own=_own(recipe, piece) * _own_scale(recipe))

    return bounded_sum(people, recipe.rows, 1, OWN, _reach(recipe), parts, threads)


def user_weights(recipe: Recipe, people: People) -> Array:
    """Return how much each user counts: entries of users with many of them weigh less, so that no user outweighs."""
    lengths = slice_lengths(people, recipe.rows)
    return np.minimum(1.0, recipe.reach / np.maximum(lengths, 1e-12))


def adaptive_scales(counts: Array) -> Array:
    """Return the scales of a mode's rows: what occurs often weighs less, which leaves more room for what is rare.

    Noise is the same on every sum, and common rows have more than enough to outweigh it. The error over all entries is
    least where scales fall with a root of the counts; rows whose counts are lost in noise gain nothing by it.
    """
    scales: Array = (1.0 + counts / max(float(np.mean(counts)), 1e-12)) ** -_ADAPT
    return scales


def _reach(recipe: Recipe) -> float:
    """The longest contribution: that of the counts and of the own numbers."""
    return math.hypot(recipe.reach, _own_scale(recipe) * _OWN_LENGTH)


def _own_scale(recipe: Recipe) -> float:
    return _OWN_WEIGHT * recipe.reach


def _own(recipe: Recipe, people: People) -> Array:
    """Return per user: 1, the mean within 1, and a 1 where the deviation lies; users with one value alone have none."""
    scaled = (people.values - recipe.middle) / recipe.half
    n = people.counts
    mean = sums_by_user(people, scaled) / n
    squares = sums_by_user(people, (scaled - mean[people.owners]) ** 2)
    out = np.zeros((len(n), OWN))
    out[:, 0], out[:, 1] = 1.0, mean
    several = np.flatnonzero((n > 1) & (squares > 0))
    # frexp gives the exponent exactly, where a logarithm would be rounded.
    exponent = np.frexp(squares[several] / (n[several] - 1))[1].astype(np.int64) - 1
    octave = np.clip(exponent + _OCTAVES, 0, _OCTAVES - 1)
    out[several, 2 + octave] = 1.0
    return out


def advance(recipe: Recipe, step: Step, state: State, total: Array, mu: float) -> State:
    """Read counts, offset and spread within users off the noisy sums."""
    numbers = total * (_reach(recipe) / LIMIT)
    noise = _reach(recipe) / mu
    scales = recipe.rows.scales
    counts = expected_counts(numbers[:-OWN] / scales, noise / scales, recipe)
    own, error = numbers[-OWN:] / _own_scale(recipe), noise / _own_scale(recipe)
    users = max(own[0], 2 * error, 1.0)  # where noise drowns the number of users, quotients are drawn to zero
    mean = float(np.clip(own[1] / users, -1, 1))
    spread = recipe.half**2 * _typical_variance(own[2:], error)
    return state.after(
        counts=counts,
        users=np.array([users]),
        offset=np.array([recipe.middle + recipe.half * mean]),
        spread=np.array([spread]),
        taste_covariance=np.array([[_BETWEEN * spread]]),
    )


def _typical_variance(found: Array, error: float) -> float:
    """Return the variance within users at the peak of the noisy histogram; a default where noise could be the peak."""
    joined = np.convolve(found, np.ones(3), "same")
    peak = int(np.argmax(joined))
    if joined[peak] < 4 * error * math.sqrt(3):
        return _SPREAD
    near = np.arange(max(peak - 1, 0), min(peak + 2, _OCTAVES))
    weights = np.maximum(found[near], 0.0)
    return float(np.exp2(np.average(near - _OCTAVES + 0.5, weights=weights)))


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
