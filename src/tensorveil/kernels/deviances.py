"""Deviances of yes and no and of counts with their slopes, in one pass: what NumPy would pass over a dozen times.

Legend
    x, m, w         value, linear part and weight of a cell
    t               exp of something of at most 80 in size, from its power of two (``bits``) and a polynomial
    slopes          w times the derivative of the deviance by m
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]

# Adding it to a number of moderate size leaves the nearest whole number in the lowest bits.
_ROUND = 1.5 * 2.0**52
_BY_LOG_2 = 1.4426950408889634
# The logarithm of two in two parts, the first of which has few bits: n * _HIGH is exact.
_HIGH, _LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_EDGE = 80.0
# Terms of 1 / k!, from the tenth power down.
_C10, _C9, _C8 = 1 / 3628800, 1 / 362880, 1 / 40320
_C7, _C6, _C5, _C4, _C3 = 1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6
_CELLS = 4096


@kernel(fastmath={"contract"}, error_model="numpy")
def _exp(n: int, x: Array, bits: Array, t: Array) -> None:
    """Set t to exp(x) for the first n of x within +- 80, to about 1e-13; ``bits`` is t's memory as integers."""
    for k in range(n):
        t[k] = x[k] * _BY_LOG_2 + _ROUND
    for k in range(n):
        whole = t[k] - _ROUND
        x[k] = (x[k] - whole * _HIGH) - whole * _LOW
    for k in range(n):
        bits[k] = (bits[k] + 1023) << 52
    for k in range(n):
        r = x[k]
        p = ((_C10 * r + _C9) * r + _C8) * r + _C7
        p = ((p * r + _C6) * r + _C5) * r + _C4
        p = (((p * r + _C3) * r + 0.5) * r + 1.0) * r + 1.0
        t[k] *= p


@kernel(fastmath={"contract"}, error_model="numpy")
def _log1p(t: float) -> float:
    """Return log(1 + t) for t from 0 to 1, from the series of the inverse hyperbolic tangent."""
    s = t / (2.0 + t)
    q = s * s
    p = ((q / 23.0 + 1 / 21) * q + 1 / 19) * q + 1 / 17
    p = ((p * q + 1 / 15) * q + 1 / 13) * q + 1 / 11
    p = ((p * q + 1 / 9) * q + 1 / 7) * q + 1 / 5
    return 2.0 * s * ((p * q + 1 / 3) * q + 1.0)


@kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _bernoulli(x: Array, m: Array, w: Array, u: Array, slopes: Array) -> float:
    total = 0.0
    for k in range(len(m)):
        y, t = m[k], u[k]
        share = 1.0 / (1.0 + t)
        total += 2.0 * w[k] * (max(y, 0.0) + _log1p(t) - x[k] * y)
        slopes[k] = 2.0 * w[k] * ((share if y >= 0.0 else t * share) - x[k])
    return total


@kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def bernoulli(x: Array, m: Array, w: Array, slopes: Array) -> float:
    """Write the slopes of the deviance of yes and no by the log odds; return its weighted sum."""
    t, z = np.empty(_CELLS), np.empty(_CELLS)
    bits = t.view(np.int64)
    total = 0.0
    for low in range(0, len(m), _CELLS):
        y = m[low : low + _CELLS]
        n = len(y)
        for k in range(n):
            z[k] = -min(abs(y[k]), _EDGE)
        _exp(n, z, bits, t)
        total += _bernoulli(x[low : low + n], y, w[low : low + n], t[:n], slopes[low : low + n])
    return total


@kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _poisson(x: Array, m: Array, w: Array, u: Array, slopes: Array) -> float:
    total = 0.0
    for k in range(len(m)):
        y = max(min(m[k], _EDGE), -_EDGE)
        total += 2.0 * w[k] * (u[k] - x[k] * y)
        slopes[k] = 2.0 * w[k] * (u[k] - x[k])
    return total


@kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def poisson(x: Array, m: Array, w: Array, slopes: Array) -> float:
    """Write the slopes of the deviance of counts by the logarithm of their mean; return its weighted sum."""
    t, z = np.empty(_CELLS), np.empty(_CELLS)
    bits = t.view(np.int64)
    total = 0.0
    for low in range(0, len(m), _CELLS):
        y = m[low : low + _CELLS]
        n = len(y)
        for k in range(n):
            z[k] = max(min(y[k], _EDGE), -_EDGE)
        _exp(n, z, bits, t)
        total += _poisson(x[low : low + n], y, w[low : low + n], t[:n], slopes[low : low + n])
        for k in range(low, low + n):
            if x[k] > 0.0 and w[k] > 0.0:
                total += 2.0 * w[k] * (x[k] * math.log(x[k]) - x[k])
    return total
