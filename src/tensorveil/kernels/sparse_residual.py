"""Products with a matrix that is sparse plus low rank, X = S + A B', without ever forming it.

S is the residual of a low-rank matrix at the observed entries: S_ij = y_ij - a_i . b_j where y is observed, else 0.
Entries are grouped by rows, so that rows of (m, R) matrices are read in order, and only rows of (n, R) matrices are
gathered or scattered: with n the smaller side these stay in cache, and one layout serves both products.

Legend
    A, B            (m, R) and (n, R), rows padded to R
    L               (m, R), what S' is multiplied with; copies (pieces, n, R): the result, once per piece
    s               entries of S in the layout's order; values the observed y in the same order
    i, j, p         row, element offset of a column's row in B, entry
    a, b, left      rows of A, B and L in registers

`_times` writes rows of ``out`` that its piece owns. `_transposed_times` scatters into rows that pieces share, so each
piece has a copy of the result, and the copies are added in a fixed order: the same bits for every number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.rows import Rows
from tensorveil.kernels.threads import cut_evenly

Array = NDArray[Any]
Run = Callable[[Sequence[Callable[[], Any]]], list[Any]]

# Numbers of pieces do not depend on the number of threads, so that sums over pieces do not either.
_PIECES = 16
# Each piece that scatters has a copy of the result; together they hold no more than this, with two pieces at least.
_COPIES, _COPIES_BYTES = 8, 1 << 28


def residual_times(rows: Rows, A: Array, B: Array, s: Array, out: Array, run: Run) -> float:
    """Write the residuals to ``s`` and S B to ``out`` (m, R); return the squared norm of S.

    All matrices are padded alike and C-contiguous.
    """
    row = v.wide_token(A.shape[1], A.dtype)
    data = (row, rows.pointers, rows.coords[0], rows.values, A, B, s, out)
    return float(sum(run([partial(_times, *data, a, b) for a, b in cut_evenly(rows.pointers, _PIECES)])))


def scatter_copies(n: int, width: int, dtype: np.dtype[Any]) -> Array:
    """Return room for :func:`residual_transposed_times`: a few copies of its result."""
    copies = max(2, min(_COPIES, _COPIES_BYTES // (n * width * dtype.itemsize)))
    return np.zeros((copies, n, width), dtype=dtype)


def residual_transposed_times(rows: Rows, s: Array, L: Array, copies: Array, run: Run) -> Array:
    """Return S' L (n, R), for the residuals that :func:`residual_times` left; it shares memory with ``copies``."""
    row = v.wide_token(L.shape[1], L.dtype)
    pieces = cut_evenly(rows.pointers, len(copies))
    data = (row, rows.pointers, rows.coords[0], s, L)
    run([partial(_transposed_times, *data, copy, a, b) for (a, b), copy in zip(pieces, copies, strict=False)])
    total: Array = copies[0]
    for copy in copies[1 : len(pieces)]:
        total += copy
    return total


@kernel()
def _times(
    row: v.Token, pointers: Array, index: Array, values: Array, A: Array, B: Array, s: Array, out: Array, low: int,
    high: int,
) -> float:  # fmt: skip
    R = A.shape[1]
    squares = 0.0
    for i in range(low, high):
        a, total = v.load(row, A, i * R), v.zero(row, A)
        for p in range(pointers[i], pointers[i + 1]):
            b = v.load(row, B, int(index[p]) * R)
            error = values[p] - v.total(v.mul(a, b))
            s[p] = error
            total = v.axpy(error, b, total)
            squares += error * error
        v.store(out, i * R, total)
    return squares


@kernel()
def _transposed_times(
    row: v.Token, pointers: Array, index: Array, s: Array, L: Array, out: Array, low: int, high: int
) -> None:
    R = L.shape[1]
    out[:] = 0
    for i in range(low, high):
        left = v.load(row, L, i * R)
        for p in range(pointers[i], pointers[i + 1]):
            j = int(index[p]) * R
            v.store(out, j, v.axpy(s[p], left, v.load(row, out, j)))
