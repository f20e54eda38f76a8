"""Recommendations for the people of a store, whose entries are read one part after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.models import CPModel, TuckerModel
from tensorveil.models.indexing import label_positions
from tensorveil.rounds.shared import SharedModel
from tensorveil.runs.stores import overlapping_parts
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.stored import StoredTensor

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["recommend_for_people", "recommend_from_store"]

Array = NDArray[Any]


def recommend_from_store(
    model: CPModel | TuckerModel,
    stored: StoredTensor,
    n: int,
    owner: int,
    wanted: Array | None,
    *,
    everybody: bool,
    along: str,
    at: Mapping[str, Any],
) -> pa.Table:
    """Recommend what people do not have in a store: those ``wanted``, ``everybody``, or else all who have entries."""
    mode, size, found = model.modes[owner], model.shape[owner], []
    asked = np.arange(size) if everybody else None if wanted is None else np.unique(wanted)
    for rows, columns in _chunks(stored, owner, asked):
        seen = None
        if columns.shape[1]:
            nothing = np.zeros(columns.shape[1])
            seen = ObservedTensor.from_columns(columns, nothing, model.shape, modes=model.modes, duplicates="keep")
        table = model.recommend(owner, n, users=mode.decode(rows).tolist(), along=along, at=at, seen=seen)
        found.append((label_positions(table.column(0).to_pylist(), mode, size), table))
    return _join_tables(found, mode, wanted, size)


def recommend_for_people(
    model: SharedModel, stored: StoredTensor, n: int, wanted: Array | None, *, along: str, at: Mapping[str, Any]
) -> pa.Table:
    """Recommend to people from their own entries in a store: those ``wanted``, or all who have entries."""
    import pyarrow as pa

    owner, found = model.protect, []
    mode, size = stored.modes[owner], stored.shape[owner]
    for rows, columns, values in _own_chunks(stored, owner, None if wanted is None else np.unique(wanted)):
        # A person's part is computed for the people at hand alone, so they are numbered anew.
        columns[owner] = np.searchsorted(rows, columns[owner])
        modes = [Mode(each.name) if m == owner else each for m, each in enumerate(model.modes)]
        sizes = tuple(len(rows) if m == owner else each for m, each in enumerate(model.shape))
        mine = ObservedTensor.from_columns(columns, values, sizes, modes=modes, duplicates="keep", out_of_range="drop")
        table = model.recommend(n=n, entries=mine, along=along, at=at)
        places = rows[np.asarray(table.column(0).to_numpy())]
        named = pa.array(mode.decode(places).tolist())
        found.append((places, table.set_column(0, table.column_names[0], named)))
    joined = _join_tables(found, mode, wanted, size)
    if wanted is not None and len(set(wanted.tolist()) - set(np.concatenate([each for each, _ in found]).tolist())):
        raise InputError(f"users: the store has no entry of some of these {mode.name!r}. Leave them out.")
    return joined


def _chunks(stored: StoredTensor, owner: int, asked: Array | None) -> Iterator[tuple[Array, Array]]:
    """Yield rows of a mode, ascending, with the columns of their entries; rows without entries are between parts."""
    name, reached = stored.modes[owner].name, 0
    for part in overlapping_parts(stored, name, asked):
        columns, _ = stored.read_columns(name, part)
        if asked is None:
            yield np.unique(columns[owner]), columns
            continue
        rows = asked[(asked >= reached) & (asked <= part.last)]
        reached = part.last + 1
        yield rows, columns[:, np.isin(columns[owner], rows)]
    if asked is not None and (asked >= reached).any():
        yield asked[asked >= reached], np.empty((stored.order, 0), np.int32)


def _own_chunks(stored: StoredTensor, owner: int, asked: Array | None) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the rows that have entries, and these."""
    name = stored.modes[owner].name
    for part in overlapping_parts(stored, name, asked):
        columns, values = stored.read_columns(name, part)
        if asked is not None:
            kept = np.isin(columns[owner], asked)
            columns, values = columns[:, kept], values[kept]
        if len(values):
            yield np.unique(columns[owner]), columns.copy(), values


def _join_tables(found: list[tuple[Array, pa.Table]], mode: Mode, wanted: Array | None, size: int) -> pa.Table:
    """Put the tables of all parts together: by row, or as people were asked for."""
    import pyarrow as pa

    if not found:
        raise InputError(f"entries: the store has none of these {mode.name!r}. Check how they are written.")
    places = np.concatenate([each for each, _ in found])
    turn = np.arange(size)
    if wanted is not None:
        turn[wanted[::-1]] = np.arange(len(wanted))[::-1]
    return pa.concat_tables([table for _, table in found]).take(np.argsort(turn[places], kind="stable"))
