"""Answers in windows: unbiased, of the stated variance, as private as stated, and less noisy than Laplace noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError
from tensorveil.noise import SeededSource
from tensorveil.noise.dyadic import WORDS
from tensorveil.noise.windows import (
    SMALLEST_WINDOWED,
    best_width,
    fine_grid,
    window_law,
    window_noise,
    windowed_values_mechanism,
)

EPSILONS = [0.01, 0.5, 1.0, 3.0, 10.0, 25.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("square", [0.0, 0.25, 1.0])
def test_answers_are_unbiased_and_vary_as_stated(epsilon: float, square: float) -> None:
    low, high, n = -0.3, 1.9, 40_000
    value = 0.5 * (low + high) + math.sqrt(square) * 0.5 * (high - low)
    noisy, _ = windowed_values_mechanism(
        np.full(n, value), (low, high), SeededSource(3), epsilon=epsilon, square=square
    )
    # Rounding to the grid moves a value by half a step at most.
    step = (high - low) / (fine_grid(Fraction(epsilon)) - 1)
    assert abs(noisy.values.mean() - value) < 6 * math.sqrt(noisy.variance / n) + step
    # For large epsilon a few answers far away make up the variance: compare where there are hundreds of them.
    if epsilon <= 3:
        assert noisy.values.var() == pytest.approx(noisy.variance, rel=0.1)
    assert noisy.variance == pytest.approx(window_noise(epsilon, square) * (high - low) ** 2, rel=0.01)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_every_answer_is_at_most_e_to_the_epsilon_times_as_likely(epsilon: float) -> None:
    exact = Fraction(epsilon)
    last = fine_grid(exact) - 1
    law = window_law(exact, last, best_width(exact, last, 0.25))
    inside, outside = Fraction(law.chance, WORDS) / law.width, Fraction(WORDS - law.chance, WORDS) / last
    assert outside > 0
    assert math.log(inside / outside) <= epsilon * (1 + 1e-12)
    assert math.log(inside / outside) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_window_tells_where_answers_are(epsilon: float) -> None:
    low, high, value = 0.0, 2.0, 1.4
    noisy, window = windowed_values_mechanism(
        np.full(30_000, value), (low, high), SeededSource(4), epsilon=epsilon, square=0.25
    )
    answers = window.middle + (noisy.values - window.middle) / window.gain
    step = (high - low) / (fine_grid(Fraction(epsilon)) - 1)
    near = np.abs(answers - value) <= window.half + step
    by_chance = (1 - window.inside) * 2 * window.half / window.span  # answers elsewhere are not in the window
    assert near.mean() == pytest.approx(window.inside, abs=0.01 + by_chance)
    assert answers.min() >= window.middle - 0.5 * window.span
    assert answers.max() <= window.middle + 0.5 * window.span


@pytest.mark.parametrize("square", [0.05, 0.25, 1.0])
def test_noise_is_less_than_laplace_noise_and_falls(square: float) -> None:
    epsilons = np.geomspace(1e-5, 30, 60)
    noises = np.array([window_noise(float(epsilon), square) for epsilon in epsilons])
    assert np.all(noises < 2 / epsilons**2)
    assert np.all(np.diff(noises) < 0)
    assert window_noise(SMALLEST_WINDOWED * 0.999, square) == pytest.approx(
        window_noise(SMALLEST_WINDOWED, square), rel=0.01
    )


@pytest.mark.parametrize(("values", "bounds"), [([1234.5], (0.0, 1.0)), ([math.nan], (0.0, 1.0)), ([0.0], (1.0, 0.0))])
def test_what_cannot_be_is_refused_without_quoting(values: Any, bounds: Any) -> None:
    with pytest.raises(InputError) as refused:
        windowed_values_mechanism(values, bounds, SeededSource(0), epsilon=1.0)
    assert "1234" not in str(refused.value)


@pytest.mark.parametrize("epsilon", [1e-3, 300.0, 1e6])
def test_extreme_budgets(epsilon: float) -> None:
    noisy, window = windowed_values_mechanism(np.full(100, 0.3), (0.0, 1.0), SeededSource(5), epsilon=epsilon)
    assert np.isfinite(noisy.values).all()
    assert 0 < window.inside <= 1
    if epsilon > 100:
        np.testing.assert_allclose(noisy.values, 0.3, atol=1e-5)
