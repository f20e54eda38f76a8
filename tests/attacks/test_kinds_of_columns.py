"""A row that decides of what kind its column is, and with that what all other rows become.

A pandas column of objects holds whatever it was given: moments with a zone and one text made every moment a text that
is on no list, so that a single row removed all others. Drivers of databases guess kinds by rows, too; and one moment
beyond Python's calendar, as in columns where the year 9999 means never, ended the run with an error that quoted it.
"""

import datetime
import decimal
import itertools
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tensorveil as tv

ZONE = datetime.timezone(datetime.timedelta(hours=2))
MOMENTS = [datetime.datetime(2024, 1, 2, tzinfo=ZONE), pd.Timestamp("2024-01-03", tz="Europe/Berlin")]
LISTED = np.array([datetime.datetime(2024, 1, 1, 22), datetime.datetime(2024, 1, 2, 23)], "datetime64[us]")
CELLS: list[Any] = [
    *MOMENTS, "x", "7", 7, 7.5, np.float32(0.1), np.float64(0.1), 0.1, True, b"7", b"\xff", None, float("nan"), pd.NaT,
    datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 1, 22), np.datetime64("2024-01-01T22:00"),
    datetime.datetime(1, 1, 1, tzinfo=ZONE), decimal.Decimal("0.1"), 2**70, "\ud800", [1], {"a": 1},
]  # fmt: skip


def read(cells: list[Any], column: str, **rules: Any) -> list[Any]:
    """Return the rows that are left, without the users that they are of."""
    frame = pd.DataFrame({"user": 0, "what": 7, "value": 1.0}, index=range(len(cells)))
    frame = frame.assign(**{column: pd.Series(cells, dtype=object)})
    promise: dict[str, Any] = {"unit": "entry", "bounds": (0, 5), "shape": {"user": 9}, "value": "value"}
    tensor = tv.read_privately(frame, indices=True, **(promise | rules))
    return sorted(zip(tensor.columns[-1].tolist(), tensor.values.tolist(), strict=True))


@pytest.mark.parametrize(
    ("column", "rules"),
    [
        ("what", {"labels": {"what": LISTED}}),
        ("what", {"labels": {"what": ["7", "7.5", "0.1", "true", "x", "nan", "NaT", "[1]"]}}),
        ("what", {"bins": {"what": ("day", "2024-01-01", "2024-01-03")}}),
        ("what", {"shape": {"user": 9, "what": 9}}),
        ("value", {"shape": {"user": 9, "what": 9}}),
    ],
    ids=["moments", "texts", "bins", "indices", "values"],
)
def test_a_cell_becomes_the_same_whatever_else_is_in_its_column(column: str, rules: dict[str, Any]) -> None:
    alone = [read([cell], column, **rules) for cell in CELLS]
    assert any(alone)  # or nothing would be shown
    assert read(CELLS, column, **rules) == sorted(itertools.chain(*alone))
    for odd in ("x", datetime.date(2024, 1, 2)):
        beside = alone[CELLS.index(odd)]
        for one, cell in enumerate(CELLS):
            assert read([cell, odd], column, **rules) == sorted(alone[one] + beside), (cell, odd)


def test_who_has_no_name_is_nobody_whatever_else_is_in_the_column() -> None:
    for others in ([], [3]):
        users = pd.Series(["ann", float("nan"), None, *others], dtype=object)
        frame = pd.DataFrame({"user": users, "film": ["Alien"] * len(users), "value": 3.0})
        found = tv.read_privately(frame, unit="slice:user", bounds=(1, 5), labels={"film": ["Alien"]}, value="value")
        assert found.n_entries == 1 + len(others)


def test_a_category_of_another_kind_is_left_out_alone() -> None:
    frame = pd.DataFrame({"user": [0, 1], "what": pd.Series(MOMENTS, dtype=object), "value": 1.0})
    more = pd.DataFrame({"user": [0, 1, 2], "what": pd.Series([*MOMENTS, "x"], dtype=object), "value": 1.0})
    promise: dict[str, Any] = {"unit": "entry", "bounds": (0, 5), "shape": {"user": 9}, "labels": {"what": LISTED}}
    for each in (frame, more):
        each["what"] = each["what"].astype("category")
        assert tv.read_privately(each, value="value", indices=True, **promise).n_entries == 2


@pytest.mark.parametrize("kind", [pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("ms"), pa.date32(), pa.duration("s")])
@pytest.mark.parametrize("unit", ["entry", "slice:when"])
def test_a_moment_beyond_the_calendar_is_none(kind: pa.DataType, unit: str) -> None:
    per_day = {"timestamp[us, tz=Asia/Tokyo]": 86400 * 10**6, "timestamp[ms]": 86400 * 1000}.get(str(kind), 1)
    never = 2**30 if kind == pa.date32() else 2**62
    when = pa.array([19723 * per_day, 19724 * per_day, never, 2932896 * per_day], pa.int32() if never < 2**31 else None)
    days = np.array(["2024-01-01", "2024-01-02"], "datetime64[D]")
    films = {"film": ["Alien"]}
    table = pa.table({"when": when.cast(kind), "film": ["Alien"] * 4, "value": [1.0] * 4})
    lists = films | ({"when": days} if unit == "entry" else {})
    found = tv.read_privately(table, unit=unit, bounds=(0, 5), labels=lists, value="value")
    seen = 0 if pa.types.is_duration(kind) else 2 if unit == "entry" else 3  # the year 9999 is one
    assert found.n_entries == seen
    if unit == "entry":
        bins = {"when": ("day", "2024-01-01", "2024-01-02")}
        found = tv.read_privately(table, unit=unit, bounds=(0, 5), labels=films, bins=bins, value="value")
        assert found.n_entries == seen


def test_drivers_that_guess_kinds_are_refused(tmp_path: Path) -> None:
    adbc = pytest.importorskip("adbc_driver_sqlite.dbapi")
    path = tmp_path / "ratings.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE ratings (user, film, value)")
    connection.executemany("INSERT INTO ratings VALUES (?, ?, ?)", [(0, 0, 1 / 3), (1, 1, "x")])
    connection.commit()
    promise: dict[str, Any] = {"unit": "entry", "bounds": (0, 5), "shape": (9, 9), "indices": True, "value": "value"}
    found = tv.read_privately(connection.execute("SELECT * FROM ratings"), **promise)
    assert found.values.tolist() == [1 / 3]
    connection.close()
    with adbc.connect(str(path)) as opened, opened.cursor() as cursor:
        cursor.execute("SELECT * FROM ratings")
        with pytest.raises(tv.InputError, match="guesses"):
            tv.read_privately(cursor, **promise)


def test_what_a_driver_says_is_not_repeated() -> None:
    class Cursor:
        description = (("user",), ("film",), ("value",))

        def fetchall(self) -> None:
            raise OSError("expected a number but got 'a secret'")

    with pytest.raises(tv.InputError) as caught:
        tv.ObservedTensor.from_frame(Cursor(), value="value")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("number", [2**70, -(2**70), 10**400])
def test_a_whole_number_of_any_length_is_a_number(number: int) -> None:
    coords = [[0, 0], [1, 1], [2, 2]]
    for unit in ("value", "entry"):
        promise: dict[str, Any] = {"unit": unit, "bounds": (0, 5), "shape": None if unit == "value" else (5, 5)}
        fitted = tv.PrivateCP(1, epsilon=1.0, delta=0.0, noise_seed=0, random_state=0, **promise)
        models = [fitted.fit(coords, [1, 2, given]).model_ for given in (number, 5.0 if number > 0 else 0.0)]
        assert np.array_equal(models[0].dense(), models[1].dense())
    beyond = tv.ObservedTensor([*coords, [number, 1]], [1, 2, 3, 4], (5, 5), out_of_range="drop")
    assert beyond.coords.tolist() == coords


def test_a_row_without_a_label_in_the_index_is_left_out_alone() -> None:
    for user in ("eve", float("nan")):
        levels = pd.MultiIndex.from_arrays([["ann", "bob", user], ["Alien"] * 3], names=["user", "film"])
        frame = levels.to_frame().assign(rating=3.0)  # which has the labels twice
        found = tv.read_privately(frame, unit="slice:user", bounds=(1, 5), labels={"film": ["Alien"]}, value="rating")
        assert found.n_entries == 2 + (user == "eve")
