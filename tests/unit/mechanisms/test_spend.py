"""Sums keep to what their noise is scaled to, whatever comes in."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import Noisy, SeededSource

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


@dataclass(frozen=True, kw_only=True)
class Spy(Spend):
    """Adds no noise, and keeps what would be noised and how far it may move."""

    seen: list[tuple[Any, Fraction]]

    def _add(self, ints: Any, grid: Any, sensitivity: Any) -> Any:
        self.seen.append((ints.copy(), sensitivity))
        return Noisy(values=grid.values(ints), variance=grid.step**2, source_secure=False)


def spy(epsilon: float = 1.0) -> Spy:
    return Spy(source=SeededSource(0), epsilon=epsilon, seen=[])


def test_sums_do_not_leave_their_range() -> None:
    ends = np.array([-0.35, 0.35])
    inside = spy().sums(ends, -0.35, 0.35, np.arange(2), 2).values
    beyond = spy().sums(ends * 1.01, -0.35, 0.35, np.arange(2), 2).values
    np.testing.assert_allclose(inside, ends, rtol=1e-5)
    np.testing.assert_allclose(beyond, ends, rtol=1e-5)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 100.0, 1e9])
@settings(max_examples=60)
@given(values=arrays.arrays(np.float64, st.integers(1, 9), elements=ANY_FLOAT), low=st.sampled_from([-1.0, 0.0, 7.0]))
def test_no_number_moves_a_sum_by_more_than_declared(epsilon: float, values: Any, low: float) -> None:
    high = low + 2.0
    for other in (low, high, np.nan, 0.5 * (low + high)):
        changed, watch = values.copy(), spy(epsilon)
        changed[0] = other
        for numbers in (values, changed):
            replace(watch).sums(numbers, low, high, np.zeros(len(numbers), dtype=np.int64), 1)
        (first, most), (second, same) = watch.seen
        assert most == same
        assert abs(int(first[0, 0]) - int(second[0, 0])) <= most


@pytest.mark.parametrize("scale", [1e-140, 1e-70, 1.0, 1e70, 1e140])
def test_sums_are_right_for_bounds_of_any_size(scale: float) -> None:
    values = np.array([0.25, -0.5, 1.0]) * scale
    found = spy().sums(values, -scale, scale, np.array([0, 0, 1]), 2).values
    np.testing.assert_allclose(found, [-0.25 * scale, scale], rtol=1e-5)


@settings(max_examples=60)
@given(rows=arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=ANY_FLOAT))
def test_no_row_is_longer_than_declared(rows: Any) -> None:
    watch = spy()
    watch.bounded_rows(rows, np.arange(len(rows)), len(rows), longest=1.5)
    (ints, most), *_ = watch.seen
    assert all(sum(int(n) ** 2 for n in row) <= most**2 for row in ints)


@pytest.mark.parametrize("first", ["sums", "split"])
@pytest.mark.parametrize("second", ["sums", "split", "values"])
def test_a_spend_is_spent_once(first: str, second: str) -> None:
    spend = Spend(source=SeededSource(0), epsilon=1.0)
    buy: dict[str, Any] = {
        "sums": lambda: spend.sums(np.ones(1), 0.0, 2.0, np.zeros(1, dtype=np.int64), 1),
        "split": lambda: spend.split(0.5, 0.5),
        "values": lambda: spend.values(np.ones(1), (0.0, 2.0)),
    }
    buy[first]()
    with pytest.raises(RuntimeError, match="already"):
        buy[second]()
