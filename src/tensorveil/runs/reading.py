"""How a tensor file is to be read: one set of facts for every run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorveil.tensor import ObservedTensor

__all__ = ["Reading", "read_tensor"]


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


def read_tensor(reading: Reading) -> ObservedTensor:
    """Read the tensor."""
    from tensorveil.tensor import read

    names = ("modes", "value", "format", "variable", "shape", *RULES)
    given: dict[str, Any] = {name: getattr(reading, name) for name in names}
    given |= {"labels": False if reading.indices else None, "header": None if reading.header else False}
    return read(os.fspath(reading.file), **{name: setting for name, setting in given.items() if setting is not None})
