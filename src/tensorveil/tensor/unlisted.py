"""Cells that are not listed, where these are zeros: all of them where they are few, else a random part that stands for
all.

Errors over all cells of a large tensor are estimated from its entries and some of the other cells, each of which counts
for many (stratified sampling, as in Kolda and Hong 2020). Nothing here grows with the number of cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.tensor.checks import FloatArray, IntArray
from tensorveil.tensor.keys import linear_keys
from tensorveil.tensor.observed import ObservedTensor

# Up to so many cells are listed rather than drawn.
MOST_CELLS = 2_000_000
# So many are drawn where not all are listed.
SAMPLE = 500_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Cells with known values: coordinates (order, n), values, and how many cells each stands for."""

    columns: IntArray
    values: FloatArray
    weights: NDArray[np.float64]


def known_cells(
    tensor: ObservedTensor,
    *,
    without: Sequence[IntArray] = (),
    seed: int = 0,
    most: int = MOST_CELLS,
    sample: int = SAMPLE,
) -> Cells:
    """Return the entries and, where unlisted cells are zeros, these or a sample of them.

    Zeros are never taken from cells in ``without``, (order, n) arrays of cells that belong elsewhere.

    >>> tensor = ObservedTensor([[0, 1]], [3.0], shape=(2, 2), unlisted="zero")
    >>> known_cells(tensor).values.tolist()
    [3.0, 0.0, 0.0, 0.0]
    """
    listed = tensor.values.astype(np.float64, copy=False)
    if tensor.unlisted == "unknown":
        return Cells(columns=tensor.columns, values=listed, weights=np.ones(len(listed)))
    taken = [tensor.columns, *without]
    zeros, weight = draw_zeros(tensor.shape, taken, seed=seed, most=most, sample=sample)
    columns = np.concatenate([tensor.columns, zeros], axis=1)
    count = zeros.shape[1]
    return Cells(
        columns=columns,
        values=np.concatenate([listed, np.zeros(count)]),
        weights=np.concatenate([np.ones(len(listed)), np.full(count, weight)]),
    )


def draw_zeros(
    shape: tuple[int, ...], taken: Sequence[IntArray], *, seed: int, most: int = MOST_CELLS, sample: int = SAMPLE
) -> tuple[IntArray, float]:
    """Return cells that are in none of ``taken``, and how many of those each of them stands for."""
    cells = math.prod(shape)
    occupied = _sorted_rows(np.concatenate(taken, axis=1), shape)
    left = cells - len(occupied)
    if cells <= most:
        flat = np.arange(cells)
        free = flat[~np.isin(flat, occupied, assume_unique=True)]
        return np.stack(np.unravel_index(free, shape)).astype(np.int32).reshape(len(shape), -1), 1.0
    rng = np.random.default_rng([seed, 3])
    picked = np.stack([rng.integers(size, size=sample, dtype=np.int32) for size in shape])
    places = np.searchsorted(occupied, (keys := _rows(picked, shape)))
    found = occupied[np.minimum(places, len(occupied) - 1)] == keys if len(occupied) else np.zeros(sample, bool)
    free = np.flatnonzero(~found)
    free = free[np.unique(keys[free], return_index=True)[1]]  # each cell once
    picked = np.ascontiguousarray(picked[:, np.sort(free)])
    return picked, left / max(picked.shape[1], 1)


def _rows(columns: IntArray, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return one comparable key per cell; as records where one number would not hold it."""
    keys = linear_keys(columns, shape)
    if len(keys) == 1:
        return keys[0]
    return np.rec.fromarrays(keys)


def _sorted_rows(columns: IntArray, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.unique(_rows(columns, shape))
