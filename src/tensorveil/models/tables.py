"""Predictions as tables: one column per mode, with labels where there are some, and the predicted value."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor import Mode
from tensorveil.tensor.frames import as_table
from tensorveil.tensor.given import frame_of_levels, is_frame
from tensorveil.tensor.tables_out import arrow_to_pandas, arrow_to_polars

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CONTAINERS", "answers_table", "cells_table", "check_container", "frame_of"]

CONTAINERS: Final = ("default", "pandas", "polars")
Interval = tuple[NDArray[Any], NDArray[Any]]


def check_container(name: object) -> str:
    """Return the kind of frame that predictions are to come in, if it is one of them."""
    if name not in CONTAINERS:
        raise InputError(f"predict must be one of {', '.join(map(repr, CONTAINERS))}; got {name!r}.")
    return str(name)


def cells_table(
    columns: NDArray[np.int32],
    values: NDArray[Any],
    modes: Sequence[Mode],
    value_name: str,
    interval: Interval | None = None,
) -> pa.Table:
    """Make a table of cells: a label column per mode, and the predicted value; with an interval also low and high."""
    import pyarrow as pa

    arrays: dict[str, Any] = {}
    for mode, column in zip(modes, columns, strict=True):
        if mode.labels is None:
            arrays[mode.name] = pa.array(column)
        elif mode.labels.dtype.kind == "T":
            labels = pa.array(mode.labels.tolist(), pa.string())
            arrays[mode.name] = pa.DictionaryArray.from_arrays(pa.array(column), labels)
        else:
            arrays[mode.name] = pa.array(mode.labels[column])
    return pa.table(arrays | _predicted(values, interval, value_name, arrays))


def answers_table(
    asked: pa.Table,
    values: NDArray[Any],
    modes: Sequence[Mode],
    value_name: str,
    interval: Interval | None = None,
) -> pa.Table:
    """Make a table of the cells that were asked about, as they were written, and the predicted value."""
    import pyarrow as pa

    arrays = {mode.name: asked.column(mode.name) for mode in modes if mode.name in asked.column_names}
    return pa.table(arrays | _predicted(values, interval, value_name, [mode.name for mode in modes]))


def frame_of(
    given: Any,
    columns: NDArray[np.int32],
    values: NDArray[Any],
    modes: Sequence[Mode],
    value_name: str,
    interval: Interval | None,
    container: str,
) -> Any:
    """Return predictions as a frame of the kind ``container``.

    Cells are as they were asked about: a pandas object keeps its index, whose levels may be modes, and a frame its
    columns of modes.
    """
    names = [mode.name for mode in modes]
    levels = frame_of_levels(given)
    if container == "pandas" and (levels is not None or hasattr(given, "loc")):
        plain = given if is_frame(given) else None if levels is None else _rows_of(given)
        if plain is not None and {*names} <= {*plain.columns, *_level_names(plain)}:
            kept = plain[[name for name in names if name in plain.columns]]
            return kept.assign(**_predicted(values, interval, value_name, names))
    table = as_table(given if levels is None else levels) if is_frame(given) or levels is not None else None
    if table is not None and {*names} <= {*table.column_names}:
        table = answers_table(table, values, modes, value_name, interval)
    else:
        table = cells_table(columns, values, modes, value_name, interval)
    return arrow_to_pandas(table) if container == "pandas" else arrow_to_polars(table)


def _rows_of(given: Any) -> Any:
    """Return a frame without columns of a pandas index of several levels, or of that of a series."""
    return (given if hasattr(given, "nlevels") else given.index).to_frame()[[]]


def _level_names(frame: Any) -> list[Any]:
    """Return the names of the levels of a frame's index that stand for columns: of several."""
    names = list(frame.index.names)
    return names if len(names) > 1 else []


def _predicted(
    values: NDArray[Any], interval: Interval | None, value_name: str, taken: Container[str]
) -> dict[str, NDArray[Any]]:
    found = {_free_name(value_name, taken): values}
    for name, bound in zip(("low", "high"), interval or (), strict=False):
        found[_free_name(name, (*found, *taken))] = bound  # type: ignore[misc]
    return found


def _free_name(name: str, taken: Container[str]) -> str:
    """Return a name for a predicted column that no other column has."""
    while name in taken:
        name = f"predicted_{name}"
    return name
