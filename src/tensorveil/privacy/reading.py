"""Reading private data by the gate's rules, from files and frames alike."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorveil.errors import InputError
from tensorveil.privacy.gate import Shape, reading_rules
from tensorveil.privacy.unit import Unit
from tensorveil.tensor.bins import settle_bins
from tensorveil.tensor.checks import MAX_SIZE, Unlisted
from tensorveil.tensor.files.dialect import Dialect
from tensorveil.tensor.files.file_format import Layout
from tensorveil.tensor.files.formats import pick_format, read_blocks, read_layout
from tensorveil.tensor.frame_index import settle_index
from tensorveil.tensor.frames import as_table, table_to_tensor
from tensorveil.tensor.lists import OwnerNumbers, settle_lists
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor

__all__ = ["read_privately", "read_privately_in_blocks"]

# Numbering the labels that occur would make every index depend on which entries there are.
NEEDS_LISTS = (
    "this unit needs public labels: those that are read off the data tell who is in them. Give a list for every mode, "
    "labels={'film': films}, but for the one that is protected; or number the rows by a public list, from 0, and add "
    "indices=True."
)


def read_privately(
    source: Any,
    *,
    unit: str | Unit,
    bounds: Sequence[float],
    shape: Shape = None,
    labels: Mapping[str, Any] | None = None,
    indices: bool = False,
    modes: Sequence[str | Mode] | None = None,
    value: str | None = None,
    format: str | None = None,  # noqa: A002
    header: bool = True,
    variable: str | None = None,
    duplicates: str | None = None,
    bins: Mapping[str, Any] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    unlisted: Unlisted | None = None,
    group_owners: bool = True,
) -> ObservedTensor:
    """Read private data so that what becomes of a row depends on this row alone, and nothing is told of it.

    Parameters
    ----------
    source
        A file that `read` knows, or a pandas, polars or Arrow table.
    unit, bounds
        What is protected, and where values can lie; as for the private estimators.
    shape
        Units entry and slice: declared sizes, in the order of the modes or by name, {"user": 1000}. Modes with a public
        list have its size.
    labels
        Public lists of labels, {"film": films}: whatever is not on its list leaves its row out, whether anybody has it
        or not. Lists must not be read off the data.
    indices
        Whether columns without a list hold 0-based indices. In units entry and slice they must, but for the protected
        mode, whose labels only say which rows belong together.
    modes, value, format, header, variable
        As for `read`.
    bins
        Columns of moments to put into bins, as for `read`. In units entry and slice with a declared range, whose bins
        are a public list: {"time": ("day", "2024-01-01", "2024-03-31")}.
    delimiter, decimal, encoding
        How a CSV or TSV file is written. Only its line of names is looked at to find out, never a row.
    duplicates
        Unit value: by which rule the entries of a cell are merged.
    unlisted
        Unit entry: "zero" declares that cells without an entry are zero, as in counts and in yes and no.
    group_owners
        Whether labels of the protected mode may number its owners. A federation must not: it parts them by number.

    Guarantee: none of its own; estimators accept the result (docs/guarantees.md#the-gate).

    >>> import tensorveil as tv, pyarrow as pa
    >>> rows = pa.table({"user": ["ann", "bob"], "film": ["Alien", "Solaris"], "value": [5.0, 4.0]})
    >>> lists = {"film": ["Alien", "Brazil"]}
    >>> tv.read_privately(rows, unit="slice:user", bounds=(1, 5), labels=lists).n_entries
    1
    """
    protected = Unit.parse(unit)
    is_table = not isinstance(source, str | os.PathLike) or pick_format(Path(source), format).is_table
    rules, layout = _settle(
        protected, bounds, shape, is_table=is_table, labels=labels, indices=indices, modes=modes, value=value,
        header=header, variable=variable, group_owners=group_owners, bins=bins,
        dialect=Dialect(delimiter=delimiter, decimal=decimal, encoding=encoding),
    )  # fmt: skip
    if duplicates not in (None, "error"):
        rules["duplicates"] = duplicates
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not is_table and isinstance(shape, Mapping):
            raise InputError("shape by name is for tables. Give the sizes in the order of the modes.")
        tensor = read_layout(path, format, layout, rules)
    else:
        tensor = table_to_tensor(
            as_table(settle_index(source, modes, value), lenient=True, by_cell=protected.kind != "value"), modes, value,
            labels=layout.labels, lists=layout.lists, owners=layout.owners, bins=layout.bins, **rules,
        )  # fmt: skip
    return tensor if unlisted is None else tensor.with_unlisted(unlisted)


def read_privately_in_blocks(
    files: Sequence[str | os.PathLike[str]],
    *,
    unit: str | Unit,
    bounds: Sequence[float],
    shape: Shape = None,
    labels: Mapping[str, Any] | None = None,
    indices: bool = False,
    modes: Sequence[str | Mode] | None = None,
    value: str | None = None,
    format: str | None = None,  # noqa: A002
    header: bool = True,
    bins: Mapping[str, Any] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Iterator[ObservedTensor]:
    """Read private data as `read_privately` does, from files that may be larger than memory, in blocks of rows.

    The parameters are those of `read_privately`. Every row becomes what it becomes there; an owner has one number in
    all blocks of all files.
    """
    protected = Unit.parse(unit)
    number = OwnerNumbers()
    dialect = Dialect(delimiter=delimiter, decimal=decimal, encoding=encoding)
    for each in files:
        path = Path(each)
        is_table = pick_format(path, format).is_table
        rules, layout = _settle(
            protected, bounds, shape, is_table=is_table, labels=labels, indices=indices, modes=modes, value=value,
            header=header, variable=None, group_owners=True, bins=bins, dialect=dialect,
        )  # fmt: skip
        if is_table and layout.owners is not None:
            rules["shape"] = _without_size(layout.owners, shape, modes)
        if not is_table and isinstance(shape, Mapping):
            raise InputError("shape by name is for tables. Give the sizes in the order of the modes.")
        yield from read_blocks(path, format, layout, rules, number)


def settle_values(
    bounds: Sequence[float],
    *,
    shape: Shape = None,
    labels: Mapping[str, Any] | None = None,
    indices: bool = False,
    modes: Sequence[str | Mode] | None = None,
    value: str | None = None,
    header: bool = True,
    bins: Mapping[str, Any] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> tuple[dict[str, Any], Layout]:
    """Return the rules and the layout by which `read_privately` reads files in unit value, where positions are public.

    The parameters are its own.
    """
    return _settle(
        Unit.parse("value"), bounds, shape, is_table=True, labels=labels, indices=indices, modes=modes, value=value,
        header=header, variable=None, group_owners=True, bins=bins,
        dialect=Dialect(delimiter=delimiter, decimal=decimal, encoding=encoding),
    )  # fmt: skip


def _without_size(owners: str, shape: Shape, modes: Sequence[str | Mode] | None) -> dict[str, int]:
    """Return declared sizes by name, where owners are as many as there are: their size is no limit."""
    if shape is not None and not isinstance(shape, Mapping):
        if modes is None or len(modes) != len(tuple(shape)):
            raise InputError("shape must be by name, {'user': 1000}, where labels group the rows by owner.")
        shape = {m if isinstance(m, str) else m.name: size for m, size in zip(modes, shape, strict=True)}
    return {**(shape or {}), owners: MAX_SIZE}


def _settle(
    protected: Unit,
    bounds: Sequence[float],
    shape: Shape,
    *,
    is_table: bool,
    labels: Mapping[str, Any] | None,
    indices: bool,
    modes: Sequence[str | Mode] | None,
    value: str | None,
    header: bool,
    variable: str | None,
    group_owners: bool,
    bins: Mapping[str, Any] | None,
    dialect: Dialect,
) -> tuple[dict[str, Any], Layout]:
    """Return the rules of the gate, and how a file or a table is laid out."""
    binned = settle_bins(bins)
    if protected.kind != "value" and is_table and not (indices or labels or binned):
        raise InputError(NEEDS_LISTS)
    rules: dict[str, Any] = {**reading_rules(protected, bounds, shape)}
    if protected.kind != "value":
        rules["shape"] = shape  # the reader knows the lists
    elif isinstance(shape, Mapping):
        raise InputError('shape is read off the data in unit="value". Leave it out.')
    layout = Layout(
        modes=modes,
        value=value,
        labels=not indices,
        index_base=None,
        header=header,
        variable=variable,
        missing_value=math.nan,
        lists=settle_lists(labels or {}),
        owners=protected.mode if group_owners and not indices and protected.mode not in (labels or {}) else None,
        dialect=dialect,
        bins=binned,
        private=True,
    )
    return rules, layout
