"""What looks like a mistake in open data that can be read: row numbers and timestamps taken for modes, and the like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.bins import are_seconds, to_seconds
from tensorveil.tensor.modes import trim_label

__all__ = ["are_moments", "find_oddities", "suggest_settings"]

FEW = 20  # entries, of which nothing can be said
_MOST_TEXTS = 200_000  # labels that are compared
_SECONDS = (3e8, 5e9)  # 1979 to 2128, as seconds since 1970
_MILLISECONDS = (3e11, 5e12)
_DATES = (1979_00_00, 2129_00_00)  # as written in digits


def find_oddities(tensor: ObservedTensor) -> tuple[str, ...]:
    """Return what looks like a mistake, and its remedy. Nothing of this is public.

    >>> rows = ObservedTensor([[n, n % 5] for n in range(40)], np.arange(40.0), modes=("id", "film"))
    >>> find_oddities(rows)[0].split(":")[0]
    "mode 'id' has an index of its own for every entry, as numbers of rows have"
    """
    if tensor.n_entries < FEW:
        return ()
    found = []
    if tensor.origin.value_named and are_seconds(tensor.values):  # otherwise reading has said so
        found.append(
            "values look like moments, in seconds since 1970: name the columns of the modes and of the value, "
            "modes=['user', 'film'] and value='rating'."
        )
    for mode, size in zip(tensor.modes, tensor.shape, strict=True):
        if alike := _count_alike(mode):
            found.append(
                f"mode {mode.name!r} has labels that differ from others in spaces or in upper and lower case alone, "
                f"{alike:,} of {size:,}: they count as different. Write them alike if they are the same."
            )
        others = [other.name for other in tensor.modes if other is not mode]
        if _holds(mode, _MILLISECONDS) and size > max(FEW, tensor.n_entries // 3):
            found.append(
                f"mode {mode.name!r} holds numbers such as moments in milliseconds: divide them by 1000, so that they "
                f"are seconds since 1970, and put these into bins, bins={{{mode.name!r}: 'day'}}."
            )
        elif _holds_moments(mode) and size > max(FEW, tensor.n_entries // 3):
            found.append(
                f"mode {mode.name!r} holds moments, nearly each of them an index of its own, so that little can be "
                f"learnt of any: put them into bins, bins={{{mode.name!r}: 'day'}} (hour, week, month, or a number of "
                "seconds)."
            )
        elif size == tensor.n_entries:
            remedy = f"leave it out, modes={others!r}" if len(others) > 1 else "name the columns that are modes"
            found.append(
                f"mode {mode.name!r} has an index of its own for every entry, as numbers of rows have: nothing can be "
                f"learnt of it; {remedy}."
            )
    return tuple(found)


def _count_alike(mode: Mode) -> int:
    """Return how many labels are like another but for spaces, and for upper and lower case."""
    labels: Any = mode.labels
    if labels is None or labels.dtype.kind != "T" or len(labels) > _MOST_TEXTS:
        return 0
    return len(labels) - len({" ".join(trim_label(label).casefold().split()) for label in labels.tolist()})


def _holds_moments(mode: Mode) -> bool:
    labels: Any = mode.labels
    if labels is None or not len(labels):
        return False
    return labels.dtype.kind == "M" or _holds(mode, _SECONDS) or _holds(mode, _DATES)


def _holds(mode: Mode, between: tuple[float, float]) -> bool:
    labels: Any = mode.labels
    if labels is None or not len(labels) or labels.dtype.kind not in "iu":
        return False
    return bool(between[0] < labels.min() and labels.max() < between[1])


def are_moments(items: Sequence[Any]) -> bool:
    """Tell whether the items of a column are moments, as far as can be told by looking at them.

    >>> are_moments(["2024-01-03T12:00", "2024-02-01"]), are_moments([20240103]), are_moments([7, 20240103])
    (True, True, False)
    """
    if not items or any(math.isnan(to_seconds(item)) for item in items):
        return False
    plain = [str(item).strip() for item in items]
    if not all(text.isdigit() for text in plain):
        return all("-" in text[1:] for text in plain)  # numbers are below zero at their first place
    numbers = [int(text) for text in plain]
    return any(low < min(numbers) and max(numbers) < high for low, high in (_SECONDS, _DATES))


def suggest_settings(tensor: ObservedTensor) -> tuple[str, ...]:
    """Return settings that suit the values: bounds, or a loss.

    >>> suggest_settings(ObservedTensor([[n, n % 5] for n in range(40)], np.arange(40.0) % 2))[0].split(":")[0]
    'values are 0 and 1'
    >>> suggest_settings(ObservedTensor([[n, n % 5] for n in range(40)], np.ones(40)))[0].split(",")[0]
    'every value is 1'
    """
    values = tensor.values
    if tensor.n_entries < FEW or tensor.bounds is not None or values.min() < 0 or values.min() > _SECONDS[0]:
        return ()
    if (values == 1).all() and tensor.unlisted != "zero":
        return (
            "every value is 1, so that a model learns nothing but ones: if what has no row did not happen, "
            "unlisted='zero' says so; with loss='bernoulli' predictions are chances.",
        )
    if np.isin(values, (0, 1)).all():
        return ("values are 0 and 1: loss='bernoulli' predicts chances, bounds=(0, 1) keeps predictions between them.",)
    counts = bool((values == np.floor(values)).all() and values.max() > 20)
    more = "; for counts also loss='poisson'" if counts else ""
    return (
        "values are never negative, but predictions may be: bounds keep them in a range, in an open run for example "
        f"bounds=(0, {_round_up(float(values.max())):g}){more}. Declare them from what values can be, such as the ends "
        "of a scale, and not from those that occur: a private run would lose its guarantee.",
    )


def _round_up(number: float) -> float:
    """Return the next 1, 2 or 5 with zeros behind it.

    >>> _round_up(4.5), _round_up(0.3), _round_up(12)
    (5.0, 0.5, 20.0)
    """
    scale = 10.0 ** math.floor(math.log10(number))
    return next(step * scale for step in (1, 2, 5, 10) if number <= step * scale)
