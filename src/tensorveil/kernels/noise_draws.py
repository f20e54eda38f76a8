"""Random integers from 64-bit words, wherever double precision settles them; doubtful draws are only listed.

Error bounds assume that log, exp, sin and cos are within 4 units in the last place (2**-50 relative), four times what
common mathematical libraries promise. Bounds are sums of first-order terms, each rounded up to a power of two that
leaves at least as much room again; arguments for which first order is not enough are doubtful by decree.

Legend
    words           (n,) random 64-bit words, here read as signs and the leading bits of uniforms
    w, wide         the bits of a uniform u, and u * 2^63 (or 2^64) to the middle of its last bit
    log             ln u, known to 1 / wide (bits not yet drawn) + E51 (product) + |log| E50 (library)
    value, error    a real number and a bound on how far it is off
    low             floor(value - error), the draw where floor(value + error) is the same
    doubtful, found numbers of the draws that are not settled, and how many there are
    E48 .. E53      2^-48 .. 2^-53; FEW: words below it leave too few bits for first-order bounds

A draw that is settled here is the one that exact arithmetic would make from the same bits and any that follow; the
few others are made by exact arithmetic in noise/. So the law is exact, and the speed that of doubles.
No `fastmath`: the bounds hold for IEEE arithmetic as written.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

UNIT63 = 2.0**-63
UNIT62 = 2.0**-62
UNIT64 = 2.0**-64
FEW = np.uint64(1 << 20)  # words below this leave too few bits for first-order bounds
E48, E49, E50, E51, E53 = 2.0**-48, 2.0**-49, 2.0**-50, 2.0**-51, 2.0**-53
QUARTER = math.pi / 2


@njit(nogil=True, cache=True)
def laplace(words: Array, scale: float, offset: float, out: Array, doubtful: Array) -> int:
    """Write draws of the discrete Laplace law; list the doubtful ones and return their number.

    The lowest bit is the sign, the others begin a uniform u: |k| = floor(scale * (offset - ln u)).
    """
    found = 0
    for i in range(len(words)):
        w = words[i] >> np.uint64(1)
        wide = np.float64(np.int64(w))
        log = math.log((wide + 0.5) * UNIT63)
        value = scale * (offset - log)
        error = scale * (1.0 / (wide + 0.5) + E51 - log * E50) + value * E49
        low = np.int64(math.floor(value - error))
        if w < FEW or low != np.int64(math.floor(value + error)):
            doubtful[found] = i
            found += 1
        else:
            out[i] = -low if words[i] & np.uint64(1) else low
    return found


@njit(nogil=True, cache=True)
def polar(word_r: Any, word_a: Any) -> tuple[float, float, float, float]:
    """Return two independent Gaussians from two words (Box-Muller), a bound on their error, and the radius.

    The two lowest bits of the second word are signs, the rest a uniform angle in the first quarter. An infinite bound
    says that first order is not enough.
    """
    wide = np.float64(word_r >> np.uint64(1)) + 0.5
    log = -math.log(wide * UNIT63)
    if word_r >> np.uint64(1) < FEW or log < 2.0**-20:
        return 0.0, 0.0, math.inf, 0.0
    radius = math.sqrt(2.0 * log)
    angle = (np.float64(word_a >> np.uint64(2)) + 0.5) * UNIT62 * QUARTER
    x, y = radius * math.cos(angle), radius * math.sin(angle)
    error = radius * E48 + 2.0 * (1.0 / wide + E51 + log * E50) / radius
    if word_a & np.uint64(1):
        x = -x
    if word_a & np.uint64(2):
        y = -y
    return x, y, error, radius


@njit(nogil=True, cache=True)
def rounded_gaussian(words: Array, sigma: float, out: Array, doubtful: Array) -> int:
    """Write pairs round(sigma * Gaussian) from pairs of words; list the doubtful pairs and return their number."""
    found = 0
    for i in range(len(out) // 2):
        x, y, error, radius = polar(words[2 * i], words[2 * i + 1])
        margin = sigma * (error + radius * E50)
        if not margin < 0.25:
            doubtful[found] = i
            found += 1
            continue
        x, y = sigma * x + 0.5, sigma * y + 0.5
        # Adding one half costs half a unit in the last place of at most |x| + 1.
        margin_x, margin_y = margin + (abs(x) + 1.0) * E51, margin + (abs(y) + 1.0) * E51
        low_x, low_y = math.floor(x - margin_x), math.floor(y - margin_y)
        if low_x != math.floor(x + margin_x) or low_y != math.floor(y + margin_y):
            doubtful[found] = i
            found += 1
        else:
            out[2 * i] = np.int64(low_x)
            out[2 * i + 1] = np.int64(low_y)
    return found


@njit(nogil=True, cache=True)
def below_exp(words: Array, exponents: Array, errors: Array, out: Array, doubtful: Array) -> int:
    """Write whether each word's uniform is below e**-exponent, the exponent being known to an absolute error."""
    found = 0
    for i in range(len(words)):
        uniform = np.float64(words[i]) * UNIT64
        chance = math.exp(-exponents[i])
        margin = chance * (2.0 * errors[i] + E49) + uniform * E51 + 2.0 * UNIT64
        if not errors[i] < 0.25 or abs(uniform - chance) <= margin:
            doubtful[found] = i
            found += 1
        else:
            out[i] = uniform < chance
    return found
