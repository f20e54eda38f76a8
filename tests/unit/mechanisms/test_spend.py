"""Sums, counts and products of pairs keep to what their noise is scaled to, whatever comes in."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tensorveil.kernels.bounding import MOST_STEPS, add_pair_products
from tensorveil.mechanisms import spend as spending
from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import Noisy, SeededSource

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


@dataclass(frozen=True, kw_only=True)
class Spy(Spend):
    """Adds no noise, and keeps what would be noised and how far it may move."""

    seen: list[tuple[Any, Fraction]]

    def _add(self, ints: Any, grid: Any, sensitivity: Any) -> Any:
        self.seen.append((ints.copy(), Fraction(sensitivity)))
        return Noisy(values=grid.values(ints), variance=grid.step**2, source_secure=False)


def spy(epsilon: float = 1.0) -> Spy:
    return Spy(source=SeededSource(0), epsilon=epsilon, seen=[])


def test_sums_do_not_leave_their_range() -> None:
    ends = np.array([-0.35, 0.35])
    inside = spy().sums(ends, -0.35, 0.35, np.arange(2), 2).values
    beyond = spy().sums(ends * 1.01, -0.35, 0.35, np.arange(2), 2).values
    np.testing.assert_allclose(inside, ends, rtol=1e-5)
    np.testing.assert_allclose(beyond, ends, rtol=1e-5)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 100.0, 1e9])
@settings(max_examples=60)
@given(values=arrays.arrays(np.float64, st.integers(1, 9), elements=ANY_FLOAT), low=st.sampled_from([-1.0, 0.0, 7.0]))
def test_no_number_moves_a_sum_by_more_than_declared(epsilon: float, values: Any, low: float) -> None:
    high = low + 2.0
    for other in (low, high, np.nan, 0.5 * (low + high)):
        changed, watch = values.copy(), spy(epsilon)
        changed[0] = other
        for numbers in (values, changed):
            replace(watch).sums(numbers, low, high, np.zeros(len(numbers), dtype=np.int64), 1)
        (first, most), (second, same) = watch.seen
        assert most == same
        assert abs(int(first[0, 0]) - int(second[0, 0])) <= most


@pytest.mark.parametrize("scale", [1e-140, 1e-70, 1.0, 1e70, 1e140])
def test_sums_are_right_for_bounds_of_any_size(scale: float) -> None:
    values = np.array([0.25, -0.5, 1.0]) * scale
    found = spy().sums(values, -scale, scale, np.array([0, 0, 1]), 2).values
    np.testing.assert_allclose(found, [-0.25 * scale, scale], rtol=1e-5)


@settings(max_examples=60)
@given(rows=arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=ANY_FLOAT))
def test_no_row_is_longer_than_declared(rows: Any) -> None:
    watch = spy()
    watch.bounded_rows(rows, np.arange(len(rows)), len(rows), longest=1.5)
    (ints, most), *_ = watch.seen
    assert all(sum(int(n) ** 2 for n in row) <= most**2 for row in ints)


@pytest.mark.parametrize("first", ["sums", "split"])
@pytest.mark.parametrize("second", ["sums", "split", "values"])
def test_a_spend_is_spent_once(first: str, second: str) -> None:
    spend = Spend(source=SeededSource(0), epsilon=1.0)
    buy: dict[str, Any] = {
        "sums": lambda: spend.sums(np.ones(1), 0.0, 2.0, np.zeros(1, dtype=np.int64), 1),
        "split": lambda: spend.split(0.5, 0.5),
        "values": lambda: spend.values(np.ones(1), (0.0, 2.0)),
    }
    buy[first]()
    with pytest.raises(RuntimeError, match="already"):
        buy[second]()


def count(bins: Any, n: int, *, pure: bool = True, epsilon: float = 1.0) -> tuple[Any, Fraction, Any]:
    """Return the integers that counts are, how far their noise lets them move, and the counts without noise."""
    found: list[tuple[Any, Fraction]] = []

    def keep(ints: Any, grid: Any, sensitivity: Any, *_: Any) -> Any:
        found.append((ints.copy(), Fraction(sensitivity)))
        return Noisy(values=grid.values(ints), variance=grid.step**2, source_secure=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spending, "laplace_mechanism", keep)
        patch.setattr(spending, "gaussian_mechanism", keep)
        spend = Spend(source=SeededSource(0), **{"epsilon" if pure else "mu": epsilon})
        noisy = spend.counts(np.asarray(bins), n)
    return found[0][0], found[0][1], noisy.values


@pytest.mark.parametrize("epsilon", [1e-9, 0.01, 1.0, 1e4, 1e9])
@pytest.mark.parametrize("n", [1, 7, 5000])
def test_counts_are_counts(epsilon: float, n: int) -> None:
    bins = np.random.default_rng(0).integers(0, 9, n)
    np.testing.assert_array_equal(count(bins, 11, epsilon=epsilon)[2], np.bincount(bins, minlength=11))


@pytest.mark.parametrize("pure", [True, False])
def test_one_number_moves_two_counts_which_is_what_noise_is_scaled_to(pure: bool) -> None:
    before, most, _ = count([0, 3, 3, 4], 6, pure=pure)
    for there in range(6):
        after, same, _ = count([there, 3, 3, 4], 6, pure=pure)
        moved = [abs(int(a) - int(b)) for a, b in zip(before, after, strict=True)]
        assert same == most
        assert (sum(moved) if pure else Fraction(sum(m * m for m in moved))) <= (most if pure else most**2)
        if there not in (0, 3):  # the bound is no larger than it need be
            assert (sum(moved) / most if pure else sum(m * m for m in moved) / most**2) > 0.999


def products(values: Any, groups: Any, n_groups: int, limit: float = 2.0) -> tuple[int, Fraction, float]:
    watch = spy()
    counts = np.bincount(groups, minlength=n_groups)
    noisy = watch.pair_products(np.asarray(values, dtype=float), limit, np.asarray(groups), counts)
    (ints, most), *_ = watch.seen
    return int(ints[0, 0]), most, float(noisy.values[0])


@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
def test_products_of_pairs_are_those_of_all_pairs(scale: float) -> None:
    rng = np.random.default_rng(0)
    values, groups = rng.uniform(-2, 2, 60), np.append(rng.integers(0, 9, 59), 9)  # the last one is alone
    brute = sum(
        values[i] * values[j] / (np.sum(groups == groups[i]) - 1)
        for i in range(60)
        for j in range(60)
        if i != j and groups[i] == groups[j]
    )
    _, _, found = products(values * scale, groups, 11, 2.0 * scale)
    assert found == pytest.approx(brute * scale**2, rel=0.02)


def test_products_of_pairs_tell_the_variance_of_means() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(500), 8)
    values = 0.4 * rng.standard_normal(500)[groups] + 0.5 * rng.standard_normal(4000)
    assert products(values, groups, 500, 4.0)[2] / 4000 == pytest.approx(0.16, rel=0.15)
    assert products(values, rng.permutation(groups), 500, 4.0)[2] / 4000 == pytest.approx(0.0, abs=0.02)


WILD = [-2.0, 2.0, 0.0, 1.3, 1e300, -np.inf, np.nan]


@settings(max_examples=60)
@given(
    values=arrays.arrays(np.float64, st.integers(1, 9), elements=st.one_of(ANY_FLOAT, st.sampled_from(WILD))),
    seed=st.integers(0, 99),
)
def test_no_number_moves_products_of_pairs_by_more_than_declared(values: Any, seed: int) -> None:
    groups = np.random.default_rng(seed).integers(0, 3, len(values))
    before, most, _ = products(values, groups, 4)
    for other in WILD:
        changed = values.copy()
        changed[0] = other
        after, same, _ = products(changed, groups, 4)
        assert same == most
        assert abs(after - before) <= most


@pytest.mark.parametrize("size", [2, 3, 50])
def test_products_of_pairs_nearly_reach_their_bound(size: int) -> None:
    values, groups = np.full(size, 2.0), np.zeros(size, dtype=np.int64)
    before, most, _ = products(values, groups, 1)
    values[0] = -2.0
    assert abs(products(values, groups, 1)[0] - before) > 0.95 * most


def test_numbers_that_are_alone_have_no_pairs() -> None:
    assert products([2.0, -2.0, 1.0], [0, 1, 2], 3)[0] == 0


def test_groups_too_large_for_integers_are_left_out() -> None:
    """How large a group is, is public; a square that wraps around would have no bound."""
    groups, steps = np.zeros(4, dtype=np.int64), np.full(4, 1.0)
    for size, counted in ((MOST_STEPS // 257, True), (MOST_STEPS // 257 + 1, False), (2**40, False)):
        total = add_pair_products(steps, groups, np.array([size]), 200.0, 257)
        assert (total != 0 or size > 10**6) if counted else total == 0
    assert add_pair_products(steps, groups, np.array([4]), 200.0, 257) == 4 * 200**2
    large = np.full(4_000_000, 257.0)
    total = add_pair_products(large, np.zeros(len(large), dtype=np.int64), np.array([len(large)]), 1.0, 257)
    assert total == pytest.approx(257.0**2 * 4_000_000, rel=0.02)


@pytest.mark.parametrize("buy", ["counts", "pair_products"])
def test_what_was_bought_is_spent(buy: str) -> None:
    spend, zeros = Spend(source=SeededSource(0), epsilon=1.0), np.zeros(2, dtype=np.int64)
    if buy == "counts":
        spend.counts(zeros, 3)
    else:
        spend.pair_products(np.ones(2), 1.0, zeros, np.array([2]))
    with pytest.raises(RuntimeError, match="already"):
        spend.counts(zeros, 3)
