"""From a table to a release of unit slice, and from a person's entries to the person's answers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

from tensorveil.cli.main import run
from tensorveil.privacy import Ledger
from tensorveil.release.release import load_release
from tensorveil.rounds import SharedModel
from tensorveil.tensor import read
from tests.flows.private_cases import SECRET, SHAPE, assert_nothing_private, names, write_table


def complete(path: Path, output: Any, *options: Any) -> Any:
    promise = [
        "--epsilon",
        2,
        "--delta",
        "1e-5",
        "--unit",
        "slice:user",
        "--bounds",
        1,
        5,
        "--rank",
        2,
        "--value",
        "rating",
    ]
    shape = ["--indices", "--private-shape", ",".join(map(str, SHAPE)), "--threads", 1]
    return run(list(map(str, ["complete", path, "-o", output, *promise, *shape, *options])))


def new_ledger(path: Path) -> Any:
    promise = ["--epsilon", "3", "--delta", "1e-4", "--unit", "slice:user", "--name", "ratings"]
    assert run(["budget", "create", str(path), *promise]) == 0
    return path


@pytest.mark.parametrize("model", ["cp", "tucker", "matrix"])
def test_from_a_table_to_a_release_and_to_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], model: Any
) -> None:
    path, output = write_table(tmp_path / "ratings.csv", indices=True), tmp_path / "release"
    ledger = new_ledger(tmp_path / "ratings.ledger")
    assert complete(path, output, "--model", model, "--ledger", ledger) == 0
    captured = capsys.readouterr()
    shared, guarantee = load_release(output)
    assert isinstance(shared, SharedModel)
    assert guarantee.private
    assert guarantee.sentence() in " ".join(captured.out.split())
    assert "joint differential privacy" in guarantee.sentence()
    assert names(output) == ["MODEL_CARD.md", "guarantee.json", "model.npz", "report.html"]
    assert [charge.status for charge in Ledger.open(ledger).entries()] == ["released"]
    assert_nothing_private(output, captured.out, captured.err)

    # One person asks: only this person's entries are read.
    lines = path.read_text().splitlines()
    mine = tmp_path / "mine.csv"
    mine.write_text("\n".join([lines[0], *(line for line in lines[1:] if line.startswith("3,"))]) + "\n")
    (tmp_path / "at.csv").write_text("user,film\n3,0\n3,8\n")
    where = ["--at", str(tmp_path / "at.csv"), "-o", str(tmp_path / "answers.csv")]
    assert run(["predict", str(output / "model.npz"), "--entries", str(mine), *where]) == 0
    answers = pyarrow.csv.read_csv(tmp_path / "answers.csv").column("rating").to_numpy()
    everyone = read(path, labels=False, shape=SHAPE)
    np.testing.assert_allclose(answers, shared.predict_for(everyone, [[3, 0], [3, 8]]))
    assert SECRET not in capsys.readouterr().out


def test_json_says_what_was_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "ratings.csv", indices=True)
    assert complete(path, tmp_path / "release", "--method", "factors", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["method"], facts["method_chosen_by"], facts["filled"]) == ("factors", "user", None)
    assert facts["guarantee"]["unit"] == "slice:user"


def test_answers_need_somebodys_entries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "ratings.csv", indices=True)
    assert complete(path, tmp_path / "release") == 0
    (tmp_path / "at.csv").write_text("user,film\n3,0\n")
    where = ["--at", str(tmp_path / "at.csv"), "-o", str(tmp_path / "answers.csv")]
    assert run(["predict", str(tmp_path / "release" / "model.npz"), *where]) == 2
    assert "Add --entries" in capsys.readouterr().err
    assert run(["complete", str(path), "-o", str(tmp_path / "open"), "--rank", "1", "--sweeps", "2"]) == 0
    assert run(["predict", str(tmp_path / "open" / "model.npz"), "--entries", str(path), *where]) == 2
    assert "Leave it out" in capsys.readouterr().err
    assert not (tmp_path / "answers.csv").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--at", "{at}"], "tensorveil predict"),
        (["--delta", "0"], "--delta above 0"),
        (["--sweeps", "3"], "rounds follow from the budget"),
        (["--unit", "slice"], "slice:user"),
        (["--unit", "slice:nobody"], "must name one of the modes"),
        (["--method", "gram"], "--method must be one of"),
        (["--solver", "sor", "--model", "matrix"], "--solver cannot be used"),
    ],
)
def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: Any, said: Any) -> None:
    path = write_table(tmp_path / "ratings.csv", indices=True)
    (tmp_path / "at.csv").write_text("user,film\n3,0\n")
    given = [option.format(at=tmp_path / "at.csv") for option in options]
    assert complete(path, tmp_path / "release", *given) != 0
    captured = capsys.readouterr()
    assert said in " ".join(captured.err.split())
    assert not (tmp_path / "release").exists()


def test_a_release_without_rows_cannot_be_attacked_row_by_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_table(tmp_path / "ratings.csv", indices=True)
    assert complete(path, tmp_path / "release") == 0
    assert run(["audit", str(tmp_path / "release"), "--data", str(path), "--indices"]) != 0
    assert "holds no row of any user" in " ".join(capsys.readouterr().err.split())


def test_labels_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "ratings.csv")
    promise = ["--epsilon", "2", "--delta", "1e-5", "--unit", "slice:user", "--bounds", "1", "5"]
    shape = ["--private-shape", ",".join(map(str, SHAPE))]
    assert run(["complete", str(path), "-o", str(tmp_path / "release"), *promise, *shape]) != 0
    said = capsys.readouterr().err
    assert "--labels film=films.csv" in said
    assert "labels=" not in said
    assert run(["complete", str(path), "-o", str(tmp_path / "release"), *promise, "--indices"]) != 0
    assert "--private-shape" in capsys.readouterr().err


def test_public_tables_of_features(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output, table = write_table(tmp_path / "ratings.csv", indices=True), tmp_path / "release", tmp_path / "f.csv"
    table.write_text("film,year\n" + "".join(f"{j},{1990 + j}\n" for j in range(SHAPE[1])))
    assert complete(path, output, "--side", f"film={table}") == 0
    captured = capsys.readouterr()
    _, guarantee = load_release(output)
    assert "the table of features of film" in guarantee.public
    assert "the table of features of film" in " ".join(captured.out.split())
    assert "that the release shows to matter" in " ".join(captured.out.split())
    assert_nothing_private(output, captured.out, captured.err)
    assert complete(path, tmp_path / "no", "--side", f"user={table}") != 0
    assert not (tmp_path / "no").exists()
