"""A record of tiny numbers, whose squares underflow, contributes no more to class moments than any other record.

Whoever reads the noisy sums looks for one record: a direction that is far longer than 1 would stand out of the noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tensorveil.learning import ClassMoments, Directions, Samples
from tensorveil.local import Basis

TINY = 2.0**-537.5


def recipe(entries: int) -> Any:
    told = Directions(basis=Basis.own(np.eye(entries), (entries,)), centre=0.0)
    return ClassMoments(epsilon=2.0, delta=1e-5, most_users=100, directions=told, classes=2)


def tiny_record(entries: int) -> Any:
    """One number whose square is the smallest there is, all others just too small to have one."""
    record = np.full(entries, TINY * (1 - 1e-9))
    record[0] = TINY * (1 + 1e-9)
    return record


@pytest.mark.parametrize("entries", [10, 24, 64])
def test_a_tiny_record_does_not_stand_out_of_the_noise(entries: int) -> None:
    made = recipe(entries)
    others = Samples(x=np.eye(entries), y=np.zeros(entries, dtype=int), classes=2)
    with_it = Samples(x=np.vstack([np.eye(entries), tiny_record(entries)]), y=np.zeros(entries + 1, int), classes=2)
    # Noise of the deviation limit / mu is added to both sums; the attacker looks along their difference.
    moved = (made.contribute(made.start(), with_it) - made.contribute(made.start(), others)).astype(float)
    assert np.linalg.norm(moved) / (made.limit / made.mu) <= made.mu


def test_its_direction_is_of_length_one() -> None:
    rows = recipe(64).directions(np.stack([tiny_record(64), np.full(64, 5e-324), np.full(64, 1e308)]))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-12)


def test_whatever_is_in_a_record_its_integers_keep_the_limit() -> None:
    made = recipe(24)
    wild = np.full((6, 24), 1.0)
    wild[0, 0], wild[1, 0], wild[2], wild[3], wild[4] = 1e308, 5e-324, 5e-324, -0.0, tiny_record(24)
    for record in wild:
        one = made.contribute(made.start(), Samples(x=record[None], y=[1], classes=2)).astype(object)
        assert math.isqrt(int((one**2).sum())) <= made.limit
