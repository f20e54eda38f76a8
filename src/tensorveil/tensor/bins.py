"""Moments in bins of an hour, a day, a week, a month or a number of seconds: a mode of columns of timestamps.

A field becomes a moment by what it holds alone. Where a range is declared its bins are a public list of labels, those
too in which nothing happened, so that private runs may use them.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.modes import Mode, near

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MOMENTS",
    "NO_MOMENT",
    "NO_MOMENTS",
    "Bins",
    "are_seconds",
    "bin_column",
    "bin_columns",
    "bin_items",
    "check_bins",
    "count_micros",
    "known_bins",
    "name_width",
    "settle_bins",
]

_SECONDS = {"hour": 3600, "day": 86400, "week": 7 * 86400}
_NAMED = ("hour", "day", "week", "month")
_MONDAY = 4 * 86400  # 1970-01-05, from which weeks are counted
_FIRST, _LAST = -62_135_596_800, 253_402_300_800  # the years 1 and 10000
_MOST = 1_000_000
NO_MOMENT = np.iinfo(np.int64).min
_DOTTED = re.compile(r"(\d\d?)\.(\d\d?)\.(\d{4})((?:[T ].*)?)", re.ASCII)  # always with the day first
_MONTH = re.compile(r"\d{4}-\d\d", re.ASCII)
_FIRST_YEAR, _LAST_YEAR = 1900, 2100  # of dates that are written in digits
_RECENT, _MANY = (3e8, 5e9), 20
_LEAST = 1e8  # March 1973: what is nearer to 1970 is a day of a spreadsheet, or a date with its digits in another order
_WRITTEN = re.compile(r"(\d{4})(\d\d)((?:\d\d){0,4})", re.ASCII)
# What errors say of moments.
MOMENTS = "dates such as 2024-01-03 or 03.01.2024, ISO text such as 2024-01-03T12:00, or seconds since 1970"
NO_MOMENTS = "years alone are not, nor milliseconds, days of a spreadsheet, or dates such as 240103 and 03/01/2024"
_REMEDY = "Try bins={'time': 'day'}, or with a declared range bins={'time': ('day', '2024-01-01', '2024-03-31')}."


@dataclass(frozen=True, kw_only=True)
class Bins:
    """How moments are binned: a width, and the declared range, both ends included, if there is one.

    >>> Bins(width="day", start="2024-02-28", end="2024-03-01").labels.astype(str).tolist()
    ['2024-02-28', '2024-02-29', '2024-03-01']
    """

    width: str | int
    start: str | None = None
    end: str | None = None

    def __post_init__(self) -> None:
        if self.width not in _NAMED and not (isinstance(self.width, int) and 1 <= self.width <= 100 * 366 * 86400):
            raise InputError(f"bins must be of an hour, a day, a week, a month or a whole number of seconds. {_REMEDY}")
        if (self.start is None) != (self.end is None):
            raise InputError(f"bins: a range has a start and an end. {_REMEDY}")
        if self.start is not None and len(self._places) > _MOST:
            raise InputError(f"bins: a range may have {_MOST} bins at most. Choose wider bins or a shorter range.")

    @property
    def _places(self) -> range:
        """The numbers of the declared bins."""
        if self.width != "month" and any(_is_month(end) for end in (self.start, self.end)):
            raise InputError(f"bins: a range of bins that are no months begins and ends with a day. {_REMEDY}")
        ends = [to_seconds(self.start), to_seconds(self.end)]
        if any(math.isnan(each) for each in ends) or ends[0] > ends[1]:
            raise InputError(f"bins: a range is two moments, the earlier one first. {_REMEDY}")
        first, last = self.number(np.array(ends)).tolist()
        return range(int(first), int(last) + 1)

    @property
    def labels(self) -> NDArray[Any] | None:
        """The bins of the declared range, each by its first moment; None if no range was declared."""
        return None if self.start is None else self.begin(np.array(self._places))

    def number(self, seconds: NDArray[Any]) -> NDArray[Any]:
        """Return the number of the bin of every moment; moments are seconds since 1970, in UTC."""
        if self.width == "month":
            months = np.floor(seconds).astype("datetime64[s]").astype("datetime64[M]")
            return months.astype(np.int64)  # type: ignore[no-any-return]
        if isinstance(self.width, str):
            offset = _MONDAY if self.width == "week" else 0
            return np.floor((seconds - offset) / _SECONDS[self.width]).astype(np.int64)
        return np.floor(seconds / self.width).astype(np.int64)

    def begin(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the first moment of every bin: a date where bins are days or longer, else a second."""
        if self.width == "month":
            return numbers.astype("datetime64[M]").astype("datetime64[D]")
        if isinstance(self.width, str):
            seconds = numbers * _SECONDS[self.width] + (_MONDAY if self.width == "week" else 0)
            return seconds.astype("datetime64[s]").astype("datetime64[s]" if self.width == "hour" else "datetime64[D]")
        return (numbers * self.width).astype("datetime64[s]")


def settle_bins(bins: Mapping[str, Any] | None) -> dict[str, Bins]:
    """Return the bins of every mode that is to have some: a width, or (width, start, end).

    >>> settle_bins({"time": ("week", "2024-01-01", "2024-02-01")})["time"].width
    'week'
    """
    if bins is None:
        return {}
    if not isinstance(bins, Mapping):
        raise InputError(f"bins must be a mapping from modes to widths. {_REMEDY}")
    return {name: _settle(given) for name, given in bins.items()}


def _settle(given: Any) -> Bins:
    if isinstance(given, Bins):
        return given
    parts: Sequence[Any] = [given] if isinstance(given, str | int) else list(given)
    if len(parts) not in (1, 3):
        raise InputError(f"bins are a width, or a width, a start and an end. {_REMEDY}")
    width, *ends = parts
    if isinstance(width, str) and width.isascii() and width.isdigit():
        width = int(width)
    ends = [None if end is None else str(end) for end in ends]
    return Bins(width=width, **dict(zip(("start", "end"), ends, strict=bool(ends))))


def to_seconds(item: Any) -> float:
    """Return a moment as seconds since 1970 in UTC, NaN for what is none; numbers are such seconds already.

    A whole number that begins with a year from 1900 to 2100 and goes on with two digits each for a month, a day, an
    hour, a minute and a second, or some of them, is no such number but a date written in digits. A year alone is no
    moment, since no bin is as long. Nor is a number nearer to 1970 than three years: it is a day of a spreadsheet, or
    a date in another order.

    >>> to_seconds("1970-01-02"), to_seconds("1970-01-01T01:00+01:00"), to_seconds("881250949")
    (86400.0, 0.0, 881250949.0)
    >>> to_seconds(20240103) == to_seconds("2024-01-03"), to_seconds("2024-01") == to_seconds(202401)
    (True, True)
    >>> to_seconds(202401031730) == to_seconds("2024-01-03T17:30"), to_seconds(2024), to_seconds(45294)
    (True, nan, nan)
    """
    if isinstance(item, bytes):
        item = item.decode(errors="replace")
    if isinstance(item, str):
        text = item.strip()
        with suppress(ValueError, OverflowError):
            return _from_number(float(text))
        with suppress(ValueError, OverflowError):
            item = datetime.datetime.fromisoformat(_to_iso(text))
    if hasattr(item, "to_timestamp"):  # a period of pandas, which begins then
        item = item.to_timestamp()
    if isinstance(item, datetime.datetime):
        zone = item.tzinfo or datetime.UTC
        with suppress(ValueError, OverflowError):
            return _within(item.replace(tzinfo=zone).timestamp())
        return math.nan
    if isinstance(item, datetime.date):
        return float(item.toordinal() - datetime.date(1970, 1, 1).toordinal()) * 86400
    if isinstance(item, np.datetime64):
        return _within(float(item.astype("datetime64[us]").astype(np.int64)) / 1e6)
    if isinstance(item, int | float | np.integer | np.floating) and not isinstance(item, bool):
        return _from_number(float(item))
    return math.nan


def are_seconds(numbers: NDArray[Any]) -> bool:
    """Tell whether many numbers are moments in seconds since 1970, by their size: between 1979 and 2128."""
    return len(numbers) >= _MANY and bool(_RECENT[0] < numbers.min() and numbers.max() < _RECENT[1])


def _to_iso(text: str) -> str:
    """Return a month, or a date with points between its parts, as ISO text has it; all others as they are."""
    if found := _DOTTED.fullmatch(text):
        day, month, year, rest = found.groups()
        return f"{year}-{month:>02}-{day:>02}{rest}"
    return f"{text}-01" if _MONTH.fullmatch(text) else text


def _from_number(number: float) -> float:
    """Return a number as seconds since 1970, or the date that its digits write."""
    if not math.isfinite(number):
        return math.nan
    digits = f"{abs(number) // 1:.0f}"
    if number > 0 and _FIRST_YEAR <= int(digits[:4]) <= _LAST_YEAR and (found := _WRITTEN.fullmatch(digits)):
        date = _from_digits(*found.groups()) if number.is_integer() else math.nan
        if len(digits) != 10 or not math.isnan(date):  # as seconds have from 2001 on, which are none of 2030
            return date
    return _within(number) if abs(number) >= _LEAST else math.nan


def _from_digits(year: str, month: str, rest: str) -> float:
    """Return the first moment of a month, a day, an hour, a minute or a second; NaN for what is none."""
    day, hour, minute, second = (int(rest[at : at + 2] or at == 0) for at in (0, 2, 4, 6))
    with suppress(ValueError):
        return datetime.datetime(int(year), int(month), day, hour, minute, second, tzinfo=datetime.UTC).timestamp()
    return math.nan


def _is_month(item: Any) -> bool:
    """Tell whether a moment is written as a month."""
    text = str(item).strip()
    return bool(_MONTH.fullmatch(text)) or (len(text) == 6 and text.isdigit())


def _within(seconds: float) -> float:
    return seconds if -_LAST < seconds < _LAST else math.nan


def check_bins(bins: Iterable[str], modes: Sequence[str], columns: Sequence[str], *, helpful: bool = True) -> None:
    """Refuse bins of what is no mode; ``helpful`` errors tell whether it is a column."""
    for name in bins:
        if helpful and name in columns and name not in modes:
            raise InputError(
                f"bins must name modes; column {name!r} is none. Name it among the modes, modes={[*modes, name]!r}, or "
                "leave its bins out."
            )
        if name not in modes:
            raise InputError(f"bins must name modes; there is no mode {name!r}. {near(name, columns, helpful=helpful)}")


def bin_columns(table: pa.Table, bins: Mapping[str, Bins], *, lenient: bool) -> tuple[pa.Table, dict[str, Mode]]:
    """Return a table with bins instead of moments, and the public lists that declared ranges make.

    What is no moment is refused, unless ``lenient``: then it is in no bin.
    """
    lists = {}
    for name, chosen in bins.items():
        place = table.column_names.index(name)
        seconds = _column_seconds(table.column(place))
        none = np.isnan(seconds)
        if none.any() and not lenient:
            raise InputError(
                f"column {name!r} must hold moments to be binned: {MOMENTS}. Some fields are none: {NO_MOMENTS}."
            ).of("no moment")
        table = table.set_column(place, name, _begun(chosen, seconds))
        if (labels := chosen.labels) is not None:
            lists[name] = Mode(name, labels, chosen.width)
    return table, lists


def known_bins(modes: Iterable[str | Mode], bins: Mapping[str, Bins]) -> dict[str, Bins]:
    """Return the bins that modes bring, and those that are asked for; for a mode that has some they must be the same.

    >>> known_bins([Mode("day", np.array(["2024-01-03"], "datetime64[D]"), bins="day"), "film"], {})
    {'day': Bins(width='day', start=None, end=None)}
    """
    own = {mode.name: mode.bins for mode in modes if isinstance(mode, Mode) and mode.bins is not None}
    for name, width in own.items():
        if name in bins and bins[name].width != width:
            raise InputError(
                f"bins of mode {name!r} must be those that it has, of {name_width(width)}. Leave them out: they are "
                "known."
            )
    return {name: Bins(width=width) for name, width in own.items()} | {**bins}


def name_width(width: str | int) -> str:
    """Return how long bins are, in words.

    >>> name_width("hour"), name_width(900)
    ('an hour', '900 s')
    """
    return f"{width} s" if isinstance(width, int) else f"a {width}".replace("a h", "an h")


def bin_items(items: NDArray[Any], width: str | int) -> NDArray[Any]:
    """Return the first moment of the bin that each of these moments is in; what is no moment has none (NaT).

    >>> bin_items(np.array(["2024-01-03T17:30", "noon"]), "day").astype(str).tolist()
    ['2024-01-03', 'NaT']
    """
    if items.dtype.kind == "M":
        micros = items.astype("datetime64[us]")
        seconds = np.where(np.isnat(micros), math.nan, micros.astype(np.int64) / 1e6)
    else:
        seconds = np.array([to_seconds(item) for item in items.tolist()], np.float64)
    seconds = np.where(np.abs(seconds) < _LAST, seconds, math.nan)
    none = np.isnan(seconds)
    chosen = Bins(width=width)
    begun = chosen.begin(chosen.number(np.where(none, 0.0, seconds)))
    begun[none] = np.datetime64("NaT")
    return begun


def bin_column(column: pa.ChunkedArray, width: str | int) -> pa.ChunkedArray:
    """Return a column of moments as the first moments of their bins, null for what is no moment."""
    return _begun(Bins(width=width), _column_seconds(column))


def _begun(bins: Bins, seconds: NDArray[Any]) -> pa.ChunkedArray:
    import pyarrow as pa

    none = np.isnan(seconds)
    return pa.chunked_array([pa.array(bins.begin(bins.number(np.where(none, 0.0, seconds))), mask=none)])


def _column_seconds(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column as seconds since 1970, NaN where there is none; every field by itself."""
    import pyarrow as pa

    micros = count_micros(column)
    if micros is not None:
        return np.where(micros == NO_MOMENT, np.nan, micros / 1e6)
    if pa.types.is_nested(column.type):
        return np.full(len(column), np.nan)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries()
    items = [] if not whole.num_chunks else whole.chunk(0).dictionary.to_pylist()
    known = np.array([*map(to_seconds, items), math.nan])
    parts = [chunk.indices.fill_null(len(items)).to_numpy(zero_copy_only=False) for chunk in whole.chunks]
    return known[np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)]


def count_micros(column: pa.ChunkedArray) -> NDArray[np.int64] | None:
    """Return a column of moments as microseconds since 1970, `NO_MOMENT` where there is none; None for other columns.

    What lies beyond the calendar of Python, which some databases use for "never", is no moment; nor are times of a day
    and lengths of time.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type) and pa.types.is_temporal(column.type.value_type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if not pa.types.is_temporal(kind):
        return None
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return np.full(len(column), NO_MOMENT)
    whole = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(pa.int64())
    ticks, gone = np.asarray(whole.fill_null(0).to_numpy()), np.asarray(whole.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_date32(kind):
        within, micros = (ticks >= _FIRST // 86400) & (ticks < _LAST // 86400), ticks * (86400 * 10**6)
    else:
        a_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}["ms" if pa.types.is_date64(kind) else kind.unit]
        within = (ticks >= _FIRST * a_second) & (ticks < _LAST * a_second)
        micros = ticks // 10**3 if a_second > 10**6 else ticks * (10**6 // a_second)
    return np.where(within & ~gone, micros, NO_MOMENT)
