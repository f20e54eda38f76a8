"""The textbook forms of the matrix solvers, dense and plain: what ours are tested, and timed, against.

Each takes Y (zeros where nothing is observed) and the mask of observed cells, and returns the low-rank estimate.
"""

from typing import Any

import numpy as np


def csvd_qr(X: Any, R: Any) -> Any:
    """One step of CSVD-QR from R: L, D, R with X about L D R."""
    L, _ = np.linalg.qr(X @ R.T)
    Rt, Dt = np.linalg.qr(X.T @ L)
    return L, Dt.T, Rt.T


def dlnm_qr(Y: Any, mask: Any, rank: Any, sweeps: Any, penalty: Any, growth: Any, multiplier: bool = False) -> Any:
    """As printed, with the vector that eq. 20 leaves out; ``multiplier``: eq. 22 too, in the step of X + M / mu."""
    X, R, M = Y.copy(), np.eye(rank, Y.shape[1]), np.zeros_like(Y)
    for _ in range(sweeps):
        L, D, R = csvd_qr(X if penalty is None else X + M / penalty, R)
        lengths = np.linalg.norm(D, axis=0)
        penalty = 10 / lengths.max() if penalty is None else penalty
        D = D * (np.maximum(lengths - 1 / penalty, 0) / np.where(lengths > 0, lengths, 1))
        estimate = L @ D @ R
        X = np.where(mask, Y, estimate)
        if multiplier:
            M = M + penalty * (X - estimate)
        penalty *= growth
    return estimate


def sor(Y: Any, mask: Any, rank: Any, sweeps: Any) -> Any:
    Z, A, B = Y.copy(), np.zeros((Y.shape[0], rank)), np.eye(rank, Y.shape[1])
    alpha, increment = 0.0, 1.0
    S = Y.copy()
    norm = np.linalg.norm(S)
    for _ in range(sweeps):
        before = A, B, S, norm
        A, _ = np.linalg.qr(Z @ B.T)
        B = A.T @ Z
        estimate = A @ B
        S = np.where(mask, Y - estimate, 0)
        norm = np.linalg.norm(S)
        if norm >= before[3]:
            increment, alpha = max(0.1 * alpha, 0.1 * increment), 0.0
            A, B, S, norm = before
            estimate = A @ B
        elif norm > 0.7 * before[3]:
            increment = max(increment, 0.25 * alpha)
            alpha += increment
        Z = estimate + (1 + alpha) * S
    return A @ B


def altmin(Y: Any, mask: Any, rank: Any, sweeps: Any, start: Any, ridge: float = 0.0) -> Any:
    """From a left factor ``start``: least squares column by column, row by row."""
    A, B = start.copy(), np.zeros((Y.shape[1], rank))
    for _ in range(sweeps):
        for data, seen, fixed, solved in ((Y.T, mask.T, A, B), (Y, mask, B, A)):
            for i in range(len(data)):
                H = fixed[seen[i]]
                solved[i] = np.linalg.solve(H.T @ H + ridge * np.eye(rank), H.T @ data[i, seen[i]])
    return A @ B.T
