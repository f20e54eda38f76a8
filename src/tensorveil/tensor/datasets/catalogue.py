"""The list of named datasets, and the functions that look them up."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.datasets import (
    covid19,
    movielens_1m,
    movielens_10m,
    movielens_100k,
    nyc_taxi_2023,
    oslo_bike,
    synthea,
    tensorly,
    traffic,
)
from tensorveil.tensor.datasets.entry import DatasetInfo, Entry
from tensorveil.tensor.datasets.places import Source, data_folder, find, not_found
from tensorveil.tensor.files.formats import guard
from tensorveil.tensor.observed import ObservedTensor

Result = TypeVar("Result")

ENTRIES: tuple[Entry, ...] = (
    covid19.ENTRY,
    synthea.ENTRY,
    movielens_100k.ENTRY,
    movielens_1m.ENTRY,
    movielens_10m.ENTRY,
    *traffic.ENTRIES,
    *nyc_taxi_2023.ENTRIES,
    oslo_bike.ENTRY,
    *tensorly.ENTRIES,
)
BUNDLED = Source(path=covid19.DATA, inside=None)


def list_datasets(folder: str | Path | None = None) -> tuple[DatasetInfo, ...]:
    """Return all named datasets: a line each, licence, citation, home, and whether the file is in the data folder."""
    where = data_folder(folder)
    return tuple(
        DatasetInfo(
            name=entry.name,
            description=entry.description,
            licence=entry.licence,
            citation=entry.citation,
            present=not entry.places or find(where, entry.places) is not None,
            home=entry.home,
        )
        for entry in ENTRIES
    )


def load_dataset(name: str, *, folder: str | Path | None = None, **options: Any) -> ObservedTensor:
    """Load a named dataset from the data folder (`folder`, or the variable TENSORVEIL_DATA).

    Options depend on the dataset: `part` ("all", "ua.base", "ua.test", "ub.base", ..., "u5.test") and
    `time` (None, "day", or a number of equal time slices) for ml-100k; `time` for ml-1m and ml-10m;
    `zeros` ("missing" or "observed") for the traffic tensors; `measure` for nyc-taxi-2023-01-means.
    `list_datasets()` lists the names.

    >>> load_dataset("covid19-serology").shape
    (438, 6, 11)
    """
    entry = _entry(name)
    known = list(inspect.signature(entry.load).parameters)[1:]
    for option in options:
        if option not in known:
            has = f"its options are {', '.join(known)}" if known else "it has no options"
            raise InputError(f"dataset {name!r} has no option {option!r}; {has}.")
    tensor = _guard(name, lambda: entry.load(_source(entry, folder), **options))
    # Everybody knows who is in a published dataset, and what is missing: its numbering and its positions are public.
    return tensor.with_origin(replace(tensor.origin, numbered=False, listed=False, missing_value=None))


def load_side_data(name: str, *, folder: str | Path | None = None) -> Mapping[str, NDArray[Any]]:
    """Return facts about the indices of a dataset's modes, such as the patients' status or station positions.

    >>> len(load_side_data("covid19-serology")["status"])
    438
    """
    entry = _entry(name)
    if entry.side_data is None:
        names = ", ".join(item.name for item in ENTRIES if item.side_data is not None)
        raise InputError(f"dataset {name!r} has no side data; these have: {names}.")
    side_data = entry.side_data
    return _guard(name, lambda: side_data(_source(entry, folder)))


def _guard(name: str, load: Callable[[], Result]) -> Result:
    """Load files that are expected to be as they were published, and may be anything."""
    return guard(load, lambda why: InputError(f"the files of dataset {name!r} are damaged{why}. Fetch them again."))


def _entry(name: str) -> Entry:
    for entry in ENTRIES:
        if entry.name == name:
            return entry
    raise InputError(f"name must be one of {', '.join(entry.name for entry in ENTRIES)}; got {name!r}.")


def _source(entry: Entry, folder: str | Path | None) -> Source:
    if not entry.places:
        return BUNDLED
    where = data_folder(folder)
    source = find(where, entry.places)
    if source is None:
        raise not_found(entry.name, where, entry.places)
    return source
