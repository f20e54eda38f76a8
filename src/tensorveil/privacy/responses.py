"""Pure and Gaussian mechanisms together, exactly: a pure one is at worst randomised response.

Randomised response has the privacy loss +epsilon with probability e^epsilon / (1 + e^epsilon) and -epsilon otherwise,
and every epsilon-DP mechanism can be simulated from it (Kairouz, Oh and Viswanath 2015). Losses add up, so

    delta(epsilon) = sum over losses s of P(s) delta_Gaussian(epsilon - s).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from tensorveil.privacy.gdp import MAX_STEPS, gdp_delta

__all__ = ["Term", "mixture_delta", "mixture_epsilon", "response_terms"]

MOST_TERMS = 400
Term = tuple[float, float]  # privacy loss, probability; both rounded up


def response_terms(pure: Mapping[float, int]) -> list[Term] | None:
    """List the losses of pure mechanisms (epsilon -> how often) with their probabilities; None if too many."""
    if math.prod(count + 1 for count in pure.values()) > MOST_TERMS:
        return None
    terms = []
    for pick in itertools.product(*([(e, n, j) for j in range(n + 1)] for e, n in pure.items())):
        loss, log_weight, size = 0.0, 0.0, 1.0
        for epsilon, count, high in pick:
            loss += (2 * high - count) * epsilon
            log_weight += math.log(math.comb(count, high)) - (count - high) * epsilon
            log_weight -= count * math.log1p(math.exp(-epsilon))
            size += count * (1 + epsilon)
        # A margin far above the rounding of the sums.
        margin = 1e-14 * size
        terms.append((loss + margin, math.exp(log_weight + margin)))
    return terms


def mixture_delta(mu: float, terms: Sequence[Term], epsilon: float) -> float:
    """Return delta of mu-GDP composed with randomised responses, rounded up."""
    # The difference is lowered by more than its rounding.
    lowered = ((epsilon - loss - 1e-15 * (abs(epsilon) + abs(loss)), weight) for loss, weight in terms)
    return min(1.0, math.fsum(weight * _gdp_delta(mu, left) for left, weight in lowered) * (1 + 1e-14))


def _gdp_delta(mu: float, epsilon: float) -> float:
    """Extend delta to negative epsilon: delta(-x) = 1 - e^-x (1 - delta(x)), because both directions are alike."""
    if epsilon >= 0:
        return gdp_delta(mu, epsilon)
    return -math.expm1(epsilon) + math.exp(epsilon) * gdp_delta(mu, -epsilon)


def mixture_epsilon(mu: float, terms: Sequence[Term], delta: float, most: float) -> float:
    """Return epsilon of the same at this delta, rounded up; `most` is a known upper bound."""
    if mixture_delta(mu, terms, 0.0) <= delta:
        return 0.0
    low, high = 0.0, most
    for _ in range(MAX_STEPS):
        middle = (low + high) / 2
        # Twelve digits are enough, and rounding up keeps them on the private side.
        if not low < middle < high or high - low <= 1e-13 * high:
            break
        if mixture_delta(mu, terms, middle) <= delta:
            high = middle
        else:
            low = middle
    return high
