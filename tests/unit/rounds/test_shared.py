"""What users share, and what follows from it for a person."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError
from tensorveil.models import CPModel, TuckerModel, load_model
from tensorveil.noise import SeededSource
from tensorveil.rounds import Recipe, SharedModel, run_recipe
from tensorveil.rounds.components import decompose, find_cp_components, find_tucker_components
from tensorveil.tensor import ObservedTensor, synthetic_cp

SHAPE, MODES = (300, 40, 8), ("user", "item", "period")


def planted(order: int = 3, protect: str = "user", seed: int = 0) -> Any:
    """A planted tensor of rank 2; the protected mode stands where its name does."""
    problem = synthetic_cp(SHAPE[:order], 2, snr=4.0, missing=0.5, held_out=0.1, random_state=seed, scaling="none")
    return problem, problem.train.with_modes(MODES[:order]), problem.held_out.with_modes(MODES[:order])


def fitted(tensor: Any, kind: str = "cp", rank: int | tuple[int, ...] = 2, source: Any = None, **changes: Any) -> Any:
    bounds = (-1.0, 1.0)
    facts = {"shape": tensor.shape, "modes": tuple(m.name for m in tensor.modes), "protect": "user", "bounds": bounds}
    recipe = Recipe(**facts, epsilon=500.0, delta=1e-5, kind=kind, rank=rank, **{"sweeps": 3, **changes})
    return recipe.finish(run_recipe(recipe, [tensor], source, threads=1))


def congruence(found: Any, planted: Any) -> Any:
    unit = [f / np.linalg.norm(f, axis=0) for f in (found, planted)]
    return np.abs(unit[0].T @ unit[1])


@pytest.mark.parametrize("order", [2, 3])
def test_planted_factors_are_found_without_noise(order: int) -> None:
    problem, train, test = planted(order)
    model = fitted(train)
    latent = [factor[:, model.n_traits :] for factor in model.factors]
    if order == 3:  # factors of a matrix are free to turn
        for found, factor in zip(latent, problem.factors[1:], strict=True):
            assert congruence(found, factor).max(axis=0).min() > 0.97
    error = np.std(model.predict_for(train, test) - test.values)
    assert error < 0.65 * np.std(test.values)  # of which noise is 0.45


def test_tucker_shares_a_core() -> None:
    _, train, test = planted()
    model = fitted(train, kind="tucker", rank=(3, 2, 2))
    assert model.rank == (3, 5, 2)  # the largest mode looks for three directions more
    whole = model.personalise(train)
    assert isinstance(whole, TuckerModel)
    assert whole.shape == SHAPE
    assert np.std(model.predict_for(train, test) - test.values) < 0.65 * np.std(test.values)


@pytest.mark.parametrize(("kind", "rank"), [("cp", 2), ("tucker", (2, 2, 2))])
def test_the_protected_mode_may_stand_anywhere(kind: Any, rank: Any) -> None:
    _, train, test = planted()
    turned = [ObservedTensor(t.coords[:, [1, 0, 2]], t.values, shape=(40, 300, 8)) for t in (train, test)]
    turned = [t.with_modes(("item", "user", "period")) for t in turned]
    first, second = fitted(train, kind, rank), fitted(turned[0], kind, rank)
    want, got = first.predict_for(train, test), second.predict_for(*turned)
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_a_person_is_served_from_own_entries_alone() -> None:
    _, train, _ = planted(2)
    model = fitted(train, source=SeededSource(0))
    cells = np.column_stack([np.full(40, 7), np.arange(40)])
    everyone = model.predict_for(train, cells)
    alone = train.take(train.columns[0] == 7)
    np.testing.assert_array_equal(model.predict_for(alone, cells), everyone)
    # A new person, under any number: the same entries give the same answers.
    moved = ObservedTensor(np.column_stack([np.full(len(alone), 999), alone.coords[:, 1]]), alone.values, (1000, 40))
    np.testing.assert_array_equal(model.predict_for(moved, cells + np.array([992, 0])), everyone)


def test_own_part_is_ridge_regression_towards_the_population() -> None:
    _, train, _ = planted(2)
    model = fitted(train, source=SeededSource(0))
    whole = model.personalise(train)
    assert isinstance(whole, CPModel)
    mine = train.columns[0] == 3
    films = train.columns[1][mine]
    design = np.column_stack([np.ones(len(films)), model.factors[0][films]])
    target = train.values[mine] - model.offset - model.biases[0][films]
    precision = model.spread * np.linalg.inv(model.taste_covariance)
    want = np.linalg.solve(design.T @ design + precision, design.T @ target + precision @ model.taste_mean)
    assert whole.biases is not None
    np.testing.assert_allclose(np.append(whole.biases[0][3], whole.factors[0][3]), want, rtol=1e-8)


def test_people_without_entries_are_average() -> None:
    _, train, _ = planted(2)
    model = fitted(train)
    few = train.take(train.columns[0] < 5)
    cells = np.array([[200, 0], [201, 0]])
    first, second = model.predict_for(few, cells)
    assert first == second
    average = model.offset + model.biases[0][0] + model.taste_mean @ np.append(1.0, model.factors[0][0])
    assert first == pytest.approx(np.clip(average, *model.bounds))
    assert model.personalise(few).predict(cells).tolist() == [first, second]


@pytest.mark.parametrize(("kind", "rank"), [("cp", 2), ("tucker", (2, 2, 2))])
def test_files_hold_the_whole_model(tmp_path: Path, kind: Any, rank: Any) -> None:
    _, train, test = planted()
    model = fitted(train, kind, rank)
    model.save(tmp_path / "model.npz")
    back = SharedModel.load(tmp_path / "model.npz")
    assert repr(back) == repr(model)
    np.testing.assert_array_equal(back.predict_for(train, test), model.predict_for(train, test))
    with pytest.raises(InputError, match="SharedModel"):
        load_model(tmp_path / "model.npz")
    model.personalise(train).save(tmp_path / "whole.npz")
    with pytest.raises(InputError, match="load_model"):
        SharedModel.load(tmp_path / "whole.npz")


def test_what_has_no_rows_does_not_claim_to_predict() -> None:
    model = fitted(planted(2)[1], sweeps=0)
    assert model.rank == 0
    for name in ("predict", "dense", "top", "slice", "solve_rows", "fold_in", "to_tensorly"):
        assert not hasattr(model, name)


def test_cp_components_are_found_among_mixtures() -> None:
    rng = np.random.default_rng(0)
    left, right = (m / np.linalg.norm(m, axis=0) for m in (rng.normal(size=(4, 3)), rng.normal(size=(3, 3))))
    products = (left[:, None, :] * right[None, :, :]).reshape(-1, 3)
    root = rng.normal(size=(3, 3))
    found = find_cp_components(products @ root @ root.T @ products.T, (4, 3), 3)
    assert found.mixing is not None
    assert congruence(found.mixing[0], left).max(axis=0).min() > 0.999
    assert congruence(found.mixing[1], right).max(axis=0).min() > 0.999
    np.testing.assert_allclose(found.turn @ found.weights.reshape(3, -1).T, np.eye(3), atol=1e-9)


def test_tucker_components_are_the_leading_directions() -> None:
    covariance = np.diag([1.0, 5.0, 3.0, 0.0])
    found = find_tucker_components(covariance, (2, 2), 2)
    np.testing.assert_allclose(np.abs(found.turn), [[0, 1, 0, 0], [0, 0, 1, 0]], atol=1e-12)


def test_decomposition_of_a_rank_one_tensor() -> None:
    factors = [np.array([1.0, 2.0]), np.array([0.6, 0.8]), np.array([1.0, 0.0, 0.0])]
    found = decompose(np.einsum("i,j,k->ijk", *factors), 1)
    for got, want in zip(found, factors[1:], strict=True):
        np.testing.assert_allclose(np.abs(got[:, 0]), want, atol=1e-6)


def test_users_without_spread_do_not_set_the_spread() -> None:
    """Half of the users say the same of everything; how values are spread follows from the others."""
    rng = np.random.default_rng(0)
    cells = np.argwhere(rng.random((400, 30)) < 0.5)
    values = np.where(cells[:, 0] % 2, 3.0, rng.normal(3.0, 0.5, len(cells)))
    tensor = ObservedTensor(cells, values, shape=(400, 30), modes=("user", "film"))
    public: dict[str, Any] = {"shape": (400, 30), "modes": ("user", "film"), "protect": "user", "bounds": (1, 5)}
    recipe = Recipe(**public, epsilon=100.0, delta=1e-5, sweeps=0)
    state = recipe.advance(recipe.start(), recipe.contribute(recipe.start(), tensor))
    assert 0.15 < state["spread"][0] < 0.4
