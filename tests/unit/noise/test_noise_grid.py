"""The public grid: rounding, exact sums, and sensitivities that include the rounding."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil.noise import (
    Grid,
    SeededSource,
    contribution_sensitivity,
    exact_sum,
    rounded_sensitivity,
    snap,
    snap_and_sum,
    sqrt_up,
    stochastic_round,
    sum_groups,
)

finite = st.floats(-1e6, 1e6)


@pytest.mark.parametrize("step", [0.0, -1.0, 3.0, 0.1, float("nan"), float("inf"), 2.0**-1000, 2.0**1000])
def test_steps_are_powers_of_two(step: Any) -> None:
    with pytest.raises(InputError, match="step must"):
        Grid(step)


@pytest.mark.parametrize("scale", [1.0, 0.7, 3, Fraction(1, 3), 1e-9, 1e12])
def test_the_grid_follows_the_noise_scale(scale: Any) -> None:
    grid = Grid.for_scale(scale)
    assert 2**20 <= float(scale) / grid.step < 2**21
    assert Grid.for_scale(scale, fineness=4).step == grid.step * 2**16
    assert 2.0**grid.exponent == grid.step


@pytest.mark.parametrize("scale", [0, -1.0, float("nan"), float("inf")])
def test_noise_scales_are_positive(scale: Any) -> None:
    with pytest.raises(InputError, match="noise_scale must be finite and above 0"):
        Grid.for_scale(scale)


@given(values=st.lists(finite, min_size=1), exponent=st.integers(-20, 10))
def test_snap_is_rounding_of_exact_fractions(values: Any, exponent: Any) -> None:
    grid = Grid(2.0**exponent)
    assert snap(values, grid).tolist() == [round(Fraction(v) / Fraction(grid.step)) for v in values]


@given(a=finite, b=finite)
def test_snap_is_monotone(a: Any, b: Any) -> None:
    low, high = snap([min(a, b), max(a, b)], Grid(0.125))
    assert low <= high


def test_snap_refuses_what_has_no_place_and_says_nothing_of_it() -> None:
    for bad in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(InputError, match="must be finite") as caught:
            snap([1.0, bad, 123.25], Grid(1.0))
        assert "123" not in str(caught.value)
    with pytest.raises(InputError, match="too large") as caught:
        snap([1e300], Grid(1.0))
    assert "300" not in str(caught.value)
    with pytest.raises(InputError, match="too large"):
        snap([2.0**61], Grid(1.0))
    assert snap([2.0**61 - 2.0**9, 5e-324], Grid(1.0)).tolist() == [2**61 - 2**9, 0]
    assert snap([], Grid(1.0)).shape == (0,)
    assert snap([[1.5], [2.5]], Grid(1.0)).tolist() == [[2], [2]]


@given(value=finite, seed=st.integers(0, 3))
@settings(max_examples=60)
def test_stochastic_rounding_stays_beside_the_value(value: Any, seed: int) -> None:
    grid = Grid(0.25)
    exact = Fraction(value) / Fraction(grid.step)
    rounded = int(stochastic_round([value], grid, SeededSource(seed))[0])
    assert abs(rounded - exact) < 1


def test_stochastic_rounding_has_the_right_mean() -> None:
    values = np.repeat([[-0.3], [0.3], [-1e-300], [2.0], [7.75]], 40_000, axis=1)
    rounded = stochastic_round(values, Grid(1.0), SeededSource(4))
    assert rounded.shape == values.shape
    # 6 standard deviations of a coin's mean over 40,000 throws.
    assert np.abs(rounded.mean(axis=1) - values[:, 0]).max() < 6 * 0.5 / 200
    assert set(rounded[0]) == {-1, 0}
    assert set(rounded[2]) == {0}
    assert set(rounded[3]) == {2}


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=50))
def test_sums_are_exact(values: Any) -> None:
    assert int(exact_sum(values)) == sum(values)
    assert exact_sum(np.array(values)[:, None], axis=0).tolist() == [sum(values)]


def test_sums_that_might_overflow_are_refused() -> None:
    assert int(exact_sum([2**61 - 1, -(2**60)])) == 2**61 - 1 - 2**60
    for values in ([2**61, 2**61], [-(2**61), 1]):
        with pytest.raises(InputError, match="could leave the 64-bit integers") as caught:
            exact_sum(values)
        assert str(2**61) not in str(caught.value)
    assert int(exact_sum([])) == 0


def test_grouped_sums() -> None:
    rows = np.arange(12).reshape(6, 2) * 2**40
    groups = np.array([0, 2, 0, 2, 2, 3])
    sums = sum_groups(rows, groups, 5)
    assert sums.dtype == np.int64
    for g in range(5):
        assert (sums[g] == rows[groups == g].sum(axis=0)).all()
    assert sum_groups([1, 2, 3], [1, 1, 0], 2).tolist() == [3, 3]
    with pytest.raises(InputError, match="could leave"):
        sum_groups([2**61, 2**61], [0, 1], 2)


@pytest.mark.parametrize("scale", [1.0, 2.0**36])  # sums below and above what floats hold exactly
def test_snapped_sums_are_sums_of_snapped_rows(scale: Any) -> None:
    rng = np.random.default_rng(0)
    rows, times, groups = rng.normal(size=(60, 3)) * scale, rng.normal(size=60), rng.integers(5, size=60)
    grid = Grid(2.0**-15)
    sums = snap_and_sum(rows, grid, groups, 6)
    assert sums.dtype == np.int64
    assert np.array_equal(sums, sum_groups(snap(rows, grid), groups, 6))
    multiplied = snap_and_sum(rows, grid, groups, 6, times=times)
    assert np.array_equal(multiplied, sum_groups(snap(rows * times[:, None], grid), groups, 6))
    assert np.array_equal(snap_and_sum(rows[:0], grid, groups[:0], 2), np.zeros((2, 3)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2.0**60])
def test_snapped_sums_refuse_what_has_no_place(bad: Any) -> None:
    with pytest.raises(InputError, match=r"finite|too large"):
        snap_and_sum(np.array([[0.5, bad]]), Grid(0.25), [0], 1)


@given(st.fractions(0, 10**12))
def test_square_roots_are_rounded_up_by_little(value: Any) -> None:
    root = sqrt_up(value)
    assert root**2 >= value
    assert root == 0 or (root - Fraction(1, 1 << 39)) ** 2 < value or root <= Fraction(1, 1 << 39)


@given(
    pairs=st.lists(st.tuples(finite, finite), min_size=1, max_size=6),
    exponent=st.integers(-4, 8),
)
def test_sensitivity_after_rounding_a_statistic(pairs: Any, exponent: Any) -> None:
    """Brute force: two statistics at a known distance, both snapped."""
    grid = Grid(2.0**exponent)
    first, second = zip(*pairs, strict=True)
    gaps = [Fraction(a) - Fraction(b) for a, b in pairs]
    moved = (snap(first, grid) - snap(second, grid)).tolist()
    total = sum(map(abs, gaps))
    if total > 0:
        assert sum(map(abs, moved)) <= rounded_sensitivity(total, grid, len(pairs), "l1")
        assert (
            sum(m * m for m in moved)
            <= rounded_sensitivity(sqrt_up(sum(g * g for g in gaps)), grid, len(pairs), "l2") ** 2
        )


@given(
    weights=st.lists(st.lists(st.floats(-100, 100), min_size=3, max_size=3), min_size=1, max_size=4),
    places=st.lists(st.floats(0, 1), min_size=2, max_size=2),
)
def test_sensitivity_of_snapped_contributions(weights: Any, places: Any) -> None:
    """No two values within the bounds move an entry's snapped contribution further than the ends do."""
    lo, hi, grid = -1.5, 4.0, Grid(2.0**-6)
    weights = np.array(weights)
    bounds = {norm: contribution_sensitivity(weights * lo, weights * hi, grid, norm) for norm in ("l1", "l2")}
    a, b = (min(max(lo + p * (hi - lo), lo), hi) for p in places)
    moved = np.abs(snap(weights * a, grid) - snap(weights * b, grid))
    assert moved.sum(axis=1).max() <= bounds["l1"]
    assert max(sum(int(m) ** 2 for m in row) for row in moved) <= bounds["l2"] ** 2


def test_sensitivity_of_contributions_is_attained() -> None:
    grid = Grid(0.5)
    assert contribution_sensitivity([[0.0, 0.0]], [[3.0, 4.0]], grid, "l1") == 14
    assert contribution_sensitivity([[0.0, 0.0]], [[3.0, 4.0]], grid, "l2") == 10
    assert contribution_sensitivity([0.0, 0.0], [3.0, 4.0], grid, "l1") == 14
    huge = contribution_sensitivity([[0.0, 0.0]], [[3.0 * 2**40, 4.0 * 2**40]], grid, "l2")
    assert 10 * 2**40 <= huge <= Fraction(10 * 2**40) * (1 + Fraction(1, 2**39))


def test_sensitivities_refuse_nonsense() -> None:
    with pytest.raises(InputError, match="norm must be 'l1' or 'l2'"):
        rounded_sensitivity(1.0, Grid(1.0), 1, "L1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="norm must be 'l1' or 'l2'"):
        contribution_sensitivity([0.0], [1.0], Grid(1.0), "linf")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="coordinates must be at least 1"):
        rounded_sensitivity(1.0, Grid(1.0), 0, "l1")
    with pytest.raises(InputError, match="sensitivity must be finite and above 0"):
        rounded_sensitivity(-1.0, Grid(1.0), 1, "l2")
    with pytest.raises(InputError, match="not empty"):
        contribution_sensitivity(np.empty((0, 2)), np.empty((0, 2)), Grid(1.0), "l1")
    with pytest.raises(InputError, match="too large"):
        contribution_sensitivity([0.0], [2.0**55], Grid(1.0), "l2")
