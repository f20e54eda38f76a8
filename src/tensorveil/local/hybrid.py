"""The hybrid of the piecewise mechanism and a single bit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.local.contract import LocalMechanism
from tensorveil.local.laws import Array
from tensorveil.local.piecewise import Piecewise
from tensorveil.noise import NoiseSource
from tensorveil.noise.dyadic import WORDS
from tensorveil.noise.responses import TwoPoints, Windows, chances
from tensorveil.noise.windows import WindowLaw, best_width, decode_windows, fine_grid, window_answers, window_law

BREAK: Final = 0.61  # below this epsilon a single bit is better than any mixture (Wang et al. 2019, lemma 3)


@dataclass(frozen=True, kw_only=True)
class HybridLaw:
    """A window law, a two-point law (width 1 on a grid of two points), and how often the first one answers."""

    window: WindowLaw
    bit: WindowLaw
    share: int  # over 2**64

    def variance(self, places: Array) -> Array:
        """Return the variance of a decoded answer at centred grid points; the bit's rounding included."""
        alpha = self.share / WORDS
        reach = 0.5 * self.window.last * self.bit.gain
        out: Array = alpha * self.window.variance(places) + (1 - alpha) * (reach**2 - np.asarray(places) ** 2)
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class HybridAnswers:
    """Draws from windows or two points; answers of the second kind are numbered after those of the first."""

    windows: Windows
    bits: TwoPoints
    shares: NDArray[np.uint64]

    def draw(self, index: Array, column: Array, source: NoiseSource) -> Array:
        """Answer once per index; which law answers is drawn without regard to the data."""
        first = source.uniform64(len(index)) < self.shares[column]
        out = np.empty(len(index), dtype=np.int64)
        by_window, by_bit = np.flatnonzero(first), np.flatnonzero(~first)
        if len(by_window):
            out[by_window] = self.windows.draw(index[by_window], column[by_window], source)
        if len(by_bit):
            count = self.windows.last + self.windows.widths[column[by_bit]]
            out[by_bit] = count + self.bits.draw(index[by_bit], column[by_bit], source)
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class Hybrid(Piecewise):
    """Answer by the piecewise mechanism with chance 1 - e^(-eps/2), else by one bit (Wang et al. 2019).

    What counts is each entry's epsilon: below 0.61 it always answers by one bit. The parameters are those of
    `Piecewise`; by default a few coordinates are picked at random, which makes it good for many entries and a small
    budget.

    Guarantee: epsilon for the unit (docs/guarantees.md#hybrid).

    >>> from tensorveil.local import Hybrid
    >>> Hybrid(shape=(28, 28), epsilon=1.0, unit="tensor", bounds=(-1, 1)).coordinates
    1
    """

    command: ClassVar[str] = "hybrid"
    label: ClassVar[str] = "hybrid mechanism (piecewise and one bit)"
    proof: ClassVar[str] = "docs/guarantees.md#hybrid"

    @classmethod
    def examples(cls, epsilon: float) -> Mapping[str, LocalMechanism]:
        """Return one with the best number of coordinates, and one that reports a single entry."""
        settings: dict[str, Any] = {"shape": (3,), "epsilon": epsilon, "unit": "tensor", "bounds": (-1.0, 1.0)}
        return {"hybrid": cls(**settings), "hybrid, one entry told": cls(**settings, coordinates=1)}

    def _best_points(self) -> int:
        return fine_grid(max(self._epsilons))

    def _law(self, epsilon: Fraction) -> HybridLaw:  # type: ignore[override]
        alpha = 1 - math.exp(-0.5 * float(epsilon)) if epsilon > BREAK else 0.0
        return HybridLaw(
            window=window_law(epsilon, self.last, best_width(epsilon, self.last)),
            bit=window_law(epsilon, 1, 1),
            share=min(WORDS - 1, int(alpha * WORDS)),
        )

    def _answers(self, laws: tuple[HybridLaw, ...]) -> HybridAnswers:  # type: ignore[override]
        return HybridAnswers(
            windows=window_answers(tuple(law.window for law in laws)),
            bits=TwoPoints(last=self.last, chances=chances([law.bit.chance for law in laws])),
            shares=chances([law.share for law in laws]),
        )

    @cached_property
    def _decoding(self) -> tuple[Array, Array]:
        """Number of window answers, and size of a decoded bit, by law."""
        laws = self._laws[0]
        counts = np.array([law.window.last + law.window.width for law in laws])
        return counts, np.array([0.5 * self.last * law.bit.gain for law in laws])

    def _decode_places(self, codes: Array, column: Array, laws: tuple[HybridLaw, ...]) -> Array:  # type: ignore[override]
        counts, reaches = self._decoding
        over = codes - counts[column]
        by_bit = over >= 0
        windows = tuple(law.window for law in laws)
        out = decode_windows(np.where(by_bit, 0, codes), column, windows)
        return np.where(by_bit, np.where(over == 1, reaches[column], -reaches[column]), out)
