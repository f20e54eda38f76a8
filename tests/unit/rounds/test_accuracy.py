"""What user-level fits reach: a planted tensor by default small, real ratings and larger tensors when there is time."""

from typing import Any

import numpy as np
import pytest
from benchmarks.users import congruence, films, private_biases

import tensorveil as tv
from tensorveil_evidence.studies.reference import rmse

PROMISE: dict[str, Any] = {"delta": 1e-5, "unit": "slice:user", "threads": 1}


def congruences(shape: tuple[int, ...], entries: Any, seed: int, epsilon: float) -> Any:
    problem = tv.synthetic_cp(shape, 3, n_entries=entries, held_out=0.001, random_state=seed)
    train = problem.train.with_modes(("user", "item", "period"))
    fit = tv.UserLevelCP(
        3, epsilon=epsilon, bounds=(-0.5, 1.5), shape=shape, random_state=seed, noise_seed=seed, **PROMISE
    ).fit(train)
    found = [factor[:, fit.model_.n_traits :] for factor in fit.model_.factors]
    return congruence(found, problem.factors[1:])


def test_planted_factors_are_recovered() -> None:
    """As many users times mu per item as in the large case below."""
    assert min(congruences((2_000, 100, 20), 200_000, 5, epsilon=5.0)) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 6])
def test_planted_factors_are_recovered_at_epsilon_one(seed: int) -> None:
    assert min(congruences((20_000, 1_000, 50), 2_000_000, seed, epsilon=1.0)) > 0.9


def movielens(seed: int) -> Any:
    try:
        return films(seed)
    except tv.DataNotFoundError:
        pytest.skip("MovieLens 1M is not here")


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "most"), [(0.1, 1.033), (1.0, 0.968), (5.0, 0.930), (20.0, 0.905)])
def test_ratings_of_films(epsilon: float, most: Any) -> None:
    """Better than the local user mean, than the private bias model, and than targets set beforehand."""
    train, test = movielens(7)
    fit = tv.UserLevelMatrix(6, epsilon=epsilon, bounds=(1, 5), shape=train.shape, noise_seed=7, **PROMISE)
    error = fit.fit(train).rmse_for(train, test)
    biases = rmse(private_biases(train, epsilon, 7).predict_for(train, test), test.values)
    assert error < most
    assert error < biases


@pytest.mark.filterwarnings("ignore:entries.*outside the bounds")
def test_ratings_without_latent_features_use_traits() -> None:
    """Users who follow the common opinion to different degrees are told apart, at no cost."""
    rng = np.random.default_rng(0)
    opinion, follows = rng.normal(size=60), rng.normal(1.0, 0.6, size=3_000)
    cells = np.argwhere(rng.random((3_000, 60)) < 0.3)
    values = 3 + follows[cells[:, 0]] * opinion[cells[:, 1]] * 0.6 + rng.normal(scale=0.3, size=len(cells))
    tensor = tv.ObservedTensor(cells, values, shape=(3_000, 60), modes=("user", "film"))
    held = rng.random(len(cells)) < 0.1
    train, test = tensor.take(~held), tensor.take(held)
    fit = tv.UserLevelMatrix(
        2, epsilon=3.0, bounds=(0, 6), shape=(3_000, 60), method="biases", noise_seed=0, **PROMISE
    ).fit(train)
    assert fit.rmse_for(train, test) < 0.36  # noise of 0.3; a model of biases alone has 0.47
