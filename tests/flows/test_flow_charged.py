"""A mechanism that fails after the charge: whoever ran it is told that the ledger was charged, in every unit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.errors import CHARGED, was_charged
from tensorveil.mechanisms.names import BY_UNIT
from tensorveil.noise import SecureSource
from tensorveil.runs.private import PrivateRun, release_privately
from tensorveil.runs.reading import Reading
from tests.flows.private_cases import SECRET, SHAPE, names, write_table

UNITS = ("value", "entry", "slice:user")
DELTA = 1e-6


class SpentError(MemoryError):
    """What a mechanism runs into when the budget is spent already; its text quotes the data."""

    def __init__(self) -> None:
        super().__init__(SECRET)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every method fail when it draws its first noise, which comes after the charge."""
    break_noise(monkeypatch)


def break_noise(patch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise SpentError

    patch.setattr(SecureSource, "uniform64", fail)
    patch.setattr(SecureSource, "bytes", fail)


def new_ledger(place: Any, unit: Any) -> Any:
    budget = tv.Budget(epsilon=9.0, delta=1e-3)
    return tv.Ledger.create(place / "ratings.ledger", budget=budget, unit=unit, name="ratings")


def estimator_of(unit: Any, method: Any = "auto") -> Any:
    if method == "records":
        return tv.UserLevelCounts
    return tv.UserLevelCP if unit.startswith("slice") else tv.PrivateCP


CASES = [(unit, method) for unit in UNITS for method in ("auto", *BY_UNIT[unit.partition(":")[0]])]


@pytest.mark.parametrize(("unit", "method"), CASES)
@pytest.mark.usefixtures("failing")
def test_the_shell_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: Any, method: Any) -> None:
    path, ledger = write_table(tmp_path / "ratings.csv", indices=True), new_ledger(tmp_path, unit)
    promise = [
        "--epsilon",
        "2",
        "--delta",
        str(DELTA),
        "--unit",
        unit,
        "--bounds",
        "0" if method == "records" else "1",
        "5",
        "--method",
        method,
        "--value",
        "rating",
    ]
    shape = ["--indices", "--private-shape", ",".join(map(str, SHAPE)), "--rank", "2"]
    if method == "records":
        shape += ["--unlisted", "zero"]
    command = ["complete", str(path), *promise, *shape, "--ledger", str(ledger.path), "-o", str(tmp_path / "release")]
    assert run(command) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert CHARGED in captured.err
    assert "unexpected SpentError" in captured.err
    assert SECRET not in captured.err
    assert [charge.status for charge in ledger.entries()] == ["spent, release unknown"]
    assert names(tmp_path) == ["ratings.csv", "ratings.ledger"]


@pytest.mark.parametrize(("unit", "method"), CASES)
@pytest.mark.usefixtures("failing")
def test_python_is_told_by_a_note_on_the_error(tmp_path: Path, unit: Any, method: Any) -> None:
    path, ledger = write_table(tmp_path / "ratings.csv", indices=True), new_ledger(tmp_path, unit)
    records = method == "records"  # of counts, where other cells hold 0
    promise = {"epsilon": 2.0, "delta": DELTA, "unit": unit, "bounds": (0 if records else 1, 5), "shape": SHAPE}
    asked = PrivateRun(
        reading=Reading(file=path, value="rating", indices=True, unlisted="zero" if records else None),
        estimator=estimator_of(unit, method)(2, method=method, ledger=ledger, **promise),
        output=tmp_path / "release",
    )
    for charges in (1, 2):  # a second try is charged, and said to be, anew
        with pytest.raises(SpentError) as caught:
            release_privately(asked)
        assert was_charged(caught.value)
        assert len(ledger.entries()) == charges
        charged = ledger.entries()[-1].release_id
        assert caught.value.__notes__ == [f"{CHARGED} It is charge {charged} in {ledger.path}."]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.usefixtures("failing")
def test_nothing_is_said_where_nothing_was_charged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: Any
) -> None:
    path = write_table(tmp_path / "ratings.csv", indices=True)
    reading = Reading(file=path, value="rating", indices=True)
    promise = {"delta": DELTA, "unit": unit, "bounds": (1, 5), "shape": SHAPE}
    without = PrivateRun(
        reading=reading, estimator=estimator_of(unit)(2, epsilon=2.0, **promise), output=tmp_path / "release"
    )
    with pytest.raises(SpentError) as caught:
        release_privately(without)
    assert not was_charged(caught.value)
    ledger = new_ledger(tmp_path, unit)
    dear = PrivateRun(
        reading=reading,
        estimator=estimator_of(unit)(2, epsilon=20.0, ledger=ledger, **promise),
        output=tmp_path / "release",
    )
    with pytest.raises(tv.TensorveilError, match="exceed the budget") as refused:
        release_privately(dear)
    assert not was_charged(refused.value)
    assert ledger.entries() == ()


def test_the_server_of_a_federation_says_so_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorveil.rounds import Recipe
    from tests.flows.federated_parties import DECLARED, PROMISE, ratings

    def fail(*_: Any) -> None:
        raise SpentError

    monkeypatch.setattr(Recipe, "finish", fail)
    ratings().write(tmp_path / "ratings.npz")
    ledger = new_ledger(tmp_path, "slice:user")
    command = ["federate", "simulate", str(tmp_path / "ratings.npz"), *DECLARED, *PROMISE, "--trust", "secure"]
    assert run([*command, "--ledger", str(ledger.path), "-o", str(tmp_path / "release")]) == 1
    captured = capsys.readouterr()
    assert CHARGED in captured.err
    assert SECRET not in captured.err
    assert len(ledger.entries()) == 1


def test_a_run_can_be_called_again_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, ledger = write_table(tmp_path / "ratings.csv"), new_ledger(tmp_path, "value")
    asked = PrivateRun(
        reading=Reading(file=path, value="rating"),
        estimator=tv.PrivateCP(2, epsilon=2.0, delta=0.0, unit="value", bounds=(1, 5), ledger=ledger, sweeps=2),
        output=tmp_path / "release",
    )
    with monkeypatch.context() as patch:
        break_noise(patch)
        with pytest.raises(SpentError):
            release_privately(asked)
    released = release_privately(asked)
    assert list(released.files) == names(tmp_path / "release")
    assert [charge.status for charge in ledger.entries()] == ["spent, release unknown", "released"]
    json.dumps(released.to_json(), allow_nan=False)


@pytest.mark.usefixtures("failing")
def test_reports_of_single_tensors_say_so_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "mine.npy", np.full((3, 4), 0.5))
    ledger = new_ledger(tmp_path, "tensor")
    promise = ["--epsilon", "2", "--unit", "tensor", "--bounds", "0", "1", "--ledger", str(ledger.path)]
    assert run(["perturb", str(tmp_path / "mine.npy"), str(tmp_path / "report.npy"), *promise]) == 1
    assert CHARGED in capsys.readouterr().err
    assert len(ledger.entries()) == 1
