"""Predictions of a whole model: offset + biases + multilinear part, through the link, clipped to the bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError, MemoryLimitError
from tensorveil.models.contract import Floats, Multilinear
from tensorveil.models.indexing import index_positions

GIBIBYTE = 1 << 30


def predict_columns(
    model: Multilinear, columns: NDArray[np.int32], *, clip: bool = True, threads: int | None = None
) -> Floats:
    """Predict at checked (order, n) coordinate columns."""
    values = np.asarray(model.multilinear(columns, threads))
    values += baseline_at(model, columns)
    return clip_values(model.link.mean(values), model.bounds if clip else None)


def predict_intervals(
    model: Multilinear, columns: NDArray[np.int32], coverage: float, *, threads: int | None = None
) -> tuple[Floats, Floats, Floats]:
    """Predict at checked columns, with the interval within bounds in which this share of values is expected."""
    if model.errors is None:
        raise InputError(
            'interval: this model does not know its errors. Private models of unit "value" do, as they are fitted; '
            "with another model, leave interval out."
        )
    values = predict_columns(model, columns, threads=threads)
    low, high = (clip_values(bound, model.bounds) for bound in model.errors.interval(values, coverage))
    return values, low, high


def baseline_at(model: Multilinear, columns: NDArray[np.int32], *, without: int | None = None) -> Any:
    """Return offset, biases and remainder at each coordinate.

    Without a mode, its bias and the remainder are left out: its rows may be new.
    """
    total: Any = model.dtype.type(model.offset)
    for m, bias in enumerate(model.biases or ()):
        if m != without:
            total = total + bias[columns[m]]
    if model.remainder is not None and without is None:
        total = total + model.remainder[tuple(columns)]
    return total


def clip_values(values: Floats, bounds: tuple[float, float] | None) -> Floats:
    """Clip in place when bounds are declared."""
    return values if bounds is None else np.clip(values, *bounds, out=values)


def predict_slice(model: Multilinear, given: Mapping[Any, Any], *, clip: bool, max_bytes: int) -> Floats:
    """Predict every cell that agrees with the given indices, over the remaining modes."""
    fixed = index_positions(given, model.modes, model.shape, "given")
    if len(fixed) == len(model.shape):
        raise InputError("given fixes every mode, which leaves one cell. Use predict for single cells.")
    free = [m for m in range(len(model.shape)) if m not in fixed]
    check_memory([model.shape[m] for m in free], model.dtype, max_bytes)
    picks = [slice(fixed[m], fixed[m] + 1) if m in fixed else slice(None) for m in range(len(model.shape))]
    cells = model.grid([factor[pick] for factor, pick in zip(model.factors, picks, strict=True)])
    cells += model.dtype.type(model.offset)
    for m, bias in enumerate(model.biases or ()):
        cells += bias[picks[m]].reshape([-1 if axis == m else 1 for axis in range(len(model.shape))])
    if model.remainder is not None:
        cells = cells + model.remainder[tuple(picks)]
    cells = model.link.mean(cells.reshape([model.shape[m] for m in free]))
    return clip_values(cells, model.bounds if clip else None)


def pick_rows(columns: NDArray[np.int32], factors: Sequence[Floats]) -> tuple[NDArray[np.int32], Sequence[Floats]]:
    """Return columns and factors for the prediction kernels: only the rows in use, where these are few.

    The kernels copy the factors, and a few predictions from a large model should not cost a copy of the model.
    """
    n = columns.shape[1]
    if n * len(factors) >= sum(len(factor) for factor in factors):
        return np.ascontiguousarray(columns), factors
    rows = [factor[column] for factor, column in zip(factors, columns, strict=True)]
    return np.tile(np.arange(n, dtype=np.int32), (len(factors), 1)), rows


def check_memory(shape: list[int], dtype: np.dtype[Any], max_bytes: int) -> None:
    """Refuse to build an array larger than the caller allows."""
    if math.prod(shape) * dtype.itemsize > max_bytes:
        raise MemoryLimitError(
            f"the dense array would need more than max_bytes={max_bytes}. "
            "Raise max_bytes, take one slice at a time with slice(...), or predict(coords) where needed."
        )
