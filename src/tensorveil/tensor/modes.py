"""A mode of a tensor: its name and, if it has them, the labels of its indices."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError

IntArray = NDArray[np.int32]
LABEL_KINDS = "iufbMmT"


@dataclass(frozen=True, eq=False, init=False)
class Mode:
    """One mode of a tensor: a name and optional labels, one per index.

    Labels are strings (kept as numpy `StringDType`), numbers or dates. They must be unique, and none
    may be missing. Labels that are bins of moments know their width, ``bins``: "hour", "day", "week", "month" or a
    number of seconds. Whatever is compared with them afterwards is a moment, and stands for the bin that it is in.

    >>> users = Mode("user", ["ann", "bob", "eve"])
    >>> users.encode(["eve", "ann"]).tolist()
    [2, 0]
    >>> users.decode([1]).tolist()
    ['bob']
    >>> days = Mode("day", np.array(["2024-01-03", "2024-01-04"], "datetime64[D]"), bins="day")
    >>> days.encode(["2024-01-04T17:30"]).tolist()
    [1]
    """

    name: str
    labels: NDArray[Any] | None = None
    bins: str | int | None = None

    def __init__(self, name: str, labels: ArrayLike | None = None, bins: str | int | None = None) -> None:
        if not isinstance(name, str) or not name.strip():
            raise InputError("Mode name must be a non-empty string. Try Mode('user').")
        _check_text(name, "Mode name")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "labels", None if labels is None else _check_labels(labels, name))
        object.__setattr__(self, "bins", bins)
        if bins is not None:
            _check_bins(self)

    @classmethod
    def from_trusted(cls, name: str, labels: NDArray[Any] | None, bins: str | int | None = None) -> Mode:
        """Build a mode from labels known to be unique and complete, without checking again."""
        mode = object.__new__(cls)
        object.__setattr__(mode, "name", name)
        if labels is not None:
            labels.flags.writeable = False
        object.__setattr__(mode, "labels", labels)
        object.__setattr__(mode, "bins", bins)
        return mode

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mode):
            return NotImplemented
        if self.name != other.name or (self.labels is None) != (other.labels is None):
            return False
        return self.labels is None or bool(np.array_equal(self.labels, other.labels))  # type: ignore[arg-type]

    def __hash__(self) -> int:
        return hash((self.name, None if self.labels is None else len(self.labels)))

    def __repr__(self) -> str:
        # Labels may be names of people: a repr ends up in logs, so it only says that there are some.
        return f"Mode({self.name!r}{'' if self.labels is None else ', labels=...'})"

    def encode(self, labels: ArrayLike) -> IntArray:
        """Return the indices of these labels (one label or many); an unknown label is an `InputError`."""
        if self.labels is None:
            raise InputError(f"mode {self.name!r} has no labels to encode. Use its indices directly.")
        wanted = np.atleast_1d(np.asarray(labels))
        if wanted.ndim != 1:
            raise InputError(f"labels of mode {self.name!r} must be one label or a flat sequence of labels.")
        if self.bins is not None:
            from tensorveil.tensor.bins import bin_items

            wanted = bin_items(wanted, self.bins)
        found = _positions(self.labels, wanted)
        if found is None or (found < 0).any():
            raise InputError(
                f"labels contains a label that mode {self.name!r} does not know. "
                "Encode only labels that were in the tensor when it was built."
            )
        return found

    def decode(self, indices: ArrayLike) -> NDArray[Any]:
        """Return the labels of these indices; without labels, the indices themselves."""
        positions = np.atleast_1d(np.asarray(indices))
        if positions.size and positions.dtype.kind not in "iu":
            raise InputError(f"indices of mode {self.name!r} must be integers.")
        positions = positions.astype(np.int64, copy=False)
        if self.labels is None:
            return positions
        if positions.size and (positions.min() < 0 or positions.max() >= len(self.labels)):
            raise InputError(f"indices of mode {self.name!r} must lie between 0 and its number of labels - 1.")
        return np.asarray(self.labels[positions])


def _check_labels(labels: ArrayLike, name: str) -> NDArray[Any]:
    """Return labels as a read-only array of one kind; they must be unique and complete."""
    array = _label_array(labels, name)
    if array.ndim != 1:
        raise InputError(f"labels of mode {name!r} must be a flat sequence, one label per index.")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(f"labels of mode {name!r} contain a missing label. Give every index a label.")
    if array.dtype.kind in "Mm" and np.isnat(array).any():
        raise InputError(f"labels of mode {name!r} contain a missing label. Give every index a label.")
    unique = len(set(array.tolist())) if array.dtype.kind == "T" else len(np.unique(array))
    if unique != len(array):
        raise InputError(f"labels of mode {name!r} must be unique, one per index. Make them distinct.")
    array.flags.writeable = False
    return array


def _check_bins(mode: Mode) -> None:
    """Refuse bins whose labels are not their first moments: no moment would ever be found in them.

    Without labels it is only known how whoever brings some makes them: as of the protected mode of a release.
    """
    from tensorveil.tensor.bins import Bins, bin_items

    width = Bins(width=mode.bins).width  # type: ignore[arg-type]
    labels = mode.labels
    if labels is not None and not (labels.dtype.kind == "M" and np.array_equal(bin_items(labels, width), labels)):
        raise InputError(
            f"labels of mode {mode.name!r} must be the first moments of its bins. Let the data be read with "
            f"bins={{{mode.name!r}: 'day'}}, which makes them."
        )


def _label_array(labels: ArrayLike, name: str) -> NDArray[Any]:
    """Copy labels into an array of numbers, dates or numpy strings."""
    array = np.asarray(labels)
    if array.dtype.kind == "U":
        return _text(array, name)
    if array.dtype.kind == "O":
        items = array.ravel().tolist()
        if any(item is None or item != item for item in items):
            raise InputError(f"labels of mode {name!r} contain a missing label. Give every index a label.")
        if all(isinstance(item, str) for item in items):
            return _text(array, name)
    if array.dtype.kind == "f":
        array = array + array.dtype.type(0)  # minus zero becomes zero, its equal
    # np.asarray(["a", 1]) quietly gives strings, so the mixture shows only as an object array.
    if array.dtype.kind not in LABEL_KINDS:
        raise InputError(f"labels of mode {name!r} must be all strings, all numbers or all dates.")
    return array.copy()


def _text(array: NDArray[Any], name: str) -> NDArray[Any]:
    try:
        return array.astype(np.dtypes.StringDType())
    except (UnicodeEncodeError, TypeError):  # early numpy raises the second
        problem = InputError(f"labels of mode {name!r} must be text in UTF-8. Replace halves of characters in them.")
    raise problem  # without what led to it, which quotes a label


def _check_text(text: str, what: str) -> None:
    """Refuse text that no file can hold: halves of characters, as damaged JSON has them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} must be text in UTF-8. Replace halves of characters in it.") from None


def trim_label(text: str) -> str:
    """Return a label of text as public lists have it: trimmed and composed."""
    return unicodedata.normalize("NFC", text).strip()


def _positions(labels: NDArray[Any], wanted: NDArray[Any]) -> IntArray | None:
    """Return the position of every wanted label, -1 where it is unknown, None where the kinds do not match."""
    if labels.dtype.kind == "T":
        if wanted.size and wanted.dtype.kind not in "UTO":
            return None
        if wanted.dtype.kind == "O":  # periods and intervals of pandas are labels as text
            texts = [str(each) if hasattr(each, "ordinal") or hasattr(each, "closed") else each for each in wanted]
            wanted = np.array(texts, dtype=object)
        index = {label: place for place, label in enumerate(labels.tolist())}
        places = np.fromiter((index.get(label, -1) for label in wanted.tolist()), np.int32, len(wanted))
        for row in np.flatnonzero(places < 0):  # public lists have their labels trimmed
            if isinstance(wanted[row], str):
                places[row] = index.get(trim_label(wanted[row]), -1)
        return places
    if labels.dtype.kind == "M" and wanted.dtype.kind in "OUT":
        from tensorveil.tensor.instants import to_instants

        found = to_instants(wanted.tolist(), labels.dtype)
        if found is None:
            return None
        wanted = found
    if wanted.dtype.kind not in LABEL_KINDS or (labels.dtype.kind in "Mm") != (wanted.dtype.kind in "Mm"):
        return None
    if not len(labels):
        return np.full(len(wanted), -1, np.int32)
    order = np.argsort(labels, kind="stable")
    place = np.minimum(np.searchsorted(labels, wanted, sorter=order), len(labels) - 1)
    candidate = order[place]
    return np.where(labels[candidate] == wanted, candidate, -1).astype(np.int32)


def check_modes(modes: Sequence[str | Mode] | None, shape: tuple[int, ...]) -> tuple[Mode, ...]:
    """Complete the names, and check names and label counts against the shape."""
    if modes is None:
        return tuple(Mode.from_trusted(f"mode_{axis}", None) for axis in range(len(shape)))
    if isinstance(modes, str | Mode) or len(modes) != len(shape):
        raise InputError(f"modes must name each of the {len(shape)} modes once. Try modes={example_names(len(shape))}.")
    result = tuple(mode if isinstance(mode, Mode) else Mode(mode) for mode in modes)
    names = [mode.name for mode in result]
    if len(set(names)) != len(names):
        raise InputError("modes must have different names. Rename the repeated one.")
    for mode, size in zip(result, shape, strict=True):
        if mode.labels is not None and len(mode.labels) != size:
            raise InputError(
                f"labels of mode {mode.name!r} must be as many as its size in shape. "
                "Give one label per index, or leave shape out."
            )
    return result


def example_names(order: int) -> list[str]:
    """Return names to show in a remedy."""
    return (["user", "item", "day"] + [f"mode_{axis}" for axis in range(3, 9)])[:order]


def find_axis(modes: tuple[Mode, ...], mode: int | str) -> int:
    """Return the axis of a mode given by position or by name."""
    if isinstance(mode, str):
        names = [item.name for item in modes]
        if mode in names:
            return names.index(mode)
        raise InputError(f"mode must be one of {names}; got {mode!r}. {near(mode, names)}")
    if isinstance(mode, bool | float) or not -len(modes) <= int(mode) < len(modes):
        raise InputError(f"mode must be a name or lie between 0 and {len(modes) - 1}; got {mode!r}.")
    return int(mode) % len(modes)


def near(name: str, names: Iterable[str], *, helpful: bool = True) -> str:
    """Return the remedy for a name that is not there: the one that is spelt alike, if there is one.

    Where names may be data, as a first line is that nobody vouched for, none is told.

    >>> near("flim", ["user", "film"])
    "Did you mean 'film'?"
    """
    if not helpful:
        return (
            "Check its spelling. In private runs the first line might hold data, so columns are told only where all "
            "modes are named as they stand there, modes=['user', 'film']."
        )
    found = _nearest(name, names)
    return "Check its spelling." if found is None else f"Did you mean {found!r}?"


def is_near(name: str, names: Iterable[str]) -> bool:
    """Tell whether one of the names is spelt nearly so."""
    return _nearest(name, names) is not None


def _nearest(name: str, names: Iterable[str]) -> str | None:
    folded = {each.strip().casefold(): each for each in names if each.strip()}
    found = get_close_matches(name.strip().casefold(), folded, n=1)
    return folded[found[0]] if found else None


def ordered_indices(mode: Mode, size: int) -> NDArray[Any]:
    """Return the indices of an ordered mode in their order: by labels that are numbers or dates, else as they stand."""
    labels = mode.labels
    return np.argsort(labels) if labels is not None and labels.dtype.kind in "iufM" else np.arange(size)
