"""Views of outputs whose codes are compared: the outputs themselves, and numbers that combine several of them.

A mechanism can leak through what no single output number shows: two of them are equal or keep their distance, their sum
is even, a certain one is always the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.audit.scores import replace_infinities

Array = NDArray[Any]

_ALL_PAIRS = 8  # outputs of which all pairs are subtracted; of more, neighbouring ones
_SIDES = 16  # outputs of which every pattern of sides is told apart

OUTPUTS, SUM, DISTANCES, SIDES, REPEATS = "outputs", "sum", "distances", "sides", "repeats"


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """Columns derived from outputs, and what they are called. ``raw``: from outputs with infinities as they are."""

    name: str
    function: Callable[[Array], Array]
    label: Callable[[int], str]
    raw: bool = False

    def __call__(self, outputs: Array) -> Array:
        """Return the columns, one row per output."""
        return self.function(outputs if self.raw else replace_infinities(outputs))


def make_views(first: Array, second: Array) -> Iterator[View]:
    """Yield the views of outputs like these."""
    yield View(name=OUTPUTS, function=lambda y: y, label=lambda k: f"output {k}", raw=True)
    width = first.shape[1]
    if width == 1:
        return
    yield View(name=SUM, function=lambda y: y.sum(axis=1)[:, None], label=lambda k: "the sum of the outputs")
    yield _view_distances(width)
    yield _view_sides(first, second)
    yield _view_repeats(width)


def _view_distances(width: int) -> View:
    """Return the view of differences of two outputs, and of sums where there are few: noise that was used twice."""
    if width > _ALL_PAIRS:
        return View(
            name=DISTANCES,
            function=lambda y: np.diff(y, axis=1),
            label=lambda k: f"output {k + 1} minus output {k}",
        )
    one, other = np.triu_indices(width, 1)
    labels = [f"output {j} {sign} output {i}" for sign in ("minus", "plus") for i, j in zip(one, other, strict=True)]
    return View(
        name=DISTANCES,
        function=lambda y: np.concatenate([y[:, other] - y[:, one], y[:, other] + y[:, one]], axis=1),
        label=lambda k: labels[k],
    )


def _view_sides(first: Array, second: Array) -> View:
    """Return the view of order and sides: which output is largest, which ones lie above their medians."""
    middle = np.median(replace_infinities(np.concatenate([first, second])), axis=0)
    weights = np.left_shift(1, np.arange(first.shape[1])) if first.shape[1] <= _SIDES else None

    def order(y: Array) -> Array:
        above = y > middle
        columns = [np.argmax(y, axis=1), np.argmin(y, axis=1), above.sum(axis=1) % 2, (y > 0).sum(axis=1) % 2]
        if weights is not None:
            columns.append(above @ weights)
        return np.stack(columns, axis=1).astype(np.int64)

    labels = (
        "the number of the largest output",
        "the number of the smallest output",
        "how many outputs lie above their medians, modulo 2,",
        "how many outputs are positive, modulo 2,",
        "which outputs lie above their medians, as bits,",
    )
    return View(name=SIDES, function=order, label=lambda k: labels[k])


def _view_repeats(width: int) -> View:
    """Return the view of whole outputs: a fingerprint of all their bits, and how many numbers occur again."""
    odd = np.random.default_rng(0).integers(1 << 62, size=width) * 2 + 1

    def whole(y: Array) -> Array:
        ordered = np.sort(y, axis=1)
        again = np.count_nonzero(ordered[:, 1:] == ordered[:, :-1], axis=1)
        return np.stack([np.ascontiguousarray(y).view(np.int64) @ odd, again], axis=1)

    labels = ("the fingerprint of the whole output", "how many outputs equal another one")
    return View(name=REPEATS, function=whole, label=lambda k: labels[k], raw=True)
