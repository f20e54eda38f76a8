"""The error of a mean of local reports is that of one report over the number of people: exact, and measured."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tensorveil.local import choose
from tensorveil.local.choice import Candidate
from tensorveil.noise import SeededSource
from tests.chance import register
from tests.unit.local.local_cases import ALL, make


@pytest.mark.parametrize("name", sorted(ALL))
def test_means_have_the_error_that_is_computed(name: str) -> None:
    """At the worst tensor: squared errors of many means against the closed form, which a fifth more must not fit."""
    level, people, draws = register(f"mean of reports, {name}"), 40, 3000
    mechanism = make(name, shape=(3,), epsilon=2.0)
    best = Candidate(mechanism=mechanism, worst_mse=mechanism.worst_mse)
    worst = mechanism.worst_tensor()
    reports = mechanism.perturb(np.broadcast_to(worst, (draws * people, 3)), source=SeededSource(11))
    squares = np.mean((reports.reshape(draws, people, 3).mean(axis=1) - worst) ** 2, axis=1)

    def pvalue(factor: float) -> float:
        error = float(np.std(squares)) / math.sqrt(draws)
        return float(2 * stats.norm.sf(abs(float(np.mean(squares)) - (factor * best.mean_rmse(people)) ** 2) / error))

    assert pvalue(1.0) > level
    assert pvalue(1.2) < level
    assert pvalue(1 / 1.2) < level


def test_one_bit_by_hand() -> None:
    """A bit that is kept with chance p, decoded to 0 or 1: the variance is p (1 - p) / (2p - 1)^2, at an end."""
    epsilon = 0.5
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    (bit,) = (each for each in choose((1,), epsilon, "tensor", bounds=(0, 1)).candidates if "Random" in each.name)
    at_an_end = keep * (1 - keep) / (2 * keep - 1) ** 2
    assert bit.mean_rmse(100) == pytest.approx(math.sqrt((at_an_end + 0.25) / 100), rel=1e-6)  # in the middle


@pytest.mark.parametrize("facts", [{"bounds": (0, 1)}, {"radius": 2.0}])
def test_people_and_spread(facts: Any) -> None:
    best = choose((4, 3), 2.0, "tensor", **facts).candidates[0]
    assert best.mean_rmse(100) == pytest.approx(2 * best.mean_rmse(400))
    assert best.mean_rmse(100, spread=0.3) == pytest.approx(math.hypot(best.mean_rmse(100), 0.03))
