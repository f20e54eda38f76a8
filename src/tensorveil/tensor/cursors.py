"""Rows of Python's objects as tables: what databases and JSON give, where each cell has a kind of its own."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorveil.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CELL", "decode_field", "fetch_table", "is_cursor", "rows_to_table"]

CELL = 100  # bytes that a cell takes as an object of Python, besides its text


def is_cursor(thing: Any) -> bool:
    """Tell whether something is a database cursor that holds a result, of ADBC or by Python's DB-API."""
    return hasattr(thing, "fetchall") and hasattr(thing, "description") and not hasattr(thing, "columns")


def fetch_table(cursor: Any, *, lenient: bool) -> pa.Table:
    """Return the rows that a query found."""
    if cursor.description is None:
        raise InputError(
            "frame: the cursor holds no result. Execute a query first, such as SELECT user, film, rating FROM ratings."
        )
    if hasattr(cursor, "fetch_arrow_table"):  # ADBC, DuckDB: columns with declared kinds
        return cursor.fetch_arrow_table()
    return rows_to_table([column[0] for column in cursor.description], cursor.fetchall(), lenient=lenient)


def rows_to_table(names: Sequence[str], rows: Sequence[Sequence[Any]], *, lenient: bool) -> pa.Table:
    """Return rows of Python's objects as a table.

    With ``lenient`` every cell becomes text, so that none of them decides what others are taken for.
    """
    import pyarrow as pa

    cells = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    if lenient:
        return pa.table([pa.array([_cell_text(cell) for cell in column], pa.string()) for column in cells], list(names))
    columns = []
    for column in cells:
        mixed = len({type(cell) for cell in column if cell is not None} - {int, float}) > 1
        failed = mixed or any(isinstance(cell, int) and abs(cell) > 1 << 62 for cell in column)
        if not failed:
            try:
                columns.append(pa.array(column))
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                failed = True  # Arrow's own message quotes the data
        if failed:
            columns.append(pa.array([_cell_text(cell) for cell in column], pa.string()))
    return pa.table(columns, names=list(names))


def _cell_text(cell: Any) -> str | None:
    """Return a cell as text; None for what is no text, number, date or truth value."""
    if isinstance(cell, bytes):
        return decode_field(cell)
    if isinstance(cell, datetime.datetime):
        moment = cell if cell.tzinfo is None else cell.astimezone(datetime.UTC).replace(tzinfo=None)
        return str(moment)
    known = isinstance(cell, str | bool | int | float | decimal.Decimal | datetime.date)
    text = str(cell) if known and not (isinstance(cell, int) and cell.bit_length() > 4096) else None
    return None if text is None else text.encode(errors="replace").decode()


def decode_field(field: bytes | None) -> str | None:
    """Return the text of a field, unless it is none."""
    try:
        return None if field is None else field.decode()
    except UnicodeDecodeError:
        return None
