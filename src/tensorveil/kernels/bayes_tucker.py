"""Variational updates of a Tucker model, for any order: the rows of one mode, and the core.

For a row a of mode m the entry's design is h = G_(m) k with k the Kronecker product of the other modes' rows. With
S_i = sum over the row's entries of E[kk'] (the Kronecker product of the other rows' second moments, kept packed: each
is symmetric by itself) and V_i = sum y E[k], the row's precision is S_i contracted with E[GG'], and the core's is
sum_i E[a_i a_i'] x S_i: everything beyond the sums per row is a matrix product.

Legend
    P, D                rank of the mode that is updated; product of the other modes' ranks
    G                   (P, D) mean of the core, unfolded along the mode
    packed, n_packed    for every (d, d') of D x D its place in a packed Kronecker product, and that product's length
    W                   (n_packed, P P) E[GG'] with packed places summed up, so that S @ W are the rows' Gram matrices
    S, V, U             (rows, n_packed), (rows, D), (rows, D): sums over a row's entries of E[kk'], of y k, and of k
    Y                   (rows, 2) sums of y and of E[y^2]
    A, C                (rows, P, P) Gram matrices and covariances of the rows
    f, second, b, b_var posterior means, second moments, biases and their variances
    s2, alpha, center, beta, gamma   as in kernels/bayes_cp.py; gamma is the precision of the core's prior

In `_collect`, index 0 is the mode by which entries are sorted within a row, 1 all further modes together:
    T0, T1, D1          packed length of mode 0; packed and plain lengths of the rest
    tt, kk              one entry's Kronecker products of the rest's second moments and means
    sum_t, sum_y, sum_k their sums (plain, times y for kk) while the index of mode 0 stays the same

Rows are taken in chunks whose S fits `_CHUNK_BYTES`, because S is by far the largest array. Within a chunk 16 pieces,
whatever the number of threads, collect sums into rows of their own; the matrix products in between belong to BLAS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tensorveil.kernels.coupled import RowSolver, RowSums, SolvedRows, store_rows
from tensorveil.kernels.posterior import Posterior, triangle
from tensorveil.kernels.rows import Rows
from tensorveil.kernels.threads import ranges, thread_count, workers

Array = NDArray[Any]

_CHUNK_BYTES = 64 << 20


@dataclass(kw_only=True)
class CorePosterior:
    """Mean (in the shape of the ranks) and covariance (over the flattened core) of the core."""

    mean: Array
    covariance: Array


@dataclass(frozen=True, kw_only=True)
class CoreSums:
    """What the core's update needs: sum E[aa'] x S, sum a V, and the residual's parts that do not involve the core.

    The flattened core is ordered with ``axes`` as its axes.
    """

    axes: tuple[int, ...]
    gram: Array
    target: Array
    square: float


def tucker_bayes_mode(
    rows: Rows,
    posterior: Posterior,
    core: CorePosterior,
    center: Array,
    alpha: Array,
    variance: float,
    bias_precision: float | None,
    threads: int | None = None,
    solve: RowSolver | None = None,
) -> tuple[CoreSums, float]:
    """Update the rows of ``rows.mode`` in place; ``solve`` takes the place of rows with independent priors.

    Returns the sums from which the core can be updated, and the sum of the log determinants of the rows' covariances.
    """
    mode, ranks = rows.mode, posterior.ranks
    others = (rows.sorted_by, *(k for k in rows.others if k != rows.sorted_by))
    P, D = ranks[mode], core.mean.size // ranks[mode]
    packed = _packed_positions([ranks[k] for k in others])
    n_packed = int(np.prod([triangle(ranks[k]) for k in others]))
    axes = (mode, *others)
    G = core.mean.transpose(axes).reshape(P, D)
    W = _core_moments(core, axes, packed, n_packed)
    gram, target, square, logdet = np.zeros((P * P, n_packed)), np.zeros((P, D)), 0.0, 0.0
    # A solver of its own may couple rows, so it sees all of them at once.
    step = max(1, _CHUNK_BYTES // (8 * n_packed)) if solve is None else rows.shape[mode]
    with workers(thread_count(threads)) as run:
        for low in range(0, rows.shape[mode], step):
            high = min(low + step, rows.shape[mode])
            S, V, U, Y = _row_sums(rows, posterior, others, low, high, n_packed, D, run)
            counts = np.diff(rows.pointers[low : high + 1])
            A = (S @ W).reshape(-1, P, P)
            sums = RowSums(gram=A, target=V @ G.T, design=U @ G.T, value=Y[:, 0], count=counts)
            if solve is None:
                part = _solve_rows(sums, center, alpha, variance, bias_precision)
            else:
                part = solve(sums)
            f, second, b, b_var, part_logdet = part
            store_rows(posterior, mode, low, high, f, second, b, b_var)
            gram += second.reshape(-1, P * P).T @ S
            target += f.T @ (V - b[:, None] * U)
            square += float(np.sum(Y[:, 1] - 2 * b * Y[:, 0] + counts * (b * b + b_var)))
            logdet += part_logdet
    full = gram[:, packed].reshape(P, P, D, D).transpose(0, 2, 1, 3).reshape(P * D, P * D)
    return CoreSums(axes=axes, gram=full, target=target.ravel(), square=square), logdet


def tucker_bayes_core(sums: CoreSums, core: CorePosterior, gamma: float, variance: float) -> tuple[float, float]:
    """Update the core in place; return the expected residual sum of squares and the covariance's log determinant."""
    shape = tuple(core.mean.shape[a] for a in sums.axes)
    precision = sums.gram / variance
    precision[np.diag_indices_from(precision)] += gamma
    L = np.linalg.cholesky(precision)
    inverse = np.linalg.inv(L)
    covariance = inverse.T @ inverse
    mean = covariance @ sums.target / variance
    moment = covariance + np.outer(mean, mean)
    residual = sums.square - 2 * float(mean @ sums.target) + float(np.sum(sums.gram * moment))
    back = np.argsort(sums.axes)
    position = np.arange(mean.size).reshape(shape).transpose(back).ravel()
    core.mean[...] = mean[position].reshape(core.mean.shape)
    core.covariance[...] = covariance[np.ix_(position, position)]
    return residual, -2 * float(np.log(np.diag(L)).sum())


def _packed_positions(ranks: Sequence[int]) -> Array:
    """Return, for every (d, d') of a Kronecker product of symmetric matrices, its place in the packed product."""
    positions = np.zeros((1, 1), dtype=np.int64)
    for rank in ranks:
        low, high = np.tril_indices(rank)
        one = np.zeros((rank, rank), dtype=np.int64)
        one[low, high] = one[high, low] = np.arange(len(low))
        joint = positions[:, None, :, None] * len(low) + one[None, :, None, :]
        positions = joint.reshape(positions.shape[0] * rank, -1)
    return positions


def _core_moments(core: CorePosterior, axes: tuple[int, ...], packed: Array, n_packed: int) -> Array:
    """Return E[G G'] as (packed, P * P), so that packed sums times it are the rows' Gram matrices."""
    P, K = core.mean.shape[axes[0]], core.mean.size
    D = K // P
    order = np.arange(K).reshape(core.mean.shape).transpose(axes).ravel()
    flat = core.mean.ravel()
    moment = (core.covariance + np.outer(flat, flat))[np.ix_(order, order)]
    pairs = moment.reshape(P, D, P, D).transpose(1, 3, 0, 2).reshape(D * D, P * P)
    out = np.zeros((n_packed, P * P))
    np.add.at(out, packed.ravel(), pairs)
    return out


def _row_sums(
    rows: Rows,
    posterior: Posterior,
    others: tuple[int, ...],
    low: int,
    high: int,
    n_packed: int,
    D: int,
    run: Any,
) -> tuple[Array, Array, Array, Array]:
    """Collect S, V (sum y k), U (sum k) and Y (sums of y and of E[y^2]) for a range of rows."""
    n = high - low
    S, V, U, Y = np.empty((n, n_packed)), np.empty((n, D)), np.empty((n, D)), np.empty((n, 2))
    picks = np.array([rows.others.index(k) for k in others])
    starts = posterior.starts[np.array(others)]
    ranks = np.array([posterior.ranks[k] for k in others])
    moments = (posterior.mean, posterior.second, posterior.bias, posterior.bias_variance)
    data = (rows.pointers, rows.coords, rows.values, picks, starts, ranks, *moments)
    run([partial(_collect, low + a, low + b, low, *data, S, V, U, Y) for a, b in ranges(n, 16)])
    return S, V, U, Y


def _solve_rows(sums: RowSums, center: Array, alpha: Array, s2: float, beta: float | None) -> SolvedRows:
    """Return means, second moments, biases, their variances, and the covariances' log determinants' sum."""
    A, v, u, y, counts = sums.gram, sums.target, sums.design, sums.value, sums.count
    precision = A / s2
    diagonal = np.arange(len(alpha))
    precision[:, diagonal, diagonal] += alpha
    C = np.linalg.inv(precision)
    v = v + s2 * alpha * center
    logdet = -float(np.linalg.slogdet(precision)[1].sum())
    b, b_var = np.zeros(len(A)), np.zeros(len(A))
    if beta is not None:
        b_precision = counts / s2 + beta
        b_var = 1.0 / b_precision
        cu = np.matmul(C, u[:, :, None])[:, :, 0]
        b = (y - np.sum(cu * v, axis=1) / s2) / s2 / (b_precision - np.sum(cu * u, axis=1) / s2**2)
    f = np.matmul(C, (v - b[:, None] * u)[:, :, None])[:, :, 0] / s2
    return f, C + f[:, :, None] * f[:, None, :], b, b_var, logdet


@njit(nogil=True, cache=True, fastmath=True)
def _collect(
    low: int, high: int, base: int, pointers: Array, coords: Array, values: Array, picks: Array, starts: Array,
    ranks: Array, mean: Array, second: Array, bias: Array, bias_variance: Array, S: Array, V: Array, U: Array, Y: Array,
) -> None:  # fmt: skip
    # Entries of a row are sorted by the first of the other modes: sums over the rest are kept until its index changes,
    # and only then multiplied by its moments, which saves a factor of its rank per entry.
    T0 = ranks[0] * (ranks[0] + 1) // 2
    T1, D1 = S.shape[1] // T0, V.shape[1] // ranks[0]
    tt, kk, spare_t, spare_k = np.empty(T1), np.empty(D1), np.empty(T1), np.empty(D1)
    sum_t, sum_y, sum_k = np.empty(T1), np.empty(D1), np.empty(D1)
    for i in range(low, high):
        S[i - base, :], V[i - base, :], U[i - base, :] = 0.0, 0.0, 0.0
        Y[i - base, 0], Y[i - base, 1] = 0.0, 0.0
        e, last = pointers[i], pointers[i + 1]
        while e < last:
            index = coords[picks[0], e]
            g = starts[0] + index
            sum_t[:], sum_y[:], sum_k[:] = 0.0, 0.0, 0.0
            while e < last and coords[picks[0], e] == index:
                y, spread = values[e] - bias[g], bias_variance[g]
                tt[0], kk[0] = 1.0, 1.0
                n_t, n_k = 1, 1
                for k in range(1, len(ranks)):
                    j = starts[k] + coords[picks[k], e]
                    y -= bias[j]
                    spread += bias_variance[j]
                    n_k = _kron(kk, n_k, mean, j, ranks[k], spare_k)
                    n_t = _kron(tt, n_t, second, j, ranks[k] * (ranks[k] + 1) // 2, spare_t)
                for d in range(D1):
                    sum_y[d] += y * kk[d]
                    sum_k[d] += kk[d]
                for t in range(T1):
                    sum_t[t] += tt[t]
                Y[i - base, 0] += y
                Y[i - base, 1] += y * y + spread
                e += 1
            for a in range(T0):
                weight = second[g, a]
                for t in range(T1):
                    S[i - base, a * T1 + t] += weight * sum_t[t]
            for a in range(ranks[0]):
                weight = mean[g, a]
                for d in range(D1):
                    V[i - base, a * D1 + d] += weight * sum_y[d]
                    U[i - base, a * D1 + d] += weight * sum_k[d]


@njit(nogil=True, cache=True, fastmath=True)
def _kron(product: Array, n: int, table: Array, row: int, width: int, spare: Array) -> int:
    """Replace product[:n] by its Kronecker product with table[row, :width]; return the new length."""
    # The first factor is copied: a product with 1 would cost as much as any other.
    if n == 1 and product[0] == 1.0:
        for b in range(width):
            product[b] = table[row, b]
        return width
    for a in range(n):
        spare[a] = product[a]
    for a in range(n):
        for b in range(width):
            product[a * width + b] = spare[a] * table[row, b]
    return n * width
