"""From a table of features per index of a mode to numbers: one row per index, columns of mean zero.

Numbers become one column; yes/no likewise; categories one column per value; sets, which are lists or texts joined by
"|", one column per element; other texts with more values than categories may have are hashed word by word. What is
missing counts as the mean.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.completion.implicit import find_patterns, read_implicit
from tensorveil.errors import InputError
from tensorveil.solvers.priors.row_prior import PriorFactory
from tensorveil.solvers.priors.side import Side
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.frames import as_table
from tensorveil.tensor.modes import find_axis

if TYPE_CHECKING:
    import pyarrow as pa

Array = NDArray[Any]

# More values than these are no categories; words of texts are hashed into so many columns.
_CATEGORIES: Final = 64
_BUCKETS: Final = 64
_SEPARATOR = "|"


@dataclass(frozen=True, kw_only=True)
class Features:
    """What a table says of a mode's indices: columns of mean zero, and which column of the table each comes from."""

    centred: Array
    sources: Array
    names: tuple[str, ...]


def read_side(side: Any, implicit: Any, tensor: ObservedTensor) -> dict[int, PriorFactory]:
    """Check tables of features against a tensor; return a prior per mode that has one.

    ``implicit`` adds which cells are observed, in modes with and without a table.
    """
    features: dict[int, Array] = {}
    if side is not None and not isinstance(side, Mapping):
        raise InputError('side must map modes to tables of features. Try side={"film": films}.')
    for key, frame in (side or {}).items():
        mode = tensor.axis(key)
        if mode in features:
            raise InputError("side names a mode twice. Name it once.")
        features[mode] = read_features(frame, tensor, mode)
    for mode in read_implicit(implicit, tensor):
        patterns = find_patterns(tensor.columns, tensor.shape, mode)
        features[mode] = np.hstack([features[mode], patterns]) if mode in features else patterns
    return {mode: partial(Side.start, features=given) for mode, given in features.items() if given.shape[1]}


def read_public_tables(side: Any, modes: tuple[Mode, ...], shape: tuple[int, ...], protect: int) -> dict[int, Features]:
    """Check the public tables of a fit that protects the slices of one mode: features of the others."""
    if side is None:
        return {}
    if not isinstance(side, Mapping):
        raise InputError('side must map modes to tables of features. Try side={"film": films}.')
    tables: dict[int, Features] = {}
    for key, frame in side.items():
        mode = find_axis(modes, key)
        if mode == protect:
            raise InputError(
                f"side: features of {modes[mode].name!r} are private, as all is that belongs to one index of the "
                "protected mode. Leave the table out: only features of the other modes are public."
            )
        if mode in tables:
            raise InputError("side names a mode twice. Name it once.")
        tables[mode] = read_table(frame, modes[mode], shape[mode])
    return tables


def read_features(frame: Any, tensor: ObservedTensor, mode: int) -> Array:
    """Return the features of a mode's indices (size, features), from a table with a column named as the mode.

    They have a mean square of one.
    """
    centred = read_table(frame, tensor.modes[mode], tensor.shape[mode]).centred
    out: Array = centred / np.sqrt(np.mean(centred**2, axis=0))
    return out


def read_table(frame: Any, mode: Mode, size: int) -> Features:
    """Return the features of a mode's indices, from a table with a column named as the mode.

    What sets and texts become keeps its scale of yes and no; numbers get a mean square of one.
    """
    table, name = as_table(frame), mode.name
    if name not in table.column_names:
        raise InputError(f"side: the table of mode {name!r} must have a column of this name, which holds its labels.")
    rows = _find_rows(table.column(name), mode, size)
    names = [each for each in table.column_names if each != name]
    if not names:
        raise InputError(f"side: the table of mode {name!r} has no column of features. Leave it out.")
    columns, sources = [], []
    for source, each in enumerate(names):
        encoded, numbers = _encode(table.column(each), each)
        for given in encoded:
            found = np.full(size, np.nan)
            found[rows[rows >= 0]] = given[rows >= 0]
            centred = _centre(found, scaled=numbers)
            if centred is not None:
                columns.append(centred)
                sources.append(source)
    if not columns:
        raise InputError(
            f"side: no feature of mode {name!r} differs between its indices, or all are missing. Leave the table out."
        )
    return Features(
        centred=np.ascontiguousarray(np.stack(columns, axis=1)), sources=np.array(sources), names=tuple(names)
    )


def _centre(found: Array, *, scaled: bool) -> Array | None:
    """Return a feature less its mean, which stands for what is missing; None if it says nothing."""
    known = np.isfinite(found)
    mean = float(np.sum(np.where(known, found, 0.0)) / max(int(known.sum()), 1))
    centred: Array = np.where(known, found - mean, 0.0)
    spread = float(np.sqrt(np.mean(centred**2)))
    if not spread > 1e-9 * (1 + abs(mean)):
        return None
    return centred / spread if scaled else centred


def _find_rows(column: pa.ChunkedArray, mode: Mode, size: int) -> Array:
    """Return the index of every row of the table; -1 for labels that the tensor does not have."""
    name, labels = mode.name, mode.labels
    if column.null_count:
        raise InputError(f"side: a label of mode {name!r} is missing. Give every row of the table its label.")
    keys = column.to_pylist()
    if len(set(keys)) < len(keys):
        raise InputError(f"side: the table lists a label of mode {name!r} twice. Keep one row per label.")
    known = range(size) if labels is None else labels.tolist()
    places = {label: index for index, label in enumerate(known)}
    found = np.array([places.get(key, -1) for key in keys], dtype=np.int64)
    if not (found >= 0).any():
        raise InputError(
            f"side: the table has no label that mode {name!r} of the tensor has. Give labels of the same kind, "
            "or indices from 0 where the mode has no labels."
        )
    return found


def _encode(column: pa.ChunkedArray, name: str) -> tuple[list[Array], bool]:
    """Return the numbers that a column becomes, and whether it held numbers."""
    import pyarrow.types as kinds

    kind = column.type
    if kinds.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind):
        numbers = np.array([np.nan if v is None else float(v) for v in column.to_pylist()])
        return [numbers], not kinds.is_boolean(kind)
    values = column.to_pylist()
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return _elements([None if v is None else [str(e) for e in v] for v in values]), False
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        if any(v is not None and _SEPARATOR in v for v in values):
            return _elements([None if v is None else v.split(_SEPARATOR) for v in values]), False
        if len({v for v in values if v is not None}) <= _CATEGORIES:
            return _elements([None if v is None else [v] for v in values]), False
        return _hashed(values), False
    raise InputError(f"side: column {name!r} must hold numbers, yes/no, texts or lists of texts. Convert it.")


def _elements(sets: list[list[str] | None]) -> list[Array]:
    """Return a column per element that occurs."""
    seen = sorted({element for each in sets if each is not None for element in each})
    return [np.array([np.nan if s is None else float(element in s) for s in sets]) for element in seen]


def _hashed(texts: list[str | None]) -> list[Array]:
    """Return columns that count words, some of them together: which ones is the same on every machine."""
    out = np.zeros((len(texts), _BUCKETS))
    for row, text in enumerate(texts):
        if text is None:
            out[row] = np.nan
            continue
        for word in text.lower().split():
            out[row, zlib.crc32(word.encode()) % _BUCKETS] += 1.0
    return list(out.T)
