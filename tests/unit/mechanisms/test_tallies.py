"""Counts and sums by cell, against brute force and closed forms; and what one entry can move."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from tensorveil.kernels import bounding
from tensorveil.mechanisms.shape import Interval
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tallies import (
    WEIGHT,
    Tally,
    estimate_counts,
    number_cells,
    private_agreement,
    private_spread,
    private_tally,
    private_total,
    sum_noise,
)
from tensorveil.noise import SeededSource
from tensorveil.privacy.gate import PrivateEntries
from tensorveil.privacy.private import Private

SHAPE = (4, 3, 5)
CLIP = Interval(low=-0.5, high=1.5, slope=0.8, shift=0.0, kept=1.0, doubt=0.0, square=0.25)


def draw(n: int = 400, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, n) for size in SHAPE]).astype(np.int32), rng.normal(0.3, 1.0, n)


def plenty(seed: int = 0) -> Spend:
    """A budget with which noise is nearly nothing."""
    return Spend(source=SeededSource(seed), epsilon=1e5)


@pytest.mark.parametrize("modes", [(0,), (2,), (0, 2), (1, 2), (0, 1, 2)])
def test_a_tally_counts_and_sums_what_is_in_each_cell(modes: Any) -> None:
    columns, residual = draw()
    tally = private_tally(columns, SHAPE, modes, residual, CLIP, plenty())
    clipped = np.clip(residual, CLIP.low, CLIP.high) - 0.5
    for cell in product(*(range(SHAPE[mode]) for mode in modes)):
        here = np.all([columns[mode] == index for mode, index in zip(modes, cell, strict=True)], axis=0)
        assert tally.counts[cell] == pytest.approx(np.count_nonzero(here), abs=0.01)
        assert tally.sums[cell] == pytest.approx(clipped[here].sum(), abs=0.01)


@pytest.mark.parametrize("spend", [{"epsilon": 0.7}, {"mu": 0.7}])
def test_the_noise_of_sums_is_as_predicted(spend: Any) -> None:
    columns, residual = draw()
    bought = Spend(source=SeededSource(0), **spend)
    expected = sum_noise(bought.noise, pure="epsilon" in spend) * (CLIP.high - CLIP.low) ** 2
    tally = private_tally(columns, SHAPE, (0, 1), residual, CLIP, bought)
    assert tally.sum_noise == pytest.approx(expected, rel=1e-3)
    assert tally.count_noise == pytest.approx(4.0 * tally.sum_noise / (WEIGHT * 2.0) ** 2, rel=1e-9)


def test_an_entry_at_an_end_of_the_interval_has_the_longest_row() -> None:
    """Count and sum together move by sqrt(1 + weight^2), in units of half the interval."""
    one, other = (
        private_tally(np.zeros((3, n), dtype=np.int32), SHAPE, (0,), np.full(n, 99.0), CLIP, plenty()) for n in (1, 2)
    )
    moved = (other.sums - one.sums)[0], WEIGHT * (other.counts - one.counts)[0]
    assert math.hypot(*moved) == pytest.approx(math.sqrt(1 + WEIGHT**2), rel=1e-3)


def test_the_histogram_has_the_variance_of_the_residuals() -> None:
    _, residual = draw(20_000)
    found = private_spread(residual, -6.0, 6.0, 6.0, len(residual), plenty())
    assert found.variance == pytest.approx(np.var(residual), rel=0.05)


def test_the_total_is_mean_and_number() -> None:
    columns, values = draw()
    data = PrivateEntries(
        columns=Private(columns), values=Private(np.clip(values, -1, 2)), shape=SHAPE, bounds=(-1.0, 2.0)
    )
    total = private_total(data, plenty())
    assert total.count == pytest.approx(len(values), abs=0.01)
    assert total.mean == pytest.approx(np.clip(values, -1, 2).mean(), abs=1e-4)


def test_counts_are_those_that_were_seen_or_those_that_were_expected() -> None:
    seen, expected = np.array([5.0, 0.0, 9.0]), np.array([4.0, 4.0, 6.0])
    for noise, found in ((1e-9, seen), (1e12, expected)):
        tally = Tally(modes=(0,), counts=seen, sums=seen, count_noise=noise, sum_noise=1.0)
        np.testing.assert_allclose(estimate_counts(tally, expected, 2)[0], found, atol=1e-6)


def test_components_of_counts_are_found() -> None:
    rng = np.random.default_rng(0)
    true = 40.0 * np.outer(rng.random(30), rng.random(20)) + np.kron(np.eye(2), np.full((15, 10), 20.0))
    expected = np.outer(true.sum(axis=1), true.sum(axis=0)) / true.sum()
    seen = true + rng.normal(0.0, 8.0, true.shape)
    tally = Tally(modes=(0, 1), counts=seen, sums=seen, count_noise=64.0, sum_noise=1.0)
    found, _ = estimate_counts(tally, expected, 4)
    error = np.mean((found - true) ** 2)
    assert error < 0.4 * min(np.mean((seen - true) ** 2), np.mean((expected - true) ** 2))


def test_agreement_is_the_slope_of_residuals_on_guesses() -> None:
    rng = np.random.default_rng(0)
    guess = rng.uniform(-1, 1, 5000)
    residual = 0.4 * guess + rng.uniform(-0.2, 0.2, 5000)
    found = private_agreement(residual, guess, 1.0, float(np.std(guess)), 5000, plenty())
    assert found.slope == pytest.approx(float(guess @ residual / (guess @ guess)), abs=1e-3)


# --- products of entries --------------------------------------------------------------------------------------------


def products(values: Any, groups: Any, n_groups: int, limit: int = 7) -> int:
    numbers, cells = np.asarray(values, dtype=float), np.asarray(groups, dtype=np.int64)
    return bounding.add_entry_products(numbers, cells, n_groups, 1.0, limit)


def test_products_of_entries_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    values, groups = rng.integers(-3, 4, 60), rng.integers(0, 9, 60)
    expected = 0
    for group in range(9):
        own = values[groups == group]
        pairs = sum(a * b for i, a in enumerate(own) for j, b in enumerate(own) if i != j)
        expected += int(pairs) // (len(own) - 1) if len(own) > 1 else 0
    assert products(values, groups, 9) == expected


def test_large_groups_are_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squares that might not fit are computed in integers of any length: the same result."""
    rng = np.random.default_rng(1)
    values, groups = rng.integers(-3, 4, 60), rng.integers(0, 9, 60)
    usual = products(values, groups, 9)
    monkeypatch.setattr(bounding, "MOST_STEPS", 1)
    assert products(values, groups, 9) == usual


def test_one_entry_moves_products_by_at_most_three_squares() -> None:
    """All small sets of entries of one group, at both ends and inside: the bound holds, and is nearly reached."""
    limit, ends = 7, (-4, -1, 0, 3, 4)  # so that nothing is shortened
    worst = 0
    for size in range(5):
        for values in product(ends, repeat=size):
            before = products(values, [0] * size, 1, limit)
            for more in ends:
                worst = max(worst, abs(products([*values, more], [0] * (size + 1), 1, limit) - before))
    assert 0.9 * 3 * 16 <= worst <= 3 * 16 + 1


def test_products_over_entries_are_the_variance_of_true_means() -> None:
    rng = np.random.default_rng(0)
    means, columns = rng.normal(0.0, 0.5, (40, 30)), np.stack([rng.integers(0, s, 60_000) for s in (40, 30)])
    values = means[columns[0], columns[1]] + rng.normal(0.0, 0.5, 60_000)
    cells = number_cells(columns, (40, 30), (0, 1))
    noisy = plenty().entry_products(values, 10.0, cells, 1200)
    assert noisy.values[0] / 60_000 == pytest.approx(np.mean(means**2), rel=0.05)
