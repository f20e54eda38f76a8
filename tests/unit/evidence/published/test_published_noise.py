"""The papers' noise follows the laws that they print."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from tensorveil_evidence.published.noise import laplace, norm_shaped
from tests import chance

COUNT = 40_000


def counts_by(law: Any, sample: Any, cells: int = 40) -> Any:
    """Counts between the law's quantiles, and the law's cell probabilities with its scale changed by a factor."""
    edges = law.ppf(np.arange(1, cells) / cells)
    counts = np.bincount(np.searchsorted(edges, sample), minlength=cells)

    def probabilities(factor: Any) -> Any:
        return np.diff(np.concatenate([[0.0], law.cdf(edges / factor), [1.0]]))

    return counts, probabilities


def test_laplace_law() -> None:
    sample = laplace(np.random.default_rng(1), COUNT, 0.7)
    chance.assert_fits("published laplace", *counts_by(stats.laplace(scale=0.7), sample))
    chance.assert_second_moment("published laplace, variance", sample, 2 * 0.7**2)


@pytest.mark.parametrize("dimension", [1, 3, 8])
def test_radius_is_gamma(dimension: Any) -> None:
    sample = norm_shaped(np.random.default_rng(dimension), COUNT, dimension, 0.3)
    radii = np.linalg.norm(sample, axis=1)
    name = f"published norm-shaped, d = {dimension}"
    chance.assert_fits(f"{name}, radius", *counts_by(stats.gamma(dimension, scale=0.3), radii))
    chance.assert_mean(f"{name}, mean radius", radii, dimension * 0.3, np.sqrt(dimension) * 0.3)


@pytest.mark.parametrize("dimension", [2, 3])
def test_directions_are_uniform(dimension: Any) -> None:
    sample = norm_shaped(np.random.default_rng(10 + dimension), COUNT, dimension, 2.0)
    deviation = 2.0 * np.sqrt(dimension + 1)  # E r^2 = d (d + 1) s^2, shared by d coordinates
    name = f"published norm-shaped, d = {dimension}"
    for axis in range(dimension):
        chance.assert_mean(f"{name}, axis {axis}", sample[:, axis], 0.0, deviation)
        chance.assert_second_moment(f"{name}, axis {axis}, variance", sample[:, axis], deviation**2)
    directions = sample / np.linalg.norm(sample, axis=1, keepdims=True)
    chance.assert_uncorrelated(f"{name}, direction and radius", directions[:, 0], np.linalg.norm(sample, axis=1))
    chance.assert_uncorrelated(f"{name}, two axes", directions[:, 0], directions[:, 1])


def test_one_dimension_is_laplace() -> None:
    sample = norm_shaped(np.random.default_rng(5), COUNT, 1, 0.7)[:, 0]
    chance.assert_fits("published norm-shaped, d = 1 is laplace", *counts_by(stats.laplace(scale=0.7), sample))
