"""Plans in Python: which accuracy for an epsilon, which epsilon for an accuracy, by the same rules for every unit."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tensorveil.errors import InputError
from tensorveil.privacy import Unit
from tensorveil.runs.guesses import Guessed, find_budget
from tensorveil.runs.plan import PlanRun, plan_budgets
from tensorveil.runs.plan_means import MeansRun, plan_means
from tensorveil.runs.reading import Reading

FITS: dict[str, dict[str, Any]] = {
    "value": {"shape": (943, 1682), "entries": 90_570, "bounds": (1, 5), "rank": 10},
    "entry": {"shape": (943, 1682), "entries": 90_570, "bounds": (1, 5), "rank": 2},
    "slice:user": {"shape": (6040, 3706), "entries": 900_000, "bounds": (1, 5), "delta": 1e-6},
}
MEANS: dict[str, dict[str, Any]] = {
    "tensor": {"shape": (10,), "people": 10_000, "bounds": (0, 1)},
    "tensor:differ=2": {"shape": (10,), "people": 10_000, "bounds": (0, 1), "delta": 1e-6},
    "local entry": {"shape": (4, 3), "people": 10_000, "bounds": (-1, 1), "spread": 0.5},
}
EPSILONS = tuple(np.geomspace(0.01, 30, 25).tolist())


def ask(unit: str, **changes: Any) -> Any:
    if unit in FITS:
        return plan_budgets(PlanRun(unit=unit, **{**FITS[unit], **changes}))
    return plan_means(MeansRun(unit=unit, **{**MEANS[unit], **changes}))


@pytest.mark.parametrize("unit", [*FITS, *MEANS])
def test_errors_fall_with_epsilon(unit: str) -> None:
    errors = [each.rmse for each in ask(unit, epsilons=EPSILONS).budgets]
    assert all(math.isfinite(error) for error in errors)
    assert all(after <= before * (1 + 1e-6) for before, after in itertools.pairwise(errors))
    assert errors[-1] < errors[0]


@pytest.mark.parametrize(
    ("unit", "wanted"),
    [("value", 0.25), ("entry", 0.3), ("slice:user", 0.24), *((unit, 0.02) for unit in MEANS)],
)
def test_the_answer_is_the_smallest_epsilon_that_does(unit: str, wanted: float) -> None:
    answer = ask(unit, rmse=wanted).answer
    assert answer.rmse <= wanted
    (less,) = ask(unit, epsilons=(0.98 * answer.epsilon,)).budgets
    assert less.rmse > wanted
    (same,) = ask(unit, epsilons=(answer.epsilon,)).budgets
    assert same.rmse == answer.rmse


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("rmse", [0.05, 0.3, 2.0, 50.0])
def test_searching_is_like_trying_all(power: float, rmse: float) -> None:
    def guess(epsilon: float) -> Guessed:
        return Guessed(epsilon=epsilon, method="a", errors={"a": epsilon**-power, "b": 1e-9})

    exact = rmse ** (-1 / power)
    if exact > 100:
        with pytest.raises(InputError, match=r"rmse must be at least 0\.1, the error at epsilon 100"):
            find_budget(guess, rmse)
        return
    found = find_budget(guess, rmse)
    assert found.rmse <= rmse
    assert max(exact, 1e-3) <= found.epsilon <= max(exact, 1e-3) * 1.011


@pytest.mark.parametrize("unit", [*FITS, *MEANS])
def test_errors_scale_with_what_is_declared(unit: str) -> None:
    first = ask(unit, epsilons=(1.0,)).budgets[0].rmse
    # Four times the people; the same tensor in other units of measurement.
    changes: dict[str, Any] = {"people": 40_000} if unit in MEANS else {"bounds": (100, 500)}
    factor = 0.5 if unit in MEANS else 100.0
    assert ask(unit, epsilons=(1.0,), **changes).budgets[0].rmse == pytest.approx(factor * first)


@pytest.mark.parametrize("unit", FITS)
def test_a_spread_is_used_by_every_guess(unit: str) -> None:
    typical, same, wide = (ask(unit, epsilons=(1.0,), spread=spread) for spread in (None, 0.4, 1.1))
    assert typical.budgets == same.budgets
    assert wide.budgets[0].rmse > typical.budgets[0].rmse
    assert "as declared" in wide.assumed
    for found in (typical, wide):
        assert found.held_out(found.budgets[0]) > found.budgets[0].rmse
        assert "guess" in found.assumed


def test_contributions_and_protected_modes_count() -> None:
    facts = {**FITS["slice:user"], "epsilons": (1.0,)}
    few = plan_budgets(PlanRun(unit=Unit.slice("user", contributions=4), **facts))
    assert few.budgets != plan_budgets(PlanRun(unit="slice:user", **facts)).budgets
    turned = {**facts, "shape": (3706, 6040), "modes": ("film", "user")}
    assert plan_budgets(PlanRun(unit="slice:user", **turned)).budgets == ask("slice:user", epsilons=(1.0,)).budgets


@pytest.mark.parametrize("model", ["cp", "tucker", "matrix"])
def test_every_model_can_be_planned_for(model: str) -> None:
    for unit in FITS:
        (found,) = ask(unit, epsilons=(1.0,), model=model, rank=2).budgets
        assert 0 < found.rmse < 4


@pytest.mark.parametrize(
    ("unit", "changes", "words"),
    [
        ("value", {}, "give an epsilon, or the rmse to reach"),
        ("value", {"rmse": math.nan}, "rmse must be a finite number above 0"),
        ("value", {"rmse": 0.31}, "rmse must be below 0.31, which a constant"),
        ("value", {"rmse": 1e-6}, "rmse must be at least"),
        ("entry", {"epsilons": (1.0,), "entries": 0}, "entries must be a whole number of at least 1"),
        ("entry", {"epsilons": (1.0,), "entries": None}, "shape and entries must be given"),
        ("entry", {"epsilons": (1.0,), "spread": 3.0}, "spread must be"),
        ("entry", {"epsilons": (1.0,), "delta": 0.001}, "delta must be below one in"),
        ("entry", {"epsilons": (1.0,), "reading": Reading(file="no.csv")}, "reading: positions are private"),
        ("slice:user", {"epsilons": (1.0,), "delta": 0.0}, "delta must be above 0"),
        ("slice:user", {"epsilons": (1.0,), "delta": 0.001}, "delta must be below one in"),
        ("slice:user", {"epsilons": (1.0,), "modes": ("a", "b")}, "modes must name"),
        ("slice:user", {"epsilons": (0.0,)}, "epsilon must be"),
        ("slice:user", {"epsilons": (1.0,), "spread": -1.0}, "spread must be"),
        ("tensor", {"epsilons": (41.0,)}, "epsilon must be at most 40"),
        ("tensor", {"epsilons": (1.0,), "people": 0}, "people must be a whole number"),
        ("tensor", {"epsilons": (1.0,), "bounds": None}, "give either bounds"),
        ("tensor", {"epsilons": (1.0,), "spread": 0.6}, "spread must be"),
        ("tensor", {"epsilons": (1.0,), "bounds": None, "radius": 1.0, "spread": 2.0}, "spread must be"),
        ("tensor", {"rmse": 1e-12}, "rmse must be at least"),
        ("tensor", {}, "give an epsilon"),
    ],
)
def test_bad_questions_are_refused(unit: str, changes: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ask(unit, **changes)


def test_units_belong_to_their_plan() -> None:
    with pytest.raises(InputError, match="unit must be value, entry or slice:MODE here"):
        plan_budgets(PlanRun(unit="tensor", **FITS["value"], epsilons=(1.0,)))
    with pytest.raises(InputError, match="unit must be one of tensor, local entry"):
        plan_means(MeansRun(unit="value", **MEANS["tensor"], epsilons=(1.0,)))
