"""The helper itself: it rejects what is wrong, accepts what is right, and refuses tests without power."""

from typing import Any

import numpy as np
import pytest

from tests import chance


def binomial_cells(factor: Any) -> Any:
    p = min(0.5 * factor, 1.0)
    return [1 - p, p]


def test_a_fair_coin_fits_and_a_loaded_one_does_not() -> None:
    chance.assert_fits("helper: fair coin", [5030, 4970], binomial_cells)
    with pytest.raises(AssertionError, match="does not follow"):
        chance.assert_fits("helper: loaded coin", [6000, 4000], binomial_cells)


def test_a_small_sample_is_refused_for_want_of_power() -> None:
    with pytest.raises(AssertionError, match="no power"):
        chance.assert_fits("helper: small sample", [52, 48], binomial_cells)


def test_an_impossible_outcome_is_rejected() -> None:
    assert chance.fit_pvalue([10, 1], [1.0, 0.0]) == 0.0


def test_pvalues_are_uniform_enough() -> None:
    rng = np.random.default_rng(3)
    cells = np.array([0.5, 0.3, 0.15, 0.05])
    pvalues = [chance.fit_pvalue(rng.multinomial(5000, cells), cells) for _ in range(2000)]
    assert abs(np.mean(np.array(pvalues) < 0.1) - 0.1) < 0.03
    same = [chance.same_pvalue(rng.poisson(3, 3000), rng.poisson(3, 2000)) for _ in range(400)]
    assert abs(np.mean(np.array(same) < 0.1) - 0.1) < 0.07


def test_means_moments_and_correlations() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 20_000))
    chance.assert_mean("helper: mean", x, 0.0, 1.0)
    chance.assert_second_moment("helper: moment", x, 1.0)
    chance.assert_uncorrelated("helper: correlation", x, y)
    with pytest.raises(AssertionError, match="correlated"):
        chance.assert_uncorrelated("helper: correlated", x, x + 3 * y)


def test_the_budget_is_finite() -> None:
    assert chance.LEVEL * chance.MOST_TESTS <= chance.BUDGET
