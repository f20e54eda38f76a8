"""Compressed rows: for one mode, the entries of every row together, for alternating least squares.

Within a row the entries are sorted by the largest other mode, so that its factor is read in order.

Legend
    p, q            entry in the order given, and in the order of the layout
    key             column of the mode that entries are grouped by; by: column they are sorted by within a row
    pointers        (size + 1,) where each row's entries begin
    positions       (stretches, size) where each stretch puts its next entry of a row; see kernels/sorting.py
    order           entries in the order of ``by``; moving them in this order leaves every row sorted
    source          per target column, where its coordinates are found; -1: the number of the row itself

Coordinates are uint16 where all other modes are small enough: passes over the entries are bound by memory, and this
halves what they read. `build_all_rows` groups by the largest mode first and regroups from there: rows are then read in
order, and a stable move keeps the order by the largest mode without a second sort.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.sorting import count_column, order_by, start_positions
from tensorveil.kernels.threads import cut_evenly, ranges, thread_count, workers

Array = NDArray[Any]

UINT16 = 1 << 16
SMALL = 1 << 16  # entries that numpy sorts in milliseconds, while the compiled functions take half a second to compile


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Entries grouped by the rows of one mode; see :func:`build_rows`.

    The entries of row i are ``pointers[i]:pointers[i + 1]``; ``coords[k, p]`` is the coordinate of entry ``p`` in
    mode ``others[k]``. Within a row, entries are sorted by mode ``sorted_by`` (one of ``others``).
    """

    shape: tuple[int, ...]
    mode: int
    others: tuple[int, ...]
    sorted_by: int
    pointers: Array
    coords: Array
    values: Array

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(a.nbytes for a in (self.pointers, self.coords, self.values))


def build_rows(
    columns: Array,
    values: Array,
    shape: tuple[int, ...],
    mode: int,
    dtype: DTypeLike | None = None,
    threads: int | None = None,
) -> Rows:
    """Group entries by the rows of one mode. ``columns`` is (order, n) of integers."""
    n, asked = columns.shape[1], thread_count(threads)
    rows = _allocate(tuple(shape), mode, n, np.dtype(dtype) if dtype is not None else values.dtype)
    if n <= SMALL:
        return _place(rows, np.lexsort((columns[rows.sorted_by], columns[mode])), columns[mode], columns, values)
    stretches = ranges(n, asked)
    order = np.empty(n, dtype=np.int32 if n < 2**31 else np.int64)
    by, key, others = columns[rows.sorted_by], columns[mode], np.array(rows.others)
    with workers(asked) as run:
        positions = np.zeros((len(stretches), shape[rows.sorted_by]), dtype=np.int64)
        run([partial(count_column, by, a, b, positions[t]) for t, (a, b) in enumerate(stretches)])
        start_positions(positions, np.empty(positions.shape[1] + 1, dtype=np.int64))
        run([partial(order_by, by, a, b, positions[t], order) for t, (a, b) in enumerate(stretches)])
        positions = np.zeros((len(stretches), shape[mode]), dtype=np.int64)
        run([partial(_count_ordered, order, key, a, b, positions[t]) for t, (a, b) in enumerate(stretches)])
        start_positions(positions, rows.pointers)
        source, target = (order, key, columns, values), (others, rows.coords, rows.values)
        run([partial(_move_ordered, *source, a, b, positions[t], *target) for t, (a, b) in enumerate(stretches)])
    return rows


def build_all_rows(
    columns: Array,
    values: Array,
    shape: tuple[int, ...],
    dtype: DTypeLike | None = None,
    threads: int | None = None,
) -> tuple[Rows, ...]:
    """Group entries by the rows of every mode: the same as :func:`build_rows` per mode, in less time."""
    largest = max(range(len(shape)), key=lambda m: (shape[m], -m))
    base = build_rows(columns, values, shape, largest, dtype, threads)
    return tuple(base if m == largest else _regroup(base, m, thread_count(threads)) for m in range(len(shape)))


def _allocate(shape: tuple[int, ...], mode: int, n: int, dtype: np.dtype[Any]) -> Rows:
    others = tuple(m for m in range(len(shape)) if m != mode)
    small = all(shape[m] <= UINT16 for m in others)
    return Rows(
        shape=shape,
        mode=mode,
        others=others,
        sorted_by=max(others, key=lambda m: (shape[m], -m)),
        pointers=np.empty(shape[mode] + 1, dtype=np.int64),
        coords=np.empty((len(others), n), dtype=np.uint16 if small else np.int32),
        values=np.empty(n, dtype=dtype),
    )


def _place(rows: Rows, order: Array, key: Array, columns: Array, values: Array) -> Rows:
    """Write the entries in a settled order, which groups them by their row."""
    rows.pointers[0] = 0
    np.cumsum(np.bincount(key, minlength=len(rows.pointers) - 1), out=rows.pointers[1:])
    rows.coords[:] = columns[list(rows.others)][:, order]
    rows.values[:] = values[order]
    return rows


def _regroup(base: Rows, mode: int, threads: int) -> Rows:
    """Group by another mode; reading the largest mode in order leaves every row sorted by it."""
    rows = _allocate(base.shape, mode, base.n_entries, base.values.dtype)
    key = base.coords[base.others.index(mode)]
    if base.n_entries <= SMALL:
        columns = np.empty((len(base.shape), base.n_entries), dtype=np.int32)
        columns[base.mode] = np.repeat(np.arange(base.shape[base.mode]), np.diff(base.pointers))
        columns[list(base.others)] = base.coords
        return _place(rows, np.argsort(key, kind="stable"), key, columns, base.values)
    # Where to find the new row's coordinates in the old one; -1 stands for the number of the old row itself.
    source = np.array([-1 if m == base.mode else base.others.index(m) for m in rows.others])
    pieces = cut_evenly(base.pointers, threads)
    positions = np.zeros((len(pieces), base.shape[mode]), dtype=np.int64)
    ends = [(int(base.pointers[a]), int(base.pointers[b])) for a, b in pieces]
    with workers(threads) as run:
        run([partial(count_column, key, a, b, positions[t]) for t, (a, b) in enumerate(ends)])
        start_positions(positions, rows.pointers)
        old, new = (base.pointers, key, base.coords, base.values), (source, rows.coords, rows.values)
        run([partial(_move_rows, *old, a, b, positions[t], *new) for t, (a, b) in enumerate(pieces)])
    return rows


@kernel()
def _count_ordered(order: Array, column: Array, low: int, high: int, counts: Array) -> None:
    for q in range(low, high):
        counts[column[order[q]]] += 1


@kernel()
def _move_ordered(
    order: Array, key: Array, columns: Array, values: Array, low: int, high: int, positions: Array, source: Array,
    coords: Array, target: Array,
) -> None:  # fmt: skip
    for q in range(low, high):
        p = order[q]
        row = key[p]
        place = positions[row]
        positions[row] = place + 1
        for k in range(len(source)):
            coords[k, place] = columns[source[k], p]
        target[place] = values[p]


@kernel()
def _move_rows(
    pointers: Array, key: Array, columns: Array, values: Array, low: int, high: int, positions: Array, source: Array,
    coords: Array, target: Array,
) -> None:  # fmt: skip
    for i in range(low, high):
        for p in range(pointers[i], pointers[i + 1]):
            row = key[p]
            place = positions[row]
            positions[row] = place + 1
            for k in range(len(source)):
                coords[k, place] = i if source[k] < 0 else columns[source[k], p]
            target[place] = values[p]
