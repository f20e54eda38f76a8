"""What is claimed about a mechanism, in a form that draws can refute, and confidence bounds on probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.privacy.exact import nonnegative, probability, show_at_least

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """(epsilon, delta) differential privacy, or mu Gaussian differential privacy, for a pair of neighbours.

    Give ``epsilon`` (and ``delta``, 0 if it is pure), or ``mu``.

    >>> print(Claim(epsilon=1.0)), print(Claim(epsilon=1.0, delta=1e-6)), print(Claim(mu=0.5))
    epsilon = 1
    epsilon = 1, delta = 1e-6
    mu = 0.5
    (None, None, None)
    """

    epsilon: float | None = None
    delta: float = 0.0
    mu: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.mu is None):
            raise InputError("a claim is either epsilon (with delta) or mu. Try Claim(epsilon=1.0).")
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", nonnegative("epsilon", self.epsilon))
        else:
            object.__setattr__(self, "mu", nonnegative("mu", self.mu))
        object.__setattr__(self, "delta", probability("delta", self.delta))
        if self.mu is not None and self.delta > 0:
            raise InputError("delta has no meaning together with mu. Leave it out.")

    @property
    def parameter(self) -> str:
        """The claimed parameter's name: "epsilon" or "mu"."""
        return "epsilon" if self.epsilon is not None else "mu"

    @property
    def level(self) -> float:
        """The claimed epsilon or mu."""
        level = self.epsilon if self.epsilon is not None else self.mu
        assert level is not None
        return level

    def least(self, true_positive: ArrayLike, false_positive: ArrayLike) -> Array:
        """Return the smallest level at which an event can have these probabilities under the two neighbours.

        It is the larger of what the event and its complement show; both follow from the same two bounds: at least
        ``true_positive`` under one neighbour, at most ``false_positive`` under the other.
        """
        p, q = np.asarray(true_positive, dtype=np.float64), np.asarray(false_positive, dtype=np.float64)
        return np.asarray(np.maximum(self.event_level(p, q), self.event_level(1.0 - q, 1.0 - p)))

    def event_level(self, p: ArrayLike, q: ArrayLike) -> Array:
        """Return the level that an event shows by itself: ln((p - delta) / q), or the distance of the normal quantiles.

        The latter is the mu of Gaussian differential privacy (Dong, Roth and Su 2022).
        """
        from scipy.special import ndtri

        p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.mu is not None:
                level = ndtri(p) - ndtri(q)
            else:
                level = np.log(np.maximum(p - self.delta, 0.0)) - np.log(q)
        return np.where(np.isnan(level), 0.0, np.maximum(level, 0.0))

    def least_missed(self, false_positive: ArrayLike) -> Array:
        """Return the claimed trade-off curve: no test with this rate of false positives misses less often."""
        from scipy.special import ndtr, ndtri

        alpha = np.asarray(false_positive, dtype=np.float64)
        if self.mu is not None:
            return np.asarray(ndtr(-ndtri(alpha) - self.mu))
        assert self.epsilon is not None
        left = 1.0 - self.delta
        lines = np.maximum(left - np.exp(self.epsilon) * alpha, np.exp(-self.epsilon) * (left - alpha))
        return np.asarray(np.maximum(lines, 0.0))

    def ceiling(self, draws: int, error: float) -> float:
        """Return the largest level that this many draws from each neighbour can show, if every draw is right."""
        shown = self.least(lower_rate(draws, draws, error / 2), upper_rate(0, draws, error / 2))
        return float(shown)

    def detectable(self, draws: int, error: float) -> float:
        """Return the smallest true level at which the best event of the simplest mechanism would refute this claim.

        The simplest mechanism is randomised response for epsilon, and one Gaussian number for mu; the level is infinite
        if no event would do.
        """
        low, high = self.level, self.level + 64.0
        if not self._is_refuted_at(high, draws, error):
            return math.inf
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self._is_refuted_at(middle, draws, error) else (middle, high)
        return high

    def _is_refuted_at(self, level: float, draws: int, error: float) -> bool:
        from scipy.special import ndtr

        right = float(ndtr(level / 2)) if self.mu is not None else 1.0 / (1.0 + math.exp(-level))
        shown = self.least(
            lower_rate(right * draws, draws, error / 2), upper_rate((1.0 - right) * draws, draws, error / 2)
        )
        return float(shown) > self.level

    def to_json(self) -> dict[str, float]:
        """Return the numbers by name."""
        if self.mu is not None:
            return {"mu": self.mu}
        assert self.epsilon is not None
        return {"epsilon": self.epsilon, "delta": self.delta}

    def __str__(self) -> str:
        delta = f", delta = {show_at_least(self.delta)}" if self.delta > 0 else ""
        return f"{self.parameter} = {show_at_least(self.level)}{delta}"


def lower_rate(hits: ArrayLike, draws: float, error: float) -> Array:
    """Return what a probability exceeds, except with probability ``error``, given the hits in independent draws.

    The bound is that of Clopper and Pearson (1934), which is exact for any number of draws.

    >>> float(lower_rate(0, 100, 0.01)), round(float(lower_rate(100, 100, 0.01)), 4)
    (0.0, 0.955)
    """
    from scipy.special import betaincinv

    k = np.asarray(hits, dtype=np.float64)
    inside = np.maximum(k, 1e-300)
    return np.where(k > 0, betaincinv(inside, np.maximum(draws - k + 1.0, 1e-300), error), 0.0)


def upper_rate(hits: ArrayLike, draws: float, error: float) -> Array:
    """Return what a probability stays below, except with probability ``error``.

    >>> round(float(upper_rate(0, 100, 0.01)), 4), float(upper_rate(100, 100, 0.01))
    (0.045, 1.0)
    """
    from scipy.special import betaincinv

    k = np.asarray(hits, dtype=np.float64)
    left = np.maximum(draws - k, 1e-300)
    return np.where(k < draws, betaincinv(k + 1.0, left, 1.0 - error), 1.0)
