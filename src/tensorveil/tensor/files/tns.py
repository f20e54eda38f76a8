"""FROSTT .tns: per line 1-based indices and the value, separated by blanks; '#' starts a comment."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.tensor import checks
from tensorveil.tensor.files.file_format import Format, Layout
from tensorveil.tensor.files.streams import BLOCK, cut_lines, open_for_reading, open_for_writing
from tensorveil.tensor.files.text import keep_sound_lines
from tensorveil.tensor.number_columns import read_floats
from tensorveil.tensor.observed import ObservedTensor

TABS = bytes.maketrans(b"\t\r", b"  ")


def read_tensor(path: Path, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Parse the file in blocks of lines, so that memory holds the arrays and one block of text."""
    base = 1 if layout.index_base is None else layout.index_base
    drops = options.get("out_of_range") == "drop"
    if drops:
        return _read_by_line(path, base, layout, options)
    columns: list[list[Any]] = []
    values: list[Any] = []
    as_text = options.get("missing") == "drop"  # then a value that is no number is none, and no reason to stop
    for table in _tables(path, as_text=as_text):
        if not columns:
            columns = [[] for _ in range(table.num_columns - 1)]
        for axis, parts in enumerate(columns):
            parts.append(_indices(table.column(axis).to_numpy(), axis, base))
        numbers = table.column(len(columns))
        values.append(read_floats(numbers) if as_text else numbers.to_numpy())
    if not values:
        raise InputError("path must hold at least one entry; got an empty input. Check the file.")
    packed = np.empty((len(columns), sum(map(len, values))), np.int32)
    for axis, parts in enumerate(columns):
        np.concatenate(parts, out=packed[axis])
        parts.clear()
    return ObservedTensor.from_columns(packed, np.concatenate(values), modes=layout.modes, **options)


def _read_by_line(path: Path, base: int, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read every line by itself: one that has no index for every declared size, and a number, is left out."""
    width = len(checks.check_shape(options.get("shape") or ())) + 1
    blocks = [np.stack([read_floats(column) for column in table.columns]) for table in _tables(path, width)]
    *columns, values = np.concatenate([np.empty((width, 0)), *blocks], axis=1)
    columns = [column - base for column in columns]
    return ObservedTensor.from_columns(columns, values, modes=layout.modes, **options)


def _tables(path: Path, declared: int | None = None, *, as_text: bool = False) -> Iterator[Any]:
    """Yield the file's blocks as Arrow tables, values as numbers or as text.

    With a declared width, all fields are text, and lines of another width are left out.
    """
    width = declared
    damaged = False
    try:
        with open_for_reading(path) as file:
            for lines in cut_lines(file):
                if not (block := _clean(lines if declared is None else keep_sound_lines(lines))):
                    continue
                if width is None:
                    width = block.split(b"\n", 1)[0].count(b" ") + 1
                    checks.check_order(width - 1, "path")
                yield _parse(block, width, by_line=declared is not None, as_text=as_text)
    except (OSError, EOFError, zlib.error):
        damaged = True
    if damaged:
        raise InputError("path must be a readable .tns file. The file is damaged or cut short.")


def _clean(block: bytes) -> bytes:
    """Remove comments, empty lines and superfluous blanks; plain files pass untouched, after a few fast checks."""
    if b"#" in block:
        block = re.sub(rb"#[^\n]*", b"", block)
    if b"\t" in block or b"\r" in block:
        block = block.translate(TABS)
    if _has_adjacent_blanks(block):
        while b"  " in block:
            block = block.replace(b"  ", b" ")
        block = block.replace(b"\n ", b"\n").replace(b" \n", b"\n")
    return block.strip(b" \n")


def _has_adjacent_blanks(block: bytes) -> bool:
    """Return whether two separators or line ends touch; numpy finds that three times faster than a text search."""
    blank = np.frombuffer(block, np.uint8) <= ord(" ")
    return bool((blank[1:] & blank[:-1]).any())


def _parse(block: bytes, width: int, *, by_line: bool, as_text: bool) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    names = [str(axis) for axis in range(width)]
    kinds = {name: pa.int64() for name in names[:-1]} | {names[-1]: pa.string() if as_text else pa.float64()}
    if by_line:
        kinds = {name: pa.string() for name in names}
    if as_text and not block.isascii():
        block = block.decode(errors="replace").encode()
    table = None
    with suppress(pa.ArrowException):  # Arrow's own message quotes the line at fault
        table = csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(column_names=names),
            parse_options=csv.ParseOptions(
                delimiter=" ", quote_char=False, invalid_row_handler=(lambda _: "skip") if by_line else None
            ),
            convert_options=csv.ConvertOptions(column_types=kinds, null_values=[]),
        )
    if table is None:
        raise InputError(
            "path must hold lines of whole-number indices and one number, as many fields in every line. "
            "A line breaks this rule: coordinates must be integers, values must be numbers."
        )
    return table


def _indices(column: Any, axis: int, base: int) -> Any:
    """Return the 0-based int32 indices of one block."""
    if column.min() < base:
        raise InputError(
            f"coords of mode {axis} must not be negative: .tns indices start at {base}. "
            "Pass index_base=0 if the file counts from 0."
        )
    return checks.whole_numbers(column - base, axis).astype(np.int32)


def write_tensor(tensor: ObservedTensor, path: Path, name: str) -> None:
    """Write 1-based indices and values. The format has no labels, so labelled tensors are refused."""
    import pyarrow as pa
    from pyarrow import csv

    if any(mode.labels is not None for mode in tensor.modes):
        raise InputError(
            "format 'tns' cannot hold labels. Write .npz or .parquet, or drop them: "
            "tensor.with_modes(None).write(path)."
        )
    options = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    with open_for_writing(path, name) as file:
        for start in range(0, tensor.n_entries, BLOCK // 16):
            part = slice(start, start + BLOCK // 16)
            arrays = [pa.array(column[part].astype(np.int64) + 1) for column in tensor.columns]
            arrays.append(pa.array(tensor.values[part]))
            csv.write_csv(pa.table(arrays, names=[str(axis) for axis in range(len(arrays))]), file, options)


FORMAT = Format(name="tns", endings=(".tns", ".tns.gz"), read=read_tensor, write=write_tensor)
