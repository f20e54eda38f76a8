"""The Gram matrix of an unfolded tensor without its diagonal, times a thin matrix: nothing of its size is stored.

Legend
    starts, rows, values   the unfolding by columns: column g has entries starts[g] .. starts[g + 1], each in a row
    basis, out             (rows, k) the thin matrix and the product, with padded rows
    total                  what a column's entries say of the thin matrix: the sum of value times row

A column with one entry is on the diagonal alone and is skipped; of a sparse tensor these are most. A column's sum stays
in registers between the two times that its entries are looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.padded import aligned_zeros, padded_rank

Array = NDArray[Any]


def multiply_gram(starts: Array, rows: Array, values: Array, basis: Array) -> Array:
    """Return (Y Y' less its diagonal) times a basis, for an unfolding Y by columns; an entry counts once per cell."""
    size, k = basis.shape
    padded = aligned_zeros((size, padded_rank(k)), np.float64)
    padded[:, :k] = basis
    out = aligned_zeros(padded.shape, np.float64)
    _multiply_gram(v.wide_token(padded.shape[1], padded.dtype), starts, rows, values, padded, out)
    return np.ascontiguousarray(out[:, :k])


@kernel()
def _multiply_gram(row: v.Token, starts: Array, rows: Array, values: Array, basis: Array, out: Array) -> None:
    width = basis.shape[1]
    for g in range(len(starts) - 1):
        if starts[g + 1] - starts[g] < 2:
            continue
        total = v.zero(row, basis)
        for p in range(starts[g], starts[g + 1]):
            total = v.axpy(values[p], v.load(row, basis, rows[p] * width), total)
        for p in range(starts[g], starts[g + 1]):
            at = rows[p] * width
            others = v.axpy(-values[p], v.load(row, basis, at), total)
            v.store(out, at, v.axpy(values[p], others, v.load(row, out, at)))
