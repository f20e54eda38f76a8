"""Why a text table cannot be read, and which line is at fault: asked when reading has failed.

Lines are told in open runs alone. No message quotes what stands in a file.
"""

from __future__ import annotations

import csv
import io
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tensorveil.errors import InputError
from tensorveil.tensor.bins import known_bins, to_seconds
from tensorveil.tensor.files.dialect import Dialect
from tensorveil.tensor.files.file_format import Layout
from tensorveil.tensor.files.streams import is_gzip, open_for_reading

__all__ = ["ONE_COLUMN", "find_cause", "find_public_cause", "name_other", "tell_line"]

ONE_COLUMN = (
    "path must be a table with a column for each of two or more modes and one for the value; its first line holds one "
    "column. If fields are separated by another sign than a comma, semicolon, tab or '|', say delimiter=...; if this "
    "is no table, name its format: format=..."
)
_RULE = "path must be a well-formed table with the same number of fields in every line."
_HEAD = 1 << 16
_REMEMBERED = 1 << 20  # rows among which one that occurs again is looked for: a cell takes some 300 bytes
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([,.' ]\d{3})+([,.]\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_UNIT = re.compile(r"[+-]?\d+([.,]\d+)? ?([%€$£]|[a-zA-Z]{1,4})|[€$£] ?\d+([.,]\d+)?")
# What a file begins with that is no table, whatever it is called.
_OTHERS = (
    (
        rb"(\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\0?\"?s\0?e\0?p\0?=",
        "a first line that only spreadsheets read (sep=). Remove that line",
    ),
    (rb"PK\x03\x04", "a spreadsheet or another archive (zip). Save the sheet as CSV"),
    (rb"\xd0\xcf\x11\xe0", "an old spreadsheet (xls). Save the sheet as CSV"),
    (rb"%PDF-", "a PDF document. Export its table as CSV"),
    (
        rb"\s*<(!doctype|html|\?xml|!--)(?i:)",
        "a web page or XML, perhaps of an error while downloading. Fetch it again",
    ),
    (rb"\s*[\[{]\s*[\[{\"\]}]", "JSON. One object per line can be read as format='jsonl'"),
    (rb"version https://git-lfs", "a pointer of Git LFS, not the data. Run: git lfs pull"),
    (rb"BZh|\xfd7zXZ\x00|\x28\xb5\x2f\xfd", "data compressed by bzip2, xz or zstd. Unpack it, or use gzip"),
    (rb"ARROW1", "an Arrow file. Rename it, or say format='arrow'"),
    (rb"SQLite format 3\x00", "an SQLite database. Rename it, or say format='sqlite'"),
)


def find_public_cause(path: Path) -> str:
    """Return what can be told without looking at rows: of what kind a file is, or that there is nothing in it."""
    head = _read_head(path)
    if isinstance(head, str):
        return head
    if other := name_other(head):
        return other
    return (
        f"{_RULE} The file is empty or damaged, or has another format: name it with format=..., or say how it is "
        "written: delimiter=..., encoding=..."
    )


def name_other(head: bytes) -> str | None:
    """Say that a file is of another kind, if it begins like one, or that it holds nothing."""
    if head and not head.strip(b"\0"):
        return "path must be a table; the file holds nothing but zero bytes, as a download that was broken off leaves."
    if head and not head.strip():
        return "path must be a table; the file holds blank lines only. Check where it comes from."
    for pattern, what in _OTHERS:
        if re.match(pattern, head, re.IGNORECASE):
            return f"path must be a table; the file holds {what}."
    return None


def _read_head(path: Path) -> bytes | str:
    """Return the beginning of a file; a sentence if there is none."""
    if not path.stat().st_size:
        return "path must be a table; the file is empty (0 bytes). Check where it comes from."
    try:
        with open_for_reading(path) as stream:
            return stream.read(_HEAD) or "path must be a table; the compressed file holds nothing. Check the source."
    except (OSError, EOFError, zlib.error):
        return _damaged_gzip(path)


def _damaged_gzip(path: Path) -> str:
    what = "compressed (gzip) file is damaged or cut short" if is_gzip(path) else "file cannot be read to its end"
    return f"path: the {what}. Fetch or copy it again."


def find_cause(path: Path, dialect: Dialect, *, header: bool) -> str:
    """Return why a table of open rows cannot be read, with the line at fault where there is one."""
    public = find_public_cause(path)
    if not public.startswith(_RULE):
        return public
    try:
        return _find_bad_line(path, dialect, header=header) or public
    except UnicodeDecodeError:
        return _no_text(path, dialect)
    except (OSError, EOFError, zlib.error):
        return _find_zero(path) or _damaged_gzip(path)


def _find_zero(path: Path) -> str | None:
    """Return on which line the first zero byte stands, if there is one."""
    with suppress(OSError, EOFError, zlib.error), open_for_reading(path) as stream:
        for number, line in enumerate(stream, 1):
            if b"\0" in line:
                return (
                    f"path: line {number} holds a zero byte: it is no text, or the file was cut while it was written."
                )
    return None


def _no_text(path: Path, dialect: Dialect) -> str:
    """Return what is wrong with a file that is no text in the encoding."""
    encoding = dialect.encoding or "utf-8"
    said = f"path is no text in {encoding.upper()}"
    if encoding.startswith("utf-16"):
        return f"{said}: it ends within a letter, or is damaged. Fetch or copy it again, or say encoding=..."
    with suppress(OSError, EOFError, zlib.error), open_for_reading(path) as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                return f"{said}: line {number} holds other bytes. Say encoding=..., or repair that line."
    return f"{said}. Say encoding=..."


def _rows(path: Path, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table and the number of the line on which each begins; blank lines are none."""
    with open_for_reading(path, dialect.encoding or "utf-8") as stream:
        lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        reader = csv.reader(lines, delimiter=dialect.delimiter or ",", strict=True)
        before = 0
        for row in reader:
            if row:
                yield before + 1, row
            before = reader.line_num


def _find_bad_line(path: Path, dialect: Dialect, *, header: bool) -> str | None:
    width, seen, last = 0, 0, 0
    names: list[str] = []
    try:
        for line, row in _rows(path, dialect):
            seen, last = seen + 1, line
            if seen == 1:
                width, names = len(row), row
            elif len(row) != width:
                repeated = " It has the names of the columns again? Remove it." if row[0] == names[0] else ""
                return (
                    f"{_RULE} Line {line} has {len(row)} fields; the first line has {width}. If a field holds the "
                    f"sign between fields, put it in quotes.{repeated}"
                )
    except csv.Error as error:
        what = "opens a quote that is never closed"
        if "field larger" in str(error):
            what = "holds a field that is too long, as behind a quote that is never closed"
        return f"{_RULE} Line {_next_line(path, dialect, last)} {what}. Repair that line."
    if header and seen == 1:
        return "path must hold at least one row; the file holds the names of the columns alone. Check the source."
    return None


def _next_line(path: Path, dialect: Dialect, last: int) -> int:
    """Return where the row behind the last sound one begins."""
    rows = _rows(path, dialect)
    end = last
    with suppress(csv.Error, UnicodeDecodeError):
        for line, row in rows:
            end = line + sum(field.count("\n") for field in row) + 1
    return max(end, 1)


def tell_line(error: InputError, path: Path, dialect: Dialect, layout: Layout, names: Sequence[str]) -> InputError:
    """Return the error, and the first line that is at fault, if the error is about single rows."""
    if error.flaw is None:
        return error
    found, why = None, ""
    with suppress(OSError, EOFError, zlib.error, UnicodeError, csv.Error, ValueError):
        test = _test(error, dialect, layout, names)
        rows = _rows(path, dialect)
        if layout.header:
            next(rows, None)
        looked = islice(rows, _REMEMBERED if error.flaw == "repeated" else None)
        found, why = next(
            ((line, _guess(row, names, dialect)) for line, row in looked if len(row) == len(names) and test(row)),
            (None, ""),
        )
    if found is None:
        return error
    why = why if error.flaw == "no number" else ""
    return InputError(f"{error} The first line at fault is line {found} of the file.{why}").of(error.flaw)


def _guess(row: Sequence[str], names: Sequence[str], dialect: Dialect) -> str:
    """Return the likely cause of a line in which something is no number."""
    if list(row) == list(names):
        return " It holds the names of the columns again: remove it."
    comma = dialect.decimal != "," and any(_COMMA.fullmatch(field.strip()) for field in row)
    if any(_THOUSANDS.fullmatch(field.strip()) for field in row):
        decimal = " If the comma is one of decimals, say decimal=','." if comma else ""
        return (
            " It looks like a number with signs between thousands: write all numbers of the column without them."
            f"{decimal}"
        )
    if comma:
        return " It looks like a number with a decimal comma: say decimal=','."
    if any(_UNIT.fullmatch(field.strip()) for field in row):
        return " It looks like a number with a unit or a currency behind or before it: write the number alone."
    return ""


def _test(error: InputError, dialect: Dialect, layout: Layout, names: Sequence[str]) -> Callable[[list[str]], bool]:
    """Return what tells whether a row has the flaw."""
    from tensorveil.tensor.frames import choose_columns

    binned = [names.index(name) for name in known_bins(layout.modes or (), layout.bins) if name in names]
    if error.flaw == "no moment":
        return lambda row: any(math.isnan(to_seconds(row[place])) for place in binned)
    modes, value = choose_columns(names, layout.modes, layout.value)
    places, at = [names.index(name) for name in modes], names.index(value)
    comma = dialect.decimal == ","

    def number(field: str) -> float:
        plain = field.strip()
        if comma:
            plain = "x" if "." in plain else plain.replace(",", ".")
        if plain.casefold() in ("true", "false"):
            return 1.0
        return float(plain) if "_" not in plain else math.nan

    def no_number(row: list[str]) -> bool:
        if not row[at]:
            return False
        try:
            number(row[at])
        except ValueError:
            return True
        return False

    def outside(row: list[str]) -> bool:
        assert error.bounds is not None
        return not error.bounds[0] <= number(row[at]) <= error.bounds[1]

    seen: set[tuple[str, ...]] = set()

    def repeated(row: list[str]) -> bool:
        cell = tuple(row[place].strip() for place in places)
        before = cell in seen
        seen.add(cell)
        return before

    tests: dict[str, Callable[[list[str]], bool]] = {
        "no label": lambda row: not all(row[place] for place in places),
        "no value": lambda row: not row[at] or math.isnan(number(row[at])),
        "no number": no_number,
        "infinite": lambda row: math.isinf(number(row[at])),
        "outside": outside,
        "repeated": repeated,
    }
    return tests[str(error.flaw)]
