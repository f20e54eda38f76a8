"""A grid search over private estimators chooses by errors on the raw data, and the winner keeps its small epsilon.

One changed value then decides which setting wins, which everybody sees in the released model, while the guarantee that
is printed with it counts a single fit. A selection must be charged as a whole, and its winner carry the whole cost.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import tensorveil as tv
from tensorveil.privacy import Budget, BudgetExceededError, Ledger, Unit

PROMISE: dict[str, Any] = {"delta": 0.0, "unit": "value", "bounds": (0.0, 1.0), "method": "mean", "random_state": 0}
OPTIONS: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "held_out": 0.3, "random_state": 0}
CELLS = np.argwhere(np.ones((3, 7)))
FIRST = np.zeros(21)
SECOND = np.where(np.arange(21) == 0, 1.0, FIRST)  # its neighbour


def folds() -> Any:
    """Fit to all but the first value, and compare on this one."""
    return [(np.arange(1, 21), np.array([0]))]


def test_a_grid_search_by_raw_errors_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger", budget=Budget(epsilon=1.0, delta=0.0), unit=Unit.value(), name="values")
    private = tv.PrivateCP(1, epsilon=0.01, ledger=ledger, **PROMISE)
    search = GridSearchCV(private, {"rank": [1, 2]}, cv=folds())
    with pytest.raises(tv.InputError, match=r"no score.*choose_privately"):
        search.fit(CELLS, FIRST)
    with pytest.raises(tv.InputError, match=r"no score.*choose_privately"):
        cross_val_score(private, CELLS, FIRST, cv=folds())
    assert not hasattr(search, "best_estimator_")
    assert ledger.entries() == ()


@pytest.mark.parametrize("estimator", [tv.PrivateCP, tv.PrivateTucker, tv.PrivateLowRankMatrix])
def test_no_private_estimator_has_a_score_that_others_could_choose_by(estimator: Any) -> None:
    fitted = clone(estimator(1, epsilon=1.0, **PROMISE)).fit(CELLS, FIRST)
    with pytest.raises(tv.InputError, match="no score"):
        fitted.score(CELLS, FIRST)
    assert fitted.__sklearn_tags__().estimator_type == "regressor"


@pytest.mark.parametrize("estimator", [tv.UserLevelCP, tv.UserLevelTucker, tv.UserLevelMatrix])
def test_estimators_for_whole_users_say_why_they_have_none(estimator: Any) -> None:
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "unit": "slice:user", "bounds": (0, 1), "shape": (3, 7)}
    private = estimator(1, **promise)
    with pytest.raises(tv.InputError, match=r"no score.*choose_privately"):
        cross_val_score(private, CELLS, FIRST, cv=folds())


def choose(values: Any, **changes: Any) -> Any:
    """Choose between a fit that is all noise and one that is nearly exact, by the first value among others."""
    candidates = [tv.PrivateCP(1, epsilon=epsilon, **PROMISE) for epsilon in (0.001, 0.999)]
    return tv.choose_privately(candidates, tv.ObservedTensor(CELLS, values), **(OPTIONS | changes))


def test_one_value_does_not_decide_which_setting_wins() -> None:
    # At epsilon = 1 no outcome may be reserved for one of two neighbours.
    chosen = [{choose(values, noise_seed=seed).best_ for seed in range(20)} for values in (FIRST, SECOND)]
    assert chosen == [{0, 1}, {0, 1}]


def test_the_winner_cannot_be_published_with_the_epsilon_of_a_single_fit(tmp_path: Path) -> None:
    found = choose(FIRST)
    for released in (found, found.estimator_):
        assert released.guarantee_.epsilon == 1.0
    folder = tv.write_release(found.estimator_, tmp_path / "release")
    assert tv.load_release(folder)[1].epsilon == 1.0
    assert not hasattr(found.estimator_, "fit")
    with pytest.raises(AttributeError):
        found.estimator_.guarantee_ = None
    candidate = tv.PrivateCP(1, epsilon=1.0, **PROMISE)
    tv.choose_privately([candidate], tv.ObservedTensor(CELLS, FIRST), **OPTIONS)
    assert not hasattr(candidate, "model_")
    assert not hasattr(candidate, "guarantee_")


def test_all_candidates_are_charged_together_and_first(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger", budget=Budget(epsilon=1.5, delta=0.0), unit=Unit.value(), name="values")
    found = choose(FIRST, ledger=ledger)
    assert ledger.spent().epsilon == 1.0
    with pytest.raises(BudgetExceededError):
        choose(FIRST, ledger=ledger)
    assert [entry.release_id for entry in ledger.entries()] == [found.estimator_.release_id_]


def test_the_order_of_rows_does_not_decide_which_entries_are_compared() -> None:
    rng = np.random.default_rng(0)
    values = rng.random(21)
    candidates = [tv.PrivateCP(1, epsilon=epsilon, **PROMISE) for epsilon in (1.0, 2.0)]
    found = []
    for order in (np.arange(21), np.argsort(values)):
        tensor = tv.ObservedTensor(CELLS[order], values[order], shape=(3, 7))
        options: dict[str, Any] = {"epsilon": 3.0, "delta": 0.0, "random_state": 1, "noise_seed": 2}
        found.append(tv.choose_privately(candidates, tensor, **options))
    assert found[0].errors_ == found[1].errors_
    assert found[0].model_.offset == found[1].model_.offset
