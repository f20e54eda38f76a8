"""Pairs: where a small mode's latent basis starts, from products of a user's residuals that differ in this mode only.

With three modes or more, power iteration from random directions in every mode finds nothing: what it looks for is the
product of how well each mode's directions fit. A user's entries that agree in all other released modes share everything
but this mode's rows, so the sum of their products is, but for noise, the second moment of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import LIMIT, State, Step
from tensorveil.rounds.grouping import People
from tensorveil.rounds.own_part import precision, residuals
from tensorveil.rounds.sums import Parts, Rows, bounded_sum
from tensorveil.rounds.sweeps import orthonormal
from tensorveil.tensor.keys import linear_keys

if TYPE_CHECKING:
    from tensorveil.rounds.recipe import Recipe

Array = NDArray[Any]

STATISTIC = "sums of products of users' residuals that differ in one mode only"
LARGEST_MODE = 256  # the statistic has a number for every pair of rows
_CUT = 1.5


def size(recipe: Recipe, step: Step) -> int:
    """Return how many integers the round has: one per pair of rows."""
    n = recipe.rows.sizes[step.mode]
    return n * (n + 1) // 2


def contribute(recipe: Recipe, step: Step, state: State, people: People, threads: int | None) -> Array:
    """Sum products of residuals over all pairs of a user's entries that agree in all other released modes."""
    mode = step.mode
    rows = Rows(modes=(0,), sizes=(size(recipe, step),), scales=np.ones(size(recipe, step)))

    ridge = precision(state)

    def parts(piece: People) -> Parts:
        return _paired(recipe, piece, residuals(recipe, state, ridge, piece), mode)

    return bounded_sum(people, rows, 1, 0, _reach(state), parts, threads)


def _paired(recipe: Recipe, piece: People, left: Array, mode: int) -> Parts:
    from tensorveil.kernels.users import count_pairs, fill_pairs

    others = [m for m in range(len(piece.columns)) if m != mode]
    (keys, *more) = linear_keys(piece.columns[others], tuple(recipe.rows.sizes[m] for m in others))
    if more:  # one number per combination, where the product of the sizes is too large for one
        keys = np.unique(np.stack([keys, *more]), axis=1, return_inverse=True)[1].reshape(-1)
    rows = piece.columns[mode].astype(np.int64)
    if mode != len(piece.columns) - 1 or more:  # else entries stand in this order already
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
    return _CUT * float(state["spread"][0])


def advance(recipe: Recipe, step: Step, state: State, total: Array, mu: float) -> State:
    """Start the mode's basis from the leading directions of the noisy second moment."""
    mode = step.mode
    n, rank = recipe.rows.sizes[mode], recipe.basis_ranks[mode]
    moment = np.zeros((n, n))
    moment[np.tril_indices(n)] = total * (_reach(state) / LIMIT)
    moment = moment + np.tril(moment, -1).T
    # The diagonal holds no pairs of different rows; what a low-rank matrix would have there is put in step by step.
    for _ in range(20):
        values, vectors = np.linalg.eigh(moment)
        top = vectors[:, -rank:] * np.maximum(values[-rank:], 0.0)
        moment[np.diag_indices(n)] = np.einsum("ik,ik->i", top, vectors[:, -rank:])
    counts = state["counts"][recipe.row_slices[mode]]
    return state.after(**{f"basis_{mode}": orthonormal(vectors[:, : -rank - 1 : -1], counts)})
