"""The rules that an observed tensor obeys, checked once, when it is built.

No message here quotes the data: it says which rule is broken and which policy would settle it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError

MIN_ORDER, MAX_ORDER = 2, 8
MAX_SIZE = 2**31 - 1

Duplicates = Literal["error", "mean", "sum", "first", "last", "keep"]
Missing = Literal["error", "drop"]
OutOfBounds = Literal["error", "clip", "drop"]
OutOfRange = Literal["error", "drop"]
Unlisted = Literal["unknown", "zero"]
FloatArray = NDArray[Any]
IntArray = NDArray[np.int32]


def check_choice(name: str, value: object, choices: Any) -> None:
    """Refuse a word that is not among the choices."""
    words = get_args(choices)
    if value not in words:
        raise InputError(f"{name} must be one of {', '.join(map(repr, words))}; got {value!r}.")


def is_text(given: object) -> bool:
    """Tell whether something is a text, which has letters where others have items."""
    return isinstance(given, str | bytes)


def is_number(text: str) -> bool:
    """Tell whether a text, such as a name, is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_order(order: int, what: str) -> None:
    """Refuse tensors of fewer than two or more than eight modes."""
    if not MIN_ORDER <= order <= MAX_ORDER:
        raise InputError(
            f"{what} must have {MIN_ORDER} to {MAX_ORDER} modes; got {order}. "
            "Give one index column per mode, two to eight of them."
        )


def split_columns(coords: Any) -> list[NDArray[Any]]:
    """Return coordinates (n, order), or a tuple of 1-D columns, as a list of columns."""
    if isinstance(coords, tuple) and coords and all(isinstance(column, np.ndarray) for column in coords):
        return list(coords)
    try:
        array = np.asarray(coords)
    except ValueError:
        array = np.empty(0, object)
    if array.ndim == 1 and array.size == 0 and array.dtype.kind != "O":
        raise InputError("coords must hold at least one entry; got an empty input. Check the source.")
    if array.ndim != 2:
        raise InputError("coords must be 2-D, one row per entry and one column per mode.")
    return list(shorten_integers(array).T)


def shorten_integers(array: NDArray[Any]) -> NDArray[Any]:
    """Return floats for Python's numbers where one is a whole number of more than 64 bits, all others as they are.

    Such a number is one like any other, to be clipped or left out by itself, and no reason to refuse the others.
    """
    kinds = int | float | np.integer | np.floating
    if array.dtype.kind != "O" or not all(isinstance(item, kinds) for item in array.flat):
        return array
    numbers = np.empty(array.shape)
    for place, item in enumerate(array.flat):
        try:
            numbers.flat[place] = float(item)
        except OverflowError:
            numbers.flat[place] = np.inf if item > 0 else -np.inf
    return numbers


def as_columns(coords: Any) -> IntArray:
    """Return coordinates as a new int32 C-contiguous (order, n) array."""
    return pack_columns(split_columns(coords))


def pack_columns(columns: Sequence[NDArray[Any]] | NDArray[Any]) -> IntArray:
    """Return columns of indices as one int32 (order, n) array; without a copy if they already are one."""
    _check_columns(columns)
    if len(columns[0]) == 0:
        raise InputError("coords must hold at least one entry; got an empty input. Check the source.")
    if isinstance(columns, np.ndarray) and columns.dtype == np.int32 and columns.flags.c_contiguous:
        for axis in range(len(columns)):
            _check_range(columns[axis], axis)
        return columns
    packed = np.empty((len(columns), len(columns[0])), np.int32)
    for axis, column in enumerate(columns):
        packed[axis] = whole_numbers(np.asarray(column), axis)
    return packed


def whole_numbers(column: NDArray[Any], axis: int) -> NDArray[Any]:
    """Check that a column holds non-negative whole numbers that fit int32."""
    if column.dtype.kind == "f":
        # Text formats and MATLAB hand indices over as floats: exact ones lose nothing.
        if not (np.isfinite(column).all() and (np.trunc(column) == column).all()):
            raise InputError(
                f"coords of mode {axis} must be integers; got fractional or missing numbers. "
                "Give 0-based indices, or read them as labels."
            )
    elif column.dtype.kind not in "iu":
        raise InputError(
            f"coords of mode {axis} must be integers; got {_kind(column)}. "
            "Encode labels first, e.g. with ObservedTensor.from_frame."
        )
    _check_range(column, axis)
    return column


def keep_rows_within(
    columns: Sequence[NDArray[Any]] | NDArray[Any], shape: Sequence[int] | None
) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the rows whose indices are whole numbers within the shape, packed, and which rows these are.

    What becomes of a row depends on this row alone, and nothing is told.
    """
    if shape is None:
        raise InputError("shape must be declared with out_of_range='drop'. Try shape=(943, 1682).")
    sizes = check_shape(shape)
    _check_columns(columns)
    if len(sizes) != len(columns):
        raise InputError(f"shape must have one size per mode; got {len(sizes)} sizes for {len(columns)} modes.")
    kept = np.ones(len(columns[0]), bool)
    for axis, (column, size) in enumerate(zip(columns, sizes, strict=True)):
        if np.asarray(column).dtype.kind not in "iufb":
            raise InputError(f"coords of mode {axis} must be numbers; got {_kind(np.asarray(column))}.")
        # Comparisons are false for NaN.
        kept &= (column >= 0) & (column < size)
        if column.dtype.kind == "f":
            kept &= np.trunc(column) == column
    packed = np.empty((len(columns), int(np.count_nonzero(kept))), np.int32)
    for axis, column in enumerate(columns):
        packed[axis] = np.asarray(column)[kept]
    return packed, kept


def _check_columns(columns: Sequence[NDArray[Any]] | NDArray[Any]) -> None:
    check_order(len(columns), "coords")
    if any(np.ndim(column) != 1 or len(column) != len(columns[0]) for column in columns):
        raise InputError("coords, given as columns, must hold 1-D arrays of one length.")


def _check_range(column: NDArray[Any], axis: int) -> None:
    if column.min() < 0:
        raise InputError(
            f"coords of mode {axis} must not be negative. Indices start at 0; subtract the smallest "
            "index, or read the column as labels."
        )
    if column.max() >= MAX_SIZE:
        raise InputError(
            f"coords of mode {axis} must be below {MAX_SIZE}. Large ids are labels: read the column as "
            "labels, e.g. with ObservedTensor.from_frame."
        )


def _kind(array: NDArray[Any]) -> str:
    return {"b": "booleans", "c": "complex numbers", "M": "dates", "m": "durations"}.get(
        array.dtype.kind, "text or objects"
    )


def as_shape(shape: Sequence[int] | None, columns: IntArray) -> tuple[int, ...]:
    """Return the declared shape, checked against the indices, or the smallest shape that holds them."""
    if shape is None:
        return tuple(int(top) + 1 for top in columns.max(axis=1))
    sizes = check_shape(shape)
    if len(sizes) != len(columns):
        raise InputError(f"shape must have one size per mode; got {len(sizes)} sizes for {len(columns)} modes.")
    for axis, (size, top) in enumerate(zip(sizes, columns.max(axis=1, initial=-1), strict=True)):
        if top >= size:
            raise InputError(
                f"coords of mode {axis} must be below its size in shape, {size}. Indices start at 0; "
                "enlarge shape or correct the indices."
            )
    return sizes


def check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape as plain integers, each from 1 to 2**31 - 1."""
    try:
        sizes = tuple(int(size) for size in shape)
        whole = all(size == given for size, given in zip(sizes, shape, strict=True))
    except (TypeError, ValueError):
        whole = False
    if not whole or any(not 1 <= size <= MAX_SIZE for size in sizes):
        raise InputError(f"shape must hold integers from 1 to {MAX_SIZE}. Try shape=(100, 50, 12).")
    check_order(len(sizes), "shape")
    return sizes


def as_values(values: ArrayLike, n_entries: int | None = None) -> FloatArray:
    """Return values as a 1-D float array: float32 stays, every other number becomes float64."""
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.empty(0, object)
    array = shorten_integers(array)
    if array.dtype.kind not in "iufb":
        raise InputError(f"values must be numbers; got {_kind(array)}. Convert the values to floats.")
    if array.ndim != 1:
        raise InputError("values must be 1-D, one number per entry.")
    if n_entries is not None and len(array) != n_entries:
        raise InputError("values must have one number per row of coords; the lengths differ.")
    if array.dtype == np.float32:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array, dtype=np.float64)


def check_finite(values: FloatArray) -> None:
    """Refuse NaN and infinities; min and max need no temporary array and NaN shows in both."""
    if not len(values):
        return
    low, high = values.min(), values.max()
    if np.isnan(low):
        raise InputError(
            "values must not contain NaN. Remove missing entries, or pass missing='drop' to leave them out."
        ).of("no value")
    if np.isinf(low) or np.isinf(high):
        raise InputError("values must not contain infinities. Remove or replace those entries.").of("infinite")


def as_bounds(bounds: Sequence[float] | None) -> tuple[float, float] | None:
    """Return bounds as (low, high), both finite and low below high."""
    if bounds is None:
        return None
    try:
        low, high = (float(bound) for bound in (() if is_text(bounds) else bounds))
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite(low) and np.isfinite(high)):
        raise InputError("bounds must be two finite numbers (low, high). Try bounds=(1, 5).")
    if low >= high:
        raise InputError(
            f"bounds must have the lower one first and below the upper; got ({low:g}, {high:g}). "
            f"Try bounds=({min(low, high):g}, {max(low, high) + (low == high):g})."
        )
    return low, high


def lie_inside(values: FloatArray, bounds: tuple[float, float] | None) -> bool:
    """Return whether every value lies within the bounds."""
    if bounds is None or not len(values):
        return True
    return bool(values.min() >= bounds[0] and values.max() <= bounds[1])


def check_inside(values: FloatArray, bounds: tuple[float, float] | None, remedy: str) -> None:
    """Refuse values outside the bounds."""
    if not lie_inside(values, bounds):
        assert bounds is not None
        message = f"values must lie within bounds ({bounds[0]:g}, {bounds[1]:g}). {remedy}"
        raise InputError(message).of("outside", bounds)
