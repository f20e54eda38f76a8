"""Public lists of labels, from files."""

from __future__ import annotations

import filecmp
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorveil.errors import InputError
from tensorveil.tensor.files.label_files import read_labels

__all__ = ["read_lists"]


def read_lists(places: Mapping[str, str], data: str) -> dict[str, Any] | None:
    """Read public lists, of a file or of a column of one, ``films.csv:title``, by mode.

    One that is a column of the data themselves is refused: it would tell who is in them.
    """
    for name, place in places.items():
        file = Path(place) if Path(place).is_file() else Path(place.rpartition(":")[0])
        if file.is_file() and (file.samefile(data) or filecmp.cmp(file, data, shallow=False)):
            raise InputError(
                f"labels: the list for mode {name!r} is read off the data themselves. A public list says who may be in "
                "them, whether they are or not."
            )
    return {name: read_labels(place, name) for name, place in places.items()} or None
