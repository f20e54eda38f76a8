"""What remains of a model along lines in time: an autoregression plus noise, filtered and smoothed exactly.

A line's remainder is e(t) + noise, e stationary with variance V and correlation phi^k at distance k. That is a Markov
process, so Kalman's filter needs only the observed times, however far apart, and between two of them the mean follows
from theirs (Rauch, Tung and Striebel 1965 for the way back).

Legend
    pointers        (lines + 1,) where each line's entries begin; times (n,) ascending within a line, r (n,) remainders
    phi, V, s2      correlation of neighbours, variance of e, variance of the noise
    m, v            mean and variance of e at an entry, given the entries up to it (filtered) or all (smoothed);
                    ahead is the variance given the entries before it
    a, g            correlation with the entry before, phi^gap; gain of the way back
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

# Products of variances are taken no further than this.
_SMALL, _LARGE = 1e-100, 1e100


@njit(nogil=True, cache=True)
def line_evidence(pointers: Array, times: Array, r: Array, phi: float, V: float, s2: float) -> float:
    """Return the log density of all remainders, up to a constant."""
    total, product = 0.0, 1.0  # a logarithm of products costs less than one of each factor
    for line in range(len(pointers) - 1):
        m, v = 0.0, V
        for p in range(pointers[line], pointers[line + 1]):
            if p > pointers[line]:
                gap = times[p] - times[p - 1]
                a = phi if gap == 1 else phi**gap
                m, v = a * m, V - a * a * (V - v)
            f = v + s2
            gain = 1.0 / f
            off = r[p] - m
            total -= 0.5 * gain * off * off
            product *= f
            if product < _SMALL or product > _LARGE:
                total -= 0.5 * np.log(product)
                product = 1.0
            m, v = m + v * gain * off, v * s2 * gain
    total -= 0.5 * np.log(product)
    return float(total)


@njit(nogil=True, cache=True)
def smooth_lines(
    pointers: Array, times: Array, r: Array, noise: Array, phi: float, V: float, out: Array, spread: Array
) -> None:
    """Set out (lines, times) to the means of e given all entries, and spread (n,) to its variances at the entries.

    ``noise`` (n,) has the variance of each entry's noise. Lines without entries become 0.
    """
    m = np.empty(len(r))
    for line in range(len(pointers) - 1):
        first, last = pointers[line], pointers[line + 1]
        out[line, :] = 0.0
        if first == last:
            continue
        for p in range(first, last):
            before, ahead = 0.0, V
            if p > first:
                a = phi ** (times[p] - times[p - 1])
                before, ahead = a * m[p - 1], V - a * a * (V - spread[p - 1])
            f = ahead + noise[p]
            m[p], spread[p] = before + ahead / f * (r[p] - before), ahead * noise[p] / f
        for p in range(last - 2, first - 1, -1):
            a = phi ** (times[p + 1] - times[p])
            ahead = V - a * a * (V - spread[p])
            g = a * spread[p] / ahead
            m[p] += g * (m[p + 1] - a * m[p])
            spread[p] += g * g * (spread[p + 1] - ahead)
        _fill(times, m, first, last, phi, out[line])


@njit(nogil=True, cache=True)
def _fill(times: Array, m: Array, first: int, last: int, phi: float, row: Array) -> None:
    """Fill a line from its means at the observed times."""
    for t in range(times[first]):
        row[t] = phi ** (times[first] - t) * m[first]
    for t in range(times[last - 1], len(row)):
        row[t] = phi ** (t - times[last - 1]) * m[last - 1]
    for p in range(first, last - 1):
        low, high = times[p], times[p + 1]
        whole = 1.0 - phi ** (2 * (high - low))
        row[low] = m[p]
        for t in range(low + 1, high):
            left, right = phi ** (t - low), phi ** (high - t)
            row[t] = (left * (1.0 - right * right) * m[p] + right * (1.0 - left * left) * m[p + 1]) / whole
