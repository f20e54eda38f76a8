"""What is true of additive noise on a tensor: pure epsilon, epsilon at a delta, and the delta below which none is.

Everything is computed for exact arithmetic: floating-point noise, which this folder draws, has no guarantee at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorveil.privacy import Unit
from tensorveil.privacy.gdp import gdp_epsilon

CELLS = 2048  # of the privacy loss of one entry


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What holds for a unit.

    Parameters
    ----------
    unit
        "tensor" or "local entry".
    pure
        The smallest epsilon with delta 0; infinite where there is none.
    delta, epsilon
        At this delta, this epsilon holds (an upper bound, tight up to the grid of a convolution).
    least_delta
        Below this delta no finite epsilon holds: the chance that some differing entry is kept.
    noisy
        The pure epsilon given that no entry is kept: what is left where keeping is next to impossible.
    mu
        The same as a mu of Gaussian differential privacy, where the noise is Gaussian.
    """

    unit: Unit
    pure: float
    delta: float
    epsilon: float
    least_delta: float
    noisy: float
    mu: float | None = None

    def __str__(self) -> str:
        pure = "no finite pure epsilon" if math.isinf(self.pure) else f"pure epsilon {self.pure:.4g}"
        if math.isinf(self.pure) and math.isfinite(self.noisy):
            pure += f" ({self.noisy:.4g} if nothing is kept)"
        least = f", and none for delta below {self.least_delta:.3g}" if self.least_delta else ""
        at = "no finite epsilon" if math.isinf(self.epsilon) else f"epsilon {self.epsilon:.4g}"
        return f"{self.unit}: {pure}; {at} at delta {self.delta:g}{least}"


def kept_share(keep: float, entries: int) -> float:
    """Return the chance that at least one of the entries is kept as it is."""
    return -math.expm1(entries * math.log1p(-keep)) if keep < 1 else 1.0


def laplace_truth(unit: Unit, ratio: float, entries: int, keep: float, delta: float) -> Truth:
    """Say what holds for Laplace noise of scale range / ratio on so many entries, each kept with some chance."""
    least = kept_share(keep, entries)
    epsilon = laplace_epsilon(ratio, entries, delta - least) if delta > least else math.inf
    pure = math.inf if least else ratio * entries
    return Truth(unit=unit, pure=pure, delta=delta, epsilon=epsilon, least_delta=least, noisy=ratio * entries)


def gaussian_truth(unit: Unit, mu: float, keep: float, entries: int, delta: float) -> Truth:
    """Say what holds for Gaussian noise with this mu, each entry kept with some chance."""
    least = kept_share(keep, entries)
    epsilon = gdp_epsilon(mu, delta - least) if delta > least else math.inf
    return Truth(unit=unit, pure=math.inf, delta=delta, epsilon=epsilon, least_delta=least, noisy=math.inf, mu=mu)


def laplace_epsilon(ratio: float, entries: int, delta: float) -> float:
    """Return the epsilon at a delta of Laplace noise on several entries that all differ by their range.

    The privacy loss of one entry is ratio with chance 1/2, -ratio with chance e^-ratio / 2, and ratio - 2 y in between,
    y exponential. Losses add up: their law, rounded up to a grid, is convolved by the fast Fourier transform.
    """
    if entries == 1:
        # delta(eps) = 1 - exp((eps - ratio) / 2)
        return max(0.0, ratio + 2 * math.log1p(-delta))
    step = 2 * ratio / CELLS
    edges = ratio - step * np.arange(CELLS + 1)  # losses, descending
    tail = 0.5 * np.exp(-(ratio - edges) / 2)  # chance of a smaller loss, but for the atom at +ratio
    masses = np.zeros(CELLS + 1)
    masses[0] = 0.5
    masses[:-1] += tail[:-1] - tail[1:]  # each cell at its upper edge
    masses[-1] = tail[-1]
    total = CELLS * entries + 1
    length = 1 << (total - 1).bit_length()
    sums = np.fft.irfft(np.fft.rfft(masses, length) ** entries, length)[:total]
    sums = np.maximum(sums, 0.0)
    losses = entries * ratio - step * np.arange(total)
    return _epsilon_of_losses(losses, sums, delta)


def _epsilon_of_losses(losses: np.ndarray, masses: np.ndarray, delta: float) -> float:
    """Solve sum over losses s > eps of P(s) (1 - e^(eps - s)) = delta by bisection; losses descend."""
    ascending = losses[::-1]

    def found(epsilon: float) -> float:
        above = len(losses) - int(np.searchsorted(ascending, epsilon, side="right"))
        return float(masses[:above] @ -np.expm1(epsilon - losses[:above]))

    low, high = 0.0, float(losses[0])
    if found(low) <= delta:
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) <= delta else (middle, high)
    return high
