"""Tables of counts: the model of expected values against closed forms and brute force, and what it is worth."""

from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.mechanisms.count_model import (
    CountModel,
    CountTable,
    _halve,
    _slope,
    fit_counts,
    merge_ones,
    multiply_ones,
)
from tensorveil.mechanisms.counts import run_counts
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.spend import Spend
from tensorveil.models.measures import auc
from tensorveil.noise import SeededSource
from tensorveil.privacy.gate import PrivateEntries
from tensorveil.privacy.private import Private

SHAPE = (24, 20, 12)


def planted(rng: np.random.Generator, total: float = 8000.0) -> CountModel:
    """Three components, each at home in a third of every mode."""
    shares = []
    for size in SHAPE:
        at_home = np.arange(size)[:, None] % 3 == np.arange(3)
        share = rng.gamma(2.0, 1.0, (size, 3)) * np.where(at_home, 1.0, 0.1)
        shares.append(share / share.sum(axis=0))
    return CountModel(weights=np.full(3, total / 3), shares=tuple(shares))


def draw(model: CountModel, rng: np.random.Generator, high: float) -> tv.ObservedTensor:
    mean = np.einsum("r,ir,jr,kr->ijk", model.weights, *model.shares)
    dense = np.minimum(rng.poisson(mean), high)
    cells = np.argwhere(dense > 0)
    return tv.ObservedTensor(cells, dense[tuple(cells.T)].astype(float), shape=SHAPE, unlisted="zero")


def fit(tensor: tv.ObservedTensor, epsilon: float, high: float, seed: int = 0, rank: int = 4) -> tv.PrivateCP:
    estimator = tv.PrivateCP(
        rank, epsilon=epsilon, delta=0.0, unit="entry", bounds=(0.0, high), shape=SHAPE, noise_seed=seed,
        random_state=seed,
    )  # fmt: skip
    return estimator.fit(tensor)


def test_tables_of_the_model_are_sums_over_all_cells() -> None:
    model = planted(np.random.default_rng(0))
    dense = np.einsum("ir,jr,kr->ijk", *model.factors(1.0))
    np.testing.assert_allclose(model.table((0, 2)), dense.sum(axis=1))
    np.testing.assert_allclose(model.table((1,)), dense.sum(axis=(0, 2)))
    np.testing.assert_allclose(model.table((0, 1, 2)), dense)
    np.testing.assert_allclose(sum(model.weights), dense.sum())


def test_the_gradient_is_that_of_the_likelihood() -> None:
    """With a variance that does not follow the model, the gradient is that of a sum of squares and of the pull."""
    rng = np.random.default_rng(1)
    model, base, strength = planted(rng, 90.0), planted(rng, 90.0), 7.0
    base = CountModel(weights=base.weights[:1], shares=tuple(share[:, :1] for share in base.shares))
    tables = [
        CountTable(modes=modes, sums=rng.normal(2.0, 1.0, [SHAPE[mode] for mode in modes]), noise=4.0)
        for modes in ((0,), (0, 1), (1, 2), (0, 1, 2))
    ]

    def objective(logs: Any) -> float:
        powers = [np.exp(log) for log in logs]
        shares = tuple(power / power.sum(axis=0) for power in powers[:-1])
        found = CountModel(weights=powers[-1], shares=shares)
        squares = sum(float(np.sum((table.sums - found.table(table.modes)) ** 2)) / 8.0 for table in tables)
        pulls = sum(float(np.sum(own * np.log(share))) for own, share in zip(base.shares, shares, strict=True))
        return strength * pulls - squares

    slopes = _slope(model, tables, [_halve(table) for table in tables], base, strength, 0.0)
    logs = [np.log(array) for array in (*model.shares, model.weights)]
    for place, at in ((0, (3, 1)), (1, (5, 0)), (2, (7, 2)), (3, (1,))):
        moved = []
        for step in (1e-5, -1e-5):
            each = [log.copy() for log in logs]
            each[place][at] += step
            moved.append(objective(each))
        assert slopes[place][at] == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-3, abs=1e-3)


def test_one_way_tables_gain_from_tables_of_two() -> None:
    one = CountTable(modes=(0,), sums=np.array([1.0, 2.0]), noise=1.0)
    two = CountTable(modes=(0, 1), sums=np.array([[1.0, 2.0, 0.0], [4.0, 0.0, 1.0]]), noise=1.0 / 3)
    merged = merge_ones([one, two], 0)
    np.testing.assert_allclose(merged.sums, [2.0, 3.5])
    assert merged.noise == pytest.approx(0.5)


def test_without_structure_components_stay_near_one_way_tables() -> None:
    rng = np.random.default_rng(2)
    base = CountModel(weights=np.array([500.0]), shares=tuple(np.full((size, 1), 1 / size) for size in SHAPE))
    refused, moved = 0, []
    for seed in range(8):
        tables = [
            CountTable(modes=modes, sums=base.table(modes) + rng.normal(0, 3.0, base.table(modes).shape), noise=9.0)
            for modes in ((0, 1), (0, 2), (1, 2))
        ]
        own = multiply_ones(tables, 3, 1.0)
        form = Form(ranks=(4, 4, 4), core=False, sweeps=100, restarts=1, threads=1, seed=seed)
        found = fit_counts(tables, own, form, 1.0, (1.0, 1.0, 1.0))
        refused += found is None
        moved.append(0.0 if found is None else float(np.abs(found.table((0, 1)) - own.table((0, 1))).mean()))
    assert refused >= 3
    assert np.mean(moved) < 0.25 * 500 / (24 * 20)


def test_components_are_found_and_totals_kept() -> None:
    """Above one-way tables at epsilon 3, close to the truth at 10, never below; the sum of all cells is right."""
    rng = np.random.default_rng(3)
    truth = planted(rng)
    tensor = draw(truth, rng, 1.0)
    dense = tensor.to_dense()
    one_way = np.einsum("i,j,k->ijk", *(dense.sum(axis=axes) for axes in ((1, 2), (0, 2), (0, 1))))
    known = auc(dense.ravel(), np.einsum("r,ir,jr,kr->ijk", truth.weights, *truth.shares).ravel())
    plain, worst = auc(dense.ravel(), one_way.ravel()), []
    for epsilon in (0.1, 3.0, 10.0):
        found = fit(tensor, epsilon, 1.0)
        worst.append(auc(dense.ravel(), found.model_.dense().ravel()))
        assert found.model_.loss == "bernoulli"
        every = any("every cell" in note for note in found.notes_)  # such models may have negative numbers
        assert every == (epsilon > 1)
        assert every or all(np.all(factor >= 0) for factor in found.model_.factors)
        total = float(found.model_.dense().sum())
        assert abs(total - dense.sum()) < 0.02 * dense.sum() + 150 / epsilon
    assert worst[1] > plain + 0.05
    assert worst[2] > known - 0.02


def test_counts_are_unbiased_although_large_ones_are_cut() -> None:
    """Bounds far above what counts are: values are cut where noise asks for it, and the total makes up for it."""
    rng = np.random.default_rng(4)
    tensor = draw(planted(rng, 40_000.0), rng, 5000.0)
    found = fit(tensor, 50.0, 5000.0)
    assert found.model_.loss == "poisson"
    total = float(tensor.values.sum())
    assert abs(float(found.model_.dense().sum()) - total) < 0.02 * total
    report = tv.evaluate(found, tensor)
    assert report.explained is not None
    assert report.explained > 0.4


@pytest.mark.parametrize("high", [1.0, 9.0])
def test_data_without_entries_are_as_good_as_any_other(high: float) -> None:
    none, spend = np.zeros((3, 0), dtype=np.int32), Spend(source=SeededSource(0), epsilon=1.0)
    data = PrivateEntries(
        columns=Private(none), values=Private(np.zeros(0)), shape=SHAPE, bounds=(0.0, high), zeros=True
    )  # fmt: skip
    form = Form(ranks=(2, 2, 2), core=False, sweeps=1, restarts=1, threads=1, seed=0)
    found = run_counts(data, form, spend).solution
    assert float(np.einsum("ir,jr,kr->", *found.factors)) < 1000 * high


def test_what_is_refused() -> None:
    tensor = tv.ObservedTensor([[0, 1]], [1.0], shape=(2, 2), unlisted="zero")
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "shape": (2, 2)}
    with pytest.raises(tv.InputError, match=r'unlisted="zero" needs unit="entry"'):
        tv.PrivateCP(1, **options, unit="value", bounds=(0, 1)).fit(tensor)
    with pytest.raises(tv.InputError, match=r'bounds must begin at 0 with unlisted="zero"'):
        tv.PrivateCP(1, **options, unit="entry", bounds=(1, 5)).fit(tensor)
    with pytest.raises(tv.InputError, match=r'method="gram" takes cells without an entry for unknown'):
        tv.PrivateCP(1, **options, unit="entry", bounds=(0, 1), method="gram").fit(tensor)
    candidates = [tv.PrivateCP(rank, **options, unit="entry", bounds=(0, 1)) for rank in (1, 2)]
    with pytest.raises(tv.InputError, match=r'unlisted="zero" cannot be chosen by'):
        tv.choose_privately(candidates, tensor, epsilon=2.0, delta=0.0)


def test_tucker_and_matrices_hold_the_same_components() -> None:
    rng = np.random.default_rng(5)
    tensor = draw(planted(rng), rng, 3.0)
    options: dict[str, Any] = {"epsilon": 5.0, "delta": 0.0, "unit": "entry", "bounds": (0, 3), "shape": SHAPE}
    options |= {"noise_seed": 1, "random_state": 1}
    cp = tv.PrivateCP(3, **options).fit(tensor)
    tucker = tv.PrivateTucker(3, **options).fit(tensor)
    np.testing.assert_allclose(cp.model_.dense(), tucker.model_.dense(), rtol=1e-4)
