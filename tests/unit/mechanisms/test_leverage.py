"""Leverages: exact where the fit is least squares; errors inflated by them are those of cells that were not seen."""

from __future__ import annotations

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.mechanisms import leverage
from tensorveil.mechanisms.leverage import find_leverages, inflate
from tensorveil.solvers.task import Solution


def test_rows_on_a_known_factor_are_a_ridge_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row of a mode against the diagonal of its hat matrix, on average; in blocks of any size."""
    monkeypatch.setattr(leverage, "_NUMBERS", 30)
    rng = np.random.default_rng(0)
    factors = (rng.standard_normal((5, 2)), rng.standard_normal((7, 2)), rng.standard_normal((4, 2)))
    biases = (rng.standard_normal(5), np.zeros(7), np.zeros(4))
    columns = np.stack([rng.integers(size, size=60) for size in (5, 7, 4)]).astype(np.int32)
    left = np.ones(60)
    for mode, factor in enumerate(factors):
        one, other = (k for k in range(3) if k != mode)
        design = factors[one][columns[one]] * factors[other][columns[other]] * factor.std(axis=0)
        if mode == 0:
            design = np.column_stack([design, np.full(60, biases[0].std())])
        for row in range(len(factor)):
            own = design[columns[mode] == row]
            hat = own @ np.linalg.inv(own.T @ own + 0.3 * np.eye(own.shape[1])) @ own.T
            left[columns[mode] == row] *= 1.0 - np.diag(hat).mean()
    found = find_leverages(columns, Solution(core=None, factors=factors, biases=biases, offset=1.0), 0.3).at(columns)
    np.testing.assert_allclose(found, np.minimum(1.0 - left, 0.8), rtol=1e-9)


def test_a_constant_model_follows_nothing() -> None:
    columns = np.zeros((2, 10), dtype=np.int32)
    flat = Solution(core=None, factors=(np.zeros((1, 2)), np.ones((1, 2))), biases=None, offset=0.0)
    assert (find_leverages(columns, flat, 1.0).at(columns) == 0).all()


def test_noise_of_an_entry_is_not_taken_for_error() -> None:
    """A residual is (1 - h) times the error less h times the noise: under much noise hardly anything is added."""
    leverages = np.array([0.0, 0.3])
    assert inflate(leverages, 0.0, 1.0).tolist() == pytest.approx([1.0, 1 / 0.7])
    assert inflate(leverages, 50.0, 1.0).tolist() == [1.0, 1.0]


def test_estimates_hold_where_models_follow_single_values() -> None:
    """Few values per row and hardly any noise: without inflation the estimate would be far too low."""
    rng = np.random.default_rng(0)
    shape = (300, 60)
    low_rank = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 60))
    whole = np.clip(low_rank + 0.8 * rng.standard_normal(shape), -8, 8)
    seen = rng.random(shape) < 0.2
    train = tv.ObservedTensor(np.argwhere(seen), whole[seen], shape=shape)
    fit = tv.PrivateCP(
        4, epsilon=60.0, delta=0.0, unit="value", bounds=(-8, 8), noise_seed=0, random_state=0, ledger=None
    ).fit(train)
    measured = float(np.sqrt(np.mean((fit.predict(np.argwhere(~seen)) - whole[~seen]) ** 2)))
    on_own = float(np.sqrt(np.mean((fit.predict(np.argwhere(seen)) - whole[seen]) ** 2)))
    assert on_own < 0.85 * measured
    assert fit.estimated_rmse_ == pytest.approx(measured, rel=0.12)
