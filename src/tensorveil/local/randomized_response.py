"""k-ary randomised response on a grid."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from tensorveil.local.contract import LocalMechanism
from tensorveil.local.entrywise import Entrywise
from tensorveil.local.laws import Answers, Array
from tensorveil.noise.windows import WindowLaw, decode_windows, window_answers, window_law, window_moments

CANDIDATES = range(2, 1025)


@lru_cache(maxsize=1024)
def best_points(epsilon: float, scale: float) -> int:
    """Return the number of points of least worst error, random rounding to the grid and picking entries included.

    ``scale`` is the number of entries over the number of those that are picked.
    """
    last = np.array(CANDIDATES, dtype=np.float64)[:, None] - 1
    rest = last / (math.exp(min(epsilon, 700.0)) + last)
    gain = 1 / (1 - rest - rest / last)
    a, b = window_moments(last, 1.0, gain, rest)
    part = np.linspace(0, 1, 33)[None, :]
    middle = np.floor(0.5 * last) - 0.5 * last
    places = np.concatenate([middle + part, 0.5 * last - part], axis=1)
    parts = np.concatenate([np.broadcast_to(part, (len(last), 33))] * 2, axis=1)
    errors = a + b * places**2 + (1 + b) * parts * (1 - parts)
    worst = ((errors + places**2) * scale - places**2).max(axis=1) / last[:, 0] ** 2
    return CANDIDATES[int(np.argmin(worst))]


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomizedResponse(Entrywise):
    """Report each entry's grid point truly with chance e^eps / (e^eps + k - 1), else one of the k - 1 others.

    The parameters are those of `Entrywise`; ``points`` is k, by default the one of least worst error (2 for small
    epsilon).

    Guarantee: epsilon for the unit (docs/guarantees.md#windows).

    >>> from tensorveil.local import RandomizedResponse
    >>> RandomizedResponse(shape=(2,), epsilon=2.0, unit="tensor", bounds=(0, 1)).perturb([0.2, 0.9]).shape
    (2,)
    """

    command: ClassVar[str] = "k-rr"
    label: ClassVar[str] = "k-ary randomised response"
    proof: ClassVar[str] = "docs/guarantees.md#windows"

    @classmethod
    def examples(cls, epsilon: float) -> Mapping[str, LocalMechanism]:
        """Return one on a grid of four points."""
        return {"k-RR": cls(shape=(2,), epsilon=epsilon, unit="tensor", bounds=(-1.0, 1.0), points=4)}

    def _best_points(self) -> int:
        smallest = min(part for part in self._epsilons if part > 0)
        scale = 1.0 if self.coordinates is None else self.size / int(self.coordinates)
        return best_points(float(smallest), scale)

    def _law(self, epsilon: Fraction) -> WindowLaw:
        return window_law(epsilon, self.last, 1)

    def _answers(self, laws: tuple[WindowLaw, ...]) -> Answers:
        return window_answers(laws)

    def _decode_places(self, codes: Array, column: Array, laws: tuple[WindowLaw, ...]) -> Array:
        return decode_windows(codes, column, laws)
