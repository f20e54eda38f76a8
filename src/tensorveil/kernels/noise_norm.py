"""Norm-shaped noise on integer vectors, wherever double precision settles it; doubtful draws are marked.

Legend
    d, s            dimension; scale
    G               radius over s: Gamma of shape d, minus the sum of d logarithms of uniforms
    g, norm         (d,) a Gaussian vector, which gives the direction, and its length
    x, z            s G g / ||g||, and the integer vector nearest to it (a row of out)
    slack           how far rounding can move a vector, so that no chance of acceptance exceeds 1
    words           (n, k) per proposal d words of the radius, then pairs for Gaussians, last one for the rejection
    error_G, errors_g, error_norm   bounds on errors, as in noise_draws
    verdicts        per proposal: REJECTED, ACCEPTED or DOUBTFUL (left to exact arithmetic)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tensorveil.kernels.noise_draws import E49, E50, E51, E53, FEW, UNIT64, polar

Array = NDArray[Any]

REJECTED, ACCEPTED, DOUBTFUL = 0, 1, 2


@njit(nogil=True, cache=True)
def radius_of(words: Array, d: int) -> tuple[float, float]:
    """Return G and a bound on its error, infinite where first order is not enough."""
    total, error = 0.0, 0.0
    for j in range(d):
        wide = np.float64(words[j]) + 0.5
        log = -math.log(wide * UNIT64)
        total += log
        error += 1.0 / wide + E51 + log * E50
        if words[j] < FEW:
            error = math.inf
    return total, error + total * d * E53  # each addition rounds by at most 2**-53 of the total


@njit(nogil=True, cache=True)
def direction_of(words: Array, d: int, g: Array, errors: Array) -> tuple[float, float]:
    """Fill g with Gaussians and their errors; return their norm and a bound on the norm of all errors."""
    squares, doubts = 0.0, 0.0
    for pair in range((d + 1) // 2):
        x, y, error, _ = polar(words[2 * pair], words[2 * pair + 1])
        g[2 * pair] = x
        errors[2 * pair] = errors[2 * pair + 1] = error
        squares += x * x
        doubts += 2.0 * error * error
        if 2 * pair + 1 < d:
            g[2 * pair + 1] = y
            squares += y * y
    norm = math.sqrt(squares)
    total = math.sqrt(doubts) + norm * d * E53
    return norm, total if norm > 2.0**-10 else math.inf


@njit(nogil=True, cache=True)
def shells(words: Array, d: int, s: float, slack: float, out: Array, verdicts: Array) -> None:
    """Write one proposal per row of words, and whether it is rejected, accepted or doubtful."""
    g, errors_g = np.empty(d + 1), np.empty(d + 1)
    for i in range(len(words)):
        verdicts[i] = DOUBTFUL
        G, error_G = radius_of(words[i], d)
        norm, error_norm = direction_of(words[i, d:], d, g, errors_g)
        # One pair of Gaussians in a million is next to 0, where first order is not enough: polar gives up.
        if error_norm == math.inf or not s * (error_G + 2.0 * G * error_norm / norm) < 0.125:
            continue
        certain, squares = True, 0.0
        for k in range(d):
            cosine = g[k] / norm
            x = s * G * cosine
            spread = error_G * abs(cosine) + G * (errors_g[k] + abs(cosine) * error_norm) / norm
            room = 1.5 * s * spread + (abs(x) + 1.0) * E50
            low = math.floor(x + 0.5 - room)
            certain = certain and low == math.floor(x + 0.5 + room)
            out[i, k] = np.int64(low)
            squares += np.float64(low) * np.float64(low)  # integers would overflow
        if not certain:
            continue
        length = math.sqrt(squares)
        exponent = (length - s * G + slack) / s
        error = (length * d * E51 + (s * G + slack) * E50) / s + 1.5 * error_G
        uniform = np.float64(words[i, -1]) * UNIT64
        chance = math.exp(-exponent)
        if error < 0.25 and abs(uniform - chance) > chance * (2.0 * error + E49) + uniform * E51 + 2.0 * UNIT64:
            verdicts[i] = ACCEPTED if uniform < chance else REJECTED
