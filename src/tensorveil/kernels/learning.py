"""Contributions of single records: each row's result depends on that row alone, down to the last bit.

Library routines for matrices make no such promise: how they round may depend on how many rows there are. Sums whose
sensitivity is stated in steps of a grid need it, so products are plain loops here, in a fixed order.

Legend
    i, j, c         record; its numbers (d of them); columns of the result (k of them)
    rows            (n, d) records; matrix (d, k); out (n, k)
"""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]


@kernel()
def directions(rows: Array, matrix: Array, out: Array) -> None:
    """Write rows (n, d) times a matrix (d, k) to ``out``, each divided by its length; the first axis if it has none.

    Numbers are divided by the largest of them before they are squared, so that no square underflows or overflows.
    """
    for i in range(len(rows)):
        out[i, :] = 0.0
        scale = _largest(rows[i])
        if 0.0 < scale < math.inf:  # false for NaN
            for j in range(rows.shape[1]):
                x = rows[i, j] / scale
                for c in range(out.shape[1]):
                    out[i, c] += x * matrix[j, c]
        _normalise(out[i])


@kernel()
def _normalise(row: Array) -> None:
    """Divide a row by its length; make it the first axis if it has none."""
    scale = _largest(row)
    if not 0.0 < scale < math.inf:
        row[:] = 0.0
        row[0] = 1.0
        return
    total = 0.0
    for c in range(len(row)):
        row[c] /= scale
        total += row[c] * row[c]
    length = math.sqrt(total)
    for c in range(len(row)):
        row[c] /= length


@kernel()
def _largest(row: Array) -> float:
    """Return the largest absolute value of a row; NaN if one of them is NaN."""
    found = 0.0
    for c in range(len(row)):
        size = abs(row[c])
        if not size <= found:
            found = size
        if math.isnan(found):
            return found
    return found
