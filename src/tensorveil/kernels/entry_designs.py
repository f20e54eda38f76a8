"""Designs of single entries: what the row of a mode is multiplied by, computed from this entry's indices alone.

Library routines for matrices round differently for different numbers of rows, so that one entry more could move the
last bits of all others. Where entries are private their contributions must not do that: plain loops, in a fixed order.

Legend
    columns, mode      (order, n) coordinates; the mode whose rows are solved for
    others             the other modes, in order
    flat, starts       all factors one after the other, row by row; where each begins
    ranks              number of columns of each factor
    core               (ranks[mode], ranks[others] ...) flattened; for CP it is not used
    out                (n, ranks[mode])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]


@kernel()
def design_cp(columns: Array, others: Array, flat: Array, starts: Array, ranks: Array, out: Array) -> None:
    """Write the products of the other modes' rows."""
    for p in range(columns.shape[1]):
        out[p, :] = 1.0
        for m in others:
            row = starts[m] + columns[m, p] * ranks[m]
            for r in range(out.shape[1]):
                out[p, r] *= flat[row + r]


@kernel()
def design_tucker(
    columns: Array, others: Array, flat: Array, starts: Array, ranks: Array, core: Array, out: Array
) -> None:
    """Write the contraction of the core with the other modes' rows, the last of them first."""
    work = np.empty(len(core))
    for p in range(columns.shape[1]):
        work[:] = core
        size = len(core)
        for at in range(len(others) - 1, -1, -1):
            m = others[at]
            row, rank = starts[m] + columns[m, p] * ranks[m], ranks[m]
            size //= rank
            for k in range(size):
                total = 0.0
                for r in range(rank):
                    total += work[k * rank + r] * flat[row + r]
                work[k] = total
        for r in range(out.shape[1]):
            out[p, r] = work[r]
