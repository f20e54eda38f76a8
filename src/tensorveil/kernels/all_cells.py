"""Sweeps over rows where every cell counts, listed or not: squared error and expected counts of CP models.

Sums over all cells of what a CP model says are products of sums over its factors, so unlisted zeros cost nothing; what
is listed (or left out) is corrected cell by cell. No weight matrix is formed.

Legend
    i, e, r         row of this mode; cell of the layout (cells of row i are pointers[i] .. pointers[i + 1]); component
    flat, R         all factors, rows of R numbers each; ``begin[k]`` is where that of the k-th other mode starts,
                    ``own`` where this one does
    row             token of a whole row (see kernels/vector.py)
    h, a            product of the other modes' rows at a cell; the row that is improved
    listed, left    weight of a listed cell less that of an unlisted one; the same for a cell that is left out, whose
                    value is NaN
    target          value of an unlisted cell, as the solver sees it, times its weight
    S, v            what all cells contribute: weight * Gram matrix + ridge, and weight * target * sum of designs
    p, q, s         conjugate gradients: direction, its image, residual
    J, H            first numbers of the other modes' rows of a row's cells; products, component by component
    den, m, x       sum of the weighted designs; linear part and value of the row's cells

Every row is solved by one thread, from sums in the order of its cells: the same bits for every number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]


@kernel()
def _design(row: v.Token, coords: Array, begin: Array, flat: Array, R: int, e: int) -> Any:
    h = v.load(row, flat, begin[0] + coords[0, e] * R)
    for k in range(1, coords.shape[0]):
        h = v.mul(h, v.load(row, flat, begin[k] + coords[k, e] * R))
    return h


@kernel()
def _times(row: v.Token, S: Array, x: Array, R: int) -> Any:
    """Return S x, S symmetric, as a sum of its rows so that memory is read in order."""
    out = v.zero(row, x)
    for q in range(R):
        out = v.axpy(v.peek(x, q), v.load(row, S, q * R), out)
    return out


@kernel(error_model="numpy")
def squares_rows(
    row: v.Token, low: int, high: int, pointers: Array, coords: Array, values: Array, begin: Array, flat: Array,
    R: int, own: int, listed: float, left: float, target: float, S: Array, sums: Array, steps: int, spare: Array,
) -> float:  # fmt: skip
    """Improve rows low..high by conjugate gradients on their weighted least squares (Takacs, Pilaszy, Tikk 2011).

    Return what that leaves of the objective, but for the values' own squares and what all cells have in common: it is
    quadratic, so it follows from the residual of the normal equations.
    """
    total = 0.0
    for i in range(low, high):
        start, end = pointers[i], pointers[i + 1]
        a = v.load(row, flat, own + i * R)
        v.store(spare, 0, a)
        right = v.load(row, sums, 0)
        s = v.axpy(-1.0, _times(row, S, spare, R), right)
        for e in range(start, end):
            h = _design(row, coords, begin, flat, R, e)
            absent = np.isnan(values[e])
            weight = left if absent else listed
            x = (0.0 if absent else values[e]) - target
            right = v.axpy(x, h, right)
            s = v.axpy(x - weight * v.total(v.mul(h, a)), h, s)
        p = s
        size = v.total(v.mul(s, s))
        for _ in range(steps):
            if size < 1e-20:
                break
            v.store(spare, 0, p)
            q = _times(row, S, spare, R)
            if listed != 0.0 or left != 0.0:
                for e in range(start, end):
                    h = _design(row, coords, begin, flat, R, e)
                    weight = left if np.isnan(values[e]) else listed
                    q = v.axpy(weight * v.total(v.mul(h, p)), h, q)
            step = size / v.total(v.mul(p, q))
            a = v.axpy(step, p, a)
            s = v.axpy(-step, q, s)
            before, size = size, v.total(v.mul(s, s))
            p = v.axpy(size / before, p, s)
        v.store(flat, own + i * R, a)
        total -= np.float64(v.total(v.mul(a, v.add(right, s))))
    return total


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
def _gather(flat: Array, J: Array, r: int, h: Array) -> float:
    """Write component r of the designs; return its sum."""
    first = J[0]
    for e in range(len(h)):
        h[e] = flat[first[e] + r]
    for k in range(1, J.shape[0]):
        other = J[k]
        for e in range(len(h)):
            h[e] *= flat[other[e] + r]
    total = 0.0
    for e in range(len(h)):
        total += h[e]
    return total


@kernel(fastmath={"contract", "reassoc"})
def counts_rows(
    low: int, high: int, pointers: Array, coords: Array, values: Array, begin: Array, flat: Array, R: int, own: int,
    rank: int, listed: float, left: float, base: Array, ridge: float, rounds: int,
) -> tuple[float, float, float]:  # fmt: skip
    """Improve non-negative rows of expected counts, one component after the other (Hsieh and Dhillon 2011).

    Minimises den . a - sum x log(h . a) + ridge / 2 |a|^2: each coordinate makes a Newton step, from which a second
    derivative that falls cannot lead beyond the minimum on the right; on the left a step takes at most nine tenths off.
    Return the sums of m and of x log m over listed cells of these rows, and of m over all that are here.
    """
    longest = 0
    for i in range(low, high):
        longest = max(longest, pointers[i + 1] - pointers[i])
    den = np.empty(rank)
    H, m, x = np.empty((rank, longest)), np.empty(longest), np.empty(longest)
    J = np.empty((coords.shape[0], longest), np.int64)
    both, logs, absences = 0.0, 0.0, 0.0
    for i in range(low, high):
        start, count = pointers[i], pointers[i + 1] - pointers[i]
        known, part, places = x[:count], m[:count], J[:, :count]
        place, missing = own + i * R, 0
        for k in range(coords.shape[0]):
            for e in range(count):
                places[k, e] = begin[k] + coords[k, start + e] * R
        for e in range(count):
            absent = np.isnan(values[start + e])
            missing += absent
            known[e] = 0.0 if absent else values[start + e]
            part[e] = 0.0
        for r in range(rank):
            h = H[r, :count]
            den[r] = base[r] + listed * _gather(flat, places, r, h)
            _shift(flat[place + r], h, part)
        if missing:  # they weigh otherwise
            for e in range(count):
                if np.isnan(values[start + e]):
                    for r in range(rank):
                        den[r] += (left - listed) * H[r, e]
        for _ in range(rounds):
            for r in range(rank):
                slope, bend = _slope(known, H[r, :count], part)
                old = flat[place + r]
                gradient = den[r] + ridge * old - slope
                if bend + ridge <= 0:
                    new = 0.1 * old if gradient > 0 else old
                else:
                    new = max(old - gradient / (bend + ridge), 0.1 * old)
                flat[place + r] = max(new, 1e-12)
                _shift(flat[place + r] - old, H[r, :count], part)
        for e in range(count):
            both += part[e]
            if known[e] > 0.0:
                logs += known[e] * math.log(max(part[e], 1e-10))
            if missing and np.isnan(values[start + e]):
                absences += part[e]
    return both - absences, logs, both
