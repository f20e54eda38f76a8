"""What protects a few entries of a tensor is never stated, charged or shuffled as if it protected the whole tensor.

With one differing entry at epsilon 1, a whole picture of 784 pixels is told apart with certainty: its epsilon is 784. A
ledger for whole tensors that takes such a charge states a number that is false.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorveil.cli.main import run
from tensorveil.errors import InputError
from tensorveil.local import RandomizedResponse, Staircase, mechanism_from_json, mechanism_to_json, shuffle
from tensorveil.privacy import Budget, BudgetExceededError, Guarantee, Ledger, Unit

FEW = ["--epsilon", "1", "--unit", "tensor", "--bounds", "0", "1", "--differ", "1", "--mechanism", "staircase"]


def perturb(folder: Path, *options: str) -> int:
    np.save(folder / "x.npy", np.zeros((28, 28)))
    return run(["perturb", str(folder / "x.npy"), str(folder / "y.npy"), *options])


def test_a_ledger_for_whole_tensors_refuses_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger.create(tmp_path / "l.ledger", budget=Budget(epsilon=1.0, delta=0.0), unit="tensor", name="me")
    assert perturb(tmp_path, *FEW, "--ledger", str(ledger.path)) == 2
    assert "'tensor:differ=1'" in " ".join(capsys.readouterr().err.split())
    assert ledger.entries() == ()
    assert not (tmp_path / "y.npy").exists()


def test_a_ledger_of_its_own_states_what_it_protects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "l.ledger")
    budget = ["--epsilon", "1", "--delta", "0", "--unit", "tensor:differ=1", "--name", "me"]
    assert run(["budget", "create", path, *budget]) == 0
    assert perturb(tmp_path, *FEW, "--ledger", path) == 0
    assert run(["budget", "show", path]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "replace up to 1 entry of the owner's tensor" in said
    assert "whole tensor" not in said
    more = Staircase(shape=(3,), epsilon=0.1, unit=Unit.tensor(differ=2), bounds=(0, 1)).guarantee()
    with pytest.raises(BudgetExceededError):  # it would be covered, but nothing is left
        Ledger.open(path).charge(more, "another", "id")


def test_the_sentence_does_not_contradict_itself() -> None:
    found = Staircase(shape=(28, 28), epsilon=1.0, unit=Unit.tensor(differ=3), bounds=(0, 1)).guarantee()
    assert "whether or not up to 3 entries of the owner's tensor were different" in found.sentence()
    assert "whole" not in found.sentence()
    again = Guarantee.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found
    assert again.unit != Unit.tensor()


def test_mechanisms_stored_before_are_read_as_what_they_are() -> None:
    made = Staircase(shape=(4,), epsilon=1.0, unit="tensor", bounds=(0, 1))
    earlier: dict[str, Any] = mechanism_to_json(made) | {"differ": 2, "outside": "error"}
    assert str(mechanism_from_json(earlier).guarantee().unit) == "tensor:differ=2"


def test_a_crowd_whose_tensors_differ_more_hides_nobody() -> None:
    """The proof of shuffling compares one's report with any other user's, who is no neighbour here.

    One user answers for a tensor of ones, the others for zeros, with all of epsilon for each of many entries: the
    report of ones is found in the crowd with certainty, wherever it stands.
    """
    entries, users = 200, 2_000
    mechanism = RandomizedResponse(
        shape=(entries,), epsilon=1.0, unit="tensor:differ=1", bounds=(0, 1), points=2, coordinates=None
    )
    crowd = np.zeros((users, entries))
    crowd[77] = 1
    reports = mechanism.perturb(crowd)
    assert np.argmax(reports.mean(axis=1)) == 77
    with pytest.raises(InputError, match="without differ"):
        shuffle(mechanism.guarantee(), users, 1e-5)
