"""Counts and yes and no in unit "value": predictions by the link, never nothing, and better than the other decoder."""

from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.errors import InputError
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.data import Form, Outcome
from tensorveil.mechanisms.spend import Spend
from tensorveil.noise import SeededSource
from tensorveil.privacy.gate import PrivateValues
from tensorveil.privacy.private import Private
from tensorveil.solvers.losses import LOSSES

SHAPE = (20, 16, 12)


def planted(loss: str, share: float = 1.0) -> tuple[PrivateValues, Any]:
    """Draw values around a planted model; return them and their means."""
    rng = np.random.default_rng(0)
    if loss == "poisson":
        means = np.einsum("ir,jr,kr->ijk", *(rng.gamma(0.7, 1.0, (size, 2)) for size in SHAPE))
        values, high = np.minimum(rng.poisson(means), 64.0), 64.0
    else:
        linear = np.einsum("ir,jr,kr->ijk", *(rng.normal(0.0, 1.2, (size, 2)) for size in SHAPE))
        means = 1.0 / (1.0 + np.exp(1.5 - linear))
        values, high = (rng.random(SHAPE) < means).astype(float), 1.0
    cells = np.argwhere(rng.random(SHAPE) < share)
    columns = np.ascontiguousarray(cells.T.astype(np.int32))
    at = tuple(columns)
    data = PrivateValues(columns=columns, values=Private(values[at]), shape=SHAPE, bounds=(0.0, high))
    return data, means[at]


def run(data: PrivateValues, loss: str, epsilon: float, *, core: bool = False) -> Outcome:
    form = Form(ranks=(3,) * 3, core=core, sweeps=20, restarts=2, threads=1, seed=0, loss=loss)
    return METHODS["staged"].run(data, form, Spend(source=SeededSource(1), epsilon=epsilon))


def deviance(loss: str, truth: Any, predicted: Any) -> float:
    known = LOSSES[loss]
    return float(np.mean(known.value(truth, known.link.linear(predicted))))


def predict(data: PrivateValues, outcome: Outcome) -> Any:
    solution = outcome.solution
    kind: Any = tv.CPModel if solution.core is None else tv.TuckerModel
    own = {} if solution.core is None else {"core": solution.core}
    model = kind(factors=solution.factors, offset=solution.offset, bounds=data.bounds, link=solution.link, **own)
    return model.predict(data.columns.T)


@pytest.mark.parametrize("loss", ["poisson", "bernoulli"])
@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("epsilon", [0.3, 3.0, 30.0])
def test_predictions_are_inside_and_beat_the_constant(loss: str, share: float, epsilon: float) -> None:
    data, truth = planted(loss, share)
    predicted = predict(data, run(data, loss, epsilon))
    assert np.all(predicted > 0)
    assert np.all(predicted <= data.bounds[1])
    constant = deviance(loss, truth, np.full(len(truth), truth.mean()))
    assert deviance(loss, truth, predicted) < (1.05 if epsilon < 1 else 0.98) * constant


@pytest.mark.parametrize("loss", ["poisson", "bernoulli"])
def test_counts_are_decoded_better_than_by_squared_error(loss: str) -> None:
    data, truth = planted(loss)
    ours, plain = (predict(data, run(data, each, 3.0)) for each in (loss, "gaussian"))
    assert deviance(loss, truth, ours) < deviance(loss, truth, np.clip(plain, 1e-3, 0.999 * data.bounds[1]))


def test_a_core_holds_such_a_model_too() -> None:
    data, truth = planted("poisson")
    outcome = run(data, "poisson", 10.0, core=True)
    predicted = predict(data, outcome)
    assert outcome.solution.core is not None
    assert np.all(predicted > 0)
    assert deviance("poisson", truth, predicted) < deviance("poisson", truth, np.full(len(truth), truth.mean()))


def test_few_entries_get_a_constant_that_is_not_nothing() -> None:
    columns = np.stack(np.unravel_index(np.arange(60), (5, 4, 3))).astype(np.int32)
    data = PrivateValues(columns=columns, values=Private(np.zeros(60)), shape=(5, 4, 3), bounds=(0.0, 9.0))
    for loss in ("poisson", "bernoulli"):
        within = data if loss == "poisson" else PrivateValues(
            columns=columns, values=Private(np.zeros(60)), shape=(5, 4, 3), bounds=(0.0, 1.0)
        )  # fmt: skip
        predicted = predict(within, run(within, loss, 0.1))
        assert np.ptp(predicted) == 0
        assert 0 < predicted[0] < within.bounds[1]


PROMISE: dict[str, Any] = {"epsilon": 5.0, "delta": 0.0, "noise_seed": 0, "random_state": 0, "threads": 1}


@pytest.mark.parametrize("kind", [tv.PrivateCP, tv.PrivateTucker, tv.PrivateLowRankMatrix])
def test_estimators_release_a_model_that_knows_its_loss(kind: Any, tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    shape = (60, 50) if kind is tv.PrivateLowRankMatrix else SHAPE
    counts = rng.poisson(np.multiply.outer(rng.gamma(1.0, 1.0, shape[0]), np.ones(shape[1:]))).astype(float)
    fit = kind(2, unit="value", bounds=(0, 30), loss="poisson", **PROMISE).fit(tv.ObservedTensor.from_dense(counts))
    model = fit.model_
    assert model.loss == "poisson"
    assert model.errors is not None
    assert np.all(model.dense() > 0)
    model.save(tmp_path / "model.npz")
    loaded = tv.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.dense(), model.dense())
    assert model.dense().mean() == pytest.approx(counts.mean(), rel=0.4)


def test_chances_are_released_as_log_odds() -> None:
    rng = np.random.default_rng(0)
    flags = (rng.random((30, 20, 10)) < rng.random(30)[:, None, None]).astype(float)
    fit = tv.PrivateCP(2, unit="value", bounds=(0, 1), loss="bernoulli", **PROMISE)
    model = fit.fit(tv.ObservedTensor.from_dense(flags)).model_
    assert model.link.name == "logit"
    assert model.loss == "bernoulli"
    assert np.all((model.dense() > 0) & (model.dense() < 1))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"loss": "gamma"}, "loss must be one of"),
        ({"bounds": (1, 5)}, "bounds must be 0 and the largest count"),
        ({"loss": "bernoulli"}, "bounds must be 0 and 1"),
        ({"method": "tables"}, "method"),
        ({"unit": "entry", "shape": (4, 4, 4)}, "unit"),
        ({"smooth": {0: "walk"}}, "smooth"),
    ],
)
def test_what_does_not_go_with_a_loss_is_refused(change: dict[str, Any], told: str) -> None:
    tensor = tv.ObservedTensor.from_dense(np.ones((4, 4, 4)))
    settings = {"unit": "value", "bounds": (0, 5), "loss": "poisson", **PROMISE} | change
    with pytest.raises(InputError, match=told):
        tv.PrivateCP(2, **settings).fit(tensor)
