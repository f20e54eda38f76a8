"""What a CP model computes, on bare arrays: values at coordinates, regression designs, dense grids.

R components; factors[m] has shape (I_m, R); columns has shape (order, n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.models.evaluate import pick_rows

Floats = NDArray[Any]


def cp_design(columns: NDArray[np.integer], factors: Sequence[Floats], mode: int) -> Floats:
    """Return the (n, R) products of the other modes' rows: value = design . row of ``mode``."""
    others = [m for m in range(len(factors)) if m != mode]
    design: Floats = factors[others[0]][columns[others[0]]]
    for m in others[1:]:
        design *= factors[m][columns[m]]
    return design


def cp_values(columns: NDArray[np.int32], factors: Sequence[Floats], threads: int | None) -> Floats:
    """Return the multilinear part at each coordinate."""
    if not columns.shape[1]:
        return np.empty(0, dtype=factors[0].dtype)
    from tensorveil.kernels.predict import cp_predict  # here, because compiled code takes time to load

    return cp_predict(*pick_rows(columns, factors), threads)


def cp_grid(rows: Sequence[Floats]) -> Floats:
    """Return the dense tensor spanned by these rows, one (J_m, R) matrix per mode."""
    shape = tuple(len(matrix) for matrix in rows)
    half = _balanced_split(shape)
    # Two Khatri-Rao halves and one matrix product: nearly all the work happens inside BLAS.
    return (_khatri_rao(rows[:half]) @ _khatri_rao(rows[half:]).T).reshape(shape)


def _balanced_split(shape: Sequence[int]) -> int:
    """Choose where to cut the modes so that the two halves together stay small."""
    cuts = range(1, len(shape))
    return min(cuts, key=lambda cut: math.prod(shape[:cut]) + math.prod(shape[cut:]))


def _khatri_rao(rows: Sequence[Floats]) -> Floats:
    product = rows[0]
    for matrix in rows[1:]:
        product = (product[:, None, :] * matrix[None, :, :]).reshape(-1, product.shape[1])
    return product
