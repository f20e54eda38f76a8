"""Labels that look like numbers stay as they are written where numbers would merge or change them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tensorveil as tv
from tensorveil.tensor.files.text import FORMATS

TABLE = (
    "zip,code,long,count,rating\n"
    "02134,250.10,12345678901234567890,1,05\n"
    "2134,250.1,12345678901234567891,2,3\n"
    " 10001,7,12345678901234567892,3,4\n"
)
LABELS: list[list[Any]] = [
    ["02134", "10001", "2134"],
    ["250.1", "250.10", "7"],
    ["12345678901234567890", "12345678901234567891", "12345678901234567892"],
    [1, 2, 3],
]


def labels_of(tensor: tv.ObservedTensor | tv.StoredTensor) -> list[object]:
    return [None if mode.labels is None else mode.labels.tolist() for mode in tensor.modes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(TABLE)
    return tmp_path / "a.csv"


def test_labels_are_kept_apart_and_it_is_said(path: Path) -> None:
    with pytest.warns(tv.GuessWarning, match="such as 007 .*: column 'zip', 'code', 'long'") as told:
        tensor = tv.read(path, value="rating")
    assert [each.filename for each in told] == [__file__]
    assert labels_of(tensor) == LABELS
    assert tensor.values.tolist() == [5.0, 3.0, 4.0]
    # Positions are public in unit value; a header is named only if somebody vouches for it.
    with pytest.warns(tv.GuessWarning, match="column 1, 2, 3"):
        assert labels_of(tv.read_privately(path, unit="value", bounds=(1, 5), value="rating")) == LABELS


def test_stores_keep_them_alike_in_all_blocks(path: Path, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("zip,code,long,count,rating\n2134,7,12345678901234567899,4,1\n")
    with pytest.warns(tv.GuessWarning) as told:
        store = tv.write_store([tmp_path / "b.csv", path], tmp_path / "store", order="zip", value="rating",
                               modes=["zip", "long", "count"])  # fmt: skip
    assert labels_of(store) == [LABELS[0], [*LABELS[2], "12345678901234567899"], [1, 2, 3, 4]]
    assert sorted(str(each.message).rpartition(": ")[2] for each in told) == ["column 'long'.", "column 'zip'."]


def test_other_files_are_read_by_the_labels_that_are_known(path: Path, tmp_path: Path) -> None:
    with pytest.warns(tv.GuessWarning):
        train = tv.read(path, modes=["zip", "count"], value="rating")
    (tmp_path / "b.csv").write_text("zip,count,rating\n2134,1,4\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tv.read(tmp_path / "b.csv", modes=train.modes, value="rating").coords.tolist() == [[2, 0]]
        # Labels that are numbers already are compared as such, and indices are numbers.
        ids: list[str | tv.Mode] = [tv.Mode("zip", [2134, 10001]), "count"]
        assert tv.read(path, modes=ids, value="rating", duplicates="keep").coords[:, 0].tolist() == [0, 0, 1]
        (tmp_path / "c.csv").write_text("a,b,value\n00,01,1\n01,00,2\n")
        assert tv.read(tmp_path / "c.csv", labels=False).coords.tolist() == [[0, 1], [1, 0]]


def test_what_needs_no_text_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,x,day,note,value\n1,1.50,2024-01-02,00 a,0.5\n-7,2.0,2024-01-03,b,0.25\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = tv.read(tmp_path / "a.csv")
    assert labels_of(tensor)[:2] == [[-7, 1], [1.5, 2.0]]
    assert FORMATS[0].name == "csv"


def test_times_of_a_day_are_labels(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("line,time,value\n1,00:30,1\n2,09:00,2\n")
    tensor = tv.read(tmp_path / "a.csv")
    assert labels_of(tensor) == [[1, 2], ["00:30", "09:00"]]
    frame = pd.DataFrame({"line": [1, 2], "time": pd.to_datetime(["2024-01-01T00:30", "2024-01-01T09:00"]).time})
    assert labels_of(tv.ObservedTensor.from_frame(frame.assign(value=[1.0, 2.0])))[1] == ["00:30:00", "09:00:00"]
