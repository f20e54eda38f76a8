"""Predictions as tables: one column per mode, with labels where there are some, and the predicted value."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor import Mode
from tensorveil.tensor.frames import arrow_to_pandas, arrow_to_polars
from tensorveil.tensor.given import is_frame

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CONTAINERS", "cells_table", "check_container", "frame_of"]

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

    A pandas frame that was asked about keeps its index and its columns of modes as they are.
    """
    names = [mode.name for mode in modes]
    known = list(getattr(given, "columns", ())) if is_frame(given) else []
    if container == "pandas" and hasattr(given, "loc") and set(names) <= set(known):
        return given[names].assign(**_predicted(values, interval, value_name, names))
    table = cells_table(columns, values, modes, value_name, interval)
    return arrow_to_pandas(table) if container == "pandas" else arrow_to_polars(table)


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
