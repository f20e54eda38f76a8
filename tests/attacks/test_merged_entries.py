"""Merging changes an entry when a record is added, and dropping by value makes public positions depend on values."""

from typing import Any

import pytest

import tensorveil as tv

CELLS, VALUES = [[0, 0], [0, 0], [1, 1]], [1.0, 5.0, 9.0]


@pytest.mark.parametrize("policy", ["mean", "sum", "first", "last"])
def test_merged_duplicates_are_refused_in_unit_entry(policy: Any) -> None:
    tensor = tv.ObservedTensor(CELLS, VALUES, (2, 2), duplicates=policy)
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "entry", "bounds": (1, 5), "shape": (2, 2)}
    with pytest.raises(tv.InputError, match="duplicates"):
        tv.PrivateCP(1, **promise).fit(tensor)


def test_what_was_asked_for_decides_and_not_what_was_found() -> None:
    """A refusal that depended on whether there were duplicates would tell whether there were."""
    tensor = tv.ObservedTensor([[0, 0], [1, 1]], [1.0, 5.0], (2, 2), duplicates="mean")
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "entry", "bounds": (1, 5), "shape": (2, 2)}
    with pytest.raises(tv.InputError, match="duplicates"):
        tv.PrivateCP(1, **promise).fit(tensor)


@pytest.mark.parametrize("late", [False, True])
def test_values_dropped_for_what_they_are_are_refused_in_unit_value(late: bool) -> None:
    if late:
        tensor = tv.ObservedTensor(CELLS[1:], VALUES[1:], (2, 2)).with_bounds((1, 5), out_of_bounds="drop")
    else:
        tensor = tv.ObservedTensor(CELLS[1:], VALUES[1:], (2, 2), bounds=(1, 5), out_of_bounds="drop")
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "value", "bounds": (1, 5)}
    with pytest.raises(tv.InputError, match="must not be dropped"):
        tv.PrivateCP(1, **promise).fit(tensor)
