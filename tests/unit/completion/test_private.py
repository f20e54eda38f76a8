"""The private estimators: guarantees, charges, clipping, what is never released, and accuracy where it was promised."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from sklearn.base import clone

import tensorveil as tv
from tensorveil.completion import slices
from tensorveil.mechanisms import catalogue
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.planner import plan
from tensorveil.privacy import Budget, BudgetExceededError, Guarantee, Ledger, Unit, epsilon_for

VALUE_METHODS = [name for name, method in METHODS.items() if method.unit == "value"]


PROMISE: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "unit": "value", "bounds": (0, 1)}


@pytest.fixture(scope="module")
def problem() -> Any:
    return tv.paper_problem("cp", random_state=0)


def make(estimator: Any = tv.PrivateCP, **changes: Any) -> Any:
    options = {"rank": 3, "epsilon": 2.0, "delta": 0.0, "unit": "value", "bounds": (-0.25, 1.25), "sweeps": 20}
    return estimator(**(options | {"restarts": 1, "random_state": 0} | changes))


@pytest.mark.parametrize("estimator", [tv.PrivateCP, tv.PrivateTucker])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("method", VALUE_METHODS)
def test_every_method_proves_what_was_asked(problem: Any, estimator: Any, delta: float, method: Any) -> None:
    fitted = make(estimator, method=method, delta=delta).fit(problem.train)
    guarantee = fitted.guarantee_
    assert guarantee.private
    assert (guarantee.epsilon, guarantee.delta, str(guarantee.unit)) == (2.0, delta, "value")
    assert epsilon_for(guarantee.event, delta) <= 2.0
    assert (
        epsilon_for(guarantee.event, delta) > 1.5
    )  # little is left on the table, even where pure parts compose better
    assert np.isfinite(fitted.predict(problem.held_out)).all()
    assert Guarantee.from_json(json.loads(json.dumps(guarantee.to_json()))) == guarantee
    assert fitted.plan_.method == method
    assert fitted.plan_.n_entries == problem.train.n_entries
    assert fitted.plan_.ranks == (3, 3, 3)


@pytest.mark.parametrize("estimator", [tv.PrivateCP, tv.PrivateTucker])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_unit_entry(problem: Any, estimator: Any, delta: float) -> None:
    fitted = make(estimator, unit="entry", shape=(20, 20, 20), delta=delta).fit(problem.train)
    assert fitted.guarantee_.private
    assert str(fitted.guarantee_.unit) == "entry"
    assert fitted.plan_.n_entries is None
    assert epsilon_for(fitted.guarantee_.event, delta) <= 2.0


def test_unit_entry_keeps_labels_only_of_declared_lists() -> None:
    tensor = tv.ObservedTensor(
        [[0, 0], [1, 1]], [0.0, 1.0], shape=(2, 2), modes=[tv.Mode("user", ["ann", "bob"]), tv.Mode("film", ["x", "y"])]
    )
    undeclared = tensor.with_origin(replace(tensor.origin, listed=False))
    with pytest.raises(tv.InputError, match="needs public labels: these labels were not declared"):
        make(unit="entry", shape=(2, 2), rank=1).fit(undeclared)
    listed = make(unit="entry", shape=None, rank=1).fit(tensor)
    assert [mode.labels.tolist() for mode in listed.model_.modes] == [["ann", "bob"], ["x", "y"]]
    private = make(unit="entry", shape=(2, 2), rank=1).fit(tensor.with_modes(["user", "film"]))
    assert [mode.labels for mode in private.model_.modes] == [None, None]
    public = make(rank=1).fit(tensor)
    assert list(public.model_.modes[0].labels) == ["ann", "bob"]


def test_noise_is_fresh_and_seeds_say_so(problem: Any) -> None:
    first, second = (make(method="mean").fit(problem.train).model_.offset for _ in range(2))
    assert first != second
    seeded = [make(method="mean", noise_seed=1).fit(problem.train) for _ in range(2)]
    assert seeded[0].model_.offset == seeded[1].model_.offset
    assert not seeded[0].guarantee_.private
    assert str(seeded[0].guarantee_).startswith("NOT PRIVATE")


def test_values_outside_the_bounds_are_clipped_without_a_word(problem: Any) -> None:
    wild = problem.train.with_values(np.where(np.arange(problem.train.n_entries) == 5, 1e9, problem.train.values))
    fitted = make(method="mean", noise_seed=1).fit(wild)
    usual = make(method="mean", noise_seed=1).fit(problem.train)
    assert abs(fitted.model_.offset - usual.model_.offset) <= 1.5 / problem.train.n_entries + 1e-6


def test_the_ledger_is_charged_before_and_refuses_after(problem: Any, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", budget=Budget(epsilon=3.0, delta=0.0), unit="value", name="x")
    fitted = make(ledger=tmp_path / "x.ledger", method="mean").fit(problem.train)
    assert ledger.spent().epsilon == pytest.approx(2.0)
    fitted.confirm()
    with pytest.raises(BudgetExceededError):
        make(ledger=ledger, method="mean").fit(problem.train)
    assert len(ledger.entries()) == 1
    with pytest.raises(tv.InputError, match="noise_seed must be None with a ledger"):
        make(ledger=ledger, epsilon=0.5, noise_seed=0).fit(problem.train)
    # An entry is more than a value: its release is covered, at twice its epsilon.
    make(ledger=ledger, epsilon=0.5, unit="entry", shape=(20, 20, 20), sweeps=1).fit(problem.train)
    assert ledger.spent().epsilon == pytest.approx(3.0)
    ledger = Ledger.create(tmp_path / "y.ledger", budget=Budget(epsilon=3.0, delta=0.0), unit="entry", name="y")
    with pytest.raises(tv.InputError, match="not covered by it: it publishes which entries there are"):
        make(ledger=ledger).fit(problem.train)
    assert ledger.entries() == ()


def test_a_failing_mechanism_leaves_its_charge(problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", budget=Budget(epsilon=3.0, delta=0.0), unit="value", name="x")
    estimator = make(ledger=ledger, method="mean")
    monkeypatch.setattr(np, "clip", None)
    with pytest.raises(TypeError):
        estimator.fit(problem.train)
    monkeypatch.undo()
    assert ledger.spent().epsilon == pytest.approx(2.0)


FAILING = {
    "value": (tv.PrivateCP, {}),
    "entry": (tv.PrivateTucker, {"shape": (9, 8)}),
    "slice:user": (tv.UserLevelCP, {"shape": (9, 8)}),
}


@pytest.mark.parametrize("unit", FAILING)
def test_a_fit_that_fails_after_the_charge_says_which_charge_it_was(
    unit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator, options = FAILING[unit]
    tensor = tv.ObservedTensor(
        np.argwhere(np.ones((9, 8))), np.linspace(0, 1, 72), shape=(9, 8), modes=("user", "film")
    )
    ledger = Ledger.create(tmp_path / "x.ledger", budget=Budget(epsilon=5.0, delta=1e-5), unit=unit, name="x")
    fit = estimator(2, **{**PROMISE, "unit": unit, "ledger": ledger, **options})
    fit.fit(tensor)
    first, model = fit.release_id_, fit.model_
    with pytest.raises(BudgetExceededError):
        fit.set_params(epsilon=50.0).fit(tensor)
    assert (fit.release_id_, fit.model_) == (first, model), "a fit that is refused leaves the earlier one as it was"
    fit.set_params(epsilon=2.0)

    def fail(*_: Any, **__: Any) -> NoReturn:
        raise MemoryError

    with monkeypatch.context() as patch:
        for name, method in METHODS.items():
            patch.setitem(catalogue.METHODS, name, dataclasses.replace(method, run=fail))
        patch.setattr(slices, "run_recipe", fail)
        with pytest.raises(MemoryError):
            fit.fit(tensor)
    charges = [entry.release_id for entry in ledger.entries()]
    assert charges == [first, fit.release_id_]
    assert not hasattr(fit, "model_"), "the model of the first fit does not belong to the second charge"
    assert not hasattr(fit, "guarantee_")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "tensor"}, r'unit must be "value" or "entry" here'),
        ({"unit": "slice:user"}, r"try UserLevelCP, UserLevelTucker or UserLevelMatrix"),
        ({"unit": "entry"}, r'shape must be declared for unit="entry"'),
        ({"unit": "entry", "shape": (2, 2)}, r"shape must have one size per mode"),
        ({"shape": (2, 2, 2)}, r"shape must be the shape of the tensor"),
        ({"bounds": (1.0, 0.0)}, r"bounds must be two finite numbers, the lower one first"),
        ({"bounds": (0.0, float("inf"))}, r"bounds must be two finite numbers"),
        ({"epsilon": 0.0}, r"epsilon"),
        ({"epsilon": float("inf")}, r"epsilon"),
        ({"delta": 1.0}, r"delta"),
        ({"method": "magic"}, r'method must be one of "auto", "mean"'),
        ({"method": "gram"}, r'method must be one of .* got \'gram\', which is for unit "entry"'),
        ({"rank": 0}, r"rank must be a whole number of at least 1"),
        ({"sweeps": 0}, r"sweeps must be a whole number"),
        ({"restarts": 0}, r"restarts must be a whole number"),
    ],
)
def test_parameter_errors(problem: Any, changes: Any, message: Any) -> None:
    with pytest.raises(tv.InputError, match=message):
        make(**changes).fit(problem.train)


def test_privacy_inputs_have_no_defaults() -> None:
    for missing in ("epsilon", "delta", "unit", "bounds", "rank"):
        options: dict[str, Any] = {"rank": 3, "epsilon": 2.0, "delta": 0.0, "unit": "value", "bounds": (0, 1)}
        del options[missing]
        with pytest.raises(TypeError, match=missing):
            tv.PrivateCP(**options)


ESTIMATORS: dict[Any, dict[str, Any]] = {
    tv.CP: {"rank": 3, "solver": "als"},
    tv.Tucker: {"rank": (3, 2), "core_regularization": 0.5},
    tv.LowRankMatrix: {"rank": 3, "penalty": 0.7},
    tv.PrivateCP: {"rank": 3, **PROMISE, "sweeps": 7},
    tv.PrivateTucker: {"rank": (3, 2), **PROMISE, "shape": (4, 5)},
    tv.PrivateLowRankMatrix: {"rank": 3, **PROMISE, "solver": "sor"},
    tv.UserLevelCP: {"rank": 3, **PROMISE, "unit": Unit.slice("user", contributions=50), "shape": (4, 5)},
    tv.UserLevelTucker: {"rank": 3, **PROMISE, "unit": "slice:user", "shape": (4, 5), "method": "biases"},
    tv.UserLevelMatrix: {"rank": "auto", **PROMISE, "unit": "slice:user", "shape": (4, 5)},
}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__)
def test_clones_have_the_same_parameters(estimator: Any) -> None:
    settings = ESTIMATORS[estimator]
    original = estimator(**settings)
    copy = clone(original)
    assert copy is not original
    assert copy.get_params() == original.get_params()
    assert settings.items() <= copy.get_params().items()
    assert repr(copy) == repr(original)
    for name, value in settings.items():
        assert f"{name}={value!r}" in repr(original)
    assert next(iter(original.get_params())) == "rank"
    assert copy.set_params(rank=5).rank == 5
    with pytest.raises(tv.InputError, match="depth is not a parameter of"):
        copy.set_params(depth=3)
    with pytest.raises(TypeError, match="positional"):
        estimator(3, "bayes")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__)
def test_help_explains_every_parameter(estimator: Any) -> None:
    explained = {
        name for line in estimator.__doc__.splitlines() if not line.startswith(" ") for name in line.split(", ")
    }
    assert set(estimator(**ESTIMATORS[estimator]).get_params()) <= explained
    assert "settings" not in explained
    assert "**settings" not in explained


def facts(shape: Any = (20, 20, 20), n: int = 3200, rank: int = 3, bounds: Any = (-0.25, 1.25)) -> Any:
    return {"shape": shape, "n_entries": n, "bounds": bounds, "ranks": (rank,) * len(shape), "core": False}


def test_plans_use_public_quantities_only() -> None:
    """The plan is a function of its arguments, none of which are values; more budget never predicts a larger error."""
    best = [
        plan(budget=Budget(epsilon=e, delta=0.0), unit=Unit.value(), **facts()).predictions[0].rmse
        for e in (0.1, 0.5, 1, 3, 10, 100)
    ]
    assert best == sorted(best, reverse=True)
    chosen = plan(budget=Budget(epsilon=1, delta=0.0), unit=Unit.value(), method="output", **facts())
    assert chosen.method == "output"
    assert {p.method for p in chosen.predictions} == set(VALUE_METHODS)


def errors(kind: Any, epsilon: float, seeds: Any) -> Any:
    fitted, constant = [], []
    estimator = tv.PrivateCP if kind == "cp" else tv.PrivateTucker
    for seed in seeds:
        problem = tv.paper_problem(kind, random_state=seed)
        truth = problem.clean_at(problem.held_out.coords)
        model = make(estimator, epsilon=epsilon, sweeps=100, restarts=3, noise_seed=seed, random_state=seed)
        fitted.append(np.sqrt(np.mean((model.fit(problem.train).predict(problem.held_out) - truth) ** 2)))
        constant.append(np.sqrt(np.mean((problem.train.values.mean() - truth) ** 2)))
    return np.mean(fitted), np.mean(constant)


@pytest.mark.parametrize(("epsilon", "most"), [(10.0, 0.050), (5.0, 0.065)])
def test_reference_case_few_seeds(epsilon: float, most: Any) -> None:
    error, _ = errors("cp", epsilon, range(4))
    assert error <= most


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_low_budgets_stay_near_the_constant(epsilon: float) -> None:
    error, constant = errors("cp", epsilon, range(4))
    assert error <= 1.03 * constant


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cp", "tucker"])
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0])
def test_reference_case(kind: Any, epsilon: float) -> None:
    error, constant = errors(kind, epsilon, range(20))
    most = {10.0: 0.050, 5.0: 0.065}.get(epsilon, 1.02 * constant)
    assert error <= most
