"""The first round: how many entries every row has, and how values vary within and between users."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import COUNTS, LIMIT, OFFSET, SPREAD, TASTE_COVARIANCE, USERS, State, Step
from tensorveil.rounds.grouping import People
from tensorveil.rounds.soundness import LEAST_COUNT
from tensorveil.rounds.stage import Setup, Stage, Updates
from tensorveil.rounds.sums import Parts, Rows, measure_slices, sum_bounded, sum_by_user

Array = NDArray[Any]

# A user's numbers that belong to no row: 1, the mean, and a 1 in one of these octaves, the one in which the user's
# variance lies.
_OCTAVES = 40
_OWN = 2 + _OCTAVES
_OWN_LENGTH = math.sqrt(3.0)
_OWN_WEIGHT = 0.18  # how much a user's own numbers weigh beside the norm of the user's counts
_ADAPT = 0.4  # the power with which the scale of a row falls as the row becomes more frequent
# Before anything is known: the variance of values as a share of the squared half width, and of users' biases as a share
# of that variance.
_SPREAD, _BETWEEN = 0.25, 0.2


class Counts(Stage):
    """Count the entries of every row; estimate the offset, the number of users and the spread of their values."""

    statistic = "weighted numbers of entries per row; means and deviations of users' values"
    reads = frozenset[str]()
    writes = frozenset({COUNTS, USERS, OFFSET, SPREAD, TASTE_COVARIANCE})

    def size(self, setup: Setup, step: Step) -> int:
        """Return the number of rows, plus a user's own numbers."""
        return setup.rows.total + _OWN

    def contribute(self, setup: Setup, step: Step, state: State, people: People, threads: int | None) -> Array:
        """Sum every user's weighted counts per row, and a summary of the user's values."""

        def parts(piece: People) -> Parts:
            weights = weigh_users(setup, piece)
            return Parts(entries=weights[piece.owners][:, None], own=_summarise(setup, piece) * _own_scale(setup))

        return sum_bounded(people, setup.rows, 1, _OWN, extend_reach(setup.reach), parts, threads)

    def advance(self, setup: Setup, step: Step, state: State, total: Array, mu: float) -> Updates:
        """Estimate counts, offset and the spread within users from the noisy sums."""
        numbers = total * (extend_reach(setup.reach) / LIMIT)
        noise = extend_reach(setup.reach) / mu
        scales = setup.rows.scales
        counts = estimate_counts(numbers[:-_OWN] / scales, noise / scales, setup.rows)
        own, error = numbers[-_OWN:] / _own_scale(setup), noise / _own_scale(setup)
        users = max(own[0], 2 * error, 1.0)  # where noise drowns the number of users, quotients shrink towards zero
        mean = float(np.clip(own[1] / users, -1, 1))
        spread = setup.half**2 * _estimate_variance(own[2:], error)
        return {
            COUNTS: counts,
            USERS: np.array([users]),
            OFFSET: np.array([setup.middle + setup.half * mean]),
            SPREAD: np.array([spread]),
            TASTE_COVARIANCE: np.array([[_BETWEEN * spread]]),
        }


def weigh_users(setup: Setup, people: People) -> Array:
    """Return a weight per user: the entries of users who have many weigh less, so that no user outweighs the others."""
    lengths = measure_slices(people, setup.rows)
    return np.minimum(1.0, setup.reach / np.maximum(lengths, 1e-12))


def adapt_scales(counts: Array) -> Array:
    """Return scales for the rows of a mode: frequent rows are scaled down, which leaves more room for rare ones.

    Noise is the same on every sum, and frequent rows have more than enough signal to outweigh it. The error over all
    entries is least where scales fall with a root of the counts; rows whose counts are lost in noise gain nothing.
    """
    scales: Array = (1.0 + counts / max(float(np.mean(counts)), 1e-12)) ** -_ADAPT
    return scales


def extend_reach(reach: float) -> float:
    """Return the norm of the largest contribution: that of the counts and that of the own numbers together."""
    return math.hypot(reach, _OWN_WEIGHT * reach * _OWN_LENGTH)


def _own_scale(setup: Setup) -> float:
    return _OWN_WEIGHT * setup.reach


def _summarise(setup: Setup, people: People) -> Array:
    """Return per user: 1, the mean scaled to [-1, 1], and a 1 in the octave of the variance if there are two values."""
    scaled = (people.values - setup.middle) / setup.half
    n = people.counts
    mean = sum_by_user(people, scaled) / n
    squares = sum_by_user(people, (scaled - mean[people.owners]) ** 2)
    out = np.zeros((len(n), _OWN))
    out[:, 0], out[:, 1] = 1.0, mean
    several = np.flatnonzero((n > 1) & (squares > 0))
    # frexp gives the exponent exactly, where a logarithm would be rounded.
    exponent = np.frexp(squares[several] / (n[several] - 1))[1].astype(np.int64) - 1
    octave = np.clip(exponent + _OCTAVES, 0, _OCTAVES - 1)
    out[several, 2 + octave] = 1.0
    return out


def _estimate_variance(found: Array, error: float) -> float:
    """Return the variance within users at the peak of the noisy histogram; a default where noise could be the peak."""
    joined = np.convolve(found, np.ones(3), "same")
    peak = int(np.argmax(joined))
    if joined[peak] < 4 * error * math.sqrt(3):
        return _SPREAD
    near = np.arange(max(peak - 1, 0), min(peak + 2, _OCTAVES))
    weights = np.maximum(found[near], 0.0)
    return float(np.exp2(np.average(near - _OCTAVES + 0.5, weights=weights)))


def estimate_counts(noisy: Array, noise: Array, rows: Rows) -> Array:
    """Return the expected counts, given noisy ones, that none is negative, and the average count of their mode.

    The counts of a mode are taken to be exponentially distributed; given Gaussian noise they then follow a Gaussian
    that is truncated at zero.
    """
    from scipy.special import erfcx

    out = np.empty_like(noisy)
    for part in rows.slices:
        seen, deviation = noisy[part], noise[part]
        typical = max(float(seen.mean()), 2 * float(deviation[0]) / math.sqrt(len(seen)), 1e-3)
        center = (seen - deviation**2 / typical) / deviation
        # The mean of a standard Gaussian that is known to exceed -center, without overflow.
        hazard = math.sqrt(2 / math.pi) / erfcx(np.clip(-center, -25.0, None) / math.sqrt(2))
        out[part] = np.maximum(deviation * (center + hazard), LEAST_COUNT)
    return out
