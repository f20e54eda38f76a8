"""Staircase noise on every entry."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tensorveil.local.entrywise import Answers, Array, Entrywise
from tensorveil.noise.staircase import Staircase as StaircaseNoise
from tensorveil.noise.staircase import Stairs, best_stairs


@dataclass(frozen=True, kw_only=True)
class StairsLaw:
    """Staircase noise for one epsilon."""

    stairs: Stairs

    def variance(self, places: Array) -> Array:
        """Give the noise's variance, the same at all places."""
        return np.full(np.shape(places), self.stairs.variance)


@dataclass(frozen=True, kw_only=True, eq=False)
class Staircase(Entrywise):
    """Add staircase noise to every entry: the additive noise of least variance for pure epsilon (Geng, Viswanath).

    Parameters as for `Entrywise`; ``points`` defaults to 4097.

    Guarantee: epsilon for the unit (docs/guarantees.md#staircase).

    >>> from tensorveil.local import Staircase
    >>> Staircase(shape=(2,), epsilon=2.0, unit="tensor", bounds=(0, 1)).perturb([0.2, 0.9]).shape
    (2,)
    """

    label: ClassVar[str] = "staircase noise on a grid"
    proof: ClassVar[str] = "docs/guarantees.md#staircase"

    def _best_points(self) -> int:
        return 4097

    def _law(self, epsilon: Fraction) -> StairsLaw:
        return StairsLaw(stairs=best_stairs(epsilon, self.last))

    def _answers(self, laws: tuple[Any, ...]) -> Answers:
        return StaircaseNoise(stairs=tuple(law.stairs for law in laws))

    def _centred(self, codes: Array, column: Array, laws: tuple[Any, ...]) -> Array:
        out: Array = codes - 0.5 * self.last
        return out
