"""Dates of all kinds, as numpy's."""

from __future__ import annotations

import datetime
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["to_instants"]


def to_instants(items: list[Any], kind: np.dtype[Any]) -> NDArray[Any] | None:
    """Return dates in the finer of their own unit and that of ``kind``; None if one of them is no date.

    Instants with a zone are those of Greenwich, as labels are.

    >>> to_instants(["2024-01-03", datetime.datetime(2024, 1, 3, 12)], np.dtype("datetime64[D]")).tolist()
    [datetime.datetime(2024, 1, 3, 0, 0), datetime.datetime(2024, 1, 3, 12, 0)]
    """
    try:
        found = np.array([_instant(item) for item in items], dtype="datetime64")
        return found.astype(np.promote_types(kind, found.dtype))
    except (ValueError, TypeError, OverflowError):
        return None


def _instant(item: Any) -> np.datetime64:
    """Return one date as numpy's."""
    if isinstance(item, np.datetime64):
        return item
    if hasattr(item, "to_datetime64"):  # pandas keeps nanoseconds
        return cast(np.datetime64, item.to_datetime64())
    if isinstance(item, str):
        text = item.strip()
        try:
            item = datetime.datetime.fromisoformat(text) if len(text) > 10 else datetime.date.fromisoformat(text)
        except ValueError:
            return np.datetime64(text)  # a month, a year, more digits than microseconds
    if isinstance(item, datetime.datetime):
        if item.tzinfo is not None:
            item = item.astimezone(datetime.UTC).replace(tzinfo=None)
        return np.datetime64(item, "us")
    if isinstance(item, datetime.date):
        return np.datetime64(item, "D")
    raise TypeError("no date")
