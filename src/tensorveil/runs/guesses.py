"""What is guessed for one budget, and the smallest budget whose guess is good enough: the same rules for every unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorveil.errors import InputError

__all__ = ["Guessed", "check_question", "find_budget"]

LEAST_EPSILON, MOST_EPSILON = 1e-3, 100.0
_DIGITS = 3


@dataclass(frozen=True, kw_only=True)
class Guessed:
    """What is guessed for one epsilon.

    Parameters
    ----------
    epsilon
        The budget.
    method
        What would be run if nothing else is asked for.
    errors
        The root mean square error of every method.
    releases
        What would be released, in words, where this depends on the budget.
    """

    epsilon: float
    method: str
    errors: Mapping[str, float]
    releases: str | None = None

    @property
    def rmse(self) -> float:
        """The error of what would be run."""
        return self.errors[self.method]

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data, the best method first."""
        ordered = sorted(self.errors.items(), key=lambda each: each[1])
        facts = {
            "epsilon": self.epsilon,
            "method": self.method,
            "rmse": self.rmse,
            "expected": [{"method": name, "rmse": error} for name, error in ordered],
        }
        return facts if self.releases is None else facts | {"releases": self.releases}


def check_question(epsilons: tuple[float, ...], rmse: float | None) -> None:
    """Refuse a plan that asks nothing, or for an error that no number can be."""
    if not epsilons and rmse is None:
        raise InputError("give an epsilon, or the rmse to reach, or both. Try epsilon=1, or rmse=0.9.")
    if rmse is not None and not (math.isfinite(rmse) and rmse > 0):
        raise InputError("rmse must be a finite number above 0: the error that predictions may have. Try rmse=0.9.")


def find_budget(guess: Callable[[float], Guessed], rmse: float, *, most: float = MOST_EPSILON) -> Guessed:
    """Return what is guessed for the smallest epsilon, up to rounding, that is guessed to reach an error.

    Parameters
    ----------
    guess
        What is guessed for an epsilon; errors should not rise with it.
    rmse
        The error to reach.
    most
        The largest epsilon to answer with. The smallest is 0.001, whatever would do with less.

    >>> find_budget(lambda epsilon: Guessed(epsilon=epsilon, method="a", errors={"a": 1 / epsilon}), 0.3).epsilon
    3.34
    """
    low, high = math.log(LEAST_EPSILON), math.log(most)
    best = guess(most)
    if best.rmse > rmse:
        raise InputError(
            f"rmse must be at least {_round_up(best.rmse):g}, the error at epsilon {most:g}, and no larger one "
            "is answered with. Declare more entries or people if there are more, or ask for a larger rmse."
        )
    if guess(LEAST_EPSILON).rmse <= rmse:
        return guess(LEAST_EPSILON)
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if guess(math.exp(middle)).rmse <= rmse else (middle, high)
    found = guess(min(_round_up(math.exp(high)), most))
    # What was rounded up is enough unless errors rise with epsilon by a hair, as grids make them do.
    return found if found.rmse <= rmse else guess(math.exp(high))


def _round_up(number: float) -> float:
    """Round a number above 0 up to a few digits."""
    unit = 10.0 ** (math.floor(math.log10(number)) - _DIGITS + 1)
    return float(f"{math.ceil(number / unit - 1e-9) * unit:.{_DIGITS}g}")
