"""Rows of one CP mode whose priors are not one Gaussian for all: their sums are collected, and a solver takes them all.

Legend (what is not here is as in kernels/bayes_cp.py)
    S, V, U, Y      (rows, T), (rows, R), (rows, R), (rows, 5): sums over a row's entries of E[hh'] (packed), of y h and
                    of h; and of y, of E[y^2], of weights, of E[r^2] and of log p
    f, second       (rows, R), (rows, R, R): the rows' new means and second moments
    b, b_var        biases and their variances
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tensorveil.kernels.bayes_cp import PIECES, Precisions, Sums, collect_row, list_law
from tensorveil.kernels.posterior import Posterior, triangle, unpack_triangle
from tensorveil.kernels.rows import Rows
from tensorveil.kernels.threads import cut_evenly, thread_count, workers

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class RowSums:
    """Per row: the Gram matrix of its designs, their sum times the values, their sum, the values' sum, the entries."""

    gram: Array
    target: Array
    design: Array
    value: Array
    count: Array


# Means, second moments, biases, their variances, and the log determinant of the rows' joint covariance.
SolvedRows = tuple[Array, Array, Array, Array, float]
RowSolver = Callable[[RowSums], SolvedRows]


def cp_coupled_mode(
    rows: Rows,
    posterior: Posterior,
    solve: RowSolver,
    variance: float,
    threads: int | None = None,
    precisions: Precisions | None = None,
) -> tuple[Sums, float]:
    """Update all rows of ``rows.mode`` together, in place.

    Returns sums over the entries, and the log determinant of the rows' joint covariance.
    """
    size, rank = rows.shape[rows.mode], posterior.ranks[rows.mode]
    S, V, U, Y = np.empty((size, triangle(rank))), np.empty((size, rank)), np.empty((size, rank)), np.empty((size, 5))
    starts = posterior.starts[np.array(rows.others)]
    moments = (posterior.mean, posterior.second, posterior.bias, posterior.bias_variance)
    data = (rows.pointers, rows.coords, rows.values, starts, *moments, int(posterior.starts[rows.mode]))
    law = (float(variance), *list_law(precisions))
    with workers(thread_count(threads)) as run:
        run([partial(_collect_rows, a, b, *data, *law, S, V, U, Y) for a, b in cut_evenly(rows.pointers, PIECES)])
    sums = RowSums(gram=unpack_triangle(S, rank), target=V, design=U, value=Y[:, 0], count=Y[:, 2])
    f, second, b, b_var, logdet = solve(sums)
    store_rows(posterior, rows.mode, 0, size, f, second, b, b_var)
    residual = Y[:, 1] - 2 * b * sums.value + sums.count * (b * b + b_var)
    residual += np.einsum("irs,irs->i", sums.gram, second) - 2 * np.einsum("ir,ir->i", f, V - b[:, None] * U)
    weights, before, evidence = (float(total) for total in Y[:, 2:].sum(axis=0))
    return Sums(after=float(residual.sum()), before=before, weights=weights, evidence=evidence), logdet


def cp_point_sums(
    rows: Rows, factors: tuple[Array, ...], biases: tuple[Array, ...], threads: int | None = None
) -> tuple[RowSums, float]:
    """Return the sums of all rows where the other modes are known exactly, and the sum of squared targets."""
    size, rank = rows.shape[rows.mode], factors[0].shape[1]
    S, V, U, Y = (np.empty(s) for s in ((size, triangle(rank)), (size, rank), (size, rank), (size, 2)))
    others = [factors[m] for m in rows.others]
    starts = np.concatenate([[0], np.cumsum([len(factor) for factor in others])[:-1]]).astype(np.int64)
    mean = np.concatenate(others).astype(np.float64)
    bias = np.concatenate([biases[m] for m in rows.others]).astype(np.float64) if biases else np.zeros(len(mean))
    data = (rows.pointers, rows.coords, rows.values, starts, mean, bias)
    with workers(thread_count(threads)) as run:
        run([partial(_collect_points, a, b, *data, S, V, U, Y) for a, b in cut_evenly(rows.pointers, PIECES)])
    count = np.diff(rows.pointers).astype(float)
    sums = RowSums(gram=unpack_triangle(S, rank), target=V, design=U, value=Y[:, 0], count=count)
    return sums, float(Y[:, 1].sum())


def store_rows(
    posterior: Posterior, mode: int, low: int, high: int, f: Array, second: Array, b: Array, b_var: Array
) -> None:
    """Put the new moments of rows ``low`` to ``high`` of a mode into the posterior."""
    start, rank = int(posterior.starts[mode]), f.shape[1]
    rows = slice(start + low, start + high)
    p, q = np.tril_indices(rank)
    posterior.mean[rows, :rank] = f
    posterior.second[rows, : len(p)] = second[:, p, q]
    posterior.bias[rows], posterior.bias_variance[rows] = b, b_var


@njit(nogil=True, cache=True)
def _collect_rows(
    low: int, high: int, pointers: Array, coords: Array, values: Array, starts: Array, mean: Array, second: Array,
    bias: Array, bias_variance: Array, own: int, s2: float, table: Array, per_step: float, logs: Array,
    S: Array, V: Array, U: Array, Y: Array,
) -> None:  # fmt: skip
    R, T = mean.shape[1], second.shape[1]
    h, hh, twice = np.empty(R), np.empty(T), np.empty(T)
    for i in range(low, high):
        Y[i, 0], Y[i, 1], Y[i, 2], Y[i, 3], Y[i, 4] = collect_row(
            pointers[i], pointers[i + 1], coords, values, starts, mean, second, bias, bias_variance, S[i], V[i], U[i],
            h, hh, twice, own + i, s2, table, per_step, logs,
        )  # fmt: skip


@njit(nogil=True, cache=True, fastmath=True)
def _collect_points(
    low: int, high: int, pointers: Array, coords: Array, values: Array, starts: Array, mean: Array, bias: Array,
    S: Array, V: Array, U: Array, Y: Array,
) -> None:  # fmt: skip
    R = mean.shape[1]
    h = np.empty(R)
    for i in range(low, high):
        S[i, :], V[i, :], U[i, :], Y[i, :] = 0.0, 0.0, 0.0, 0.0
        for e in range(pointers[i], pointers[i + 1]):
            y = np.float64(values[e])
            h[:] = 1.0
            for k in range(coords.shape[0]):
                j = starts[k] + coords[k, e]
                y -= bias[j]
                for r in range(R):
                    h[r] *= mean[j, r]
            t = 0
            for p in range(R):
                V[i, p] += y * h[p]
                U[i, p] += h[p]
                for q in range(p + 1):
                    S[i, t] += h[p] * h[q]
                    t += 1
            Y[i, 0] += y
            Y[i, 1] += y * y
