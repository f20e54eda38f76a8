"""What solvers promise beyond accuracy: descent, relevance, scale, reproducibility, early stopping."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorveil as tv
from tensorveil.tensor.synthetic import paper_problem

SOLVERS = ["bayes", "als", "sgd"]
ESTIMATORS = [tv.CP, tv.Tucker]


@pytest.fixture(scope="module")
def problem() -> Any:
    return paper_problem(kind="cp", random_state=1)


def test_the_evidence_bound_rises(problem: Any) -> None:
    for estimator in ESTIMATORS:
        history = estimator(4, baseline="biases", sweeps=60, tol=0.0, random_state=0).fit(problem.train).history_
        bounds = np.array([record.bound for record in history[4:]])
        # Balancing the modes' scales may cost a little before it pays.
        assert np.all(np.diff(bounds) > -1e-3 * abs(bounds[-1]))
        assert bounds[-1] > bounds[0]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_als_training_error_falls(problem: Any, estimator: Any) -> None:
    model = estimator(3, solver="als", regularization=1e-3, sweeps=30, tol=0.0, random_state=0).fit(problem.train)
    errors = [record.train_error for record in model.history_]
    assert errors[-1] < errors[0]
    assert all(b <= a * 1.02 for a, b in pairwise(errors[2:]))


def test_relevance_switches_off_what_the_data_do_not_support() -> None:
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((20, 2)) for _ in range(3)]
    dense = np.einsum("ar,br,cr->abc", *factors)
    coords = np.argwhere(rng.random(dense.shape) < 0.5)
    values = dense[tuple(coords.T)] + 0.3 * rng.standard_normal(len(coords))
    tensor = tv.ObservedTensor(coords, values, shape=dense.shape)
    model = tv.CP(8, baseline="none", sweeps=300, random_state=0).fit(tensor)
    strength = np.prod([np.linalg.norm(f, axis=0) for f in model.model_.factors], axis=0)
    assert np.sum(strength > 1e-2 * strength.max()) == 2
    assert model.noise_variance_ == pytest.approx(0.09, rel=0.15)


def test_known_noise_keeps_the_fit_at_the_mean(problem: Any) -> None:
    model = tv.CP(3, noise_variance=1e6, random_state=0).fit(problem.train)
    np.testing.assert_allclose(model.predict(problem.held_out), problem.train.values.mean(), atol=1e-2)
    assert model.noise_variance_ is not None
    assert model.noise_variance_ >= 1e6


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
@settings(max_examples=5)
@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
def test_units_do_not_matter(problem: Any, estimator: Any, solver: Any, scale: Any, shift: Any) -> None:
    """Fits see values centred and scaled, so predictions follow a change of units."""
    options = {"solver": solver, "sweeps": 10, "tol": 0.0, "random_state": 0}
    plain = estimator(3, **options).fit(problem.train).predict(problem.held_out)
    moved = problem.train.with_values(problem.train.values * scale + shift)
    other = estimator(3, **options).fit(moved).predict(problem.held_out)
    np.testing.assert_allclose((other - shift) / scale, plain, rtol=1e-4, atol=1e-5 * (1 + abs(shift) / scale))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_seeded_fits_repeat(problem: Any, estimator: Any, solver: Any) -> None:
    first, second = (
        estimator(3, solver=solver, baseline="biases", sweeps=5, random_state=7, threads=2).fit(problem.train)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.predict(problem.held_out), second.predict(problem.held_out))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", ["bayes", "als"])
def test_threads_do_not_change_the_result(problem: Any, estimator: Any, solver: Any) -> None:
    one, two = (
        estimator(3, solver=solver, sweeps=5, random_state=7, threads=n).fit(problem.train).predict(problem.held_out)
        for n in (1, 2)
    )
    np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("solver", ["als", "sgd"])
def test_single_precision(problem: Any, solver: Any) -> None:
    single = tv.CP(3, solver=solver, dtype="float32", sweeps=10, tol=0.0, random_state=0).fit(problem.train)
    double = tv.CP(3, solver=solver, dtype="float64", sweeps=10, tol=0.0, random_state=0).fit(problem.train)
    assert single.model_.dtype == np.float32
    np.testing.assert_allclose(single.predict(problem.held_out), double.predict(problem.held_out), atol=1e-3)


def test_early_stopping_keeps_the_best(problem: Any) -> None:
    model = tv.CP(12, solver="als", regularization=1e-6, sweeps=60, patience=3, validation_fraction=0.2, random_state=0)
    model.fit(problem.train)
    errors: list[Any] = [record.validation_error for record in model.history_]
    assert len(errors) < 60
    assert np.argmin(errors) == len(errors) - 1 - 3
    assert all(record.iterations == 60 for record in model.history_)


def test_validation_can_be_given(problem: Any) -> None:
    model = tv.CP(3, solver="als", sweeps=10, random_state=0).fit(problem.train, validation=problem.held_out)
    errors: list[Any] = [record.validation_error for record in model.history_]
    assert min(errors) == pytest.approx(model.rmse(problem.held_out))


def test_restarts_keep_the_best(problem: Any) -> None:
    model = tv.CP(3, restarts=4, random_state=3).fit(problem.train)
    last: dict[int, Any] = {record.restart: record for record in model.history_}
    assert sorted(last) == [0, 1, 2, 3]
    best = max(last.values(), key=lambda record: record.bound)
    assert model.n_iter_ == best.iteration


def test_divergence_is_an_error_with_a_remedy(problem: Any) -> None:
    with pytest.raises(tv.InputError, match=r"learning_rate .* diverged\. Try a tenth"):
        tv.CP(3, solver="sgd", learning_rate=1e100, random_state=0).fit(problem.train)


def test_tiled_descent_recovers_from_too_large_a_rate(problem: Any) -> None:
    model = tv.CP(3, solver="sgd", learning_rate=100.0, random_state=0).fit(problem.train)
    assert model.rmse(problem.train) < problem.train.values.std()


def test_progress_sees_every_sweep(problem: Any) -> None:
    seen: list[Any] = []
    tv.CP(2, sweeps=4, tol=0.0, restarts=2, random_state=0).fit(problem.train, progress=seen.append)
    assert [(r.restart, r.iteration) for r in seen] == [(k, i) for k in range(2) for i in range(1, 5)]


def test_constant_values_are_fitted_exactly() -> None:
    coords = np.argwhere(np.ones((4, 3, 2)))
    tensor = tv.ObservedTensor(coords, np.full(len(coords), 2.5), shape=(4, 3, 2))
    for estimator in ESTIMATORS:
        for solver in SOLVERS:
            fitted = estimator(2, solver=solver, sweeps=20, random_state=0).fit(tensor)
            np.testing.assert_allclose(fitted.predict(coords), 2.5, atol=1e-6)
