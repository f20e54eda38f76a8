"""CSV and TSV, also gzipped."""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorveil.errors import GuessWarning, InputError
from tensorveil.memory import check_table_memory
from tensorveil.tensor.bins import Bins
from tensorveil.tensor.checks import is_number
from tensorveil.tensor.cursors import decode_field
from tensorveil.tensor.files import diagnosis
from tensorveil.tensor.files.dialect import (
    GUESSED,
    PLAIN,
    THOUSANDS,
    WINDOWS,
    Dialect,
    detect,
    is_windows_text,
    may_have_thousands,
    reads_lines_alone,
)
from tensorveil.tensor.files.file_format import Format, Layout
from tensorveil.tensor.files.streams import BLOCK, cut_lines, open_for_reading, open_for_writing
from tensorveil.tensor.files.written import check_as_written, keep_as_written, trim_texts
from tensorveil.tensor.frames import is_open, table_to_tensor
from tensorveil.tensor.observed import ObservedTensor
from tensorveil.tensor.tables_out import tensor_to_table

if TYPE_CHECKING:
    import pyarrow as pa


HEAD = 1 << 20
# Behind blanks and byte order marks too, and in full width; all of them are formulas to some spreadsheet.
FORMULA = "^[\\s\ufeff]*[=+\\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]"
LONGEST_LINE = 1 << 18  # Arrow reads blocks of four times as much, and refuses lines that do not fit
# Numbers with decimal commas, and what is a number elsewhere.
_COMMAS = r"^\s*[+-]?([0-9]+,[0-9]*|,[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_POINTS = r"^\s*[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"


def keep_sound_lines(block: bytes, delimiter: str | None = None) -> bytes:
    """Return the lines that can be read by themselves; ``delimiter`` is that of tables, whose fields may be quoted.

    An open quote would swallow the lines behind it, and a line that is too long, or no text, would end the reading of
    all. What is no text becomes a letter that is in no number. Byte order marks are taken off every line, since readers
    take off the first. A line that is left out leaves its end behind, which may end an earlier part of it.
    """
    if not block.isascii():
        block = block.decode(errors="replace").replace("\ufeff", "").encode()
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    longest = int(np.diff(ends, prepend=-1, append=len(block)).max())
    quoted = delimiter is not None and b'"' in block
    if longest <= LONGEST_LINE and not quoted:
        return block
    sound = re.compile(_sound_line(delimiter or ",")) if quoted else re.compile(rb"[^\r\n]*[\r\n]*")
    return b"".join(
        line if len(line) <= LONGEST_LINE and sound.fullmatch(line) else line[len(line.rstrip(b"\r\n")) :]
        for line in block.splitlines(keepends=True)
    )


def _sound_line(delimiter: str) -> bytes:
    """Return the pattern of a line in which every quote that opens a field is closed; others are letters."""
    cut = re.escape(delimiter.encode())
    rest = rb"[^%b\r\n]*" % cut
    field = rb'(?:"(?:[^"\r\n]|"")*"(?!")%b|[^"%b\r\n]%b|)' % (rest, cut, rest)
    return rb"%b(?:%b%b)*[\r\n]*" % (field, cut, field)


def _load(
    path: Path,
    dialect: Dialect,
    *,
    header: bool,
    text: Collection[str],
    nulls: Sequence[str] | None,
    by_line: bool = False,
    errors: str = "strict",
) -> pa.Table:
    """Load an Arrow table that is written in a dialect; without an encoding its bytes are left to Arrow.

    ``nulls`` are the fields that count as missing, by default those that Arrow knows. With ``by_line`` every line is
    read by itself: one that is no row of the table is left out, whatever it holds, and changes no other. Only a header
    says how long rows are: without one the first row would decide on all others, so they must be equally long.
    """
    delimiter = dialect.delimiter or ","
    check_table_memory(path.stat().st_size)
    with open_for_reading(path, dialect.encoding, errors) as stream:
        content: Any = stream
        if by_line:
            lines = b"".join(keep_sound_lines(block, delimiter) for block in cut_lines(stream))
            content = lines + b"\n"  # Arrow refuses an unended header, which would show
        return _parse(content, dialect, header=header, text=text, nulls=nulls, by_line=by_line)


def _parse(
    content: Any, dialect: Dialect, *, header: bool, text: Collection[str], nulls: Sequence[str] | None, by_line: bool
) -> pa.Table:
    """Parse a table that is a stream, or bytes, in UTF-8."""
    import pyarrow as pa
    from pyarrow import csv

    table = csv.read_csv(
        pa.BufferReader(content) if isinstance(content, bytes) else content,
        read_options=csv.ReadOptions(autogenerate_column_names=not header),
        parse_options=csv.ParseOptions(
            delimiter=dialect.delimiter or ",", invalid_row_handler=(lambda _: "skip") if by_line and header else None
        ),
        convert_options=csv.ConvertOptions(
            column_types={name: pa.string() for name in text},
            null_values=nulls,
            strings_can_be_null=True,
            decimal_point=dialect.decimal or ".",
        ),
    )
    assert table.column_names is not None  # fails here, and not later, where names are no text
    return table


def _read_tensor(path: Path, default: str, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read a tensor from a table; an empty field is a null."""
    by_line = options.get("out_of_range") == "drop"
    private = layout.private or not is_open(options)

    def load(text: Collection[str]) -> tuple[Dialect, pa.Table]:
        if private:
            return _load_privately(path, default, layout, text, by_line=by_line)
        return _load_openly(path, default, layout.dialect, header=layout.header, text=text, nulls=[""])

    dialect, table = load(layout.text)
    if not by_line:  # where labels are compared with public lists, or number owners, they are read as text anyway
        table = keep_as_written(table, layout, lambda text: load((*layout.text, *text))[1], path, dialect)
    if not private:
        table = _without_empty_ends(table)
    if table.num_columns == 1:
        raise InputError(diagnosis.ONE_COLUMN)
    if layout.header:
        _check_header(table.column_names, layout)
    try:
        return table_to_tensor(
            table, layout.modes, layout.value, labels=layout.labels, index_base=layout.index_base or 0,
            lists=layout.lists, owners=layout.owners, bins=layout.bins, **options,
        )  # fmt: skip
    except InputError as error:
        if private:
            raise
        problem = diagnosis.tell_line(error, path, dialect, layout, table.column_names)
    raise problem


def _without_empty_ends(table: pa.Table) -> pa.Table:
    """Return a table without last columns that have neither a name nor a field, as spreadsheets leave them."""
    last = table.num_columns
    while last > 1 and not table.column_names[last - 1].strip() and not table.column(last - 1).drop_null().length():
        last -= 1
    return table if last == table.num_columns else table.select(range(last))


def settle_dialect(path: Path, default: str, said: Dialect, *, header: bool = True, private: bool = False) -> Dialect:
    """Return how a table is written, as far as it was said or its beginning tells."""
    head = _read_head(path)
    if (header or not private) and (other := diagnosis.name_other(head)):
        raise InputError(other)
    return detect(head, said, default=default, header=header, private=private)


def _read_head(path: Path) -> bytes:
    head = b""
    with suppress(OSError, EOFError, zlib.error), open_for_reading(path) as stream:
        head = stream.read(HEAD)
    return head


def _settle_privately(path: Path, default: str, layout: Layout) -> Dialect:
    """Return how a table of private rows is written; no row is looked at."""
    dialect = settle_dialect(path, default, layout.dialect, header=layout.header, private=True)
    if not reads_lines_alone(dialect.encoding or "utf-8"):
        raise InputError(
            "encoding must read every line by itself in private runs: UTF-8, UTF-16, or one byte per letter. Convert "
            "the file to UTF-8 first."
        )
    if dialect.encoding == "utf-8":  # as it is, so that bytes that are no text concern their own field alone
        dialect = replace(dialect, encoding=None)
    return dialect


def _load_privately(
    path: Path, default: str, layout: Layout, text: Collection[str], *, by_line: bool
) -> tuple[Dialect, pa.Table]:
    """Load a table of private rows: how it is written was said, or is told by the line of names."""
    import pyarrow as pa

    dialect = _settle_privately(path, default, layout)
    table = None
    # Arrow's own message quotes the line at fault.
    with suppress(pa.ArrowException, OSError, EOFError, UnicodeError, zlib.error):
        table = _load(path, dialect, header=layout.header, text=text, nulls=[""], by_line=by_line, errors="replace")
    if table is None:
        raise InputError(diagnosis.find_public_cause(path))
    return dialect, _with_points(table, layout) if dialect.decimal == "," else table


def _with_points(table: pa.Table, layout: Layout) -> pa.Table:
    """Return a table of private rows with decimal commas whose texts are numbers as they are written elsewhere.

    A column of nothing but numbers has been read as such. In others each field is taken by itself: one with a comma is
    a number; in the column of values one with a point is none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if name in layout.text:
            continue
        if pa.types.is_binary(column.type):
            column = pa.chunked_array([[decode_field(field) for field in column.to_pylist()]], pa.string())
        if pa.types.is_string(column.type):
            if name == layout.value:
                column = pc.if_else(pc.match_substring_regex(column, _POINTS), None, column)
            commas = pc.match_substring_regex(column, _COMMAS)
            column = pc.if_else(commas, pc.replace_substring(column, ",", "."), column)
            table = table.set_column(place, name, column)
    return table


def _load_openly(
    path: Path, default: str, said: Dialect, *, header: bool, text: Collection[str], nulls: Sequence[str] | None
) -> tuple[Dialect, pa.Table]:
    """Load a table of open rows, which may tell how it is written, and where it is damaged."""
    import pyarrow as pa

    dialect = settle_dialect(path, default, said, header=header)
    given = dialect.encoding
    dialect = replace(dialect, encoding=given or "utf-8")
    no_text = False
    try:
        table = _load(path, dialect, header=header, text=text, nulls=nulls)
        if said.decimal is None and may_have_thousands(_read_head(path), dialect):
            warnings.warn(THOUSANDS, GuessWarning, stacklevel=2)
        return dialect, table
    except UnicodeDecodeError:
        no_text = True
    except (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeError, AssertionError):
        pass
    if no_text and given is None and _is_windows_file(path):
        dialect = replace(dialect, encoding=WINDOWS)
        with suppress(pa.ArrowException, OSError, EOFError, zlib.error, UnicodeError):
            table = _load(path, dialect, header=header, text=text, nulls=nulls)
            warnings.warn(GUESSED, GuessWarning, stacklevel=2)
            return dialect, table
    raise InputError(diagnosis.find_cause(path, dialect, header=header))


def _is_windows_file(path: Path) -> bool:
    with open_for_reading(path) as stream:
        return all(is_windows_text(block) for block in iter(lambda: stream.read(BLOCK), b""))


def _cut_table(path: Path, default: str, layout: Layout, options: dict[str, Any]) -> Iterator[pa.Table]:
    """Read a table in blocks of whole lines, each under the file's header."""
    import pyarrow as pa

    drops = options.get("out_of_range") == "drop"
    private = layout.private or not is_open(options)
    if private:
        dialect = _settle_privately(path, default, layout)
    else:
        dialect = settle_dialect(path, default, layout.dialect, header=layout.header)
        dialect = replace(dialect, encoding=dialect.encoding or "utf-8")
    delimiter = dialect.delimiter or default
    header, width = b"", 0
    with open_for_reading(path, dialect.encoding, "replace" if private else "strict", limited=False) as stream:
        blocks = cut_lines(stream, longest=8 * LONGEST_LINE)
        while True:
            table, raw = None, None
            with suppress(pa.ArrowException, OSError, EOFError, UnicodeError, zlib.error):
                raw = next(blocks, b"")
            if raw == b"":
                break
            if raw is not None:
                lines = (keep_sound_lines(raw, delimiter) if drops else raw).lstrip(b"\r\n")
                if layout.header and not header:
                    header, lines = _cut_header(lines)
                    if not header:
                        continue
                    if not lines.strip():
                        lines = b""
                with suppress(pa.ArrowException, OSError, EOFError, UnicodeError):
                    table = _parse(header + lines + b"\n", dialect, header=layout.header, text=layout.text, nulls=[""],
                                   by_line=drops)  # fmt: skip
            if table is None or (width and table.num_columns != width):
                raise InputError(diagnosis.find_public_cause(path))
            if not width:
                if table.num_columns == 1:
                    raise InputError(diagnosis.ONE_COLUMN)
                if layout.header:
                    _check_header(table.column_names, layout)
            width = table.num_columns
            if not drops:
                check_as_written(
                    table, layout, partial(_parse_as, header + lines, dialect, layout), b"\n" + lines, dialect
                )
            table = trim_texts(table, layout)
            yield _with_points(table, layout) if private and dialect.decimal == "," else table
    if not width:
        raise InputError(diagnosis.find_public_cause(path))


def _parse_as(lines: bytes, dialect: Dialect, layout: Layout, text: Collection[str]) -> pa.Table:
    """Parse lines that could be parsed, with other columns as text."""
    return _parse(lines + b"\n", dialect, header=layout.header, text=(*layout.text, *text), nulls=[""], by_line=False)


def _cut_header(lines: bytes) -> tuple[bytes, bytes]:
    """Return the first line, with its end, and the others."""
    found = re.match(rb"[^\r\n]*[\r\n]*", lines)
    end = found.end() if found else 0
    return lines[:end].rstrip(b"\r\n") + b"\n" if end else b"", lines[end:]


def _check_header(names: Sequence[str], layout: Layout) -> None:
    """Refuse a first line that looks like data: it would be lost, and its fields would become names."""
    said = [mode if isinstance(mode, str) else mode.name for mode in layout.modes or ()] + [layout.value]
    if any(is_number(name) for name in names if name not in said):
        raise InputError(
            "the first line must name the columns; a field of it is a number, as if the data began there. Pass "
            "header=False if the file has no line of names, or rename that column."
        )


def read_text_table(path: Path, name: str, text: Collection[str], said: Dialect = PLAIN) -> pa.Table:
    """Read a table of cells, or of whatever else is not private, in a format of text."""
    try:
        return _load_openly(path, default_delimiter(name), said, header=True, text=text, nulls=None)[1]
    except InputError as error:
        problem = InputError(re.sub("^path", path.name, str(error)))
    raise problem


def tell_line_of(
    error: InputError, path: Path, name: str, said: Dialect, names: Sequence[str], bins: Mapping[str, Bins]
) -> InputError:
    """Return an error about moments in a table of cells, with the first line at fault."""
    layout = Layout(
        modes=None, value=None, labels=True, index_base=None, header=True, variable=None, missing_value=0.0, bins=bins
    )
    return diagnosis.tell_line(error, path, settle_dialect(path, default_delimiter(name), said), layout, names)


def _write_tensor(tensor: ObservedTensor, path: Path, name: str, delimiter: str) -> None:
    """Write labels (or indices) and the value, with a header line."""
    from pyarrow import csv

    with open_for_writing(path, name) as file:
        csv.write_csv(
            _without_dictionaries(tensor_to_table(tensor, tensor.value_name)),
            file,
            csv.WriteOptions(delimiter=delimiter),
        )


def _write_table(table: pa.Table, path: Path, delimiter: str) -> None:
    from pyarrow import csv

    options = csv.WriteOptions(delimiter=delimiter, quoting_style="needed")
    with path.open("wb") as file:
        csv.write_csv(_without_dictionaries(table), file, options)


def defuse_formulas(table: pa.Table) -> pa.Table:
    """Return a table whose names and texts no spreadsheet takes for formulas: those get an apostrophe before them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def defuse(column: pa.ChunkedArray) -> pa.ChunkedArray:
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return column
        return pc.if_else(
            pc.match_substring_regex(column, FORMULA), pc.binary_join_element_wise("'", column, ""), column
        )

    names = [f"'{name}" if re.match(FORMULA, name) else name for name in table.column_names]
    return pa.table([defuse(column) for column in _without_dictionaries(table).columns], names=names)


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Undo dictionary encoding, which Arrow cannot write as text."""
    import pyarrow as pa

    plain = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(plain, names=table.column_names)


def default_delimiter(name: str) -> str:
    """Return what stands between fields in a format of text, by its name."""
    return {"csv": ",", "tsv": "\t"}[name]


def _make_format(name: str) -> Format:
    delimiter = default_delimiter(name)
    return Format(
        name=name,
        endings=(f".{name}", f".{name}.gz"),
        read=lambda path, layout, options: _read_tensor(path, delimiter, layout, options),
        write=lambda tensor, path, final: _write_tensor(tensor, path, final, delimiter),
        cut=lambda path, layout, options: _cut_table(path, delimiter, layout, options),
        read_table=lambda path, *, text: read_text_table(path, name, text),
        write_table=lambda table, path: _write_table(table, path, delimiter),
    )


FORMATS = (_make_format("csv"), _make_format("tsv"))
