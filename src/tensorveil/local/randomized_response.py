"""k-ary randomised response on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tensorveil.local.entrywise import Answers, Array, Entrywise
from tensorveil.local.windows import WindowLaw, window_answers, window_centred, window_law, window_moments

CANDIDATES = (*range(2, 65), *(2**k for k in range(7, 13)))


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomizedResponse(Entrywise):
    """Tell each entry's grid point truly with chance e^eps / (e^eps + k - 1), else one of the k - 1 others.

    Parameters as for `Entrywise`; ``points`` is k, by default the one of least worst error (2 for small epsilon).

    Guarantee: epsilon for the unit (docs/guarantees.md#windows).

    >>> from tensorveil.local import RandomizedResponse
    >>> RandomizedResponse(shape=(2,), epsilon=2.0, unit="tensor", bounds=(0, 1)).perturb([0.2, 0.9]).shape
    (2,)
    """

    label: ClassVar[str] = "k-ary randomised response"
    proof: ClassVar[str] = "docs/guarantees.md#windows"

    def _best_points(self) -> int:
        smallest = min(part for part in self._epsilons if part > 0)
        odds = np.exp(min(float(smallest), 40.0))
        worst: dict[int, float] = {}
        for points in CANDIDATES:
            last = points - 1
            rest = last / (odds + last)
            gain = 1 / (1 - rest - rest / last)
            a, b = window_moments(last, 1.0, gain, rest)
            ends = a + max(b, 0.0) * (0.5 * last) ** 2
            worst[points] = float((ends + (1 + b) / 4) / last**2)
        return min(worst, key=lambda points: worst[points])

    def _law(self, epsilon: Fraction) -> WindowLaw:
        return window_law(epsilon, self.last, 1)

    def _answers(self, laws: tuple[WindowLaw, ...]) -> Answers:
        return window_answers(laws)

    def _centred(self, codes: Array, column: Array, laws: tuple[WindowLaw, ...]) -> Array:
        return window_centred(codes, column, laws)
