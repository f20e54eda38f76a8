"""The public grid: statistics become integers before noise is added, so that no low bit of a float can leak."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.noise.basic import flip_fractions
from tensorveil.noise.source import NoiseSource
from tensorveil.noise.uniform import Number, fraction

FINEST, COARSEST = -900, 900  # exponents of the step; products with 64-bit integers stay normal floats
FINENESS: Final = 20  # default: the noise spreads over about 2**20 steps, so rounding adds 2**-40 of its variance


@dataclass(frozen=True, slots=True)
class Grid:
    """All integer multiples of a power of two. The step is public: choose it from public quantities only.

    >>> from tensorveil.noise import Grid
    >>> Grid(0.25).step, Grid.for_scale(3.0).step == 2.0**-19
    (0.25, True)
    """

    step: float

    def __post_init__(self) -> None:
        step = float(self.step)
        if not math.isfinite(step) or step <= 0 or math.frexp(step)[0] != 0.5:
            raise InputError(f"step must be a power of two; got {step!r}. Try Grid.for_scale(noise_scale).")
        if not FINEST <= math.frexp(step)[1] - 1 <= COARSEST:
            raise InputError(f"step must lie between 2**{FINEST} and 2**{COARSEST}; got {step!r}. Rescale the values.")
        object.__setattr__(self, "step", step)

    @property
    def exponent(self) -> int:
        """The step's exponent of two."""
        return math.frexp(self.step)[1] - 1

    @classmethod
    def for_scale(cls, noise_scale: Number, fineness: int = FINENESS) -> Grid:
        """Return the grid whose step is 2**-fineness of the noise scale, rounded down to a power of two.

        The scale is that of the noise to come (sensitivity / epsilon or sensitivity / mu): a public quantity.
        """
        scale = float(fraction(noise_scale, "noise_scale"))
        return cls(math.ldexp(1.0, math.frexp(scale)[1] - 1 - fineness))

    def values(self, ints: ArrayLike) -> NDArray[np.float64]:
        """Return step * ints as floats."""
        return np.multiply(np.asarray(ints, dtype=np.int64), self.step, dtype=np.float64)

    def steps(self, length: Number) -> Fraction:
        """Return a length in steps, exactly."""
        return Fraction(length) / Fraction(self.step)


def _scale(values: ArrayLike, grid: Grid) -> NDArray[np.float64]:
    """Return values / step, exactly; refuse values that do not fit on the grid."""
    numbers = np.asarray(values, dtype=np.float64)
    largest = 0.0 if numbers.size == 0 else max(float(numbers.max()), -float(numbers.min()))  # NaN if one is NaN
    if not math.isfinite(largest):
        raise InputError("values must be finite. Replace or drop NaN and infinities before rounding to the grid.")
    if largest >= math.ldexp(grid.step, 61):
        raise InputError("values are too large for this grid's 64-bit integers. Clip them or choose a coarser grid.")
    return np.multiply(numbers, math.ldexp(1.0, -grid.exponent))


def snap(values: ArrayLike, grid: Grid) -> NDArray[np.int64]:
    """Return the nearest grid points as integers, ties to even. Monotone in every value.

    >>> from tensorveil.noise import Grid, snap
    >>> snap([0.3, 0.375, -1.0], Grid(0.25)).tolist()
    [1, 2, -4]
    """
    return np.rint(_scale(values, grid)).astype(np.int64)


def stochastic_round(values: ArrayLike, grid: Grid, source: NoiseSource) -> NDArray[np.int64]:
    """Return one of the two nearest grid points as an integer, so that the mean is the value itself, exactly."""
    scaled = _scale(values, grid)
    size = np.abs(scaled).reshape(-1)
    whole = np.floor(size)
    # The fraction of a magnitude is an exact float; that of a negative number near zero would not be.
    up = flip_fractions(size - whole, source)
    rounded = whole.astype(np.int64) + up
    return np.where(scaled.reshape(-1) < 0, -rounded, rounded).reshape(scaled.shape)


def sqrt_up(value: Number) -> Fraction:
    """Return a rational number at least the square root, by no more than 2**-40 relative to 1."""
    scaled = math.ceil(Fraction(value) * (1 << 80))
    root = math.isqrt(scaled)
    return Fraction(root + (root * root < scaled), 1 << 40)
