"""Numbers at the edge of what floats can hold: a finite result, or an error that says what is wrong."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.rounds import Recipe

SHAPE = (6, 5, 4, 3, 2, 2, 2, 2)


def make(scale: float = 1.0, shift: float = 0.0, order: int = 3) -> Any:
    rng, shape = np.random.default_rng(1), SHAPE[:order]
    cells = rng.choice(int(np.prod(shape)), min(60, int(np.prod(shape)) // 2), replace=False)
    coords = np.stack(np.unravel_index(cells, shape), axis=1)
    return tv.ObservedTensor(coords, shift + scale * rng.normal(size=len(coords)), shape=shape)


def assert_finite_or_refused(fit: Any) -> None:
    try:
        model, tensor = fit()
    except tv.InputError:
        return
    assert np.isfinite(model.predict(tensor.coords)).all()


@pytest.mark.parametrize(("scale", "shift"), [(3e307, 0), (1e307, 1e308), (0, 1e308), (1e-300, 0), (5e-324, 0)])
def test_open_fits_of_huge_and_tiny_values(scale: float, shift: float) -> None:
    tensor, matrix = make(scale, shift), make(scale, shift, 2)
    for solver in ("bayes", "als", "sgd"):
        assert_finite_or_refused(lambda solver=solver: (tv.CP(2, solver=solver, sweeps=2).fit(tensor), tensor))
        assert_finite_or_refused(lambda solver=solver: (tv.Tucker(2, solver=solver, sweeps=2).fit(tensor), tensor))
    for solver in ("bayes", "dlnm_qr", "sor", "altmin"):
        assert_finite_or_refused(
            lambda solver=solver: (tv.LowRankMatrix(2, solver=solver, sweeps=2).fit(matrix), matrix)
        )


def test_values_that_cannot_be_squared_are_called_so() -> None:
    with pytest.raises(tv.InputError, match="finite squares"):
        tv.CP(2).fit(make(1e307, 1e308))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-9, 1e-7, 1e20, 1e300])
def test_budgets_without_use_are_refused_before_the_charge(tmp_path: Path, epsilon: float, delta: float) -> None:
    budget = tv.Budget(epsilon=1.7e308, delta=1e-3)
    for unit in ("value", "entry", "slice:mode_0"):
        ledger = tv.Ledger.create(
            tmp_path / unit.replace(":", ""), budget=budget, unit=unit, name="x", composition="sum"
        )
        kind = tv.UserLevelCP if unit.startswith("slice") else tv.PrivateCP
        shape = None if unit == "value" else SHAPE[:3]
        promise: Any = {"epsilon": epsilon, "delta": delta, "unit": unit, "bounds": (-3, 3), "shape": shape}
        fitted = False
        with contextlib.suppress(tv.TensorveilError):
            kind(1, ledger=ledger, **promise).fit(make())
            fitted = True
        assert len(ledger.entries()) == fitted


@pytest.mark.parametrize(
    "bounds",
    [None, "15", ("a", "b"), (1,), (1, 2, 3), (5, 1), (np.nan, 1), (1, np.inf), 5, (0, 5e-324), (-1.7e308, 1e308)],
)
def test_bounds_that_are_none(bounds: Any) -> None:
    with pytest.raises(tv.InputError, match="bounds"):
        tv.PrivateCP(1, epsilon=1.0, delta=0.0, unit="value", bounds=bounds).fit(make())
    with pytest.raises(tv.InputError, match="bounds"):
        tv.UserLevelCP(1, epsilon=1.0, delta=1e-6, unit="slice:mode_0", bounds=bounds, shape=SHAPE[:3]).fit(make())
    with pytest.raises(tv.InputError, match="bounds"):
        Recipe(shape=(9, 9), modes=("a", "b"), protect="a", bounds=bounds, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("epsilon", [None, "x", -1, 0, np.nan, np.inf, [1]])
def test_epsilon_that_is_none(epsilon: Any) -> None:
    with pytest.raises(tv.InputError, match="epsilon"):
        tv.PrivateCP(1, epsilon=epsilon, delta=0.0, unit="value", bounds=(-3, 3)).fit(make())


def test_order_eight() -> None:
    tensor = make(order=8)
    for solver in ("bayes", "als"):
        assert_finite_or_refused(lambda solver=solver: (tv.CP(2, solver=solver, sweeps=2).fit(tensor), tensor))
        assert_finite_or_refused(lambda solver=solver: (tv.Tucker(2, solver=solver, sweeps=2).fit(tensor), tensor))
    promise: Any = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-3, 3)}
    assert_finite_or_refused(lambda: (tv.PrivateCP(1, unit="value", **promise).fit(tensor), tensor))


def test_a_file_of_huge_values_can_be_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.csv").write_text("a,b,value\n1,1,1.7e308\n1,2,-1.7e308\n2,1,1.6e308\n")
    assert run(["info", str(tmp_path / "x.csv"), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["max"] == pytest.approx(1.7e308)
    assert 1e308 < values["std"] < 1.7e308
