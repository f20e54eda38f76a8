"""How much noise a target requires: calibration to the private side, with every result checked by the accounting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tensorveil.errors import InputError
from tensorveil.privacy.accounting import epsilon_for
from tensorveil.privacy.events import ZCDP, Composed, Event, Gaussian, Pure
from tensorveil.privacy.exact import at_least, at_most, exactly, positive, probability
from tensorveil.privacy.gdp import gdp_mu
from tensorveil.privacy.zcdp import zcdp_largest_rho

__all__ = ["gaussian_mu", "gaussian_sigma", "split_gaussian", "split_pure", "zcdp_rho"]


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP is (epsilon, delta)-DP.

    Examples
    --------
    >>> round(1 / gaussian_mu(1.0, 1e-5), 4)
    3.7306
    """
    epsilon, delta = positive("epsilon", epsilon), _positive_delta(delta)
    mu = gdp_mu(epsilon, delta)
    _confirm(Gaussian(mu), epsilon, delta)
    return mu


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the smallest standard deviation of Gaussian noise for this L2 sensitivity."""
    sensitivity = positive("sensitivity", sensitivity)
    mu = gaussian_mu(epsilon, delta)
    sigma = at_least(exactly(sensitivity) / exactly(mu))
    # sensitivity / sigma, as callers will compute it, must not exceed mu.
    while sensitivity / sigma > mu:
        sigma = math.nextafter(sigma, math.inf)
    _confirm(Gaussian(sensitivity / sigma), epsilon, delta)
    return sigma


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which rho-zCDP is known to be (epsilon, delta)-DP."""
    epsilon, delta = positive("epsilon", epsilon), _positive_delta(delta)
    rho = zcdp_largest_rho(epsilon, delta)
    _confirm(ZCDP(rho), epsilon, delta)
    return rho


def split_pure(epsilon: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Split a pure epsilon in proportion to the shares; the parts add up to at most epsilon, exactly.

    Examples
    --------
    >>> split_pure(1.0, [1, 3])
    (0.25, 0.75)
    """
    epsilon = positive("epsilon", epsilon)
    parts = tuple(at_most(exactly(epsilon) * share) for share in _normalise(shares))
    _confirm(Composed(Pure(part) for part in parts), epsilon, 0.0)
    return parts


def split_gaussian(mu: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Split mu in proportion to the shares of mu^2: mu_i = mu sqrt(share_i); the squares add up to at most mu^2."""
    mu = positive("mu", mu)
    parts = []
    for share in _normalise(shares):
        exact = exactly(mu) ** 2 * share
        part = mu * math.sqrt(share)
        while exactly(part) ** 2 > exact:
            part = math.nextafter(part, 0.0)
        parts.append(part)
    if sum(exactly(part) ** 2 for part in parts) > exactly(mu) ** 2:
        raise AssertionError("a split of mu spends more than mu; please report this")
    return tuple(parts)


def _normalise(shares: Sequence[float]) -> list[Fraction]:
    exact = [exactly(positive("shares", share)) for share in shares]
    if not exact:
        raise InputError("shares must hold at least one number. Try shares=[1, 1].")
    return [share / sum(exact) for share in exact]


def _positive_delta(delta: float) -> float:
    delta = probability("delta", delta)
    if delta == 0:
        raise InputError("delta must be above 0 for Gaussian noise, which has no pure epsilon. Try delta=1e-6.")
    return delta


def _confirm(event: Event, epsilon: float, delta: float) -> None:
    """Check a calibration against the accounting before anyone relies on it."""
    if not epsilon_for(event, delta, method="native") <= epsilon:
        raise AssertionError("a calibration spends more than its target; please report this")
