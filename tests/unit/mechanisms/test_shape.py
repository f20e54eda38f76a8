"""The shape of residuals: masses from noisy counts, and what clipping to an interval does."""

import math
from typing import Any

import numpy as np
import pytest

from tensorveil.mechanisms import shape as reading
from tensorveil.mechanisms.shape import Interval, Shape, private_shape, shape_of_chances
from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import SeededSource
from tensorveil.privacy.gate import PrivateValues
from tensorveil.privacy.private import Private


def measure(
    values: Any, bounds: tuple[float, float], *, epsilon: float = 1e6, known: Any = None, seed: int = 0
) -> Shape:
    values = np.asarray(values, dtype=float)
    columns = np.zeros((2, len(values)), dtype=np.int32)
    data = PrivateValues(columns=columns, values=Private(values), shape=(1, 1), bounds=bounds)
    known = np.zeros(len(values)) if known is None else known
    return private_shape(data, known, Spend(source=SeededSource(seed), epsilon=epsilon))


def least_noise(interval: Interval) -> float:
    """A gain as that of a weak signal: noise counts, and so does what is lost."""
    return interval.kept**2 / (interval.kept + 30.0 * interval.reach**2)


def little_noise(interval: Interval) -> float:
    """A gain as that of a strong signal: what is lost counts more than noise."""
    return interval.kept**2 / (interval.kept + 0.02 * interval.reach**2)


def test_bins_end_where_no_residual_can_be() -> None:
    """Counts have no residual far below their mean, so noise there is not believed."""
    values = np.random.default_rng(0).poisson(3.0, 20_000).astype(float)
    known = np.full(len(values), 3.0)
    for seed in range(20):
        shape = measure(values, (0.0, 100.0), epsilon=0.02, known=known, seed=seed)
        assert shape.edges[[0, -1]].tolist() == [-3.0, 97.0]
        assert shape.farthest <= 97.0
        assert (np.diff(shape.edges) > 0).all()


def test_masses_are_the_histogram() -> None:
    values = np.random.default_rng(0).uniform(-3, 3, 5000)
    shape = measure(values, (-4.0, 4.0))
    exact = np.histogram(values, shape.edges)[0] / 5000
    np.testing.assert_allclose(shape.masses, exact, atol=1e-4)
    assert shape.masses.sum() == pytest.approx(1.0)
    assert shape.edges[[0, -1]].tolist() == [-4.0, 4.0]  # around a known mean of 0 no residual is beyond
    assert shape.variance == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize("spreads", [0.8, 1.2, 2.0])
def test_slopes_of_gaussian_laws_are_known(spreads: float) -> None:
    """Bussgang: the regression of clipped on unclipped numbers is erf of the limit over sqrt 2."""
    values = np.random.default_rng(0).standard_normal(400_000)
    shape = measure(values, (-8.0, 8.0))
    interval = shape.interval(-spreads, spreads)
    assert interval.slope == pytest.approx(math.erf(spreads / math.sqrt(2)), abs=0.02)
    assert interval.shift == pytest.approx(0.0, abs=0.01)


def test_slopes_of_two_values_are_widths() -> None:
    """Of values that are 0 or 1 around their mean, an interval of width w leaves the share w of the signal."""
    ones = np.random.default_rng(0).random(50_000) < 0.04
    shape = measure(ones, (0.0, 1.0), known=np.full(50_000, 0.04))
    one, zero = float(shape.middles[-1]), float(shape.middles[np.argmax(shape.masses)])
    one = float(shape.middles[np.flatnonzero(shape.masses)[-1]])
    for high in (0.1, 0.3, 0.6):
        interval = shape.interval(zero, high)
        assert interval.slope == pytest.approx((high - zero) / (one - zero), abs=1e-6)


def test_skewed_values_have_intervals_that_are_not_symmetric() -> None:
    values = np.random.default_rng(0).exponential(1.0, 100_000) - 1.0
    interval = measure(np.clip(values, -10, 10), (-10.0, 10.0)).best_interval(little_noise)
    assert interval.high > -1.2 * interval.low
    assert interval.slope >= 0.3
    mirrored = measure(np.clip(-values, -10, 10), (-10.0, 10.0)).best_interval(little_noise)
    assert (mirrored.low, mirrored.high) == pytest.approx((-interval.high, -interval.low), rel=0.3)


def test_less_noise_widens_intervals() -> None:
    shape = measure(np.random.default_rng(0).standard_normal(50_000), (-8.0, 8.0))
    widths = []
    for noise in (1e-4, 1e-1, 1e2):

        def gain(interval: Interval, noise: float = noise) -> float:
            return interval.kept**2 / (interval.kept + noise * interval.reach**2)

        interval = shape.best_interval(gain)
        widths.append(interval.high - interval.low)
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[-1]


@pytest.mark.parametrize("tail", [1.0, 0.7])  # a Gaussian law, and a heavier tail
def test_few_entries_are_not_left_to_noise(tail: float) -> None:
    """Of few entries at a small budget noisy counts say next to nothing: spread and slope stay what they can be."""
    normal = np.random.default_rng(1).standard_normal(3200)
    values = 0.1 * np.sign(normal) * np.abs(normal) ** (1 / tail)
    spread = float(np.std(values))
    for seed in range(50):
        shape = measure(values, (-0.75, 0.75), epsilon=0.03, seed=seed)
        assert 0.2 * spread < shape.variance**0.5 < 0.75
        assert 0.3 <= shape.best_interval(least_noise).slope <= 1.0 + 1e-9


@pytest.mark.parametrize("values", [[0.5], [0.5] * 5, [-1.0, 1.0], [0.0] * 3000, [1.0] * 2999 + [-1.0]])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 10.0, 1e6])
def test_whatever_was_counted_there_is_a_spread(values: Any, epsilon: float) -> None:
    """Spread and slope are divided by."""
    for seed in range(20):
        shape = measure(values, (-1.0, 1.0), epsilon=epsilon, seed=seed)
        interval = shape.best_interval(least_noise)
        assert shape.masses.sum() == pytest.approx(1.0)
        assert np.count_nonzero(shape.masses) >= 2
        assert shape.variance > 0
        assert interval.slope > 0
        assert interval.low < interval.high
        assert np.isfinite([interval.reach, interval.shift, interval.kept]).all()


def test_values_that_are_all_equal_have_a_narrow_shape() -> None:
    shape = measure(np.full(3000, 0.001), (-1.0, 1.0), epsilon=1.0)
    assert shape.variance**0.5 < 0.05


def test_what_clipping_takes_off_values_at_a_bound_is_known() -> None:
    """Four in five values are 0 and the others 1; around 0.2 they have two residuals, both at the ends of all bins."""
    values = (np.arange(10_000) % 5 == 0).astype(float)
    interval = measure(values, (0.0, 1.0), known=np.full(10_000, 0.2)).interval(-0.1, 0.7)
    mean_clipped = 0.8 * -0.1 + 0.2 * 0.7
    assert interval.shift == pytest.approx(mean_clipped, abs=1e-3)  # the mean itself is 0
    # Where what is known differs from entry to entry, values at a bound have many residuals.
    assert len(measure(values, (0.0, 1.0), known=np.linspace(0.1, 0.3, 10_000)).edges) < 50


def test_noise_that_hides_what_clipping_takes_off_is_doubt() -> None:
    """All mass is at 1.5 from zero; bins further out are empty, as far as noise shows."""
    edges, masses = np.array([-4.0, -3.0, 0.0, 3.0, 4.0]), np.array([0.0, 0.5, 0.5, 0.0])
    sure, noisy = Shape(edges=edges, masses=masses), Shape(edges=edges, masses=masses, noise=0.01)
    off = np.array([math.sqrt(12.0) - 1.0, 0.5, 0.5, math.sqrt(12.0) - 1.0])  # bins count at their geometric middle
    assert sure.interval(-1.0, 1.0).doubt == pytest.approx(0.3 * 0.5)
    assert noisy.interval(-1.0, 1.0).doubt == pytest.approx(math.hypot(0.15, 0.01 * math.sqrt(float(off @ off))))
    assert sure.interval(-4.0, 4.0).doubt == noisy.interval(-4.0, 4.0).doubt == 0.0


def test_yes_and_no_are_seen_and_never_shift() -> None:
    """Effects on them are effects on chances: an interval leaves of them its share of the width."""
    rng = np.random.default_rng(0)
    ones = (rng.random(50_000) < 0.01).astype(float)
    first = measure(ones, (0.0, 1.0), known=np.full(50_000, 0.01))
    assert first.two_valued
    assert first.interval(-0.05, 0.3).slope == pytest.approx(0.31, abs=0.02)
    assert first.least_reach > 5 * first.variance**0.5  # noise counts for more than the spread tells
    assert not measure(rng.uniform(0, 1, 50_000), (0.0, 1.0), known=np.full(50_000, 0.5)).two_valued
    assert not measure(rng.poisson(3.0, 50_000), (0.0, 50.0), known=np.full(50_000, 3.0)).two_valued


def test_tails_that_do_not_stand_out_fall() -> None:
    numbers, weights = np.array([1.0, 5.0, -3.0, 2.0]), np.array([1.0, 1.0, 1.0, 0.5])
    fitted = reading._fall(numbers, weights)
    assert np.all(np.diff(fitted) <= 1e-12)
    assert weights @ fitted == pytest.approx(weights @ numbers)
    assert reading._fall(numbers[:0], weights[:0]).size == 0


def test_one_noisy_count_far_out_is_not_believed() -> None:
    """Residuals are within 8 of 100; of dozens of bins one often has three times the noise."""
    values = np.clip(np.random.default_rng(0).exponential(2.0, 50_000), 0.0, 8.0)
    spreads = [measure(values, (0.0, 100.0), epsilon=0.02, known=np.full(50_000, 2.0), seed=k) for k in range(40)]
    true = float(np.std(values))
    assert max(shape.variance for shape in spreads) ** 0.5 < 3.0 * true
    assert np.exp(np.mean([np.log(shape.variance**0.5 / true) for shape in spreads])) == pytest.approx(1.0, abs=0.3)


def test_far_counts_that_are_clear_are_believed() -> None:
    """Two groups of residuals with nothing between them."""
    values = np.where(np.arange(20_000) % 10 == 0, 60.0, 1.0)
    shape = measure(values, (0.0, 100.0), epsilon=0.2)
    assert shape.farthest > 60.0
    assert shape.variance**0.5 == pytest.approx(float(np.std(values)), rel=0.15)


def test_chances_of_yes_and_no_tell_the_shape_of_residuals() -> None:
    rng = np.random.default_rng(0)
    chances = rng.uniform(0.02, 0.2, 40_000)
    values = (rng.random(40_000) < chances).astype(float)
    told, seen = shape_of_chances(chances, (0.0, 1.0)), measure(values, (0.0, 1.0), known=chances)
    np.testing.assert_allclose(told.masses, seen.masses, atol=0.005)
    assert told.two_valued
    assert told.by_chance
    assert told.noise == 0.0


def test_counts_that_are_mostly_zero_are_no_chances() -> None:
    values = np.random.default_rng(0).poisson(0.04, 50_000).astype(float)
    shape = measure(values, (0.0, 50.0), known=np.full(50_000, 0.04))
    assert shape.two_valued
    assert not shape.by_chance
