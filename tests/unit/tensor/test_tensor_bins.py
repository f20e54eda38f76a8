"""Moments in bins: of hours, days, weeks, months or seconds, by what each field holds alone."""

from __future__ import annotations

import datetime
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorveil as tv
from tensorveil.tensor.bins import Bins, settle_bins, to_seconds

MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))


def begin(width: str | int, moment: datetime.datetime) -> datetime.datetime:
    """Return when the bin of a moment begins, by calendar arithmetic."""
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if width == "hour":
        return moment.replace(minute=0, second=0, microsecond=0)
    if width == "week":
        return midnight - datetime.timedelta(days=moment.weekday())
    if width == "month":
        return midnight.replace(day=1)
    if width == "day":
        return midnight
    epoch = datetime.datetime(1970, 1, 1)
    return epoch + (moment - epoch) // datetime.timedelta(seconds=int(width)) * datetime.timedelta(seconds=int(width))


@given(st.lists(MOMENTS, min_size=1, max_size=8), st.sampled_from(["hour", "day", "week", "month", 900, 100_000]))
def test_bins_begin_where_the_calendar_says(moments: list[datetime.datetime], width: str | int) -> None:
    bins = Bins(width=width)
    seconds = np.array([to_seconds(moment.isoformat()) for moment in moments])
    found = bins.begin(bins.number(seconds)).astype("datetime64[us]").tolist()
    assert found == [begin(width, moment) for moment in moments]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2024-01-03", 1704240000.0),
        (" 2024-01-03 12:30 ", 1704285000.0),
        ("2024-01-03T12:30:00.250Z", 1704285000.25),
        ("2024-01-03T12:30+02:00", 1704277800.0),
        ("881250949", 881250949.0),
        (881250949, 881250949.0),
        (b"881250949.5", 881250949.5),
        (datetime.date(1970, 1, 2), 86400.0),
        (np.datetime64("1970-01-02T00:00:01"), 86401.0),
        (20240103, 1704240000.0),
        ("20240103", 1704240000.0),
        (20240103.0, 1704240000.0),
        ("20240103T123000", 1704285000.0),
        ("2024-03", 1709251200.0),
        (202403, 1709251200.0),
        (20240230, None),
        (202413, None),
        (20240103.5, None),
        (2024, None),
        ("1997", None),
        (1704240000000, None),
        (2024010317, 1704301200.0),
        ("03.01.2024", 1704240000.0),
        ("3.1.2024 12:30", 1704285000.0),
        ("31.02.2024", None),
        ("03.13.2024", None),
        ("3.1.24", None),
        ("202401031730", 1704303000.0),
        (20240103173059, 1704303059.0),
        (2024139999, 2024139999.0),  # the year 2034, and no month 13
        (202401031760, None),
        (45294, None),  # a day of a spreadsheet
        (45294.75, None),
        ("240103", None),
        ("03012024", None),
        (31122023, None),
        (0, None),
        (2101, None),
        (189912, None),
        (-1e9, -1e9),
        ("2024-02-30", None),
        ("soon", None),
        ("", None),
        (None, None),
        (True, None),
        ("1e300", None),
        ("inf", None),
        (b"\xff", None),
    ],
)
def test_a_field_is_a_moment_or_none(written: Any, expected: float | None) -> None:
    found = to_seconds(written)
    assert found == expected if expected is not None else np.isnan(found)


COLUMNS: dict[str, Any] = {
    "text": pa.array(["2024-01-01T10:00", "2024-01-02 23:59", None]),
    "dates": pa.array([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None]),
    "moments": pa.array([1704103200 * 10**9, 1704239999 * 10**9, None], pa.timestamp("ns")),
    "zones": pa.array([1704103200, 1704239999, None], pa.timestamp("s", "Europe/Oslo")),
    "numbers": pa.array([1704103200, 1704239999, None]),
    "a dictionary": pa.array(["2024-01-01", "2024-01-02", None]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_every_kind_are_binned_alike(kind: str) -> None:
    table = pa.table({"user": ["a", "b", "a"], "when": COLUMNS[kind], "value": [1.0, 2.0, 3.0]})
    tensor = tv.ObservedTensor.from_frame(table.slice(0, 2), bins={"when": "day"})
    assert tensor.modes[1].labels is not None
    assert tensor.modes[1].labels.tolist() == [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]
    assert tensor.coords.tolist() == [[0, 0], [1, 1]]
    with pytest.raises(tv.InputError, match="column 'when' must hold moments"):
        tv.ObservedTensor.from_frame(table, bins={"when": "day"})
    with pytest.warns(tv.LeftOutWarning, match="1 of 3 rows are left out: column 2 of 3 holds no moment"):
        assert tv.ObservedTensor.from_frame(table, bins={"when": "day"}, missing="drop").n_entries == 2


def test_dates_in_digits_are_no_seconds() -> None:
    def read(time: list[int], **options: Any) -> tv.ObservedTensor:
        table = pa.table({"user": ["a", "b", "a", "b"], "time": time, "value": [1.0, 2.0, 3.0, 4.0]})
        return tv.read_privately(table, unit="value", bounds=(1, 4), value="value", bins={"time": "month"}, **options)

    days = [20240103, 20240305, 20250607, 20230910]
    found = read(days)
    assert found.shape == (2, 4)
    labels = found.modes[1].labels
    assert labels is not None
    assert labels.astype(str).tolist() == ["2023-09-01", "2024-01-01", "2024-03-01", "2025-06-01"]
    assert read([day // 100 for day in days]).modes == found.modes
    table = pa.table({"user": ["a", "b"], "time": [2024, 2025], "value": [1.0, 2.0]})
    with pytest.raises(tv.InputError, match="years alone are not"):
        tv.ObservedTensor.from_frame(table, bins={"time": "month"})


def test_a_declared_range_is_a_public_list() -> None:
    table = pa.table({"user": ["a", "b", "a"], "when": ["2024-01-01", "2024-01-05", "2025-01-01"], "value": [1, 2, 3]})
    bins = {"when": ("day", "2023-12-31", "2024-01-06")}
    with pytest.warns(tv.LeftOutWarning, match="1 of 3 rows are left out, whose 'when' is not"):
        tensor = tv.ObservedTensor.from_frame(table, bins=bins)
    assert (tensor.shape, tensor.n_entries) == ((2, 7), 2)
    # Where positions are public, so is how many are left out; elsewhere nothing is told.
    with pytest.warns(tv.LeftOutWarning, match="^bins: 1 of 3 rows"):
        assert tv.read_privately(table, unit="value", bounds=(1, 3), value="value", bins=bins).n_entries == 2
    with pytest.warns(tv.LeftOutWarning, match="'user' is not on the public list, or 'when' is not in the declared"):
        tv.ObservedTensor.from_frame(table, bins=bins, labels={"user": ["a"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        private = tv.read_privately(table, unit="slice:user", bounds=(1, 3), bins=bins)
    assert (private.shape, private.n_entries) == ((2, 7), 2)
    with pytest.raises(tv.InputError, match="need a declared range"):
        tv.read_privately(table, unit="slice:user", bounds=(1, 3), bins={"when": "day"})
    with pytest.raises(tv.InputError, match="need a declared range"):
        tv.read_privately(table, unit="entry", bounds=(1, 3), bins={"when": 3600}, labels={"user": ["a", "b"]})
    # Positions are public in unit value, and so are the bins that occur.
    assert tv.read_privately(table, unit="value", bounds=(1, 3), bins={"when": "month"}).shape == (2, 2)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("day", "bins must be a mapping"),
        ({"when": "year"}, "bins must be of an hour"),
        ({"when": 0}, "bins must be of an hour"),
        ({"when": ("day", "2024-01-01")}, "a width, a start and an end"),
        ({"when": ("day", "2024-02-01", "2024-01-01")}, "the earlier one first"),
        ({"when": ("day", "x", "2024-01-01")}, "the earlier one first"),
        ({"when": ("month", "2023", "2024")}, "the earlier one first"),
        ({"when": ("day", "2024-01", "2024-03")}, "begins and ends with a day"),
        ({"when": (1, "2000-01-01", "2024-01-01")}, "wider bins"),
        ({"where": "day"}, "there is no mode 'where'"),
    ],
)
def test_what_are_no_bins_is_refused(wrong: Any, words: str) -> None:
    table = pa.table({"user": ["a"], "when": ["2024-01-01"], "value": [1.0]})
    with pytest.raises(tv.InputError, match=words):
        tv.ObservedTensor.from_frame(table, bins=wrong)


def test_files_of_indices_have_no_moments(tmp_path: Any) -> None:
    tv.ObservedTensor([[0, 0], [1, 1]], [1.0, 2.0]).write(tmp_path / "x.tns")
    with pytest.raises(tv.InputError, match="bins are for tables"):
        tv.read(tmp_path / "x.tns", bins={"time": "day"})
    with pytest.raises(tv.InputError, match="delimiter, decimal and encoding are for CSV"):
        tv.read(tmp_path / "x.tns", delimiter=";")


def test_widths_in_words_and_numbers() -> None:
    assert settle_bins({"a": "3600", "b": 3600, "c": Bins(width="day")})["a"] == Bins(width=3600)
    assert settle_bins(None) == {}
