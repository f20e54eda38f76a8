"""What is computed where a user's entries are: bias and tastes, from these entries and the public state.

Nothing here is ever released. Tastes are a user's own coefficients: of a constant (the bias), of the traits of the
entry's rows, and of latent features.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import BIASES, OFFSET, SPREAD, TASTE_COVARIANCE, TASTE_MEAN, TRAITS, State, basis_key
from tensorveil.rounds.grouping import People
from tensorveil.rounds.stage import Setup

Array = NDArray[Any]


def subtract_shared(setup: Setup, state: State, people: People) -> Array:
    """Return every value less the offset and the biases of its rows."""
    left = people.values - float(state[OFFSET][0])
    biases = state[BIASES]
    for part, column in zip(setup.rows.slices, people.columns, strict=True):
        left -= biases[part][column]
    return left


def make_design(setup: Setup, state: State, people: People) -> Array:
    """Return what tastes multiply at every entry: 1, the traits of its rows, latent features, as far as known."""
    parts = [np.ones((len(people.values), 1))]
    if TRAITS in state:
        traits = state[TRAITS]
        parts += [traits[part][column] for part, column in zip(setup.rows.slices, people.columns, strict=True)]
    if has_bases(state):
        parts.append(multiply_bases(get_bases(setup, state), people.columns))
    return np.concatenate(parts, axis=1)


def has_bases(state: State) -> bool:
    """Tell whether latent features have been started: all modes' bases are in the state, or none is."""
    return basis_key(0) in state


def get_bases(setup: Setup, state: State) -> tuple[Array, ...]:
    """Return the bases of all released modes."""
    return tuple(state[basis_key(m)] for m in range(len(setup.rows.sizes)))


def count_plain_tastes(setup: Setup, state: State) -> int:
    """Return how many of a user's tastes are not for latent features."""
    return len(state[TASTE_MEAN]) - (math.prod(setup.basis_ranks) if has_bases(state) else 0)


def multiply_bases(bases: tuple[Array, ...], columns: Array) -> Array:
    """Return the products of the bases' rows at every entry, one factor per mode, the last mode's index fastest."""
    from tensorveil.kernels.users import multiply_rows

    out: Array = bases[0][columns[0]]
    for basis, column in zip(bases[1:], columns[1:], strict=True):
        left, out = out, np.empty((len(column), out.shape[1] * basis.shape[1]))
        multiply_rows(left, np.ascontiguousarray(basis), column, out)
    return out


def find_residuals(setup: Setup, state: State, ridge: Array, people: People) -> Array:
    """Return what each user's own bias and tastes leave unexplained; ``ridge`` is `make_ridge` of the state."""
    from tensorveil.kernels.users import ridge_residuals

    wanted, given = subtract_shared(setup, state, people), make_design(setup, state, people)
    left = np.empty(len(wanted))
    ridge_residuals(people.pointers, given, wanted, ridge, state[TASTE_MEAN], left)
    return left


def make_ridge(state: State) -> Array:
    """Return the ridge matrix that the prior of tastes amounts to: computed once, so that all users have the same."""
    out: Array = float(state[SPREAD][0]) * np.linalg.inv(state[TASTE_COVARIANCE])
    return out


def widen_tastes(state: State, variances: Array) -> dict[str, Array]:
    """Return the prior of tastes with further coefficients: independent, with mean zero and these variances."""
    old = state[TASTE_COVARIANCE]
    d, more = len(old), len(variances)
    covariance = np.zeros((d + more, d + more))
    covariance[:d, :d] = old
    covariance[range(d, d + more), range(d, d + more)] = variances
    return {TASTE_MEAN: np.append(state[TASTE_MEAN], np.zeros(more)), TASTE_COVARIANCE: covariance}
