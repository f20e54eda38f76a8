"""Guesses for whole users: from declared numbers alone, never rising with the budget, and near to what is achieved."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.mechanisms.tradeoffs import BIASES, INTERACTIONS, SIGNAL
from tensorveil.rounds import Recipe
from tensorveil.rounds.counts import adapt_scales
from tensorveil.rounds.guess import _Guess, describe_release, find_latent_epsilon, guess_error, has_latent

EPSILONS = [*np.geomspace(1e-3, 1e3, 49).tolist()]
CASES: list[tuple[dict[str, Any], int]] = [
    ({"shape": (6040, 3706)}, 900_000),
    ({"shape": (60, 25)}, 700),
    ({"shape": (20_000, 300), "rank": 3}, 400_000),
    ({"shape": (5000, 200, 20), "rank": 3}, 500_000),
    ({"shape": (5000, 200, 20), "rank": (3, 3, 2), "kind": "tucker"}, 500_000),
    ({"shape": (1, 1)}, 1),
    ({"shape": (3, 10**9)}, 5),
    ({"shape": (10**9, 2), "contributions": 50.0}, 10**12),
]


def make(epsilon: float, *, shape: Any, **more: Any) -> Recipe:
    modes = ("user", "film", "day")[: len(shape)]
    return Recipe(shape=shape, modes=modes, protect="user", bounds=(1, 5), epsilon=epsilon, delta=1e-10, **more)


@pytest.mark.parametrize(("facts", "entries"), CASES)
@pytest.mark.parametrize("sweeps", [None, 0, 7])
def test_guesses_are_finite_and_fall_with_the_budget(facts: Any, entries: int, sweeps: Any) -> None:
    found = [guess_error(make(epsilon, sweeps=sweeps, **facts), entries) for epsilon in EPSILONS]
    assert all(0 < error <= SIGNAL + 1e-9 for error in found)
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(found))


def test_guesses_do_not_rise_where_a_recipe_begins_to_spend_on_features() -> None:
    """Biases then have less of the budget, and little is found: the one place where more could be guessed to harm."""
    facts = {"shape": (6040, 3706), "rank": 8}
    switch = find_latent_epsilon(make(1.0, **facts))
    before, after = (make(switch * factor, **facts) for factor in (0.999999, 1.000001))
    assert not has_latent(before)
    assert has_latent(after)
    for entries in (20_000, 200_000, 900_000):
        assert guess_error(after, entries) <= guess_error(before, entries) * (1 + 1e-9)


def test_limits_are_those_of_the_model() -> None:
    """Without a budget only people's own biases are known; with all of it, what is left is the choice of model."""
    nothing = guess_error(make(1e-6, shape=(6040, 3706), sweeps=0), 10**7)
    assert nothing == pytest.approx(BIASES / 2 + INTERACTIONS, rel=0.01)
    everything = guess_error(make(1e4, shape=(10**6, 100), sweeps=0), 10**9)
    assert everything == pytest.approx(INTERACTIONS, rel=0.01)
    assert guess_error(make(1e4, shape=(10**6, 100), rank=2, sweeps=7), 10**9) < 0.01


def test_errors_of_biases_are_those_of_simulated_sums() -> None:
    """One released mode with as many entries in every row, so that everything can be drawn and shrunk by hand."""
    recipe = make(1.0, shape=(6040, 1500), sweeps=0)
    parts = _Guess(recipe=recipe, entries=300_000)
    rng, share, within = np.random.default_rng(0), parts.bias_share, parts.within
    counts = np.repeat(parts.counts(0), 20_000)
    scales = adapt_scales(parts.counts(0))
    smaller = float(np.mean(parts.counts(0) * scales**2) / np.mean(parts.counts(0)))
    reach = 0.9 * recipe.reach * math.sqrt(within * smaller)
    biases = rng.normal(0, math.sqrt(share), len(counts))
    weighted, known = np.zeros(len(counts)), np.zeros(len(counts))
    for step, mu in parts.spent:
        if step.kind == "biases":
            variance = (reach / mu / np.repeat(scales, 20_000)) ** 2 + 0.5 * within * counts
            sums = counts * biases + rng.normal(0, np.sqrt(variance))
            weighted, known = weighted + counts * sums / variance, known + counts**2 / variance
    error = float(np.average((weighted / (known + 1 / share) - biases) ** 2, weights=counts))
    exact_counts = parts._bias_error(0, 1e9, reach / scales)  # a scale at which counts have no noise
    assert exact_counts == pytest.approx(error, rel=0.02)
    assert parts.shared > exact_counts


@pytest.mark.parametrize("facts", [case[0] for case in CASES[:5]])
def test_what_is_said_is_what_the_recipe_does(facts: Any) -> None:
    for epsilon in (0.1, 1.0, 5.0, 20.0):
        recipe = make(epsilon, **facts)
        assert ("latent features would be released" in describe_release(recipe)) == has_latent(recipe)
        assert ("Rank" in describe_release(recipe)) or has_latent(recipe)


def test_features_come_at_the_epsilon_that_is_named() -> None:
    facts = {"shape": (6040, 3706), "rank": 8}
    words = describe_release(make(1.0, **facts))
    named = float(words.split("from epsilon ")[1].split(" on")[0])
    assert has_latent(make(named, **facts))
    assert not has_latent(make(0.99 * named, **facts))
    assert "It takes more of them" in describe_release(make(1.0, shape=(5, 10**6)))
    assert "as the method says" in describe_release(make(1.0, sweeps=0, **facts))


@pytest.mark.filterwarnings("ignore:entries.*outside the bounds")
def test_a_guess_is_near_to_what_is_achieved() -> None:
    rng = np.random.default_rng(3)
    shape, n = (3000, 120), 60_000
    columns = np.unique(np.stack([rng.integers(size, size=n) for size in shape]), axis=1)
    biases = [rng.normal(0, math.sqrt(BIASES / 2), size) for size in shape]
    factors = [rng.standard_normal((size, 2)) for size in shape]
    clean = sum(bias[column] for bias, column in zip(biases, columns, strict=True))
    clean = clean + math.sqrt(INTERACTIONS / 2) * np.sum(factors[0][columns[0]] * factors[1][columns[1]], axis=1)
    values = clean + rng.normal(0, math.sqrt(1 - SIGNAL), len(clean))
    held = rng.random(len(clean)) < 0.1
    train = tv.ObservedTensor(columns[:, ~held].T, values[~held], shape=shape, modes=("user", "film"))
    for epsilon in (0.3, 3.0):
        promise: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": 1e-6,
            "unit": "slice:user",
            "bounds": (-5, 5),
            "shape": shape,
        }
        fitted = tv.UserLevelCP(2, **promise, noise_seed=1, random_state=1, threads=1).fit(train)
        error = math.sqrt(float(np.mean((fitted.predict_for(train, columns[:, held].T) - clean[held]) ** 2)))
        recipe = make(epsilon, shape=shape, rank=2)
        guess = math.sqrt(guess_error(recipe, train.n_entries))
        assert 0.7 < guess / error < 1.3
