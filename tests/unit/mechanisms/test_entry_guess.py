"""Guesses for single entries: their noise is the mechanism's, and they never rise with the budget."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.mechanisms import entry_guess, gram
from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.entry_guess import EXPECTED
from tensorveil.mechanisms.names import BY_UNIT
from tensorveil.mechanisms.planner import plan
from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import SeededSource
from tensorveil.privacy import Budget, Unit

FACTS: dict[str, Any] = {"shape": (300, 40), "bounds": (0.0, 1.0), "ranks": (2, 2), "core": False}


def make(epsilon: float | None = None, mu: float | None = None, **changes: Any) -> Case:
    facts = {"shape": (300, 40), "n_entries": 10_000, "ranks": (2, 2), "core": False}
    return Case(epsilon=epsilon, mu=mu, **{**facts, **changes})


@pytest.mark.parametrize("dimension", [2, 5, 44])
@pytest.mark.parametrize("budget", [{"epsilon": 0.7}, {"mu": 0.7}])
def test_the_noise_is_what_is_really_added(budget: Any, dimension: int) -> None:
    spend = Spend(source=SeededSource(0), **budget)
    noisy = spend.bounded_rows(np.zeros((1, dimension)), np.zeros(1, dtype=np.int64), 1, longest=math.sqrt(2.0))
    assert entry_guess._noise(make(**budget), dimension) == pytest.approx(noisy.variance, rel=1e-3)


def test_the_budget_is_divided_as_the_mechanism_divides_it() -> None:
    assert gram._MEAN_SHARE == entry_guess._MEAN_SHARE


def test_every_mechanism_of_the_unit_has_a_guess() -> None:
    assert set(EXPECTED) == set(BY_UNIT["entry"])


@pytest.mark.parametrize("kind", ["epsilon", "mu"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shape": (943, 1682), "n_entries": 90_000, "ranks": (8, 8)},
        {"shape": (60, 50, 40), "ranks": (3, 2, 2), "core": True},
        {"shape": (1, 1), "n_entries": 1, "ranks": (1, 1)},
        {"shape": (10**9, 5), "n_entries": 3},
        {"shape": (20, 20, 20, 20), "ranks": (60,) * 4, "n_entries": 10**12},
        {"spread": 0.5},
    ],
)
@pytest.mark.parametrize("method", sorted(EXPECTED))
def test_guesses_are_finite_and_fall_with_the_budget(method: str, kind: str, changes: Any) -> None:
    found = [EXPECTED[method](make(**{kind: size}, **changes)) for size in np.geomspace(1e-4, 1e4, 41).tolist()]
    assert all(math.isfinite(error) and error > 0 for error in found)
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(found))


def test_nothing_is_guessed_without_a_declared_number() -> None:
    budget = Budget(epsilon=3.0, delta=0.0)
    silent = plan(n_entries=None, budget=budget, unit=Unit.entry(), **FACTS)
    assert silent.guess is None
    told = plan(n_entries=10_000, budget=budget, unit=Unit.entry(), **FACTS)
    assert told.guess is not None
    assert told.n_entries is None  # private: the plan of a run does not hold it
    assert told.method == silent.method
    assert plan(n_entries=10_000, budget=budget, unit=Unit.entry(), spread=0.2, **FACTS).guess != told.guess


@pytest.mark.parametrize("epsilon", [1.0, 10.0, 100.0])
def test_a_guess_is_near_to_what_is_achieved(epsilon: float) -> None:
    rng = np.random.default_rng(5)
    shape, n = (400, 100), 30_000
    columns = np.unique(np.stack([rng.integers(size, size=n) for size in shape]), axis=1)
    clean = sum(rng.normal(0, math.sqrt(0.125), size)[column] for size, column in zip(shape, columns, strict=True))
    factors = [rng.standard_normal((size, 2)) for size in shape]
    clean = clean + math.sqrt(0.175) * np.sum(factors[0][columns[0]] * factors[1][columns[1]], axis=1)
    values = clean + rng.normal(0, math.sqrt(0.4), len(clean))
    train = tv.ObservedTensor(columns.T, values, shape=shape)
    promise: dict[str, Any] = {"epsilon": epsilon, "delta": 0.0, "unit": "entry", "bounds": (-5, 5), "shape": shape}
    errors = [
        tv.PrivateCP(2, **promise, noise_seed=seed, random_state=seed, threads=1).fit(train).predict(columns.T) - clean
        for seed in range(3)
    ]
    found = plan(
        n_entries=train.n_entries, shape=shape, bounds=(-5.0, 5.0), ranks=(2, 2), core=False,
        budget=Budget(epsilon=epsilon, delta=0.0), unit=Unit.entry(),
    )  # fmt: skip
    assert found.guess is not None
    assert 0.8 < found.guess / math.sqrt(float(np.mean(np.square(errors)))) < 1.25
