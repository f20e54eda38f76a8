"""Rows of a table that are on public lists, or are otherwise what was declared; the others are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError, LeftOutWarning, warn
from tensorveil.tensor import checks
from tensorveil.tensor.lists import NumberOwners, find_listed, number_owners
from tensorveil.tensor.modes import Mode, near
from tensorveil.tensor.observed import ObservedTensor

if TYPE_CHECKING:
    import pyarrow as pa


def numbers_of(table: pa.Table, modes: Sequence[str | Mode]) -> list[NDArray[np.int32]]:
    """Return the index columns of a table of our own, whose labels are all known."""
    from tensorveil.tensor.number_columns import read_floats

    return [
        (
            find_listed(column, mode) if isinstance(mode, Mode) and mode.labels is not None else read_floats(column)
        ).astype(np.int32)
        for mode, column in zip(modes, table.columns, strict=False)
    ]


class NothingListedError(InputError):
    """No row of a table is on the public lists; of a block of a table that need not be an error."""


def keep_listed(table: pa.Table, names: Sequence[str], lists: Mapping[str, Mode], *, quiet: bool = False) -> pa.Table:
    """Return the rows whose labels are on the lists, with their places there instead of the labels.

    Unless ``quiet`` a `LeftOutWarning` counts the others.
    """
    import pyarrow as pa

    places = {m: find_listed(table.column(m), lists[name]) for m, name in enumerate(names) if name in lists}
    if not places:
        return table
    kept = np.logical_and.reduce([column >= 0 for column in places.values()])
    if not kept.any() and len(kept):
        raise NothingListedError(
            f"{_parameter([mode.bins is not None for mode in lists.values()])}no row of the table has its "
            f"{' and '.join(repr(name) for name in names if name in lists)} on the public list or in the declared "
            "range. Check that it is written as in the table."
        )
    if not quiet:
        found = [names[m] for m in places if (places[m] < 0).any()]
        tell_left_out(int(np.count_nonzero(~kept)), len(kept), {name: lists[name].bins is not None for name in found})
    for m, column in places.items():
        table = table.set_column(m, names[m], pa.array(column))
    return table.filter(pa.array(kept))


def tell_left_out(count: int, among: int, lists: Mapping[str, bool]) -> None:
    """Warn of rows that are not on public lists, or not in declared ranges of bins, as ``lists`` says of each mode.

    Only where positions are public: in open runs, and in unit value.
    """
    if count:
        listed, ranges = ([name for name in lists if lists[name] is binned] for binned in (False, True))
        where = [f"{' or '.join(map(repr, listed))} is not on the public list"] if listed else []
        where += [f"{' or '.join(map(repr, ranges))} is not in the declared range"] if ranges else []
        told = f"{count:,} of {among:,} rows are left out, whose {', or '.join(where)}."
        warn(_parameter([*lists.values()]) + told, LeftOutWarning)


def _parameter(binned: Sequence[bool]) -> str:
    """Return the parameter that a message is about, where it is one."""
    return "bins: " if all(binned) else "" if any(binned) else "labels: "


def read_rows(
    columns: Sequence[pa.ChunkedArray],
    values: NDArray[Any],
    modes: Sequence[str | Mode],
    *,
    owners: str | None,
    number: NumberOwners = number_owners,
    index_base: int,
    options: dict[str, Any],
) -> ObservedTensor:
    """Build a tensor of the rows whose indices are within the shape, and whose labels are on their lists.

    What becomes of a row depends on this row alone, but for the number of its owner.
    """
    from tensorveil.tensor.number_columns import read_floats

    named = [mode if isinstance(mode, Mode) else Mode(mode) for mode in modes]
    packed = []
    for m, column in enumerate(columns):
        if named[m].labels is not None:
            packed.append(find_listed(column, named[m]))
        elif named[m].name == owners:
            found, named[m] = number(column, owners)
            packed.append(found)
        else:
            packed.append(read_floats(column) - index_base)
    shape = settle_shape(named, options.get("shape"), owners)
    tensor = ObservedTensor.from_columns(packed, values, modes=named, **(options | {"shape": shape}))
    origin = replace(
        tensor.origin,
        listed=any(mode.labels is not None and mode.name != owners for mode in named),
        owners=next((m for m, mode in enumerate(named) if mode.name == owners), None),
    )
    return tensor.with_origin(origin)


def settle_shape(modes: Sequence[Mode], shape: Any, owners: str | None = None) -> tuple[int, ...]:
    """Return the declared sizes: those of public lists, and those in ``shape``, by name or in the order of the modes.

    The mode of ``owners`` has as many indices as it needs.
    """
    sizes: dict[str, int] = {mode.name: len(mode.labels) for mode in modes if mode.labels is not None}
    declared = {name: size for name, size in sizes.items() if name != owners}
    if isinstance(shape, Mapping):
        _check_names(modes, shape)
        given = dict(shape)
    elif shape is None:
        given = {}
    else:
        plain = checks.check_shape(shape)
        if len(plain) != len(modes):
            raise InputError(f"shape must have one size per mode; got {len(plain)} sizes for {len(modes)} modes.")
        given = {mode.name: size for mode, size in zip(modes, plain, strict=True)}
    for name, size in declared.items():
        if given.get(name, size) != size:
            raise InputError(
                f"shape must have the size of the public list for mode {name!r}, {size}; got {given[name]}. Leave it "
                "out: the list declares it."
            )
    settled = given | declared | ({owners: sizes[owners]} if owners in sizes else {})
    missing = [mode.name for mode in modes if mode.name not in settled]
    if missing:
        raise InputError(
            f"shape must be declared for mode {missing[0]!r}, which has no public list: read off the data, it would "
            f"tell which indices occur. Try shape={{{missing[0]!r}: 1000}}, or labels={{{missing[0]!r}: everyone}}."
        )
    return checks.check_shape([settled[mode.name] for mode in modes])


def _check_names(modes: Sequence[Mode], shape: Mapping[Any, Any]) -> None:
    known = [mode.name for mode in modes]
    unknown = [name for name in shape if name not in known]
    if unknown:
        raise InputError(
            f"shape must name modes of the tensor, {', '.join(known)}; got {unknown[0]!r}. {near(unknown[0], known)}"
        )
