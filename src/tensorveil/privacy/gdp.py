"""Gaussian differential privacy in closed form (Balle and Wang 2018, theorem 8; Dong, Roth and Su 2022, cor. 2.13).

delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu). Every number rounds to the private side.
"""

from __future__ import annotations

import math

from tensorveil.privacy.exact import positive, probability

__all__ = ["gdp_delta", "gdp_epsilon", "gdp_mu", "mu_of_pure"]

UNIT_ROUNDOFF = 2.0**-53
MAX_STEPS = 300  # of bisection; about 60 are needed unless the answer is next to zero


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return an upper bound of delta for mu-GDP at this epsilon, tight to about ten digits.

    With x, y = (epsilon/mu -+ mu/2)/sqrt(2), both terms share the factor exp(-x^2):
    delta = exp(-x^2) (erfcx(x) - erfcx(y)) / 2, which neither over- nor underflows early.
    """
    from scipy.special import erfcx

    if mu == 0 or epsilon == math.inf:
        return 0.0
    if mu == math.inf:
        return 1.0
    if epsilon == 0:
        return min(1.0, math.erf(mu / math.sqrt(8)) * (1 + 16 * UNIT_ROUNDOFF))
    x = (epsilon / mu - mu / 2) / math.sqrt(2)
    y = (epsilon / mu + mu / 2) / math.sqrt(2)
    if x < -20:
        return 1.0  # 1 - delta is below 1e-170
    if x > 40 or y == math.inf:
        # exp(-1600) is too small for a float; the smallest one is above it.
        return 5e-324
    first, second = float(erfcx(x)), float(erfcx(y))
    gap = 1 - second / first
    # Rounding of x, y and erfcx, and how far the difference of the two terms magnifies it.
    error = 16 * UNIT_ROUNDOFF * (1 + (1 + y) * (2 * abs(x) + 2))
    difference = first if gap <= 4 * error else (first - second) * (1 + error / gap)
    return min(1.0, 0.5 * math.exp(-x * x) * difference * (1 + error) + 5e-324)


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon that mu-GDP affords at this delta, rounded up."""
    if mu == 0 or gdp_delta(mu, 0.0) <= delta:
        return 0.0
    if delta == 0 or mu == math.inf:
        return math.inf
    # Phi(-t) <= exp(-t^2/2) bounds the answer from above.
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta)) * (1 + 1e-12)
    while gdp_delta(mu, high) > delta:
        high *= 2
    for _ in range(MAX_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if gdp_delta(mu, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu that stays within (epsilon, delta), rounded down."""
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    low, high = 0.0, 1.0
    while gdp_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(MAX_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if gdp_delta(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    # Upper bounds of delta fluctuate with rounding: step back by more than that, so that every smaller mu fits too.
    return low * (1 - max(1e-13, 4 * _bound_fluctuation(low, epsilon)))


def _bound_fluctuation(mu: float, epsilon: float) -> float:
    """Bound the relative error of delta by what doubling the safety margin would change."""
    if mu == 0:
        return 0.0
    y = (epsilon / mu + mu / 2) / math.sqrt(2)
    # As in gdp_delta, with |x| <= y, and the gap between the two terms bounded below by mu / (2 + 2 y).
    return min(0.1, 16 * UNIT_ROUNDOFF * (1 + (1 + y) * (2 * y + 2)) * (2 + 2 * y) / min(mu, 1.0))


def mu_of_pure(epsilon: float) -> float:
    """Return mu such that every epsilon-DP mechanism is mu-GDP: mu = -2 invPhi(1 / (1 + e^epsilon)), rounded up.

    The trade-off curve of epsilon-DP is piecewise linear and that of mu-GDP is convex, so it is enough that the
    second lies below the first at the corner (1, 1) / (1 + e^epsilon). See docs/explanation/accounting.md#pure.
    """
    from scipy.special import ndtri_exp

    if epsilon == 0:
        return 0.0
    # log(1 + e^epsilon), without overflow
    log_corner = -(epsilon + math.log1p(math.exp(-epsilon)))
    mu = -2 * float(ndtri_exp(log_corner))
    return mu * (1 + 1e-12) + 1e-15
