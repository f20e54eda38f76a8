"""JSON lines: one object per line, whose keys are the names of the columns. Nothing but text, numbers, true and false.

Every line is read by itself. In private runs every field becomes text, so that none decides what others are taken for.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorveil.errors import InputError
from tensorveil.memory import check_file_memory
from tensorveil.tensor.cursors import CELL, rows_to_table
from tensorveil.tensor.files.file_format import Format, Layout
from tensorveil.tensor.files.streams import open_for_reading, open_for_writing
from tensorveil.tensor.frames import is_open, table_to_tensor
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.tables_out import tensor_to_table

if TYPE_CHECKING:
    import pyarrow as pa

OFTEN = 1 << 14  # lines
_RULE = 'path must hold one JSON object per line, such as {"user": "ann", "film": "Alien", "rating": 5}.'


def _parse(path: Path, *, lenient: bool) -> Iterator[dict[str, Any]]:
    """Yield the objects of all lines; ``lenient`` leaves out what is none."""
    with open_for_reading(path) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            found = None
            with suppress(ValueError, RecursionError):  # whose text quotes the line
                found = json.loads(line.decode("utf-8-sig"))
            if isinstance(found, dict):
                yield found
            elif not lenient:
                raise InputError(f"{_RULE} Line {number} is none: it is damaged, or the file has another format.")


def _load(path: Path, names: Collection[str] | None, *, lenient: bool) -> pa.Table:
    """Load a table of all keys in the order in which they appear, or of the columns that were named."""
    rows: list[dict[str, Any]] = []
    cells = 0
    for row in _parse(path, lenient=lenient):
        rows.append(row)
        cells += len(row)
        if len(rows) % OFTEN == 0:
            check_file_memory(2 * CELL * cells)
    if not rows and not lenient:
        raise InputError(f"{_RULE} The file holds no line. Check the source.")
    columns = list(dict.fromkeys(key for row in rows for key in row)) if names is None else list(names)
    return rows_to_table(columns, [[row.get(name) for name in columns] for row in rows], lenient=lenient)


def read_tensor(path: Path, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read a tensor; in private runs of the columns that were declared, since keys stand in rows."""
    lenient = not is_open(options)
    names = None
    if lenient:
        if layout.modes is None or layout.value is None:
            raise InputError(
                "modes and value must be named, since in JSON lines the names stand in the rows. Try "
                "modes=['user', 'film'] and value='rating'."
            )
        names = [mode if isinstance(mode, str) else mode.name for mode in layout.modes] + [layout.value]
    table = _load(path, names, lenient=lenient)
    return table_to_tensor(
        table, layout.modes, layout.value, labels=layout.labels, index_base=layout.index_base or 0,
        lists=layout.lists, owners=layout.owners, bins=layout.bins, **options,
    )  # fmt: skip


def read_table(path: Path, *, text: Collection[str]) -> pa.Table:
    """Read all columns; JSON says which fields are text."""
    return _load(path, None, lenient=False)


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Write labels (or indices) and the value."""
    _write(tensor_to_table(tensor, tensor.value_name), path, name)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table."""
    _write(table, path, path.name)


def _write(table: pa.Table, path: Path, name: str) -> None:
    with open_for_writing(path, name) as file:
        for batch in table.to_batches(max_chunksize=1 << 16):
            for row in batch.to_pylist():
                file.write(json.dumps(row, default=str, ensure_ascii=False, allow_nan=False).encode() + b"\n")


FORMAT = Format(
    name="jsonl",
    endings=(".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"),
    read=read_tensor,
    write=write_tensor,
    read_table=read_table,
    write_table=write_table,
)
