"""The one bound: whatever is summed under noise passes here, whole, and leaves as integers of a known length.

A sensitivity that is derived from how a contribution is computed holds only if nothing goes wrong on the way: a length
that underflows, a scale that is negative, a square that wraps around. Here none of this matters. The numbers that are
added are integers, their squares are added in integers that cannot wrap, and what would be too long is shortened until
it is not. So the sensitivity is ``limit`` for whatever comes in, and a new statistic cannot get it wrong.

What a contribution becomes depends on its own numbers alone, down to the last bit: not on what stands beside it.

Legend
    numbers, count     a contribution: its first ``count`` numbers
    per_unit, limit    grid steps per unit; greatest length of a contribution, in grid steps
    room               the length to which floats are shortened: rounding adds at most half a step per number
    rows, times        (n, d) contributions; a number per row that multiplies it
    groups, out        where each row is added; (groups, d) integers
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]

# Squares of integers up to this, and the sum of two such squares, fit into 64 bits.
MOST_STEPS = 1 << 30


@kernel()
def bound_whole(numbers: Array, count: int, per_unit: float, limit: int, out: Array) -> None:
    """Write a contribution in grid steps, rounded and of a length of at most ``limit``, into out[:count].

    What is not sound is left out, as a whole: numbers that are not finite, or so large that their squares are not, and
    scales that are not positive or so large that they would turn lengths that underflow into steps.
    """
    square = 0.0
    for k in range(count):
        square += float(numbers[k]) * float(numbers[k])
    length = math.sqrt(square) * per_unit
    room = limit - 1.0 - 0.5 * math.sqrt(count)
    # Every comparison is false for NaN.
    if not (0.0 < per_unit < 1e100 and length < 1e300 and room > 0.0 and limit <= MOST_STEPS):
        for k in range(count):
            out[k] = 0
        return
    factor = per_unit if length <= room else per_unit * (room / length)
    while not _write_steps(numbers, count, factor, limit, out):
        factor *= 0.999


@kernel()
def _write_steps(numbers: Array, count: int, factor: float, limit: int, out: Array) -> bool:
    """Round numbers times a factor into out[:count]; tell whether their length, in integers, is within the limit."""
    total = np.int64(0)
    for k in range(count):
        steps = float(numbers[k]) * factor
        if not -limit <= steps <= limit:  # before it becomes an integer, which it might not fit
            return False
        whole = np.int64(np.rint(steps))
        out[k] = whole
        total += whole * whole  # at most 2 limit^2, because it is looked at each time
        if total > limit * limit:
            return False
    return True


@kernel()
def add_bounded_rows(rows: Array, times: Array, groups: Array, per_unit: float, limit: int, out: Array) -> None:
    """Add each row, times its number, to its group's sums, every row bounded as a whole."""
    d = rows.shape[1]
    numbers, steps = np.empty(d), np.empty(d, dtype=np.int64)
    for i in range(len(rows)):
        for k in range(d):
            numbers[k] = rows[i, k] * times[i]
        bound_whole(numbers, d, per_unit, limit, steps)
        at = groups[i]
        for k in range(d):
            out[at, k] += steps[k]


@kernel()
def add_pair_products(numbers: Array, groups: Array, counts: Array, per_unit: float, limit: int) -> np.int64:
    """Return the sum over groups of all products of two different numbers, over the group's count less one, as steps^2.

    One number appears in its group only, in 2 a (sum of the others) / (count - 1), rounded down: changing it moves the
    result by at most 4 limit^2 + 1. Groups so large that squares of their sums might wrap are left out; how large a
    group is, is public.
    """
    sums, squares = np.zeros(len(counts), dtype=np.int64), np.zeros(len(counts), dtype=np.int64)
    number, steps = np.empty(1), np.empty(1, dtype=np.int64)
    for i in range(len(numbers)):
        number[0] = numbers[i]
        bound_whole(number, len(number), per_unit, limit, steps)
        sums[groups[i]] += steps[0]
        squares[groups[i]] += steps[0] * steps[0]
    total = np.int64(0)
    for group in range(len(counts)):
        if counts[group] > 1 and counts[group] * limit < MOST_STEPS:
            total += (sums[group] * sums[group] - squares[group]) // (counts[group] - 1)
    return total


def combine_pair_products(sums: Array, squares: Array, counts: Array, limit: int) -> int:
    """Return what `add_pair_products` does, from sums of numbers and of their squares by group."""
    kept = (counts > 1) & (counts * limit < MOST_STEPS)
    return int(np.sum((sums[kept] ** 2 - squares[kept]) // (counts[kept] - 1)))


@kernel()
def gather_bounded(numbers: Array, groups: Array, per_unit: float, limit: int, sums: Array, squares: Array) -> None:
    """Add each number, bounded and as an integer, and its square to its group's sums."""
    number, steps = np.empty(1), np.empty(1, dtype=np.int64)
    for i in range(len(numbers)):
        number[0] = numbers[i]
        bound_whole(number, len(number), per_unit, limit, steps)
        sums[groups[i]] += steps[0]
        squares[groups[i]] += steps[0] * steps[0]


def add_entry_products(numbers: Array, groups: Array, n_groups: int, per_unit: float, limit: int) -> int:
    """Return what `add_pair_products` does, for groups of which nothing is public: one number is added or removed.

    Of c numbers with the sum S and Q as the sum of squares, a group has (S^2 - Q) / (c - 1), rounded down. One number
    a more makes that (S^2 - Q + 2 a S) / c: at most 2 limit^2 for 2 a S / c, and limit^2 for the other divisor, because
    S^2 - Q is at most c (c - 1) limit^2 in size. So the result moves by at most 3 limit^2 + 1. No group is left out.
    """
    return combine_entry_products(*gather_entry_products(numbers, groups, n_groups, per_unit, limit), limit)


def gather_entry_products(
    numbers: Array, groups: Array, n_groups: int, per_unit: float, limit: int
) -> tuple[Array, Array, Array]:
    """Return, by group, the sum of bounded numbers, that of their squares, and how many there are.

    All three add up over parts of the entries.
    """
    sums, squares = np.zeros(n_groups, dtype=np.int64), np.zeros(n_groups, dtype=np.int64)
    gather_bounded(numbers, groups, per_unit, limit, sums, squares)
    return sums, squares, np.bincount(groups, minlength=n_groups).astype(np.int64)


def combine_entry_products(sums: Array, squares: Array, counts: Array, limit: int) -> int:
    """Return the sum of products over pairs of entries of a group, over its count less one."""
    small = (counts > 1) & (counts * limit < MOST_STEPS)
    total = int(np.sum((sums[small] ** 2 - squares[small]) // (counts[small] - 1)))
    for at in np.flatnonzero((counts > 1) & ~small):  # few: their squares might not fit into 64 bits
        total += (int(sums[at]) ** 2 - int(squares[at])) // (int(counts[at]) - 1)
    return total
