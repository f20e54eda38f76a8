"""Sums over users in which no user weighs more than declared: compiled, in whole numbers, for any number of threads.

A user's entries that fall into the same row of a mode add up before lengths are measured: this is what a user
contributes, and a bound on single entries would miss it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]


@kernel()
def slice_norms(pointers: Array, columns: Array, offsets: Array, scales: Array, scratch: Array, out: Array) -> None:
    """Write, for every user, the length of its numbers of entries per row, mode m scaled by scales[m].

    ``scratch`` has a place per row of all modes and is left at zero, as it came.
    """
    for i in range(len(pointers) - 1):
        total = 0.0
        for m in range(len(offsets)):
            square = 0.0
            for p in range(pointers[i], pointers[i + 1]):
                scratch[offsets[m] + columns[m, p]] += 1.0
            for p in range(pointers[i], pointers[i + 1]):
                at = offsets[m] + columns[m, p]
                square += scratch[at] * scratch[at]
                scratch[at] = 0.0
            total += scales[m] * scales[m] * square
        out[i] = math.sqrt(total)


@kernel()
def add_bounded(
    pointers: Array, columns: Array, offsets: Array, scales: Array, width: int, parts: Array, own: Array,
    per_unit: float, limit: int, scratch: Array, touched: Array, out: Array,
) -> None:  # fmt: skip
    """Add every user's contribution to ``out``, in grid steps, shortened to a length of at most ``limit``.

    Entry p adds scales[m] * parts[p] (``width`` numbers) to its row of every mode m; ``own`` holds further numbers per
    user, which come last. Numbers are cut off towards zero, so that rounding makes nothing longer; and the length is
    checked again in whole numbers, which have no rounding errors. ``scratch`` is as long as ``out`` and stays zero;
    ``touched`` has room for the rows of the user with the most entries, all modes together.
    """
    tail = len(out) - own.shape[1]
    for i in range(len(pointers) - 1):
        rows, square = 0, 0.0
        for m in range(len(offsets)):
            for p in range(pointers[i], pointers[i + 1]):
                at = (offsets[m] + columns[m, p]) * width
                touched[rows] = at
                rows += 1
                for k in range(width):
                    scratch[at + k] += scales[m] * parts[p, k]
        for k in range(own.shape[1]):
            square += own[i, k] * own[i, k]
        square += _squares_once(scratch, touched, rows, width)
        length = math.sqrt(square) * per_unit
        sound = length < 1e300  # false also for what is no number: such a contribution is left out
        factor = per_unit if length <= limit - 1.0 else per_unit * ((limit - 1.0) / length)
        while sound and _whole_squares(scratch, touched, rows, width, own[i], factor) > limit * limit:
            factor *= 0.999
        for q in range(rows):
            for k in range(touched[q], touched[q] + width):
                if sound:
                    out[k] += np.int64(scratch[k] * factor)
                scratch[k] = 0.0
        if sound:
            for k in range(own.shape[1]):
                out[tail + k] += np.int64(own[i, k] * factor)


@kernel()
def _squares_once(scratch: Array, touched: Array, rows: int, width: int) -> float:
    """Sum the squares of all touched numbers, each once; touched rows are sorted, so that repeats are neighbours."""
    total, last = 0.0, np.int64(-1)
    touched[:rows].sort()
    for q in range(rows):
        if touched[q] != last:
            last = touched[q]
            for k in range(last, last + width):
                total += scratch[k] * scratch[k]
    return total


@kernel()
def _whole_squares(scratch: Array, touched: Array, rows: int, width: int, own: Array, factor: float) -> Any:
    """Sum the squares of the whole numbers that would be added; ``touched`` is sorted."""
    total, last = np.int64(0), np.int64(-1)
    for q in range(rows):
        if touched[q] != last:
            last = touched[q]
            for k in range(last, last + width):
                number = np.int64(scratch[k] * factor)
                total += number * number
    for k in range(len(own)):
        number = np.int64(own[k] * factor)
        total += number * number
    return total


@kernel()
def ridge_users(pointers: Array, design: Array, target: Array, precision: Array, mean: Array, out: Array) -> None:
    """Solve (X'X + P) w = X'y + P mean for every user: ``design`` holds X by entry, ``precision`` is P."""
    d = design.shape[1]
    G, x = np.empty((d, d)), np.empty(d)
    start = precision @ mean
    for i in range(len(pointers) - 1):
        G[:] = precision
        x[:] = start
        for p in range(pointers[i], pointers[i + 1]):
            for a in range(d):
                h = design[p, a]
                x[a] += h * target[p]
                for b in range(a + 1):
                    G[a, b] += h * design[p, b]
        _solve_in_place(G, x)
        out[i] = x


@kernel()
def _solve_in_place(G: Array, x: Array) -> None:
    """Solve G x = x for a positive definite G, of which the lower triangle is read; both are overwritten."""
    d = len(x)
    for a in range(d):
        for b in range(a + 1):
            s = G[a, b]
            for k in range(b):
                s -= G[a, k] * G[b, k]
            if a == b:
                G[a, a] = math.sqrt(max(s, 1e-300))
            else:
                G[a, b] = s / G[b, b]
        s = x[a]
        for k in range(a):
            s -= G[a, k] * x[k]
        x[a] = s / G[a, a]
    for a in range(d - 1, -1, -1):
        s = x[a]
        for k in range(a + 1, d):
            s -= G[k, a] * x[k]
        x[a] = s / G[a, a]
