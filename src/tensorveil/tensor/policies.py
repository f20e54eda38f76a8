"""What becomes of entries that break a rule, by the policy that was asked for when a tensor is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.tensor import checks
from tensorveil.tensor.checks import FloatArray, IntArray, OutOfBounds, Unlisted
from tensorveil.tensor.modes import Mode
from tensorveil.tensor.origin import Origin


def shape_from_labels(modes: Sequence[str | Mode], columns: IntArray) -> tuple[int, ...] | None:
    """Return the shape that labels, or else the largest indices, imply."""
    if len(modes) != len(columns):
        return None
    sizes = columns.max(axis=1) + 1
    return tuple(
        len(mode.labels) if isinstance(mode, Mode) and mode.labels is not None else int(size)
        for mode, size in zip(modes, sizes, strict=True)
    )


def keep_within(
    columns: Sequence[NDArray[Any]] | NDArray[Any], values: ArrayLike, shape: Sequence[int] | None
) -> tuple[IntArray, FloatArray]:
    """Return the entries whose coordinates lie within the shape."""
    numbers = checks.as_values(values, len(columns[0]) if len(columns) else None)
    packed, kept = checks.keep_rows_within(columns, shape)
    return packed, numbers[kept]


def bring_infinities_back(values: FloatArray) -> FloatArray:
    """Return values with infinities at the ends of the finite numbers, so that they can be merged and clipped."""
    largest = np.finfo(values.dtype).max
    with np.errstate(invalid="ignore"):
        beyond = len(values) and (values.max() > largest or values.min() < -largest)
    return np.clip(values, -largest, largest) if beyond else values


def keep_entries(
    columns: IntArray, values: FloatArray, mask: NDArray[np.bool_], *, may_be_empty: bool = False
) -> tuple[IntArray, FloatArray]:
    """Return the entries that a policy keeps; at least one must remain, unless none is allowed to."""
    if mask.all():
        return columns, values
    if not mask.any() and not may_be_empty:
        raise InputError("values must keep at least one entry; the 'drop' policy leaves none.")
    return np.ascontiguousarray(columns[:, mask]), values[mask]


def apply_bounds(
    columns: IntArray,
    values: FloatArray,
    bounds: tuple[float, float] | None,
    policy: OutOfBounds,
    *,
    may_be_empty: bool = False,
) -> tuple[IntArray, FloatArray]:
    """Settle values outside the bounds by the policy."""
    if bounds is None or checks.lie_inside(values, bounds):
        return columns, values
    if policy == "clip":
        return columns, np.clip(values, *bounds)
    if policy == "drop":
        return keep_entries(columns, values, (values >= bounds[0]) & (values <= bounds[1]), may_be_empty=may_be_empty)
    remedy = "Widen the bounds, or pass out_of_bounds='clip' or 'drop'."
    checks.check_inside(values, bounds, remedy)
    return columns, values


def declare_unlisted(origin: Origin, unlisted: Unlisted) -> Origin:
    """Return an origin that says what cells without an entry hold."""
    checks.check_choice("unlisted", unlisted, Unlisted)
    return replace(origin, unlisted=unlisted)


def check_positions(index: NDArray[Any], n_entries: int) -> None:
    """Refuse all but a mask, or positions that are whole, in range and different: repeats would duplicate entries."""
    if index.ndim != 1:
        raise InputError("index must be a flat mask or a flat array of positions.")
    if index.dtype == bool:
        if len(index) != n_entries:
            raise InputError("index, as a mask, must have one item per entry of the tensor.")
        return
    if index.size and index.dtype.kind not in "iu":
        raise InputError("index must be a boolean mask or integer positions.")
    if not index.size:
        return
    if index.min() < -n_entries or index.max() >= n_entries:
        raise InputError("index must lie within the entries of the tensor.")
    seen = np.zeros(n_entries, bool)
    seen[index] = True
    if np.count_nonzero(seen) != len(index):
        raise InputError("index must not repeat a position: coordinates would be duplicated.")
