"""From tables as they come to an answer: spreadsheets, timestamps, databases, and what is told along the way."""

from __future__ import annotations

import datetime
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.release.release import load_release

START = datetime.datetime(2024, 1, 1)


def make_rows(n: int = 300) -> list[tuple[str, str, str, str]]:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(n):
        user, film = number % 20, number // 20 % 15
        when = START + datetime.timedelta(seconds=int(rng.integers(28 * 86400)))
        rows.append((f"Zoë {user}", f"film {film}", when.isoformat(), f"{1 + (user + film) % 4 + 0.25:.2f}"))
    return rows


def write_spreadsheet(path: Path) -> Path:
    lines = ["user;film;rating", *(f"{u};{f};{v.replace('.', ',')}" for u, f, _, v in make_rows())]
    path.write_bytes("\n".join(lines).encode("cp1252"))
    return path


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_spreadsheet_is_told_completed_and_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_spreadsheet(tmp_path / "noter.csv")
    assert run(["info", str(path)]) == 0
    told = capsys.readouterr()
    assert "written with: delimiter ';', decimal ','" in words(told.out)
    assert "--delimiter ';' --decimal ," in words(told.out)
    assert "read as Windows-1252" in words(told.err)
    assert "--encoding cp1252" in words(told.err)
    said = ["--delimiter", ";", "--decimal", ",", "--encoding", "cp1252"]
    assert (
        run(["complete", str(path), *said, "--rank", "2", "--no-fill", "--no-report", "-o", str(tmp_path / "result")])
        == 0
    )
    assert capsys.readouterr().err == ""
    (tmp_path / "asked.csv").write_bytes("user;film\nZoë 3;film 4\n".encode("utf-16"))
    model, answers = tmp_path / "result" / "model.npz", tmp_path / "answers.csv"
    assert run(["predict", str(model), "--at", str(tmp_path / "asked.csv"), "-o", str(answers)]) == 0
    assert pyarrow.csv.read_csv(answers).column("user").to_pylist() == ["Zoë 3"]


def test_a_spreadsheet_of_whole_users_needs_what_rows_would_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_spreadsheet(tmp_path / "ratings.csv")
    (tmp_path / "films.txt").write_text("\n".join(f"film {n}" for n in range(15)))
    lists = ["--labels", f"film={tmp_path / 'films.txt'}", "--private-shape", "user=50", "--value", "rating"]
    asked = ["complete", str(path), *lists, "--unit", "slice:user", "--bounds", "1", "5", "--epsilon", "5"]
    asked += ["--delta", "1e-6", "--no-report", "-o", str(tmp_path / "release")]
    assert run(asked) == 2
    assert "--decimal" in capsys.readouterr().err
    assert run([*asked, "--decimal", ",", "--encoding", "latin-1"]) == 0
    shared, _ = load_release(tmp_path / "release")
    assert np.asarray(shared.modes[1].labels).tolist() == [f"film {n}" for n in range(15)]


def test_timestamps_are_noticed_and_binned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "clicks.csv"
    lines = [",".join(row) for row in make_rows()]
    path.write_text("user,page,time,value\n" + "\n".join(lines))
    assert run(["info", str(path)]) == 0
    told = words(capsys.readouterr().out)
    assert "mode 'time' holds moments" in told
    assert "--bin time=day" in told
    assert "in an open run for example --bounds 0 5. Declare them from what values can be" in told
    assert run(["complete", str(path), "--rank", "1", "--no-fill", "--no-report", "-o", str(tmp_path / "r")]) == 0
    assert "--bin time=day" in capsys.readouterr().err
    asked = ["complete", str(path), "--bin", "time=week", "--rank", "2", "--no-report", "-o", str(tmp_path / "result")]
    assert run([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["shape"] == [20, 15, 4]
    (tmp_path / "asked.csv").write_text("user,page,time\nZoë 3,film 4,2024-01-08\n")
    model, answers = tmp_path / "result" / "model.npz", tmp_path / "answers.csv"
    assert run(["predict", str(model), "--at", str(tmp_path / "asked.csv"), "-o", str(answers)]) == 0
    assert 1 < pyarrow.csv.read_csv(answers).column("value").to_pylist()[0] < 5


def test_cells_that_are_asked_for_by_the_moment_are_put_into_the_same_bins(tmp_path: Path) -> None:
    lines = ["user,time,rating", *(f"{u},{t},{v}" for u, _, t, v in make_rows())]
    (tmp_path / "clicks.csv").write_text("\n".join(lines))
    (tmp_path / "asked.csv").write_text("user,time\nZoë 3,2024-01-11T12:30:00\nZoë 4,2024-01-15\n")
    asked = ["--at", str(tmp_path / "asked.csv"), "--bin", "time=week"]
    fit = ["complete", str(tmp_path / "clicks.csv"), "--duplicates", "mean", "--rank", "2", "--no-report"]
    assert run([*fit, *asked, "--filled-format", "csv", "-o", str(tmp_path / "result")]) == 0
    model, answers = str(tmp_path / "result" / "model.npz"), tmp_path / "answers.csv"
    assert run(["predict", model, *asked, "-o", str(answers)]) == 0
    told = pyarrow.csv.read_csv(answers)
    assert told == pyarrow.csv.read_csv(tmp_path / "result" / "filled.csv")
    assert told.column("time") == pyarrow.csv.read_csv(tmp_path / "asked.csv").column("time")  # as it was asked


def test_bins_of_a_declared_range_are_released_with_whole_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text("user,time,value\n" + "\n".join(f"{u},{t},{v}" for u, _, t, v in make_rows()))
    asked = ["complete", str(path), "--unit", "slice:user", "--bounds", "1", "5", "--epsilon", "5", "--delta", "1e-6"]
    asked += ["--private-shape", "user=50", "--value", "value", "--no-report", "-o", str(tmp_path / "release")]
    assert run([*asked, "--bin", "time=day"]) == 2
    assert "--bin time=day:2024-01-01..2024-03-31" in capsys.readouterr().err
    assert run([*asked, "--bin", "time=day:2024-01-01..2024-01-31"]) == 0
    shared, guarantee = load_release(tmp_path / "release")
    assert np.asarray(shared.modes[1].labels).astype(str).tolist()[::30] == ["2024-01-01", "2024-01-31"]
    assert "the declared lists of labels (time)" in guarantee.sentence()


def test_numbers_of_rows_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.csv"
    rows = [f"{number},{u},{f},{v}" for number, (u, f, _, v) in enumerate(make_rows())]
    path.write_text("row,user,film,rating\n" + "\n".join(rows))
    assert run(["info", str(path)]) == 0
    assert "mode 'row' has an index of its own for every entry" in words(capsys.readouterr().out)
    assert run(["info", str(path), "--modes", "user,film", "--value", "rating"]) == 0
    told = words(capsys.readouterr().out)
    assert "index of its own" not in told
    assert "--modes user,film --value rating" in told


@pytest.mark.parametrize("ending", ["arrow", "jsonl", "sqlite"])
def test_tables_of_other_kinds_are_completed(tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"ratings.{ending}"
    rows = make_rows()[:-9]
    columns = {"user": [row[0] for row in rows], "film": [row[1] for row in rows]}
    table = pyarrow.table(columns | {"rating": [float(row[3]) for row in rows]})
    tv.ObservedTensor.from_frame(table).write(path)
    assert run(["info", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"] == len(rows)
    assert run(["complete", str(path), "--rank", "1", "--no-report", "-o", str(tmp_path / "result")]) == 0
    assert pq.read_table(tmp_path / "result" / "filled.parquet").column_names == ["user", "film", "rating"]
    if ending == "sqlite":
        with closing(sqlite3.connect(path)) as connection:
            tensor = tv.ObservedTensor.from_frame(connection.execute("SELECT * FROM entries WHERE rating > 2"))
        assert tv.CP(1, random_state=0).fit(tensor).model_.value_name == "rating"
