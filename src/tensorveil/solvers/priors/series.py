"""What a model leaves over along time, where two modes make one time: days and the hours within them.

Neighbouring times are alike beyond what low rank shows, in each line (a sensor) by itself: a jam lasts. The remainder
of each line is an autoregression plus noise (kernels/lines.py), with one correlation and one ratio of variances for
all lines, by evidence, and a scale per line: lines are not equally unruly. Before that, what lines have in common at
the same time (an event that several sensors see) is taken off as a matrix of lines by times of low rank, which is all
that is known of the remainder where a line was not observed for long. The remainder is added to the model cell by cell.

Such remainders make a fit of the model mistake one long event for many facts. So the fit is made twice: the second one
sees values divided by the scales, and its residual variance is multiplied by the number of entries that tell as much as
one independent entry, 1 + 2 sum over k of (correlation at distance k) x (share of entries that have one observed at
distance k). On traffic this takes more of the error away than fitting both parts in turns, which converges slowly and
to more components than the data bear (docs/explanation/measurements.md). Of several starts the first alone is made
twice: what a short fit leaves over is much the same for all.
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
from tensorveil.solvers.bayes import Bayes, solve_bayes
from tensorveil.solvers.task import Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor.entries import MemoryEntries

Array = NDArray[Any]

# A line's squared scale is drawn towards that of all lines as by this many entries.
_LEAN = 5.0
# About so many entries decide on the process's three numbers: those of evenly spaced lines.
_ENOUGH = 30_000
_LARGEST_LAG = 100
# What lines have in common at the same time has this rank at most, and so many sweeps.
_EVENTS, _EVENT_SWEEPS = 10, 20
# The search for them: steps at most, the first one's width, and how close it comes, in logarithms.
_STEPS, _STEP, _EXACT = 80, 0.5, 3e-3


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


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a short fit leaves over: lines, how large remainders are per index of each other mode, and their process.

    Several starts share one look.
    """

    lines: Lines
    scales: dict[int, Array]
    process: Process


# Takes a task, how many entries tell as much as one independent entry, and a number of sweeps for a short fit.
Fit = Callable[[Task, float, int | None], Solution]


def look_at_series(task: Task, series: Series, sweeps: int, fit: Fit) -> Look:
    """Fit the model shortly, to see how large and how alike remainders are."""
    shape = task.shape
    check_memory(9.0 * np.prod(shape, dtype=float), "a remainder per cell", 'Leave the pair of modes out of "smooth".')
    lines = find_lines(task.columns, shape, series)
    first = fit(task, 1.0, max(10, sweeps // 3))
    rest = task.values - _values(first, task.columns, task.threads)
    scales = _line_scales(rest, task.columns, shape, series)
    return Look(lines=lines, scales=scales, process=fit_process(lines, rest / _at(scales, task.columns)))


def solve_with_series(task: Task, series: Series, look: Look, fit: Fit) -> Solution:
    """Fit the model, and what it leaves over."""
    shape, lines, factor = task.shape, look.lines, _at(look.scales, task.columns)
    scaled = task.baseline != "biases"
    if scaled:
        # Offset and scales are taken out beforehand: the model of the scaled values then needs neither.
        offset = 0.0 if task.baseline == "none" else float(np.mean(task.values))
        inner = replace(task.with_values((task.values - offset) / factor), baseline="none")
    found = fit(inner if scaled else task, look.process.independent(lines), None)
    if scaled:
        found = _undo(found, look.scales, offset)
    rest = task.values - _values(found, task.columns, task.threads)
    scales = _line_scales(rest, task.columns, shape, series)  # a short fit leaves other lines unruly than a whole one
    factor = _at(scales, task.columns)
    shared = _fit_events(task, lines, rest / factor, look.process)
    events = _as_cells(shared, shape, series)
    left = rest / factor - events[tuple(task.columns)]
    process = fit_process(lines, left, start=look.process)
    table = events + smooth_cells(lines, left, process, shape, series)[0]
    for mode, scale in scales.items():
        table *= scale.reshape([-1 if m == mode else 1 for m in range(len(shape))])
    return replace(found, remainder=table, noise_variance=float(process.noise * np.mean(factor**2)))


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


def fit_process(lines: Lines, rest: Array, enough: int = _ENOUGH, start: Process | None = None) -> Process:
    """Choose correlation and variances by the evidence of lines that have about enough entries."""
    from scipy.optimize import minimize

    pointers, times, values = lines.some(rest, enough)
    square = max(float(np.mean(values**2)), 1e-300)

    def badness(z: Array) -> float:
        phi, variance, noise = _process(z, square)
        return -float(line_evidence(pointers, times, values, phi, variance, noise))

    first = np.array([1.0, -0.7, -0.7]) if start is None else _coordinates(start, square)
    simplex = first + np.vstack([np.zeros(3), (_STEP if start is None else 0.3 * _STEP) * np.eye(3)])
    options = {"maxiter": _STEPS, "fatol": 1e-2, "xatol": _EXACT, "initial_simplex": simplex}
    found = minimize(badness, first, method="Nelder-Mead", options=options)
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
    back = np.empty(len(rest))
    back[lines.order] = spread
    return _as_cells(out, shape, series), back


def _as_cells(out: Array, shape: tuple[int, ...], series: Series) -> Array:
    """Return a matrix of lines by times as an array of the tensor's shape."""
    others = [m for m in range(len(shape)) if m not in series.modes]
    table = np.transpose(
        out.reshape([shape[m] for m in (*others, *series.modes)]), np.argsort([*others, *series.modes])
    )
    for mode, order in zip(series.modes, series.orders, strict=True):
        table = np.take(table, np.argsort(order), axis=mode)
    return np.ascontiguousarray(table)


def _fit_events(task: Task, lines: Lines, rest: Array, process: Process) -> Array:
    """Return what lines have in common at the same time, (lines, times): of low rank, and nothing without evidence.

    Of the matrix's two sides only that of the lines meets entries that are alike, one after the other in time: the
    residual's variance is multiplied by the root of what it is for the model.
    """
    rank = min(_EVENTS, lines.count - 1, lines.length - 1)
    if rank < 1:
        return np.zeros((lines.count, lines.length))
    columns = np.stack([np.repeat(np.arange(lines.count), np.diff(lines.pointers)), lines.times])
    entries = MemoryEntries(columns=columns, values=rest[lines.order], shape=(lines.count, lines.length))
    matrix = replace(task, entries=entries, ranks=(rank, rank), core=False, baseline="none", same=())
    settings = Bayes(sweeps=_EVENT_SWEEPS, estimate_rank=True, temper=process.independent(lines) ** 0.5)
    found = solve_bayes(matrix, settings, Watch(iterations=_EVENT_SWEEPS, tol=1e-5, patience=1))
    shared: Array = found.factors[0] @ found.factors[1].T + found.offset
    return shared


def _process(z: Array, square: float) -> tuple[float, float, float]:
    z = np.clip(z, -12.0, 12.0)
    return float(min(1.0 / (1.0 + np.exp(-z[0])), 0.9999)), square * float(np.exp(z[1])), square * float(np.exp(z[2]))


def _coordinates(process: Process, square: float) -> Array:
    """Return where the search for a process finds this one."""
    chance = np.clip(process.phi, 1e-5, 1.0 - 1e-5)
    sizes = np.maximum([process.variance / square, process.noise / square], 1e-5)
    return np.array([np.log(chance / (1.0 - chance)), *np.log(sizes)])


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
