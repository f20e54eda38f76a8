"""Rows of one mode whose prior couples neighbours: the exact Gaussian posterior, linear in the number of rows.

The joint precision of all rows is block tridiagonal: a matrix per row, and between neighbouring rows a number per
component. Elimination runs forwards, marginal covariances and means follow backwards (the block form of Rauch, Tung and
Striebel's smoother, 1965). Where the last row is coupled to the first as well, it is put last as a border: the chain is
solved without it, and for its influence, and corrected.

Legend
    T, R            rows; rank
    A               (T, R, R) diagonal blocks of the precision, the prior's part included
    b               (R,) what couples neighbours, per component: the blocks beside the diagonal are diag(b)
    w               (T, R) right-hand side: the mean is the inverse of the precision times w
    D               (T, R, R) inverses of the blocks that are left when all rows before have been eliminated
    h               (T, R) right-hand side after elimination
    K               -D diag(b): the regression of a row on the next one, given all before
    G               (T, R, R) regression of every row on the border, with the sign turned
    C, m            (T, R, R) and (T, R) covariances and means of the rows
    cross           (R,) sum over neighbours of the covariances of the same component
    S               precision of the border when the chain has been eliminated
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


def solve_chain(A: Array, w: Array, b: Array, *, cycle: bool) -> tuple[Array, Array, Array, float]:
    """Return means, covariances, summed covariances of neighbours, and the log determinant of the joint covariance.

    A ``cycle`` needs three rows at least.
    """
    if not cycle:
        m, C, cross, _, logdet = _solve(A, w, b, np.zeros((0, 0, 0)))
        return m, C, cross, logdet
    T, R = w.shape
    U = np.zeros((T - 1, R, R))
    U[0] += np.diag(b)
    U[T - 2] += np.diag(b)
    inner, spread, cross, G, logdet = _solve(A[:-1], w[:-1], b, U)
    S = A[-1] - b[:, None] * (G[0] + G[-1])
    border = np.linalg.inv(S)
    last = border @ (w[-1] - b * (inner[0] + inner[-1]))
    weighed = G @ border
    m = np.concatenate([inner - G @ last, last[None]])
    C = np.concatenate([spread + weighed @ G.transpose(0, 2, 1), border[None]])
    cross = cross + np.einsum("tij,tij->i", weighed[:-1], G[1:])
    cross -= np.einsum("ii->i", weighed[0]) + np.einsum("ii->i", weighed[-1])
    return m, C, cross, logdet - float(np.linalg.slogdet(S)[1])


@njit(nogil=True, cache=True)
def _solve(A: Array, w: Array, b: Array, U: Array) -> tuple[Array, Array, Array, Array, float]:
    """Solve a chain, and for the columns of U, which may be left out (no rows)."""
    T, R = w.shape
    D, h, G = np.empty((T, R, R)), np.empty((T, R)), np.empty(U.shape)
    logdet = 0.0
    for t in range(T):
        block, right = A[t].copy(), w[t].copy()
        if t > 0:
            for p in range(R):
                for q in range(R):
                    block[p, q] -= b[p] * D[t - 1, p, q] * b[q]
            right -= b * np.dot(D[t - 1], h[t - 1])
            if len(U) > 0:
                G[t] = U[t] - _scale_rows(b, np.dot(D[t - 1], G[t - 1]))
        elif len(U) > 0:
            G[t] = U[t]
        root = np.linalg.cholesky(block)
        for p in range(R):
            logdet -= 2 * np.log(root[p, p])
        inverse = np.linalg.inv(root)
        D[t] = np.dot(inverse.T, inverse)
        h[t] = right
    m, C, cross = np.empty((T, R)), np.empty((T, R, R)), np.zeros(R)
    C[T - 1], m[T - 1] = D[T - 1], np.dot(D[T - 1], h[T - 1])
    if len(U) > 0:
        G[T - 1] = np.dot(D[T - 1], G[T - 1])
    for t in range(T - 2, -1, -1):
        K = np.empty((R, R))
        for p in range(R):
            for q in range(R):
                K[p, q] = -D[t, p, q] * b[q]
        pulled = np.dot(K, C[t + 1])
        for p in range(R):
            cross[p] += pulled[p, p]
        C[t] = D[t] + np.dot(pulled, K.T)
        m[t] = np.dot(D[t], h[t]) + np.dot(K, m[t + 1])
        if len(U) > 0:
            G[t] = np.dot(D[t], G[t]) + np.dot(K, G[t + 1])
    return m, C, cross, G, logdet


@njit(nogil=True, cache=True)
def _scale_rows(b: Array, matrix: Array) -> Array:
    out = np.empty(matrix.shape)
    for p in range(len(b)):
        for q in range(matrix.shape[1]):
            out[p, q] = b[p] * matrix[p, q]
    return out
