"""Uniform numbers that are known bit by bit, and questions about them that are answered with certainty."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import count
from typing import Final, TypeVar

import numpy as np

from tensorveil.errors import InputError
from tensorveil.noise.interval import Arithmetic, Interval, arithmetic
from tensorveil.noise.source import NoiseSource

Number = int | float | Fraction
Size = int | tuple[int, ...]
T = TypeVar("T")

FIRST_DIGITS: Final = 40
BLOCK: Final = 1 << 16  # draws per kernel call: the words stay in the processor's cache
LARGEST_SCALE: Final = 1 << 40
LARGEST: Final = 1 << 62  # every noisy number stays below this in magnitude, so that sums of two fit 64 bits


class Uniform:
    """A number uniform on [0, 1) whose first bits have been drawn; later bits are drawn when they are needed.

    A draw in progress is never discarded: discarding draws that are hard to settle would favour the easy outcomes.
    """

    def __init__(self, prefix: int, bits: int, source: NoiseSource) -> None:
        self._prefix, self._bits, self._source = prefix, bits, source

    def interval(self, numbers: Arithmetic) -> Interval:
        """Enclose the number, with at least the arithmetic's relative precision."""
        while self._prefix.bit_length() < 4 * numbers.digits:
            self.extend()
        return numbers.ratio(self._prefix, self._prefix + 1, 1 << self._bits)

    def extend(self) -> None:
        """Draw 64 more bits of this number."""
        self._prefix = self._prefix << 64 | int(self._source.uniform64(1)[0])
        self._bits += 64

    def below(self, threshold: Fraction) -> bool:
        """Tell whether the number is below a rational threshold."""
        while True:
            scaled = threshold * (1 << self._bits)
            if self._prefix + 1 <= scaled:
                return True
            if self._prefix >= scaled:
                return False
            self.extend()

    def below_exp(self, exponent: Callable[[Arithmetic], Interval]) -> bool:
        """Tell whether the number is below e**exponent, for an exponent that can be enclosed at any precision."""

        def attempt(numbers: Arithmetic) -> bool | None:
            here, there = self.interval(numbers), numbers.exp(exponent(numbers))
            if here.hi <= there.lo:
                return True
            return False if here.lo >= there.hi else None

        return settle(attempt)


def settle(attempt: Callable[[Arithmetic], T | None]) -> T:
    """Ask with more and more digits until the answer is certain."""
    answers = (attempt(arithmetic(FIRST_DIGITS << doublings)) for doublings in count())
    return next(answer for answer in answers if answer is not None)


def certain_floor(value: Interval) -> int | None:
    """Return the largest integer not above the number, or None if the interval leaves it open."""
    low = math.floor(value.lo)
    if low != math.floor(value.hi):
        return None
    if abs(low) >= LARGEST:
        raise InputError("scale is too large: a draw left the 64-bit integers. Choose a coarser grid.")
    return low


def fraction(value: Number, name: str) -> Fraction:
    """Return a positive parameter as the exact rational number that it represents."""
    # numpy's integers are rational too: converting them to float first could round a sensitivity down.
    if isinstance(value, numbers.Rational):
        number: Fraction | float = Fraction(int(value.numerator), int(value.denominator))
    else:
        number = float(value)
    if not number > 0 or number == math.inf:
        raise InputError(f"{name} must be finite and above 0; got {number}. Try {name}=1.0.")
    return Fraction(number)


def noise_scale(value: Number, name: str) -> Fraction:
    """Return a noise scale in grid steps; refuse scales outside the range that the samplers support."""
    exact = fraction(value, name)
    if exact > LARGEST_SCALE:
        raise InputError(f"{name} must be at most 2**40 steps; got {float(exact):g}. Choose a coarser grid.")
    if exact * LARGEST_SCALE < 1:
        raise InputError(f"{name} must be at least 2**-40 steps; got {float(exact):g}. Choose a finer grid.")
    return exact


def blocks(total: int, length: int = BLOCK) -> Iterable[slice]:
    """Cut range(total) into slices of at most the given length."""
    return (slice(low, min(low + length, total)) for low in range(0, total, length))


def total_size(size: Size) -> int:
    """Return the number of draws in a size, as numpy would read it."""
    sizes = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    if any(n < 0 for n in sizes):
        raise InputError(f"size must not be negative; got {size}. Try size=1.")
    return math.prod(sizes)
