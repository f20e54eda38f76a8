"""Every sampler follows its exact law: goodness of fit, moments, extreme scales, independence of successive draws."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from tensorveil.noise import (
    SeededSource,
    bernoulli_exp,
    discrete_gaussian,
    discrete_gaussian_variance,
    discrete_laplace,
    discrete_laplace_variance,
    rounded_gaussian,
    rounded_gaussian_variance,
    uniform_below,
)
from tests import chance

N = 200_000
SCALES = [0.3, 1.0, 7.5, 1000.0, 2.0**20 + 0.1, 2.0**40]


def cells_of(edges: Any, below: Any) -> Any:
    """Probabilities of the cells cut by integer edges, given P(k < edge) as a function at high precision."""
    with mpmath.workdps(40):
        at = [mpmath.mpf(0), *(below(int(e)) for e in edges), mpmath.mpf(1)]
        return [float(b - a) for a, b in pairwise(at)]


def laplace_below(scale: Any) -> Any:
    s = mpmath.mpf(scale)
    a = mpmath.exp(-1 / s)
    # P(k < e) = a**(1-e) / (1 + a) for e <= 0, and by symmetry above.
    return lambda e: mpmath.exp((e - 1) / s) / (1 + a) if e <= 0 else 1 - mpmath.exp(-e / s) / (1 + a)


def rounded_gaussian_below(sigma: Any) -> Any:
    return lambda e: mpmath.ncdf((e - mpmath.mpf(1) / 2) / mpmath.mpf(sigma))


def discrete_gaussian_below(sigma: Any) -> Any:
    s = mpmath.mpf(sigma)
    if sigma > 100:
        # Euler-Maclaurin: midpoint sums of a Gaussian equal its integral up to 1 / (24 sigma**2).
        return rounded_gaussian_below(sigma)
    reach = int(45 * sigma) + 2
    weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * s * s)) for k in range(-reach, reach + 1)]
    total = mpmath.fsum(weights)
    return lambda e: mpmath.fsum(weights[: max(0, e + reach)]) / total


LAWS = {
    "laplace": (discrete_laplace, laplace_below, discrete_laplace_variance, 3.0),
    "rounded": (rounded_gaussian, rounded_gaussian_below, rounded_gaussian_variance, 1.8),
    "gaussian": (discrete_gaussian, discrete_gaussian_below, discrete_gaussian_variance, 1.8),
}


def edges_for(scale: Any, reach: Any) -> Any:
    """Up to forty different integers spread over the law; every integer of a small one."""
    return np.unique(np.rint(np.linspace(-reach, reach, 40) * scale)).astype(np.int64)


def histogram(draws: Any, edges: Any) -> Any:
    return np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("law", LAWS)
def test_goodness_of_fit(law: Any, scale: Any) -> None:
    draw, below, variance, reach = LAWS[law]
    n = N if scale < 2.0**35 else N // 10
    draws = draw(scale, n, SeededSource(int(scale) + 17))
    edges = edges_for(scale, max(reach, 1.5 / scale))
    name = f"{law} at {scale:g}"
    chance.assert_fits(name, histogram(draws, edges), lambda factor: cells_of(edges, below(scale * factor)))
    chance.assert_mean(f"{name}: mean", draws / scale, 0.0, variance(scale) ** 0.5 / scale)
    chance.assert_second_moment(f"{name}: variance", draws / scale, variance(scale) / scale**2)


@pytest.mark.parametrize("law", LAWS)
def test_tiny_scales_give_zero(law: Any) -> None:
    draw = LAWS[law][0]
    assert not draw(0.05, 10_000, SeededSource(5)).any()
    assert not draw(2.0**-40, 100, SeededSource(5)).any()


@pytest.mark.parametrize("law", LAWS)
def test_low_digits_are_uniform_at_large_scales(law: Any) -> None:
    """A float sampler would leave holes in the low bits."""
    draws = LAWS[law][0](2.0**38, N // 4, SeededSource(21)) & 15
    counts = np.bincount(draws, minlength=16)

    def tilted(factor: Any) -> Any:
        weights = np.where(np.arange(16) % 2, factor, 1.0)
        return weights / weights.sum()

    chance.assert_fits(f"{law}: low bits", counts, tilted)


@pytest.mark.parametrize("law", LAWS)
def test_successive_draws_are_independent(law: Any) -> None:
    draws = LAWS[law][0](50.0, N, SeededSource(31)).astype(float)
    for lag in (1, 2):
        chance.assert_uncorrelated(f"{law}: lag {lag}", draws[lag:], draws[:-lag])
        sizes = np.abs(draws)
        chance.assert_uncorrelated(f"{law}: sizes at lag {lag}", sizes[lag:], sizes[:-lag])
    pairs = np.sign(draws[::2]), np.sign(draws[1::2])
    chance.assert_uncorrelated(f"{law}: signs of pairs", *pairs)


@pytest.mark.parametrize("scale", [0.05, 0.2, 0.4, 1.0, 2.9, 3.1, 50.0])
def test_variances_against_sums(scale: Any) -> None:
    with mpmath.workdps(60):
        for law, top in (("laplace", 150), ("rounded", 20), ("gaussian", 20)):
            _, below, variance, _ = LAWS[law]
            at = below(scale)
            reach = int(top * max(scale, 1))
            exact = 2 * mpmath.fsum(k * k * (at(-k + 1) - at(-k)) for k in range(1, reach))
            assert variance(scale) == pytest.approx(float(exact), rel=1e-9), law


def coin_law(p: float) -> Callable[[float], list[float]]:
    return lambda f: [min(p * f, 1), 1 - min(p * f, 1)]


def test_bernoulli_exp() -> None:
    x = np.repeat([0.0, 1e-9, 0.4, 2.0, 800.0], 40_000)
    heads = bernoulli_exp(x, SeededSource(2)).reshape(5, -1)
    assert heads[0].all()
    assert heads[1].mean() > 0.999
    assert not heads[4].any()
    for row, exponent in ((2, 0.4), (3, 2.0)):
        count = int(heads[row].sum())
        chance.assert_fits(f"bernoulli exp(-{exponent})", [count, 40_000 - count], coin_law(math.exp(-exponent)))


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 2**33 + 1, 2**63])
def test_uniform_below(bound: Any) -> None:
    draws = uniform_below(bound, 50_000, SeededSource(9))
    assert draws.min() >= 0
    assert int(draws.max()) < bound
    if bound > 1:
        cells = min(bound, 7)
        counts = np.bincount([int(k) * cells // bound for k in draws.tolist()], minlength=cells)
        exact = np.array(
            [len(range(-(-c * bound // cells), -(-(c + 1) * bound // cells))) / bound for c in range(cells)]
        )

        def tilted(factor: Any) -> Any:
            weights = exact * np.where(np.arange(cells) % 2, factor, 1.0)
            return weights / weights.sum()

        chance.assert_fits(f"uniform below {bound}", counts, tilted)


def test_the_source_is_uniform() -> None:
    data = np.frombuffer(SeededSource(77).bytes(1 << 20), dtype=np.uint8)
    counts = np.bincount(data, minlength=256)

    def tilted(factor: Any) -> Any:
        weights = np.where(np.arange(256) % 2, factor, 1.0)
        return weights / weights.sum()

    chance.assert_fits("source: bytes", counts, tilted)
    assert stats.kstest(SeededSource(78).uniform64(50_000) / 2.0**64, "uniform").pvalue > chance.register("source: ks")


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.7, 12.5, 3000.0, 2.0**20 + 0.1, 2.0**33])
@pytest.mark.parametrize("law", LAWS)
def test_goodness_of_fit_with_many_draws(law: Any, scale: Any) -> None:
    """Ten million draws in up to four hundred cells."""
    draw, below, _, reach = LAWS[law]
    edges = np.unique(np.rint(np.linspace(-2 * reach, 2 * reach, 400) * max(scale, 1))).astype(np.int64)
    counts = sum(histogram(draw(scale, 2_000_000, SeededSource(100 + i)), edges) for i in range(5))
    chance.assert_fits(f"{law} at {scale:g}, many", counts, lambda f: cells_of(edges, below(scale * f)))
