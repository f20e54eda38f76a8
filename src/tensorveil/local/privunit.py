"""PrivUnit (Bhowmick et al., Protection against reconstruction, 2018): a random direction, likely near the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from tensorveil.local.ball import Array, DirectionMechanism
from tensorveil.local.cap_share import cap_share, height_constant
from tensorveil.noise import NoiseSource
from tensorveil.noise.caps import Caps
from tensorveil.noise.dyadic import WORDS, chance_below, exp_at_most
from tensorveil.privacy.exact import exactly

SMALLEST_HEIGHT = 0.05  # times sqrt(d): lower caps are drawn slowly and are no better than half a sphere


@dataclass(frozen=True, kw_only=True)
class Cap:
    """Height of the cap, chance over 2**64 to answer within it, its share of the sphere, length of the mean answer."""

    gamma: float
    chance: int
    share: float
    mean: float


def mean_length(d: int, gamma: float, p: float, q: float) -> float:
    """Return E <V, u> of an answer: c / (d - 1) (1 - gamma^2)^((d - 1) / 2) (p / q - (1 - p) / (1 - q))."""
    if d == 1:
        return 2 * p - 1
    tilt = p / q - (1 - p) / (1 - q)
    return height_constant(d) / (d - 1) * math.exp((d - 1) / 2 * math.log1p(-gamma * gamma)) * tilt


@lru_cache(maxsize=256)
def best_cap(d: int, epsilon: float) -> Cap:
    """Return the cap whose mean answer is longest, by a search over heights; its chance never exceeds epsilon."""
    return max((_cap(d, gamma, epsilon) for gamma in (0.0, _best_height(d, epsilon))), key=lambda cap: cap.mean)


def _best_height(d: int, epsilon: float) -> float:
    from scipy.special import betainc

    if d == 1:
        return 0.0
    heights = np.unique(np.concatenate([np.linspace(0, 0.9999, 400), np.linspace(0, 12, 600) / math.sqrt(d)]))
    heights = heights[(heights >= SMALLEST_HEIGHT / math.sqrt(d)) & (heights < 0.99995)]
    for _ in range(2):
        q = 0.5 * betainc((d - 1) / 2, 0.5, 1 - heights**2)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            p = 1 / (1 + (1 - q) / q * math.exp(-epsilon))
            logs = (d - 1) / 2 * np.log1p(-(heights**2)) + np.log(p / q - (1 - p) / (1 - q))
        logs[~np.isfinite(logs) | (q < 1e-250)] = -np.inf
        best = int(np.argmax(logs))
        low, high = heights[max(best - 1, 0)], heights[min(best + 1, len(heights) - 1)]
        found = float(heights[best])
        heights = np.linspace(low, high, 41)
    return found


def _cap(d: int, gamma: float, epsilon: float) -> Cap:
    """Return the cap with the largest chance for which (p / q) / ((1 - p) / (1 - q)) stays within e^epsilon."""
    low, high = cap_share(d, gamma)
    odds = exp_at_most(exactly(epsilon)) * Fraction(low) / (1 - Fraction(low))
    chance = chance_below(lambda numbers: numbers.number(odds / (1 + odds)))
    share = 0.5 * (low + high)
    return Cap(gamma=gamma, chance=chance, share=share, mean=mean_length(d, gamma, chance / WORDS, share))


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivUnit(DirectionMechanism):
    """Answer with a random direction, which lies in a cap around the tensor's own with a chance that epsilon allows.

    For many entries it has the least error of the pure mechanisms here: at all budgets if a norm is declared, from
    epsilon 2 on if bounds are. Its answers are unbiased; a single one has a large error whatever the tensor.

    Parameters
    ----------
    bounds
        Declared range of the entries.
    radius
        Instead of bounds: the declared largest norm of the tensor.

    Guarantee: epsilon for unit tensor (docs/guarantees.md#privunit).

    >>> from tensorveil.local import PrivUnit
    >>> report = PrivUnit(shape=(28, 28), epsilon=4.0, unit="tensor", radius=1.0)
    >>> round(report.worst_mse)
    342
    """

    command: ClassVar[str] = "privunit"
    label: ClassVar[str] = "PrivUnit"
    proof: ClassVar[str] = "docs/guarantees.md#privunit"

    @cached_property
    def cap(self) -> Cap:
        """The cap, chosen from the dimension and epsilon alone."""
        return best_cap(self.size, self.epsilon)

    @cached_property
    def _law(self) -> Caps:
        # About 2**-12 of a typical coordinate: rounding adds 5e-9 to the error, and is hardly ever in doubt.
        return Caps(gamma=self.cap.gamma, flat=False, step=2.0 ** -(12 + math.ceil(0.5 * math.log2(self.size))))

    def _randomize_rows(self, rows: Array, source: NoiseSource) -> Array:
        directions = self._directions(rows, source)
        inside = source.uniform64(len(rows)) < np.uint64(self.cap.chance)
        return self._law.draw(directions, inside, source)

    def _decode_rows(self, codes: Array) -> Array:
        out = codes * (self._law.step * self.reach / self.cap.mean)
        out += self.center
        return out

    @property
    def _second_moment(self) -> float:
        """E |answer|^2, rounding to the grid included."""
        return (self.reach / self.cap.mean) ** 2 * (1 + self.size * self._law.step**2 / 12)
