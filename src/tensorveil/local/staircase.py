"""Staircase noise on every entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tensorveil.local.contract import LocalMechanism
from tensorveil.local.entrywise import Entrywise
from tensorveil.local.laws import Answers, Array
from tensorveil.noise.staircase import StaircaseSampler, Stairs, best_stairs


@dataclass(frozen=True, kw_only=True)
class StairsLaw:
    """Staircase noise for one epsilon."""

    stairs: Stairs

    def variance(self, places: Array) -> Array:
        """Return the noise's variance, which is the same at all places."""
        return np.full(np.shape(places), self.stairs.variance)


@dataclass(frozen=True, kw_only=True, eq=False)
class Staircase(Entrywise):
    """Add staircase noise to every entry: the additive noise of least variance for pure epsilon (Geng, Viswanath).

    The parameters are those of `Entrywise`; ``points`` defaults to 4097.

    Guarantee: epsilon for the unit (docs/guarantees.md#staircase).

    >>> from tensorveil.local import Staircase
    >>> Staircase(shape=(2,), epsilon=2.0, unit="tensor", bounds=(0, 1)).perturb([0.2, 0.9]).shape
    (2,)
    """

    command: ClassVar[str] = "staircase"
    label: ClassVar[str] = "staircase noise on a grid"
    proof: ClassVar[str] = "docs/guarantees.md#staircase"

    @classmethod
    def examples(cls, epsilon: float) -> Mapping[str, LocalMechanism]:
        """Return one for whole tensors, one for single entries, and one for tensors of which one entry differs."""
        declared: dict[str, Any] = {"epsilon": epsilon, "bounds": (-1.0, 1.0)}
        return {
            "staircase": cls(shape=(2,), unit="tensor", **declared),
            "staircase, entry": cls(shape=(1,), unit="local entry", **declared),
            "staircase, one entry differs": cls(shape=(3,), unit="tensor:differ=1", **declared),
        }

    def _best_points(self) -> int:
        return 4097

    def _law(self, epsilon: Fraction) -> StairsLaw:
        return StairsLaw(stairs=best_stairs(epsilon, self.last))

    def _answers(self, laws: tuple[Any, ...]) -> Answers:
        return StaircaseSampler(stairs=tuple(law.stairs for law in laws))

    def _decode_places(self, codes: Array, column: Array, laws: tuple[Any, ...]) -> Array:
        out: Array = codes - 0.5 * self.last
        return out
