"""The one bound holds for whatever comes in, and does not touch what is within it."""

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tensorveil.kernels.bounding import MOST_STEPS, add_bounded_rows, bound_whole

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
LIMITS = st.sampled_from([1, 2, 10, 1 << 24, MOST_STEPS, MOST_STEPS + 1])


def bound(numbers: Any, per_unit: float, limit: int) -> list[int]:
    out = np.full(len(numbers), 77, dtype=np.int64)
    bound_whole(np.asarray(numbers, dtype=np.float64), len(numbers), per_unit, limit, out)
    return [int(number) for number in out]


@settings(max_examples=400)
@given(
    numbers=arrays.arrays(np.float64, st.integers(1, 40), elements=ANY_FLOAT),
    per_unit=ANY_FLOAT,
    limit=LIMITS,
)
def test_no_contribution_is_longer_than_its_limit(numbers: Any, per_unit: float, limit: int) -> None:
    assert sum(n * n for n in bound(numbers, per_unit, limit)) <= limit * limit


@settings(max_examples=200)
@given(
    numbers=arrays.arrays(np.float64, st.integers(1, 20), elements=st.floats(-1, 1)),
    exponent=st.integers(-300, 300),
)
def test_mixed_and_tiny_scales_keep_the_limit(numbers: Any, exponent: int) -> None:
    for per_unit in (1.0, 2.0**20, 1e99):
        found = bound(numbers * math.ldexp(1.0, exponent), per_unit, 1 << 24)
        assert sum(n * n for n in found) <= 1 << 48


def test_what_is_within_the_limit_is_only_rounded() -> None:
    assert bound([1.25, -2.0, 0.1], 8.0, 100) == [10, -16, 1]


def test_what_is_too_long_keeps_its_direction() -> None:
    long = np.array(bound([3e5, -4e5], 1.0, 1000))
    assert 0.99e3 < np.linalg.norm(long) <= 1e3
    np.testing.assert_allclose(long / np.linalg.norm(long), [0.6, -0.8], atol=2e-3)


def test_what_is_not_sound_counts_as_nothing() -> None:
    for numbers in ([np.nan, 1.0], [np.inf, 0.0], [1e200, 1.0]):
        assert bound(numbers, 1.0, 1000) == [0, 0]
    for scale in (-1.0, 0.0, np.nan, np.inf, 1e101):
        assert bound([0.5, 0.5], scale, 1000) == [0, 0]


def test_rows_are_bounded_one_by_one_and_added_by_group() -> None:
    rng = np.random.default_rng(0)
    rows, times, groups = rng.standard_normal((500, 5)), rng.uniform(-2, 2, 500), rng.integers(0, 7, 500)
    out = np.zeros((7, 5), dtype=np.int64)
    add_bounded_rows(rows, times, groups, 256.0, 600, out)
    expected = np.zeros((7, 5), dtype=np.int64)
    for row, number, group in zip(rows, times, groups, strict=True):
        expected[group] += bound(row * number, 256.0, 600)
    assert np.array_equal(out, expected)
    longest = max(sum(n * n for n in bound(row * number, 256.0, 600)) for row, number in zip(rows, times, strict=True))
    assert 580**2 < longest <= 600**2  # some rows were too long, so that the bound was at work
