"""Timestamps from file to answer: a model remembers its bins, and and what is asked of it is binned alike."""

import datetime
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.models.storage import HEADER
from tensorveil.runs.oddities import find_oddities

pytestmark = pytest.mark.usefixtures("advice_can_be_followed")
FILMS = [f"Film {k}" for k in range(9)]
USERS = [f"u{k:02d}" for k in range(20)]
RANGE = "day:2024-01-01..2024-01-06"
KINDS = {
    "open": ["--bin", "day=day"],
    "value": ["--epsilon", "9", "--unit", "value", "--bin", "day=day"],
    "entry": ["--epsilon", "9", "--unit", "entry", "--bin", f"day={RANGE}"],
    "whole": [
        "--epsilon", "5", "--delta", "1e-6", "--unit", "slice:user", "--private-shape", "user=30", "--bin",
        f"day={RANGE}",
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ratings whose days are timestamps, and a model of every kind."""
    place = tmp_path_factory.mktemp("bins")
    rng = np.random.default_rng(8)
    first = np.datetime64("2024-01-01T00:00:00")
    pairs = np.argwhere(rng.random((len(USERS), len(FILMS))) < 0.6)
    # Every day and every film occurs: units value and open know only what does.
    days = np.concatenate([np.arange(6), rng.integers(6, size=len(pairs) - 6)])
    moments = first + days * np.timedelta64(1, "D") + rng.integers(86400, size=len(pairs)) * np.timedelta64(1, "s")
    frame = pd.DataFrame(
        {
            "user": [USERS[i] for i, _ in pairs],
            "film": [FILMS[j] for _, j in pairs],
            "day": moments,
            "rating": np.round(rng.uniform(1, 5, len(pairs)), 1),
        }
    )
    frame.to_csv(place / "ratings.csv", index=False)
    for name, labels in {"films": FILMS, "users": USERS}.items():
        (place / f"{name}.txt").write_text("\n".join(labels))
    for kind, options in KINDS.items():
        lists = [] if kind in ("open", "value") else ["--labels", f"film={place / 'films.txt'}"]
        lists += ["--labels", f"user={place / 'users.txt'}"] if kind == "entry" else []
        quick = ["--value", "rating", "--bounds", "1", "5", "--rank", "1", "--threads", "1", "--no-fill", "--no-report"]
        given = ["complete", str(place / "ratings.csv"), "-o", str(place / kind), *quick, *lists, *options]
        assert run(given) == 0
    return place


def released(folder: Path, kind: str) -> Any:
    if kind == "open":
        return tv.load_model(folder / kind / "model.npz")
    return tv.load_release(folder / kind)[0]


def mine(folder: Path, user: str = "u03") -> pd.DataFrame:
    """Return one person's ratings: the first ones with the time of day, the others with the date alone."""
    frame = pd.read_csv(folder / "ratings.csv", parse_dates=["day"])
    own = frame[frame["user"] == user].reset_index(drop=True)
    texts = [moment.isoformat() if k < 2 else str(moment.date()) for k, moment in enumerate(own["day"])]
    return own.assign(day=texts)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_the_bins(
    folder: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mine(folder).to_csv(tmp_path / "mine.csv", index=False)
    day = datetime.date(2024, 1, 3)
    written = {
        "stamps": ["2024-01-03T17:30:00", "2024-01-03 00:00:01"],
        "dates": ["2024-01-03", "2024-01-03"],
        "seconds": ["1704303000", "1704240001.5"],
    }
    answers = []
    for name, days in written.items():
        ask = pd.DataFrame({"user": ["u03", "u03"], "film": FILMS[:2], "day": days})
        ask.to_csv(tmp_path / f"{name}.csv", index=False)
        given = ["predict", str(folder / kind / "model.npz"), "--at", str(tmp_path / f"{name}.csv")]
        given += ["--entries", str(tmp_path / "mine.csv")] if kind == "whole" else []
        assert run([*given, "-o", str(tmp_path / f"{name}-answers.csv")]) == 0
        found = pyarrow.csv.read_csv(tmp_path / f"{name}-answers.csv")
        assert found.column_names == ["user", "film", "day", "rating"]
        # Questions are given back as they were asked, so that answers can be joined to them.
        asked = pyarrow.csv.read_csv(tmp_path / f"{name}.csv")
        assert all(found.column(each) == asked.column(each) for each in ("user", "film", "day"))
        answers.append(found.column("rating").to_pylist())
        assert run([*given, "-o", str(tmp_path / f"{name}-again.csv"), "--bin", "day=day"]) == 0
    assert answers[0] == answers[1] == answers[2]
    # The same in Python, whatever kind of moment it is.
    model = released(folder, kind)
    whole = model.personalise(mine(folder)) if kind == "whole" else model
    asked = pd.DataFrame({"user": ["u03", "u03"], "film": FILMS[:2]})
    for each in ("2024-01-03T23:00", pd.Timestamp("2024-01-03 05:00"), day, pd.Timestamp("2024-01-03 05:00", tz="UTC")):
        assert whole.predict(asked.assign(day=each)).tolist() == pytest.approx(answers[0])
        assert whole.slice({"user": "u03", "day": each})[:2].tolist() == pytest.approx(answers[0])
    best = whole.top(3, given={"user": "u03", "day": np.datetime64("2024-01-03T12:00")}, along="film")
    assert best.labels.tolist() == whole.top(3, given={"user": "u03", "day": day}, along="film").labels.tolist()
    assert run([*given, "-o", str(tmp_path / "wrong.csv"), "--bin", "day=week"]) == 2
    assert "of a day. Leave them out" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("kind", KINDS)
def test_no_one_is_recommended_what_they_have(
    folder: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = mine(folder)
    # A film that was seen on a day that the model has no bin of was seen all the same.
    unseen = next(film for film in FILMS if film not in set(own["film"]))
    late = pd.DataFrame({"user": ["u03", "u03"], "film": [unseen, "Film 99"], "day": "2025-07-01", "rating": 5.0})
    own = pd.concat([own, late])
    own.to_csv(tmp_path / "mine.csv", index=False)
    capsys.readouterr()
    given = [
        "recommend",
        str(folder / kind),
        "--for",
        "user",
        "--along",
        "film",
        "--entries",
        str(tmp_path / "mine.csv"),
    ]
    assert run([*given, "--at", "day=2024-01-03T10:00", "--json"]) == 0
    told = capsys.readouterr()
    rows = json.loads(told.out)["recommendations"]
    assert {row["film"] for row in rows} == {*FILMS} - {*own["film"]}
    count = "2 of" if kind == "whole" else "1 of"
    assert f"note: --entries: {count} {len(own)} " in told.err
    model = released(folder, kind)
    asked = {"entries": own} if kind == "whole" else {"seen": own, "users": ["u03"]}
    with pytest.warns(tv.LeftOutWarning, match=f"entries: {count} {len(own)} ") as warned:
        found = model.recommend("user", along="film", at={"day": datetime.datetime(2024, 1, 3, 10)}, **asked)
    assert [warning.filename for warning in warned] == [__file__]
    assert found.column("film").to_pylist() == [row["film"] for row in rows]
    assert found.column("prediction").to_pylist() == pytest.approx([row["prediction"] for row in rows])


@pytest.mark.parametrize("kind", ["open", "value", "entry"])
def test_held_out_moments_are_measured_in_their_bins(
    folder: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(folder / "ratings.csv", parse_dates=["day"])
    model = released(folder, kind)
    error = np.sqrt(np.mean((model.predict(frame[["user", "film", "day"]]) - frame["rating"]) ** 2))
    given = ["evaluate", str(folder / kind / "model.npz"), "--at", str(folder / "ratings.csv"), "--value", "rating"]
    assert run([*given, "--json"]) == 0
    # Two moments of one bin are one cell, and the values are found by their name.
    twice = pd.concat([frame, frame.assign(day=frame["day"].dt.floor("D") + pd.Timedelta("1h"))]).assign(note=1)
    twice.to_csv(tmp_path / "twice.csv", index=False)
    given = ["evaluate", str(folder / kind), "--at", str(tmp_path / "twice.csv"), "--json"]
    assert run(given) == 2
    capsys.readouterr()
    assert run([*given, "--duplicates", "mean"]) == 0
    assert json.loads(capsys.readouterr().out)["rmse"] == pytest.approx(error)
    held = tv.read(folder / "ratings.csv", modes=model.modes, value="rating", shape=model.shape)
    assert tv.evaluate(model, held).rmse == pytest.approx(error)


def test_what_is_no_moment_is_refused_and_counted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = mine(folder)
    own.loc[1, "day"] = "yesterday"
    own.to_csv(tmp_path / "mine.csv", index=False)
    given = ["recommend", str(folder / "whole"), "--for", "user", "--along", "film"]
    assert run([*given, "--entries", str(tmp_path / "mine.csv")]) == 2
    assert "column 'day' must hold moments" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(tv.InputError, match="column 'day' must hold moments"):
        released(folder, "whole").personalise(own)
    model = released(folder, "open")
    asked = own[["user", "film", "day"]].head(1)
    for day in ("yesterday", None, pd.NaT, 1704276000000, "2024", 2024, 45294, "240103"):
        with pytest.raises(tv.InputError, match="'day' takes moments, and some are none: dates such as"):
            model.predict(asked.assign(day=[day]))
        with pytest.raises(tv.InputError, match="'day' takes moments"):
            model.slice({"user": "u03", "day": day})
    outside = "'day' has no bin for some of the moments: its bins, of a day, begin from 2024-01-01 to 2024-01-06"
    with pytest.raises(tv.InputError, match=outside):
        model.predict(asked.assign(day="2025-01-01"))
    with pytest.raises(tv.InputError, match=outside):
        model.top(2, given={"user": "u03", "day": datetime.date(2023, 12, 31)}, along="film")
    given = ["recommend", str(folder / "open"), "--for", "user", "--along", "film", "--users", "u03"]
    assert run([*given, "--at", "day=2024-06-01"]) == 2
    assert outside in " ".join(capsys.readouterr().err.split())
    assert run([*given, "--at", "dya=2024-06-01"]) == 2
    assert "Did you mean 'day'?" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("unit", ["value", "entry", "slice:user"])
def test_rows_that_are_left_out_are_counted_in_unit_value_alone(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: str
) -> None:
    given = ["complete", str(folder / "ratings.csv"), "--value", "rating", "--bounds", "1", "5", "--epsilon", "9"]
    given += ["--unit", unit, "--rank", "1", "--threads", "1", "--no-fill", "--no-report"]
    (tmp_path / "some.txt").write_text("\n".join(FILMS[:4]))
    given += ["--bin", "day=day:2024-01-02..2024-01-04", "--labels", f"film={tmp_path / 'some.txt'}"]
    given += {
        "value": [],
        "entry": ["--labels", f"user={folder / 'users.txt'}"],
        "slice:user": ["--delta", "1e-6", "--private-shape", "user=30"],
    }[unit]
    assert run([*given, "-o", str(tmp_path / "out")]) == 0
    frame = pd.read_csv(folder / "ratings.csv", parse_dates=["day"])
    kept = frame["film"].isin(FILMS[:4]) & frame["day"].between("2024-01-02", "2024-01-04T23:59:59")
    said = " ".join(capsys.readouterr().err.split())
    assert (f"{(~kept).sum()} of {len(frame)} rows are left out, whose 'film'" in said) is (unit == "value")
    assert ("left out" in said) is (unit == "value")


def test_rows_without_a_label_or_a_moment_are_counted_where_positions_are_public(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "ratings.csv").read_text()
    lines = ["u01,,2024-01-02,3", "u01,Film 1,yesterday,3", "u02,Film 1,45294,3", "u03,Film 2,2024-01-02,"]
    (tmp_path / "some.csv").write_text(text + "\n".join(lines) + "\n")
    given = ["complete", str(tmp_path / "some.csv"), "--bounds", "1", "5", "--epsilon", "9", "--rank", "1", "--threads"]
    given += ["1", "--no-fill", "--no-report", "--value", "rating", "--modes", "user,film,day"]
    assert run([*given, "--unit", "value", "--bin", "day=day", "-o", str(tmp_path / "value")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    rows = len(text.splitlines()) + 3
    # Of the row without a value nothing is told.
    assert f"3 of {rows} rows are left out: column 'film' is empty, or column 'day' holds no moment." in said
    given += ["--labels", f"film={folder / 'films.txt'}", "--bin", f"day={RANGE}", "--labels"]
    assert run([*given, f"user={folder / 'users.txt'}", "--unit", "entry", "-o", str(tmp_path / "entry")]) == 0
    assert "left out" not in capsys.readouterr().err
    # Open runs name the line, wherever the moments stand.
    assert run(["complete", str(tmp_path / "some.csv"), "-o", str(tmp_path / "open"), "--bin", "day=day"]) == 2
    assert f"The first line at fault is line {rows - 1} of the file" in " ".join(capsys.readouterr().err.split())
    asked = tmp_path / "ask.csv"
    asked.write_text("user,film,day,rating\nu01,Film 1,2024-01-02,3\nu01,Film 1,45294,3\n")
    for verb, more in (("predict", ["-o", str(tmp_path / "out.csv")]), ("evaluate", [])):
        assert run([verb, str(folder / "open"), "--at", str(asked), *more]) == 2
        assert "The first line at fault is line 3 of the file" in " ".join(capsys.readouterr().err.split())
    assert run(["evaluate", str(folder / "open"), "--at", str(asked), "--missing", "drop", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["cells"] == 1
    assert "1 of 2 rows are left out: column 'day' holds no moment" in " ".join(told.err.split())


def test_bins_of_what_is_no_mode_are_refused_with_the_remedy(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*options: str) -> str:
        assert run(["complete", str(folder / "ratings.csv"), "-o", str(tmp_path / "out"), *options]) == 2
        return " ".join(capsys.readouterr().err.split())

    private = ["--epsilon", "1", "--unit", "value", "--bounds", "1", "5"]
    for more in ([], private):
        said = told("--modes", "user,film", "--value", "rating", "--bin", "day=day", *more)
        assert "column 'day' is none. Name it among the modes, --modes user,film,day, or leave --bin out." in said
    assert "Did you mean 'day'?" in told("--bin", "dya=day")
    # A first line that nobody vouched for may hold data: what to do is said, and not what stands there.
    for typo in (["--bin", "dya=day", "--value", "rating"], ["--value", "ratng"]):
        said = told(*typo, *private)
        assert "Check its spelling. In private runs the first line might hold data" in said
        assert "all modes are named as they stand there, --modes user,film" in said
        assert "Did you mean" in told(*typo, *private, "--modes", "user,film,day")
    assert run(["predict", str(folder / "open"), "--at", str(folder / "ratings.csv"), "-o", str(tmp_path / "a.csv"),
                "--bin", "rating=day"]) == 2  # fmt: skip
    assert "column 'rating' is none" in capsys.readouterr().err


def test_open_answers_are_in_the_words_of_the_questions(folder: Path, tmp_path: Path) -> None:
    ask = "day,user,film\n2024-01-03T05:00,u01,Film 1\n2024-01-02,u02,Film 2\n2024-01-03 23:59:59,u01,Film 1\n"
    (tmp_path / "ask.csv").write_text(ask)
    given = ["complete", str(folder / "ratings.csv"), "--value", "rating", "--no-report"]
    given += ["--bin", "day=day", "--at", str(tmp_path / "ask.csv"), "--filled-format", "csv"]
    quick = ["--rank", "1", "--threads", "1"]
    assert run([*given, *quick, "--seed", "1", "-o", str(tmp_path / "open")]) == 0
    filled = pd.read_csv(tmp_path / "open" / "filled.csv")
    asked = pd.read_csv(tmp_path / "ask.csv")
    assert filled[["day", "user", "film"]].equals(asked)
    assert filled["rating"][0] == filled["rating"][2] != filled["rating"][1]
    # A release names its cells by the public bins, in an order that says nothing.
    private = ["--epsilon", "9", "--unit", "value", "--bounds", "1", "5"]
    assert run([*given, *quick, *private, "-o", str(tmp_path / "value")]) == 0
    assert pd.read_csv(tmp_path / "value" / "filled.csv")["day"].tolist() == ["2024-01-03", "2024-01-03", "2024-01-02"]


def test_people_are_told_of_values_and_cells_that_count_otherwise(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, own = released(folder, "whole"), mine(folder)
    asked = own[["user", "film", "day"]].head(3)
    expected = model.personalise(own.assign(rating=own["rating"].where(own.index != 0, 5.0))).predict(asked)
    wide = own.assign(rating=own["rating"].where(own.index != 0, 50.0))
    with pytest.warns(
        tv.ChangedWarning, match=f"1 of {len(own)} have values outside the bounds of the release, 1 to 5"
    ):
        assert model.personalise(wide).predict(asked).tolist() == expected.tolist()
    tensor = tv.ObservedTensor.from_frame(wide, ["user", "film", "day"], "rating", bins={"day": "day"})
    with pytest.warns(tv.ChangedWarning, match="outside the bounds"):
        assert model.personalise(tensor).predict(asked).tolist() == expected.tolist()
    # What is said twice of a cell does not count twice.
    expected = model.personalise(own).predict(asked)
    twice = pd.concat([own, own.head(2)])
    with pytest.warns(tv.ChangedWarning, match=f"2 of {len(twice)} name a cell again"):
        assert model.personalise(twice).predict(asked).tolist() == pytest.approx(expected.tolist())
    twice.to_csv(tmp_path / "mine.csv", index=False)
    asked.to_csv(tmp_path / "ask.csv", index=False)
    given = ["predict", str(folder / "whole"), "--at", str(tmp_path / "ask.csv"), "-o", str(tmp_path / "answers.csv")]
    assert run([*given, "--entries", str(tmp_path / "mine.csv")]) == 0
    assert f"note: --entries: 2 of {len(twice)} name a cell again" in capsys.readouterr().err
    assert pd.read_csv(tmp_path / "answers.csv")["rating"].tolist() == pytest.approx(expected.tolist())


def test_people_are_told_apart_as_they_are_written(folder: Path, tmp_path: Path) -> None:
    own = mine(folder)
    low, high = own.assign(user="7", rating=1.0), own.assign(user="007", rating=5.0)
    pd.concat([low, high]).to_csv(tmp_path / "mine.csv", index=False)
    rows = []
    for users in (["007", "7"], ["7"]):
        own[["film", "day"]].head(1).merge(pd.DataFrame({"user": users}), how="cross").to_csv(tmp_path / "ask.csv")
        given = ["predict", str(folder / "whole"), "--entries", str(tmp_path / "mine.csv"), "--force"]
        assert run([*given, "--at", str(tmp_path / "ask.csv"), "-o", str(tmp_path / "answers.csv")]) == 0
        rows.append(pd.read_csv(tmp_path / "answers.csv", dtype={"user": str}).set_index("user")["rating"])
    assert rows[0]["7"] == rows[1]["7"] < rows[0]["007"]


def test_private_runs_name_the_column_in_which_nothing_is_as_it_must_be(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private = ["complete", str(folder / "ratings.csv"), "--epsilon", "1", "--unit", "value", "--bounds", "1", "5"]
    given = [*private, "-o", str(tmp_path / "out"), "--modes", "user,film"]
    assert run([*given, "--value", "rating", "--bin", "film=day"]) == 2
    assert "column 'film' must hold moments to be binned" in " ".join(capsys.readouterr().err.split())
    assert run([*given[:-1], "user,rating", "--value", "film"]) == 2
    assert "column 'film' must hold numbers to serve as values" in " ".join(capsys.readouterr().err.split())
    assert run([*given, "--value", "rating", "--bin", "film=day:2024-01-01..2024-01-06"]) == 2
    assert "--bin: no row of the table has its 'film' on the public list or in" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (1704276000, "holds moments, nearly each"),
        (1704276000000, "milliseconds: divide them by 1000"),
        (20240101, "holds moments, nearly each"),
    ],
)
def test_moments_in_numbers_are_noticed(time: int, words: str) -> None:
    coords = np.array([[n % 5, n] for n in range(40)])
    modes = [tv.Mode("user", ["a", "b", "c", "d", "e"]), tv.Mode("time", time + np.arange(40))]
    told = find_oddities(tv.ObservedTensor(coords, np.arange(40.0) % 5, modes=modes))
    assert len(told) == 1
    assert words in told[0]


def test_a_stopwatch_is_binned_by_a_number_of_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame([(f"r{n % 6}", n * 37.5, n % 5) for n in range(80)], columns=["runner", "time", "pulse"])
    frame.to_csv(tmp_path / "laps.csv", index=False)
    frame.head(3).to_csv(tmp_path / "ask.csv", index=False, columns=["runner", "time"])
    given = ["complete", str(tmp_path / "laps.csv"), "--value", "pulse", "--rank", "1", "--threads", "1"]
    given += ["--no-report", "--duplicates", "mean"]
    assert run([*given, "-o", str(tmp_path / "no"), "--bin", "time=hour"]) == 2
    assert "are binned by a number of seconds, such as 900" in " ".join(capsys.readouterr().err.split())
    private = ["--epsilon", "9", "--unit", "value", "--bounds", "0", "4"]
    for name, more in {"open": ["600"], "private": ["600:0..3000", *private]}.items():
        assert run([*given, "-o", str(tmp_path / name), "--bin", f"time={more[0]}", *more[1:]]) == 0
        said = " ".join(capsys.readouterr().err.split())
        assert ("'time': its numbers were taken for seconds" in said) is (name == "open")
        asked = ["predict", str(tmp_path / name), "--at", str(tmp_path / "ask.csv")]
        assert run([*asked, "-o", str(tmp_path / f"{name}.csv")]) == 0
        assert pd.read_csv(tmp_path / f"{name}.csv")["time"].tolist() == [0, 37.5, 75]
    tensor = tv.ObservedTensor.from_frame(frame, ["runner", "time"], "pulse", bins={"time": 600}, duplicates="mean")
    assert tensor.modes[1].encode(np.array([601, "1199.5"], dtype=object)).tolist() == [1, 1]


def test_files_without_bins_load_as_they_did(folder: Path, tmp_path: Path) -> None:
    for kind in KINDS:
        source, older = folder / kind / "model.npz", tmp_path / f"{kind}.npz"
        with zipfile.ZipFile(source) as full, zipfile.ZipFile(older, "w") as plain:
            for name in full.namelist():
                content = full.read(name)
                if name == HEADER:
                    header = json.loads(content)
                    assert [each.get("bins") for each in header["modes"]] == [None, None, "day"]
                    for each in header["modes"]:
                        each.pop("bins", None)
                    header.pop("value")
                    header.pop("members", None)
                    content = json.dumps(header).encode()
                plain.writestr(name, content)
        model: Any = tv.rounds.SharedModel.load(older) if kind == "whole" else tv.load_model(older)
        assert (model.modes[2].bins, model.value_name) == (None, "value")
        assert [mode.name for mode in model.modes] == ["user", "film", "day"]


@pytest.mark.parametrize("width", ["hour", "day", "week", "month", 900])
def test_tensors_remember_their_bins_in_files(tmp_path: Path, width: str | int) -> None:
    moments = pd.date_range("2024-01-29T10:17", periods=7, freq="11h")
    frame = pd.DataFrame({"place": list("abcdefg"), "when": moments, "value": np.arange(7.0)})
    tensor = tv.ObservedTensor.from_frame(frame, bins={"when": width})
    assert tensor.modes[1].bins == width
    for name in ("tensor.npz", "tensor.parquet", "tensor.arrow"):
        tensor.write(tmp_path / name)
        back = tv.read(tmp_path / name)
        assert (back.modes, back.modes[1].bins) == (tensor.modes, width)
        assert back.coords.tolist() == tensor.coords.tolist()
    store = tv.write_store([tmp_path / "tensor.parquet"], tmp_path / "store", order="place")
    assert store.modes[1].bins == width
    again = tv.ObservedTensor.from_frame(frame, modes=tensor.modes)
    assert again.coords.tolist() == tensor.coords.tolist()
    model = tv.CP(1, sweeps=2, random_state=0).fit(tensor).model_
    model.save(tmp_path / "model.npz")
    assert tv.load_model(tmp_path / "model.npz").predict(frame).tolist() == model.predict(tensor.coords).tolist()


def test_a_mode_of_bins_has_their_first_moments_as_labels() -> None:
    days = np.array(["2024-01-03T10:00", "2024-01-04T00:00"], "datetime64[m]")
    with pytest.raises(tv.InputError, match="first moments of its bins"):
        tv.Mode("day", days, bins="day")
    with pytest.raises(tv.InputError, match="an hour, a day"):
        tv.Mode("day", days, bins="fortnight")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tv.Mode("day", days.astype("datetime64[D]"), bins="day").encode(["2024-01-04T12:00"]).tolist() == [1]
    with pytest.raises(tv.InputError, match="does not know"):
        tv.Mode("day", days.astype("datetime64[D]"), bins="day").encode(["noon"])


def test_the_protected_mode_may_be_one_of_bins() -> None:
    rng = np.random.default_rng(2)
    moments = pd.date_range("2024-01-01", periods=240, freq="h")
    frame = pd.DataFrame({"day": moments, "place": rng.integers(4, size=240).astype(str), "value": rng.random(240)})
    promise: dict[str, Any] = {"unit": "slice:day", "bounds": (0, 1)}
    shape = (12, 4)
    bins = {"day": ("day", "2024-01-01", "2024-01-12")}
    tensor = tv.read_privately(frame, labels={"place": list("0123")}, bins=bins, **promise)
    model = tv.UserLevelMatrix(1, epsilon=5.0, delta=1e-6, noise_seed=1, shape=shape, **promise).fit(tensor).model_
    assert (model.modes[0].labels, model.modes[0].bins) == (None, "day")
    assert model.personalise(frame.head(48)).shape == (2, 4)


def test_entries_come_in_every_kind_of_frame_and_flaws_are_named(folder: Path) -> None:
    pl = pytest.importorskip("polars")
    shared, own = released(folder, "whole"), mine(folder)
    asked = own[["user", "film", "day"]].head(3)
    expected = shared.personalise(own).predict(asked)
    stamps = own.assign(day=pd.to_datetime(own["day"], format="ISO8601"))
    kinds = {
        "polars": pl.from_pandas(own),
        "lazy": pl.from_pandas(own).lazy(),
        "timestamps": stamps,
        "zones": stamps.assign(day=stamps["day"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")),
        "periods": stamps.assign(day=stamps["day"].dt.to_period("D")),
        "categories": own.astype({"film": "category", "day": "category"}),
        "a series": own.set_index(["user", "film", "day"])["rating"],
        "columns": {name: own[name].tolist() for name in own.columns},
        "a tensor of bins": tv.ObservedTensor.from_frame(own, ["user", "film", "day"], "rating", bins={"day": "day"}),
    }
    for kind, entries in kinds.items():
        assert shared.personalise(entries).predict(asked).tolist() == pytest.approx(expected), kind
        assert shared.predict_for(entries, asked).tolist() == pytest.approx(expected), kind
    for wrong, said in [
        (own.head(0), "at least one row"),
        (own.assign(rating=np.nan), "column 'rating' has empty cells"),
        (own.assign(film=None), "column 'film' has empty cells"),
        (own.rename(columns={"film": "flim"}), r"missing \['film'\]. Did you mean 'flim'\?"),
        (own.drop(columns="rating"), "must be a column of values, such as 'rating'"),
        (
            own.rename(columns={"rating": "stars"}).assign(note=1),
            "several columns could hold the values: 'stars', 'note'",
        ),
        (own.assign(film="Film 99"), "knows nothing of what stands in column 'film'"),
    ]:
        with pytest.raises(tv.InputError, match=said):
            shared.personalise(wrong)
    assert shared.personalise(own.assign(note=1, price=2)).predict(asked).tolist() == pytest.approx(expected)


def test_tables_that_are_asked_about_may_say_how_they_are_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = mine(folder).to_csv(index=False, sep=";", decimal=",")
    (tmp_path / "mine.csv").write_text(text, encoding="utf-16")
    given = ["recommend", str(folder / "whole"), "--for", "user", "--along", "film", "--json"]
    rows = []
    for options in ([], ["--encoding", "utf-16", "--delimiter", ";", "--decimal", ","]):
        assert run([*given, "--entries", str(tmp_path / "mine.csv"), *options]) == 0
        rows.append(json.loads(capsys.readouterr().out)["recommendations"])
    assert rows[0] == rows[1]
    assert run([*given, "--entries", str(tmp_path / "mine.csv"), "--encoding", "utf-8"]) == 2
    ask = "user;film;day\nu03;Film 1;2024-01-03\n"
    (tmp_path / "ask.csv").write_text(ask, encoding="utf-16")
    asked = ["predict", str(folder / "open" / "model.npz"), "--at", str(tmp_path / "ask.csv"), "--encoding", "utf-16"]
    assert run([*asked, "-o", str(tmp_path / "answers.csv")]) == 0


def test_whole_users_are_not_measured_as_a_whole_model_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", str(folder / "whole"), "--at", str(folder / "ratings.csv")]) == 2
    assert "predict held-out cells of theirs with --entries FILE" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("kind", KINDS)
def test_info_says_what_a_model_knows(folder: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    if kind != "open":
        assert "6 (day, moments in bins of a day)" in (folder / kind / "MODEL_CARD.md").read_text()
    assert run(["info", str(folder / kind)]) == 0
    shown = capsys.readouterr().out
    assert "predicts rating, bounds 1 to 5" in shown
    assert ("protects all entries of one user" in shown) is (kind == "whole")
    assert run(["info", str(folder / kind / "model.npz"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [mode["bins"] for mode in found["modes"]] == [None, None, "day"]
    assert found["modes"][1]["examples"] == FILMS[:3]
    assert (found["protects"], found["predicts"]) == ("user" if kind == "whole" else None, "rating")
    assert run(["info", str(folder / kind), "--value", "rating"]) == 2
    assert "a model knows its labels" in capsys.readouterr().err
