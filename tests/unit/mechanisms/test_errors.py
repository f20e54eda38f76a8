"""Errors of releases: measured from noisy counts, close to the truth where noise allows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.mechanisms import errors as measuring
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.data import Form, make_constant
from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import SeededSource
from tensorveil.privacy import Pure
from tensorveil.privacy.gate import PrivateValues
from tensorveil.privacy.private import Private

VALUE_METHODS = [name for name, method in METHODS.items() if method.unit == "value"]


def plant(n: int, seed: int = 0, *, heavy: bool = False) -> tuple[PrivateValues, Any]:
    """Values around three levels, the higher the more spread; and the model that knows the levels."""
    rng = np.random.default_rng(seed)
    columns = np.stack([np.arange(n) % 3, np.arange(n) // 3]).astype(np.int32)
    level = np.array([1.0, 4.0, 7.0])
    law = rng.standard_t(3, n) if heavy else rng.standard_normal(n)
    values = np.clip(level[columns[0]] + 0.3 * (1 + columns[0]) * law, 0.0, 10.0)
    shape = (3, n // 3 + 1)
    form = Form(ranks=(1, 1), core=False, sweeps=1, restarts=1, threads=1, seed=0)
    solution = make_constant(shape, form, 0.0, [level, np.zeros(shape[1])])
    return PrivateValues(columns=columns, values=Private(values), shape=shape, bounds=(0.0, 10.0)), solution


def measure(data: PrivateValues, solution: Any, epsilon: float, seed: int = 0) -> Any:
    return measuring.private_errors(data, solution, 1, Spend(source=SeededSource(seed), epsilon=epsilon))[0]


@pytest.mark.parametrize("heavy", [False, True])
def test_rmse_and_coverage_are_close_to_the_truth(heavy: bool) -> None:
    data, solution = plant(60_000, heavy=heavy)
    values = data.values.reveal()
    predicted = np.array([1.0, 4.0, 7.0])[data.columns[0]]
    found = measure(data, solution, 0.1)
    assert len(found.levels) == 2
    assert found.rmse == pytest.approx(np.sqrt(np.mean((values - predicted) ** 2)), rel=0.15)
    for coverage in (0.5, 0.9):
        low, high = found.interval(predicted, coverage)
        inside = (values >= low) & (values <= high)
        for level in range(3):  # each level has a law of its own
            assert np.mean(inside[data.columns[0] == level]) == pytest.approx(coverage, abs=0.05)


def test_errors_that_lie_in_a_few_values_are_measured() -> None:
    """Of 60,000 values 60 are far off, too few to stand out of a histogram's noise, and make most of the error."""
    data, solution = plant(60_000)
    values = data.values.reveal().copy()
    values[::1000] = np.where(data.columns[0][::1000] == 0, 10.0, 0.0)
    far = PrivateValues(columns=data.columns, values=Private(values), shape=data.shape, bounds=data.bounds)
    true = np.sqrt(np.mean((values - np.array([1.0, 4.0, 7.0])[data.columns[0]]) ** 2))
    errors, parts = measuring.private_errors(far, solution, 1, Spend(source=SeededSource(0), epsilon=0.1))
    assert [part.name for part in parts] == ["errors", "far errors"]
    assert sum(part.event.epsilon for part in parts if isinstance(part.event, Pure)) <= 0.1 + 1e-12
    assert errors.rmse == pytest.approx(true, rel=0.2)


def test_with_few_entries_there_are_fewer_levels() -> None:
    levels = [len(measure(*plant(n), 0.025).levels) for n in (60_000, 40_000, 9_000)]
    assert levels == [2, 1, 0]


def test_next_to_nothing_is_taken_from_noise_alone() -> None:
    """With hardly any budget nothing stands out, and intervals are as wide as bounds allow."""
    data, solution = plant(300)
    low, high = measure(data, solution, 1e-6).interval(np.array([5.0]), 0.9)
    assert high[0] - low[0] >= 10.0


def test_a_constant_prediction_has_one_level() -> None:
    data, _ = plant(60_000)
    form = Form(ranks=(1, 1), core=False, sweeps=1, restarts=1, threads=1, seed=0)
    found = measure(data, make_constant(data.shape, form, 4.0), 1.0)
    assert len(found.levels) == 0
    assert found.rmse == pytest.approx(np.sqrt(np.mean((data.values.reveal() - 4.0) ** 2)), rel=0.05)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("method", VALUE_METHODS)
def test_every_method_of_unit_value_measures_its_errors_last(method: str, delta: float) -> None:
    data = tv.synthetic_cp((30, 20, 10), 2, random_state=0).train
    settings: dict[str, Any] = {"unit": "value", "bounds": (-0.5, 1.5), "method": method, "sweeps": 5}
    fitted = tv.PrivateCP(2, epsilon=20.0, delta=delta, noise_seed=1, random_state=0, **settings).fit(data)
    assert fitted.guarantee_.composition[-1].name in ("errors", "far errors")
    assert fitted.estimated_rmse_ is not None
    assert 0.5 < fitted.estimated_rmse_ / fitted.rmse(data) < 2.0  # entries are few
    values, low, high = fitted.predict(data, interval=0.9)
    assert np.mean((data.values >= low) & (data.values <= high)) == pytest.approx(0.9, abs=0.08)
    np.testing.assert_array_equal(values, fitted.predict(data))
    assert "errors to expect of its predictions" in fitted.guarantee_.released
    if delta == 0:
        spent = [part.event.epsilon for part in fitted.guarantee_.composition if isinstance(part.event, Pure)]
        assert sum(spent) == pytest.approx(20.0, rel=0.04)  # a constant is not scaled, and has no products


def test_open_fits_have_none() -> None:
    data = tv.synthetic_cp((10, 8, 6), 2, random_state=0).train
    fitted = tv.CP(2).fit(data)
    assert fitted.estimated_rmse_ is None
    with pytest.raises(tv.InputError, match="interval"):
        fitted.predict(data, interval=0.9)


@pytest.mark.parametrize("method", ["crosstabs", "gram"])
def test_unit_entry_has_them(method: str) -> None:
    problem = tv.synthetic_cp((60, 50, 20), 3, missing=0.3, random_state=3)
    entry: Any = {"epsilon": 3.0, "delta": 0.0, "unit": "entry", "bounds": (-0.5, 1.5), "shape": (60, 50, 20)}
    fitted = tv.PrivateCP(3, method=method, noise_seed=5, random_state=0, **entry).fit(problem.train)
    values, low, high = fitted.predict(problem.held_out, interval=0.9)
    held = problem.held_out.values
    assert np.mean((held >= low) & (held <= high)) == pytest.approx(0.9, abs=0.04)
    assert fitted.estimated_rmse_ == pytest.approx(np.sqrt(np.mean((held - values) ** 2)), rel=0.3)


def test_nine_of_ten_held_out_values_lie_inside_on_a_planted_tensor() -> None:
    problem = tv.synthetic_cp((60, 50, 20), 3, missing=0.3, random_state=3)
    settings: dict[str, Any] = {
        "delta": 0.0,
        "unit": "value",
        "bounds": (-0.5, 1.5),
        "noise_seed": 5,
        "random_state": 0,
    }
    for epsilon in (1.0, 10.0):
        fitted = tv.PrivateCP(3, epsilon=epsilon, **settings).fit(problem.train)
        values, low, high = fitted.predict(problem.held_out, interval=0.9)
        held = problem.held_out.values
        assert np.mean((held >= low) & (held <= high)) == pytest.approx(0.9, abs=0.04)
        # The bounds are 28 deviations wide: at epsilon 1 the noise of counts far out weighs as much as the residuals.
        rel = 0.2 if epsilon > 1 else 1.0
        assert fitted.estimated_rmse_ == pytest.approx(np.sqrt(np.mean((held - values) ** 2)), rel=rel)
