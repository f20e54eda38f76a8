"""How a tensor file is to be read: one set of facts for every run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorveil.errors import InputError

if TYPE_CHECKING:
    from tensorveil.privacy import Unit
    from tensorveil.tensor import ObservedTensor

__all__ = ["Reading", "read_privately", "read_tables", "read_tensor"]


# What becomes of entries that break a rule.
RULES = ("bounds", "out_of_bounds", "out_of_range", "duplicates", "missing")


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
    indices
        Whether mode columns hold 0-based indices, rather than labels.
    header
        Whether the first line of a CSV or TSV file names the columns.
    variable
        MATLAB: the variable to read.
    shape
        Sizes of the modes, where they are declared rather than read off the data.
    bounds, out_of_bounds, out_of_range, duplicates, missing
        Where values can lie, and what becomes of entries that break a rule; as for `ObservedTensor`.
    """

    file: str | os.PathLike[str]
    modes: Sequence[str] | None = None
    value: str | None = None
    format: str | None = None
    indices: bool = False
    header: bool = True
    variable: str | None = None
    shape: Sequence[int] | None = None
    bounds: tuple[float, float] | None = None
    out_of_bounds: str | None = None
    out_of_range: str | None = None
    duplicates: str | None = None
    missing: str | None = None


# Numbering the labels that occur would make every index depend on which entries there are.
NEEDS_INDICES = (
    "this unit needs indices: labels that are read off the data tell who is in them. "
    "Number the rows by a public list, from 0, and add indices=True."
)


def read_privately(
    reading: Reading, unit: Unit, bounds: Sequence[float], shape: Sequence[int] | None
) -> ObservedTensor:
    """Read the tensor by the gate's rules; where positions are private, by indices of a public numbering."""
    from tensorveil.privacy.gate import reading_rules
    from tensorveil.tensor.files.formats import pick_format

    if any(given is not None for given in (reading.bounds, reading.out_of_bounds, reading.out_of_range)):
        raise InputError("reading: bounds and their rules are those of the promise. Leave them out.")
    if unit.kind != "value" and pick_format(Path(reading.file), reading.format).is_table and not reading.indices:
        raise InputError(NEEDS_INDICES)
    rules: dict[str, Any] = {**reading_rules(unit, bounds, reading.shape or shape)}
    if reading.duplicates not in (None, "error"):
        rules["duplicates"] = reading.duplicates
    return read_tensor(replace(reading, **rules))


def read_tensor(reading: Reading) -> ObservedTensor:
    """Read the tensor."""
    from tensorveil.tensor import read

    names = ("modes", "value", "format", "variable", "shape", *RULES)
    given: dict[str, Any] = {name: getattr(reading, name) for name in names}
    given |= {"labels": False if reading.indices else None, "header": None if reading.header else False}
    return read(os.fspath(reading.file), **{name: setting for name, setting in given.items() if setting is not None})


def read_tables(paths: Mapping[Any, str]) -> dict[Any, Any]:
    """Read tables of features, by mode."""
    from tensorveil.tensor.files.formats import read_table

    for path in paths.values():
        if not Path(path).is_file():
            raise InputError(f"side: file not found: {path}. Give the path of a table, such as film=films.csv.")
    return {mode: read_table(Path(path)) for mode, path in paths.items()}
