"""Algebra of tall thin matrices: a million rows, a few dozen columns. Small results are computed in float64.

Legend
    tall            (m, k), m much larger than k; Q like it; T (k, k) upper triangular
    gram, lower     (k, k) tall'tall scaled to a unit diagonal, and its Cholesky factor

Nothing is compiled here: BLAS does the work. float32 products are summed by chunks of rows, in float64 from chunk to
chunk, because a sum over a million rows in float32 loses digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Products of float32 are summed over so many rows before the sums go on in float64.
_CHUNK = 1 << 12
# A pivot below this, of columns scaled to unit length, is left to Householder's method.
_SAFE_PIVOT = {4: 1e-2, 8: 1e-5}


def cross(left: Array, right: Array) -> Array:
    """Return left' right, summed in float64."""
    if left.dtype == np.float64:
        product: Array = left.T @ right
        return product
    total = np.zeros((left.shape[1], right.shape[1]))
    for start in range(0, len(left), _CHUNK):
        part = slice(start, start + _CHUNK)
        total += left[part].T @ right[part]
    return total


def orthonormal(tall: Array) -> tuple[Array, Array]:
    """Return Q with orthonormal columns and upper triangular T with Q T = tall.

    By the Cholesky factor of the Gram matrix, twice (CholeskyQR2; Yamamoto, Nakatsukasa, Yanagisawa and Fukaya 2015),
    which costs matrix products only. Where columns are nearly dependent, by Householder's method instead, which gives
    orthonormal columns even to a matrix of zeros.
    """
    first = _cholesky_qr(tall)
    second = None if first is None else _cholesky_qr(first[0])
    if first is None or second is None:
        basis, triangle = np.linalg.qr(tall)
        return basis, triangle.astype(np.float64)
    return second[0], second[1] @ first[1]


def _cholesky_qr(tall: Array) -> tuple[Array, Array] | None:
    gram = cross(tall, tall)
    lengths = np.sqrt(np.diag(gram))
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        return None
    try:
        lower = np.linalg.cholesky(gram / np.outer(lengths, lengths))
    except np.linalg.LinAlgError:
        return None
    if np.diag(lower).min() < _SAFE_PIVOT[tall.dtype.itemsize]:
        return None
    triangle = lower.T * lengths
    inverse = np.linalg.solve(triangle, np.eye(len(triangle)))
    return tall @ inverse.astype(tall.dtype), triangle
