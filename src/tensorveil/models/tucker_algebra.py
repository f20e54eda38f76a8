"""What a Tucker model computes, on bare arrays: values at coordinates, regression designs, dense grids.

core has shape (R_0, ..., R_{N-1}); factors[m] has shape (I_m, R_m); columns has shape (order, n).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.models.evaluate import pick_rows

Floats = NDArray[Any]


def tucker_design(columns: NDArray[np.integer], core: Floats, factors: Sequence[Floats], mode: int) -> Floats:
    """Return the (n, R_mode) contraction of the core with the other modes' rows."""
    others = [m for m in range(core.ndim) if m != mode]
    arranged = core.transpose([mode, *others])
    last = others[-1]
    unfolded = arranged.reshape(-1, core.shape[last])
    design: Floats = factors[last][columns[last]] @ unfolded.T
    for m in reversed(others[:-1]):
        rows = factors[m][columns[m]]
        design = np.einsum("npr,nr->np", design.reshape(len(rows), -1, core.shape[m]), rows)
    return design


def tucker_values(columns: NDArray[np.int32], core: Floats, factors: Sequence[Floats], threads: int | None) -> Floats:
    """Return the multilinear part at each coordinate."""
    if not columns.shape[1]:
        return np.empty(0, dtype=core.dtype)
    from tensorveil.kernels.predict import tucker_predict  # here, because compiled code takes time to load

    columns, rows = pick_rows(columns, factors)
    return tucker_predict(columns, core, rows, threads)


def tucker_grid(core: Floats, rows: Sequence[Floats]) -> Floats:
    """Return the dense tensor spanned by these rows, one (J_m, R_m) matrix per mode."""
    grid = core
    # The mode that shrinks the tensor most goes first, so that intermediates stay small.
    for mode in sorted(range(core.ndim), key=lambda m: len(rows[m]) / core.shape[m]):
        grid = np.moveaxis(np.tensordot(rows[mode], grid, axes=(1, mode)), 0, mode)
    return np.ascontiguousarray(grid)
