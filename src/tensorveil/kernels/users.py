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
    G, B, x = np.empty((d, d)), np.empty((d, d)), np.empty(d)
    start = precision @ mean
    for i in range(len(pointers) - 1):
        _normal_equations(design, target, pointers[i], pointers[i + 1], precision, start, G, x)
        _inverse(G, B)
        for a in range(d):
            out[i, a] = 0.0
            for b in range(d):
                out[i, a] += B[a, b] * x[b]


@kernel()
def leave_one_out(
    pointers: Array, design: Array, target: Array, precision: Array, mean: Array, first: int, out: Array, left: Array
) -> None:
    """Solve every user's ridge regression without entry p, for every p: coefficients from ``first`` on into out[p].

    left[p] is the target less what the coefficients before ``first`` explain of it. One factorisation serves all of a
    user's entries: without p the solution is w - A^-1 x_p r_p / (1 - h_p), h_p = x_p' A^-1 x_p.
    """
    d = design.shape[1]
    G, B, w, s = np.empty((d, d)), np.empty((d, d)), np.empty(d), np.empty(d)
    start = precision @ mean
    for i in range(len(pointers) - 1):
        low, high = pointers[i], pointers[i + 1]
        _normal_equations(design, target, low, high, precision, start, G, w)
        _inverse(G, B)
        for a in range(d):
            s[a] = w[a]
        for a in range(d):
            w[a] = 0.0
            for b in range(d):
                w[a] += B[a, b] * s[b]
        for p in range(low, high):
            explained, leverage = 0.0, 0.0
            for a in range(d):
                total = 0.0
                for b in range(d):
                    total += B[a, b] * design[p, b]
                s[a] = total
                leverage += total * design[p, a]
                explained += w[a] * design[p, a]
            step = (target[p] - explained) / max(1.0 - leverage, 1e-6)
            before = 0.0
            for a in range(first):
                before += (w[a] - s[a] * step) * design[p, a]
            left[p] = target[p] - before
            for a in range(first, d):
                out[p, a - first] = w[a] - s[a] * step


@kernel()
def taste_moments(
    pointers: Array, design: Array, target: Array, precision: Array, spread: float, tastes: Array, moments: Array,
    errors: Array,
) -> None:  # fmt: skip
    """Write every user's posterior of standardised tastes z ~ N(0, 1), whose ridge matrix is ``precision``.

    tastes[i] = mean of z, moments[i] = packed lower triangle of E[zz'], errors[i] = mean squared residual over spread,
    and the share of the entries that the tastes leave free.
    """
    d = design.shape[1]
    G, B, w, s, start = np.empty((d, d)), np.empty((d, d)), np.empty(d), np.empty(d), np.zeros(d)
    for i in range(len(pointers) - 1):
        low, high = pointers[i], pointers[i + 1]
        n = high - low
        _normal_equations(design, target, low, high, precision, start, G, s)
        _inverse(G, B)
        for a in range(d):
            w[a] = 0.0
            for b in range(d):
                w[a] += B[a, b] * s[b]
            tastes[i, a] = w[a]
        at, free = 0, float(n - d)
        for a in range(d):
            for b in range(a + 1):
                moments[i, at] = w[a] * w[b] + spread * B[a, b]
                at += 1
            for b in range(d):
                free += B[a, b] * precision[a, b]
        square = 0.0
        for p in range(low, high):
            explained = 0.0
            for a in range(d):
                explained += w[a] * design[p, a]
            square += (target[p] - explained) ** 2
        errors[i, 0] = square / (n * spread)
        errors[i, 1] = free / n


@kernel()
def _normal_equations(
    design: Array, target: Array, low: int, high: int, precision: Array, start: Array, G: Array, x: Array
) -> None:
    """Write X'X + P (lower triangle) and X'y + start for the entries from low to high."""
    d = design.shape[1]
    G[:] = precision
    x[:] = start
    for p in range(low, high):
        for a in range(d):
            h = design[p, a]
            x[a] += h * target[p]
            for b in range(a + 1):
                G[a, b] += h * design[p, b]


@kernel()
def _inverse(G: Array, out: Array) -> None:
    """Write the inverse of a positive definite matrix, of which the lower triangle is read and overwritten."""
    d = len(G)
    for a in range(d):  # Cholesky's factor L
        for b in range(a + 1):
            s = G[a, b]
            for k in range(b):
                s -= G[a, k] * G[b, k]
            G[a, b] = math.sqrt(max(s, 1e-300)) if a == b else s / G[b, b]
    for b in range(d):  # its inverse, in place
        G[b, b] = 1.0 / G[b, b]
        for a in range(b + 1, d):
            s = 0.0
            for k in range(b, a):
                s -= G[a, k] * G[k, b]
            G[a, b] = s / G[a, a]
    for a in range(d):
        for b in range(a + 1):
            s = 0.0
            for k in range(a, d):
                s += G[k, a] * G[k, b]
            out[a, b] = s
            out[b, a] = s


@kernel()
def count_pairs(pointers: Array, keys: Array, out: Array) -> None:
    """Write, for every user, how many pairs of its entries have equal keys; keys are sorted within users."""
    for i in range(len(pointers) - 1):
        total, run = 0, 0
        for p in range(pointers[i], pointers[i + 1]):
            run = run + 1 if p > pointers[i] and keys[p] == keys[p - 1] else 0
            total += run
        out[i] = total


@kernel()
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
