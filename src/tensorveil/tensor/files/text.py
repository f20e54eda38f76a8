"""CSV and TSV, also gzipped."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.memory import file_too_large, memory_limit
from tensorveil.tensor.checks import is_number
from tensorveil.tensor.files.file_format import Format, Layout
from tensorveil.tensor.frames import table_to_tensor, tensor_to_table
from tensorveil.tensor.observed import ObservedTensor

if TYPE_CHECKING:
    import pyarrow as pa


BLOCK = 1 << 24
# Behind blanks and byte order marks too, and in full width; all of them are formulas to some spreadsheet.
FORMULA = "^[\\s\ufeff]*[=+\\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]"
_DAMAGED = (
    "path must be a well-formed CSV or TSV file with the same number of fields in every line. "
    "The file is empty or damaged, or has another format: name it with format=..."
)
COPIES = 2  # of a text, or of the table that is made of it, at the same time
LONGEST_LINE = 1 << 18  # Arrow reads blocks of four times as much, and refuses lines that do not fit


def is_gzip(path: Path) -> bool:
    """Return whether the file is compressed, by its first bytes rather than by its name."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


class LimitedStream(io.RawIOBase):
    """What a file holds, uncompressed if it is compressed: no more of it than fits into memory."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        opener: Any = gzip.open if is_gzip(path) else open
        self._file = opener(path, "rb")
        self._left = memory_limit() // COPIES

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        found = int(self._file.readinto(buffer))
        self._left -= found
        if self._left < 0:
            raise file_too_large()
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def open_for_reading(path: Path) -> IO[bytes]:
    """Open a file that may be compressed, whatever it is called."""
    return io.BufferedReader(LimitedStream(path), BLOCK)


def open_for_writing(path: Path, name: str) -> Any:
    """Open the temporary file, compressed if the final name says so."""
    if name.lower().endswith(".gz"):
        return gzip.open(path, "wb", compresslevel=6)
    return path.open("wb")


def cut_lines(file: Any, *, bounded: bool = False) -> Iterator[bytes]:
    """Yield a file in blocks of whole lines.

    With ``bounded`` no more than a few blocks are in memory: of a line that is longer, and so far too long to be read,
    the beginning is kept.
    """
    rest = b""
    while chunk := file.read(BLOCK):
        cut = chunk.rfind(b"\n") + 1
        if not cut and bounded:
            cut = chunk[:-1].rfind(b"\r") + 1
        if cut:
            yield rest + chunk[:cut]
            rest = b""
        rest += chunk[cut:]
        if bounded and len(rest) > 2 * BLOCK:
            rest = rest[: 8 * LONGEST_LINE]
    if rest:
        yield rest


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
    delimiter: str,
    *,
    header: bool,
    text: Collection[str],
    nulls: Sequence[str] | None,
    by_line: bool = False,
) -> pa.Table:
    """Load an Arrow table.

    ``nulls`` are the fields that count as missing, by default those that Arrow knows. With ``by_line`` every line is
    read by itself: one that is no row of the table is left out, whatever it holds, and changes no other. Only a header
    says how long rows are: without one the first row would decide on all others, so they must be equally long.
    """
    with open_for_reading(path) as stream:
        content: Any = stream
        if by_line:
            lines = b"".join(keep_sound_lines(block, delimiter) for block in cut_lines(stream))
            content = lines + b"\n"  # Arrow refuses an unended header, which would show
        return _parse(content, delimiter, header=header, text=text, nulls=nulls, by_line=by_line)


def _parse(
    content: Any, delimiter: str, *, header: bool, text: Collection[str], nulls: Sequence[str] | None, by_line: bool
) -> pa.Table:
    """Parse a table that is a stream, or bytes."""
    import pyarrow as pa
    from pyarrow import csv

    table = csv.read_csv(
        pa.BufferReader(content) if isinstance(content, bytes) else content,
        read_options=csv.ReadOptions(autogenerate_column_names=not header),
        parse_options=csv.ParseOptions(
            delimiter=delimiter, invalid_row_handler=(lambda _: "skip") if by_line and header else None
        ),
        convert_options=csv.ConvertOptions(
            column_types={name: pa.string() for name in text}, null_values=nulls, strings_can_be_null=True
        ),
    )
    assert table.column_names is not None  # fails here, and not later, where names are no text
    return table


def _read_tensor(path: Path, delimiter: str, layout: Layout, options: dict[str, Any]) -> ObservedTensor:
    """Read a tensor from a table; an empty field is a null."""
    import pyarrow as pa

    table = None
    # Arrow's own message quotes the line at fault.
    with suppress(pa.ArrowException, OSError, EOFError, UnicodeError):
        drops = options.get("out_of_range") == "drop"
        table = _load(path, delimiter, header=layout.header, text=layout.text, nulls=[""], by_line=drops)
    if table is None:
        raise InputError(_DAMAGED)
    if layout.header:
        _check_header(table.column_names, layout)
    return table_to_tensor(
        table, layout.modes, layout.value, labels=layout.labels, index_base=layout.index_base or 0, lists=layout.lists,
        owners=layout.owners, **options,
    )  # fmt: skip


def _cut_table(path: Path, delimiter: str, layout: Layout, options: dict[str, Any]) -> Iterator[pa.Table]:
    """Read a table in blocks of whole lines, each under the file's header."""
    import pyarrow as pa

    drops = options.get("out_of_range") == "drop"
    header, width = b"", 0
    opener: Any = gzip.open if is_gzip(path) else open
    with opener(path, "rb") as stream:
        for raw in cut_lines(stream, bounded=True):
            lines = (keep_sound_lines(raw, delimiter) if drops else raw).lstrip(b"\r\n")
            if layout.header and not header:
                header, lines = _cut_header(lines)
                if not header:
                    continue
                if not lines.strip():
                    lines = b""
            table = None
            with suppress(pa.ArrowException, OSError, EOFError, UnicodeError):
                table = _parse(header + lines + b"\n", delimiter, header=layout.header, text=layout.text, nulls=[""],
                               by_line=drops)  # fmt: skip
            if table is None or (width and table.num_columns != width):
                raise InputError(_DAMAGED)
            if layout.header and not width:
                _check_header(table.column_names, layout)
            width = table.num_columns
            yield table
    if not width:
        raise InputError(_DAMAGED)


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


def _write_tensor(tensor: ObservedTensor, path: Path, name: str, delimiter: str) -> None:
    """Write labels (or indices) and the value, with a header line."""
    from pyarrow import csv

    with open_for_writing(path, name) as file:
        csv.write_csv(_without_dictionaries(tensor_to_table(tensor)), file, csv.WriteOptions(delimiter=delimiter))


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


def _make_format(name: str, delimiter: str) -> Format:
    return Format(
        name=name,
        endings=(f".{name}", f".{name}.gz"),
        read=lambda path, layout, options: _read_tensor(path, delimiter, layout, options),
        write=lambda tensor, path, final: _write_tensor(tensor, path, final, delimiter),
        cut=lambda path, layout, options: _cut_table(path, delimiter, layout, options),
        read_table=lambda path, *, text: _load(path, delimiter, header=True, text=text, nulls=None),
        write_table=lambda table, path: _write_table(table, path, delimiter),
    )


FORMATS = (_make_format("csv", ","), _make_format("tsv", "\t"))
