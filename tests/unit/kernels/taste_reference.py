"""What rounds compute of a user, number by number in the order of the textbook's sums, each operation rounded."""

import math
from typing import Any

import numpy as np


def make_design(columns: Any, values: Any, offset: float, biases: Any, traits: Any, bases: Any) -> Any:
    """Return X and y of some entries, from lists with an array per mode."""
    left = values - offset
    for bias, column in zip(biases, columns, strict=True):
        left = left - bias[column]
    parts = [np.ones((len(values), 1)), *(trait[column] for trait, column in zip(traits, columns, strict=True))]
    if bases:
        out = bases[0][columns[0]]
        for basis, column in zip(bases[1:], columns[1:], strict=True):
            out = (out[:, :, None] * basis[column][:, None, :]).reshape(len(out), -1)
        parts.append(out)
    return np.concatenate(parts, axis=1), left


def add_in_order(terms: Any) -> Any:
    total = 0.0
    for term in terms:
        total = total + term
    return total


def solve(X: Any, y: Any, P: Any, mean: Any) -> Any:
    """Return B, the inverse of X'X + P, and the solution w."""
    d = X.shape[1]
    G, s = P.copy(), add_in_order(P[:, b] * mean[b] for b in range(d))
    for x, target in zip(X, y, strict=True):
        G, s = G + x[:, None] * x, s + x * target
    L = np.zeros((d, d))
    for k in range(d):
        L[k, k] = math.sqrt(G[k, k])
        L[k + 1 :, k] = G[k + 1 :, k] / L[k, k]
        G = G - L[:, k][:, None] * L[:, k]
    V = np.zeros((d, d))
    for a in range(d):
        row = np.eye(d)[a]
        for k in range(a):
            row = row - L[a, k] * V[k]
        V[a] = row / L[a, a]
    B = add_in_order(v[:, None] * v for v in V)
    return B, add_in_order(B[:, b] * s[b] for b in range(d))


def find_residuals(X: Any, y: Any, P: Any, mean: Any) -> Any:
    w = solve(X, y, P, mean)[1]
    return y - add_in_order(w[a] * X[:, a] for a in range(X.shape[1]))


def leave_one_out(X: Any, y: Any, P: Any, mean: Any, plain: int, rows: Any, mode: int, weight: float) -> Any:
    """Return what entries add to a mode's rows; ``rows`` holds the entries' rows of every mode's basis."""
    B, w = solve(X, y, P, mean)
    d = X.shape[1]
    S = add_in_order(B[b] * X[:, b, None] for b in range(d))
    leverage = add_in_order(S[:, a] * X[:, a] for a in range(d))
    explained = add_in_order(w[a] * X[:, a] for a in range(d))
    tastes = w - S * ((y - explained) / np.maximum(1.0 - leverage, 1e-6))[:, None]
    left = y - add_in_order(tastes[:, a] * X[:, a] for a in range(plain))
    latent = tastes[:, plain:]
    latent = latent / np.sqrt(add_in_order(latent[:, k] ** 2 for k in range(d - plain)))[:, None]
    block = latent.reshape(len(y), *(each.shape[1] for each in rows))
    for m in reversed(range(len(rows))):
        if m != mode:
            block, shape = np.moveaxis(block, m + 1, 1), (-1,) + (1,) * (block.ndim - 2)
            block = add_in_order(block[:, k] * rows[m][:, k].reshape(shape) for k in range(rows[m].shape[1]))
    return (weight * left)[:, None] * block


def taste_moments(X: Any, y: Any, mean: Any, root: Any, spread: float) -> Any:
    """Return the mean and the packed second moments of standardised tastes, and the two errors."""
    n, d = X.shape
    y = y.copy()
    for a in range(d):
        y = y - X[:, a] * mean[a]
    Z = add_in_order(X[:, a, None] * root[a] for a in range(d))
    B, w = solve(Z, y, spread * np.eye(d), np.zeros(d))
    left = y - add_in_order(w[a] * Z[:, a] for a in range(d))
    free = float(n - d)
    for a in range(d):
        free += spread * B[a, a]
    second = w[:, None] * w + spread * B
    return w, second[np.tril_indices(d)], [add_in_order(left**2) / (n * spread), free / n]
