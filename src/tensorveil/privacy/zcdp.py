"""Zero-concentrated differential privacy as epsilon and delta (Canonne, Kamath and Steinke 2020, proposition 12).

For every alpha > 1, rho-zCDP gives delta = exp((alpha-1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1).
Any alpha is valid, so an inexact search for the best one costs tightness, never correctness.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tensorveil.privacy.exact import positive, probability

__all__ = ["zcdp_delta", "zcdp_epsilon", "zcdp_largest_rho"]

SAFETY = 1 + 1e-12  # far above the rounding of a dozen operations
MAX_STEPS = 200


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return the best delta for rho-zCDP at this epsilon, rounded up."""
    if rho == 0:
        return 0.0
    if not math.isfinite(rho):
        return 1.0

    def log_delta(log_order: float) -> float:
        order = 1 + math.exp(log_order)  # alpha
        exponent = (order - 1) * (order * rho - epsilon)
        return exponent + order * math.log1p(-1 / order) - log_order + 1e-13 * (1 + abs(exponent))

    best = log_delta(_find_lowest(log_delta))
    return 1.0 if best >= 0 else min(1.0, math.exp(best) * SAFETY + 5e-324)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the best epsilon for rho-zCDP at this delta, rounded up."""
    if rho == 0:
        return 0.0
    if delta == 0 or not math.isfinite(rho):
        return math.inf

    def epsilon_at(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        conversion = (-math.log(delta) - log_order + order * math.log1p(-1 / order)) / (order - 1)
        return order * rho * SAFETY + conversion + 1e-12 * abs(conversion)

    return max(0.0, epsilon_at(_find_lowest(epsilon_at)))


def zcdp_largest_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho that stays within (epsilon, delta), rounded down."""
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    if delta == 0:
        return 0.0
    low, high = 0.0, max(1.0, epsilon)
    while zcdp_epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    for _ in range(MAX_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if zcdp_epsilon(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def _find_lowest(function: Callable[[float], float]) -> float:
    """Return where a function of log(alpha - 1) with one valley is lowest: a coarse grid, then golden section."""
    grid = [-30 + 0.5 * step for step in range(141)]  # alpha - 1 from 1e-13 to 1e17
    values = [function(point) for point in grid]
    place = min(range(len(grid)), key=values.__getitem__)
    low, high = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(60):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return left if at_left <= at_right else right
