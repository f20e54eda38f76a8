"""Rigorous interval arithmetic at any precision, for the few draws that double precision cannot settle.

The standard library's decimals round +, -, *, / in a chosen direction, and their exp, ln and square root are correctly
rounded, so one step outward encloses the true value. Sine and cosine are summed in integers with a counted error.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Interval:
    """A real number known to lie between lo and hi."""

    lo: Decimal
    hi: Decimal


def negate(a: Interval) -> Interval:
    """Return -a exactly; the operator would round to the precision of the current decimal context."""
    return Interval(a.hi.copy_negate(), a.lo.copy_negate())


class Arithmetic:
    """Operations on intervals at a fixed number of decimal digits."""

    def __init__(self, digits: int) -> None:
        self.digits = digits
        self._down = Context(prec=digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
        self._up = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
        self._near = Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX)

    def ratio(self, low: int, high: int, denominator: int) -> Interval:
        """Enclose every number between low / denominator and high / denominator (denominator positive)."""
        below = Decimal(denominator)
        return Interval(self._down.divide(Decimal(low), below), self._up.divide(Decimal(high), below))

    def number(self, value: Fraction | int) -> Interval:
        """Enclose a rational number."""
        return self.ratio(value.numerator, value.numerator, value.denominator)

    def add(self, a: Interval, b: Interval) -> Interval:
        """Enclose a + b."""
        return Interval(self._down.add(a.lo, b.lo), self._up.add(a.hi, b.hi))

    def subtract(self, a: Interval, b: Interval) -> Interval:
        """Enclose a - b."""
        return Interval(self._down.subtract(a.lo, b.hi), self._up.subtract(a.hi, b.lo))

    def multiply(self, a: Interval, b: Interval) -> Interval:
        """Enclose a * b."""
        corners = [(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        return Interval(
            min(self._down.multiply(x, y) for x, y in corners), max(self._up.multiply(x, y) for x, y in corners)
        )

    def divide(self, a: Interval, b: Interval) -> Interval:
        """Enclose a / b for b above 0."""
        corners = [(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        return Interval(
            min(self._down.divide(x, y) for x, y in corners), max(self._up.divide(x, y) for x, y in corners)
        )

    def ln(self, a: Interval) -> Interval:
        """Enclose the natural logarithm of a positive number."""
        return self._outward(self._near.ln(a.lo), self._near.ln(a.hi))

    def exp(self, a: Interval) -> Interval:
        """Enclose e to the power of a number."""
        return self._outward(self._near.exp(a.lo), self._near.exp(a.hi))

    def sqrt(self, a: Interval) -> Interval:
        """Enclose the square root of a number that is at least 0 (rounding below 0 is clipped)."""
        found = self._outward(self._near.sqrt(max(a.lo, Decimal(0))), self._near.sqrt(a.hi))
        return Interval(max(found.lo, Decimal(0)), found.hi)

    def cos_sin_quarter(self, turn: Interval) -> tuple[Interval, Interval]:
        """Enclose the cosine and sine of turn * pi / 2 for turn in [0, 1], where both are monotone."""
        cos_at_lo, sin_at_lo = self._cos_sin(turn.lo)
        cos_at_hi, sin_at_hi = self._cos_sin(turn.hi)
        return Interval(cos_at_hi.lo, cos_at_lo.hi), Interval(sin_at_lo.lo, sin_at_hi.hi)

    def _outward(self, lo: Decimal, hi: Decimal) -> Interval:
        return Interval(self._near.next_minus(lo), self._near.next_plus(hi))

    def _cos_sin(self, turn: Decimal) -> tuple[Interval, Interval]:
        """Enclose both by Taylor sums at x = turn * pi / 2 < 2, in integers scaled by 2**bits.

        x is known to 3 units. A term is the one before it times x / order, truncated to an integer: its error e obeys
        e_next <= (2 e + 3 * 2) / order + 2, hence stays below 16 units; 64 per term is safe, the tail included.
        """
        bits = 4 * self.digits + 32
        exact = Fraction(turn)
        x = exact.numerator * pi_times(bits) // (2 * exact.denominator)
        sums, term, order = [0, 0], 1 << bits, 0
        while term:
            sums[order % 2] += -term if order % 4 >= 2 else term
            order += 1
            term = (term * x >> bits) // order
        error = 64 * (order + 1)
        cos, sin = (self.ratio(total - error, total + error, 1 << bits) for total in sums)
        return cos, sin


@lru_cache(maxsize=64)
def arithmetic(digits: int) -> Arithmetic:
    """Return the arithmetic with this many digits; it is cached, because making its contexts is expensive."""
    return Arithmetic(digits)


@lru_cache(maxsize=64)
def pi_times(bits: int) -> int:
    """Return pi * 2**bits, off by less than 1 (Machin: pi/4 = 4 atan(1/5) - atan(1/239))."""
    guard = 32
    one = 1 << (bits + guard)

    def arctangent_of_inverse(n: int) -> int:
        power, total, order = one // n, 0, 1
        while power:
            total += power // order if order % 4 == 1 else -(power // order)
            power, order = power // (n * n), order + 2
        return total

    return 4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239)) >> guard
