"""Rating files: lines of fields with a separator, parsed by Arrow."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor

DAY = 86_400


def parse_rows(data: bytes, separator: bytes) -> list[NDArray[Any]]:
    """Return user, item, rating and time columns."""
    import pyarrow as pa
    from pyarrow import csv

    if len(separator) > 1:
        data, separator = data.replace(separator, b","), b","
    kinds = {"user": pa.int64(), "item": pa.int64(), "rating": pa.float64(), "time": pa.int64()}
    table = None
    with suppress(pa.ArrowException):
        table = csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(column_names=list(kinds)),
            parse_options=csv.ParseOptions(delimiter=separator.decode()),
            convert_options=csv.ConvertOptions(column_types=kinds),
        )
    if table is None:
        raise InputError("the ratings file must hold lines of user, item, rating and time. Fetch it again.")
    return [column.to_numpy() for column in table.columns]


def time_mode(time: str | int, all_times: NDArray[Any]) -> tuple[Mode, Any]:
    """Return a mode for the time of a rating, and the function that places times in it.

    "day": the UTC days on which somebody rated, as dates. A number: that many slices of equal length from
    the first rating to the last, unlabelled.
    """
    if time == "day":
        days = np.unique(all_times // DAY)
        return Mode("day", days.astype("datetime64[D]")), lambda times: np.searchsorted(days, times // DAY)
    if isinstance(time, bool) or not isinstance(time, int) or time < 1:
        raise InputError(f"time must be None, 'day' or a positive number of slices; got {time!r}.")
    first, span = int(all_times.min()), int(all_times.max() - all_times.min()) + 1
    return Mode("time"), lambda times: (times - first) * time // span


def ratings_tensor(
    part: list[NDArray[Any]],
    modes: tuple[Mode, Mode],
    bounds: tuple[float, float],
    time: str | int | None,
    all_times: NDArray[Any] | None,
) -> ObservedTensor:
    """Return a tensor of users x items, or of users x items x times."""
    users, items, ratings, times = part
    columns = [modes[0].encode(users), modes[1].encode(items)]
    named = [*modes]
    shape = [len(mode.labels) for mode in modes if mode.labels is not None]
    if time is not None:
        assert all_times is not None
        mode, place = time_mode(time, all_times)
        named.append(mode)
        columns.append(place(times))
        shape.append(len(mode.labels) if mode.labels is not None else int(time))
    return ObservedTensor.from_columns(columns, ratings, shape, bounds, named)
