"""Every mechanism describes itself; one that forgets something is refused when it is imported."""

import dataclasses
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tensorveil.completion.methods import METHODS as ALL
from tensorveil.mechanisms import catalogue
from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.catalogue import COMPARED, METHODS, load_method
from tensorveil.mechanisms.method import NOT_COMPARED, Method
from tensorveil.mechanisms.names import BY_UNIT
from tensorveil.mechanisms.planner import plan
from tensorveil.privacy import Budget, Unit

FACTS: dict[str, Any] = {"shape": (30, 20), "n_entries": 300, "bounds": (0.0, 1.0), "ranks": (2, 2), "core": False}


def module(monkeypatch: pytest.MonkeyPatch, **contents: Any) -> None:
    """A mechanism that somebody adds: mechanisms/median.py."""
    made = ModuleType("tensorveil.mechanisms.median")
    vars(made).update(contents)
    monkeypatch.setitem(sys.modules, made.__name__, made)


def describe(**changes: Any) -> Any:
    facts = {
        "name": "median", "title": "private median", "unit": "value", "run": METHODS["mean"].run,
        "proofs": ("docs/guarantees.md#sums",), "expected": METHODS["mean"].expected,
    }  # fmt: skip
    return Method(**{**facts, **changes})


@pytest.mark.parametrize(("unit", "name"), [(unit, name) for unit, names in BY_UNIT.items() for name in names])
def test_every_name_has_a_method(unit: Any, name: str) -> None:
    assert ALL[name].name == name
    assert ALL[name].unit == unit
    assert ALL[name].proofs
    if unit != "slice":
        assert METHODS[name] is ALL[name]


def test_there_is_no_method_without_a_name() -> None:
    assert set(ALL) == {name for names in BY_UNIT.values() for name in names}
    compared = {name for name in BY_UNIT["value"] if METHODS[name].expected is not NOT_COMPARED}
    assert set(COMPARED) == compared


def test_a_method_without_a_prediction_is_refused() -> None:
    with pytest.raises(TypeError, match=r"'median' predicts no error.*expected=FUNCTION of a Case.*NOT_COMPARED"):
        describe(expected=None)
    with pytest.raises(TypeError, match=r"in unit 'entry' the number of entries is private"):
        describe(unit="entry")
    with pytest.raises(TypeError, match="names no proof"):
        describe(proofs=())


def test_a_module_that_forgets_its_prediction_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it would happen: the file is there, the name is listed, and importing the catalogue says what is missing."""
    text = (
        "from tensorveil.mechanisms.mean import run_mean\n"
        "from tensorveil.mechanisms.method import Method\n"
        "PROOFS = ('docs/guarantees.md#sums',)\n"
        "METHOD = Method(name='median', title='private median', unit='value', run=run_mean, proofs=PROOFS)\n"
    )
    (tmp_path / "median.py").write_text(text)
    monkeypatch.setattr(sys.modules["tensorveil.mechanisms"], "__path__", [str(tmp_path)])
    with pytest.raises(TypeError, match="'median' predicts no error"):
        load_method("median", "value")


def test_names_and_methods_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    module(monkeypatch)
    with pytest.raises(TypeError, match="must end with METHOD"):
        load_method("median", "value")
    module(monkeypatch, METHOD=describe(name="mode"))
    with pytest.raises(TypeError, match=r"describes 'mode' for unit 'value', but names\.py lists 'median'"):
        load_method("median", "value")
    module(monkeypatch, METHOD=describe(unit="entry", expected=NOT_COMPARED))
    with pytest.raises(TypeError, match=r"for unit 'entry', but names\.py lists 'median' for unit 'value'"):
        load_method("median", "value")
    module(monkeypatch, METHOD=describe())
    assert load_method("median", "value").title == "private median"


def test_what_is_not_compared_runs_when_it_is_asked_for() -> None:
    for delta, noise in ((0.0, "laplace"), (1e-6, "gaussian")):
        budget = Budget(epsilon=1.0, delta=delta)
        chosen = plan(budget=budget, unit=Unit.value(), method="median", **FACTS)
        assert (chosen.method, chosen.noise) == ("median", noise)
        assert "median" not in {prediction.method for prediction in chosen.predictions}


def test_a_new_prediction_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorveil.mechanisms.planner.COMPARED", {**catalogue.COMPARED, "oracle": lambda case: 0.0})
    chosen = plan(budget=Budget(epsilon=1.0, delta=0.0), unit=Unit.value(), **FACTS)
    assert chosen.method == "staged"  # a guess is no reason
    assert chosen.predictions[0].method == "oracle"
    assert chosen.predictions[0].rmse == 0.0
    assert chosen.ranks == (2, 2)


def test_parts_of_a_budget_have_more_noise() -> None:
    pure = Case(shape=(30, 20), n_entries=300, ranks=(2, 2), core=False, epsilon=1.0, mu=None)
    gaussian = dataclasses.replace(pure, epsilon=None, mu=1.0)
    assert pure.part(0.5).noise == 4 * pure.noise
    assert gaussian.part(0.5).noise == pytest.approx(2 * gaussian.noise)
    assert pure.side_noise > pure.mean_noise
