"""Contributions of single records: each row's result depends on that row alone, down to the last bit.

Library routines for matrices make no such promise: how they round may depend on how many rows there are. Sums whose
sensitivity is stated in steps of a grid need it, so products are plain loops here, in a fixed order.

Legend
    i, j, c         record; its numbers (d of them); columns of the result (k of them)
    rows            (n, d) records; matrix (d, k); out (n, k)
    total           sum over records, in whole steps of the grid: integers add up to the same in any order
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]


@kernel()
def directions(rows: Array, matrix: Array, out: Array) -> None:
    """Write rows (n, d) times a matrix (d, k) to ``out``, each divided by its length; the first axis if it has none."""
    for i in range(len(rows)):
        for c in range(out.shape[1]):
            out[i, c] = 0.0
        for j in range(rows.shape[1]):
            x = rows[i, j]
            for c in range(out.shape[1]):
                out[i, c] += x * matrix[j, c]
        total = 0.0
        for c in range(out.shape[1]):
            total += out[i, c] * out[i, c]
        if total > 0 and math.isfinite(total):
            length = math.sqrt(total)
            for c in range(out.shape[1]):
                out[i, c] /= length
        else:
            out[i, :] = 0.0
            out[i, 0] = 1.0


@kernel()
def bounded_sum(rows: Array, norm: float, step: float, total: Array) -> None:
    """Add rows, each cut to a norm and rounded to multiples of a step, to ``total``, in steps.

    A row that is not finite counts as nothing.
    """
    for i in range(len(rows)):
        squared = 0.0
        for j in range(rows.shape[1]):
            squared += float(rows[i, j]) * float(rows[i, j])
        if not math.isfinite(squared):
            continue
        length = math.sqrt(squared)
        factor = (norm / length if length > norm else 1.0) / step
        for j in range(rows.shape[1]):
            total[j] += np.int64(np.rint(float(rows[i, j]) * factor))
