"""Low-rank matrices, private and not: conventions, bad input, what every solver makes of degenerate data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score

import tensorveil as tv
from tensorveil.mechanisms.names import BY_UNIT
from tensorveil.privacy import Budget, Ledger, epsilon_for
from tensorveil.release.release import load_release, write_release
from tensorveil.solvers.catalogue import MATRIX_SOLVERS

SOLVERS = ["bayes", "als", "sgd", "dlnm_qr", "sor", "altmin"]
PRIVATE_SOLVERS = ["bayes", "dlnm_qr", "sor", "altmin"]


@pytest.fixture(scope="module")
def planted() -> Any:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 50))
    mask = rng.random(truth.shape) < 0.6
    return truth, tv.ObservedTensor.from_dense(truth + 0.05 * rng.standard_normal(truth.shape), mask=mask)


def fit(tensor: Any, solver: Any, rank: int = 3, **options: Any) -> Any:
    return tv.LowRankMatrix(rank, solver=solver, random_state=0, **options).fit(tensor)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_completes(planted: Any, solver: Any, tmp_path: Path) -> None:
    truth, tensor = planted
    more: dict[str, Any] = {"regularization": 0.1} if solver == "als" else {}
    fitted = fit(tensor, solver, baseline="none", **more)
    missing = np.isnan(tensor.to_dense())
    error = np.sqrt(np.mean((fitted.dense() - truth)[missing] ** 2))
    assert error < (0.3 if solver == "sgd" else 0.07) * truth.std()
    assert fitted.rank_ == 3
    assert fitted.history_[-1].train_error == pytest.approx(fitted.rmse(tensor), rel=0.2)
    fitted.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(tv.load_model(tmp_path / "model.npz").dense(), fitted.dense())
    assert len(fitted.top(5, given={0: 1}, along=1).indices) == 5
    assert tuple(fitted.to_tensorly().shape) == truth.shape


def test_conventions(planted: Any) -> None:
    _, tensor = planted
    model = tv.LowRankMatrix(3, solver="sor", baseline="none", shape=tensor.shape)
    assert clone(model).get_params() == model.get_params()
    scores = cross_val_score(model, tensor.coords, tensor.values, cv=KFold(3, shuffle=True, random_state=0))
    assert scores.min() > 0.9
    with pytest.raises(tv.NotFittedError):
        _ = model.rank_


@pytest.mark.parametrize("solver", ["dlnm_qr", "sor", "altmin"])
def test_validation_stops_before_noise_is_fitted(planted: Any, solver: Any) -> None:
    truth, tensor = planted
    noisy = tensor.with_values(tensor.values + np.random.default_rng(1).standard_normal(tensor.n_entries))
    whole = fit(noisy, solver, rank=10, baseline="none")
    stopped = fit(noisy, solver, rank=10, baseline="none", validation_fraction=0.1)
    assert stopped.n_iter_ < whole.n_iter_
    assert np.linalg.norm(stopped.dense() - truth) < np.linalg.norm(whole.dense() - truth)


@pytest.mark.parametrize("solver", SOLVERS)
def test_units_do_not_matter(planted: Any, solver: Any) -> None:
    """Settings are on values scaled to unit variance."""
    _, tensor = planted
    plain = fit(tensor, solver)
    scaled = fit(tensor.with_values(1000.0 * tensor.values + 7e4), solver)
    np.testing.assert_allclose(scaled.dense(), 1000.0 * plain.dense() + 7e4, rtol=1e-5, atol=1.0)


@pytest.mark.parametrize("solver", SOLVERS)
class TestDegenerate:
    def test_rank_above_a_side(self, solver: Any) -> None:
        tensor = tv.ObservedTensor.from_dense(np.arange(12.0).reshape(3, 4))
        with pytest.raises(tv.InputError, match=r"rank must be at most the smaller side of the matrix, 3; got 4\. Try"):
            fit(tensor, solver, rank=4)
        assert fit(tensor, solver, rank=3).rmse(tensor) < tensor.values.std()

    @pytest.mark.parametrize("baseline", ["none", "mean"])
    def test_an_empty_row_and_an_empty_column(self, planted: Any, solver: Any, baseline: Any) -> None:
        """What nothing is known about is predicted by the offset, or by what the rows have in common."""
        _, tensor = planted
        kept = tensor.take((tensor.columns[0] != 7) & (tensor.columns[1] != 11))
        fitted = fit(kept, solver, baseline=baseline)
        dense, spread = fitted.dense(), kept.values.std()
        offset = fitted.model_.offset
        most = 0.3 * spread if solver == "bayes" else 1e-9
        for unknown in (dense[7], dense[:, 11]):
            assert np.sqrt(np.mean((unknown - offset) ** 2)) < most
        assert fitted.rmse(kept) < 0.5 * spread

    @pytest.mark.parametrize("value", [0.0, 4.0])
    def test_all_entries_equal(self, solver: Any, value: Any) -> None:
        mask = np.random.default_rng(0).random((8, 6)) < 0.7
        tensor = tv.ObservedTensor.from_dense(np.full((8, 6), value), mask=mask)
        np.testing.assert_allclose(fit(tensor, solver, rank=2).dense(), value, atol=1e-6)
        if solver not in ("als", "sgd"):  # whose penalty and steps are not made for so few entries
            assert fit(tensor, solver, rank=1, baseline="none").rmse(tensor) <= 0.2 * value

    def test_one_entry(self, solver: Any) -> None:
        tensor = tv.ObservedTensor([[2, 1]], [4.0], shape=(5, 3))
        np.testing.assert_allclose(fit(tensor, solver, rank=2).dense(), 4.0, atol=1e-6)
        bare = fit(tensor, solver, rank=1, baseline="none").dense()
        assert np.isfinite(bare).all()

    def test_one_row(self, solver: Any) -> None:
        tensor = tv.ObservedTensor.from_dense(np.arange(6.0).reshape(1, 6))
        assert fit(tensor, solver, rank=1).rmse(tensor) < 2.0

    def test_tensors_of_other_orders(self, solver: Any) -> None:
        tensor = tv.ObservedTensor.from_dense(np.ones((2, 2, 2)))
        with pytest.raises(
            tv.InputError, match=r"a low-rank matrix has two modes; got a tensor with 3\. Try CP or Tucker"
        ):
            fit(tensor, solver, rank=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, r"rank must be a whole number of at least 1; got 0"),
        ({"rank": "many"}, r"rank must be a whole number"),
        (
            {"solver": "magic"},
            r'solver must be one of "bayes", "als", "sgd", "adam", "lbfgs", "dlnm_qr", "sor", "altmin"',
        ),
        ({"rank": "auto", "solver": "altmin"}, r'rank="auto" has no meaning for solver="altmin".*try solver="bayes"'),
        ({"rank": "auto", "max_rank": 0}, r"max_rank must be a whole number of at least 1"),
        ({"solver": "sor", "baseline": "biases"}, r'baseline="biases" has no meaning for solver="sor"'),
        ({"solver": "sor", "penalty": 1.0}, r'penalty has no meaning for solver="sor".*try solver="dlnm_qr"'),
        ({"solver": "dlnm_qr", "penalty": 0.0}, r"penalty must be a finite number above 0"),
        ({"solver": "dlnm_qr", "multiplier": 1}, r"multiplier must be True or False"),
        ({"solver": "sor", "multiplier": True}, r'multiplier has no meaning for solver="sor"'),
        ({"solver": "dlnm_qr", "growth": 0.9}, r"growth must be a finite number at least 1"),
        ({"solver": "altmin", "noise_variance": 1.0}, r'noise_variance has no meaning for solver="altmin"'),
        ({"noise_law": "cauchy"}, r'noise_law must be one of "gaussian", "laplace"'),
        ({"noise_law": "laplace"}, r'noise_law="laplace" needs solver="bayes" and a noise_variance'),
        ({"solver": "sor", "noise_law": "laplace"}, r'noise_law="laplace" needs solver="bayes"'),
        ({"solver": "sor", "sweeps": 0}, r"sweeps must be a whole number of at least 1"),
    ],
)
def test_parameter_errors(planted: Any, options: Any, message: Any) -> None:
    with pytest.raises(tv.InputError, match=message):
        tv.LowRankMatrix(**{"rank": 3, **options}).fit(planted[1])


def private(**changes: Any) -> Any:
    settings = {"rank": 3, "epsilon": 5.0, "delta": 0.0, "unit": "value", "bounds": (-8, 8), "random_state": 0}
    return tv.PrivateLowRankMatrix(**{**settings, **changes})


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("solver", PRIVATE_SOLVERS)
def test_private_fits_prove_what_was_asked(planted: Any, solver: Any, delta: float) -> None:
    fitted = private(solver=solver, delta=delta, method="input").fit(planted[1])
    guarantee = fitted.guarantee_
    assert (guarantee.status, guarantee.private, str(guarantee.unit)) == ("proven", True, "value")
    assert epsilon_for(guarantee.event, delta) <= 5.0
    assert fitted.plan_.method == "input"
    assert fitted.model_.shape == (60, 50)


def test_the_solver_sees_perturbed_values_only(planted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever solver: it is handed the mechanism's noisy values, and nothing else of the data."""
    from tensorveil.mechanisms import fitting
    from tensorveil.mechanisms.spend import Spend

    noisy, fitted = [], []
    plain, real = Spend.values, MATRIX_SOLVERS["sor"]

    def spy(self: Any, values: Any, bounds: Any, square: float) -> Any:
        found = plain(self, values, bounds, square)
        noisy.append(found[0])
        return found

    def solve(task: Any, settings: Any, watch: Any) -> Any:
        fitted.append(task.values)
        return real[1](task, settings, watch)

    monkeypatch.setattr(Spend, "values", spy)
    monkeypatch.setattr(fitting, "MATRIX_SOLVERS", {**MATRIX_SOLVERS, "sor": (real[0], solve)})
    _, tensor = planted
    private(solver="sor", method="input").fit(tensor)
    assert (len(noisy), len(fitted)) == (1, 2)
    # The slope is what clipping leaves of the signal: a private number, as is the mean.
    slope, shift = np.polyfit(fitted[0], noisy[0].values, 1)
    np.testing.assert_allclose(slope * fitted[0] + shift, noisy[0].values)
    # The second fit is to the same numbers less biases, which are found from them.
    design = np.concatenate([np.eye(size)[column] for size, column in zip((60, 50), tensor.columns, strict=True)], 1)
    taken = fitted[0] - fitted[1]
    np.testing.assert_allclose(design @ np.linalg.lstsq(design, taken, rcond=None)[0], taken, atol=1e-9)


def test_knowing_the_noise_pays() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 150))
    tensor = tv.ObservedTensor.from_dense(truth, mask=rng.random(truth.shape) < 0.4)
    errors = {
        solver: np.mean(
            [
                np.linalg.norm(
                    private(epsilon=1.0, solver=solver, method="input", noise_seed=seed).fit(tensor).dense() - truth
                )
                for seed in range(3)
            ]
        )
        for solver in PRIVATE_SOLVERS
    }
    assert errors["bayes"] < 0.9 * min(errors[solver] for solver in PRIVATE_SOLVERS[1:])


def test_automatic_rank_is_found_from_perturbed_values(planted: Any) -> None:
    _, tensor = planted
    fitted = private(rank="auto", epsilon=100.0, noise_seed=0, max_rank=12).fit(tensor)
    assert fitted.rank_ == 3
    assert fitted.plan_.method == "staged"
    nothing = private(rank="auto", epsilon=0.01, noise_seed=0).fit(tensor)
    assert nothing.rank_ == 1
    assert not np.any(nothing.model_.factors[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 51}, r"rank must be at most the smaller side of the matrix, 50; got 51"),
        ({"solver": "als"}, r'solver must be one of "bayes", "dlnm_qr", "sor", "altmin"'),
        ({"solver": "sor", "method": "mean"}, r'solver="sor" needs unit="value" and method "auto" or one of "input"'),
        ({"solver": "sor", "unit": "entry", "shape": (60, 50)}, r'solver="sor" needs unit="value"'),
        ({"rank": "auto", "unit": "entry", "shape": (60, 50)}, r'rank="auto" needs unit="value"'),
        ({"rank": "auto", "method": "output"}, r'rank="auto" needs unit="value" and method "auto" or one of'),
        ({"rank": "auto", "solver": "altmin"}, r'rank="auto" has no meaning for solver="altmin"'),
        ({"bounds": (8, -8)}, r"bounds must be two finite numbers"),
        ({"epsilon": 0.0}, r"epsilon"),
    ],
)
def test_private_parameter_errors(planted: Any, changes: Any, message: Any) -> None:
    with pytest.raises(tv.InputError, match=message):
        private(**changes).fit(planted[1])


@pytest.mark.parametrize("unit", ["value", "entry"])
def test_every_method_runs(planted: Any, unit: Any) -> None:
    for method in BY_UNIT[unit]:
        fitted = private(method=method, unit=unit, shape=(60, 50), sweeps=20, restarts=1).fit(planted[1])
        assert fitted.guarantee_.private
        assert fitted.plan_.method == method


def test_release_and_ledger(planted: Any, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", budget=Budget(epsilon=6.0, delta=0.0), unit="value", name="x")
    fitted = private(ledger=ledger, method="input").fit(planted[1])
    write_release(fitted, tmp_path / "release")
    model, guarantee = load_release(tmp_path / "release")
    assert isinstance(model, tv.CPModel)
    np.testing.assert_array_equal(model.dense(), fitted.dense())
    assert guarantee.epsilon == 5.0
    with pytest.raises(tv.TensorveilError):
        private(ledger=ledger).fit(planted[1])


@pytest.mark.parametrize("solver", PRIVATE_SOLVERS)
@pytest.mark.parametrize("method", ["input", "staged"])
def test_private_fits_of_degenerate_matrices(solver: Any, method: Any) -> None:
    one = tv.ObservedTensor([[2, 1]], [4.0], shape=(5, 3))
    equal = tv.ObservedTensor.from_dense(np.full((6, 5), 3.0), mask=np.tri(6, 5) > 0)
    for tensor in (one, equal):
        fitted = private(rank=2, solver=solver, method=method, bounds=(1, 5)).fit(tensor)
        dense = fitted.dense()
        assert np.isfinite(dense).all()
        assert dense.min() >= 1
        assert dense.max() <= 5
