"""PrivUnitG (Asi, Feldman and Talwar, Optimal algorithms for mean estimation under LDP, 2022): PrivUnit, Gaussian."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from tensorveil.local.ball import Array, DirectionMechanism
from tensorveil.noise import NoiseSource
from tensorveil.noise.caps import Caps
from tensorveil.noise.dyadic import WORDS, chance_below, exp_at_most
from tensorveil.privacy.exact import exactly

STEP = 2.0**-12  # coordinates are of size 1
SLACK = 1e-12  # of the complementary error function, relative; common libraries stay below 1e-15


@dataclass(frozen=True, kw_only=True)
class HalfSpace:
    """Height gamma, chance over 2**64 to answer above it, share q of a Gaussian above it, factor of answers."""

    gamma: float
    chance: int
    share: float
    sigma: float


def _sigma(gamma: float, p: float, q: float) -> float:
    """Return the factor that makes answers unbiased: 1 / sigma = phi(gamma) (p / q - (1 - p) / (1 - q))."""
    density = math.exp(-0.5 * gamma * gamma) / math.sqrt(2 * math.pi)
    return 1 / (density * (p / q - (1 - p) / (1 - q)))


@lru_cache(maxsize=256)
def best_half_space(d: int, epsilon: float) -> HalfSpace:
    """Return the height of least error sigma^2 (d + gamma / sigma) by search; the chance never exceeds epsilon."""
    heights = np.linspace(0.05, max(2.0, math.sqrt(2 * epsilon) + 3), 2000)
    candidates = [0.0, *heights.tolist()]
    best = min(candidates, key=lambda gamma: _error(d, gamma, epsilon))
    low = 0.5 if best == 0 else 0.5 * math.erfc(best / math.sqrt(2)) * (1 - SLACK)
    odds = exp_at_most(exactly(epsilon)) * Fraction(low) / (1 - Fraction(low))
    chance = chance_below(lambda numbers: numbers.number(odds / (1 + odds)))
    return HalfSpace(gamma=best, chance=chance, share=low, sigma=_sigma(best, chance / WORDS, low))


def _error(d: int, gamma: float, epsilon: float) -> float:
    q = 0.5 * math.erfc(gamma / math.sqrt(2))
    p = 1 / (1 + (1 - q) / q * math.exp(-epsilon))
    sigma = _sigma(gamma, p, q)
    return sigma**2 * (d + gamma / sigma)


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivUnitG(DirectionMechanism):
    """Answer with a Gaussian vector whose part along the tensor is drawn from above a height with a certain chance.

    Nearly as accurate as `PrivUnit` in high dimension, and simpler to analyse: sums of answers are nearly Gaussian.

    The parameters are those of `PrivUnit`.

    Guarantee: epsilon for unit tensor (docs/guarantees.md#privunitg).

    >>> from tensorveil.local import PrivUnitG
    >>> PrivUnitG(shape=(28, 28), epsilon=4.0, unit="tensor", radius=1.0).perturb([[0.0] * 28] * 28).shape
    (28, 28)
    """

    command: ClassVar[str] = "privunitg"
    label: ClassVar[str] = "PrivUnitG"
    proof: ClassVar[str] = "docs/guarantees.md#privunitg"

    @cached_property
    def half_space(self) -> HalfSpace:
        """The half space, chosen from the dimension and epsilon alone."""
        return best_half_space(self.size, self.epsilon)

    @cached_property
    def _law(self) -> Caps:
        return Caps(gamma=self.half_space.gamma, flat=True, step=STEP)

    def _randomize_rows(self, rows: Array, source: NoiseSource) -> Array:
        directions = self._directions(rows, source)
        inside = source.uniform64(len(rows)) < np.uint64(self.half_space.chance)
        return self._law.draw(directions, inside, source)

    def _decode_rows(self, codes: Array) -> Array:
        out = codes * (STEP * self.reach * self.half_space.sigma)
        out += self.center
        return out

    @property
    def _second_moment(self) -> float:
        """E |answer|^2: d - 1 unit variances and E a^2 = 1 + gamma / sigma, rounding to the grid included."""
        found = self.half_space
        return (self.reach * found.sigma) ** 2 * (self.size * (1 + STEP**2 / 12) + found.gamma / found.sigma)
