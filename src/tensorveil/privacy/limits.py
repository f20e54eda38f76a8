"""What a guarantee does not promise, in plain words, for model cards and reports."""

from __future__ import annotations

from tensorveil.privacy.guarantee import Guarantee

__all__ = ["list_limits"]

_BY_UNIT = {
    "value": "Which entries were observed, and the labels of rows, are public in this unit.",
    "entry": "One entry is protected, not all entries of a person together.",
    "slice": "What a person is shown also follows from the person's own entries: it is for this person alone.",
}


def list_limits(guarantee: Guarantee) -> tuple[str, ...]:
    """Return what a guarantee does not promise, one sentence each."""
    unit = guarantee.unit.kind
    return (
        _BY_UNIT.get(unit, "Nothing beyond the unit above is protected."),
        f"Conclusions that follow from the population, and would without any one {unit}, are not prevented.",
        "Other releases from the same data add up with this one; a ledger keeps count of them.",
    )
