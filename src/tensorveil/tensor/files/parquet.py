"""Parquet: tensors, tables and matrices. Labels are read as dictionaries, so that no string is compared twice."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.memory import check_file_memory
from tensorveil.tensor.files.file_format import Array, DenseFile, Format, Layout
from tensorveil.tensor.frame_index import list_columns
from tensorveil.tensor.frames import choose_columns, is_open, table_to_tensor
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.tables_out import METADATA, stored_description, tensor_to_table

if TYPE_CHECKING:
    import pyarrow as pa


_DAMAGED = "path must be a readable Parquet file. The file is damaged or has another format."
_BLOCK = 1 << 18  # rows
_BUFFER = 1 << 20  # bytes of a file that are read ahead


def read_tensor(path: Path, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read only the columns that are needed."""
    import pyarrow as pa

    names, value, text = _choose(path, layout, options)
    table = None
    with suppress(pa.ArrowException, OSError):
        table = _load(path, columns=[*names, value], keep=text)
    if table is None:
        raise InputError(_DAMAGED)
    # Parquet returns columns in file order.
    tensor = table_to_tensor(
        table.select([*names, value]),
        layout.modes,
        layout.value,
        labels=layout.labels,
        index_base=layout.index_base or 0,
        sealed=True,
        lists=layout.lists,
        owners=layout.owners,
        bins=layout.bins,
        **options,
    )
    del table
    pa.default_memory_pool().release_unused()  # else kept to the end: as much as the tensor, and more
    return tensor


def cut_table(path: Path, layout: Layout, options: dict[str, Any]) -> Iterator[pa.Table]:
    """Read only the columns that are needed, a block of rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names, value, text = _choose(path, layout, options)
    sound = False
    with suppress(pa.ArrowException, OSError):
        file = pq.ParquetFile(
            path, read_dictionary=text, page_checksum_verification=True, buffer_size=_BUFFER, pre_buffer=False
        )
        if any(pa.types.is_nested(file.schema_arrow.field(name).type) for name in [*names, value]):
            raise InputError("columns to read must hold a text, a number or a date per cell, not lists or structures.")
        for batch in file.iter_batches(_BLOCK, columns=[*names, value], use_threads=False):
            table = pa.Table.from_batches([batch]).replace_schema_metadata(file.schema_arrow.metadata)
            table.validate(full=True)
            yield table.select([*names, value])
        sound = True
    if not sound:
        raise InputError(_DAMAGED)


def _choose(path: Path, layout: Layout, options: dict[str, Any]) -> tuple[list[str], str, list[str]]:
    """Return the columns that are the modes, the one that is the value, and which of the modes are text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = None
    with suppress(pa.ArrowException, OSError):
        schema, outside = pq.read_schema(path), pq.read_metadata(path).metadata or {}
        # Our description is written twice; where one of the two is damaged, neither is believed.
        if outside.get(METADATA) != (schema.metadata or {}).get(METADATA):
            schema = None
    if schema is None:
        raise InputError(_DAMAGED)
    modes, value = layout.modes, layout.value
    if modes is None and value is None and (stored := stored_description(schema)) is not None:
        modes, value = stored.modes, stored.value
    columns = list_columns(schema, modes, value)
    names, value = choose_columns(columns, modes, value, helpful=is_open(options))
    return names, value, [name for name in names if _is_text(schema.field(name).type)]


def _load(path: Path, *, columns: Sequence[str] | None = None, keep: Collection[str] = ()) -> pa.Table:
    """Load a table whose size was compared with the limit, whose checksums are right, and whose every cell is valid.

    All columns but those that hold lists or structures, unless some are named. Texts are stored once, however many
    cells hold them, so their size is known only when they are: they are loaded as dictionaries, which the columns of
    ``keep`` remain.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    facts, schema = pq.read_metadata(path), pq.read_schema(path)
    groups = [facts.row_group(number) for number in range(facts.num_row_groups)]
    if facts.num_rows < 0 or facts.num_rows != sum(group.num_rows for group in groups):
        raise InputError("path must be a readable Parquet file. Its parts contradict each other: it is damaged.")
    wanted = [name for name in schema.names if not pa.types.is_nested(schema.field(name).type)]
    wanted = wanted if columns is None else list(columns)
    if any(pa.types.is_nested(schema.field(name).type) for name in wanted):
        raise InputError("columns to read must hold a text, a number or a date per cell, not lists or structures.")
    check_file_memory(max(2 * sum(group.total_byte_size for group in groups), 16 * len(wanted) * facts.num_rows))
    text = [name for name in wanted if _is_text(schema.field(name).type) or _is_bytes(schema.field(name).type)]
    # partitioning=None: folder names like "year=2023" are not columns of the file.
    table = pq.read_table(
        path,
        columns=wanted,
        partitioning=None,
        memory_map=True,
        page_checksum_verification=True,
        read_dictionary=text,
    )
    table.validate(full=True)
    plain = [name for name in text if name not in keep]
    check_file_memory(2 * sum(_decoded_bytes(table.column(name)) for name in plain))
    for name in plain:
        table = table.set_column(table.column_names.index(name), name, _decode(table.column(name)))
    return table


def _decoded_bytes(column: pa.ChunkedArray) -> int:
    """Return how many bytes a column of texts takes when each cell has its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
    return 8 * len(column) + sum(int(pc.sum(each.cast(pa.int64())).as_py() or 0) for each in lengths)


def _decode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Write labels (or indices) and the value; shape, bounds and label order go into the schema's metadata."""
    write_table(tensor_to_table(tensor, tensor.value_name, sealed=True), path)


def read_table(path: Path, *, text: Collection[str]) -> pa.Table:
    """Read all columns; the file itself says which of them are text."""
    return _load(path)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table, compressed."""
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def read_array(path: Path, variable: str | None) -> DenseFile:
    """Read a table of numbers as a matrix."""
    import pyarrow as pa

    table = _load(path)
    # By the types that the file declares, and not by what its cells hold: a missing one is NaN, whatever its column.
    if not table.columns or not all(_is_numeric(column.type) for column in table.columns):
        raise InputError(f"{path.name} must have numeric columns only: a row per tensor or slice, a column per entry.")
    columns = [np.asarray(column.cast(pa.float64(), safe=False).to_numpy()) for column in table.columns]
    return DenseFile(values=np.stack(columns, axis=1), columns=tuple(table.column_names))


def _is_numeric(kind: pa.DataType) -> bool:
    from pyarrow import types

    return any(test(kind) for test in (types.is_boolean, types.is_integer, types.is_floating, types.is_null))


def check_array(shape: tuple[int, ...]) -> None:
    """Refuse all but matrices."""
    if len(shape) != 2:
        raise InputError("a Parquet file holds a matrix. Write .npy instead.")


def write_array(values: Array, path: Path, columns: Sequence[str] | None) -> None:
    """Write a matrix, a column per entry."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_array(values.shape)
    names = [f"x{k}" for k in range(values.shape[1])] if columns is None else list(columns)
    table = pa.table([pa.array(values[:, k]) for k in range(values.shape[1])], names=names)
    pq.write_table(table, path, write_page_checksum=True)


FORMAT = Format(
    name="parquet",
    endings=(".parquet", ".pq"),
    magic=(b"PAR1",),
    read=read_tensor,
    write=write_tensor,
    cut=cut_table,
    read_table=read_table,
    write_table=write_table,
    read_array=read_array,
    write_array=write_array,
    check_array=check_array,
)
