"""Tables of cells (CSV, TSV, Parquet): cells to predict come in, predicted cells go out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models.indexing import labelled_columns
from tensorveil.models.storage import atomic_file
from tensorveil.tensor import Mode

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["cells_table", "read_cells", "table_suffix", "write_cells"]

READABLE = ".csv, .tsv (also .gz) or .parquet"


def table_suffix(path: Path) -> str:
    """Return the file's kind by its name: .csv, .tsv or .parquet; else an empty string."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    return kind if kind in (".csv", ".tsv", ".parquet") else ""


def read_cells(path: Path, modes: tuple[Mode, ...], shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Read labels (indices, where a mode has none) of the cells to predict, as (order, n) columns."""
    import pyarrow as pa

    kind = table_suffix(path)
    if not kind:
        raise InputError(f"at: {path.name} must be a {READABLE} file with one column per mode.")
    if not path.is_file():
        raise InputError(f"at: file not found: {path}.")
    try:
        table = _read_parquet(path) if kind == ".parquet" else _read_text(path, kind, modes)
        missing = [mode.name for mode in modes if mode.name not in table.column_names]
        if missing:
            raise InputError(f"at: {path.name} must have a column for every mode; missing {missing}.")
        labels = {mode.name: _labels(table.column(mode.name), mode) for mode in modes}
    except pa.ArrowException as error:  # Arrow's own message may quote the data
        raise InputError(f"at: {path.name} cannot be read as {kind[1:]} with labels of the model's kind.") from error
    return labelled_columns(labels, modes, shape)


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(path)


def _read_text(path: Path, kind: str, modes: tuple[Mode, ...]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    # Types come from the model: the text label "007" must not turn into the number 7.
    types = {mode.name: pa.string() for mode in modes if mode.labels is not None and mode.labels.dtype.kind == "T"}
    return csv.read_csv(
        path,
        parse_options=csv.ParseOptions(delimiter="\t" if kind == ".tsv" else ","),
        convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=True),
    )


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


def cells_table(columns: NDArray[np.int32], values: NDArray[Any], modes: tuple[Mode, ...], value_name: str) -> pa.Table:
    """Make a table of cells: a label column per mode, and the predicted value."""
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
    arrays[_free_name(value_name, modes)] = pa.array(values)
    return pa.table(arrays)


def _free_name(value_name: str, modes: tuple[Mode, ...]) -> str:
    """Return a name for the value column that no mode has."""
    names = {mode.name for mode in modes}
    while value_name in names:
        value_name = f"predicted_{value_name}"
    return value_name


def write_cells(path: Path, table: pa.Table) -> None:
    """Write a table as CSV, TSV or Parquet by its name, whole or not at all."""
    import pyarrow.parquet as pq
    from pyarrow import csv

    kind = table_suffix(path)
    if not kind or path.suffix.lower() == ".gz":
        raise InputError(f"output: {path.name} must end in .csv, .tsv or .parquet.")
    with atomic_file(path) as file:
        if kind == ".parquet":
            pq.write_table(table, file, compression="zstd")
        else:
            options = csv.WriteOptions(delimiter="\t" if kind == ".tsv" else ",", quoting_style="needed")
            csv.write_csv(_plain(table), file, options)


def _plain(table: pa.Table) -> pa.Table:
    """Undo dictionary encoding, which CSV writing does not take."""
    import pyarrow as pa

    columns = {
        name: column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pa.table(columns)
