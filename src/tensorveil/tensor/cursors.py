"""Rows of Python's objects as tables: what databases and JSON give, where each cell has a kind of its own."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorveil.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CELL", "decode_field", "fetch_table", "is_cursor", "rows_to_table", "text_of_cell"]

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
    if lenient and _guesses_kinds(cursor):
        raise InputError(
            "frame: SQLite's driver for ADBC guesses what a column holds by its first rows, so that one of them could "
            "change all others. Use a cursor of Python's sqlite3, or give the database file itself."
        )
    failed = False
    try:
        if hasattr(cursor, "fetch_arrow_table"):  # ADBC, DuckDB: columns with declared kinds
            return cursor.fetch_arrow_table()
        rows = cursor.fetchall()
    except Exception:
        failed = True  # what a driver says may quote the data
    if failed:
        raise InputError("frame: the database's driver failed while it fetched the rows. Try the query without it.")
    return rows_to_table([column[0] for column in cursor.description], rows, lenient=lenient)


def _guesses_kinds(cursor: Any) -> bool:
    """Tell whether a cursor's columns have kinds that follow from its rows: SQLite's have none that are declared."""
    tell = getattr(getattr(cursor, "connection", None), "adbc_get_info", None)
    return tell is not None and "sqlite" in str(tell().get("vendor_name", "")).lower()


def rows_to_table(names: Sequence[str], rows: Sequence[Sequence[Any]], *, lenient: bool) -> pa.Table:
    """Return rows of Python's objects as a table.

    With ``lenient`` every cell becomes text, so that none of them decides what others are taken for.
    """
    import pyarrow as pa

    cells = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    if lenient:
        return pa.table([pa.array(map(text_of_cell, column), pa.string()) for column in cells], list(names))
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
            columns.append(pa.array(map(text_of_cell, column), pa.string()))
    return pa.table(columns, names=list(names))


def text_of_cell(cell: Any) -> str | None:
    """Return a cell as text; None for what is no text, number, date or truth value.

    A float that is shorter than Python's is written as the number that it is, as a column of them would hold it.
    """
    if isinstance(cell, bytes):
        return decode_field(cell)
    if isinstance(cell, np.datetime64):
        return None if np.isnat(cell) else str(cell.astype("datetime64[us]"))
    if isinstance(cell, np.floating | np.integer | np.bool_):
        cell = cell.item() if cell.dtype.itemsize <= 8 else float(cell)
    if isinstance(cell, datetime.datetime):
        with suppress(OverflowError):  # near the ends of the calendar
            return str(cell if cell.tzinfo is None else cell.astimezone(datetime.UTC).replace(tzinfo=None))
        return None
    known = isinstance(cell, str | bool | int | float | decimal.Decimal | datetime.date | uuid.UUID)
    known = known or type(cell).__module__.partition(".")[0] == "pandas"  # a period, an interval
    text = str(cell) if known and not (isinstance(cell, int) and cell.bit_length() > 4096) else None
    return None if text is None else text.encode(errors="replace").decode()


def decode_field(field: bytes | None) -> str | None:
    """Return the text of a field, unless it is none."""
    try:
        return None if field is None else field.decode()
    except UnicodeDecodeError:
        return None
