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
    d               number of coefficients; design (n, d) and target (n,) of all entries
    G, B            (d, d) X'X + P, which becomes its Cholesky factor; its inverse
    w, s, x         (d,) solution; right-hand side or B x_p
    P, precision, mean, start   prior of the coefficients, and P mean

Threads own ranges of users and a total each (rounds/sums.py); totals are integers, so that they add up to the same in
any order and for any split of the users.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
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
def ridge_users(pointers: Array, design: Array, target: Array, precision: Array, mean: Array, out: Array) -> None:
    """Solve (X'X + P) w = X'y + P mean for every user: ``design`` holds X by entry, ``precision`` is P."""
    d = design.shape[1]
    G, B, x, w, start = np.empty((d, d)), np.empty((d, d)), np.empty(d), np.empty(d), np.empty(d)
    _times(precision, mean, start)
    for i in range(len(pointers) - 1):
        _normal_equations(design, target, pointers[i], pointers[i + 1], precision, start, G, x)
        _inverse(G, B)
        _times(B, x, w)
        for a in range(d):
            out[i, a] = w[a]


@user_kernel
def ridge_residuals(pointers: Array, design: Array, target: Array, precision: Array, mean: Array, left: Array) -> None:
    """Write the targets less what every user's ridge regression explains of them."""
    d = design.shape[1]
    G, B, s, w, start = np.empty((d, d)), np.empty((d, d)), np.empty(d), np.empty(d), np.empty(d)
    _times(precision, mean, start)
    for i in range(len(pointers) - 1):
        _normal_equations(design, target, pointers[i], pointers[i + 1], precision, start, G, s)
        _inverse(G, B)
        _times(B, s, w)
        for p in range(pointers[i], pointers[i + 1]):
            explained = 0.0
            for a in range(d):
                explained += w[a] * design[p, a]
            left[p] = target[p] - explained


@user_kernel
def leave_one_out(
    pointers: Array, design: Array, target: Array, precision: Array, mean: Array, first: int, out: Array, left: Array
) -> None:
    """Solve every user's ridge regression without entry p, for every p: coefficients from ``first`` on into out[p].

    left[p] is the target less what the coefficients before ``first`` explain of it. One factorisation serves all of a
    user's entries: without p the solution is w - A^-1 x_p r_p / (1 - h_p), h_p = x_p' A^-1 x_p.
    """
    d = design.shape[1]
    G, B, w, s, start = np.empty((d, d)), np.empty((d, d)), np.empty(d), np.empty(d), np.empty(d)
    _times(precision, mean, start)
    for i in range(len(pointers) - 1):
        low, high = pointers[i], pointers[i + 1]
        _normal_equations(design, target, low, high, precision, start, G, s)
        _inverse(G, B)
        _times(B, s, w)
        for p in range(low, high):
            explained, leverage = 0.0, 0.0
            _add_columns(B, design[p], s)
            for a in range(d):
                leverage += s[a] * design[p, a]
                explained += w[a] * design[p, a]
            step = (target[p] - explained) / max(1.0 - leverage, 1e-6)
            before = 0.0
            for a in range(first):
                before += (w[a] - s[a] * step) * design[p, a]
            left[p] = target[p] - before
            for a in range(first, d):
                out[p, a - first] = w[a] - s[a] * step


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
def to_unit_length(rows: Array) -> None:
    """Divide every row by its length, in place; rows of zeros stay."""
    for p in range(len(rows)):
        square = 0.0
        for k in range(rows.shape[1]):
            square += rows[p, k] * rows[p, k]
        if square > 0.0:
            length = math.sqrt(square)
            for k in range(rows.shape[1]):
                rows[p, k] /= length


@user_kernel
def sum_by_user(pointers: Array, numbers: Array, out: Array) -> None:
    """Sum numbers per entry by user, in order."""
    for i in range(len(pointers) - 1):
        total = 0.0
        for p in range(pointers[i], pointers[i + 1]):
            total += numbers[p]
        out[i] = total


@user_kernel
def standardise(design: Array, root: Array, mean: Array, target: Array, out: Array) -> None:
    """Write design times root, and take design times mean off the target, in place."""
    d = len(mean)
    for p in range(len(design)):
        for b in range(d):
            out[p, b] = 0.0
        for a in range(d):
            x = design[p, a]
            target[p] -= x * mean[a]
            for b in range(a + 1):  # root is lower triangular
                out[p, b] += x * root[a, b]


@user_kernel
def taste_moments(
    pointers: Array, design: Array, target: Array, spread: float, tastes: Array, moments: Array, errors: Array
) -> None:
    """Write every user's posterior of standardised tastes z ~ N(0, 1), residuals having variance ``spread``.

    tastes[i] = mean of z, moments[i] = packed lower triangle of E[zz'], errors[i] = mean squared residual over spread,
    and the share of the entries that the tastes leave free.
    """
    d = design.shape[1]
    G, B, w, s, start = np.empty((d, d)), np.empty((d, d)), np.empty(d), np.empty(d), np.zeros(d)
    precision = np.zeros((d, d))
    for a in range(d):
        precision[a, a] = spread
    for i in range(len(pointers) - 1):
        low, high = pointers[i], pointers[i + 1]
        n = high - low
        _normal_equations(design, target, low, high, precision, start, G, s)
        _inverse(G, B)
        _times(B, s, w)
        at, free = 0, float(n - d)
        for a in range(d):
            tastes[i, a] = w[a]
            free += spread * B[a, a]
            for b in range(a + 1):
                moments[i, at] = w[a] * w[b] + spread * B[a, b]
                at += 1
        square = 0.0
        for p in range(low, high):
            explained = 0.0
            for a in range(d):
                explained += w[a] * design[p, a]
            square += (target[p] - explained) ** 2
        errors[i, 0] = square / (n * spread)
        errors[i, 1] = free / n


@user_kernel
def _times(matrix: Array, vector: Array, out: Array) -> None:
    for a in range(len(matrix)):
        total = 0.0
        for b in range(len(vector)):
            total += matrix[a, b] * vector[b]
        out[a] = total


@user_kernel
def _normal_equations(
    design: Array, target: Array, low: int, high: int, precision: Array, start: Array, G: Array, x: Array
) -> None:
    """Write X'X + P (lower triangle) and X'y + start for the entries from low to high."""
    d = design.shape[1]
    # Number by number: an assignment of arrays compiles the words of the error that it may raise, for seconds.
    for a in range(d):
        x[a] = start[a]
        for b in range(a + 1):
            G[a, b] = precision[a, b]
    whole = low + (high - low) // 4 * 4
    for p in range(low, whole, 4):
        for a in range(d):
            h0, h1, h2, h3 = design[p, a], design[p + 1, a], design[p + 2, a], design[p + 3, a]
            x[a] = (((x[a] + h0 * target[p]) + h1 * target[p + 1]) + h2 * target[p + 2]) + h3 * target[p + 3]
            for b in range(a + 1):
                early = (G[a, b] + h0 * design[p, b]) + h1 * design[p + 1, b]
                G[a, b] = (early + h2 * design[p + 2, b]) + h3 * design[p + 3, b]
    for p in range(whole, high):
        for a in range(d):
            h = design[p, a]
            x[a] += h * target[p]
            for b in range(a + 1):
                G[a, b] += h * design[p, b]


@user_kernel
def _add_columns(B: Array, x: Array, out: Array) -> None:
    """Write B x for a symmetric matrix B, column by column, which compilers vectorise."""
    d = len(out)
    out[:] = 0.0
    whole = d // 4 * 4
    for b in range(0, whole, 4):
        for a in range(d):
            early = (out[a] + B[b, a] * x[b]) + B[b + 1, a] * x[b + 1]
            out[a] = (early + B[b + 2, a] * x[b + 2]) + B[b + 3, a] * x[b + 3]
    for b in range(whole, d):
        for a in range(d):
            out[a] += B[b, a] * x[b]


@user_kernel
def _inverse(G: Array, out: Array) -> None:
    """Write the inverse of a positive definite matrix, of which the lower triangle is read and overwritten."""
    # Every element takes its terms in the order of the textbook's sums, one after the other, but whole rows of elements
    # take a term at a time: a sum waits for each of its additions, a row does not.
    d = len(G)
    column = np.empty(d)
    for k in range(d):  # Cholesky's factor L
        G[k, k] = math.sqrt(max(G[k, k], 1e-300))
        for a in range(k + 1, d):
            G[a, k] /= G[k, k]
            column[a] = G[a, k]
        for a in range(k + 1, d):
            for b in range(k + 1, a + 1):
                G[a, b] -= column[a] * column[b]
    for a in range(d):  # its inverse, in place
        column[:a] = 0.0
        for k in range(a):
            for b in range(k + 1):
                column[b] -= G[a, k] * G[k, b]
        for b in range(a):
            G[a, b] = column[b] / G[a, a]
        G[a, a] = 1.0 / G[a, a]
    out[:] = 0.0
    for k in range(d):
        for a in range(k + 1):
            for b in range(a + 1):
                out[a, b] += G[k, a] * G[k, b]
    for a in range(d):
        for b in range(a):
            out[b, a] = out[a, b]


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
