"""Tables of cells to predict, in any format that is a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models.indexing import find_columns, missing_columns
from tensorveil.tensor import Mode
from tensorveil.tensor.bins import bin_columns, check_bins, known_bins, settle_bins
from tensorveil.tensor.files.dialect import PLAIN, Dialect
from tensorveil.tensor.files.formats import read_table, table_format
from tensorveil.tensor.files.text import tell_line_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Asked", "find_cells", "read_asked", "read_model_table"]


def read_asked(
    path: Path,
    modes: tuple[Mode, ...],
    shape: tuple[int, ...],
    bins: Mapping[str, Any] | None = None,
    dialect: Dialect = PLAIN,
) -> tuple[NDArray[np.int32], pa.Table]:
    """Read labels (indices, where a mode has none) of the cells to predict, as (order, n) columns.

    Moments of the modes in ``bins`` stand for the bins they are in, as when the model's tensor was read. The table
    comes along as it is written.
    """
    kind = table_format(path).name
    if not path.is_file():
        raise InputError(f"at: file not found: {path}.")
    asked = read_model_table(path, modes, bins, dialect)
    return find_cells(asked.binned, modes, shape, path.name, kind), asked.written


_PLAIN = r"^(-?[1-9][0-9]{0,17}|0)$"


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """A table of cells: as it is written, and with its moments in bins."""

    written: pa.Table
    binned: pa.Table


def read_model_table(
    path: Path,
    modes: Sequence[Mode],
    bins: Mapping[str, Any] | None = None,
    dialect: Dialect = PLAIN,
    people: str | None = None,
) -> Asked:
    """Read a table of a model's modes: columns of text labels stay text, so that "007" does not turn into 7.

    Moments are put into the bins that the model knows, and into those that are named. ``people`` is the mode of those
    whom the model does not know: they are told apart as they are written.
    """
    texts = [mode.name for mode in modes if mode.labels is not None and mode.labels.dtype.kind == "T"]
    asked = settle_bins(bins)
    wanted = known_bins(modes, asked)
    named = [] if people is None or people in wanted else [people]
    table = read_table(path, text=[*texts, *wanted, *named], dialect=dialect)
    for name in named:
        table = _with_numbers(table, name)
    check_bins(asked, [mode.name for mode in modes], table.column_names, fixed=True)
    present = {name: each for name, each in wanted.items() if name in table.column_names}
    try:
        return Asked(written=table, binned=bin_columns(table, present, lenient=False)[0])
    except InputError as error:
        kind = table_format(path).name
        if kind not in ("csv", "tsv"):
            raise
        problem = tell_line_of(error, path, kind, dialect, table.column_names, present)
    raise problem


def _with_numbers(table: pa.Table, name: str) -> pa.Table:
    """Return a table with a column of text as whole numbers, if all of it is written as such: 7, but not 07 or 7.0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name not in table.column_names or not pa.types.is_string(table.column(name).type):
        return table
    if not pc.all(pc.match_substring_regex(table.column(name), _PLAIN)).as_py():
        return table
    return table.set_column(table.column_names.index(name), name, table.column(name).cast(pa.int64()))


def find_cells(
    table: pa.Table, modes: tuple[Mode, ...], shape: tuple[int, ...], name: str, kind: str = "a table"
) -> NDArray[np.int32]:
    """Return the cells that a table names, as (order, n) columns; ``name`` and ``kind`` are what errors call it."""
    import pyarrow as pa

    missing = [mode.name for mode in modes if mode.name not in table.column_names]
    if missing:
        raise missing_columns(f"at: {name}", missing, table.column_names)
    try:
        labels = {mode.name: _labels(table.column(mode.name), mode) for mode in modes}
    except pa.ArrowException as error:  # Arrow's own message may quote the data
        raise InputError(f"at: {name} cannot be read as {kind} with labels of the model's kind.") from error
    return find_columns(labels, modes, shape)


def _labels(column: pa.ChunkedArray, mode: Mode) -> NDArray[Any]:
    """Return one column as labels of the mode's kind."""
    import pyarrow as pa

    if column.null_count:
        raise InputError(f"at: column {mode.name!r} has empty cells. Fill them in, or drop those rows.")
    if mode.labels is None:
        if not pa.types.is_integer(column.type):
            raise InputError(f"at: mode {mode.name!r} has no labels, so its column must hold 0-based indices.")
        return np.asarray(column.to_numpy())
    if mode.labels.dtype.kind == "T":
        return np.asarray(column.cast(pa.string()).to_numpy(), dtype=object)
    return np.asarray(column.cast(pa.from_numpy_dtype(mode.labels.dtype)).to_numpy())
