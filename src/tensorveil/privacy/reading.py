"""Reading private data by the gate's rules, from files and frames alike."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorveil.errors import InputError
from tensorveil.privacy.gate import Shape, reading_rules
from tensorveil.privacy.unit import Unit
from tensorveil.tensor.checks import Unlisted
from tensorveil.tensor.files.file_format import Layout
from tensorveil.tensor.files.formats import pick_format, read_layout
from tensorveil.tensor.frames import as_table, table_to_tensor
from tensorveil.tensor.lists import settle_lists
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.observed import ObservedTensor

__all__ = ["read_privately"]

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
    if protected.kind != "value" and is_table and not (indices or labels):
        raise InputError(NEEDS_LISTS)
    rules: dict[str, Any] = {**reading_rules(protected, bounds, shape)}
    if protected.kind != "value":
        rules["shape"] = shape  # the reader knows the lists
    elif isinstance(shape, Mapping):
        raise InputError('shape is read off the data in unit="value". Leave it out.')
    if duplicates not in (None, "error"):
        rules["duplicates"] = duplicates
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
    )
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not is_table and isinstance(shape, Mapping):
            raise InputError("shape by name is for tables. Give the sizes in the order of the modes.")
        tensor = read_layout(path, format, layout, rules)
    else:
        tensor = table_to_tensor(
            as_table(source, lenient=True), modes, value, labels=layout.labels, lists=layout.lists,
            owners=layout.owners, **rules,
        )  # fmt: skip
    return tensor if unlisted is None else tensor.with_unlisted(unlisted)
