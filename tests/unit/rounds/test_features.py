"""Public features in user-level fits: tastes for them against dense regressions, which are used, what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tensorveil as tv
from tensorveil.errors import InputError
from tensorveil.privacy import Budget, Ledger
from tensorveil.rounds import SharedModel
from tensorveil.rounds.features import SHARE, add_features, speaks

PROMISE: dict[str, Any] = {
    "epsilon": 50.0, "delta": 1e-6, "unit": "slice:user", "bounds": (-3, 3), "noise_seed": 0, "random_state": 0,
    "threads": 1,
}  # fmt: skip
SHAPE = (400, 60)


def films() -> pa.Table:
    rng = np.random.default_rng(0)
    kinds = rng.choice(["western", "opera"], SHAPE[1])
    return pa.table({"film": range(SHAPE[1]), "kind": kinds, "chance": rng.standard_normal(SHAPE[1])})


def ratings() -> tv.ObservedTensor:
    """Westerns are liked a little more than operas, but some users like one kind much more than the other."""
    rng = np.random.default_rng(1)
    kinds = np.where([kind == "western" for kind in films()["kind"].to_pylist()], 1, -1)
    truth = kinds * (0.3 + 0.8 * rng.standard_normal((SHAPE[0], 1))) + 0.3 * rng.standard_normal(SHAPE[1])
    seen = rng.random(SHAPE) < 0.3
    values = np.clip(truth + 0.3 * rng.standard_normal(SHAPE), -3, 3)
    return tv.ObservedTensor(np.argwhere(seen), values[seen], SHAPE, modes=("user", "film"))


def design(model: SharedModel, columns: Any) -> Any:
    """What tastes multiply, written out."""
    rows = [factor[column] for factor, column in zip(model.factors, columns, strict=True)]
    if model.core is None:
        return np.prod(rows, axis=0)
    return np.stack([np.einsum("abc,a,b->c", np.moveaxis(model.core, 0, 2), *each) for each in zip(*rows, strict=True)])


@pytest.mark.parametrize("estimator", [tv.UserLevelCP, tv.UserLevelTucker])
def test_tastes_for_features_are_a_ridge_regression_on_own_entries(estimator: Any) -> None:
    problem = tv.synthetic_cp((40, 12, 5), 2, random_state=0).train.with_modes(("user", "film", "day"))
    plain = estimator(2, **PROMISE, shape=problem.shape).fit(problem).model_
    rng = np.random.default_rng(3)
    tables = {1: np.array([[1.0], [-1.0]] * 6), 2: rng.standard_normal((5, 2))}
    model = plain
    for mode, features in tables.items():  # all of them are used: the level is not what is tested
        from tensorveil.rounds.features import _widen

        model = _widen(model, mode - 1, features)
    assert model.n_traits == plain.n_traits + 3
    assert model.rank == plain.rank
    mine = problem.take(problem.columns[0] == problem.columns[0][0])
    columns = mine.columns[1:]
    old, new = design(plain, columns), design(model, columns)
    cut = plain.n_traits
    np.testing.assert_allclose(new[:, :cut], old[:, :cut])
    np.testing.assert_allclose(new[:, cut : cut + 3], np.hstack([tables[1][columns[0]], tables[2][columns[1]]]))
    np.testing.assert_allclose(new[:, cut + 3 :], old[:, cut:])
    given = np.column_stack([np.ones(len(new)), new])
    prior = np.linalg.inv(model.taste_covariance)
    shared = model.offset + sum(bias[column] for bias, column in zip(model.biases, columns, strict=True))
    left = np.clip(mine.values, *model.bounds) - shared
    right = given.T @ left / model.spread + prior @ model.taste_mean
    own = np.linalg.solve(given.T @ given / model.spread + prior, right)
    expected = np.clip(shared + given @ own, *model.bounds)
    np.testing.assert_allclose(model.predict_for(mine, mine), expected, atol=1e-6)
    np.testing.assert_allclose(np.diag(model.taste_covariance)[1 + cut : 4 + cut], SHARE * model.spread)


def test_columns_that_speak_of_the_rows_are_used_and_others_are_not() -> None:
    train = ratings()
    fits = {name: tv.UserLevelMatrix(2, **PROMISE, method="biases", shape=SHAPE, side=side).fit(train)
            for name, side in (("without", None), ("with", {"film": films()}),
                               ("chance", {"film": films().drop_columns(["kind"])}))}  # fmt: skip
    assert "'kind'" in fits["with"].notes_[1]
    assert "'chance'" not in fits["with"].notes_[1]
    assert "none" in fits["chance"].notes_[1]
    errors = {name: fit.rmse_for(train, train) for name, fit in fits.items()}
    assert errors["with"] < 0.9 * errors["without"]
    assert errors["chance"] == errors["without"]


def test_tables_change_nothing_that_is_computed_from_the_data() -> None:
    train = ratings()
    without, having = (
        tv.UserLevelMatrix(2, **PROMISE, shape=SHAPE, side=side).fit(train) for side in (None, {"film": films()})
    )
    assert without.guarantee_.event == having.guarantee_.event
    assert without.guarantee_.composition == having.guarantee_.composition
    np.testing.assert_array_equal(without.model_.biases[0], having.model_.biases[0])
    cut, more = without.model_.n_traits, having.model_.n_traits
    np.testing.assert_array_equal(without.model_.factors[0][:, cut:], having.model_.factors[0][:, more:])


def test_the_guarantee_says_which_tables_were_taken_as_public(tmp_path: Path) -> None:
    promise = {**PROMISE, "epsilon": 2.0, "noise_seed": None}
    with pytest.warns(tv.NoLedgerWarning):
        fitted = tv.UserLevelMatrix(2, **promise, method="biases", shape=SHAPE, side={"film": films()}).fit(ratings())
    assert "the table of features of film" in fitted.guarantee_.public
    assert "the table of features of film" in fitted.guarantee_.sentence()
    fitted.save(tmp_path / "model.npz")
    again = SharedModel.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.factors[0], fitted.model_.factors[0])


def test_chance_passes_the_test_of_relevance_seldom() -> None:
    rng = np.random.default_rng(4)
    known = rng.standard_normal((300, 4))
    said = sum(speaks(rng.standard_normal((300, 5)), known) for _ in range(1000))
    assert said <= 6  # one in a thousand is expected
    assert speaks(known[:, :1] + rng.standard_normal((300, 1)), known)
    assert not speaks(np.ones((300, 1)) * rng.standard_normal(300)[:, None], np.zeros((300, 2)))


def test_tables_of_no_use_leave_the_model_as_it_was() -> None:
    fitted = tv.UserLevelMatrix(2, **PROMISE, shape=SHAPE).fit(ratings()).model_
    noise = np.random.default_rng(5).standard_normal((SHAPE[1], 2))
    extended = add_features(fitted, {1: (noise, np.array([0, 0]))})
    assert extended.model is fitted
    assert extended.used == {1: ()}


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ({"user": pa.table({"user": range(400), "age": range(400)})}, "features of 'user' are private"),
        ({"film": pa.table({"film": [0, 0], "kind": [1, 2]})}, "lists a label of mode 'film' twice"),
        ({"film": pa.table({"film": [900], "kind": [1]})}, "has no label that mode 'film'"),
        (
            {"film": pa.table({"film": [0, 1], "kind": [np.nan, np.nan]})},
            "no feature of mode 'film'",
        ),
        ({"film": films(), 1: films()}, "names a mode twice"),
        (films(), "side must map modes"),
    ],
)
def test_wrong_tables_are_refused_before_anything_is_charged(side: Any, message: str, tmp_path: Path) -> None:
    budget = Budget(epsilon=100.0, delta=1e-3)
    ledger = Ledger.create(tmp_path / "ledger", budget=budget, unit="slice:user", name="ratings")
    estimator = tv.UserLevelMatrix(2, **{**PROMISE, "noise_seed": None}, shape=SHAPE, side=side, ledger=ledger)
    with pytest.raises(InputError, match=message):
        estimator.fit(ratings())
    assert not hasattr(estimator, "release_id_")
    assert not ledger.entries()
