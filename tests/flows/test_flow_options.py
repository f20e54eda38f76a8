"""What a verb advises about a table that it cannot take is an option that it has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tests.advice import find_missing

pytestmark = pytest.mark.usefixtures("advice_can_be_followed")
ROWS = ["u0,f0,1", "u1,f1,2", "u2,f0,3", "u0,f1,4", "u1,f0,5"]
TABLES = {
    "duplicates": ["user,film,rating", *ROWS, "u0,f0,2"],
    "no value": ["user,film,rating", *ROWS, "u2,f1,"],
    "no label": ["user,film,rating", *ROWS, ",f1,2"],
    "text": ["user,film,rating", *ROWS, "u2,f1,four"],
    "decimal commas": ["user;film;rating", "u0;f0;1.5", "u1;f1;1,5", "u2;f0;2,5"],
    "thousands": ["user,film,rating", *ROWS, 'u2,f1,"1,000.50"'],
    "out of bounds": ["user,film,rating", *ROWS, "u2,f1,50"],
    "two values": ["user,film,rating,note", *(f"{row},1" for row in ROWS)],
    "another name": ["user,flim,rating", *ROWS],
    "moments": ["user,time,rating", *(f"u{n},soon,{n}" for n in range(4))],
    "no names": ROWS,
    "one column": ["rating", "1", "2"],
    "an index": [",user,film,rating", *(f"{n},{row}" for n, row in enumerate(ROWS))],
    "ragged": ["user,film,rating", *ROWS, "u2,f1"],
    "empty": [],
}
PROMISE = ["--bounds", "1", "5", "--epsilon", "1"]
USERS = ["--delta", "1e-6", "--protect", "user", "--private-shape"]
VERBS = {
    "info": ["info", "FILE"],
    "plan": ["plan", "FILE", *PROMISE],
    "complete": ["complete", "FILE", "-o", "OUT", "--bounds", "1", "5"],
    "complete value": ["complete", "FILE", "-o", "OUT", *PROMISE, "--unit", "value"],
    "complete entry": ["complete", "FILE", "-o", "OUT", *PROMISE, "--unit", "entry"],
    "complete slice": ["complete", "FILE", "-o", "OUT", *PROMISE, "--unit", "slice:user"],
    "complete bins": ["complete", "FILE", "-o", "OUT", "--bin", "time=day"],
    "evaluate": ["evaluate", "MODEL", "--at", "FILE"],
    "predict": ["predict", "MODEL", "--at", "FILE", "-o", "OUT"],
    "recommend": ["recommend", "MODEL", "--for", "user", "--entries", "FILE"],
    "audit": ["audit", "MODEL", "--data", "FILE"],
    "perturb": ["perturb", "FILE", "OUT.csv", *PROMISE, "--unit", "local-entry"],
    "store": ["store", "FILE", "-o", "OUT", "--order", "user"],
    "store value": ["store", "FILE", "-o", "OUT", "--order", "user", "--unit", "value", "--bounds", "1", "5"],
    "federate": ["federate", "simulate", "FILE", "-o", "OUT", *PROMISE, *USERS, "3,2"],
    "federate indices": ["federate", "simulate", "FILE", "-o", "OUT", *PROMISE, *USERS, "3,2", "--indices"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options")
    for name, lines in TABLES.items():
        (folder / f"{name}.csv").write_text("".join(f"{line}\n" for line in lines))
    cells = {"user": ["u0", "u1", "u2"], "film": ["f0", "f1", "f0"], "rating": [1.0, 2.0, 3.0]}
    tensor = tv.ObservedTensor.from_frame(pa.table(cells))
    tv.CP(1, sweeps=1, random_state=0, threads=1).fit(tensor).model_.save(folder / "model.npz")
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_advised_of_a_table_is_an_option_of_the_verb(place: Path, tmp_path: Path, verb: str) -> None:
    codes = []
    for name in TABLES:
        words = {"FILE": place / f"{name}.csv", "MODEL": place / "model.npz", "OUT": tmp_path / name}
        codes.append(run([str(words.get(word, word)).replace("OUT", str(tmp_path / name)) for word in VERBS[verb]]))
    # What is said is looked at wherever the command runs (tests/advice.py); here much is said.
    assert codes.count(2) >= 3
    assert 1 not in codes


def test_advice_that_cannot_be_followed_is_found() -> None:
    assert find_missing("recommend", "pass --duplicates mean, or --entries FILE") == {"--duplicates"}
    assert not find_missing("budget", "Start one with: tensorveil budget create data.ledger --epsilon 1")
    assert not find_missing("evaluate", "predict held-out cells with --entries FILE")


def test_values_that_no_prediction_reaches_are_counted(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["complete", str(place / "no value.csv"), "--missing", "drop", "--bounds", "1", "5", "--rank", "1"]
    assert run([*given, "--no-fill", "--no-report", "-o", str(tmp_path / "out")]) == 0
    for name, counted in {"out of bounds": True, "thousands": False}.items():
        capsys.readouterr()
        assert run(["evaluate", str(tmp_path / "out"), "--at", str(place / f"{name}.csv"), "--missing", "drop"]) == 0
        said = " ".join(capsys.readouterr().err.split())
        assert ("1 of 6 held-out values lie outside the bounds of the model, 1 to 5" in said) is counted


def test_the_data_of_an_audit_are_read_as_they_were_fitted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["audit", str(place / "model.npz"), "--data"]
    assert run([*given, str(place / "duplicates.csv"), "--duplicates", "mean"]) in (0, 3)
    assert run(["audit", "noise/laplace", "--duplicates", "mean"]) == 2
    assert "say how --data is read" in capsys.readouterr().err


def test_the_folder_of_diagnostics_is_named(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["complete", str(place / "two values.csv"), "--value", "rating", "--modes", "user,film", *PROMISE]
    aside = ["--diagnostics", str(tmp_path / "none" / "aside")]
    assert run([*given, "--unit", "value", "-o", str(tmp_path / "out"), *aside]) == 2
    assert "--diagnostics: " in capsys.readouterr().err


def test_whoever_says_indices_is_told_what_becomes_of_names(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [
        "complete",
        str(place / "out of bounds.csv"),
        "--value",
        "rating",
        *PROMISE,
        "--unit",
        "entry",
        "--rank",
        "1",
    ]
    sizes = ["--indices", "--private-shape", "3,2", "--no-fill", "--no-report", "-o", str(tmp_path / "out")]
    assert run([*given, *sizes]) == 0  # of no entry, which nobody may be told
    assert "such as names, are left out" in capsys.readouterr().err
