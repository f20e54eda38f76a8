"""A table without a header: its first row was taken for names, lost as an entry, published, and quoted in errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensorveil as tv
from tensorveil.cli.main import run

ROWS = "23,7,4\n" + "".join(f"{i},{j},{1 + (i + j) % 5}\n" for i in range(30) for j in range(0, 20, 3))
PERSON = "patient-0-Smith,HIV-test-0,pos\npatient-1-Jones,HIV-test-1,neg\n"


@pytest.mark.parametrize("unit", [["--unit", "entry", "--private-shape", "30,20", "--indices"], ["--unit", "value"]])
@pytest.mark.parametrize("value", [[], ["--value", "4"]])
def test_a_private_run_releases_no_first_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: list[str], value: list[str]
) -> None:
    (tmp_path / "ratings.csv").write_text(ROWS)
    promise = ["--epsilon", "5", "--delta", "1e-6", "--bounds", "1", "5", *unit, *value]
    assert run(["complete", str(tmp_path / "ratings.csv"), *promise, "-o", str(tmp_path / "release")]) == 2
    told = capsys.readouterr().err
    assert "--no-header" in told
    assert "23" not in told
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize("verb", [["info"], ["complete", "-o", "result"]])
def test_an_open_run_loses_no_first_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ratings.csv").write_text(ROWS)
    assert run([*verb, "ratings.csv", "--indices"]) == 2
    assert "--no-header" in capsys.readouterr().err
    assert tv.read("ratings.csv", header=False, duplicates="first").n_entries == 211
    assert not Path("result").exists()


@pytest.mark.parametrize(
    "verb", [["info"], ["complete", "-o", "result"], ["plan", "--bounds", "0", "1", "--epsilon", "1"]]
)
def test_no_error_quotes_the_first_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tests.csv").write_text(PERSON)
    assert run([*verb, "tests.csv"]) == 2
    told = capsys.readouterr()
    for word in ("Smith", "HIV", "pos'", "Jones"):
        assert word not in told.err + told.out


def test_a_column_that_the_caller_named_is_called_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "tests.csv").write_text("person,test,result\nann,x,good\n")
    with pytest.raises(tv.InputError, match="column 'result' must hold numbers"):
        tv.read(tmp_path / "tests.csv", value="result")
    with pytest.raises(tv.InputError, match="column 3 of 3 must hold numbers"):
        tv.read(tmp_path / "tests.csv")
