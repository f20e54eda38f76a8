"""Public lists of labels: what is on them is declared, so that a row is numbered or left out by what it holds alone.

Labels are compared by their keys. Readers take one and the same field for the text "7", the number 7 or the number 7.0,
by what else stands in its column; a key does not depend on that. So no row decides which label another row has.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.bins import bin_column, bin_items, count_micros
from tensorveil.tensor.modes import Mode, trim_label

if TYPE_CHECKING:
    import pyarrow as pa

    from tensorveil.tensor.observed import ObservedTensor

__all__ = [
    "NumberOwners",
    "OwnerNumbers",
    "find_listed",
    "label_key",
    "match_columns",
    "match_labels",
    "number_owners",
    "settle_lists",
]

Array = NDArray[Any]
NumberOwners = Callable[["pa.ChunkedArray", str], tuple[Array, Mode]]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_WHEN = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?Z?)?", re.ASCII)
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")


def settle_lists(lists: Mapping[str, Any]) -> dict[str, Mode]:
    """Return a mode for every public list: labels trimmed, composed, all different and none missing.

    >>> settle_lists({"film": ["Alien", " Brazil "]})["film"].labels.tolist()
    ['Alien', 'Brazil']
    """
    if not isinstance(lists, Mapping):
        raise InputError("labels must be True, False or a mapping from modes to public lists. Try {'film': films}.")
    return {name: _settle(name, given) for name, given in lists.items()}


def _settle(name: str, given: Any) -> Mode:
    width = given.bins if isinstance(given, Mode) else None
    if isinstance(given, Mode):
        given = given.labels
    if given is None or isinstance(given, str | bytes):
        raise InputError(f"labels of mode {name!r} must be a list of labels. Try labels={{{name!r}: ['a', 'b']}}.")
    if len(getattr(given, "shape", ())) == 2 or hasattr(given, "column_names"):
        given = _only_column(name, given)
    composed = _compose(given)
    _check_items(name, composed)
    labels = Mode(name, composed).labels  # which checks their kind, and that none is missing or there twice
    assert labels is not None
    if not len(labels):
        raise InputError(f"labels of mode {name!r} must hold at least one label; the list is empty.")
    keys = [label_key(label) for label in _items(labels)]
    places: dict[Hashable, int] = {}
    for place, key in enumerate(keys):
        if key is None:
            raise InputError(f"labels of mode {name!r}: label {place + 1} is empty. Take it off the list.")
        if key in places:
            raise InputError(
                f"labels of mode {name!r}: labels {places[key] + 1} and {place + 1} differ only in how they are "
                "written, as 7 and 7.0 do. Keep one of them."
            )
        places[key] = place
    return Mode(name, labels, width)


def _check_items(name: str, given: Any) -> None:
    """Refuse a public list that lacks a label or has one twice, and say where."""
    places: dict[Any, int] = {}
    for place, label in enumerate(given if np.ndim(given) == 1 else ()):
        if label is None or label != label:
            raise InputError(f"labels of mode {name!r}: label {place + 1} is missing. Take it off the list.")
        if isinstance(label, Hashable) and places.setdefault(label, place) != place:
            raise InputError(
                f"labels of mode {name!r}: labels {places[label] + 1} and {place + 1} are the same. Keep one of them."
            )


def _items(labels: Array) -> list[Any]:
    # Of finer dates numpy makes numbers.
    items: list[Any] = (labels.astype("datetime64[us]") if labels.dtype.kind == "M" else labels).tolist()
    return items


def _only_column(name: str, frame: Any) -> Any:
    if isinstance(frame, np.ndarray):
        raise InputError(f"labels of mode {name!r} must be a flat sequence, one label per index.")
    from tensorveil.tensor.frames import as_table

    table = as_table(frame)
    if table.num_columns != 1:
        raise InputError(
            f"labels of mode {name!r} must be one column of the frame. Try labels={{{name!r}: frame['id']}}."
        )
    return table.column(0).to_pylist()


def _compose(labels: Any) -> Any:
    """Return text labels trimmed and in their composed form, others as they are."""
    array = np.asarray(labels)
    if array.dtype.kind not in "UTO" or array.ndim != 1:
        return array
    return [trim_label(label) if isinstance(label, str) else label for label in array.ravel().tolist()]


def label_key(label: Any) -> Hashable | None:
    """Return what a label is compared by; None for what is no label.

    Text is trimmed and composed, upper and lower case differ. Numbers, dates and truth values are compared as such,
    also where they are written as text.

    >>> label_key("007") == label_key(7.0), label_key("Alien ") == label_key("alien")
    (True, False)
    """
    if isinstance(label, bytes):
        try:
            label = label.decode()
        except UnicodeDecodeError:
            return None
    if isinstance(label, str):
        return _text_key(trim_label(label))
    if isinstance(label, bool | np.bool_):
        return ("truth", bool(label))
    if isinstance(label, int | np.integer):
        return ("number", int(label))
    if isinstance(label, float | np.floating | decimal.Decimal):
        return _number_key(float(label))
    if isinstance(label, datetime.date | np.datetime64):
        return _moment_key(label)
    return None


def _text_key(text: str) -> Hashable | None:
    if not text:
        return None
    if text in _TRUE or text in _FALSE:
        return ("truth", text in _TRUE)
    with suppress(ValueError, OverflowError):
        if _HEXADECIMAL.fullmatch(text):
            return ("number", int(text, 16))
        if _NUMBER.fullmatch(text):
            return ("number", int(text)) if text.lstrip("+-").isdigit() else _number_key(float(text))
        if _WHEN.fullmatch(text):
            return _moment_key(np.datetime64(text.rstrip("Z").replace(" ", "T")))
    return ("text", text)


def _number_key(number: float) -> Hashable | None:
    if number != number:
        return None
    return ("number", int(number) if number.is_integer() else number)


def _moment_key(moment: Any) -> Hashable | None:
    """Return the moment in microseconds, in UTC where a zone is known."""
    if getattr(moment, "tzinfo", None) is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    micros = np.datetime64(moment).astype("datetime64[us]")
    return None if np.isnat(micros) else ("moment", int(micros.astype(np.int64)))


def find_listed(column: pa.ChunkedArray, mode: Mode) -> Array:
    """Return the place of every row's label on the list of a mode, -1 where it is not on it."""
    assert mode.labels is not None
    items, codes = _encode(column if mode.bins is None else bin_column(column, mode.bins))
    return np.array([*_find(items, mode.labels), -1], np.int64)[codes]


def match_labels(labels: Array, mode: Mode) -> Array:
    """Return the place of each of these labels on the list of a mode, -1 where it is not on it."""
    assert mode.labels is not None
    return np.array(_find(_items(labels if mode.bins is None else bin_items(labels, mode.bins)), mode.labels), np.int64)


def _find(items: Sequence[Any], labels: Array) -> list[int]:
    """Return the place of each item among labels, -1 where it has none.

    Keys of a public list all differ; labels that were read off open data may be "7" and "007", and are told apart as
    they are written.
    """
    known = _items(labels)
    places = {label_key(label): place for place, label in enumerate(known)}
    written = {label: place for place, label in enumerate(known) if isinstance(label, str)}
    return [written[item] if isinstance(item, str) and item in written else places.get(label_key(item), -1)
            for item in items]  # fmt: skip


def match_columns(tensor: ObservedTensor, modes: Sequence[Mode], axes: Iterable[int]) -> Array:
    """Return a tensor's columns in the indices of other modes, by label where both have some; -1 for what they lack."""
    columns = tensor.columns.astype(np.int64)
    for m in axes:
        own, known = tensor.modes[m], modes[m]
        if own.labels is None:
            continue
        if known.labels is None:
            raise InputError(
                f"entries: mode {known.name!r} has no labels in the model, so entries must hold its indices. Number "
                "them as the data were, or drop the labels: with_modes([...])."
            )
        if own != known:
            columns[m] = match_labels(own.labels, known)[columns[m]]
    return columns


def number_owners(column: pa.ChunkedArray, name: str) -> tuple[Array, Mode]:
    """Number who owns each row, -1 where nobody does: for a mode whose indices group rows and are not released."""
    items, codes = _encode(column)
    keys = [label_key(item) for item in items]
    names: dict[Hashable, str] = {}
    for key, item in zip(keys, items, strict=True):
        if key is not None:
            text = trim_label(item.decode() if isinstance(item, bytes) else str(item))
            names[key] = min(names.get(key, text), text)
    numbers = {key: number for number, key in enumerate(sorted(names, key=lambda key: names[key]))}
    found = np.array([*(-1 if key is None else numbers[key] for key in keys), -1], np.int64)
    labels = np.array([names[key] for key in numbers] or [""], np.dtypes.StringDType())
    return found[codes], Mode.from_trusted(name, labels)


class OwnerNumbers:
    """Numbers owners over many tables, in the order in which they occur, so that one owner has one number in all.

    Their labels are not kept as labels: a store has no use for names of people. Memory grows with the number of owners.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, column: pa.ChunkedArray, name: str) -> tuple[Array, Mode]:
        """Number who owns each row, -1 where nobody does."""
        items, codes = _encode(column)
        keys = [label_key(item) for item in items]
        numbers = [-1 if key is None else self._numbers.setdefault(key, len(self._numbers)) for key in keys]
        return np.array([*numbers, -1], np.int64)[codes], Mode.from_trusted(name, None)


def _encode(column: pa.ChunkedArray) -> tuple[list[Any], Array]:
    """Return the different items of a column, and for every row the place of its item; -1 where there is none."""
    import pyarrow as pa

    if pa.types.is_nested(column.type):
        return [], np.full(len(column), -1)
    micros = count_micros(column)
    if micros is not None:
        found, codes = np.unique(micros, return_inverse=True)
        moments = found.astype("datetime64[us]")
        days = pa.types.is_date(column.type)
        return (moments.astype("datetime64[D]") if days else moments).tolist(), codes
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    chunks = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
    if not chunks:
        return [], np.empty(0, np.int64)
    codes = np.concatenate([chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in chunks])
    return chunks[0].dictionary.to_pylist(), codes.astype(np.int64)
