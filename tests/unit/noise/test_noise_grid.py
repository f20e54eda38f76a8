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
    snap,
    sqrt_up,
    stochastic_round,
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


@given(st.fractions(0, 10**12))
def test_square_roots_are_rounded_up_by_little(value: Any) -> None:
    root = sqrt_up(value)
    assert root**2 >= value
    assert root == 0 or (root - Fraction(1, 1 << 39)) ** 2 < value or root <= Fraction(1, 1 << 39)
