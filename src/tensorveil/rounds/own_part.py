"""What is computed where a user's entries are: bias and tastes, from these entries and the public state.

Nothing here is ever released. Tastes are a user's own coefficients: of a constant (the bias), of the traits of the
entry's rows, and of latent features.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import BIASES, OFFSET, SPREAD, TASTE_COVARIANCE, TASTE_MEAN, TRAITS, State, basis_key
from tensorveil.rounds.grouping import People
from tensorveil.rounds.stage import Setup

if TYPE_CHECKING:
    from tensorveil.kernels.tastes import Public

Array = NDArray[Any]


def lay_out_public(setup: Setup, state: State, ridge: Array | None = None) -> Public:
    """Return the state as compiled functions read it; ``ridge`` stands for the prior of tastes.

    Without it tastes are standardised ones, whose prior is the same for all.
    """
    from tensorveil.kernels.ridge import lay_out_prior
    from tensorveil.kernels.tastes import Public, lay_out_table

    rows, ranks = setup.rows, setup.basis_ranks if has_bases(state) else (0,) * len(setup.rows.sizes)
    traits = state[TRAITS] if TRAITS in state else np.empty((rows.total, 0))
    bases = [(part, state[basis_key(m)]) for m, part in enumerate(rows.slices) if has_bases(state)]
    mean = state[TASTE_MEAN]
    if ridge is None:
        ridge, mean = float(state[SPREAD][0]) * np.eye(len(mean)), np.zeros(len(mean))
    tastes = 1 + traits.shape[1] * len(ranks) + (math.prod(ranks) if has_bases(state) else 0)
    widths = tuple(basis.shape[1] for _, basis in bases)
    found = (len(state[BIASES]), len(traits), widths, mean.shape, ridge.shape)
    if found != (rows.total, rows.total, ranks[: len(bases)], (tastes,), (tastes, tastes)):
        raise ValueError("the state's parts do not fit together")
    return Public(
        offset=float(state[OFFSET][0]),
        table=lay_out_table(state[BIASES], traits, bases),
        starts=rows.offsets,
        traits=traits.shape[1],
        ranks=np.array(ranks, dtype=np.int64),
        tastes=tastes,
        prior=lay_out_prior(ridge, mean),
    )


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


def find_residuals(public: Public, people: People) -> Array:
    """Return what each user's own bias and tastes leave unexplained."""
    from tensorveil.kernels import tastes

    left = np.empty(len(people.values))
    tastes.find_residuals(people.pointers, people.columns, people.values, public, left)
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
