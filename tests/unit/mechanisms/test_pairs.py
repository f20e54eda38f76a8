"""Matrices of low rank from noisy cells: what is there is found, noise is not."""

from typing import Any

import numpy as np
import pytest

from tensorveil.mechanisms.pairs import fit_pairs


def noisy_cells(truth: Any, precision: Any, seed: int = 0, *, laplace: bool = False) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    noise = rng.laplace(scale=0.5**0.5, size=truth.shape) if laplace else rng.standard_normal(truth.shape)
    precision = np.broadcast_to(np.asarray(precision, dtype=float), truth.shape)
    mean = truth + noise / np.sqrt(np.maximum(precision, 1e-300))
    return precision, np.where(precision > 0, precision * mean, 0.0)


def planted(rows: int, columns: int, rank: int, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))


def relative(found: Any, truth: Any) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def test_a_planted_matrix_is_recovered() -> None:
    truth = planted(60, 40, 2)
    effect = fit_pairs(*noisy_cells(truth, 25.0), 6, 30)
    assert relative(effect.matrix, truth) < 0.1
    assert np.sum(effect.strengths > 1e-3) == 2  # the rank is found
    np.testing.assert_allclose(effect.at(np.array([3, 5]), np.array([7, 0])), effect.matrix[[3, 5], [7, 0]])


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("shape", [(60, 40), (200, 5), (12, 12)])
def test_noise_alone_is_nothing(shape: Any, laplace: bool) -> None:
    """In units of the noise of one cell; of Laplace noise a little is left."""
    for seed in range(5):
        precision, score = noisy_cells(np.zeros(shape), 1.0, seed, laplace=laplace)
        if laplace:  # as the decoder does
            score = np.clip(score, -3.0, 3.0)
        effect = fit_pairs(precision, score, 4, 30)
        assert np.mean(effect.matrix**2) < 0.05


def test_noise_of_different_sizes_and_empty_rows() -> None:
    truth = planted(80, 50, 2)
    rng = np.random.default_rng(2)
    precision = 10.0 ** rng.uniform(-1, 3, truth.shape)
    precision[:5] = 0.0
    precision[:, 7] = 0.0
    effect = fit_pairs(*noisy_cells(truth, precision), 5, 40)
    seen = np.ix_(range(5, 80), [j for j in range(50) if j != 7])
    assert relative(effect.matrix[seen], truth[seen]) < 0.1
    np.testing.assert_allclose(effect.matrix[:5], 0.0, atol=1e-9)  # nothing is known of them
    np.testing.assert_allclose(effect.matrix[:, 7], 0.0, atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2)])
@pytest.mark.parametrize("precision", [0.0, 1e-200, 1.0, 1e200])
def test_whatever_comes_in_is_fitted(shape: Any, precision: float) -> None:
    for seed in range(3):
        score = precision * np.random.default_rng(seed).standard_normal(shape)
        with np.errstate(all="raise", under="ignore"):
            effect = fit_pairs(np.full(shape, precision), score, 3, 10)
        assert np.isfinite(effect.matrix).all()


@pytest.mark.parametrize("seed", [32, 167, 242])
def test_next_to_no_noise_makes_nothing_singular(seed: int) -> None:
    """Cases in which rounding once left a matrix that could not be inverted."""
    rng = np.random.default_rng(seed)
    rows, columns, rank = rng.integers(2, 30), rng.integers(2, 30), int(rng.integers(1, 9))
    precision = rng.gamma(0.5, 1, (rows, columns)) * 10 ** rng.uniform(4, 18)
    few = min(rank, 2)
    truth = rng.normal(size=(rows, few)) @ rng.normal(size=(few, columns))
    effect = fit_pairs(precision, precision * truth + np.sqrt(precision) * rng.normal(size=truth.shape), rank, 20)
    assert relative(effect.matrix, truth) < 0.2


def test_a_fit_goes_on_from_where_it_was() -> None:
    cells = noisy_cells(planted(40, 30, 2), 25.0)
    once = fit_pairs(*cells, 4, 30)
    again = fit_pairs(*cells, 4, 5, once)
    assert relative(again.matrix, once.matrix) < 0.02
