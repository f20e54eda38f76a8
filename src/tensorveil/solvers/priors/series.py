"""What a model leaves over along time, where two modes make one time: days and the hours within them.

Neighbouring times are alike beyond what low rank shows, in each line (a sensor) by itself: a jam lasts. The remainder
of each line is an autoregression plus noise (kernels/lines.py), with one correlation and one ratio of variances for
all lines, by evidence, and a scale per line: lines are not equally unruly. The remainder is added to the model cell by
cell.

Such remainders make a fit of the model mistake one long event for many facts. So the fit is made twice: the second one
sees values divided by the scales, and its residual variance is multiplied by the number of entries that tell as much as
one independent entry, 1 + 2 sum over k of (correlation at distance k) x (share of entries that have one observed at
distance k). On traffic this takes more of the error away than fitting both parts in turns, which converges slowly and
to more components than the data bear (docs/explanation/measurements.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.lines import line_evidence, smooth_lines
from tensorveil.kernels.predict import cp_predict, tucker_predict
from tensorveil.memory import check_memory
from tensorveil.solvers.task import Solution, Task

Array = NDArray[Any]

# A line's squared scale is drawn towards that of all lines as by this many entries.
_LEAN = 5.0
# About so many entries decide on the process's three numbers: those of evenly spaced lines.
_ENOUGH = 30_000
_LARGEST_LAG = 100
_STEPS = 80


@dataclass(frozen=True, kw_only=True)
class Series:
    """Modes that make one time, the slowest first, and the order of their indices."""

    modes: tuple[int, ...]
    orders: tuple[Array, ...]


@dataclass(frozen=True, kw_only=True)
class Process:
    """An autoregression plus noise: correlation of neighbours, variance, variance of the noise."""

    phi: float
    variance: float
    noise: float

    def independent(self, lines: Lines) -> float:
        """Return how many of the lines' entries tell as much as one independent entry."""
        share = self.variance / (self.variance + self.noise)
        total = 0.0
        for lag in range(1, min(_LARGEST_LAG, lines.length)):
            if self.phi**lag < 1e-3:
                break
            total += self.phi**lag * lines.density(lag)
        return 1.0 + 2.0 * share * total


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Where entries stand: line and time of each, in the order of lines and of times within them."""

    order: Array
    pointers: Array
    times: Array
    length: int
    seen: Array  # (lines, times)

    @property
    def count(self) -> int:
        """Number of lines."""
        return len(self.pointers) - 1

    def some(self, rest: Array, enough: int) -> tuple[Array, Array, Array]:
        """Return pointers, times and remainders of evenly spaced lines that have about enough entries."""
        chosen = np.zeros(self.count, dtype=bool)
        chosen[:: max(len(rest) // enough, 1)] = True
        counts = np.diff(self.pointers)
        entries = np.repeat(chosen, counts)
        pointers = np.concatenate([[0], np.cumsum(counts[chosen])])
        return pointers, self.times[entries], rest[self.order[entries]]

    def density(self, lag: int) -> float:
        """Return the share of entries whose neighbour at this distance is observed."""
        return float(np.sum(self.seen[:, lag:] & self.seen[:, :-lag]) / max(len(self.order), 1))


# Takes a task, how many entries tell as much as one independent entry, and a number of sweeps for a short fit.
Fit = Callable[[Task, float, int | None], Solution]


def solve_with_series(task: Task, series: Series, sweeps: int, fit: Fit) -> Solution:
    """Fit the model, and what it leaves over."""
    shape = task.shape
    check_memory(9.0 * np.prod(shape, dtype=float), "a remainder per cell", 'Leave the pair of modes out of "smooth".')
    lines = find_lines(task.columns, shape, series)
    first = fit(task, 1.0, max(10, sweeps // 3))
    rest = task.values - _values(first, task.columns, task.threads)
    scales = _line_scales(rest, task.columns, shape, series)
    factor = _at(scales, task.columns)
    process = fit_process(lines, rest / factor)
    scaled = task.baseline != "biases"
    if scaled:
        # Offset and scales are taken out beforehand: the model of the scaled values then needs neither.
        offset = 0.0 if task.baseline == "none" else float(np.mean(task.values))
        inner = replace(task.with_values((task.values - offset) / factor), baseline="none")
    second = fit(inner if scaled else task, process.independent(lines), None)
    if scaled:
        second = _undo(second, scales, offset)
    rest = task.values - _values(second, task.columns, task.threads)
    process = fit_process(lines, rest / factor)
    table, _ = smooth_cells(lines, rest / factor, process, shape, series)
    for mode, scale in scales.items():
        table *= scale.reshape([-1 if m == mode else 1 for m in range(len(shape))])
    return replace(second, remainder=table, noise_variance=float(process.noise * np.mean(factor**2)))


def find_lines(columns: Array, shape: tuple[int, ...], series: Series) -> Lines:
    """Sort the entries into lines."""
    times = np.zeros(columns.shape[1], dtype=np.int64)
    for mode, order in zip(series.modes, series.orders, strict=True):
        times = times * shape[mode] + np.argsort(order)[columns[mode]]
    others = [m for m in range(len(shape)) if m not in series.modes]
    line = np.zeros(columns.shape[1], dtype=np.int64)
    for mode in others:
        line = line * shape[mode] + columns[mode]
    count, length = (int(np.prod([shape[m] for m in each], dtype=np.int64)) for each in (others, series.modes))
    order = np.lexsort((times, line))
    pointers = np.concatenate([[0], np.cumsum(np.bincount(line, minlength=count))]).astype(np.int64)
    seen = np.zeros((count, length), dtype=bool)
    seen[line, times] = True
    return Lines(order=order, pointers=pointers, times=times[order], length=length, seen=seen)


def fit_process(lines: Lines, rest: Array, enough: int = _ENOUGH) -> Process:
    """Choose correlation and variances by the evidence of lines that have about enough entries."""
    from scipy.optimize import minimize

    pointers, times, values = lines.some(rest, enough)
    square = max(float(np.mean(values**2)), 1e-300)

    def badness(z: Array) -> float:
        phi, variance, noise = _process(z, square)
        return -float(line_evidence(pointers, times, values, phi, variance, noise))

    found = minimize(badness, [1.0, -0.7, -0.7], method="Nelder-Mead", options={"maxiter": _STEPS, "fatol": 1e-2})
    phi, variance, noise = _process(found.x, square)
    return Process(phi=phi, variance=variance, noise=noise)


def smooth_cells(
    lines: Lines, rest: Array, process: Process, shape: tuple[int, ...], series: Series, noise: Array | None = None
) -> tuple[Array, Array]:
    """Return the means of the process at every cell, as an array of the tensor's shape, and variances at the entries.

    ``noise`` is the variance of each entry's noise; by default the process'.
    """
    out, spread = np.empty((lines.count, lines.length)), np.empty(len(rest))
    values = np.ascontiguousarray(rest[lines.order])
    each = np.full(len(rest), process.noise) if noise is None else np.ascontiguousarray(noise[lines.order])
    smooth_lines(lines.pointers, lines.times, values, each, process.phi, process.variance, out, spread)
    others = [m for m in range(len(shape)) if m not in series.modes]
    table = np.transpose(
        out.reshape([shape[m] for m in (*others, *series.modes)]), np.argsort([*others, *series.modes])
    )
    for mode, order in zip(series.modes, series.orders, strict=True):
        table = np.take(table, np.argsort(order), axis=mode)
    back = np.empty(len(rest))
    back[lines.order] = spread
    return np.ascontiguousarray(table), back


def _process(z: Array, square: float) -> tuple[float, float, float]:
    z = np.clip(z, -12.0, 12.0)
    return float(min(1.0 / (1.0 + np.exp(-z[0])), 0.9999)), square * float(np.exp(z[1])), square * float(np.exp(z[2]))


def _line_scales(rest: Array, columns: Array, shape: tuple[int, ...], series: Series) -> dict[int, Array]:
    """Return how large remainders are per index of each other mode, relative to all; one mode after the other."""
    scales, left = {}, rest.astype(np.float64)
    for mode in range(len(shape)):
        if mode not in series.modes:
            whole = max(float(np.mean(left**2)), 1e-300)
            squares = np.bincount(columns[mode], weights=left**2, minlength=shape[mode])
            counts = np.bincount(columns[mode], minlength=shape[mode])
            scales[mode] = np.sqrt((squares + _LEAN * whole) / (counts + _LEAN) / whole)
            left = left / scales[mode][columns[mode]]
    return scales


def _at(scales: dict[int, Array], columns: Array) -> Array:
    product = np.ones(columns.shape[1])
    for mode, scale in scales.items():
        product *= scale[columns[mode]]
    return product


def _undo(solution: Solution, scales: dict[int, Array], offset: float) -> Solution:
    """Return a model of scaled values as one of the values."""
    factors = tuple(f * scales[m][:, None] if m in scales else f for m, f in enumerate(solution.factors))
    return replace(solution, factors=factors, offset=offset)


def _values(solution: Solution, columns: Array, threads: int | None) -> Array:
    """Return what a solution predicts at the entries."""
    biases = solution.biases or ()
    if solution.core is None:
        return cp_predict(columns, solution.factors, threads, biases, solution.offset)
    return tucker_predict(columns, solution.core, solution.factors, threads, biases, solution.offset)
