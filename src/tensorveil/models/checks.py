"""Checks that a model passes once, at construction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.tensor.checks import MAX_ORDER, MIN_ORDER

Floats = NDArray[Any]


def float_arrays(arrays: dict[str, Any]) -> dict[str, Floats]:
    """Return all arrays as finite, contiguous, read-only arrays of one floating type."""
    given = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in given.items():
        if array.dtype.kind not in "fiu":
            raise InputError(f"{name} must be an array of real numbers; got dtype {array.dtype}.")
    common = np.result_type(*given.values(), np.float32)
    dtype = np.dtype(np.float32) if common == np.float32 else np.dtype(np.float64)
    return {name: _freeze(name, np.ascontiguousarray(array, dtype=dtype)) for name, array in given.items()}


def _freeze(name: str, array: Floats) -> Floats:
    if not np.isfinite(array).all():
        raise InputError(
            f"{name} must be finite; got NaN or infinity. The fit may have diverged: "
            "try a smaller learning_rate or a larger regularization."
        )
    view = array.view()
    view.flags.writeable = False
    return view


def check_order(factors: Sequence[Any]) -> None:
    """Refuse models of fewer than 2 or more than 8 modes."""
    if not MIN_ORDER <= len(factors) <= MAX_ORDER:
        raise InputError(
            f"factors must hold one matrix per mode, {MIN_ORDER} to {MAX_ORDER} of them; got {len(factors)}."
        )


def check_matrices(factors: Sequence[Floats]) -> None:
    """Refuse factors that are not matrices with at least one row and one column."""
    for mode, factor in enumerate(factors):
        if factor.ndim != 2 or 0 in factor.shape:
            raise InputError(f"factors[{mode}] must be a non-empty matrix (size, rank); got {factor.ndim} axes.")


def check_biases(biases: Sequence[Floats] | None, shape: Sequence[int]) -> None:
    """Refuse biases that do not give one number per index of every mode."""
    if biases is None:
        return
    if [bias.shape for bias in biases] != [(size,) for size in shape]:
        raise InputError("biases must hold one vector per mode, as long as the mode's factor has rows.")


def as_offset(offset: float) -> float:
    """Return the offset as a finite float."""
    value = float(offset)
    if not math.isfinite(value):
        raise InputError("offset must be finite; got NaN or infinity.")
    return value


def check_remainder(remainder: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Floats:
    """Return what is added cell by cell as a finite, read-only array of the model's shape and type."""
    array = np.ascontiguousarray(remainder, dtype=dtype)
    if array.shape != shape:
        raise InputError("remainder must have the shape of the model: one number per cell.")
    return _freeze("remainder", array)
