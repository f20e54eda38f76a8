"""Coordinates as 64-bit keys: the fast way to find and merge duplicated entries."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.checks import Duplicates, FloatArray, IntArray

KEY_BITS = 63
_ROOM = 40  # sums of fewer than 2**40 numbers are that much larger than the largest of them, in powers of two
PARALLEL_SORT = 1 << 20
KeyArray = NDArray[np.int64]


def linear_keys(columns: NDArray[Any], shape: tuple[int, ...]) -> list[KeyArray]:
    """Return row-major linear indices; several keys, most significant first, if one would overflow 63 bits."""
    keys: list[KeyArray] = []
    room = 0
    for column, size in zip(columns, shape, strict=True):
        if keys and room * size < 2**KEY_BITS:
            keys[-1] *= size
            keys[-1] += column
            room *= size
        else:
            keys.append(column.astype(np.int64))
            room = size
    return keys


def has_duplicates(columns: IntArray, shape: tuple[int, ...]) -> bool:
    """Return whether two entries share their coordinates."""
    if not columns.shape[1]:
        return False
    keys = linear_keys(columns, shape)
    if len(keys) == 1:
        key = keys[0]
        if _is_strictly_increasing(key):
            return False
        _sort(key)
        return not _is_strictly_increasing(key)
    order = np.lexsort(keys[::-1])
    return not _group_starts([key[order] for key in keys]).all()


def sort_entries(columns: IntArray, values: FloatArray, shape: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
    """Return the entries sorted by coordinates, equal ones by value: one order for one set of entries."""
    keys = linear_keys(columns, shape)
    if len(keys) == 1 and _is_strictly_increasing(keys[0]):
        return columns, values
    order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    if len(order) and not _group_starts([key[order] for key in keys]).all():
        order = np.lexsort([values, *keys[::-1]])
    return np.ascontiguousarray(columns[:, order]), values[order]


def _sort(key: KeyArray) -> None:
    """Sort in place; long keys are cut at their quantiles first, and the parts sorted side by side."""
    workers = min(os.cpu_count() or 1, 8)
    if len(key) < PARALLEL_SORT or workers == 1:
        key.sort()
        return
    cuts = [len(key) * part // workers for part in range(workers + 1)]
    key.partition(cuts[1:-1])
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda part: key[cuts[part] : cuts[part + 1]].sort(), range(workers)))


def _is_strictly_increasing(key: KeyArray, chunk: int = 1 << 20) -> bool:
    """Compare neighbours in chunks: unsorted keys are found at once, temporaries stay small."""
    for start in range(0, len(key) - 1, chunk):
        part = key[start : start + chunk + 1]
        if not (part[1:] > part[:-1]).all():
            return False
    return True


def _group_starts(keys: list[KeyArray]) -> NDArray[np.bool_]:
    starts = np.zeros(len(keys[0]), bool)
    starts[0] = True
    for key in keys:
        starts[1:] |= key[1:] != key[:-1]
    return starts


def merge_duplicates(
    columns: IntArray, values: FloatArray, shape: tuple[int, ...], policy: Duplicates
) -> tuple[IntArray, FloatArray]:
    """Settle duplicated coordinates by the policy; an entry stays where its coordinates first appeared."""
    if not has_duplicates(columns, shape):
        return columns, values
    if policy == "error":
        raise InputError(
            "coords must not be duplicated: two entries share their coordinates. Remove one, or pass "
            "duplicates='mean' (or sum, first, last) to merge them."
        ).of("repeated")
    keys = linear_keys(columns, shape)
    order = np.lexsort(keys[::-1])  # stable: equal coordinates keep their order
    starts = np.flatnonzero(_group_starts([key[order] for key in keys]))
    del keys
    first = order[starts]
    merged = _merge_values(values[order], starts, policy)
    place = np.argsort(first)
    return np.ascontiguousarray(columns[:, first[place]]), merged[place]


def _merge_values(values: FloatArray, starts: NDArray[np.intp], policy: Duplicates) -> FloatArray:
    """Return one value for every group of equal coordinates."""
    if policy == "first":
        return np.asarray(values[starts])
    ends = np.append(starts[1:], len(values))
    if policy == "last":
        return np.asarray(values[ends - 1])
    # Smaller by a power of two, which changes no digit, no sum leaves the range of floats: two infinities of opposite
    # sign would be no number, and a warning would tell.
    total = np.add.reduceat(np.ldexp(values.astype(np.float64), -_ROOM), starts)
    if policy == "mean":
        total /= ends - starts
    largest = math.ldexp(float(np.finfo(values.dtype).max), -_ROOM)
    return np.asarray(np.ldexp(np.clip(total, -largest, largest), _ROOM), dtype=values.dtype)
