"""Tables as spreadsheets and people leave them: the right tensor or the right cause, and no wrong one in silence."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tensorveil as tv
from tensorveil.cli.main import run
from tensorveil.runs.oddities import find_oddities

NAMES = "Benutzer;Film;Wertung"
ROWS = [f"U{k % 12};Müll {k // 12};{k % 5},5" for k in range(72)]


def write(folder: Path, lines: list[str], encoding: str = "utf-8") -> Path:
    path = folder / "a.csv"
    path.write_text("\r\n".join(lines) + "\r\n", encoding=encoding)
    return path


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["sep=;", NAMES, *ROWS], "a first line that only spreadsheets read (sep=). Remove that line"),
        (["Bericht 2024;;", ";;", NAMES, *ROWS], "several columns have no name: remove what stands above the line"),
        ([NAMES, *ROWS, "Summe;;120,5"], "column 2 of 3 must not contain missing labels"),
        ([NAMES, *ROWS[:40], NAMES, *ROWS[40:]], "line is 42 of the file. It holds the names of the columns again"),
        ([NAMES, *ROWS, "U1;Müll 9;k.A."], "The first line at fault is line 74 of the file."),
        ([NAMES, *(f"{row};" for row in ROWS)], "Line 2 has 4 fields; the first line has 3"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_cause_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[str], said: str, encoding: str
) -> None:
    assert run(["info", str(write(tmp_path, lines, encoding))]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert said.replace("line is 42", "line at fault is line 42") in told


def test_columns_that_are_empty_to_their_names_are_none(tmp_path: Path) -> None:
    expected = tv.read(write(tmp_path, [NAMES, *ROWS]))
    found = tv.read(write(tmp_path, [f"{NAMES};;", *(f"{row};;" for row in ROWS)]))
    assert (found.modes, found.values.tolist()) == (expected.modes, expected.values.tolist())


def test_points_between_thousands_are_asked_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, [NAMES, *(f"U{k % 9};F{k // 9};{k % 9 + 1}.{k % 10}50" for k in range(72))])
    with pytest.warns(tv.GuessWarning, match="If points stand between thousands, write these numbers without them"):
        assert tv.read(path).values.max() < 10
    assert run(["info", str(path)]) == 0
    assert "say --decimal . if this is right" in " ".join(capsys.readouterr().err.split())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tv.read(path, decimal=".")
        tv.read(write(tmp_path, [NAMES, *(f"U{k % 9};F{k // 9};{k % 9}.25" for k in range(72))]))


def test_labels_that_are_nearly_alike_are_noticed() -> None:
    frame = pd.DataFrame({"user": np.arange(40) % 10, "film": ["Alien", "alien ", "Brazil", "x"] * 10, "value": 1.0})
    told = find_oddities(tv.ObservedTensor.from_frame(frame, duplicates="first", bounds=(0, 1)))
    assert [text for text in told if "1 of 4: they count as different" in text] == list(told)


def test_a_last_column_that_is_hardly_the_value_is_doubted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": np.arange(60) % 12, "film": np.arange(60) // 12, "rating": rng.integers(1, 6, 60)})
    frame["timestamp"] = 881_250_949 + rng.integers(10**6, size=60)
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(tv.GuessWarning, match="'timestamp', was taken for the value.*moments in seconds since 1970"):
        tv.read(tmp_path / "a.csv")
    with pytest.warns(tv.GuessWarning, match="'timestamp', was taken"):
        tv.ObservedTensor.from_frame(frame)
    turned = frame.assign(rating=frame["rating"] + 0.5)[["rating", "user", "film"]]
    with pytest.warns(tv.GuessWarning, match="'film', was taken .* whole numbers, and 'rating' holds others"):
        tv.ObservedTensor.from_frame(turned, duplicates="first")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tv.ObservedTensor.from_frame(turned, value="film", duplicates="first")
        tv.read(tmp_path / "a.csv", modes=["user", "film"], value="timestamp")


def test_numbers_without_names_are_no_labels() -> None:
    frame = pd.DataFrame({"user": np.arange(60) % 12 + 1, "film": np.arange(60) // 12 + 1})
    rating = pd.Series(np.arange(60) % 5 + 1.0, name="rating")
    estimators: list[Any] = [
        tv.CP(1, sweeps=2).fit(frame, rating),
        tv.PrivateCP(1, epsilon=1.0, delta=0.0, unit="value", bounds=(1, 5), noise_seed=1).fit(frame, rating),
    ]
    for fitted in estimators:
        told = "are indices from 0, and no labels.*the columns user, film"
        with pytest.warns(tv.GuessWarning, match=told):
            fitted.predict(frame.head(3).to_numpy())
        with pytest.warns(tv.GuessWarning, match=told):
            fitted.rmse(frame.head(3).to_numpy(), np.ones(3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted.predict(frame.head(3))
            fitted.model_.predict(frame.head(3).to_numpy())
    text = tv.CP(1, sweeps=2).fit(frame.astype(str), rating)
    assert text.predict(np.zeros((1, 2), int)).shape == (1,)  # which no label is


def test_counts_of_a_group_by_have_no_name() -> None:
    frame = pd.DataFrame({"user": list("aabbc"), "film": list("xxyyx")})
    counts = frame.groupby(["user", "film"]).size()
    assert tv.CP(1, sweeps=2).fit(counts).model_.value_name == "value"
    assert tv.ObservedTensor.from_frame(counts).values.tolist() == [2.0, 2.0, 1.0]
