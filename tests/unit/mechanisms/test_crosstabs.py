"""Cross-tabulations of private positions: closed forms of what is taken in, and whole runs on planted tensors."""

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tensorveil.mechanisms.allocation import Belief
from tensorveil.mechanisms.crosstab_effects import Known, find_prior
from tensorveil.mechanisms.crosstab_plan import Prospects
from tensorveil.mechanisms.crosstabs import run_crosstabs
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.entry_predictions import predict_alone
from tensorveil.mechanisms.fitting import predict_solution
from tensorveil.mechanisms.gram import run_gram
from tensorveil.mechanisms.shape import Interval, Shape
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tallies import Tally
from tensorveil.noise import SeededSource
from tensorveil.privacy.gate import PrivateEntries
from tensorveil.privacy.private import Private

WIDE = Interval(low=-1.0, high=1.0, slope=1.0, shift=0.0, kept=1.0, doubt=0.0, square=0.25)


def form_of(order: int, rank: int = 3, *, core: bool = False) -> Form:
    return Form(ranks=(rank,) * order, core=core, sweeps=30, restarts=1, threads=1, seed=0)


def entries(columns: Any, values: Any, shape: Any, bounds: Any) -> PrivateEntries:
    return PrivateEntries(
        columns=Private(np.ascontiguousarray(columns, dtype=np.int32)),
        values=Private(np.clip(values, *bounds)),
        shape=shape,
        bounds=bounds,
    )


def start(shape: tuple[int, ...], n: float) -> Known:
    return Known.constant(shape, (-3.0, 3.0), n, 0.0, 1e-12)


def test_a_one_way_table_moves_biases_to_their_posterior() -> None:
    counts, true = np.array([400.0, 100.0, 900.0, 250.0]), np.array([0.5, -0.4, 0.2, -0.6])
    true = true - counts @ true / counts.sum()
    known = start((4, 3), counts.sum())
    tally = Tally(modes=(0,), counts=counts, sums=counts * true, count_noise=1e-9, sum_noise=900.0)
    known.take_in(tally, WIDE, 0.25, 2)
    variance = 900.0 + counts * 0.25
    precision, score = counts**2 / variance, counts**2 * true / variance
    prior = find_prior(precision, score, 0.25)
    np.testing.assert_allclose(known.biases[0], score / (precision + 1.0 / prior), atol=1e-5)
    assert 0.5 * np.var(true) < prior < 2.0 * np.var(true)


def test_noise_alone_moves_nothing() -> None:
    rng = np.random.default_rng(0)
    known = start((50, 40), 20_000.0)
    counts = np.full(50, 400.0)
    tally = Tally(modes=(0,), counts=counts, sums=rng.normal(0, 1000.0, 50), count_noise=1.0, sum_noise=1e6)
    known.take_in(tally, WIDE, 0.25, 2)
    assert np.max(np.abs(known.biases[0])) < 1e-3


def test_a_two_way_table_is_found_beside_biases() -> None:
    rng = np.random.default_rng(0)
    a, b, u, v = (rng.standard_normal(size) for size in (30, 20, 30, 20))
    a, b, u, v = (each - each.mean() for each in (a, b, u, v))
    true, counts = 0.3 * (a[:, None] + b[None, :]) + 0.4 * np.outer(u, v), np.full((30, 20), 50.0)
    known = start((30, 20, 4), 30_000.0)
    sums = counts * true + rng.normal(0, 5.0, true.shape)
    tally = Tally(modes=(0, 1), counts=counts, sums=sums, count_noise=1e-6, sum_noise=25.0)
    known.take_in(tally, WIDE, 0.1, 3)
    found = known.pairs[0, 1].matrix + np.add.outer(known.biases[0], known.biases[1]) + known.offset
    assert np.mean((found - true) ** 2) < 0.01 * np.var(true)


def test_a_second_look_weighs_less_than_the_first() -> None:
    counts, known = np.full(8, 100.0), start((8, 3), 800.0)
    true = np.tile([0.5, -0.5], 4)
    for _ in range(3):
        left = counts * (true - known.biases[0])
        known.take_in(Tally(modes=(0,), counts=counts, sums=left, count_noise=1e-9, sum_noise=100.0), WIDE, 0.2, 2)
    assert np.max(np.abs(known.biases[0] - true)) < 0.05


def test_one_way_and_two_way_sums_of_all_cells_are_taken_in() -> None:
    rng = np.random.default_rng(0)
    shape, rank_one = (12, 10, 8), np.multiply.outer(rng.standard_normal(12), rng.standard_normal(10))
    true = np.broadcast_to(0.5 * rank_one[:, :, None], shape)
    known, counts = start(shape, 9600.0), np.full(shape, 10.0)
    sums = counts * true + rng.normal(0, 1.0, shape)
    tally = Tally(modes=(0, 1, 2), counts=counts, sums=sums, count_noise=1e-6, sum_noise=1.0)
    found = known.take_in_cells(tally, WIDE, 0.05, 2)
    assert found is not None
    before, after = found
    np.testing.assert_allclose(before.values, (sums / counts - sums.sum() / 9600.0).ravel(), atol=1e-6)
    assert np.var(after.values) < 0.1 * np.var(before.values)
    assert before.noise == pytest.approx(0.01, rel=1e-3)


def test_places_are_drawn_by_what_was_counted() -> None:
    known = start((2, 3), 1000.0)
    known.counts[0] = np.array([900.0, 100.0])
    places = known.draw_positions(20_000, 0)
    assert np.mean(places[0] == 0) == pytest.approx(0.9, abs=0.02)
    assert np.bincount(places[1]) / 20_000 == pytest.approx([1 / 3] * 3, abs=0.02)


def test_the_split_goes_where_the_signal_is() -> None:
    spread = Shape(edges=np.linspace(-3.0, 3.0, 31), masses=np.full(30, 1 / 30))
    known = start((60, 50, 5), 200_000.0)
    prospects = Prospects(known=known, spread=spread, parameters=500.0, noise=2.0, pure=True)
    twos = [(0, 1), (0, 2), (1, 2)]
    variance = spread.variance
    belief = Belief(effects={(0, 1): 0.5 * variance, (0, 2): 1e-4 * variance}, rest=0.5 * variance)
    shares, on_cells = prospects.split(twos, 0.8, 0.03, [belief])
    assert on_cells == 0.0  # nobody believes in components
    assert shares[0, 1] > 0.6
    assert sum(shares.values()) == pytest.approx(0.8)


def planted(kind: str) -> tuple[Any, ...]:
    """Biases; a two-way effect; components that no table of two modes shows."""
    rng = np.random.default_rng(3)
    shape, n = (40, 30, 20), 20_000
    columns = np.stack([rng.integers(0, size, n + 4000) for size in shape])
    a, b, c = (rng.standard_normal((size, 2)) for size in shape)
    i, j, k = columns
    true = {
        "biases": a[i, 0] + 0.5 * b[j, 0] + 0.5 * c[k, 0],
        "pairs": 0.5 * a[i, 0] + np.sum(a[i] * b[j], axis=1),
        "components": np.sum(a[i] * b[j] * c[k], axis=1),
    }[kind]
    values = np.clip(true / np.std(true) + 0.3 * rng.standard_normal(len(true)), -4.0, 4.0)
    return entries(columns[:, :n], values[:n], shape, (-4.0, 4.0)), columns[:, n:], values[n:]


@pytest.mark.parametrize(
    ("kind", "epsilon", "most"), [("biases", 1.0, 0.5), ("pairs", 3.0, 0.6), ("components", 6.0, 0.6)]
)
@pytest.mark.parametrize("core", [False, True])
def test_what_is_planted_is_found(kind: str, epsilon: float, most: float, core: bool) -> None:
    data, held, truth = planted(kind)
    outcome = run_crosstabs(data, form_of(3, core=core), Spend(source=SeededSource(1), epsilon=epsilon))
    predicted = np.clip(predict_solution(outcome.solution, held.astype(np.int32), 1), *data.bounds)
    error = float(np.sqrt(np.mean((predicted - truth) ** 2)))
    assert error < most * np.std(truth)
    assert outcome.errors is not None
    assert outcome.errors.rmse == pytest.approx(error, rel=0.2)
    low, high = outcome.errors.interval(predicted, 0.9)
    assert 0.85 < np.mean((truth >= low) & (truth <= high)) < 0.95
    assert outcome.notes


def test_more_budget_is_no_worse() -> None:
    data, held, truth = planted("pairs")
    errors = []
    for epsilon in (0.3, 1.0, 3.0, 10.0):
        outcome = run_crosstabs(data, form_of(3), Spend(source=SeededSource(1), epsilon=epsilon))
        predicted = np.clip(predict_solution(outcome.solution, held.astype(np.int32), 1), *data.bounds)
        errors.append(float(np.sqrt(np.mean((predicted - truth) ** 2))) / np.std(truth))
    assert errors[0] < 1.01
    assert all(later < 1.02 * earlier for earlier, later in pairwise(errors))


def test_predictions_at_entries_are_those_of_the_model() -> None:
    data, held, _ = planted("pairs")
    for core in (False, True):
        solution = run_crosstabs(data, form_of(3, core=core), Spend(source=SeededSource(1), epsilon=3.0)).solution
        columns = np.ascontiguousarray(held, dtype=np.int32)
        np.testing.assert_allclose(predict_alone(columns, solution), predict_solution(solution, columns, 1), atol=1e-9)
        alone = np.concatenate([predict_alone(columns[:, k : k + 1], solution) for k in range(40)])
        assert np.array_equal(alone, predict_alone(columns, solution)[:40])  # to the last bit


CASES = [
    (shape, n, bounds, spend)
    for shape, bounds in (((1, 1), (1.0, 5.0)), ((3, 4), (-1e60, 1e60)), ((2, 3, 2, 2), (0.0, 1e-60)))
    for n in (0, 1, 300)
    for spend in ({"epsilon": 1e-4}, {"mu": 1.0}, {"epsilon": 1e4})
]


@pytest.mark.parametrize("run", [run_crosstabs, run_gram])
def test_no_run_fails_whatever_the_noise_says(run: Any) -> None:
    for seed, (shape, n, bounds, spend) in enumerate(CASES):
        rng = np.random.default_rng(seed)
        columns = np.stack([rng.integers(0, size, n) for size in shape])
        values = rng.uniform(*bounds, n) if seed % 2 else np.full(n, bounds[1])
        data, form = entries(columns, values, shape, bounds), form_of(len(shape), 2, core=seed % 3 == 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            outcome = run(data, form, Spend(source=SeededSource(seed), **spend))
        solution = outcome.solution
        arrays = [np.array(solution.offset), *solution.factors, *(solution.biases or ()), outcome.errors.masses]
        assert all(np.isfinite(array).all() for array in arrays)
