"""How a tensor came about: what was asked for when it was built, never what was found in the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tensorveil.tensor.checks import Duplicates, OutOfBounds, Unlisted

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
    missing_value
        The number that marked the missing cells of a dense array, unless NaN or a mask did; zero for sparse matrices.
    numbered
        Whether a mode's indices number the labels that occur, so that one label more may change all indices. It stays
        so when the labels are dropped.
    chosen
        Whether the entries were chosen among others by a rule that looks at all of them, so that one entry more may
        change which of the others are here.
    unlisted
        What cells without an entry hold: "unknown", or "zero".
    listed
        Whether all labels are public lists, given when the tensor was built.
    owners
        The mode, if there is one, whose indices number who occurs, and do no more than group entries by owner: every
        row is as it would be without the others, but for that number.
    """

    duplicates: Duplicates = "error"
    out_of_bounds: OutOfBounds = "error"
    value: str | None = None
    value_named: bool = True
    missing_value: float | None = None
    numbered: bool = False
    chosen: bool = False
    unlisted: Unlisted = "unknown"
    listed: bool = False
    owners: int | None = None

    def then(self, later: Origin) -> Origin:
        """Return the origin of entries that were built by these rules, and by others afterwards.

        What has been merged, dropped, numbered or chosen cannot be undone.

        >>> both = Origin(duplicates="mean").then(Origin(duplicates="keep", chosen=True))
        >>> both.duplicates, both.chosen
        ('mean', True)
        """
        merged = self.duplicates not in ("error", "keep")
        return Origin(
            duplicates=self.duplicates if merged or later.duplicates == "error" else later.duplicates,
            out_of_bounds="drop" if self.out_of_bounds == "drop" else later.out_of_bounds,
            value=self.value if later.value is None else later.value,
            value_named=self.value_named and later.value_named,
            missing_value=self.missing_value if later.missing_value is None else later.missing_value,
            numbered=self.numbered or later.numbered,
            chosen=self.chosen or later.chosen,
            unlisted="zero" if "zero" in (self.unlisted, later.unlisted) else "unknown",
            listed=self.listed or later.listed,
            owners=self.owners if later.owners is None else later.owners,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Origin:
        """Read what `to_json` wrote; facts that an earlier version did not know have their defaults."""
        return cls(**{each.name: facts[each.name] for each in fields(cls) if each.name in facts})
