"""Alternating least squares on a store: the model of a fit in memory, whatever the parts are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.errors import InputError
from tensorveil.memory import limit_memory
from tensorveil.tensor.stored import StoreError

SHAPE = (60, 30, 8)


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A planted tensor, of which some rows have no entry, and its store."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(size, 2)) for size in SHAPE]
    cells = np.argwhere(rng.random(SHAPE) < 0.15)
    cells = cells[(cells[:, 0] % 10 != 3) & (cells[:, 1] != 0) & (cells[:, 0] != 59)]
    values = np.prod([part[cells[:, m]] for m, part in enumerate(parts)], axis=0).sum(1) + rng.normal(
        0, 0.1, len(cells)
    )
    tensor = tv.ObservedTensor(cells, values, SHAPE, modes=["user", "film", "day"])
    folder = tmp_path_factory.mktemp("als")
    tensor.write(folder / "data.parquet")
    order = ["user", "film", "day"]
    stored = tv.write_store(folder / "data.parquet", folder / "store", order=order, indices=True, part_rows=150)
    return tensor, stored


@pytest.mark.parametrize("baseline", ["none", "mean", "biases"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_model_is_that_of_a_fit_in_memory(problem: Any, baseline: Any, dtype: str) -> None:
    tensor, stored = problem
    assert len(stored.parts("user")) > 5
    settings: Any = {"rank": 3, "solver": "als", "sweeps": 6, "baseline": baseline, "random_state": 0, "dtype": dtype}
    whole, apart = (tv.CP(**settings).fit(data) for data in (tensor, stored))
    rtol = 1e-6 if dtype == "float64" else 2e-2
    for one, other in zip(whole.model_.factors, apart.model_.factors, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)
    assert apart.model_.modes == tensor.modes
    assert whole.rmse(tensor) == pytest.approx(apart.rmse(stored), rel=rtol)
    assert len(apart.history_) == len(whole.history_)
    if baseline == "none":
        assert not apart.model_.factors[0][[3, 13, 59]].any()
        assert not apart.model_.factors[1][0].any()


def test_threads_change_nothing(problem: Any) -> None:
    _, stored = problem
    fits = [tv.CP(2, solver="als", sweeps=3, random_state=0, threads=n).fit(stored) for n in (1, 3)]
    for one, other in zip(fits[0].model_.factors, fits[1].model_.factors, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_validation_part_is_watched(problem: Any) -> None:
    tensor, stored = problem
    held = tensor.take(slice(0, 100))
    fitted = tv.CP(2, solver="als", random_state=0).fit(stored, validation=held)
    assert fitted.history_[-1].validation_error is not None


def test_matrices(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    cells = np.argwhere(rng.random((40, 20)) < 0.5)
    tensor = tv.ObservedTensor(cells, rng.normal(size=len(cells)), (40, 20))
    tensor.write(tmp_path / "m.parquet")
    order = ["mode_0", "mode_1"]
    stored = tv.write_store(tmp_path / "m.parquet", tmp_path / "m", order=order, indices=True, part_rows=99)
    settings: Any = {"rank": 2, "solver": "als", "sweeps": 4, "random_state": 0}
    whole, apart = (tv.LowRankMatrix(**settings).fit(data) for data in (tensor, stored))
    np.testing.assert_allclose(whole.model_.factors[0], apart.model_.factors[0], rtol=1e-6, atol=1e-9)


def test_what_cannot_be_fitted_part_by_part(problem: Any, tmp_path: Path) -> None:
    tensor, stored = problem
    for fit in (
        tv.Tucker(2), tv.CP(2, solver="sgd"), tv.CP(2, solver="als", smooth={"day": "walk"}),
        tv.CP(2, solver="als", nonnegative=True), tv.CP(2, solver="als", loss="poisson"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"stored\.load"):
            fit.fit(stored)
    with pytest.raises(InputError, match="validation="):
        tv.CP(2, solver="als", validation_fraction=0.1).fit(stored)
    tensor.write(tmp_path / "d.parquet")
    one = tv.write_store(tmp_path / "d.parquet", tmp_path / "s", order="user", indices=True)
    with pytest.raises(InputError, match=r"order=\['user', 'film', 'day'\]"):
        tv.CP(2, solver="als").fit(one)
    with limit_memory(1000), pytest.raises(MemoryError, match="part_rows"):
        tv.CP(2, solver="als").fit(stored)


def test_damage_is_found_while_fitting(problem: Any, tmp_path: Path) -> None:
    tensor, _ = problem
    tensor.write(tmp_path / "d.parquet")
    order = ["user", "film", "day"]
    stored = tv.write_store(tmp_path / "d.parquet", tmp_path / "s", order=order, indices=True, part_rows=150)
    path = stored.folder / stored.parts("day")[1].file
    path.write_bytes(path.read_bytes()[:-9] + b"123456789")
    with pytest.raises(StoreError, match="SHA-256"):
        tv.CP(2, solver="als", sweeps=2).fit(stored)
