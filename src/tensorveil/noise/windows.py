"""The law behind randomised response and the piecewise mechanism: a window of likely answers that follows the value.

The grid has N + 1 points. An answer is one of N + w points; the w points from the index on, the window, share the
chance p, the N others share 1 - p. All window points are equally likely, all others too, so any two inputs' chances of
an answer differ at most by the factor (p / w) / ((1 - p) / N): that is the law's e^epsilon, whatever the width.
Width 1 is k-ary randomised response with k = N + 1. With w about N e^(-epsilon/2) it is the piecewise mechanism of Wang
et al. (Collecting and analyzing multidimensional data with local differential privacy, 2019) on a grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.noise.adding import Noisy, answer_all, check_bounds, place_values
from tensorveil.noise.dyadic import WORDS, chance_below, exp_at_most
from tensorveil.noise.responses import Windows, chances
from tensorveil.noise.source import NoiseSource
from tensorveil.noise.uniform import Number, fraction

Array = NDArray[Any]

# Below this epsilon, answers in windows would hardly differ from each other; Laplace noise is drawn instead.
SMALLEST_WINDOWED: Final = 1e-3
# From here on the chance of the window is as close to 1 as 64 bits allow, on any grid; e^epsilon need not be known.
_CERTAIN: Final = Fraction(128)
# The variance of rounding to the grid, in squared steps: no answer is nearer to its value.
_ROUNDING: Final = 1 / 12


@dataclass(frozen=True, kw_only=True)
class WindowLaw:
    """Last index N, window width w, chance over 2**64 of an answer in the window."""

    last: int
    width: int
    chance: int

    @property
    def gain(self) -> float:
        """What a centred answer is multiplied by to make it unbiased: 1 / (p - w (1 - p) / N)."""
        p = self.chance / WORDS
        return 1 / (p - self.width * ((WORDS - self.chance) / WORDS) / self.last)

    def variance(self, places: Array) -> Array:
        """Return the variance of a decoded answer at centred grid points."""
        a, b = window_moments(self.last, float(self.width), self.gain, (WORDS - self.chance) / WORDS)
        out: Array = a + b * np.asarray(places, dtype=np.float64) ** 2
        return out

    @property
    def epsilon(self) -> Fraction:
        """The ratio of chances whose logarithm is the law's exact epsilon."""
        return Fraction(self.chance * self.last, (WORDS - self.chance) * self.width)


def window_moments(last: Any, width: Any, gain: Any, rest: Any) -> tuple[Any, Any]:
    """Return a and b such that a decoded answer's variance is a + b t^2 at a centred place t.

    All M = N + w centred points have the sum of squares M (M^2 - 1) / 12, those of the window w t^2 + w (w^2 - 1) / 12.
    """
    count = last + width
    squares = count * (count**2 - 1) / 12
    return gain**2 * rest / last * squares + gain * (width**2 - 1) / 12, gain - 1


def window_law(epsilon: Fraction, last: int, width: int) -> WindowLaw:
    """Return the law of this width with the largest chance that epsilon allows: p / (1 - p) = e^epsilon w / N."""
    odds = exp_at_most(min(epsilon, _CERTAIN)) * width / last
    return WindowLaw(last=last, width=width, chance=chance_below(lambda numbers: numbers.number(odds / (1 + odds))))


def best_width(epsilon: Fraction, last: int, square: float = 1.0) -> int:
    """Return the width of least variance; it is near N e^(-epsilon/2).

    ``square`` is the mean square of the values, as a share of that at the ends: by default the worst that there is.
    """
    widths, variances = _variances(float(epsilon), last, square, 2000)
    return int(widths[np.argmin(variances)])


def _variances(epsilon: float, last: int, square: float, most: int) -> tuple[Array, Array]:
    """Return widths that may be the best, at most so many, and the variances of answers with them."""
    guess = last * math.exp(-0.5 * epsilon)
    widths = np.unique(np.clip(np.rint(np.geomspace(max(0.3 * guess, 1), 3 * guess + 2, most)), 1, last))
    rest = 1 / (1 + math.exp(min(epsilon, 700.0)) * widths / last)
    gain = 1 / (1 - rest - widths * rest / last)
    a, b = window_moments(last, widths, gain, rest)
    return widths, a + np.maximum(b, 0) * square * (0.5 * last) ** 2


def window_answers(laws: tuple[WindowLaw, ...]) -> Windows:
    """Return the sampler of several laws on the same grid."""
    widths = np.array([law.width for law in laws], dtype=np.int64)
    return Windows(last=laws[0].last, chances=chances([law.chance for law in laws]), widths=widths)


@lru_cache(maxsize=64)
def _decoding(laws: tuple[WindowLaw, ...]) -> tuple[Array, Array]:
    middles = np.array([0.5 * (law.last + law.width - 1) for law in laws])
    return middles, np.array([law.gain for law in laws])


def decode_windows(codes: Array, column: Array, laws: tuple[WindowLaw, ...]) -> Array:
    """Decode answers of several laws: centred, times the gain."""
    middles, gains = _decoding(laws)
    if len(laws) == 1:
        out: Array = (codes - middles[0]) * gains[0]
        return out
    several: Array = (codes - middles[column]) * gains[column]
    return several


@dataclass(frozen=True, kw_only=True)
class Window:
    """How answers are spread, in units of the values: what a fit may know of the law.

    With the chance ``inside``, an answer that is divided by the gain is within ``half`` of its value; otherwise it is
    anywhere else within ``span``.
    """

    inside: float
    half: float
    span: float
    gain: float
    middle: float


def windowed_values_mechanism(
    values: ArrayLike, bounds: tuple[float, float], source: NoiseSource, *, epsilon: Number, square: float = 1.0,
    flags: bool = False,
) -> tuple[Noisy, Window]:  # fmt: skip
    """Answer for every value within declared bounds, near it with high chance, else anywhere; decoded, unbiased.

    ``square`` is about the mean square of the values around the middle, as a share of that at the bounds; it decides on
    the width of the window, and should be public or already private. ``flags`` says that values are at either bound:
    the grid then has two points, one of which is the window, which is randomised response (Warner 1965).

    Guarantee: epsilon differential privacy for neighbours that differ in one value within the bounds, even against the
    party that collects the values (docs/guarantees.md#windows).
    """
    law = InWindow.choose(bounds, epsilon=epsilon, square=square, flags=flags)
    return law.read(answer_all(law, values, source), secure=source.secure), law.window


@dataclass(frozen=True, kw_only=True)
class InWindow:
    """An answer from a window around every value: the law of `windowed_values_mechanism`."""

    low: float
    high: float
    law: WindowLaw
    square: float

    words = 2

    @classmethod
    def choose(
        cls, bounds: tuple[float, float], *, epsilon: Number, square: float = 1.0, flags: bool = False
    ) -> InWindow:
        """Return the law for bounds and an epsilon."""
        low, high = check_bounds(bounds)
        exact = fraction(epsilon, "epsilon")
        last = 1 if flags else fine_grid(exact) - 1
        law = window_law(exact, last, 1 if flags else best_width(exact, last, square))
        return cls(low=low, high=high, law=law, square=square)

    @property
    def _step(self) -> float:
        return (self.high - self.low) / self.law.last

    def count_words(self, n: int) -> int:
        """Return how many words so many answers begin with."""
        return self.words * n

    def place(self, values: ArrayLike) -> NDArray[np.int64]:
        """Return where values lie on the grid."""
        return place_values(values, self.low, self.high, self.law.last)

    def answer(self, places: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Return points near the places with high chance, else anywhere."""
        return window_answers((self.law,)).draw(places, np.zeros(len(places), dtype=np.int64), source)

    def read(self, answers: NDArray[np.int64], *, secure: bool) -> Noisy:
        """Return what answers stand for, without bias."""
        column = np.zeros(answers.size, dtype=np.int64)
        found = decode_windows(answers.reshape(-1), column, (self.law,)) * self._step + 0.5 * (self.low + self.high)
        places = np.array([self.square**0.5 * 0.5 * self.law.last])
        variance = float(self.law.variance(places)[0]) * self._step**2
        return Noisy(values=found.reshape(answers.shape), variance=variance, source_secure=secure)

    @property
    def window(self) -> Window:
        """How answers are spread."""
        return Window(
            inside=self.law.chance / WORDS,
            half=0.5 * self.law.width * self._step,
            span=(self.law.last + self.law.width) * self._step,
            gain=self.law.gain,
            middle=0.5 * (self.low + self.high),
        )


def flag_noise(epsilon: float) -> float:
    """Return about the variance of an answer for values that are 0 or 1; for planning."""
    rest = math.exp(-epsilon)
    return rest / math.expm1(-epsilon) ** 2


@lru_cache(maxsize=4096)
def window_noise(epsilon: float, square: float) -> float:
    """Return about the variance of an answer for values whose bounds are 1 apart; for planning."""
    if epsilon < SMALLEST_WINDOWED:  # the limit, where the window is as wide as the grid
        return 4.0 / (3.0 * epsilon**2)
    last = fine_grid(Fraction(epsilon)) - 1
    return max(float(_variances(epsilon, last, square, 200)[1].min()), _ROUNDING) / last**2


def fine_grid(epsilon: Fraction) -> int:
    """Return how many points make rounding negligible: thousands of steps in a window of e^(-epsilon/2) of the grid."""
    return (1 << min(20, 12 + math.ceil(float(epsilon) / (2 * math.log(2))))) + 1
