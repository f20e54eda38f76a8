"""The share of a sphere that a cap takes, enclosed: privacy rests on it, so an estimate will not do.

Legend: d dimension, gamma the cap's height, a = (d - 1) / 2, c = Gamma(d/2) / (sqrt(pi) Gamma(a)), the constant of the
density c (1 - t^2)^(a - 1) of a height t. Both series are those of the incomplete beta function (NIST DLMF 8.17.8) and
have positive terms only, so that the relative error of their floating-point sums is bounded by counting roundings.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tensorveil.errors import InputError

ROUNDOFF = 2.0**-53
MOST_TERMS = 4_000_000


@lru_cache(maxsize=256)
def height_constant(d: int) -> float:
    """Return c, correctly rounded but for pi: it is a ratio of integers, over pi where d is even."""
    k = d // 2
    if d % 2:
        return float(Fraction(k * math.comb(2 * k, k), 4**k))
    return float(Fraction(4 ** (k - 1), math.comb(2 * k - 2, k - 1))) / math.pi


def cap_share(d: int, gamma: float) -> tuple[float, float]:
    """Return bounds on P(<V, u> >= gamma) for V uniform on the sphere in R^d, 0 <= gamma < 1."""
    if gamma == 0:
        return 0.5, 0.5
    if d < 2 or not 0 < gamma < 1:
        raise InputError(f"gamma must be at least 0 and below 1, and 0 in dimension 1; got {gamma}.")
    a = (d - 1) / 2
    log = a * math.log1p(-gamma * gamma)
    front = height_constant(d) * gamma * math.exp(log)
    rough = 16 * ROUNDOFF * (4 - log)
    if gamma * gamma <= min(4 / d, 0.25):
        total, terms = _series(lambda n: (a + 0.5 + n) / (1.5 + n) * gamma * gamma, 200, 0.5)
        slack = rough + 8 * ROUNDOFF * terms
        below = front * total  # P(0 <= <V, u> < gamma)
        return 0.5 - below * (1 + slack) - ROUNDOFF, 0.5 - below * (1 - slack) + ROUNDOFF
    x = (1 - gamma) * (1 + gamma)
    count = min(MOST_TERMS, int(60 / (gamma * gamma)) + 100)
    total, terms = _series(lambda n: (a + 0.5 + n) / (a + 1 + n) * x, count, x)
    slack = rough + 8 * ROUNDOFF * terms
    share = front * total / (2 * a)
    return share * (1 - slack), share * (1 + slack)


def _series(ratio: object, count: int, later: float) -> tuple[float, int]:
    """Sum 1 + r(0) + r(0) r(1) + ...; ratios are below ``later`` from the end on, so the tail is bounded."""
    n = np.arange(count, dtype=np.float64)
    ratios = ratio(n)  # type: ignore[operator]
    with np.errstate(under="ignore"):
        terms = np.cumprod(ratios)
    total = 1.0 + math.fsum(terms.tolist())
    tail = float(terms[-1]) * later / (1 - later)
    if not (tail <= 1e-12 * total and float(ratios[-1]) <= later * (1 + 1e-9)):
        raise InputError("gamma is too small for this dimension. Use 0, or a larger one.")
    return total + 0.5 * tail, count + int(tail / (4 * ROUNDOFF * total)) + 1
