"""Bi-scaling: rows and columns of every slice to mean zero and variance one, from the observed entries alone.

The papers do this to ML-100K, day by day, before anything private happens (000, section 5.2). Every constant is read
off the data, and one value moves a whole row and column: whatever follows has no guarantee for the original values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.completion.settings import number, whole_number
from tensorveil.errors import InputError
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.modes import find_axis

Array = NDArray[Any]

DATA_DEPENDENT = (
    "Bi-scaling is data-dependent: its means and scales are computed from the private values without noise. A "
    "guarantee of what follows does not hold for the original values."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class BiScaled:
    """A standardised tensor and how it came about: x = row_mean + column_mean + row_scale * column_scale * scaled.

    The four tables have one row per index of the row (column) mode and one column per slice; what was not observed has
    mean 0 and scale 1. All of them are computed from the data and private.
    """

    tensor: ObservedTensor
    axes: tuple[int, int, int | None]
    row_mean: Array
    column_mean: Array
    row_scale: Array
    column_scale: Array
    rounds: int
    converged: bool
    warning: str = DATA_DEPENDENT

    def transform(self, tensor: ObservedTensor) -> ObservedTensor:
        """Scale other entries of the same tensor, such as held-out ones, by the same constants."""
        mean, scale = self._constants(tensor.coords)
        return tensor.with_values((tensor.values - mean) / scale, keep_bounds=False)

    def restore(self, coords: Any, scaled: Any) -> Array:
        """Bring scaled values (predictions) at (n, order) coordinates back to the original scale."""
        mean, scale = self._constants(np.asarray(coords))
        out: Array = mean + scale * np.asarray(scaled, dtype=np.float64)
        return out

    def _constants(self, coords: Array) -> tuple[Array, Array]:
        rows, columns, slices = self.axes
        where = coords[:, slices] if slices is not None else np.zeros(len(coords), dtype=np.int64)
        row, column = (coords[:, rows], where), (coords[:, columns], where)
        return self.row_mean[row] + self.column_mean[column], self.row_scale[row] * self.column_scale[column]


def biscale(
    tensor: ObservedTensor,
    *,
    slice_mode: int | str = -1,
    rounds: int = 20,
    tol: float = 1e-9,
    least_scale: float = 1e-6,
) -> BiScaled:
    """Standardise a matrix, or each matrix that ``slice_mode`` cuts out of a tensor of order 3. Data-dependent.

    At most ``rounds`` rounds of: column means, row means, column scales, row scales; it stops when a round moved no
    mean and no scale by more than ``tol`` (in units of the scales). Scales of rows and columns with a single entry in
    their slice stay 1: no scale can give one number mean zero and variance one.

    In thin slices the means alone may explain whole rows, whose scales then run to zero, and held-out entries divided
    by them to infinity. ``least_scale`` stops them: row scales stay above it, column scales above it times the standard
    deviation of all values. The tiny default is the procedure as defined; see docs/published.md for ML-100K.

    >>> import numpy as np
    >>> matrix = ObservedTensor.from_dense(np.random.default_rng(0).normal(3.0, 2.0, (6, 5)))
    >>> scaled = biscale(matrix, rounds=200).tensor.to_dense()
    >>> bool(np.abs(scaled.mean(axis=0)).max() < 1e-6)
    True
    """
    whole_number("rounds", rounds, 1, 20)
    number("tol", tol, at_least=0.0, remedy=1e-9)
    number("least_scale", least_scale, above=0.0, remedy=1e-6)
    axes = _axes(tensor, slice_mode)
    slices = 1 if axes[2] is None else tensor.shape[axes[2]]
    where = np.zeros(tensor.n_entries, dtype=np.int64) if axes[2] is None else tensor.columns[axes[2]].astype(np.int64)
    rows, columns = (
        _Side(index=tensor.columns[axis].astype(np.int64) * slices + where, size=tensor.shape[axis] * slices)
        for axis in axes[:2]
    )
    values = tensor.values.astype(np.float64)
    spread = float(values.std()) or 1.0  # column scales come first and take the units of the values
    done, moved = 0, np.inf
    while done < rounds and moved > tol:
        moved = max(_centre(values, columns, rows), _centre(values, rows, columns))
        moved = max(moved, _stretch(values, columns, rows, least_scale * spread))
        moved = max(moved, _stretch(values, rows, columns, least_scale))
        done += 1
    tables = {
        f"{name}_{what}": getattr(side, what).reshape(-1, slices)
        for name, side in (("row", rows), ("column", columns))
        for what in ("mean", "scale")
    }
    scaled = tensor.with_values(_residual(values, rows, columns), keep_bounds=False)
    return BiScaled(tensor=scaled, axes=axes, rounds=done, converged=moved <= tol, **tables)


class _Side:
    """The rows (or the columns) of all slices: where each entry belongs, and the means and scales found so far."""

    def __init__(self, *, index: Array, size: int) -> None:
        self.index, self.size = index, size
        self.count = np.bincount(index, minlength=size)
        self.mean, self.scale = np.zeros(size), np.ones(size)

    def sums(self, weights: Array) -> Array:
        return np.bincount(self.index, weights=weights, minlength=self.size)


def _residual(values: Array, one: _Side, other: _Side) -> Array:
    """Every entry as it stands: (x - a_i - b_j) / (t_i g_j)."""
    mean = one.mean[one.index] + other.mean[other.index]
    out: Array = (values - mean) / (one.scale[one.index] * other.scale[other.index])
    return out


def _centre(values: Array, one: _Side, other: _Side) -> float:
    """b += g * sum(residual) / sum(1 / t) over each column's entries; returns the largest move in standard units."""
    weights = one.sums(1.0 / other.scale[other.index])
    sums = one.sums(_residual(values, one, other))
    shift = np.divide(sums, weights, out=np.zeros(one.size), where=one.count > 0)
    one.mean += one.scale * shift
    return float(np.abs(shift).max())


def _stretch(values: Array, one: _Side, other: _Side, floor: float) -> float:
    """g *= root of the mean squared residual of each column; returns the largest change of a logarithm."""
    squares = one.sums(_residual(values, one, other) ** 2)
    free = (one.count > 1) & (squares > 0)
    factor = np.ones(one.size)
    factor[free] = np.sqrt(squares[free] / one.count[free])
    new = np.where(free, np.maximum(one.scale * factor, floor), one.scale)
    moved = float(np.abs(np.log(new / one.scale)).max())
    one.scale = new
    return moved


def _axes(tensor: ObservedTensor, slice_mode: int | str) -> tuple[int, int, int | None]:
    if tensor.order == 2:
        return 0, 1, None
    if tensor.order != 3:
        raise InputError(f"biscale takes matrices and tensors of order 3; got order {tensor.order}. Drop modes first.")
    cut = find_axis(tensor.modes, slice_mode)
    rows, columns = (axis for axis in range(3) if axis != cut)
    return rows, columns, cut
