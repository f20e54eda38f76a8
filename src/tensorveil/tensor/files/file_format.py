"""What a file format is: how its files are called, and what can be read from and written to them.

A module of this folder that holds a `Format` as `FORMAT` (or several as `FORMATS`) is a format, found by being there.
Heavy packages are imported by the functions that need them, not by the module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorveil.tensor.bins import Bins, known_bins
from tensorveil.tensor.files.dialect import PLAIN, Dialect
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor

if TYPE_CHECKING:
    import pyarrow as pa

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What the caller said about a tensor file's layout; the parameters are those of `read`.

    ``lists`` are public lists of labels by mode; ``owners`` is the mode whose labels only group rows, in private runs.
    ``bins`` are the modes whose moments are to be binned. With ``private`` no row may decide how others are read.
    ``texts`` are columns whose labels are text, whatever they look like.
    """

    modes: Sequence[str | Mode] | None
    value: str | None
    labels: bool
    index_base: int | None
    header: bool
    variable: str | None
    missing_value: float
    lists: Mapping[str, Mode] = field(default_factory=dict)
    owners: str | None = None
    dialect: Dialect = PLAIN
    bins: Mapping[str, Bins] = field(default_factory=dict)
    private: bool = False
    texts: tuple[str, ...] = ()

    @property
    def text(self) -> tuple[str, ...]:
        """The columns whose labels are compared with others by their text, whatever else stands in them."""
        binned = known_bins(self.modes or (), self.bins)
        known = [
            each.name
            for each in self.modes or ()
            if isinstance(each, Mode) and each.labels is not None and each.labels.dtype.kind == "T"
        ]
        return (*self.lists, *binned, *known, *self.texts, *(() if self.owners is None else (self.owners,)))


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseFile:
    """An array from a file, and the names of its columns if it was a table."""

    values: Array
    columns: tuple[str, ...] | None = None


class TableReader(Protocol):
    """Reads a table; the columns in ``text`` are read as text even if they look like numbers."""

    def __call__(self, path: Path, *, text: Collection[str]) -> pa.Table:
        """Read the table of a file."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Format:
    """A file format. What it cannot do is left out.

    Functions that write get the temporary path to write to, which becomes the file if they succeed.

    Parameters
    ----------
    name
        What ``format=`` and ``--format`` take.
    endings
        How file names end, each beginning with a dot: (".csv", ".csv.gz").
    magic
        How its files begin, whatever they are called; nothing for text.
    read
        Reads a tensor: (path, layout, options of `ObservedTensor`).
    write
        Writes a tensor: (tensor, temporary path, name of the file).
    cut
        Reads a tensor's table in blocks of rows: (path, layout, options of `ObservedTensor`). A row becomes what it
        would become if the file was read as a whole.
    read_table
        Reads an Arrow table of cells. A format that has this is a table: its columns may hold labels.
    write_table
        Writes an Arrow table: (table, temporary path).
    read_array
        Reads a dense array: (path, name of the variable or None).
    write_array
        Writes a dense array: (array, temporary path, names of its columns or None).
    check_array
        Refuses shapes of arrays that the format cannot hold, before anything is computed for them.
    create_array
        Makes an array of floats on disk, to be filled chunk by chunk: (temporary path, shape).
    exact
        Whether numbers come back as they were written; a picture rounds and cuts them.
    """

    name: str
    endings: tuple[str, ...]
    magic: tuple[bytes, ...] = ()
    read: Callable[[Path, Layout, dict[str, Any]], ObservedTensor] | None = None
    write: Callable[[ObservedTensor, Path, str], None] | None = None
    cut: Callable[[Path, Layout, dict[str, Any]], Iterator[pa.Table]] | None = None
    read_table: TableReader | None = None
    write_table: Callable[[pa.Table, Path], None] | None = None
    read_array: Callable[[Path, str | None], DenseFile] | None = None
    write_array: Callable[[Array, Path, Sequence[str] | None], None] | None = None
    check_array: Callable[[tuple[int, ...]], None] | None = None
    create_array: Callable[[Path, tuple[int, ...]], np.memmap[Any, Any]] | None = None
    exact: bool = True

    def __post_init__(self) -> None:
        if not self.name or not self.endings or not all(ending.startswith(".") for ending in self.endings):
            raise TypeError("a Format needs a name, and endings that begin with a dot, such as ('.csv',).")
        if self.read is None and self.read_table is None and self.read_array is None:
            raise TypeError(f"format {self.name!r} reads nothing. Give it read, read_table or read_array.")
        for reader in ("read", "read_table", "read_array"):
            writer = reader.replace("read", "write")
            if (getattr(self, reader) is None) != (getattr(self, writer) is None):
                raise TypeError(f"format {self.name!r} must have both {reader} and {writer}, or neither.")

    @property
    def title(self) -> str:
        """What errors call it."""
        return self.name.capitalize() if len(self.name) > 3 else self.name.upper()

    @property
    def is_text(self) -> bool:
        """Whether its files are lines of fields, which are written in one way or another."""
        return self.name in ("csv", "tsv")

    @property
    def is_table(self) -> bool:
        """Whether its files are tables, whose columns may hold labels."""
        return self.read_table is not None
