"""Sweeps: one mode's latent basis from noisy sums of residuals times users' tastes, by power iteration.

A user's tastes for the latent features are found from all its other entries (so that an entry never explains itself)
and brought to unit length; what they leave of the entry, times tastes and the other modes' rows, is added to the
entry's row. Over sweeps the columns turn to the directions that users' tastes share. Only directions matter: how strong
each is, and how they hang together, is read off the moments of tastes afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import LIMIT, State, Step
from tensorveil.rounds.counts import user_weights
from tensorveil.rounds.grouping import People
from tensorveil.rounds.own_part import bases, design, n_plain, precision, target
from tensorveil.rounds.sums import Parts, Rows, bounded_sum

if TYPE_CHECKING:
    from tensorveil.rounds.recipe import Recipe

Array = NDArray[Any]

STATISTIC = "weighted sums of users' residuals times their tastes per row"
_CUT = 1.0
_LEAST = 1e-2  # of a direction's strength beside the strongest: weaker ones are kept at this


def size(recipe: Recipe, step: Step) -> int:
    """Return how many integers the round has: a basis row per row."""
    return recipe.rows.sizes[step.mode] * recipe.basis_ranks[step.mode]


def contribute(recipe: Recipe, step: Step, state: State, people: People, threads: int | None) -> Array:
    """Sum residuals times tastes per row of the mode."""
    mode = step.mode
    # No adaptive scales here: directions are found by rows that occur often.
    rows = Rows(modes=(mode,), sizes=(recipe.rows.sizes[mode],), scales=np.ones(recipe.rows.sizes[mode]))
    width = recipe.basis_ranks[mode]

    ridge = precision(state)

    def parts(piece: People) -> Parts:
        left, tastes = _without_own_entry(recipe, state, ridge, piece)
        weighted = (user_weights(recipe, piece)[piece.owners] * left)[:, None] * _along(
            recipe, state, piece, tastes, mode
        )
        return Parts(entries=weighted, own=np.empty((piece.n_users, 0)))

    return bounded_sum(people, rows, width, 0, _reach(recipe, state), parts, threads)


def _without_own_entry(recipe: Recipe, state: State, ridge: Array, piece: People) -> tuple[Array, Array]:
    """Return what plain tastes leave of every entry, and latent tastes of unit length; both found without it."""
    from tensorveil.kernels.users import leave_one_out, to_unit_length

    given, plain = design(recipe, state, piece), n_plain(state)
    left, tastes = np.empty(len(given)), np.empty((len(given), given.shape[1] - plain))
    wanted = target(recipe, state, piece)
    leave_one_out(piece.pointers, given, wanted, ridge, state["taste_mean"], plain, tastes, left)
    to_unit_length(tastes)
    return left, tastes


def _along(recipe: Recipe, state: State, piece: People, tastes: Array, mode: int) -> Array:
    """Contract tastes with the rows of all modes but one: what multiplies that mode's row in the prediction."""
    known = bases(recipe, state)
    block = tastes.reshape(len(tastes), *(basis.shape[1] for basis in known))
    for m in reversed(range(len(known))):
        if m != mode:
            rows, block = known[m][piece.columns[m]], np.moveaxis(block, m + 1, 1)
            shape = (-1,) + (1,) * (block.ndim - 2)
            # Element by element: see the note in kernels/users.py.
            block = sum(block[:, k] * rows[:, k].reshape(shape) for k in range(rows.shape[1]))
    return block


def _reach(recipe: Recipe, state: State) -> float:
    return _CUT * recipe.reach * float(np.sqrt(state["spread"][0]))


def advance(recipe: Recipe, step: Step, state: State, total: Array, mu: float) -> State:
    """Return the basis of the mode's rows, shrunk by the noise that is known, columns of unit mean square."""
    mode = step.mode
    reach, spread = _reach(recipe, state), float(state["spread"][0])
    sums = (total * (reach / LIMIT)).reshape(-1, recipe.basis_ranks[mode])
    counts = state["counts"][recipe.row_slices[mode]]
    noise = (reach / mu) ** 2 + 0.5 * spread * counts
    return state.after(**{f"basis_{mode}": orthonormal(_shrunk(sums, counts, noise), counts)})


def _shrunk(sums: Array, counts: Array, noise: Array) -> Array:
    """Return posterior means of rows a, where sums = counts * a + noise; the sums tell the covariance of rows."""
    weights = 1.0 / noise**2
    second = np.einsum("jp,jq,j->pq", sums, sums, weights) - np.eye(sums.shape[1]) * float(np.sum(noise * weights))
    values, vectors = np.linalg.eigh(second / max(float(np.sum(counts**2 * weights)), 1e-300))
    values = np.maximum(values, max(_LEAST * float(values.max()), 1e-12))
    turned = sums @ vectors
    gain = counts[:, None] * values / (counts[:, None] ** 2 * values + noise[:, None])
    out: Array = turned * gain
    return out


def orthonormal(rows: Array, counts: Array) -> Array:
    """Return the same directions with columns that are orthonormal over entries: rows weighed by their counts."""
    weights = np.sqrt(counts / counts.sum())[:, None]
    q, r = np.linalg.qr(rows * weights)
    if np.min(np.abs(np.diag(r))) <= 1e-12 * max(float(np.max(np.abs(np.diag(r)))), 1e-300):
        q = rows * weights / np.maximum(np.sqrt(np.sum((rows * weights) ** 2, axis=0)), 1e-300)
    out: Array = q / weights
    return out
