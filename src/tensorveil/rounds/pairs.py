"""Pairs: where a small mode's latent basis starts, from products of a user's residuals that differ in this mode only.

With three modes or more, power iteration from random directions in every mode finds nothing: the signal it follows is
the product of how well the directions of every mode fit. A user's entries that agree in all other released modes share
everything but this mode's rows, so the sum of their products is, up to noise, the second moment of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import (
    BASIS,
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
    basis_key,
)
from tensorveil.rounds.grouping import People
from tensorveil.rounds.own_part import find_residuals, lay_out_public, make_ridge
from tensorveil.rounds.stage import Setup, Stage, Updates
from tensorveil.rounds.sums import Parts, Rows, sum_bounded
from tensorveil.rounds.sweeps import orthonormalise, start_bases
from tensorveil.tensor.keys import linear_keys

Array = NDArray[Any]

LARGEST_MODE = 256  # the statistic has a number for every pair of rows
_CUT = 1.5


class Pairs(Stage):
    """Find the leading directions of a small mode's rows from pairs of a user's entries."""

    statistic = "sums of products of users' residuals that differ in one mode only"
    reads = frozenset({OFFSET, SPREAD, COUNTS, BIASES, TRAITS, TASTE_MEAN, TASTE_COVARIANCE, BASIS})
    writes = frozenset({TASTE_MEAN, TASTE_COVARIANCE, BASIS})

    def size(self, setup: Setup, step: Step) -> int:
        """Return the number of pairs of rows."""
        n = setup.rows.sizes[step.mode]
        return n * (n + 1) // 2

    def prepare(self, setup: Setup, state: State) -> Updates:
        """Start latent features, unless an earlier round has."""
        return start_bases(setup, state)

    def contribute(self, setup: Setup, step: Step, state: State, people: People, threads: int | None) -> Array:
        """Sum products of residuals over all pairs of a user's entries that agree in all other released modes."""
        mode, size = step.mode, self.size(setup, step)
        rows = Rows(modes=(0,), sizes=(size,), scales=np.ones(size))
        public = lay_out_public(setup, state, make_ridge(state))

        def parts(piece: People) -> Parts:
            return _pair_up(setup, piece, find_residuals(public, piece), mode)

        return sum_bounded(people, rows, 1, 0, _reach(state), parts, threads)

    def advance(self, setup: Setup, step: Step, state: State, total: Array, mu: float) -> Updates:
        """Start the mode's basis from the leading directions of the noisy second moment."""
        mode = step.mode
        n, rank = setup.rows.sizes[mode], setup.basis_ranks[mode]
        moment = np.zeros((n, n))
        moment[np.tril_indices(n)] = total * (_reach(state) / LIMIT)
        moment = moment + np.tril(moment, -1).T
        # The diagonal holds no pairs of different rows; what a low-rank matrix would have there is put in step by step.
        for _ in range(20):
            values, vectors = np.linalg.eigh(moment)
            top = vectors[:, -rank:] * np.maximum(values[-rank:], 0.0)
            moment[np.diag_indices(n)] = np.einsum("ik,ik->i", top, vectors[:, -rank:])
        counts = state[COUNTS][setup.rows.slices[mode]]
        return {basis_key(mode): orthonormalise(vectors[:, : -rank - 1 : -1], counts)}


def _pair_up(setup: Setup, piece: People, left: Array, mode: int) -> Parts:
    """Return the products of residuals of all pairs, and to which pair of rows each belongs."""
    from tensorveil.kernels.users import count_pairs, fill_pairs

    others = [m for m in range(len(piece.columns)) if m != mode]
    (keys, *more) = linear_keys(piece.columns[others], tuple(setup.rows.sizes[m] for m in others))
    if more:  # one number per combination, where the product of the sizes is too large for one
        keys = np.unique(np.stack([keys, *more]), axis=1, return_inverse=True)[1].reshape(-1)
    rows = piece.columns[mode].astype(np.int64)
    if mode != len(piece.columns) - 1 or more:  # otherwise entries are in this order already
        order = np.lexsort((rows, keys, piece.owners))
        keys, rows, left = keys[order], rows[order], left[order]
    found = np.empty(piece.n_users, dtype=np.int64)
    count_pairs(piece.pointers, keys, found)
    total = int(found.sum())
    places, products = np.empty((1, total), dtype=np.int64), np.empty((total, 1))
    fill_pairs(piece.pointers, keys, rows, left, places, products)
    return Parts(
        entries=products,
        own=np.empty((piece.n_users, 0)),
        pointers=np.append(0, np.cumsum(found)),
        columns=places,
    )


def _reach(state: State) -> float:
    return _CUT * float(state[SPREAD][0])
