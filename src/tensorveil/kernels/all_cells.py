"""Rows of a CP model fitted to all cells, of which most are zeros that nobody lists.

What all cells together say about a row follows from the other modes' factors: the sum of their designs is a product of
column sums, and the Gram matrix a product of Gram matrices (Hu, Koren and Volinsky 2008 for matrices). Listed cells
correct both. So the work goes with the listed cells, however many others there are.

Legend
    i, e            row of the mode; listed cell (of row i: pointers[i] .. pointers[i + 1])
    coords, begin   coordinates in the other modes, and where these modes begin in ``rows``
    rows, own       all factors one under the other (rows, R), and where this mode begins
    h, a            product of the other modes' rows; row i
    listed, left    weight of a listed cell less that of an unlisted one; the same for a cell that is left out, whose
                    value is NaN
    target          value of an unlisted cell, as the solver sees it, times its weight
    S, v            what all cells contribute: weight * Gram matrix + ridge, and weight * target * sum of designs
    p, q, s, z      conjugate gradients: direction, its image, residual, products with the designs
    den, m          sum of the weighted designs; linear part

Every row is solved by one thread, from sums in the order of its cells: the same bits for every number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]


@kernel(fastmath={"contract", "reassoc"})
def _design(coords: Array, begin: Array, rows: Array, e: int, h: Array) -> None:
    R = rows.shape[1]
    j = begin[0] + coords[0, e]
    for r in range(R):
        h[r] = rows[j, r]
    for k in range(1, coords.shape[0]):
        j = begin[k] + coords[k, e]
        for r in range(R):
            h[r] *= rows[j, r]


@kernel(fastmath={"contract", "reassoc"})
def _dot(x: Array, y: Array) -> Any:
    total = x[0] * y[0]
    for r in range(1, len(x)):
        total += x[r] * y[r]
    return total


@kernel(fastmath={"contract", "reassoc"})
def _times(S: Array, x: Array, out: Array) -> None:
    """Set out to S x, S symmetric, row by row of S so that memory is read in order."""
    R = len(x)
    for r in range(R):
        out[r] = 0
    for q in range(R):
        factor = x[q]
        for r in range(R):
            out[r] += factor * S[q, r]


@kernel(fastmath={"contract", "reassoc"})
def squares_rows(
    low: int, high: int, pointers: Array, coords: Array, values: Array, begin: Array, rows: Array, own: int,
    listed: float, left: float, target: float, S: Array, v: Array, steps: int,
) -> None:  # fmt: skip
    """Improve rows low..high by conjugate gradients on their weighted least squares (Takacs, Pilaszy, Tikk 2011)."""
    R = rows.shape[1]
    a, h, p = np.empty(R, rows.dtype), np.empty(R, rows.dtype), np.empty(R, rows.dtype)
    q, s = np.empty(R, rows.dtype), np.empty(R, rows.dtype)
    one = np.empty(1, rows.dtype)  # turns a number into the rows' own precision
    for i in range(low, high):
        start, end = pointers[i], pointers[i + 1]
        for r in range(R):
            a[r] = rows[own + i, r]
        _times(S, a, q)
        for r in range(R):
            s[r] = v[r] - q[r]
        for e in range(start, end):
            _design(coords, begin, rows, e, h)
            absent = np.isnan(values[e])
            weight = left if absent else listed
            one[0] = (0.0 if absent else values[e]) - target - weight * _dot(h, a)
            scale = one[0]
            for r in range(R):
                s[r] += scale * h[r]
        for r in range(R):
            p[r] = s[r]
        size = _dot(s, s)
        for _ in range(steps):
            if size < 1e-20:
                break
            _times(S, p, q)
            if listed != 0.0 or left != 0.0:
                for e in range(start, end):
                    _design(coords, begin, rows, e, h)
                    one[0] = (left if np.isnan(values[e]) else listed) * _dot(h, p)
                    scale = one[0]
                    for r in range(R):
                        q[r] += scale * h[r]
            one[0] = size / _dot(p, q)
            step = one[0]
            for r in range(R):
                a[r] += step * p[r]
                s[r] -= step * q[r]
            before, size = size, _dot(s, s)
            one[0] = size / before
            turn = one[0]
            for r in range(R):
                p[r] = s[r] + turn * p[r]
        for r in range(R):
            rows[own + i, r] = a[r]


@kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _slope(x: Array, h: Array, m: Array) -> tuple[float, float]:
    """Return what the cells' counts add to the first and the second derivative."""
    slope, bend = 0.0, 0.0
    for e in range(len(x)):
        share = h[e] / max(m[e], 1e-12)
        slope += x[e] * share
        bend += x[e] * share * share
    return slope, bend


@kernel(fastmath={"contract", "reassoc"})
def _shift(change: float, h: Array, m: Array) -> None:
    for e in range(len(m)):
        m[e] += change * h[e]


@kernel(fastmath={"contract", "reassoc"})
def counts_rows(
    low: int, high: int, pointers: Array, coords: Array, values: Array, begin: Array, rows: Array, own: int,
    listed: float, left: float, base: Array, ridge: float, rounds: int,
) -> None:  # fmt: skip
    """Improve non-negative rows of expected counts, one component after the other (Hsieh and Dhillon 2011).

    Minimises den . a - sum x log(h . a) + ridge / 2 |a|^2: each coordinate makes a Newton step, from which a second
    derivative that falls cannot lead beyond the minimum on the right; on the left a step takes at most nine tenths off.
    """
    R = rows.shape[1]
    longest = 0
    for i in range(low, high):
        longest = max(longest, pointers[i + 1] - pointers[i])
    h, den = np.empty(R, rows.dtype), np.empty(R)
    H, m, x = np.empty((R, longest)), np.empty(longest), np.empty(longest)
    for i in range(low, high):
        start, count = pointers[i], pointers[i + 1] - pointers[i]
        for r in range(R):
            den[r] = base[r]
        for e in range(count):
            _design(coords, begin, rows, start + e, h)
            absent = np.isnan(values[start + e])
            weight = left if absent else listed
            total = 0.0
            for r in range(R):
                den[r] += weight * h[r]
                total += h[r] * rows[own + i, r]
                H[r, e] = 0.0 if absent else h[r]
            m[e] = total
            x[e] = 0.0 if absent else values[start + e]
        known, part = x[:count], m[:count]
        for _ in range(rounds):
            for r in range(R):
                slope, bend = _slope(known, H[r, :count], part)
                old = rows[own + i, r]
                gradient = den[r] + ridge * old - slope
                if bend + ridge <= 0:
                    new = 0.1 * old if gradient > 0 else old
                else:
                    new = max(old - gradient / (bend + ridge), 0.1 * old)
                if new < 1e-12:
                    new = 1e-12
                rows[own + i, r] = new
                _shift(rows[own + i, r] - old, H[r, :count], part)


@kernel(fastmath={"contract", "reassoc"})
def judge_squares(
    low: int, high: int, pointers: Array, coords: Array, values: Array, begin: Array, rows: Array, own: int,
    target: float,
) -> tuple[float, float]:  # fmt: skip
    """Return the sums of (x - m)^2 over listed cells of rows low..high, and of (m - target)^2 over all that are here."""
    h = np.empty(rows.shape[1], rows.dtype)
    fit, both = 0.0, 0.0
    for i in range(low, high):
        for e in range(pointers[i], pointers[i + 1]):
            _design(coords, begin, rows, e, h)
            m = float(_dot(h, rows[own + i]))
            if not np.isnan(values[e]):
                fit += (values[e] - m) ** 2
            both += (m - target) ** 2
    return fit, both


@kernel(fastmath={"contract", "reassoc"})
def judge_counts(
    low: int, high: int, pointers: Array, coords: Array, values: Array, begin: Array, rows: Array, own: int
) -> tuple[float, float, float]:  # fmt: skip
    """Return the sums of m and of x log m over listed cells of rows low..high, and of m over all that are here."""
    h = np.empty(rows.shape[1], rows.dtype)
    fit, logs, both = 0.0, 0.0, 0.0
    for i in range(low, high):
        for e in range(pointers[i], pointers[i + 1]):
            _design(coords, begin, rows, e, h)
            m = float(_dot(h, rows[own + i]))
            if not np.isnan(values[e]):
                fit += m
                if values[e] > 0:
                    logs += values[e] * math.log(max(m, 1e-10))
            both += m
    return fit, logs, both
