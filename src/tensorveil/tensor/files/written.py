"""Labels that look like numbers and are none: 02134 beside 2134, 250.10 beside 250.1, identifiers of twenty digits.

As numbers some of them would be one label. They stay text, as they are written, and it is said. So do times of a day.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tensorveil.errors import GuessWarning, InputError, warn
from tensorveil.tensor.files.dialect import Dialect
from tensorveil.tensor.files.file_format import Layout
from tensorveil.tensor.files.streams import BLOCK, open_for_reading

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["WrittenLabelsError", "check_as_written", "keep_as_written", "tell_written", "trim_texts"]

_LEADING_ZERO = r"^\s*[+-]?0[0-9]"
_LAST_ZERO = r"^\s*[+-]?[0-9]*\.[0-9]*[1-9]0+\s*$"


Load = Callable[[Sequence[str]], "pa.Table"]


class WrittenLabelsError(InputError):
    """Some columns of a block of a table hold labels that look like numbers and are none: read them as text."""

    def __init__(self, columns: Sequence[str]) -> None:
        super().__init__("labels must be read as text, where numbers would not keep them as they are written.")
        self.columns = tuple(columns)


def keep_as_written(table: pa.Table, layout: Layout, load: Load, path: Path, dialect: Dialect) -> pa.Table:
    """Return a table whose labels are text where numbers would not keep them apart; ``load`` reads columns as text."""
    found = _find_written(table, layout, load, lambda: _has_leading_zeros(path, dialect))
    if telling := [name for name in found if not _is_time(table, name)]:
        named = not layout.private or layout.modes is not None
        tell_written([repr(name) if named else str(table.column_names.index(name) + 1) for name in telling])
    for name, column in found.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def trim_texts(table: pa.Table, layout: Layout) -> pa.Table:
    """Return a block of a table whose labels that are text by now are as `keep_as_written` has them."""
    for name in layout.texts:
        table = table.set_column(table.column_names.index(name), name, _trim(table.column(name)))
    return table


def check_as_written(table: pa.Table, layout: Layout, load: Load, lines: bytes, dialect: Dialect) -> None:
    """Refuse a block of a table of which `keep_as_written` would change something: all blocks must be read alike."""
    found = _find_written(table, layout, load, lambda: _zeros_lead(lines, dialect))
    if found:
        raise WrittenLabelsError([*found])


def tell_written(columns: Sequence[str]) -> None:
    """Say which columns hold labels that are text, though they look like numbers."""
    warn(
        f"labels that numbers would not keep as they are written, such as 007 or twenty digits, are text: column "
        f"{', '.join(columns)}.",
        GuessWarning,
    )


def _find_written(
    table: pa.Table, layout: Layout, load: Load, has_zeros: Callable[[], bool]
) -> dict[str, pa.ChunkedArray]:
    """Return the columns whose labels must be text, as it is written."""
    names = _label_columns(table, layout)
    exact = [name for name in names if _is_whole(table, name)]
    asked = [name for name in names if name not in exact]
    if exact and has_zeros():
        asked = names
    written = load(asked) if asked else table
    return {
        name: _trim(written.column(name))
        for name in asked
        if _is_time(table, name) or _needs_text(written.column(name), exact=name in exact)
    }


def _label_columns(table: pa.Table, layout: Layout) -> list[str]:
    """Return the columns of a mode whose labels were read as numbers, or as times of a day."""
    import pyarrow as pa

    kinds = pa.types
    names = list(table.column_names)
    if not layout.labels:
        return []
    if layout.modes is not None:
        plain = [each for each in layout.modes if isinstance(each, str) or each.labels is None]  # others are compared
        names = [each if isinstance(each, str) else each.name for each in plain]
    elif layout.value is None:
        names = names[:-1]  # values stand last, unless something else is said
    return [
        name
        for name in names
        if table.column_names.count(name) == 1 and name != layout.value and name not in layout.text
        and any(test(table[name].type) for test in (kinds.is_integer, kinds.is_floating, kinds.is_time))
    ]  # fmt: skip


def _is_whole(table: pa.Table, name: str) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(table[name].type))


def _is_time(table: pa.Table, name: str) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_time(table[name].type))


def _has_leading_zeros(path: Path, dialect: Dialect) -> bool:
    """Tell whether any field of a file may begin with a zero before another digit."""
    with suppress(UnicodeError), open_for_reading(path, dialect.encoding, "replace") as stream:
        before = b"\n"
        while block := stream.read(BLOCK):
            if _zeros_lead(before + block, dialect):
                return True
            before = block[-3:]
    return False


def _zeros_lead(text: bytes, dialect: Dialect) -> bool:
    letters = np.frombuffer(text, np.uint8)
    if len(letters) < 3:
        return False
    zeros = letters[1:-1] == ord("0")
    zeros &= (letters[2:] - np.uint8(ord("0"))) < 10
    first = np.zeros(len(zeros), bool)
    for each in {*b'\r\n" +-', ord(dialect.delimiter or ",")}:
        first |= letters[:-2] == each
    return bool((zeros & first).any())


def _needs_text(column: pa.ChunkedArray, *, exact: bool) -> bool:
    """Tell whether fields that look like numbers are labels that differ in more than their number.

    Whole numbers of up to nineteen digits are ``exact``.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(column.unique().cast(pa.large_string())).drop_null()
    led = bool(pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py())
    if exact or led:
        return led
    long = pc.greater(pc.utf8_length(pc.replace_substring_regex(texts, r"[^0-9].*$|^[+-]", "")), 15)
    if pc.any(long).as_py():
        return True
    ending = texts.filter(pc.match_substring_regex(texts, _LAST_ZERO))
    return bool(pc.any(pc.is_in(pc.utf8_rtrim(ending, "0"), value_set=texts)).as_py())


def _trim(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(column)
