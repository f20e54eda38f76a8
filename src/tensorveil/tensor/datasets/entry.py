"""What a named dataset is: facts, places of its files, and a function that reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.datasets.places import Place, Source
from tensorveil.tensor.observed import ObservedTensor


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """One line about a dataset, its terms, where to get it, and whether its file is there."""

    name: str
    description: str
    licence: str
    citation: str
    home: str | None
    present: bool


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A dataset in the catalogue.

    Parameters
    ----------
    name
        What `load_dataset` takes.
    description
        One line: what it is, and its size.
    licence
        Its terms.
    citation
        Whom to cite.
    places
        Where its file may be in the data folder, tried in order; none means that the file ships with us.
    load
        Reads the file, with the dataset's own options.
    side_data
        Reads facts about the indices of its modes, if there are any.
    home
        Address at which the file can be had, if there is one.
    """

    name: str
    description: str
    licence: str
    citation: str
    places: tuple[Place, ...]
    load: Callable[..., ObservedTensor]
    side_data: Callable[[Source], Mapping[str, NDArray[Any]]] | None = None
    home: str | None = None


def choose(name: str, value: object, choices: tuple[Any, ...]) -> None:
    """Refuse an option that a dataset does not have."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
