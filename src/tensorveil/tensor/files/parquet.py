"""Parquet: labels are read as dictionaries, so that no string is compared twice."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorveil.errors import InputError
from tensorveil.tensor.frames import choose_columns, stored_description, table_to_tensor, tensor_to_table
from tensorveil.tensor.observed import ObservedTensor

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorveil.tensor.files.formats import Source


def read_tensor(path: Path, source: Source, options: dict[str, Any]) -> ObservedTensor:
    """Read only the columns that are needed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    damaged = InputError("path must be a readable Parquet file. The file is damaged or has another format.")
    schema = None
    with suppress(pa.ArrowException, OSError):
        schema = pq.read_schema(path)
    if schema is None:
        raise damaged
    modes, value = source.modes, source.value
    if modes is None and value is None and (stored := stored_description(schema)) is not None:
        modes, value = stored.modes, stored.value
    names, value = choose_columns(schema.names, modes, value)
    text = [name for name in names if _is_text(schema.field(name).type)]
    table = None
    with suppress(pa.ArrowException, OSError):
        # partitioning=None: folder names like "year=2023" are no columns of the file.
        table = pq.read_table(path, columns=[*names, value], read_dictionary=text, memory_map=True, partitioning=None)
    if table is None:
        raise damaged
    # Parquet returns columns in file order.
    return to_tensor(table.select([*names, value]), source, options)


def to_tensor(table: pa.Table, source: Source, options: dict[str, Any]) -> ObservedTensor:
    """A table's tensor, as the source describes it."""
    return table_to_tensor(
        table,
        source.modes,
        source.value,
        labels=source.labels,
        index_base=source.index_base or 0,
        **options,
    )


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Labels (or indices) and the value; shape, bounds and label order go into the schema's metadata."""
    import pyarrow.parquet as pq

    pq.write_table(tensor_to_table(tensor), path, compression="zstd")
