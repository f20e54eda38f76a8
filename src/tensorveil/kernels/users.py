"""Sums over users in which no user weighs more than declared: compiled, in whole numbers, for any number of threads.

A user's entries that fall into the same row of a mode add up before lengths are measured: this is what a user
contributes, and a bound on single entries would miss it.

Whatever enters a contribution is computed here, user by user, or by numpy element by element: never by BLAS, whose last
digits may depend on which other users stand in the same array. A user's contribution must be a function of the user's
entries and the public state alone, to the last bit.

Legend
    i, p            user; entry (those of user i are pointers[i] .. pointers[i + 1])
    columns, offsets   (released modes, n) coordinates; where the rows of a mode begin among all rows
    row, at         number of a row among all released modes; where its ``width`` numbers begin
    scales          per row, what its numbers are multiplied with
    per_unit, limit   grid steps per unit; greatest length of a contribution, in grid steps
    touched, rows, places   the rows that a user touches, each once; how many; which of them a row is, or -1
    numbers, steps  a user's whole contribution, before and after it is bounded (kernels/bounding.py)

Threads own ranges of users and a total each (rounds/sums.py); totals are integers, so that they add up to the same in
any order and for any split of the users.
"""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from tensorveil.kernels.bounding import bound_whole
from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]

# A division by zero gives no number and no exception: whatever goes wrong for one user is that user's alone, and its
# contribution is left out where it is bounded.
user_kernel = kernel(error_model="numpy")


@user_kernel
def slice_norms(pointers: Array, columns: Array, offsets: Array, scales: Array, scratch: Array, out: Array) -> None:
    """Write, for every user, the length of its numbers of entries per row, every row with its scale.

    ``scratch`` has a place per row of all modes and is left at zero, as it came.
    """
    for i in range(len(pointers) - 1):
        total = 0.0
        for m in range(len(offsets)):
            for p in range(pointers[i], pointers[i + 1]):
                scratch[offsets[m] + columns[m, p]] += 1.0
            for p in range(pointers[i], pointers[i + 1]):
                at = offsets[m] + columns[m, p]
                total += (scales[at] * scratch[at]) ** 2
                scratch[at] = 0.0
        out[i] = math.sqrt(total)


@user_kernel
def add_bounded(
    pointers: Array, columns: Array, offsets: Array, scales: Array, width: int, parts: Array, own: Array,
    per_unit: float, limit: int, places: Array, touched: Array, numbers: Array, steps: Array, out: Array,
) -> None:  # fmt: skip
    """Add every user's contribution to ``out``, in grid steps, bounded as a whole to a length of at most ``limit``.

    Entry p adds parts[p] (``width`` numbers), times the row's scale, to its row of every mode; ``own`` holds further
    numbers per user, which come last. ``places`` has a -1 per row and is left so; ``touched``, ``numbers`` and
    ``steps`` have room for the user with the most entries.
    """
    # Only the rows that a user touches are gathered, in the order of the user's entries: a user costs as much as it has
    # entries, and its numbers stand in an order that is its own.
    tail, more = len(out) - own.shape[1], own.shape[1]
    for i in range(len(pointers) - 1):
        rows = _gather(pointers[i], pointers[i + 1], columns, offsets, scales, width, parts, places, touched, numbers)
        count = rows * width
        for k in range(more):
            numbers[count + k] = own[i, k]
        bound_whole(numbers, count + more, per_unit, limit, steps)
        for q in range(rows):
            at = touched[q] * width
            for k in range(width):
                out[at + k] += steps[q * width + k]
            places[touched[q]] = -1
        for k in range(more):
            out[tail + k] += steps[count + k]


@user_kernel
def _gather(
    low: int, high: int, columns: Array, offsets: Array, scales: Array, width: int, parts: Array, places: Array,
    touched: Array, numbers: Array,
) -> int:  # fmt: skip
    """Sum a user's parts by row into ``numbers``, row touched[0] first; return how many rows there are."""
    rows = 0
    for m in range(len(offsets)):
        for p in range(low, high):
            row = offsets[m] + columns[m, p]
            if places[row] < 0:
                places[row] = rows
                touched[rows] = row
                for k in range(width):
                    numbers[rows * width + k] = 0.0
                rows += 1
            at = places[row] * width
            for k in range(width):
                numbers[at + k] += scales[row] * parts[p, k]
    return rows


@user_kernel
def multiply_rows(left: Array, basis: Array, column: Array, out: Array) -> None:
    """Write, for every entry, the products of what it has so far with its row of a basis, whose index is fastest."""
    width = basis.shape[1]
    for p in range(len(column)):
        row = column[p]
        for a in range(left.shape[1]):
            x, at = left[p, a], a * width
            for b in range(width):
                out[p, at + b] = x * basis[row, b]


@user_kernel
def mix_columns(rows: Array, mixing: Array, out: Array) -> None:
    """Write rows times mixing, row by row, so that no row depends on which others are there."""
    for p in range(len(rows)):
        for b in range(mixing.shape[1]):
            out[p, b] = 0.0
        for a in range(len(mixing)):
            x = rows[p, a]
            for b in range(mixing.shape[1]):
                out[p, b] += x * mixing[a, b]


@user_kernel
def sum_by_user(pointers: Array, numbers: Array, out: Array) -> None:
    """Sum numbers per entry by user, in order."""
    for i in range(len(pointers) - 1):
        total = 0.0
        for p in range(pointers[i], pointers[i + 1]):
            total += numbers[p]
        out[i] = total


@user_kernel
def count_pairs(pointers: Array, keys: Array, out: Array) -> None:
    """Write, for every user, how many pairs of its entries have equal keys; keys are sorted within users."""
    for i in range(len(pointers) - 1):
        total, run = 0, 0
        for p in range(pointers[i], pointers[i + 1]):
            run = run + 1 if p > pointers[i] and keys[p] == keys[p - 1] else 0
            total += run
        out[i] = total


@user_kernel
def fill_pairs(pointers: Array, keys: Array, rows: Array, left: Array, places: Array, products: Array) -> None:
    """Write, for every pair of equal keys, its place in the packed lower triangle and the product of ``left``."""
    at = 0
    for i in range(len(pointers) - 1):
        for p in range(pointers[i], pointers[i + 1]):
            q = p - 1
            while q >= pointers[i] and keys[q] == keys[p]:
                a, b = max(rows[p], rows[q]), min(rows[p], rows[q])
                places[0, at] = a * (a + 1) // 2 + b
                products[at, 0] = left[p] * left[q]
                at += 1
                q -= 1
