"""The public grid: statistics become integers before noise is added, so that no low bit of a float can leak."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorveil.errors import InputError
from tensorveil.noise.basic import flip_fractions
from tensorveil.noise.source import NoiseSource
from tensorveil.noise.uniform import LARGEST, Number, fraction

FINEST, COARSEST = -900, 900  # exponents of the step; products with 64-bit integers stay normal floats
FINENESS: Final = 20  # default: the noise spreads over about 2**20 steps, so rounding adds 2**-40 of its variance
_WHOLE = 1 << 53
Norm = Literal["l1", "l2"]


@dataclass(frozen=True, slots=True)
class Grid:
    """All integer multiples of a power of two. The step is public: choose it from public quantities only.

    >>> from tensorveil.noise import Grid
    >>> Grid(0.25).step, Grid.for_scale(3.0).step == 2.0**-19
    (0.25, True)
    """

    step: float

    def __post_init__(self) -> None:
        step = float(self.step)
        if not math.isfinite(step) or step <= 0 or math.frexp(step)[0] != 0.5:
            raise InputError(f"step must be a power of two; got {step!r}. Try Grid.for_scale(noise_scale).")
        if not FINEST <= math.frexp(step)[1] - 1 <= COARSEST:
            raise InputError(f"step must lie between 2**{FINEST} and 2**{COARSEST}; got {step!r}. Rescale the values.")
        object.__setattr__(self, "step", step)

    @property
    def exponent(self) -> int:
        """The step's exponent of two."""
        return math.frexp(self.step)[1] - 1

    @classmethod
    def for_scale(cls, noise_scale: Number, fineness: int = FINENESS) -> Grid:
        """Return the grid whose step is 2**-fineness of the noise scale, rounded down to a power of two.

        The scale is that of the noise to come (sensitivity / epsilon or sensitivity / mu): a public quantity.
        """
        scale = float(fraction(noise_scale, "noise_scale"))
        return cls(math.ldexp(1.0, math.frexp(scale)[1] - 1 - fineness))

    def values(self, ints: ArrayLike) -> NDArray[np.float64]:
        """Return step * ints as floats."""
        return np.multiply(np.asarray(ints, dtype=np.int64), self.step, dtype=np.float64)

    def steps(self, length: Number) -> Fraction:
        """Return a length in steps, exactly."""
        return Fraction(length) / Fraction(self.step)


def _scale(values: ArrayLike, grid: Grid) -> NDArray[np.float64]:
    """Return values / step, exactly; refuse values that do not fit on the grid."""
    numbers = np.asarray(values, dtype=np.float64)
    largest = 0.0 if numbers.size == 0 else max(float(numbers.max()), -float(numbers.min()))  # NaN if one is NaN
    if not math.isfinite(largest):
        raise InputError("values must be finite. Replace or drop NaN and infinities before rounding to the grid.")
    if largest >= math.ldexp(grid.step, 61):
        raise InputError("values are too large for this grid's 64-bit integers. Clip them or choose a coarser grid.")
    return np.multiply(numbers, math.ldexp(1.0, -grid.exponent))


def snap(values: ArrayLike, grid: Grid) -> NDArray[np.int64]:
    """Return the nearest grid points as integers, ties to even. Monotone in every value.

    >>> from tensorveil.noise import Grid, snap
    >>> snap([0.3, 0.375, -1.0], Grid(0.25)).tolist()
    [1, 2, -4]
    """
    return np.rint(_scale(values, grid)).astype(np.int64)


def stochastic_round(values: ArrayLike, grid: Grid, source: NoiseSource) -> NDArray[np.int64]:
    """Return one of the two nearest grid points as an integer, so that the mean is the value itself, exactly."""
    scaled = _scale(values, grid)
    size = np.abs(scaled).reshape(-1)
    whole = np.floor(size)
    # The fraction of a magnitude is an exact float; that of a negative number near zero would not be.
    up = flip_fractions(size - whole, source)
    rounded = whole.astype(np.int64) + up
    return np.where(scaled.reshape(-1) < 0, -rounded, rounded).reshape(scaled.shape)


def exact_sum(ints: ArrayLike, axis: int | None = None) -> NDArray[np.int64]:
    """Return sums of integers, which do not depend on their order; refuse sums that might not fit into 64 bits."""
    array = np.asarray(ints, dtype=np.int64)
    terms = array.size if axis is None else array.shape[axis]
    _check_sum(array, terms)
    return np.asarray(array.sum(axis=axis, dtype=np.int64))


def sum_groups(ints: ArrayLike, groups: ArrayLike, n_groups: int) -> NDArray[np.int64]:
    """Return the sums of the integers (or integer rows) of each group, exactly."""
    array = np.asarray(ints, dtype=np.int64)
    most = _check_sum(array, len(array))
    if array.ndim <= 2 and most < _WHOLE:
        columns = array.reshape(len(array), -1).T
        return _by_group(columns, np.asarray(groups), n_groups).reshape(n_groups, *array.shape[1:])
    sums = np.zeros((n_groups, *array.shape[1:]), dtype=np.int64)
    np.add.at(sums, np.asarray(groups), array)
    return sums


def snap_and_sum(
    rows: NDArray[np.float64],
    grid: Grid,
    groups: ArrayLike,
    n_groups: int,
    times: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Return ``sum_groups(snap(rows, grid), groups, n_groups)``, without a copy of all rows.

    With ``times``, every row is first multiplied by its number.

    >>> from tensorveil.noise import Grid, snap_and_sum
    >>> snap_and_sum(np.array([[0.3, 1.0], [0.3, 2.0]]), Grid(0.25), [0, 0], 1, times=np.array([1.0, -1.0])).tolist()
    [[0, -4]]
    """
    places = np.asarray(groups)
    columns = []
    for column in rows.T:
        scaled = _scale(column if times is None else column * times, grid)
        np.rint(scaled, out=scaled)
        if scaled.size and max(float(scaled.max()), -float(scaled.min())) * len(scaled) >= _WHOLE:
            columns.append(sum_groups(scaled.astype(np.int64), places, n_groups))
        else:
            columns.append(_by_group([scaled], places, n_groups)[:, 0])
    return np.stack(columns, axis=1)


def _by_group(columns: Iterable[NDArray[Any]], groups: NDArray[Any], n_groups: int) -> NDArray[np.int64]:
    """Sum columns of whole numbers, which add up exactly in floating point while all sums stay below 2**53."""
    totals = [np.bincount(groups, column, minlength=n_groups) for column in columns]
    return np.stack(totals, axis=1).astype(np.int64)


def _check_sum(array: NDArray[np.int64], terms: int) -> int:
    """Return a bound that no sum of this many terms exceeds; refuse bounds that do not fit into 64 bits."""
    largest = 0 if array.size == 0 else max(int(array.max()), -int(array.min()))
    if largest * terms >= LARGEST:
        raise InputError("sums could leave the 64-bit integers. Choose a coarser grid or clip the contributions.")
    return largest * terms


def sqrt_up(value: Number) -> Fraction:
    """Return a rational number at least the square root, by no more than 2**-40 relative to 1."""
    scaled = math.ceil(Fraction(value) * (1 << 80))
    root = math.isqrt(scaled)
    return Fraction(root + (root * root < scaled), 1 << 40)


def _check_norm(norm: str) -> None:
    """Refuse other names: a misspelt norm must not fall through to the smaller of the two."""
    if norm not in ("l1", "l2"):
        raise InputError(f"norm must be 'l1' or 'l2'; got {norm!r}. Laplace noise needs 'l1', Gaussian noise 'l2'.")


def rounded_sensitivity(sensitivity: Number, grid: Grid, coordinates: int, norm: Norm) -> Fraction:
    """Bound, in steps, the sensitivity of a statistic that is snapped AFTER it was summed in real numbers.

    Each of two neighbours moves by at most half a step per coordinate, so the bound is s/step + k in L1 and
    s/step + sqrt(k) in L2 over k coordinates (docs/explanation/noise.md#rounding-and-sensitivity). Floating-point
    sums are not sums of real numbers: snapping every contribution first (`contribution_sensitivity`) is rigorous.
    """
    _check_norm(norm)
    if coordinates < 1:
        raise InputError(f"coordinates must be at least 1; got {coordinates}. Count the numbers that are released.")
    extra = Fraction(coordinates) if norm == "l1" else sqrt_up(coordinates)
    return grid.steps(fraction(sensitivity, "sensitivity")) + extra


def contribution_sensitivity(low: ArrayLike, high: ArrayLike, grid: Grid, norm: Norm) -> Fraction:
    """Return, in steps, the largest change when one entry's snapped contribution moves between two ends.

    ``low`` and ``high`` have one row per entry: its contribution (weight times value, coordinate by coordinate, as
    the program computes it) with the value at either bound. Products with a fixed weight and snapping are monotone,
    so no value in between changes a coordinate by more. Both must be computed from public or already private numbers.
    """
    _check_norm(norm)
    ends = [np.atleast_2d(snap(end, grid)) for end in (low, high)]
    change: NDArray[Any] = np.abs(ends[0] - ends[1])
    if change.ndim != 2 or change.size == 0:
        raise InputError("low and high must be matrices that are not empty. Give one row per entry that may change.")
    if int(change.max()) >= 1 << 53:
        raise InputError("contributions are too large for this grid. Choose a coarser grid.")
    if norm == "l1":
        return Fraction(int(exact_sum(change, axis=1).max()))
    squares = float(np.square(change.astype(np.float64)).sum(axis=1).max())
    # Below 2**53 the float is the integer itself; above, rounding errors of the sum are far below 2**-40.
    return sqrt_up(Fraction(squares) if squares < 2.0**53 else Fraction(squares) * (1 + Fraction(1, 1 << 40)))
