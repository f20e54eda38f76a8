"""People's own entries, in whatever form they come, as a tensor in the indices of a released model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import ChangedWarning, InputError, LeftOutWarning, warn
from tensorveil.models.indexing import missing_columns
from tensorveil.models.recommending import Seen, find_places
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.bins import bin_columns, known_bins
from tensorveil.tensor.frames import as_table, table_to_tensor
from tensorveil.tensor.labels import encode_column
from tensorveil.tensor.lists import find_listed, match_columns
from tensorveil.tensor.number_columns import read_floats

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorveil.rounds.shared import SharedModel

__all__ = ["OwnEntries", "read_own", "read_values", "table_of_own"]


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnEntries:
    """People's entries that a model has a place for; ``source`` is what they were given as, ``owners`` are whose.

    ``modes`` are the model's, but for the people's own.
    """

    tensor: ObservedTensor
    source: pa.Table | ObservedTensor
    owners: NDArray[Any]
    modes: tuple[Mode, ...]

    def seen(self, target: int) -> Seen:
        """Return who has which candidates, also of entries that are left out for what they hold in other modes."""
        items = find_places(self.source, self.modes, self.tensor.shape, target)
        return Seen(owners=self.owners[items >= 0], items=items[items >= 0])


def read_own(entries: Any, model: SharedModel, value: str | None = None) -> OwnEntries:
    """Return entries in a model's indices; the protected mode keeps the labels that it came with.

    Entries are a tensor, a frame, or a mapping of columns. A table without a column of the protected mode holds the
    entries of one person. Where the model has labels, entries are matched by label: moments stand for the bins that
    they are in, and entries of labels that it does not have are left out, with a `LeftOutWarning`. Where it has none,
    they must be indices. Values are held to the bounds, as those of the release were, and rows of a table that name one
    cell in the same words count as one, of their mean: a `ChangedWarning` says so. Moments of one bin all count.
    """
    if isinstance(entries, OwnEntries):
        return entries
    if isinstance(entries, ObservedTensor):
        return _align(entries, model)
    modes, protect = model.modes, model.protect
    owner = modes[protect].name
    table = table_of_own(entries, owner)
    value = _check_columns(table, model, value)
    _check_known(table, [mode for m, mode in enumerate(modes) if m != protect])
    table = _merge_repeated(table, [mode.name for mode in modes], value)
    table, _ = bin_columns(table, known_bins([modes[protect]], {}), lenient=False)
    owners = np.empty(table.num_rows, np.int32)
    names = encode_column(table.column(owner), f"column {owner!r}", None, owners)
    people = Mode.from_trusted(owner, names, modes[protect].bins)
    listed = {mode.name: mode for m, mode in enumerate(modes) if mode.labels is not None and m != protect}
    columns = [people if m == protect else listed.get(mode.name, Mode(mode.name)) for m, mode in enumerate(modes)]
    found = table_to_tensor(table, columns, value, labels=True, lists=listed, quiet=True, duplicates="keep")
    _tell(table.num_rows - found.n_entries, table.num_rows)
    sizes = tuple(found.shape[m] if m == protect else size for m, size in enumerate(model.shape))
    tensor = ObservedTensor.from_columns(
        found.columns, _hold(found.values, model), sizes, modes=found.modes, duplicates="keep", value=model.value_name
    )
    return OwnEntries(tensor=tensor, source=table, owners=owners, modes=found.modes)


def read_values(held_out: Any, model: SharedModel) -> tuple[pa.Table | ObservedTensor, NDArray[Any]]:
    """Return cells, as a tensor or as a table with a column of people, and the values that they have."""
    if isinstance(held_out, ObservedTensor):
        return held_out, held_out.values
    table = table_of_own(held_out, model.modes[model.protect].name)
    value = _check_columns(table, model, None)
    return table, read_floats(table.column(value))


def _check_columns(table: pa.Table, model: SharedModel, value: str | None) -> str:
    """Refuse entries without a column, a row or a cell that they must have; return the column of values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [mode.name for mode in model.modes]
    if missing := [name for name in names if name not in table.column_names]:
        raise missing_columns("entries", missing, table.column_names)
    names.append(value or _find_value(table.column_names, model))
    if names[-1] not in table.column_names:
        raise missing_columns("entries", names[-1:], table.column_names)
    if not table.num_rows:
        raise InputError("entries must hold at least one row; there is none.")
    for name in names:
        column = table.column(name)
        nan = pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py()
        if nan or column.null_count:
            raise InputError(f"entries: column {name!r} has empty cells. Fill them in, or drop those rows.")
    return names[-1]


def _merge_repeated(table: pa.Table, modes: Sequence[str], value: str) -> pa.Table:
    """Return a table in which no two rows name the same cell in the same words: they become one, of their mean."""
    import pyarrow as pa

    kind = table.column(value).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return table  # which will be refused, or read leniently
    columns = {
        name: column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for name, column in zip((*modes, value), table.select([*modes, value]).columns, strict=True)
    }
    merged = pa.table(columns).group_by([*modes], use_threads=False).aggregate([(value, "mean")])
    if merged.num_rows == table.num_rows:
        return table
    warn(
        f"entries: {table.num_rows - merged.num_rows:,} of {table.num_rows:,} name a cell again, and count with the "
        "others of that cell as one, of their mean. Leave out what is not meant.",
        ChangedWarning,
    )
    return merged.rename_columns([*modes, value])


def _check_known(table: pa.Table, modes: Iterable[Mode]) -> None:
    """Refuse entries none of which can be matched, or that are not indices where they must be; say which column."""
    import pyarrow as pa

    for mode in modes:
        kind = table.column(mode.name).type
        if mode.labels is None:
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
                raise InputError(
                    f"entries: the model has no labels of mode {mode.name!r}, so its column must hold 0-based indices."
                )
        elif not (find_listed(table.column(mode.name), mode) >= 0).any():
            raise InputError(
                f"entries: the model knows nothing of what stands in column {mode.name!r}. Check how it is written."
            )


def table_of_own(entries: Any, owner: str) -> pa.Table:
    """Return entries as a table with a column of the protected mode: of zeros, if all are of one person."""
    import pyarrow as pa

    try:
        table = pa.table(dict(entries)) if isinstance(entries, Mapping) else as_table(entries)
    except InputError:
        raise
    except (pa.ArrowException, TypeError, ValueError):
        table = None
    if table is None:
        raise InputError("entries must be a tensor, a frame, or a mapping of columns of one length.")
    if owner in table.column_names:
        return table
    return table.add_column(0, owner, pa.array(np.zeros(table.num_rows, np.int32)))


def _find_value(names: Sequence[str], model: SharedModel) -> str:
    """Return the column of values: that of the data, or the only one that is no mode."""
    modes = [mode.name for mode in model.modes]
    others = [name for name in names if name not in modes]
    for known in (model.value_name, "value"):
        if known in others:
            return known
    if len(others) > 1:
        raise InputError(
            f"entries: several columns could hold the values: {', '.join(map(repr, others))}. Call the one that does "
            f"{model.value_name!r}, as in the data of the release, or leave the others out."
        )
    if not others:
        raise InputError(f"entries: there must be a column of values, such as {model.value_name!r}.")
    return others[0]


def _align(entries: ObservedTensor, model: SharedModel) -> OwnEntries:
    """Return entries of a tensor in the model's indices."""
    modes, shape, protect = model.modes, model.shape, model.protect
    if entries.order != len(shape):
        raise InputError("group must have the shape that the recipe declares, except in the protected mode.")
    sizes = tuple(entries.shape[m] if m == protect else size for m, size in enumerate(shape))
    aligned = tuple(entries.modes[m] if m == protect else mode for m, mode in enumerate(modes))
    labelled = [m for m in range(len(shape)) if m != protect and entries.modes[m].labels is not None]
    if not labelled:
        _hold(entries.values, model)
        return OwnEntries(tensor=entries, source=entries, owners=entries.columns[protect], modes=aligned)
    columns = match_columns(entries, modes, labelled)
    kept = (columns >= 0).all(axis=0)
    if not kept.any():
        raise InputError("entries: the model knows none of their labels. Check how they are written.")
    _tell(int(np.count_nonzero(~kept)), entries.n_entries)
    tensor = ObservedTensor.from_columns(
        np.ascontiguousarray(columns[:, kept], np.int32), _hold(entries.values[kept], model), sizes, modes=aligned,
        duplicates="keep",
    )  # fmt: skip
    return OwnEntries(tensor=tensor, source=entries, owners=entries.columns[protect], modes=aligned)


def _hold(values: NDArray[Any], model: SharedModel) -> NDArray[Any]:
    """Return values within the bounds of a release, and say how many were not."""
    low, high = model.bounds
    outside = int(np.count_nonzero((values < low) | (values > high)))
    if outside:
        warn(
            f"entries: {outside:,} of {len(values):,} have values outside the bounds of the release, {low:g} to "
            f"{high:g}, and count as the nearest bound. Check that they are on its scale.",
            ChangedWarning,
        )
    held: NDArray[Any] = np.clip(values, low, high)
    return held


def _tell(left_out: int, among: int) -> None:
    if left_out:
        warn(
            f"entries: {left_out:,} of {among:,} are left out, since the model has no place for their labels. Check "
            "how these are written if it should have.",
            LeftOutWarning,
        )
