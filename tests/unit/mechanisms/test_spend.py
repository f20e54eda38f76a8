"""Sums keep to the range that their noise is scaled to, whatever floating point did before."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import SeededSource


@dataclass(frozen=True, kw_only=True)
class Spy(Spend):
    """Adds no noise, and checks what would be noised."""

    def _add(self, ints: Any, grid: Any, l1: Any, l2: Any) -> Any:
        assert int(ints.max() - ints.min()) <= l1 <= l2
        return ints


def test_sums_do_not_leave_their_range() -> None:
    spy: Any = Spy(source=SeededSource(0), epsilon=1.0)
    ends = np.array([-0.35, 0.35])
    inside = spy.sums(ends, -0.35, 0.35, np.arange(2), 2)
    beyond = spy.sums(ends * 1.01, -0.35, 0.35, np.arange(2), 2)
    assert beyond.tolist() == inside.tolist()
