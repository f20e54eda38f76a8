"""SQLite databases: one of their tables. Cells have kinds of their own there, so each is taken by itself."""

from __future__ import annotations

import sqlite3
import urllib.parse
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorveil.errors import InputError
from tensorveil.memory import check_file_memory
from tensorveil.tensor.cursors import CELL, rows_to_table
from tensorveil.tensor.files.file_format import Format, Layout
from tensorveil.tensor.frames import is_open, table_to_tensor
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.tables_out import tensor_to_table

if TYPE_CHECKING:
    import pyarrow as pa

WRITTEN = "entries"
# No views and no virtual tables, which are programs.
TABLES = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
    "AND sql NOT LIKE 'CREATE VIRTUAL%'"
)


def quote_name(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def pick_table(tables: Sequence[str], said: str | None) -> str:
    """Return the table that was named, or the only one there is."""
    known = ", ".join(map(repr, sorted(tables)))
    if not tables:
        raise InputError("path must be a database with a table; it has none.")
    if said is None:
        if len(tables) > 1:
            raise InputError(f"variable must name the table to read; the database has {known}.")
        return tables[0]
    if said not in tables:
        raise InputError(f"variable must name a table of the database; it has {known}.")
    return said


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading: nothing that stands in it is run."""
    address = f"file:{urllib.parse.quote(str(path.resolve()))}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.text_factory = lambda text: text.decode(errors="replace")
        yield connection


def _load(path: Path, said: str | None, *, lenient: bool) -> pa.Table:
    check_file_memory(2 * path.stat().st_size)
    with _open(path) as connection:
        table = quote_name(pick_table([name for (name,) in connection.execute(TABLES)], said))
        (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        cursor = connection.execute(f"SELECT * FROM {table}")
        check_file_memory(CELL * rows * len(cursor.description))
        return rows_to_table([column[0] for column in cursor.description], cursor.fetchall(), lenient=lenient)


def read_tensor(path: Path, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read a tensor from a table."""
    table = _load(path, layout.variable, lenient=not is_open(options))
    return table_to_tensor(
        table, layout.modes, layout.value, labels=layout.labels, index_base=layout.index_base or 0,
        lists=layout.lists, owners=layout.owners, bins=layout.bins, **options,
    )  # fmt: skip


def read_table(path: Path, *, text: Collection[str]) -> pa.Table:
    """Read the only table."""
    return _load(path, None, lenient=False)


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Write labels (or indices) and the value into a table."""
    write_table(tensor_to_table(tensor, tensor.value_name), path)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a database of one table, ``entries``."""
    path.unlink(missing_ok=True)
    names = ", ".join(map(quote_name, table.column_names))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute(f"CREATE TABLE {WRITTEN} ({names})")
        marks = ", ".join("?" * table.num_columns)
        for batch in table.to_batches(max_chunksize=1 << 16):
            rows = zip(*(map(_plain, column.to_pylist()) for column in batch.columns), strict=True)
            connection.executemany(f"INSERT INTO {WRITTEN} VALUES ({marks})", rows)


def _plain(cell: Any) -> Any:
    return cell if cell is None or isinstance(cell, int | float | str) else str(cell)


FORMAT = Format(
    name="sqlite",
    endings=(".sqlite", ".sqlite3", ".db"),
    magic=(b"SQLite format 3\x00",),
    read=read_tensor,
    write=write_tensor,
    read_table=read_table,
    write_table=write_table,
)
