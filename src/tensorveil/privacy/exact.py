"""Arithmetic with directed rounding: every result states to which side it is rounded.

A number stands for the decimal that it prints as: 0.1 is a tenth, so ten charges of 0.1 fill a budget of 1. The binary
number differs from it by about one part in 10^16; a mechanism that must be exact uses `exactly(0.1)`.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction

from tensorveil.errors import InputError

__all__ = [
    "at_least",
    "at_most",
    "exactly",
    "nonnegative",
    "positive",
    "probability",
    "root_at_least",
    "root_at_most",
    "show_at_least",
    "show_at_most",
    "show_exactly",
    "show_odds",
]


READABLE = 14.0  # the epsilon up to which odds are written as a number: about a million


def exactly(number: float) -> Fraction:
    """Return the decimal that a finite float prints as."""
    return Fraction(repr(float(number)))


def at_least(exact: Fraction) -> float:
    """Return the smallest float that is not below `exact`."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf
    return near if exactly(near) >= exact else math.nextafter(near, math.inf)


def at_most(exact: Fraction) -> float:
    """Return the largest float that is not above `exact`."""
    return -at_least(-exact)


def root_at_least(exact: Fraction) -> float:
    """Return the smallest float whose square is not below `exact`."""
    near = _near_root(exact)
    while near > 0 and exactly(math.nextafter(near, 0.0)) ** 2 >= exact:
        near = math.nextafter(near, 0.0)
    while exactly(near) ** 2 < exact:
        near = math.nextafter(near, math.inf)
    return near


def root_at_most(exact: Fraction) -> float:
    """Return a float whose square is not above `exact`, next to the root."""
    near = _near_root(exact)
    while exactly(near) ** 2 > exact:
        near = math.nextafter(near, 0.0)
    return near


def _near_root(exact: Fraction) -> float:
    """Return the root to within a few ulps, scaled so that neither tiny nor huge squares leave the range of floats."""
    if exact == 0:
        return 0.0
    half = (exact.numerator.bit_length() - exact.denominator.bit_length()) // 2
    return math.ldexp(math.sqrt(exact / Fraction(4) ** half), half)


def show_at_least(number: float, digits: int = 4) -> str:
    """Write a number with few digits, never smaller than it is: a guarantee must not look better than it is."""
    return _format(number, digits, ROUND_CEILING)


def show_at_most(number: float, digits: int = 4) -> str:
    """Write a number with few digits, never larger than it is."""
    return _format(number, digits, ROUND_FLOOR)


def show_exactly(number: float) -> str:
    """Write a number in full, as short as that is possible: declared bounds are not rounded.

    >>> show_exactly(5.0), show_exactly(1234567.5)
    ('5', '1234567.5')
    """
    short = f"{number:g}"
    return short if float(short) == number else repr(float(number))


def show_odds(epsilon: float) -> str:
    """Write e^epsilon, never smaller than it is: as a number while that can be read, then as a power.

    >>> show_odds(5.0), show_odds(1000.0)
    ('149', 'e^1000')
    """
    if epsilon > READABLE:
        return f"e^{show_at_least(epsilon)}"
    return show_at_least(math.nextafter(math.exp(epsilon), math.inf), 3) if epsilon else "1"


def _format(number: float, digits: int, rounding: str) -> str:
    if not math.isfinite(number) or number == 0:
        return "infinite" if number else "0"
    rounded = Context(prec=digits, rounding=rounding).create_decimal(repr(float(number))).normalize()
    if -4 <= rounded.adjusted() < 7:
        return f"{rounded:f}"
    mantissa, exponent = f"{rounded:e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _number(name: str, value: object, rule: str) -> float:
    """Return a real number (numpy's too) as a float; refuse booleans and everything else."""
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        raise InputError(f"{name} must be {rule}; got {type(value).__name__}. Try {name}=1.0.")
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):  # a whole number beyond floats, an array of several
        raise InputError(f"{name} must be {rule}, one number that a float can hold. Try {name}=1.0.") from None


def positive(name: str, value: object, example: str = "1.0") -> float:
    """Check that a parameter is a finite number above zero."""
    number = _number(name, value, "a number above 0")
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} must be finite and above 0; got {number}. Try {name}={example}.")
    return number


def nonnegative(name: str, value: object, example: str = "1.0") -> float:
    """Check that a parameter is a finite number, at least zero."""
    number = _number(name, value, "a number of at least 0")
    if not (math.isfinite(number) and number >= 0):
        raise InputError(f"{name} must be finite and at least 0; got {number}. Try {name}={example}.")
    return abs(number)


def probability(name: str, value: object, example: str = "1e-6") -> float:
    """Check that a parameter lies in [0, 1)."""
    number = _number(name, value, "a number of at least 0 and below 1")
    if not 0 <= number < 1:
        raise InputError(f"{name} must be at least 0 and below 1; got {number}. Try {name}={example}.")
    return abs(number)
