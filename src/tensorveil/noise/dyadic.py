"""Probabilities that 64 random bits decide exactly: multiples of 2**-64, rounded in the direction that is safe.

A mechanism that flips coins with such probabilities is exact: its proof uses the rounded probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final

from tensorveil.noise.interval import Arithmetic, Interval, arithmetic

WORDS: Final = 1 << 64
DIGITS: Final = 60  # 2**-64 is about 5e-20


def chance_below(probability: Callable[[Arithmetic], Interval]) -> int:
    """Return the numerator over 2**64 of a probability that is at most the given one, and within 2**-64 of it."""
    low = probability(arithmetic(DIGITS)).lo
    return max(0, min(WORDS - 1, math.floor(Fraction(low) * WORDS)))


def log_at_least(ratio: Fraction) -> Fraction:
    """Return a rational number that is at least ln(ratio), and very close to it."""
    numbers = arithmetic(DIGITS)
    return Fraction(numbers.ln(numbers.number(ratio)).hi)


def exp_at_most(exponent: Fraction) -> Fraction:
    """Return a rational number that is at most e**exponent, and very close to it."""
    numbers = arithmetic(DIGITS)
    return max(Fraction(0), Fraction(numbers.exp(numbers.number(exponent)).lo))


def exp_at_least(exponent: Fraction) -> Fraction:
    """Return a rational number that is at least e**exponent, and very close to it."""
    numbers = arithmetic(DIGITS)
    return Fraction(max(numbers.exp(numbers.number(exponent)).hi, Decimal(0)))
