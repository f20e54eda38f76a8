"""Epsilon by enumeration: chances of every answer under every input, against what is promised."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorveil.errors import InputError
from tensorveil.local import DTLDP, ExactGaussian, Hybrid, PrivUnit, PrivUnitG
from tensorveil.local.allocation import entry_epsilons, shares_of_weights, weights_of_importance, weights_of_regions
from tensorveil.local.dtldp import clamped_matrix, dtldp_epsilon, keep_odds
from tensorveil.noise import SeededSource
from tensorveil.noise.dyadic import WORDS
from tensorveil.noise.windows import best_width, window_law
from tensorveil.privacy.exact import exactly
from tensorveil.privacy.gdp import gdp_epsilon
from tests.unit.local.local_cases import make

EPSILONS = [0.01, 0.5, 1.0, 4.0, 12.0]


def largest_ratio(matrix: Any) -> Any:
    """ln of the largest ratio of chances of an answer (column) under two inputs (rows)."""
    logs = np.log(matrix)
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def infinite_matrix(last: Any, scale: Any, keep: Any, reach: Any) -> Any:
    a = math.exp(-1 / scale)
    answers = np.arange(-reach, last + reach + 1)
    distance = np.abs(answers[None, :] - np.arange(last + 1)[:, None])
    return (1 - keep) * (1 - a) / (1 + a) * a**distance + keep * (distance == 0)


@pytest.mark.parametrize("last", [1, 2, 3, 8, 15])
@pytest.mark.parametrize(("scale", "keep"), [(0.5, 0.3), (2.0, 0.0), (3.0, 0.7), (9.0, 0.05), (1.0, 0.99)])
def test_dtldp_epsilon_is_what_enumeration_gives(last: Any, scale: Any, keep: Any) -> None:
    assert largest_ratio(infinite_matrix(last, scale, keep, 5)) == pytest.approx(
        dtldp_epsilon(last, scale, keep, clamp=False), rel=1e-9
    )
    if last >= 2:
        assert largest_ratio(clamped_matrix(last, scale, keep)) == pytest.approx(
            dtldp_epsilon(last, scale, keep, clamp=True), rel=1e-9
        )


@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("points", [3, 4, 16, 64])
@pytest.mark.parametrize("share", [None, 0.5, 1.0])
def test_dtldp_is_calibrated_to_its_epsilon(points: Any, epsilon: float, clamp: Any, share: Any) -> None:
    mechanism = DTLDP(
        shape=(1,), epsilon=epsilon, unit="tensor", bounds=(0, 1), points=points, clamp=clamp, noise_share=share
    )
    law = mechanism._law(exactly(epsilon))
    keep, scale = law.chance / WORDS, float(law.scale)
    found = dtldp_epsilon(points - 1, scale, keep, clamp=clamp)
    assert found <= epsilon * (1 + 1e-12)
    if share != 1.0 or not clamp:
        assert found >= epsilon * (1 - 1e-6)
    matrix = clamped_matrix(points - 1, scale, keep) if clamp else infinite_matrix(points - 1, scale, keep, 5)
    assert largest_ratio(matrix) <= epsilon + 1e-9
    assert keep_odds(exactly(epsilon), exactly(epsilon), points - 1, clamp=False) == 0


def test_keeping_pays_only_for_large_epsilon() -> None:
    """The thresholds of the design: about 4.0, 6.7, 8.7, 10.6 for 4, 16, 64, 256 points."""
    for points, threshold in [(4, 4.0), (16, 6.7), (64, 8.7), (256, 10.6)]:
        for epsilon, keeps in [(threshold - 0.4, False), (threshold + 0.4, True)]:
            mechanism = DTLDP(shape=(1,), epsilon=epsilon, unit="tensor", bounds=(0, 1), points=points)
            assert (mechanism._law(exactly(epsilon)).chance > 0) == keeps


@pytest.mark.parametrize("last", [1, 4, 31, 4096])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_windows_never_exceed_epsilon_in_exact_arithmetic(last: Any, epsilon: float) -> None:
    for width in {1, best_width(exactly(epsilon), last)}:
        law = window_law(exactly(epsilon), last, width)
        inside, outside = Fraction(law.chance, WORDS * width), Fraction(WORDS - law.chance, WORDS * last)
        assert inside * width + outside * last == 1
        assert inside >= outside
        with mpmath.workdps(60):
            ratio = mpmath.mpf(inside.numerator * outside.denominator) / (inside.denominator * outside.numerator)
            exact = exactly(epsilon)
            promised = mpmath.exp(mpmath.mpf(exact.numerator) / exact.denominator)
            assert ratio <= promised
            assert ratio >= promised * (1 - mpmath.mpf(10) ** -12)


@pytest.mark.parametrize("dimension", [1, 2, 3, 64, 784])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0, 16.0])
def test_caps_never_exceed_epsilon(dimension: Any, epsilon: float) -> None:
    """(p / q) / ((1 - p) / (1 - q)) with the share q at fifty digits."""
    with mpmath.workdps(50):
        promised = mpmath.exp(mpmath.mpf(epsilon))
        unit = PrivUnit(shape=(dimension,), epsilon=epsilon, unit="tensor", radius=1.0).cap
        p = mpmath.mpf(unit.chance) / WORDS
        if unit.gamma == 0:
            q = mpmath.mpf(1) / 2
        else:
            a, x = mpmath.mpf(dimension - 1) / 2, 1 - mpmath.mpf(unit.gamma) ** 2
            q = mpmath.betainc(a, mpmath.mpf(1) / 2, 0, x, regularized=True) / 2
        assert p * (1 - q) / ((1 - p) * q) <= promised
        assert p * (1 - q) / ((1 - p) * q) >= promised * (1 - 1e-8)
        flat = PrivUnitG(shape=(dimension,), epsilon=epsilon, unit="tensor", radius=1.0).half_space
        p, q = mpmath.mpf(flat.chance) / WORDS, mpmath.erfc(mpmath.mpf(flat.gamma) / mpmath.sqrt(2)) / 2
        assert p * (1 - q) / ((1 - p) * q) <= promised
        assert p * (1 - q) / ((1 - p) * q) >= promised * (1 - 1e-8)


def test_gaussian_noise_is_scaled_to_the_largest_distance() -> None:
    for unit, most in [("tensor", 9), ("tensor:differ=4", 4), ("local entry", 1)]:
        noise = ExactGaussian(shape=(3, 3), epsilon=1.0, delta=1e-5, unit=unit, bounds=(-1, 3))
        assert noise.sensitivity_steps * Fraction(noise.step) == pytest.approx(4 * math.sqrt(most), rel=1e-9)
        assert gdp_epsilon(noise.mu, 1e-5) <= 1.0
    ball = ExactGaussian(shape=(3, 3), epsilon=1.0, delta=1e-5, unit="tensor", radius=2.0)
    assert 4.0 <= float(ball.sensitivity_steps * Fraction(ball.step)) <= 4.0001


@given(
    weights=st.lists(st.floats(0, 0.99), min_size=2, max_size=12),
    most=st.integers(1, 12),
    epsilon=st.floats(0.01, 40),
)
@settings(max_examples=200)
def test_no_entries_that_may_differ_spend_more_than_epsilon(weights: Any, most: Any, epsilon: float) -> None:
    most = min(most, len(weights))
    parts = entry_epsilons(epsilon, most, shares_of_weights(np.array(weights), (len(weights),)))
    largest = sum(sorted(parts, reverse=True)[:most])
    assert largest <= exactly(epsilon)
    assert float(largest) >= epsilon * (1 - 1e-9)
    assert entry_epsilons(epsilon, most, None)[0] * most == exactly(epsilon)


def test_weights_are_shared_as_printed() -> None:
    weights = np.array([[0.0, 0.5], [0.75, 1.0]])
    mechanism = DTLDP(shape=(2, 2, 3), epsilon=3.0, unit="tensor", bounds=(0, 1), weights=weights)
    shares = 1 - np.repeat(weights[:, :, None], 3, axis=2)
    assert np.allclose(mechanism.entry_epsilons, 3.0 * shares / shares.sum())
    assert mechanism.exact_epsilon == pytest.approx(3.0, rel=1e-9)
    codes = mechanism.perturb(np.zeros((50, 2, 2, 3)))
    assert np.all(codes[:, 1, 1] == 0.5)  # epsilon 0: the answer does not depend on the data
    assert np.all(mechanism.perturb(np.ones((50, 2, 2, 3)))[:, 1, 1] == 0.5)
    entry = DTLDP(shape=(2, 2), epsilon=3.0, unit="local entry", bounds=(0, 1), weights=weights)
    assert entry.entry_epsilons.max() == pytest.approx(3.0)
    few = DTLDP(shape=(2, 2), epsilon=3.0, unit="tensor:differ=2", bounds=(0, 1), weights=weights)
    assert np.sort(few.entry_epsilons.reshape(-1))[-2:].sum() == pytest.approx(3.0)


def test_importance_gives_the_least_weighted_error() -> None:
    importance = np.array([1.0, 8.0, 27.0, 64.0])
    best = DTLDP(
        shape=(4,), epsilon=0.4, unit="tensor", bounds=(0, 1), weights=weights_of_importance(importance)
    ).entry_epsilons
    assert np.allclose(best / best.max(), [0.25, 0.5, 0.75, 1.0])
    rng = np.random.default_rng(0)
    error = (importance / best**2).sum()
    for _ in range(200):
        other = best * np.exp(rng.normal(0, 0.2, 4))
        assert (importance / (other * 0.4 / other.sum()) ** 2).sum() >= error * (1 - 1e-9)
    with pytest.raises(InputError, match="importance"):
        weights_of_importance([0.0, 0.0])


def test_hybrid_answers_by_one_bit_below_its_threshold() -> None:
    small = Hybrid(shape=(1,), epsilon=0.6, unit="tensor", bounds=(-1, 1))
    values = np.unique(small.perturb(np.full((500, 1), 0.3)))
    assert np.allclose(np.abs(values), 1 / math.tanh(0.3))
    assert len(values) == 2
    large = Hybrid(shape=(1,), epsilon=2.0, unit="tensor", bounds=(-1, 1))
    assert len(np.unique(large.perturb(np.full((500, 1), 0.3)))) > 100


@pytest.mark.parametrize("name", ["DTLDP", "RandomizedResponse", "Staircase"])
def test_answers_may_come_from_any_input(name: str) -> None:
    """Whatever went in, the same grid of answers can come out."""
    mechanism = make(name, shape=(1,), epsilon=1.0)
    low = set(mechanism.randomize(np.full((4000, 1), -1.0)).reshape(-1).tolist())
    high = set(mechanism.randomize(np.full((4000, 1), 1.0)).reshape(-1).tolist())
    assert {code for code in low if 0 <= code <= mechanism.last} & {
        code for code in high if 0 <= code <= mechanism.last
    }
    assert np.issubdtype(mechanism.randomize(np.zeros(1)).dtype, np.integer)


@pytest.mark.parametrize(("shape", "axes"), [((6, 5), (0, 1)), ((6, 5, 3), (0, 1)), ((3, 6, 5), (1, 2))])
def test_public_regions_get_smaller_shares_of_a_budget_that_stays_whole(shape: Any, axes: Any) -> None:
    weights = weights_of_regions(shape, [(1, 1, 4, 3)], inside=0.75, axes=axes)
    assert weights.shape == shape
    mechanism = DTLDP(shape=shape, epsilon=8.0, unit="tensor", bounds=(0, 255), points=256, weights=weights)
    assert mechanism.guarantee().epsilon <= 8.0
    shares = np.moveaxis(shares_of_weights(weights, shape).reshape(shape), axes, (0, 1))
    assert np.allclose(shares[1:4, 1:3], 0.25 * shares[0, 0].max())
    assert np.allclose(shares[4:], shares[0, 0].max())
    x = np.full(shape, 128.0)
    reports = mechanism.perturb(np.broadcast_to(x, (4000, *shape)), source=SeededSource(3))
    errors = np.moveaxis(((reports - x) ** 2).mean(axis=0), axes, (0, 1))
    assert errors[1:4, 1:3].min() > 4 * errors[4:].max()


@pytest.mark.parametrize(
    ("regions", "settings"),
    [([(0, 0, 9, 2)], {}), ([(2, 0, 2, 2)], {}), ([], {"inside": 1.5}), ([], {"axes": (0, 0)}), ([], {"axes": (1, 2)})],
)
def test_regions_must_lie_in_the_image(regions: Any, settings: Any) -> None:
    with pytest.raises(InputError):
        weights_of_regions((6, 5), regions, **settings)
