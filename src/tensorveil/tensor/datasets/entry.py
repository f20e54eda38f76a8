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
    """One line about a dataset, its terms, whether its file is there, and where its owner offers it (if recorded)."""

    name: str
    description: str
    licence: str
    citation: str
    present: bool
    home: str = ""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A dataset in the catalogue. `places` are tried in order; none means that the file ships with us."""

    name: str
    description: str
    licence: str
    citation: str
    places: tuple[Place, ...]
    load: Callable[..., ObservedTensor]
    side_data: Callable[[Source], Mapping[str, NDArray[Any]]] | None = None
    home: str = ""


def choose(name: str, value: object, choices: tuple[Any, ...]) -> None:
    """Refuse an option that a dataset does not have."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
