"""Errors of models: what they say about predictions, and where they are kept."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError
from tensorveil.models import CPModel, Errors, load_model
from tensorveil.tensor import ObservedTensor
from tests.unit.models.model_cases import random_model


def make(**arrays: Any) -> Errors:
    return Errors(**{name: np.array(array) for name, array in arrays.items()})


ERRORS = make(levels=[0.0], edges=[-2.0, -1.0, 0.0, 1.0, 2.0], masses=[[0.0, 0.25, 0.25, 0.0], [0.1, 0.15, 0.15, 0.1]])


def test_the_rmse_is_that_of_residuals_spread_evenly_within_bins() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.choice(4, size=400_000, p=ERRORS.masses.sum(axis=0)) - 2.0 + rng.random(400_000)
    assert ERRORS.rmse == pytest.approx(np.sqrt(np.mean(drawn**2)), rel=0.01)


def test_intervals_follow_the_level_of_the_prediction() -> None:
    low, high = ERRORS.interval(np.array([-5.0, 0.0, 7.0]), 0.8)
    np.testing.assert_allclose(low, [-5.8, -1.5, 5.5])
    np.testing.assert_allclose(high, [-4.2, 1.5, 8.5])


def test_the_prediction_is_inside_even_where_almost_all_values_are_on_one_side() -> None:
    errors = make(levels=[], edges=[-1.0, 0.0, 1.0], masses=[[0.99, 0.01]])
    low, high = errors.interval(np.array([3.0]), 0.5)
    assert low[0] < 3.0 == high[0]


def test_a_level_without_mass_says_nothing() -> None:
    errors = make(levels=[0.0], edges=[-1.0, 0.0, 1.0], masses=[[0.0, 0.0], [0.5, 0.5]])
    assert [bound.tolist() for bound in errors.interval(np.array([-2.0]), 0.5)] == [[-3.0], [-1.0]]


@pytest.mark.parametrize(
    "changes",
    [
        {"levels": [1.0, 0.0]},
        {"edges": [0.0, 0.0, 1.0, 2.0, 3.0]},
        {"edges": [0.0, 1.0, np.inf, np.inf, np.inf]},
        {"masses": [[0.5, 0.5, 0.0, 0.0]]},
        {"masses": -ERRORS.masses},
        {"masses": 2 * ERRORS.masses},
        {"masses": np.nan * ERRORS.masses},
    ],
)
def test_what_is_no_histogram_is_refused(changes: Any) -> None:
    with pytest.raises(InputError, match="must"):
        replace(ERRORS, **changes)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 90, True, "0.9", float("nan")])
def test_a_coverage_is_a_share(coverage: Any) -> None:
    with pytest.raises(InputError, match=r"interval must lie between 0 and 1.*interval=0\.9"):
        ERRORS.interval(np.zeros(1), coverage)


def test_models_predict_with_intervals_within_their_bounds(kind: Any) -> None:
    model = replace(random_model(kind, bounds=(-1.0, 1.0)), errors=ERRORS)
    cells = np.argwhere(np.ones(model.shape))
    values, low, high = model.predict(cells, interval=0.8)
    np.testing.assert_array_equal(values, model.predict(cells))
    assert np.all(low <= values)
    assert np.all(values <= high)
    assert (low.min(), high.max()) == (-1.0, 1.0)
    by_label = model.predict_labels([cells[:, m] for m in range(model.order)], interval=0.8)
    np.testing.assert_array_equal(by_label[1], low)


def test_models_without_errors_say_what_to_do(kind: Any) -> None:
    model = random_model(kind)
    with pytest.raises(InputError, match=r"interval: .*leave interval out"):
        model.predict([[0] * model.order], interval=0.9)
    with pytest.raises(InputError, match="clip=True"):
        replace(model, errors=ERRORS).predict([[0] * model.order], interval=0.9, clip=False)


def test_errors_survive_the_file(kind: Any, tmp_path: Path) -> None:
    replace(random_model(kind), errors=ERRORS).save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz").errors
    assert again is not None
    for name in ("levels", "edges", "masses"):
        np.testing.assert_array_equal(getattr(again, name), getattr(ERRORS, name))


def test_files_without_errors_are_read_as_before(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    random_model(kind).save(path)
    with zipfile.ZipFile(path) as archive:
        assert not [name for name in archive.namelist() if "error" in name]
    assert load_model(path).errors is None


def test_a_file_with_broken_errors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    replace(random_model("cp"), errors=ERRORS).save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["extra_error_masses.npy"] = members["extra_error_levels.npy"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(InputError, match=r"masses|were changed"):
        load_model(path)


def test_rows_that_are_folded_in_have_unknown_errors() -> None:
    model = CPModel(factors=(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]])), errors=ERRORS)
    new = ObservedTensor([[0, 0], [0, 1]], [3.0, 4.0], (1, 2))
    assert model.fold_in(new, 0).errors is None
