"""Products with a matrix that is sparse plus low rank, X = S + A B', without ever forming it.

S is the residual of a low-rank matrix at the observed entries: S_ij = y_ij - a_i . b_j where y is observed, else 0. It
is not stored either: each pass computes an entry of it from the rows of A and B that it needs to gather anyway.
Letters: A (m, R) and B (n, R) with rows padded to R, y the observed values, s one entry of S.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.rows import Rows
from tensorveil.kernels.threads import balanced

Array = NDArray[Any]
Run = Callable[[Sequence[Callable[[], Any]]], list[Any]]

# A fixed number of pieces, whatever the number of threads: sums over pieces then come out the same.
_PIECES = 16


def residual_times(rows: Rows, A: Array, B: Array, out: Array, run: Run) -> float:
    """Write S B to ``out`` (m, R) and return the squared norm of S; ``rows`` are grouped by the rows of the matrix.

    All three arrays are padded alike and C-contiguous. The same for every number of threads.
    """
    row = v.wide_token(A.shape[1], A.dtype)
    data = (row, rows.pointers, rows.coords[0], rows.values, A, B, out)
    return float(sum(run([partial(_times, *data, a, b) for a, b in balanced(rows.pointers, _PIECES)])))


def residual_transposed_times(columns: Rows, A: Array, B: Array, L: Array, out: Array, run: Run) -> None:
    """Write S' L to ``out`` (n, R); ``columns`` are the entries grouped by the columns of the matrix."""
    row = v.wide_token(A.shape[1], A.dtype)
    data = (row, columns.pointers, columns.coords[0], columns.values, A, B, L, out)
    run([partial(_transposed_times, *data, a, b) for a, b in balanced(columns.pointers, _PIECES)])


@kernel()
def _times(
    row: v.Token, pointers: Array, index: Array, values: Array, A: Array, B: Array, out: Array, low: int, high: int
) -> float:
    R = A.shape[1]
    squares = 0.0
    for i in range(low, high):
        a, total = v.load(row, A, i * R), v.zero(row, A)
        for p in range(pointers[i], pointers[i + 1]):
            b = v.load(row, B, int(index[p]) * R)
            s = values[p] - v.total(v.mul(a, b))
            total = v.axpy(s, b, total)
            squares += s * s
        v.store(out, i * R, total)
    return squares


@kernel()
def _transposed_times(
    row: v.Token, pointers: Array, index: Array, values: Array, A: Array, B: Array, L: Array, out: Array, low: int,
    high: int,
) -> None:  # fmt: skip
    R = A.shape[1]
    for j in range(low, high):
        b, total = v.load(row, B, j * R), v.zero(row, B)
        for p in range(pointers[j], pointers[j + 1]):
            i = int(index[p]) * R
            s = values[p] - v.total(v.mul(v.load(row, A, i), b))
            total = v.axpy(s, v.load(row, L, i), total)
        v.store(out, j * R, total)
