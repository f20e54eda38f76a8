"""From a table of features per index of a mode to numbers: one row per index, columns of mean zero.

Numbers become one column; yes/no likewise; categories one column per value; sets, which are lists or texts joined by
"|", one column per element; other texts with more values than categories may have are hashed word by word. What is
missing counts as the mean. Columns are scaled to a mean square of one.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.solvers.priors.row_prior import PriorFactory
from tensorveil.solvers.priors.side import Side
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.frames import as_table

if TYPE_CHECKING:
    import pyarrow as pa

Array = NDArray[Any]

# More values than these are no categories; words of texts are hashed into so many columns.
_CATEGORIES: Final = 64
_BUCKETS: Final = 64
_SEPARATOR = "|"


def read_side(side: Any, tensor: ObservedTensor) -> dict[int, PriorFactory]:
    """Check tables of features against a tensor; return a prior per mode that has one."""
    if side is None:
        return {}
    if not isinstance(side, Mapping):
        raise InputError('side must map modes to tables of features. Try side={"film": films}.')
    priors: dict[int, PriorFactory] = {}
    for key, frame in side.items():
        mode = tensor.axis(key)
        if mode in priors:
            raise InputError("side names a mode twice. Name it once.")
        priors[mode] = partial(Side.start, features=read_features(frame, tensor, mode))
    return priors


def read_features(frame: Any, tensor: ObservedTensor, mode: int) -> Array:
    """Return the features of a mode's indices (size, features), from a table with a column named as the mode."""
    table, name, size = as_table(frame), tensor.modes[mode].name, tensor.shape[mode]
    if name not in table.column_names:
        raise InputError(f"side: the table of mode {name!r} must have a column of this name, which holds its labels.")
    rows = _find_rows(table.column(name), tensor, mode)
    columns = [column for each in table.column_names if each != name for column in _encode(table.column(each), each)]
    if not columns:
        raise InputError(f"side: the table of mode {name!r} has no column of features. Leave it out.")
    given = np.stack(columns, axis=1)
    features = np.full((size, given.shape[1]), np.nan)
    features[rows[rows >= 0]] = given[rows >= 0]
    known = np.isfinite(features)
    means = np.sum(np.where(known, features, 0.0), axis=0) / np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, features - means, 0.0)
    spread = np.sqrt(np.mean(centred**2, axis=0))
    told = spread > 1e-9 * (1 + np.abs(means))
    if not told.any():
        raise InputError(
            f"side: no feature of mode {name!r} differs between its indices, or all are missing. Leave the table out."
        )
    return np.ascontiguousarray(centred[:, told] / spread[told])


def _find_rows(column: pa.ChunkedArray, tensor: ObservedTensor, mode: int) -> Array:
    """Return the index of every row of the table; -1 for labels that the tensor does not have."""
    name, labels = tensor.modes[mode].name, tensor.modes[mode].labels
    if column.null_count:
        raise InputError(f"side: a label of mode {name!r} is missing. Give every row of the table its label.")
    keys = column.to_pylist()
    if len(set(keys)) < len(keys):
        raise InputError(f"side: the table lists a label of mode {name!r} twice. Keep one row per label.")
    known = range(tensor.shape[mode]) if labels is None else labels.tolist()
    places = {label: index for index, label in enumerate(known)}
    found = np.array([places.get(key, -1) for key in keys], dtype=np.int64)
    if not (found >= 0).any():
        raise InputError(
            f"side: the table has no label that mode {name!r} of the tensor has. Give labels of the same kind, "
            "or indices from 0 where the mode has no labels."
        )
    return found


def _encode(column: pa.ChunkedArray, name: str) -> list[Array]:
    """Return the numbers that a column becomes."""
    import pyarrow.types as kinds

    kind = column.type
    if kinds.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind):
        return [np.array([np.nan if v is None else float(v) for v in column.to_pylist()])]
    values = column.to_pylist()
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return _elements([None if v is None else [str(e) for e in v] for v in values])
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        if any(v is not None and _SEPARATOR in v for v in values):
            return _elements([None if v is None else v.split(_SEPARATOR) for v in values])
        if len({v for v in values if v is not None}) <= _CATEGORIES:
            return _elements([None if v is None else [v] for v in values])
        return _hashed(values)
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
