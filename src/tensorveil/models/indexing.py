"""From what a user writes (names, labels, indices) to positions in the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor import Mode, ObservedTensor
from tensorveil.tensor.bins import MOMENTS, NO_MOMENTS, bin_column, bin_items, name_width
from tensorveil.tensor.cursors import is_cursor
from tensorveil.tensor.frames import as_table
from tensorveil.tensor.given import frame_of_levels, is_frame
from tensorveil.tensor.labels import encode_known, to_arrow_labels
from tensorveil.tensor.modes import find_axis, is_near, near

if TYPE_CHECKING:
    import pyarrow as pa

Columns = NDArray[np.int32]

_FRAMES = "Labels come in a frame with a column for every mode, such as frame[['user', 'film']]."


def check_columns(coords: Any, shape: Sequence[int]) -> Columns:
    """Turn (n, order) integer coordinates into checked (order, n) columns."""
    array = np.asarray(coords)
    if array.ndim != 2 or array.shape[1] != len(shape):
        raise InputError(
            f"coords must have shape (n, {len(shape)}), one column per mode; for one cell write [[i, j, k]]. {_FRAMES}"
        )
    if array.dtype.kind not in "iu":
        if array.size:
            raise InputError(f"coords must be integers; got dtype {array.dtype}. {_FRAMES}")
        array = array.astype(np.int32)
    for m, size in enumerate(shape):
        column = array[:, m]
        if len(column) and (column.min() < 0 or column.max() >= size):
            raise _outside(m)
    return np.ascontiguousarray(array.T, dtype=np.int32)


def _outside(m: int) -> InputError:
    return InputError(
        f"coords must lie inside the model's shape; column {m} does not. Declare the whole shape before fitting, e.g. "
        "CP(rank=8, shape=(943, 1682)); for new rows see fold_in."
    )


def check_numbering(own: Sequence[Mode], known: Sequence[Mode]) -> None:
    """Refuse labels that are numbered otherwise than those of a model."""
    for mode, wanted in zip(own, known, strict=False):
        if mode.labels is not None and wanted.labels is not None and not np.array_equal(mode.labels, wanted.labels):
            raise InputError(
                f"labels of mode {mode.name!r} must be those of the model, in its order. Give the store the list that "
                "the model was fitted with."
            )


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
    try:
        return int(label_positions([wanted], mode, size)[0])
    except InputError:
        if mode.bins is not None:
            raise
    raise InputError(f"this label of mode {mode.name!r} the model has not seen. Check how it is written.")


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
            raise (_unseen(mode) if mode.bins is None else no_bin(mode, wanted)) from error
    if wanted.dtype.kind not in "iu":
        raise InputError(f"mode {mode.name!r} has no labels: give integer indices.")
    if wanted.min() < 0 or wanted.max() >= size:
        raise InputError(f"indices of mode {mode.name!r} must lie inside the model's shape.")
    return wanted.astype(np.int32)


def find_places(given: Any, modes: tuple[Mode, ...], shape: tuple[int, ...]) -> Columns:
    """Turn a frame of labels, or (n, order) integer coordinates, into checked (order, n) columns.

    A pandas index of several levels, or a series with one, is as good as a frame.
    """
    if isinstance(given, ObservedTensor):
        return like_model(given, modes, shape).columns
    if is_cursor(given):
        given = as_table(given)
    elif (frame := frame_of_levels(given)) is not None:
        given = frame
    return _find_in_frame(given, modes, shape) if is_frame(given) else check_columns(given, shape)


def like_model(tensor: ObservedTensor, modes: tuple[Mode, ...], shape: tuple[int, ...]) -> ObservedTensor:
    """Return a tensor's entries in the indices of a model: by label where both have some, else as they are.

    A tensor that was read by itself has numbered its labels by itself.
    """
    if tensor.order != len(shape):
        raise InputError(f"the tensor must have {len(shape)} modes like the model; got {tensor.order}.")
    names, known_names = [mode.name for mode in tensor.modes], [mode.name for mode in modes]
    if names != known_names and sorted(names) == sorted(known_names):
        raise InputError(f"the tensor must have its modes in the order of the model, {', '.join(known_names)}.")
    columns: dict[int, NDArray[np.int32]] = {}
    for m, (own, known) in enumerate(zip(tensor.modes, modes, strict=True)):
        if own.labels is not None and known.labels is not None and not np.array_equal(own.labels, known.labels):
            used, inverse = np.unique(tensor.columns[m], return_inverse=True)  # labels that do not occur may be unknown
            columns[m] = label_positions(own.labels[used], known, shape[m])[inverse]
        elif tensor.shape[m] > shape[m] and tensor.columns[m].max(initial=0) >= shape[m]:
            raise _outside(m)
    if not columns:
        return tensor
    packed = np.stack([columns.get(m, tensor.columns[m]) for m in range(len(shape))])
    found = ObservedTensor.from_columns(packed, tensor.values, shape, tensor.bounds, modes, duplicates="keep")
    return found.with_origin(tensor.origin)


def find_columns(labels: Any, modes: tuple[Mode, ...], shape: Sequence[int]) -> Columns:
    """Turn a frame, a mapping or one sequence per mode into checked (order, n) columns."""
    if is_frame(labels) or frame_of_levels(labels) is not None:
        return find_places(labels, modes, tuple(shape))
    per_mode = [label_positions(column, modes[m], shape[m]) for m, column in enumerate(_by_mode(labels, modes))]
    if len({len(column) for column in per_mode}) > 1:
        raise InputError("labels must have the same length in every mode.")
    return np.ascontiguousarray(np.stack(per_mode))


def _find_in_frame(frame: Any, modes: tuple[Mode, ...], shape: Sequence[int]) -> Columns:
    """Find the cells of a frame: by the names of its columns or, where no mode has labels, by their order."""
    table = as_table(frame)
    names = [mode.name for mode in modes]
    missing = [name for name in names if name not in table.column_names]
    only = [mode.name for mode, size in zip(modes, shape, strict=True) if size == 1 and mode.name in missing]
    if len(only) == 1 and only == missing and not is_near(only[0], table.column_names):
        table = table.append_column(only[0], _only_label(modes[names.index(only[0])], table.num_rows))
    elif missing:
        if table.num_columns != len(modes) or any(mode.labels is not None for mode in modes):
            raise missing_columns("labels", missing, table.column_names)
        names = table.column_names
    found = np.empty((len(modes), table.num_rows), np.int32)
    for axis, mode in enumerate(modes):
        column = table.column(names[axis])
        if not table.num_rows:
            continue
        if mode.labels is None:
            found[axis] = label_positions(column.to_numpy(), mode, shape[axis])
            continue
        if mode.bins is not None:
            column = bin_column(column, mode.bins)
            if column.null_count:
                raise no_bin(mode)
        if column.null_count or not encode_known(column, mode.labels, found[axis]):
            raise _unseen(mode) if mode.bins is None else no_bin(mode, column.to_numpy())
    return found


def _only_label(mode: Mode, rows: int) -> pa.ChunkedArray:
    """Return a column of the only label, or index, of a mode that has one: which need not be said."""
    import pyarrow as pa

    label = pa.array([0], pa.int64()) if mode.labels is None else to_arrow_labels(mode.labels)
    return pa.chunked_array([label.take(pa.array(np.zeros(rows, np.int64)))])


def missing_columns(what: str, missing: Sequence[str], known: Iterable[Any]) -> InputError:
    """Return the error for modes that have no column, with columns that are spelt alike."""
    remedies = {near(name, [str(each) for each in known]) for name in missing}
    return InputError(f"{what} must have a column for every mode; missing {missing}. {' '.join(sorted(remedies))}")


def _unseen(mode: Mode) -> InputError:
    return InputError(
        f"labels of mode {mode.name!r} include some that the model has not seen. Drop those rows, or add them to the "
        "model with fold_in. Where parts of one frame are fitted, as in cross-validation, make the column categorical: "
        "all its categories have a place in the model."
    )


def no_bin(mode: Mode, moments: Any = None) -> InputError:
    """Return the error for what is in none of a mode's bins: moments outside them, or what is no moment at all."""
    assert mode.bins is not None
    assert mode.labels is not None
    if moments is None or np.isnat(bin_items(np.asarray(moments), mode.bins)).any():
        return InputError(
            f"mode {mode.name!r} takes moments, and some are none: {MOMENTS}; {NO_MOMENTS}. Correct those rows."
        )
    first, last = mode.labels.min(), mode.labels.max()
    return InputError(
        f"mode {mode.name!r} has no bin for some of the moments: its bins, of {name_width(mode.bins)}, begin from "
        f"{first} to {last}. Drop those rows, or ask about moments within them."
    )


def _by_mode(labels: Any, modes: Sequence[Mode]) -> list[Any]:
    names = [mode.name for mode in modes]
    if isinstance(labels, Mapping):
        missing = [name for name in names if name not in labels]
        if missing:
            raise missing_columns("labels", missing, labels)
        return [_column(labels[name]) for name in names]
    if len(labels) != len(names):
        raise InputError(f"labels must hold one sequence per mode, in the order {names}; got {len(labels)}.")
    return list(labels)


def _column(column: Any) -> Any:
    return column.to_numpy() if hasattr(column, "to_numpy") else column
