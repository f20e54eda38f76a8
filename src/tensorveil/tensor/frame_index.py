"""The index of a pandas frame that a table brings along as columns: row numbers, or levels that are modes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorveil.errors import InputError
from tensorveil.tensor.modes import Mode

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["drop_index", "list_columns", "settle_index"]

_UNNAMED = re.compile(r"__index_level_\d+__")  # what Arrow calls a level without a name


def list_columns(schema: pa.Schema, modes: Sequence[str | Mode] | None, value: str | None) -> list[str]:
    """Return the columns that modes and value are chosen from: not an index that pandas has written along.

    Several levels are modes, as they are in a pandas frame, and come first. Which columns are an index is told by the
    schema alone.

    >>> import pyarrow as pa
    >>> list_columns(pa.schema([("user", pa.string()), ("__index_level_0__", pa.int64())]), None, None)
    ['user']
    """
    levels = [name for name in _levels(schema) if name in schema.names]
    others = [name for name in schema.names if name not in levels]
    if len(levels) > 1:
        return [*levels, *others]
    named = [mode.name if isinstance(mode, Mode) else mode for mode in modes or ()]
    if not levels or levels[0] in (*named, value):
        return list(schema.names)
    if modes is None and not _UNNAMED.fullmatch(levels[0]):
        raise InputError(
            f"column {levels[0]!r} is the index of the pandas frame that the table comes from. Name the columns that "
            "are modes, e.g. modes=['user', 'film'], with it or without it."
        )
    return others


def drop_index(table: pa.Table, modes: Sequence[str | Mode] | None = None, value: str | None = None) -> pa.Table:
    """Return a table of the columns that modes and value are chosen from, as `list_columns` tells them."""
    names = table.column_names
    return table.select([names.index(name) for name in list_columns(table.schema, modes, value)])


def settle_index(frame: Any, modes: Sequence[str | Mode] | None, value: str | None) -> Any:
    """Return a pandas frame whose named index of one level is a column if it was asked for; else it is left out.

    Where nobody has said which columns are modes it is refused, as `list_columns` does. The name alone decides, and no
    error quotes it: it may be the first row of a file without a header. Other things are returned as they are.
    """
    if type(frame).__module__.split(".")[0] != "pandas" or not hasattr(frame, "columns"):
        return frame
    name = frame.index.name
    if name is None or frame.index.nlevels > 1 or str(name) in map(str, frame.columns):
        return frame
    if str(name) in (*(mode.name if isinstance(mode, Mode) else mode for mode in modes or ()), value):
        return frame.reset_index()
    if modes is None:
        raise InputError(
            "frame has an index with a name, which may be a mode. Make it a column, frame.reset_index(), or name the "
            "columns that are modes, e.g. modes=['user', 'film'], with it or without it."
        )
    return frame


def _levels(schema: pa.Schema) -> list[str]:
    """Return the columns that pandas says are its index; without its word those that have the names of one."""
    try:
        stated = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        return [name for name in stated if isinstance(name, str)]  # row numbers alone are no column
    except (LookupError, ValueError, TypeError):
        return [name for name in schema.names if _UNNAMED.fullmatch(name)]
