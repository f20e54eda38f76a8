"""A first look at a data file, for its owner: which columns there are, and a few rows. Nothing to choose bounds by."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tensorveil.markup import shorten
from tensorveil.runs.oddities import are_moments
from tensorveil.runs.reading import Reading, read_tensor
from tensorveil.tensor.files.formats import pick_format, read_table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Column", "Preview", "preview_file"]

ROWS: Final = 5
COLUMNS: Final = 50
LOOKED_AT: Final = 200
_LONGEST = 40  # characters of a cell


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table, or a mode of a tensor: what it is called, what it holds, and whether these are moments."""

    name: str
    holds: str
    moments: bool = False


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What the owner of a file is shown of it; it is private, and its texts must not be logged.

    ``first`` are the first rows of a table, as text. ``is_table`` tells whether columns may be chosen to be modes;
    otherwise the file itself says what its modes are. Of values no minimum, maximum or mean is shown: bounds are
    declared from what they can be, not read off the data.
    """

    bytes: int
    is_table: bool
    rows: int
    columns: tuple[Column, ...]
    more_columns: int = 0
    first: tuple[tuple[str, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return dataclasses.asdict(self)


def preview_file(path: Path) -> Preview:
    """Look into a file.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     file = Path(place, "ratings.csv")
    ...     _ = file.write_text("user,film,rating\\nann,Alien,5\\n")
    ...     found = preview_file(file)
    >>> [(column.name, column.holds) for column in found.columns], found.first
    ([('user', 'text'), ('film', 'text'), ('rating', 'whole numbers')], (('ann', 'Alien', '5'),))
    """
    if not pick_format(path).is_table:
        return _preview_tensor(path)
    table = read_table(path)
    columns = [
        (Column(name=field.name, holds=_name_type(field.type), moments=_holds_moments(column)), column.slice(0, ROWS))
        for field, column in zip(list(table.schema)[:COLUMNS], table.columns, strict=False)
    ]
    return Preview(
        bytes=path.stat().st_size,
        is_table=True,
        rows=table.num_rows,
        columns=tuple(column for column, _ in columns),
        more_columns=table.num_columns - len(columns),
        first=tuple(tuple(map(_show, row)) for row in zip(*(cells.to_pylist() for _, cells in columns), strict=True)),
    )


def _preview_tensor(path: Path) -> Preview:
    tensor = read_tensor(Reading(file=path, duplicates="keep", indices=True))
    return Preview(
        bytes=path.stat().st_size,
        is_table=False,
        rows=tensor.n_entries,
        columns=tuple(
            Column(name=mode.name, holds="indices" if mode.labels is None else "labels") for mode in tensor.modes
        ),
    )


def _holds_moments(column: pa.ChunkedArray) -> bool:
    import pyarrow.types as types

    return not types.is_nested(column.type) and are_moments(column.slice(0, LOOKED_AT).drop_null().to_pylist())


def _show(cell: Any) -> str:
    return "" if cell is None else shorten(str(cell), _LONGEST)


def _name_type(kind: pa.DataType) -> str:
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _name_type(kind.value_type)
    named = (
        (types.is_boolean, "true or false"),
        (types.is_integer, "whole numbers"),
        (types.is_floating, "numbers"),
        (types.is_decimal, "numbers"),
        (types.is_temporal, "dates or times"),
        (types.is_string, "text"),
        (types.is_large_string, "text"),
        (types.is_null, "nothing"),
    )
    return next((words for test, words in named if test(kind)), str(kind))
