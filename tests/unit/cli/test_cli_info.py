from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tensorveil.cli.main import run
from tensorveil.runs.info import describe_tensor
from tensorveil.tensor import Mode, ObservedTensor

CSV = "user,film,rating\nann,Alien,5\nann,Brazil,4\nbob,Alien,1\n"


def test_facts_are_those_of_the_tensor() -> None:
    modes = (Mode("user", ["ann", "bob", "eve"]), "week")
    facts = describe_tensor(ObservedTensor([[0, 0], [0, 3], [1, 0]], [1.0, 2.0, 6.0], (3, 4), (0, 9), modes))
    assert facts.shape == (3, 4)
    assert facts.entries == 3
    assert facts.density == 0.25
    assert facts.bounds == (0.0, 9.0)
    assert facts.modes[0].labels == "text"
    assert facts.modes[0].empty == 1
    assert facts.modes[0].entries_per_index == {"min": 0, "median": 1.0, "max": 2}
    assert facts.modes[1].labels is None
    assert facts.values["mean"] == 3.0
    assert facts.values["distinct"] == 3
    np.testing.assert_allclose(facts.values["std"], np.std([1, 2, 6]))


def test_people_get_a_table_and_machines_get_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(CSV)
    assert run(["info", str(path)]) == 0
    text = capsys.readouterr().out
    for word in ("ratings.csv", "2 x 2", "user", "ann, bob", "1 to 5", "tensorveil complete"):
        assert word in text
    assert run(["info", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["flaws"] == []
    assert facts["bytes"] == len(CSV)


def test_columns_can_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("rating,junk,user,film\n5,x,0,1\n4,y,1,0\n")
    options = ["--modes", "film,user", "--value", "rating", "--indices", "--json"]
    assert run(["info", str(path), *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [(mode["name"], mode["labels"]) for mode in facts["modes"]] == [("film", None), ("user", None)]


def test_files_without_a_header_and_matlab_variables_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "u.data"
    path.write_text("1\t10\t5\t881250949\n2\t10\t3\t891717742\n")
    options = ["--format", "tsv", "--no-header", "--modes", "f0,f1", "--value", "f2", "--json"]
    assert run(["info", str(path), *options]) == 0
    assert json.loads(capsys.readouterr().out)["shape"] == [2, 1]
    scipy_io = pytest.importorskip("scipy.io")
    scipy_io.savemat(tmp_path / "two.mat", {"a": np.ones((2, 3)), "b": np.ones((4, 5))})
    assert run(["info", str(tmp_path / "two.mat"), "--variable", "b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shape"] == [4, 5]


def test_flaws_are_named_rather_than_fatal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(CSV + "ann,Alien,3\nbob,Brazil,\n")
    assert run(["info", str(path)]) == 0
    text = capsys.readouterr().out
    assert "--duplicates" in text
    assert "--missing drop" in text


def test_unreadable_files_leave_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("only\n1\n")
    assert run(["info", str(path)]) == 2
    assert capsys.readouterr().err.startswith("Error: ")
