"""From what a user writes (names, labels, indices) to positions in the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor import Mode
from tensorveil.tensor.frames import as_table
from tensorveil.tensor.given import is_frame
from tensorveil.tensor.labels import encode_known
from tensorveil.tensor.modes import find_axis

Columns = NDArray[np.int32]


def check_columns(coords: Any, shape: Sequence[int]) -> Columns:
    """Turn (n, order) integer coordinates into checked (order, n) columns."""
    array = np.asarray(coords)
    if array.ndim != 2 or array.shape[1] != len(shape):
        raise InputError(
            f"coords must have shape (n, {len(shape)}), one column per mode. For one cell write [[i, j, k]]."
        )
    if array.dtype.kind not in "iu":
        if array.size:
            raise InputError(f"coords must be integers; got dtype {array.dtype}.")
        array = array.astype(np.int32)
    for m, size in enumerate(shape):
        column = array[:, m]
        if len(column) and (column.min() < 0 or column.max() >= size):
            raise InputError(
                f"coords must lie inside the model's shape; column {m} does not. Declare the whole shape before "
                "fitting, e.g. CP(rank=8, shape=(943, 1682)); for new rows see fold_in."
            )
    return np.ascontiguousarray(array.T, dtype=np.int32)


def index_positions(
    given: Mapping[Any, Any], modes: tuple[Mode, ...], shape: Sequence[int], parameter: str
) -> dict[int, int]:
    """Resolve {mode: index or label} into {mode position: index}."""
    if not isinstance(given, Mapping):
        raise InputError(f"{parameter} must be a mapping {{mode: index or label}}.")
    fixed: dict[int, int] = {}
    for mode, wanted in given.items():
        position = find_axis(modes, mode)
        if position in fixed:
            raise InputError(f"{parameter} names mode {modes[position].name!r} twice.")
        fixed[position] = _one_index(wanted, modes[position], shape[position])
    return fixed


def _one_index(wanted: Any, mode: Mode, size: int) -> int:
    """Read one value as a label where it can be one, else as an index."""
    is_integer = isinstance(wanted, int | np.integer) and not isinstance(wanted, bool)
    # Where labels are text an integer cannot be a label, so it is an index.
    if mode.labels is None or (is_integer and mode.labels.dtype.kind == "T"):
        if not is_integer:
            raise InputError(f"mode {mode.name!r} needs an integer index here.")
        if not 0 <= wanted < size:
            raise InputError(f"index of mode {mode.name!r} must lie from 0 to its size less one.")
        return int(wanted)
    return int(label_positions([wanted], mode, size)[0])


def label_positions(labels: Any, mode: Mode, size: int) -> NDArray[np.int32]:
    """Find the index of each label; in a mode without labels the labels are the indices."""
    wanted = np.asarray(labels)
    if wanted.ndim != 1:
        raise InputError(f"labels of mode {mode.name!r} must be a flat sequence.")
    if not len(wanted):
        return np.zeros(0, dtype=np.int32)
    if mode.labels is not None:
        try:
            return mode.encode(wanted)
        except InputError as error:
            raise _unseen(mode) from error
    if wanted.dtype.kind not in "iu":
        raise InputError(f"mode {mode.name!r} has no labels: give integer indices.")
    if wanted.min() < 0 or wanted.max() >= size:
        raise InputError(f"indices of mode {mode.name!r} must lie inside the model's shape.")
    return wanted.astype(np.int32)


def find_places(given: Any, modes: tuple[Mode, ...], shape: tuple[int, ...]) -> Columns:
    """Turn a frame of labels, or (n, order) integer coordinates, into checked (order, n) columns."""
    return _find_in_frame(given, modes, shape) if is_frame(given) else check_columns(given, shape)


def find_columns(labels: Any, modes: tuple[Mode, ...], shape: Sequence[int]) -> Columns:
    """Turn a frame, a mapping or one sequence per mode into checked (order, n) columns."""
    if is_frame(labels):
        return _find_in_frame(labels, modes, shape)
    per_mode = [label_positions(column, modes[m], shape[m]) for m, column in enumerate(_by_mode(labels, modes))]
    if len({len(column) for column in per_mode}) > 1:
        raise InputError("labels must have the same length in every mode.")
    return np.ascontiguousarray(np.stack(per_mode))


def _find_in_frame(frame: Any, modes: tuple[Mode, ...], shape: Sequence[int]) -> Columns:
    """Find the cells of a frame: by the names of its columns or, where no mode has labels, by their order."""
    table = as_table(frame)
    names = [mode.name for mode in modes]
    missing = [name for name in names if name not in table.column_names]
    if missing:
        if table.num_columns != len(modes) or any(mode.labels is not None for mode in modes):
            raise InputError(f"labels must have a column for every mode; missing {missing}.")
        names = table.column_names
    found = np.empty((len(modes), table.num_rows), np.int32)
    for axis, mode in enumerate(modes):
        column = table.column(names[axis])
        if not table.num_rows:
            continue
        if mode.labels is None:
            found[axis] = label_positions(column.to_numpy(), mode, shape[axis])
        elif column.null_count or not encode_known(column, mode.labels, found[axis]):
            raise _unseen(mode)
    return found


def _unseen(mode: Mode) -> InputError:
    return InputError(
        f"labels of mode {mode.name!r} include some that the model has not seen. Drop those rows, or add them to the "
        "model with fold_in. Where parts of one frame are fitted, as in cross-validation, make the column categorical: "
        "all its categories have a place in the model."
    )


def _by_mode(labels: Any, modes: Sequence[Mode]) -> list[Any]:
    names = [mode.name for mode in modes]
    if isinstance(labels, Mapping):
        missing = [name for name in names if name not in labels]
        if missing:
            raise InputError(f"labels must have a column for every mode; missing {missing}.")
        return [_column(labels[name]) for name in names]
    if len(labels) != len(names):
        raise InputError(f"labels must hold one sequence per mode, in the order {names}; got {len(labels)}.")
    return list(labels)


def _column(column: Any) -> Any:
    return column.to_numpy() if hasattr(column, "to_numpy") else column
