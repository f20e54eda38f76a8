"""People's own entries, in whatever form they come, as a tensor in the indices of a released model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorveil.errors import InputError
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.frames import as_table, table_to_tensor
from tensorveil.tensor.lists import match_labels

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_own", "table_of_own"]


def read_own(
    entries: Any, modes: Sequence[Mode], shape: tuple[int, ...], protect: int, value: str | None = None
) -> ObservedTensor:
    """Return entries as a tensor with the model's modes; the protected one keeps the labels that it came with.

    Entries are a tensor, a frame, or a mapping of columns. A table without a column of the protected mode holds the
    entries of one person. Where the model has labels, entries are matched by label, and those of labels that it does
    not have are left out; where it has none, they must be indices.
    """
    if isinstance(entries, ObservedTensor):
        return _align(entries, modes, shape, protect)
    table = table_of_own(entries, modes[protect].name)
    listed = {mode.name: mode for m, mode in enumerate(modes) if mode.labels is not None and m != protect}
    columns = [mode.name if m == protect else listed.get(mode.name, Mode(mode.name)) for m, mode in enumerate(modes)]
    found = table_to_tensor(table, columns, value, labels=True, lists=listed)
    sizes = tuple(found.shape[m] if m == protect else size for m, size in enumerate(shape))
    return ObservedTensor.from_columns(found.columns, found.values, sizes, modes=found.modes)


def table_of_own(entries: Any, owner: str) -> pa.Table:
    """Return entries as a table with a column of the protected mode: of zeros, if all are of one person."""
    import pyarrow as pa

    try:
        table = pa.table(dict(entries)) if isinstance(entries, Mapping) else as_table(entries)
    except (pa.ArrowException, TypeError, ValueError):
        table = None
    if table is None:
        raise InputError("entries must be a tensor, a frame, or a mapping of columns of one length.")
    if owner in table.column_names:
        return table
    return table.add_column(0, owner, pa.array(np.zeros(table.num_rows, np.int32)))


def _align(entries: ObservedTensor, modes: Sequence[Mode], shape: tuple[int, ...], protect: int) -> ObservedTensor:
    """Return entries in the model's indices."""
    if entries.order != len(shape):
        raise InputError("group must have the shape that the recipe declares, except in the protected mode.")
    sizes = tuple(entries.shape[m] if m == protect else size for m, size in enumerate(shape))
    labelled = [m for m in range(len(shape)) if m != protect and entries.modes[m].labels is not None]
    if not labelled:
        return entries
    columns = entries.columns.copy()
    for m in labelled:
        known, own = modes[m], entries.modes[m]
        if known.labels is None:
            raise InputError(
                f"entries: mode {known.name!r} has no labels in the model, so entries must hold its indices. Number "
                "them as the data were, or drop the labels: with_modes([...])."
            )
        if known != own:
            assert own.labels is not None
            columns[m] = match_labels(own.labels, known)[columns[m]]
    kept = (columns >= 0).all(axis=0)
    if not kept.any():
        raise InputError("entries: the model knows none of their labels. Check how they are written.")
    aligned = [entries.modes[m] if m == protect else mode for m, mode in enumerate(modes)]
    return ObservedTensor.from_columns(
        np.ascontiguousarray(columns[:, kept]), entries.values[kept], sizes, modes=aligned, duplicates="keep"
    )
