"""Labelled tensors number the labels that occur, so that one entry more renumbers everybody behind it.

Where positions are private, the released rows then tell with certainty whether an entry, or a user, is there.
"""

from pathlib import Path
from typing import Any

import pytest

import tensorveil as tv


@pytest.fixture
def ratings(tmp_path: Path) -> Any:
    (tmp_path / "ratings.csv").write_text("user,film,rating\nann,x,1\nbob,x,5\nbob,y,3\neve,y,2\n")
    return tv.read(tmp_path / "ratings.csv", value="rating")


def test_entries_with_labels_are_refused(ratings: Any) -> None:
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "entry", "bounds": (1, 5)}
    with pytest.raises(tv.InputError, match="indices"):
        tv.PrivateCP(1, shape=ratings.shape, **promise).fit(ratings)


def test_users_with_labels_are_refused(ratings: Any) -> None:
    promise: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-6, "unit": "slice:user", "bounds": (1, 5)}
    estimator = getattr(tv, "UserLevelCP", tv.PrivateCP)
    with pytest.raises(tv.InputError, match="indices"):
        estimator(1, shape=ratings.shape, **promise).fit(ratings)


def test_frames_number_who_occurs_too() -> None:
    import pyarrow as pa

    table = pa.table({"user": ["ann", "eve"], "film": ["x", "y"], "value": [1.0, 2.0]})
    tensor = tv.ObservedTensor.from_frame(table)
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "unit": "entry", "bounds": (1, 5)}
    with pytest.raises(tv.InputError, match="indices"):
        tv.PrivateCP(1, shape=(2, 2), **promise).fit(tensor)
