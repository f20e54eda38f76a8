"""How a tensor file is to be read: one set of facts for every run."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorveil.errors import InputError

if TYPE_CHECKING:
    from tensorveil.privacy import Unit
    from tensorveil.tensor import Mode, ObservedTensor
    from tensorveil.tensor.checks import Unlisted
    from tensorveil.tensor.files.file_format import Layout

__all__ = ["Reading", "layout_of", "read_privately", "read_tables", "read_tensor"]


# What becomes of entries that break a rule.
RULES = ("bounds", "out_of_bounds", "out_of_range", "duplicates", "missing", "unlisted")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A tensor file and how to read it; what is left out is left to `tensorveil.read`.

    Parameters
    ----------
    file
        The file.
    modes, value
        Names of the columns that are the modes, in order, and of the one that holds the value.
    format
        The file's format, where its name does not tell it.
    labels
        Public lists of labels by mode; a row whose label is not on its list is left out.
    indices
        Whether mode columns without a list hold 0-based indices, rather than labels.
    header
        Whether the first line of a CSV or TSV file names the columns.
    variable
        MATLAB: the variable to read; databases: the table.
    bins
        Columns of moments, and the bins that they are put into.
    delimiter, decimal, encoding
        CSV and TSV: how the file is written, where that is not to be detected.
    shape
        Sizes of the modes, where they are declared rather than read off the data.
    bounds, out_of_bounds, out_of_range, duplicates, missing, unlisted
        Where values can lie, what becomes of entries that break a rule, and what cells without an entry hold; as for
        `ObservedTensor`.
    """

    file: str | os.PathLike[str]
    modes: Sequence[str | Mode] | None = None
    value: str | None = None
    format: str | None = None
    labels: Mapping[str, Any] | None = None
    indices: bool = False
    header: bool = True
    variable: str | None = None
    bins: Mapping[str, Any] | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    shape: Sequence[int] | None = None
    bounds: tuple[float, float] | None = None
    out_of_bounds: str | None = None
    out_of_range: str | None = None
    duplicates: str | None = None
    missing: str | None = None
    unlisted: Unlisted | None = None


def read_privately(
    reading: Reading,
    unit: Unit,
    bounds: Sequence[float],
    shape: Sequence[int] | Mapping[str, int] | None,
    *,
    group_owners: bool = False,
) -> ObservedTensor:
    """Read the tensor by the gate's rules; where positions are private, by public lists or by indices."""
    from tensorveil.privacy.reading import read_privately as read

    if any(given is not None for given in (reading.bounds, reading.out_of_bounds, reading.out_of_range)):
        raise InputError("reading: bounds and their rules are those of the promise. Leave them out.")
    return read(
        os.fspath(reading.file), unit=unit, bounds=bounds, shape=reading.shape or shape, labels=reading.labels,
        indices=reading.indices, modes=reading.modes, value=reading.value, format=reading.format,
        header=reading.header, variable=reading.variable, duplicates=reading.duplicates, unlisted=reading.unlisted,
        group_owners=group_owners, bins=reading.bins, delimiter=reading.delimiter, decimal=reading.decimal,
        encoding=reading.encoding,
    )  # fmt: skip


def layout_of(reading: Reading) -> Layout:
    """Return the layout of an open file."""
    from tensorveil.tensor.bins import settle_bins
    from tensorveil.tensor.files.dialect import Dialect
    from tensorveil.tensor.files.file_format import Layout
    from tensorveil.tensor.lists import settle_lists

    return Layout(
        modes=reading.modes, value=reading.value, labels=not reading.indices, index_base=None, header=reading.header,
        variable=reading.variable, missing_value=math.nan, lists=settle_lists(reading.labels or {}),
        bins=settle_bins(reading.bins),
        dialect=Dialect(delimiter=reading.delimiter, decimal=reading.decimal, encoding=reading.encoding),
    )  # fmt: skip


def read_tensor(reading: Reading) -> ObservedTensor:
    """Read the tensor."""
    from tensorveil.tensor.files.formats import read_layout

    options = {name: getattr(reading, name) for name in ("shape", *RULES) if getattr(reading, name) is not None}
    return read_layout(Path(reading.file), reading.format, layout_of(reading), options)


def read_tables(paths: Mapping[Any, str]) -> dict[Any, Any]:
    """Read tables of features, by mode."""
    from tensorveil.tensor.files.formats import read_table

    for path in paths.values():
        if not Path(path).is_file():
            raise InputError(f"side: file not found: {path}. Give the path of a table, such as film=films.csv.")
    return {mode: read_table(Path(path)) for mode, path in paths.items()}
