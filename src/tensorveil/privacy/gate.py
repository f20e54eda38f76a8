"""The one gate: everything private that is to be completed enters here, and leaves in a declared, canonical form.

`declare` settles what is public, from what the caller said; `admit` turns a tensor into private data of that form. What
becomes of an entry depends on this entry alone, the order of entries does not matter, and no error depends on what is
private (docs/guarantees.md#the-gate).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.privacy.private import Private
from tensorveil.privacy.unit import Unit
from tensorveil.tensor import Mode, ObservedTensor, StoredTensor
from tensorveil.tensor.checks import check_shape, is_number, is_text
from tensorveil.tensor.keys import sort_entries
from tensorveil.tensor.modes import find_axis
from tensorveil.tensor.options import FrameOptions
from tensorveil.tensor.rows import settle_shape

__all__ = [
    "Declared",
    "PrivateEntries",
    "PrivateValues",
    "admit",
    "check_bounds",
    "check_number",
    "check_origin",
    "clip_values",
    "declare",
    "keep_inside",
    "name_lists",
    "reading_rules",
]

Array = NDArray[Any]

# Within these, squares of squares of values are ordinary floats, and values can be told apart.
_SMALLEST, _LARGEST, _NARROWEST = 1e-70, 1e70, 2.0**-40
# Sums of so many bounded contributions fit into 64 bits.
MOST_ENTRIES: Final = 1 << 33

READ_OFF = (
    "labels are numbered by those that occur, so that every index would tell who is in the data, also after the labels "
    "are dropped. Read the table with tensorveil.read_privately and a public list, labels={'film': films}; or give "
    "indices from 0 and their declared shape."
)
_UNDECLARED = (
    'shape must be declared for unit="{}": read off the data it would tell which indices occur. '
    "Try shape=(number of users, number of films, ...), or public lists of labels."
)
LABELLED = (
    "these labels were not declared as a public list, and may be those that occur. If they are one, say so: "
    "with_modes([Mode('user', everyone), 'film']); or drop them: with_modes(['user', 'film'])."
)


def name_lists(modes: Sequence[Mode]) -> str | None:
    """Say, for the guarantee, for which modes a public list of labels was declared."""
    listed = ", ".join(mode.name for mode in modes if mode.labels is not None)
    plain = " ".join("".join(letter if letter.isprintable() else " " for letter in listed).split())
    return f"the declared lists of labels ({plain})" if listed else None


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What is public about private data: what the caller declared and, in unit "value", the positions.

    Parameters
    ----------
    unit, bounds
        What is protected, and where values can lie.
    shape, modes
        Sizes and names of the modes; labels in unit "value", where they are public; in others of public lists.
    n_entries
        The number of entries in unit "value"; None where it is private.
    zeros
        Whether cells without an entry are declared to be zero: in units "entry" and "slice".
    value
        The name of the column that the values come from, if they come from a table.
    """

    unit: Unit
    bounds: tuple[float, float]
    shape: tuple[int, ...]
    modes: tuple[Mode, ...]
    n_entries: int | None = None
    zeros: bool = False
    value: str | None = None

    @property
    def about(self) -> str:
        """Say, for the guarantee, which values are meant."""
        return "" if self.value is None else f"values of column {self.value!r}"

    @property
    def among(self) -> int | None:
        """How many of the protected things there are, or may well be: a public number to compare delta with."""
        if self.unit.kind == "value":
            return self.n_entries
        if self.unit.mode is None:
            return max(self.shape)
        return self.shape[find_axis(self.modes, self.unit.mode)]

    @property
    def public(self) -> tuple[str, ...]:
        """Say, for the guarantee, what is public besides the budget."""
        names = ", ".join(mode.name for mode in self.modes)
        if self.unit.kind != "value":
            lists = name_lists(self.modes)
            said = (f"the names ({names}) and declared sizes of the modes", *(() if lists is None else (lists,)))
            return (*said, "that cells without an entry are zero") if self.zeros else said
        labelled = any(mode.labels is not None for mode in self.modes)
        return (f"positions ({names}){' and labels' if labelled else ''}",)


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateValues:
    """Entries in unit "value": positions are public and sorted, values are private and clipped to the bounds."""

    columns: Array
    values: Private[Array]
    shape: tuple[int, ...]
    bounds: tuple[float, float]

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return int(self.columns.shape[1])

    @property
    def middle(self) -> float:
        """Middle of the bounds."""
        return 0.5 * (self.bounds[0] + self.bounds[1])

    @property
    def width(self) -> float:
        """Width of the bounds."""
        return self.bounds[1] - self.bounds[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateEntries:
    """Entries in units "entry" and "slice": positions, values and their number are private.

    ``zeros`` says that cells without an entry are declared to be zero.
    """

    columns: Private[Array]
    values: Private[Array]
    shape: tuple[int, ...]
    bounds: tuple[float, float]
    zeros: bool = False


def check_bounds(bounds: Sequence[float]) -> tuple[float, float]:
    """Return bounds as (low, high); refuse those that floats cannot tell apart well enough."""
    try:
        numbers = () if is_text(bounds) else tuple(float(bound) for bound in bounds)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != 2 or not all(map(math.isfinite, numbers)) or numbers[0] >= numbers[1]:
        raise InputError("bounds must be two finite numbers, the lower one first. Try bounds=(1, 5).")
    low, high = numbers
    size = max(abs(low), abs(high))
    if not (high - low >= max(_SMALLEST, _NARROWEST * size) and size <= _LARGEST):
        raise InputError(
            "bounds must be at most 1e70 in size, and apart by at least 1e-70 and by 2**-40 of their size. "
            "Subtract a constant from the values, or measure them in another unit."
        )
    return low, high


Shape = Sequence[int] | Mapping[str, int] | None


def reading_rules(unit: Unit, bounds: Sequence[float], shape: Shape) -> FrameOptions:
    """Return the rules by which private data are read, so that what becomes of a row depends on this row alone.

    Sizes that are declared by name, or by public lists, are settled by the reader.
    """
    rules: FrameOptions = {"bounds": check_bounds(bounds), "missing": "drop", "out_of_bounds": "clip"}
    if unit.kind != "value":
        rules |= {"duplicates": "keep", "out_of_range": "drop"}
    if shape is None or isinstance(shape, Mapping):
        return rules
    return rules | {"shape": shape if unit.kind == "value" else check_shape(shape)}


def declare(tensor: ObservedTensor | StoredTensor, *, unit: Unit, bounds: Sequence[float], shape: Shape) -> Declared:
    """Settle what is public. Only names, public lists and rules are read of the tensor; in unit "value" positions."""
    limits = check_bounds(bounds)
    zeros = tensor.unlisted == "zero"
    if zeros:
        _check_zeros(unit, limits)
    check_origin(tensor, unit)
    if unit.kind == "value":
        _check_missing_value(tensor, limits)
        if shape is not None and _by_name(tensor, shape) != tensor.shape:
            raise InputError("shape must be the shape of the tensor that is fitted.")
        return Declared(
            unit=unit,
            bounds=limits,
            shape=tensor.shape,
            modes=tensor.modes,
            n_entries=tensor.n_entries,
            value=tensor.origin.value,
        )
    known = [mode.name for mode in tensor.modes]
    if unit.mode is not None and unit.mode not in known:
        raise InputError(f"protect must name one of the modes {', '.join(known)}; got {unit.mode!r}.")
    # Labels of owners are private, all others were declared.
    lists = [
        Mode(mode.name, bins=mode.bins) if m == tensor.origin.owners else mode for m, mode in enumerate(tensor.modes)
    ]
    if shape is None and not any(mode.labels is not None for mode in lists):
        raise InputError(_UNDECLARED.format(unit.kind))
    sizes = settle_shape(lists, shape)
    # Nothing of the protected mode is released, not even the list of those who may be in it.
    modes = tuple(Mode(mode.name, bins=mode.bins) if mode.name == unit.mode else mode for mode in lists)
    return Declared(unit=unit, bounds=limits, shape=sizes, modes=modes, zeros=zeros, value=tensor.origin.value)


def _check_zeros(unit: Unit, bounds: tuple[float, float]) -> None:
    """Refuse unlisted zeros where which cells are listed is not protected, and bounds that do not begin at zero."""
    if unit.kind == "value":
        raise InputError(
            'unlisted="zero" needs unit="entry", which protects whether a cell is listed, or unit="slice", which '
            'protects all of one record. Or say that the other cells are not known: tensor.with_unlisted("unknown").'
        )
    if bounds[0] != 0:
        raise InputError(
            'bounds must begin at 0 with unlisted="zero": values are counts, or yes (1) and no. Try bounds=(0, 1) for '
            "yes and no, bounds=(0, 20) for counts of up to 20."
        )


def _by_name(tensor: ObservedTensor | StoredTensor, shape: Sequence[int] | Mapping[str, int]) -> tuple[int, ...]:
    if isinstance(shape, Mapping):
        return tuple(shape.get(mode.name, size) for mode, size in zip(tensor.modes, tensor.shape, strict=True))
    return tuple(shape)


def check_origin(tensor: ObservedTensor | StoredTensor, unit: Unit) -> None:
    """Refuse tensors whose names, numbering or positions may depend on what the unit protects."""
    _check_names(tensor)
    if unit.kind == "value":
        _check_value_rules(tensor)
        return
    owners = tensor.origin.owners
    if tensor.origin.numbered or (owners is not None and tensor.modes[owners].name != unit.mode):
        raise InputError(f'unit="{unit.kind}" needs public labels: {READ_OFF}')
    labelled = any(mode.labels is not None for m, mode in enumerate(tensor.modes) if m != owners)
    if labelled and not tensor.origin.listed:
        raise InputError(f'unit="{unit.kind}" needs public labels: {LABELLED}')
    if tensor.origin.chosen:
        raise InputError(
            f'entries that were chosen among others cannot be fitted for unit="{unit.kind}": with one more of those, '
            "others would have been chosen. Fit all of them, or hold some out with cell_split(tensor, 0.1), "
            "which decides on every entry by itself."
        )
    if unit.kind == "entry" and tensor.origin.duplicates not in ("error", "keep"):
        raise InputError(
            'duplicates must not be merged for unit="entry": one record more could change another. Build the tensor '
            "with duplicates='keep'."
        )


def admit(tensor: ObservedTensor, declared: Declared) -> PrivateValues | PrivateEntries:
    """Turn a tensor into private data: within the shape, clipped to the bounds, in one order for one set of entries."""
    columns, values = tensor.columns, tensor.values.astype(np.float64)
    if declared.unit.kind != "value":
        sizes = np.array(declared.shape)
        if declared.unit.mode is not None:  # the protected mode only numbers its owners
            sizes[find_axis(declared.modes, declared.unit.mode)] = np.iinfo(np.int32).max
        columns, values = keep_inside(columns, values, sizes)
    check_number(len(values))
    values = clip_values(values, declared.bounds)
    columns, values = sort_entries(columns, values, tensor.shape)
    if declared.unit.kind == "value":
        return PrivateValues(columns=columns, values=Private(values), shape=declared.shape, bounds=declared.bounds)
    return PrivateEntries(
        columns=Private(columns), values=Private(values), shape=declared.shape, bounds=declared.bounds,
        zeros=declared.zeros,
    )  # fmt: skip


def keep_inside(columns: Array, values: Array, sizes: Sequence[int] | Array) -> tuple[Array, Array]:
    """Return the entries that lie within a declared shape; each is looked at alone."""
    inside = (columns < np.array(sizes)[:, None]).all(axis=0)
    return columns[:, inside], values[inside]


def clip_values(values: Array, bounds: tuple[float, float]) -> Array:
    """Return values within their declared bounds, each clipped alone."""
    # Adding zero makes minus zero plus zero: equal values must have equal bits.
    clipped: Array = np.clip(values.astype(np.float64), *bounds) + 0.0
    return clipped


def check_number(n_entries: int) -> None:
    """Refuse more entries than sums have room for."""
    if n_entries >= MOST_ENTRIES:
        raise InputError(f"there must be fewer than {MOST_ENTRIES} entries. Fit a part of them.")


def _check_value_rules(tensor: ObservedTensor | StoredTensor) -> None:
    """Refuse tensors in which the positions, which are public in unit "value", may depend on values."""
    if tensor.origin.out_of_bounds == "drop":
        raise InputError(
            'values outside the bounds must not be dropped for unit="value": which cells have a value is public. '
            "Build the tensor with out_of_bounds='clip'."
        )
    if tensor.origin.duplicates == "keep":
        raise InputError(
            "duplicates='keep' is for units entry and slice; in unit value a cell has one value. Merge its entries: "
            "try duplicates='mean'."
        )


def _check_missing_value(tensor: ObservedTensor | StoredTensor, bounds: tuple[float, float]) -> None:
    """Refuse tensors in which a value within the bounds would have counted as missing."""
    marker = tensor.origin.missing_value
    if marker is not None and bounds[0] <= marker <= bounds[1]:
        raise InputError(
            'the number that marks missing cells must lie outside the bounds for unit="value": which cells have a '
            "value is public, and a value of this number would have none. Mark missing cells by NaN or by a mask; give "
            "coordinates and values instead of a sparse matrix."
        )


def _check_names(tensor: ObservedTensor | StoredTensor) -> None:
    """Refuse names that may be data: a table without a header, or a value column that nobody has named."""
    names = [mode.name for mode in tensor.modes] + ([tensor.origin.value] if tensor.origin.value else [])
    if any(is_number(name) for name in names):
        raise InputError(
            "a column's name is a number, as if the first row of the data had been taken for the header; names are "
            "published. Name the columns, or read the table with header=False."
        )
    if not tensor.origin.value_named:
        raise InputError(
            "value must name the column to protect: all other columns become modes, which are public. Try "
            "value='rating', and modes=['user', 'film'] for the columns that may be known."
        )
