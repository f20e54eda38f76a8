"""Sweeps: one mode's latent basis from noisy sums of residuals times users' tastes, by power iteration.

A user's tastes for the latent features are fitted to all of the user's other entries (so that an entry never explains
itself) and brought to unit length. What they leave of the entry, times tastes and the other modes' rows, is added to
the entry's row. Over sweeps the columns turn to the directions that users' tastes share. Only directions matter here:
how strong each is, and how they combine, follows from the moments of tastes afterwards.
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
from tensorveil.rounds.counts import weigh_users
from tensorveil.rounds.grouping import People
from tensorveil.rounds.own_part import has_bases, lay_out_public, make_ridge, widen_tastes
from tensorveil.rounds.stage import Setup, Stage, Updates
from tensorveil.rounds.sums import Parts, Rows, sum_bounded

Array = NDArray[Any]

CUT = 1.0
_LEAST = 1e-2  # of a direction's strength relative to the strongest: weaker ones are kept at this
_EXPLAINED = 0.1  # what latent features together are assumed to explain of the spread before a round has measured it


class Sweep(Stage):
    """Turn one mode's latent basis towards the directions that users' tastes share."""

    statistic = "weighted sums of users' residuals times their tastes per row"
    reads = frozenset({OFFSET, SPREAD, COUNTS, BIASES, TRAITS, TASTE_MEAN, TASTE_COVARIANCE, BASIS})
    writes = frozenset({TASTE_MEAN, TASTE_COVARIANCE, BASIS})

    def size(self, setup: Setup, step: Step) -> int:
        """Return the number of rows of the mode times the columns of its basis."""
        return setup.rows.sizes[step.mode] * setup.basis_ranks[step.mode]

    def prepare(self, setup: Setup, state: State) -> Updates:
        """Start latent features, unless an earlier round has."""
        return start_bases(setup, state)

    def contribute(self, setup: Setup, step: Step, state: State, people: People, threads: int | None) -> Array:
        """Sum residuals times tastes per row of the mode."""
        mode = step.mode
        # No adaptive scales here: frequent rows are the ones that show the directions.
        rows = Rows(modes=(mode,), sizes=(setup.rows.sizes[mode],), scales=np.ones(setup.rows.sizes[mode]))
        width = setup.basis_ranks[mode]
        public = lay_out_public(setup, state, make_ridge(state))

        def parts(piece: People) -> Parts:
            from tensorveil.kernels.tastes import leave_one_out

            weights = weigh_users(setup, piece)
            found = leave_one_out(piece.pointers, piece.columns, piece.values, weights, public, mode)
            return Parts(entries=found, own=np.empty((piece.n_users, 0)))

        return sum_bounded(people, rows, width, 0, _reach(setup, state), parts, threads)

    def advance(self, setup: Setup, step: Step, state: State, total: Array, mu: float) -> Updates:
        """Return the basis of the mode's rows, shrunk by the known noise, with columns of unit mean square."""
        mode = step.mode
        reach, spread = _reach(setup, state), float(state[SPREAD][0])
        sums = (total * (reach / LIMIT)).reshape(-1, setup.basis_ranks[mode])
        counts = state[COUNTS][setup.rows.slices[mode]]
        noise = (reach / mu) ** 2 + 0.5 * spread * counts
        return {basis_key(mode): orthonormalise(_shrink(sums, counts, noise), counts)}


def start_bases(setup: Setup, state: State) -> dict[str, Array]:
    """Return public random bases of all released modes, and the prior of tastes for the products of their columns.

    The basis of every mode but the largest begins with a constant column, because what users like tends to last.
    Nothing is returned if the state has bases already.
    """
    if has_bases(state):
        return {}
    rng = np.random.default_rng(setup.seed)
    arrays: dict[str, Array] = {}
    largest = int(np.argmax(setup.rows.sizes))
    for m, (size, rank) in enumerate(zip(setup.rows.sizes, setup.basis_ranks, strict=True)):
        rows = rng.standard_normal((size, rank))
        if m != largest:
            rows[:, 0] = 1.0
        arrays[basis_key(m)] = orthonormalise(rows, state[COUNTS][setup.rows.slices[m]])
    features = int(np.prod(setup.basis_ranks))
    variances = np.full(features, _EXPLAINED * float(state[SPREAD][0]) / features)
    return {**arrays, **widen_tastes(state, variances)}


def _reach(setup: Setup, state: State) -> float:
    return CUT * setup.reach * float(np.sqrt(state[SPREAD][0]))


def _shrink(sums: Array, counts: Array, noise: Array) -> Array:
    """Return posterior means of rows a, where sums = counts * a + noise; the sums give the covariance of rows."""
    weights = 1.0 / noise**2
    second = np.einsum("jp,jq,j->pq", sums, sums, weights) - np.eye(sums.shape[1]) * float(np.sum(noise * weights))
    values, vectors = np.linalg.eigh(second / max(float(np.sum(counts**2 * weights)), 1e-300))
    values = np.maximum(values, max(_LEAST * float(values.max()), 1e-12))
    turned = sums @ vectors
    gain = counts[:, None] * values / (counts[:, None] ** 2 * values + noise[:, None])
    out: Array = turned * gain
    return out


def orthonormalise(rows: Array, counts: Array) -> Array:
    """Return the same directions with columns that are orthonormal over entries: rows weighted by their counts."""
    weights = np.sqrt(counts / counts.sum())[:, None]
    q, r = np.linalg.qr(rows * weights)
    if np.min(np.abs(np.diag(r))) <= 1e-12 * max(float(np.max(np.abs(np.diag(r)))), 1e-300):
        q = rows * weights / np.maximum(np.sqrt(np.sum((rows * weights) ** 2, axis=0)), 1e-300)
    out: Array = q / weights
    return out
