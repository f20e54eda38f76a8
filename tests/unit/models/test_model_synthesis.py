"""Synthetic tensors: every cell is drawn as the model says, and nothing else can be drawn from."""

from typing import Any

import numpy as np
import pytest

import tensorveil as tv

FACTORS = np.array([[0.9, 0.1], [0.2, 0.3], [0.0, 1.0]]), np.array([[0.5, 0.2], [1.0, 0.0], [0.1, 0.9], [0.3, 0.3]])


def model(scale: float = 1.0, **facts: Any) -> tv.CPModel:
    return tv.CPModel(factors=(FACTORS[0] * scale, FACTORS[1]), **facts)


def draws(fitted: tv.CPModel, count: int) -> Any:
    return np.array([tv.synthesise(fitted, seed=seed).to_dense() for seed in range(count)])


def test_counts_are_poisson_numbers_around_the_predictions() -> None:
    fitted = model(6.0, loss="poisson")
    found, expected, n = draws(fitted, 600), fitted.dense(), 600
    spread = np.sqrt(expected / n)
    assert np.all(np.abs(found.mean(axis=0) - expected) <= 5 * spread)
    variance = found.var(axis=0)
    assert np.all(np.abs(variance - expected) <= 5 * np.sqrt((expected + 2 * expected**2) / n))
    flat = found.reshape(n, -1) - expected.ravel()
    apart = flat.T @ flat / n
    off = np.abs(apart - np.diag(np.diag(apart)))
    assert off.max() < 5 * expected.max() / np.sqrt(n)  # cells do not depend on each other


def test_yes_comes_as_often_as_the_model_says() -> None:
    fitted = model(1.5, loss="bernoulli", bounds=(0, 1))
    expected, n = fitted.dense(), 1000
    assert expected.max() == 1.0  # beyond what a probability can be, and cut
    found = draws(fitted, n)
    assert set(np.unique(found)) == {0.0, 1.0}
    assert np.all(np.abs(found.mean(axis=0) - expected) <= 5 * np.sqrt(expected * (1 - expected) / n) + 0.004)


def test_bounds_labels_and_seeds_are_kept() -> None:
    fitted = model(90.0, loss="poisson", bounds=(0, 40), modes=(tv.Mode("head", ["a", "b", "c"]), "tail"))
    one, same, other = (tv.synthesise(fitted, seed=seed) for seed in (1, 1, 2))
    assert one.values.max() == 40
    assert one.modes == fitted.modes
    assert one.unlisted == "zero"
    np.testing.assert_array_equal(one.to_dense(), same.to_dense())
    assert np.any(one.to_dense() != other.to_dense())


def test_memory_goes_with_what_is_drawn() -> None:
    """A tensor of 10^18 cells, a thousand of which are drawn."""
    factors = tuple(np.full((10**6, 1), 10.0 / 10**6) for _ in range(3))
    drawn = tv.synthesise(tv.CPModel(factors=factors, loss="poisson"), seed=0)
    assert 800 < drawn.n_entries < 1200


@pytest.mark.parametrize(
    "fitted",
    [
        model(),
        model(loss="poisson", offset=1.0),
        model(-1.0, loss="poisson"),
        tv.CPModel(factors=FACTORS, loss="poisson", biases=(np.zeros(3), np.zeros(4))),
        tv.TuckerModel(core=np.eye(2), factors=FACTORS, loss="poisson"),
    ],
    ids=["squared error", "offset", "signs", "biases", "tucker"],
)
def test_other_models_are_refused(fitted: Any) -> None:
    with pytest.raises(tv.InputError, match="model must be one of expected counts"):
        tv.synthesise(fitted)


def test_models_that_count_nothing_are_refused() -> None:
    with pytest.raises(tv.InputError, match="its upper bound is below 1"):
        tv.synthesise(model(loss="poisson", bounds=(0, 0.5)))
    with pytest.raises(tv.InputError, match="no cell was drawn"):
        tv.synthesise(model(1e-12, loss="poisson"))
    with pytest.raises(tv.MemoryLimitError):
        tv.synthesise(model(1e15, loss="poisson"))
