"""Axes: where a number stands, and which numbers are written beside an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Axis", "number", "span_axis"]

MOST_DECADES = 15  # what lies further below the highest number stands at the lower end


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A range of numbers laid onto a range of pixels, linearly or by logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a number, kept within the axis."""
        return self.start + (self.end - self.start) * min(max(self.share(value), 0.0), 1.0)

    def share(self, value: float) -> float:
        """Return how far along the axis a number lies, from 0 to 1; outside of it, below 0 or above 1."""
        if self.log and value <= 0:
            return -math.inf
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers to write beside the axis."""
        return _log_ticks(self.low, self.high, most) if self.log else _ticks(self.low, self.high, most)


def span_axis(
    values: Iterable[float], start: float, end: float, *, log: bool = False, zero: bool = False, air: float = 0.04
) -> Axis:
    """Return an axis that holds all the numbers, with a little air; ``zero`` lets it begin at 0."""
    known = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    low, high = min(known, default=0.1 if log else 0.0), max(known, default=1.0)
    if log:
        low = max(low, high * 10.0**-MOST_DECADES)
        low, high = (low / 2, high * 2) if low == high else (low, high)
        margin = (high / low) ** air
        low, high = low / margin, high * margin
        return Axis(low=low, high=high, start=start, end=end, log=True)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    margin = air * (high - low) if high > low else abs(high) or 1.0
    low = low if zero and low == 0.0 else low - margin
    high = high if zero and high == 0.0 and low < 0 else high + margin
    return Axis(low=low, high=high, start=start, end=end)


def _ticks(low: float, high: float, most: int) -> list[float]:
    raw = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [step * k for k in range(first, last + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return 1, 2 and 5 of every decade, or fewer numbers if there is no room."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [f * 10.0**d for d in decades for f in factors if low * (1 - 1e-9) <= f * 10.0**d <= high * (1 + 1e-9)]
        if 2 <= len(found) <= most:
            return found
    every = max(1, math.ceil(len(found) / max(most, 1)))
    return found[::every] or [low, high]


def number(value: float, digits: int = 3) -> str:
    """Write a number for people: few digits, thousands apart, a true minus sign.

    >>> number(0.44721), number(-1234.5), number(0.0), number(2.5e-7)
    ('0.447', '−1,234', '0', '2.5e−7')
    """
    if not math.isfinite(value):
        return "infinite" if value > 0 else "−infinite" if value < 0 else "none"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e7 or size < 1e-4:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        text = f"{mantissa}e{int(power)}"
    elif size >= 10 ** (digits - 1):
        text = f"{value:,.0f}"
    else:
        decimals = digits - 1 - math.floor(math.log10(size))
        text = f"{value:.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")
