"""People's own entries and what they ask for, from files: matched by who they say they are, whatever that is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.release.cells import read_model_table
from tensorveil.rounds.own_entries import table_of_own
from tensorveil.rounds.shared import SharedModel
from tensorveil.runs.reading import Reading, read_tensor
from tensorveil.runs.stores import check_same_modes, take_people
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.files.dialect import PLAIN, Dialect
from tensorveil.tensor.files.formats import pick_format
from tensorveil.tensor.stored import StoredTensor, is_store

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["People", "read_own_table", "read_people"]


@dataclass(frozen=True, kw_only=True, eq=False)
class People:
    """People's entries in a model's indices, the cells they ask for, and the modes that both are in.

    ``written`` are these cells as they are written: without a column of people all entries are one person's.
    """

    entries: ObservedTensor
    asked: pa.Table
    written: pa.Table
    modes: tuple[Mode, ...]


def read_own_table(
    path: str | os.PathLike[str],
    shared: SharedModel,
    bins: Mapping[str, Any] | None = None,
    dialect: Dialect = PLAIN,
) -> pa.Table:
    """Read a person's own entries, or several people's, as a table."""
    found = pick_format(Path(path))
    if found.is_table:
        if not Path(path).is_file():
            raise InputError(f"entries: file not found: {path}.")
        read = read_model_table(Path(path), shared.modes, bins, dialect, shared.modes[shared.protect].name)
        return read.binned if bins else read.written  # by which rows are told apart
    names = [mode.name for mode in shared.modes]
    return read_tensor(Reading(file=path, modes=names, indices=True)).to_arrow().replace_schema_metadata(None)


def read_people(
    entries: str | os.PathLike[str],
    at: Path,
    shared: SharedModel,
    bins: Mapping[str, Any] | None = None,
    dialect: Dialect = PLAIN,
) -> People:
    """Read people's entries and the cells that they ask for.

    People are those in either file, new ones too; one without entries is an average one. Of a store the entries of
    those who ask are read, part by part.
    """
    import pyarrow as pa

    owner = shared.modes[shared.protect].name
    cells = read_model_table(at, shared.modes, bins, dialect, owner)
    asked = cells.binned
    if is_store(entries):
        mine = _read_own_from_store(StoredTensor.open(entries), shared, asked)
    else:
        mine = read_own_table(entries, shared, bins, dialect)
    named = [owner in table.column_names for table in (mine, asked)]
    if named[0] != named[1]:
        has, lacks = (Path(entries).name, at.name) if named[0] else (at.name, Path(entries).name)
        raise InputError(
            f"entries: {has} has a column {owner!r}, and {lacks} has none. Give it to both, or to neither if all "
            "entries are of one person."
        )
    mine, asked = table_of_own(mine, owner), table_of_own(asked, owner)
    mine, asked = _name_alike(mine, asked, owner)
    known = shared.read_entries(mine)
    labels = known.modes[shared.protect].labels
    assert labels is not None  # every label that occurs
    column = asked.column(owner)
    if column.null_count:
        raise InputError(f"at: column {owner!r} has empty cells. Fill them in, or drop those rows.")
    if pa.types.is_string(column.type) != (labels.dtype.kind == "T"):
        raise InputError(f"at: column {owner!r} must name people as the entries do, by text or by number.")
    extra = np.setdiff1d(np.array(column.unique().to_pylist(), dtype=labels.dtype), labels)
    everyone = Mode(owner, np.concatenate([labels, extra]), known.modes[shared.protect].bins)
    modes = tuple(everyone if m == shared.protect else mode for m, mode in enumerate(shared.modes))
    shape = tuple(len(labels) + len(extra) if m == shared.protect else size for m, size in enumerate(shared.shape))
    widened = ObservedTensor.from_columns(known.columns, known.values, shape, modes=modes, duplicates="keep")
    return People(entries=widened, asked=asked, written=cells.written, modes=modes)


def _name_alike(mine: pa.Table, asked: pa.Table, owner: str) -> tuple[pa.Table, pa.Table]:
    """Return both tables with people named by text, if one of them names them so and the other by whole numbers."""
    import pyarrow as pa

    kinds = [table.column(owner).type for table in (mine, asked)]
    if not (any(map(pa.types.is_string, kinds)) and any(map(pa.types.is_integer, kinds))):
        return mine, asked
    first, second = (
        table.set_column(table.column_names.index(owner), owner, table.column(owner).cast(pa.string()))
        for table in (mine, asked)
    )
    return first, second


def _read_own_from_store(stored: StoredTensor, shared: SharedModel, asked: pa.Table) -> pa.Table:
    """Read the entries of those whom a table of cells names by number."""
    import pyarrow as pa

    check_same_modes(stored, shared.modes, but=shared.protect)
    owner = shared.modes[shared.protect].name
    if stored.modes[shared.protect].labels is not None:
        raise InputError(f"entries: the store has labels of {owner!r}. Give the files that it was made of.")
    if owner not in asked.column_names or not pa.types.is_integer(asked.column(owner).type):
        raise InputError(f"at: it must have a column {owner!r} with the numbers by which the store knows them.")
    wanted = np.unique(asked.column(owner).drop_null().to_numpy())
    found = take_people(stored, owner, wanted)
    columns = {
        mode.name: pa.array(column if mode.labels is None else mode.decode(column).tolist())
        for mode, column in zip(stored.modes, found.columns, strict=True)
    }
    return pa.table(columns | {stored.value_name: pa.array(found.values)})
