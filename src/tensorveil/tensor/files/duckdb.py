"""DuckDB databases: one of their tables, through the package duckdb."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorveil.errors import MissingDependencyError
from tensorveil.memory import check_file_memory, memory_limit
from tensorveil.tensor.files.file_format import Format, Layout
from tensorveil.tensor.files.sqlite import WRITTEN, pick_table, quote_name
from tensorveil.tensor.frames import table_to_tensor
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.tables_out import tensor_to_table

if TYPE_CHECKING:
    import pyarrow as pa

# Nothing that stands in a database may reach for other files, or load programs.
CLOSED = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise MissingDependencyError('duckdb is not installed. Run: pip install "tensorveil[duckdb]"') from None
    return duckdb


def _load(path: Path, said: str | None) -> pa.Table:
    duckdb = _duckdb()
    check_file_memory(path.stat().st_size)
    with closing(duckdb.connect(str(path), read_only=True, config=CLOSED)) as connection:
        connection.execute(f"SET memory_limit = '{memory_limit() // 2} bytes'")
        found = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
        table = quote_name(pick_table([name for (name,) in found], said))
        reader = connection.execute(f"SELECT * FROM {table}").to_arrow_reader(1 << 16)
        batches, total = [], 0
        for batch in reader:
            total += batch.nbytes
            check_file_memory(2 * total)
            batches.append(batch)
        import pyarrow as pa

        whole = pa.Table.from_batches(batches, reader.schema)
    return whole.select([name for name in whole.column_names if not pa.types.is_nested(whole.schema.field(name).type)])


def read_tensor(path: Path, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read a tensor from a table; the database declares of what kind its columns are."""
    return table_to_tensor(
        _load(path, layout.variable), layout.modes, layout.value, labels=layout.labels,
        index_base=layout.index_base or 0, lists=layout.lists, owners=layout.owners, bins=layout.bins, **options,
    )  # fmt: skip


def read_table(path: Path, *, text: Collection[str]) -> pa.Table:
    """Read the only table."""
    return _load(path, None)


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Write labels (or indices) and the value into a table."""
    write_table(tensor_to_table(tensor, tensor.value_name), path)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a database of one table, ``entries``."""
    duckdb = _duckdb()
    path.unlink(missing_ok=True)  # what is no database cannot be opened
    with closing(duckdb.connect(str(path))) as connection:
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {WRITTEN} AS SELECT * FROM given")


FORMAT = Format(
    name="duckdb",
    endings=(".duckdb",),
    read=read_tensor,
    write=write_tensor,
    read_table=read_table,
    write_table=write_table,
)
