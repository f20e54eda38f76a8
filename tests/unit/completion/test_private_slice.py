"""Estimators for whole users: what is asked for, what is promised, what is kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.errors import InputError
from tensorveil.privacy import Budget, Gaussian, Ledger, Unit
from tensorveil.release.diagnostics import write_diagnostics
from tensorveil.release.release import load_release, write_release
from tensorveil.rounds import SharedModel

SHAPE = (60, 20)
PROMISE: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "bounds": (1, 5), "shape": SHAPE}


def ratings(shape: Any = SHAPE, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    cells = np.argwhere(rng.random(shape) < 0.4)
    modes = ("user", "film", "day")[: len(shape)]
    return tv.ObservedTensor(cells, rng.integers(1, 6, len(cells)).astype(float), shape=shape, modes=modes)


def estimators() -> Any:
    cube: dict[str, Any] = {**PROMISE, "shape": (60, 20, 4)}
    return [
        (tv.UserLevelCP(2, unit=Unit.slice("user", contributions=20), **cube), ratings((60, 20, 4))),
        (tv.UserLevelTucker((2, 2, 2), unit="slice:user", method="factors", **cube), ratings((60, 20, 4))),
        (tv.UserLevelMatrix(3, unit=Unit.slice("user"), **PROMISE), ratings()),
        (tv.UserLevelMatrix("auto", unit="slice:film", **PROMISE), ratings()),
    ]


@pytest.mark.parametrize("which", range(4))
def test_every_estimator_protects_slices(which: Any) -> None:
    estimator, tensor = estimators()[which]
    fitted = estimator.fit(tensor)
    guarantee = fitted.guarantee_
    assert guarantee.private
    assert guarantee.unit.kind == "slice"
    assert "joint differential privacy" in guarantee.sentence()
    assert (guarantee.epsilon, guarantee.delta) == (2.0, 1e-5)
    assert isinstance(fitted.model_, SharedModel)
    assert fitted.predict_for(tensor, tensor).shape == (tensor.n_entries,)
    assert fitted.rmse_for(tensor, tensor) < 2.0
    assert fitted.personalise(tensor).shape == tensor.shape
    assert not hasattr(fitted, "predict"), "nobody's own part is released, so there is nothing to predict from"
    with pytest.raises(AttributeError, match="served from their own entries, by predict_for"):
        fitted.predict(tensor)
    assert fitted.plan_.n_entries is None, "how many entries there are is private"
    assert len(fitted.plan_.ranks) == tensor.order


def test_the_fitted_object_keeps_nothing_of_the_data() -> None:
    estimator, tensor = estimators()[2]
    fitted = estimator.fit(tensor)
    kept = [fitted.model_, *(value for name, value in vars(fitted).items() if name.endswith("_"))]
    for thing in kept:
        for value in (vars(thing) if hasattr(thing, "__dict__") else {}).values():
            assert not isinstance(value, tv.ObservedTensor)
            for array in value if isinstance(value, tuple) else [value]:
                assert SHAPE[0] not in np.shape(array), "nothing has a row per user"


def test_sentence_says_what_is_promised() -> None:
    fitted = tv.UserLevelCP(2, unit="slice:user", **PROMISE).fit(ratings())
    sentence = fitted.guarantee_.sentence()
    assert "(epsilon = 2, delta = 1e-5) differential privacy for all entries of one index of mode 'user'" in sentence
    assert sentence.count("Proven.") == 1
    seeded = tv.UserLevelCP(2, unit="slice:user", noise_seed=1, **PROMISE).fit(ratings())
    assert seeded.guarantee_.sentence().startswith("NOT PRIVATE")


def test_spent_is_what_the_ledger_says(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", budget=Budget(epsilon=3.0, delta=1e-4), unit=Unit.slice("user"), name="x")
    fitted = tv.UserLevelCP(2, unit="slice:user", ledger=ledger, **PROMISE).fit(ratings())
    (charge,) = ledger.entries()
    assert isinstance(charge.event, Gaussian)
    assert charge.release_id == fitted.release_id_
    parts: Any = fitted.guarantee_.composition
    spent = sum(part.event.mu**2 for part in parts)
    assert spent <= charge.event.mu**2
    with pytest.raises(InputError, match="unit"):
        tv.UserLevelCP(2, unit="slice:film", ledger=ledger, **PROMISE).fit(ratings())
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"shape": None}, "shape must be declared"),
        ({"delta": 0.0}, "delta"),
        ({"unit": "slice"}, "needs the name of a mode"),
        ({"unit": "slice:nobody"}, "protect must name one of the modes"),
        ({"unit": "value"}, "or PrivateCP"),
        ({"rank": 0}, "rank must be a whole number"),
        ({"method": "gram"}, "method must be one of"),
        ({"shape": (60, 20, 2)}, "one size per mode"),
        ({"noise_seed": 1, "ledger": "nowhere"}, "noise_seed"),
    ],
)
def test_refusals_come_before_the_fit(changes: Any, match: Any) -> None:
    with pytest.raises(InputError, match=match):
        tv.UserLevelCP(**{"rank": 2, "unit": "slice:user", **PROMISE, **changes}).fit(ratings())


def test_what_has_no_meaning_is_no_parameter() -> None:
    assert not {"solver", "sweeps", "restarts", "max_rank"} & set(
        tv.UserLevelMatrix(2, unit="slice:user", **PROMISE).get_params()
    )
    for missing in ("epsilon", "delta", "unit", "bounds", "shape", "rank"):
        options: dict[str, Any] = {"rank": 2, "unit": "slice:user", **PROMISE}
        del options[missing]
        with pytest.raises(TypeError, match=missing):
            tv.UserLevelCP(**options)


@pytest.mark.parametrize("estimator", [tv.PrivateCP, tv.PrivateTucker, tv.PrivateLowRankMatrix])
def test_estimators_of_whole_models_name_the_one_for_whole_users(estimator: Any) -> None:
    with pytest.raises(InputError, match="UserLevelCP"):
        estimator(2, unit="slice:user", **PROMISE).fit(ratings())
    assert not hasattr(estimator, "predict_for")


def test_contributions_bound_what_one_user_counts() -> None:
    """They change the fit and not what is protected: the ledger takes both for the same unit."""
    few, many = Unit.slice("user", contributions=1), Unit.slice("user", contributions=100)
    assert few == many == Unit.parse("slice:user")
    assert hash(few) == hash(many)
    assert str(few) == "slice:user"
    first, second = (
        tv.UserLevelCP(2, unit=unit, noise_seed=0, random_state=0, **PROMISE).fit(ratings()) for unit in (few, many)
    )
    assert not np.array_equal(first.model_.biases[0], second.model_.biases[0])
    assert first.guarantee_.to_json() == second.guarantee_.to_json()


@pytest.mark.parametrize("given", [0, 0.5, float("inf"), "many", True])
def test_contributions_are_checked(given: Any) -> None:
    with pytest.raises(InputError, match="contributions must be"):
        Unit.slice("user", contributions=given)
    with pytest.raises(InputError, match="contributions is for unit 'slice'"):
        Unit("value", contributions=5)


def test_release_holds_what_may_leave(tmp_path: Path) -> None:
    tensor = ratings()
    fitted = tv.UserLevelMatrix(2, unit="slice:user", **PROMISE).fit(tensor)
    folder = write_release(fitted, tmp_path / "release")
    model, guarantee = load_release(folder)
    assert isinstance(model, SharedModel)
    np.testing.assert_array_equal(model.predict_for(tensor, tensor), fitted.predict_for(tensor, tensor))
    assert guarantee.sentence() == fitted.guarantee_.sentence()
    card = (folder / "MODEL_CARD.md").read_text()
    assert "for this person alone" in card
    assert "predict_for" in card
    assert "the part that everybody shares" in card
    notes = write_diagnostics(tmp_path / "own", fitted, tensor, held_out=tensor)
    assert '"train_rmse"' in (notes / "diagnostics.json").read_text()
