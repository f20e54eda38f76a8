"""How a tensor came about: what was asked for when it was built, never what was found in the data."""

from __future__ import annotations

from dataclasses import dataclass

from tensorveil.tensor.checks import Duplicates, OutOfBounds

__all__ = ["Origin"]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The rules by which a tensor was built, as far as a guarantee may depend on them.

    Parameters
    ----------
    duplicates, out_of_bounds
        What was to become of entries that share their coordinates, and of values outside the bounds.
    value
        The name of the column that the values come from, if they come from a table.
    value_named
        Whether that column was named, or called "value"; not if the last column was taken for want of a name.
    chosen
        Whether the entries were chosen among others by a rule that looks at all of them, so that one entry more may
        change which of the others are here.
    """

    duplicates: Duplicates = "error"
    out_of_bounds: OutOfBounds = "error"
    value: str | None = None
    value_named: bool = True
    chosen: bool = False
