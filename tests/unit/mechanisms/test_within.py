"""Posterior means within bounds, against sums over a fine grid."""

import numpy as np
import pytest

from tensorveil.mechanisms.within import find_mean_within


@pytest.mark.parametrize("width", [1.0, 64.0])
@pytest.mark.parametrize("estimate", [-2.0, -0.1, 0.02, 0.4, 0.97, 1.5])
@pytest.mark.parametrize("error", [0.02, 0.3, 3.0])
@pytest.mark.parametrize("expected", [0.005, 0.2, 0.5, 0.9])
def test_posterior_means_are_those_of_the_truncated_exponential_prior(
    width: float, estimate: float, error: float, expected: float
) -> None:
    grid = (np.arange(400_000) + 0.5) / 400_000
    rates = np.linspace(-300, 300, 60_000)
    means = 1 / rates - 1 / np.expm1(rates)
    rate = np.interp(-expected, -means, rates)
    logs = -0.5 * ((grid - estimate) / error) ** 2 - rate * grid
    weights = np.exp(logs - logs.max())
    wanted = float(weights @ grid / weights.sum())
    found = find_mean_within(np.array([estimate * width]), error * width, np.array([expected * width]), width)
    assert found[0] / width == pytest.approx(wanted, abs=2e-3 * min(wanted, 1 - wanted) + 5e-6)


def test_means_stay_inside_and_rise_with_the_estimate() -> None:
    estimates = np.linspace(-1e6, 1e6, 4001)
    for error in (1e-6, 1.0, 1e5):
        found = find_mean_within(estimates, error, np.full(4001, 0.1), 20.0)
        assert np.all((found > 0) & (found < 20))
        assert np.all(np.diff(found) >= -1e-3)
