"""Effects from tables, and one model of effects and components."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tensorveil.mechanisms import decoder
from tensorveil.mechanisms.cells import Cells, Table
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.decoder import Effects, fit_effects, gather_values, join, level
from tensorveil.mechanisms.fitting import predict_solution
from tensorveil.mechanisms.pairs import PairEffect
from tensorveil.solvers.task import Solution

SHAPE = (12, 10, 8)


def draw(seed: int = 0, share: float = 0.7) -> tuple[Any, Any]:
    """Columns of some cells, and values with biases and one two-way effect."""
    rng = np.random.default_rng(seed)
    cells = np.argwhere(rng.random(SHAPE) < share).T.astype(np.int32)
    biases = [rng.standard_normal(size) for size in SHAPE]
    pair = np.outer(rng.standard_normal(12), rng.standard_normal(10))
    whole = 2.0 + sum(bias[column] for bias, column in zip(biases, cells, strict=True)) + pair[cells[0], cells[1]]
    return cells, whole


def measure(columns: Any, values: Any, modes: Any, noise: float = 0.0, seed: int = 0) -> Table:
    cells = Cells.of(columns, SHAPE, modes)
    error = noise**0.5 * np.random.default_rng(seed).standard_normal(cells.size)
    return Table(cells=cells, sums=cells.sum(values) + error, noise=max(noise, 1e-9))


def fit(columns: Any, tables: Any, variance: float, rest: bool = True) -> Effects:
    start = Effects.constant(SHAPE, 0.0)
    center = None if rest else np.zeros(columns.shape[1])
    return fit_effects(columns, tables, start, variance, 3, center)


def test_cells_are_numbered_row_by_row() -> None:
    columns, values = draw()
    cells = Cells.of(columns, SHAPE, (0, 2))
    exact = np.zeros((12, 8))
    np.add.at(exact, (columns[0], columns[2]), values)
    np.testing.assert_allclose(cells.sum(values).reshape(cells.shape), exact)
    assert (cells.size, cells.counts.sum()) == (96, columns.shape[1])
    table = Table(cells=cells, sums=cells.sum(values), noise=1.0)
    np.testing.assert_allclose(table.less(values).sums, 0.0, atol=1e-9)


def test_planted_effects_are_recovered() -> None:
    columns, values = draw()
    modes = [(0,), (1,), (2,), *combinations(range(3), 2)]
    effects = fit(columns, [measure(columns, values, each) for each in modes], 0.02)
    assert np.sqrt(np.mean((effects.at(columns) - values) ** 2)) < 0.1 * np.std(values)
    assert max(effects.pairs[0, 1].strengths) > 20 * max(effects.pairs[1, 2].strengths)


def test_one_way_tables_give_biases() -> None:
    columns, values = draw()
    additive = values - np.mean(values)
    effects = fit(
        columns, [measure(columns, additive, (mode,)) for mode in range(3)], float(np.var(values)), rest=False
    )
    design = np.concatenate([np.eye(size)[column] for size, column in zip(SHAPE, columns, strict=True)], axis=1)
    best = design @ np.linalg.lstsq(design, additive, rcond=None)[0]
    assert np.corrcoef(effects.at(columns), best)[0, 1] > 0.98
    assert effects.rest < np.var(values)
    assert not effects.pairs


def test_perturbed_values_are_a_table_too() -> None:
    columns, values = draw()
    noisy = values + 0.3 * np.random.default_rng(5).standard_normal(len(values))
    gathered = gather_values([Cells.of(columns, SHAPE, modes) for modes in ((0, 1), (1, 2))], noisy, 0.09)
    np.testing.assert_allclose(gathered[0].noise, 0.09 * gathered[0].cells.counts)
    effects = fit(columns, gathered, 0.02)
    assert np.sqrt(np.mean((effects.at(columns) - values) ** 2)) < 0.3 * np.std(values)


def test_noise_alone_is_not_taken_for_biases() -> None:
    """Twenty Laplace draws vary by chance more than twenty Gaussian ones, and are not biases."""
    columns = np.argwhere(np.ones((20, 160))).T.astype(np.int32)
    cells = Cells.of(columns, (20, 160), (0,))
    mistaken: int = 0
    found: int = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        noise = rng.laplace(scale=20.0 / np.sqrt(2.0), size=20)
        truth = 0.3 * rng.standard_normal(20)
        for biases in (np.zeros(20), truth):
            table = Table(cells=cells, sums=noise + 160 * biases, noise=400.0)
            effects = fit_effects(columns, [table], Effects.constant((20, 160), 0.0), 0.01, 1)
            if biases is truth:
                found += int(np.corrcoef(effects.biases[0], truth)[0, 1] > 0.8)
            else:
                mistaken += int(np.std(effects.biases[0]) > 0.5 * 20 / 160)
    assert mistaken <= 3
    assert found >= 80


def test_nothing_to_go_by_is_a_constant() -> None:
    columns = np.zeros((3, 1), dtype=np.int32)
    table = measure(columns, np.array([3.0]), (0,), 1.0)
    effects = fit_effects(columns, [table], Effects.constant(SHAPE, 1.0), 1.0, 2)
    assert np.isfinite(effects.at(columns)).all()
    assert all(np.isfinite(bias).all() for bias in effects.biases)
    assert not np.any(effects.biases[1])


def some_effects() -> Effects:
    rng = np.random.default_rng(3)

    def pair(one: int, other: int) -> PairEffect:
        left, right = rng.standard_normal((SHAPE[one], 2)), rng.standard_normal((SHAPE[other], 2))
        return PairEffect(
            left=left, right=right, spread=np.zeros((SHAPE[other], 2, 2)), alpha=np.ones(2), beta=np.ones(2)
        )

    biases = [rng.standard_normal(size) for size in SHAPE]
    return Effects(offset=1.5, biases=biases, pairs={(0, 1): pair(0, 1), (1, 2): pair(1, 2)}, rest=1.0)


@pytest.mark.parametrize("core", [False, True])
@pytest.mark.parametrize("components", [False, True])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("products", [False, True])
def test_one_model_predicts_what_its_parts_do(core: bool, components: bool, biases: bool, products: bool) -> None:
    rng = np.random.default_rng(4)
    ranks = (3, 2, 4) if core else (3, 3, 3)
    form = Form(ranks=ranks, core=core, sweeps=1, restarts=1, threads=1, seed=0)
    solution = Solution(
        factors=tuple(rng.standard_normal((size, rank)) for size, rank in zip(SHAPE, ranks, strict=True)),
        core=rng.standard_normal(ranks) if core else None,
        offset=0.25,
        biases=tuple(rng.standard_normal(size) for size in SHAPE) if biases else None,
    )
    effects = some_effects()
    if products:
        effects.products = tuple(rng.standard_normal((size, 2)) for size in SHAPE)
    columns = np.argwhere(np.ones(SHAPE)).T.astype(np.int32)
    expected = effects.at(columns) + (predict_solution(solution, columns, 1) if components else 0.0)
    joined = join(SHAPE, form, effects, solution if components else None)
    np.testing.assert_allclose(predict_solution(joined, columns, 1), expected, atol=1e-9)
    assert (joined.core is not None) == core


def test_a_core_that_would_be_too_large_keeps_the_strongest(monkeypatch: pytest.MonkeyPatch) -> None:
    form = Form(ranks=(2, 2, 2), core=True, sweeps=1, restarts=1, threads=1, seed=0)
    columns = np.argwhere(np.ones(SHAPE)).T.astype(np.int32)
    effects = some_effects()
    sizes = {}
    for most in (8, 60, 1 << 15):
        monkeypatch.setattr(decoder, "_LARGEST_CORE", most)
        joined = join(SHAPE, form, effects, None)
        assert joined.core is not None
        assert joined.core.size <= most
        sizes[most] = joined.core.size
        assert np.isfinite(predict_solution(joined, columns, 1)).all()
    assert sizes[8] == 8
    assert 8 < sizes[60] < sizes[1 << 15]


def test_weak_components_are_left_out() -> None:
    form = Form(ranks=(2, 2, 2), core=False, sweeps=1, restarts=1, threads=1, seed=0)
    joined = join(SHAPE, form, replace(some_effects(), rest=1e9), None)
    assert [factor.shape[1] for factor in joined.factors] == [2, 2, 2]


@pytest.mark.parametrize("center", [1.2, 3.0, 4.9])
def test_levelled_predictions_have_the_mean(center: float) -> None:
    raw = 3.0 + np.random.default_rng(0).standard_normal(500)
    move = level(raw, center, (1.0, 5.0))
    assert np.mean(np.clip(raw + move, 1.0, 5.0)) == pytest.approx(center, abs=1e-6)
