"""Digits at hand, as samples with entries in [-1, 1], and the directions that tests tell of them."""

from functools import cache
from typing import Any

from tensorveil.learning import Directions
from tensorveil.learning.loaders import Parts, load_samples
from tensorveil.local import Basis


@cache
def digits() -> Any:
    """Training and test digits in [-1, 1]."""
    found = load_samples("digits")
    train, test = (part.with_x(part.x / 8.0 - 1.0) for part in (found.train, found.test))
    return Parts(train=train, test=test, bounds=(-1.0, 1.0))


def directions(keep: int = 20) -> Any:
    return Directions(basis=Basis.dct((8, 8), keep), centre=-1.0)
