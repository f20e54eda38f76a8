"""Confidence bounds, claims and p-values against closed forms and brute force."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tensorveil.audit import Claim
from tensorveil.audit.claim import lower_rate, upper_rate
from tensorveil.audit.one_run import Canaries, audit_one_run, epsilon_from_guesses, guess_pvalue
from tensorveil.errors import InputError
from tensorveil.privacy.gdp import gdp_delta


@pytest.mark.parametrize(("hits", "draws"), [(0, 10), (3, 10), (10, 10), (17, 1000)])
def test_bounds_are_those_of_scipy(hits: Any, draws: Any) -> None:
    interval = stats.binomtest(hits, draws).proportion_ci(confidence_level=0.98, method="exact")
    assert float(lower_rate(hits, draws, 0.01)) == pytest.approx(interval.low, abs=1e-12)
    assert float(upper_rate(hits, draws, 0.01)) == pytest.approx(interval.high, abs=1e-12)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5, 0.97])
def test_bounds_cover_by_enumeration(rate: Any) -> None:
    """For every rate, the hits whose bound is wrong have no more probability than the error."""
    hits = np.arange(51)
    weights = stats.binom.pmf(hits, 50, rate)
    assert weights[lower_rate(hits, 50, 0.02) > rate].sum() <= 0.02
    assert weights[upper_rate(hits, 50, 0.02) < rate].sum() <= 0.02


@settings(max_examples=50)
@given(epsilon=st.floats(0.01, 5), delta=st.sampled_from([0.0, 1e-5, 0.1]), p=st.floats(0.01, 0.99))
def test_the_least_epsilon_inverts_the_definition(epsilon: float, delta: float, p: Any) -> None:
    """An event exactly at the edge of (epsilon, delta) shows epsilon; the curve says the same."""
    claim = Claim(epsilon=epsilon, delta=delta)
    q = (p - delta) * math.exp(-epsilon)
    if q > 0:
        assert float(claim.least(p, q)) >= epsilon - 1e-9
        assert float(claim.event_level(p, q)) == pytest.approx(epsilon, abs=1e-9)
        assert float(claim.least_missed(q)) >= 1 - p - 1e-12
    alpha = np.linspace(0, 1, 101)
    missed = claim.least_missed(alpha)
    for a, b in zip(alpha, missed, strict=True):
        assert 1 - b <= math.exp(epsilon) * a + delta + 1e-12  # nothing above the curve's power
        assert 1 - a <= math.exp(epsilon) * b + delta + 1e-12


def test_mu_is_the_distance_of_quantiles_and_its_curve_gives_delta() -> None:
    claim = Claim(mu=1.3)
    alpha = stats.norm.cdf(-0.4)
    assert float(claim.least(1 - claim.least_missed(alpha), alpha)) == pytest.approx(1.3)
    # delta(epsilon) is the largest power minus e^epsilon times the false positives.
    grid = np.linspace(1e-6, 1 - 1e-6, 200_001)
    best = np.max(1 - claim.least_missed(grid) - math.exp(0.7) * grid)
    assert best == pytest.approx(gdp_delta(1.3, 0.7), abs=1e-6)


def test_ceiling_and_detectable() -> None:
    claim = Claim(epsilon=1.0)
    n, error = 10_000, 1e-3
    # With every draw right the bound is about ln(n / ln(2 / error)).
    assert claim.ceiling(n, error) == pytest.approx(math.log(n / math.log(2 / error)), abs=1e-2)
    found = claim.detectable(n, error)
    assert 1.0 < found < 1.2
    right = 1 / (1 + math.exp(-found))
    shown = claim.least(lower_rate(right * n, n, error / 2), upper_rate((1 - right) * n, n, error / 2))
    assert float(shown) == pytest.approx(1.0, abs=1e-6)
    assert claim.detectable(20, error) == math.inf  # twenty draws cannot show epsilon 1


@pytest.mark.parametrize(
    ("claim", "words"),
    [({}, "either"), ({"epsilon": 1.0, "mu": 1.0}, "either"), ({"epsilon": -1.0}, "epsilon must"),
     ({"epsilon": math.inf}, "epsilon must"), ({"epsilon": 1.0, "delta": 1.0}, "delta must"),
     ({"mu": 1.0, "delta": 0.1}, "no meaning")],
)  # fmt: skip
def test_bad_claims_are_refused(claim: Any, words: Any) -> None:
    with pytest.raises(InputError, match=words):
        Claim(**claim)


def test_the_p_value_without_delta_is_a_binomial_tail() -> None:
    q = 1 / (1 + math.exp(-0.8))
    assert guess_pvalue(100, 60, 45, 0.8, 0.0) == pytest.approx(stats.binom.sf(44, 60, q))


def test_the_delta_term_by_enumeration() -> None:
    m, r, v, epsilon, delta = 50, 20, 17, 1.0, 1e-4
    q = 1 / (1 + math.exp(-epsilon))
    largest = max(sum(stats.binom.pmf(k, r, q) for k in range(v - i, v)) / i for i in range(1, v + 1))
    expected = stats.binom.sf(v - 1, r, q) + 2 * m * delta * largest
    assert guess_pvalue(m, r, v, epsilon, delta) == pytest.approx(expected)
    assert guess_pvalue(m, r, v, epsilon, 0.5) == 1.0
    with pytest.raises(InputError, match="at most"):
        guess_pvalue(10, 20, 5, 1.0, 0.0)


@settings(max_examples=30)
@given(right=st.integers(0, 40), delta=st.sampled_from([0.0, 1e-6, 1e-3]))
def test_the_epsilon_from_guesses_is_the_largest_refuted(right: Any, delta: float) -> None:
    found = epsilon_from_guesses(100, 40, right, delta, 0.999)
    if found > 0:
        assert guess_pvalue(100, 40, right, found, delta) <= 0.001 + 1e-9
    assert guess_pvalue(100, 40, right, found + 1e-6, delta) > 0.001 - 1e-9


def test_one_run_of_randomised_response_shows_less_than_its_epsilon_but_much_of_it() -> None:
    epsilon = 2.0

    def run(coins: Any, rng: np.random.Generator) -> Any:
        kept = rng.random(len(coins)) < 1 / (1 + math.exp(-epsilon))
        return np.where(kept, coins, 1 - coins).astype(float)

    verdict = audit_one_run(run, Canaries(count=4000, guesses=4000), Claim(epsilon=epsilon))
    assert not verdict.violated
    assert verdict.lower_bound > 1.7
    assert audit_one_run(run, Canaries(count=4000, guesses=4000), Claim(epsilon=1.5)).violated
    assert verdict.ceiling > 6
    assert 2.0 < verdict.detectable < 2.3


def test_one_run_needs_an_epsilon_and_finite_scores() -> None:
    with pytest.raises(InputError, match="epsilon"):
        audit_one_run(lambda c, r: c, Canaries(count=10, guesses=5), Claim(mu=1.0))
    with pytest.raises(InputError, match="finite score"):
        audit_one_run(lambda c, r: c * np.nan, Canaries(count=10, guesses=5), Claim(epsilon=1.0))
    with pytest.raises(InputError, match="guesses"):
        Canaries(count=3, guesses=4)
