"""L-BFGS for any loss: quasi-Newton steps on the exact gradient over all known cells of a CP model.

The objective is the sum of the loss over all known cells + regularization * (sum of squared factor entries). Where
cells that are not listed are zeros, a pass runs over all cells, fibre by fibre (kernels/grid.py), and keeps none of
them: memory goes with the listed cells, time with all. So this is the solver for tensors that have few enough of them
(`few_enough` in completion/response.py); it finds better optima than `adam`, and sooner.

Steps are those of Liu and Nocedal (1989), along which the objective falls enough and has become flatter. Factors may
have any sign: non-negative ones are left to `als` and `adam`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from tensorveil.errors import InputError
from tensorveil.kernels import grid, stochastic
from tensorveil.kernels.quasi_newton import find_direction
from tensorveil.kernels.threads import ranges, thread_count, workers
from tensorveil.solvers.start import Start, random_start
from tensorveil.solvers.task import Array, Scaling, Solution, Task, known_scaling
from tensorveil.solvers.watch import Watch

# The loss over the known cells, the objective, and its gradient.
Objective = Callable[[Array], tuple[float, float, Array]]
Run = Callable[[Sequence[Callable[[], Any]]], list[Any]]

# Steps that are remembered, and steps of a sweep: after so many a fit is looked at, and perhaps stopped.
_MEMORY, _STEPS = 10, 5
# Cells of a block, small enough for the cache; and of a piece, which one thread passes over.
_BLOCK, _PIECE, _MOST_PIECES = 4096, 1 << 18, 8
# A step is taken if the objective fell by this share of what the slope promised, and the slope by the rest of that.
_FALL, _FLATTER, _TRIES = 1e-4, 0.9, 30
# The first step of all is shorter than this.
_FIRST = 0.3
# How much linear parts vary at the start.
_START_VARIANCE = 0.1


@dataclass(frozen=True, kw_only=True)
class LBFGS:
    """Settings of the quasi-Newton solver for any loss."""

    sweeps: int = 100
    tol: float = 1e-6
    regularization: float = 1.0  # as if factors were standard normal
    unlisted_weight: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class _Layout:
    """Where parameters lie in one vector: factors one under the other, biases, offset; shared ones once."""

    task: Task
    starts: Array
    n_rows: int
    n_biases: int

    @classmethod
    def of(cls, task: Task) -> _Layout:
        starts, place = np.zeros(task.order, np.int64), 0
        for modes in task.tied:
            starts[list(modes)] = place
            place += task.shape[modes[0]]
        return cls(task=task, starts=starts, n_rows=place, n_biases=place if task.baseline == "biases" else 0)

    @property
    def rank(self) -> int:
        return self.task.ranks[0]

    @property
    def size(self) -> int:
        return self.n_rows * self.rank + self.n_biases + int(self.task.has_offset)

    def parts(self, x: Array) -> tuple[Array, Array, Array]:
        """Return views: rows (n_rows, rank), biases and offset, the last two of length 0 where there are none."""
        cut = self.n_rows * self.rank
        return x[:cut].reshape(self.n_rows, self.rank), x[cut : cut + self.n_biases], x[cut + self.n_biases :]

    def place(self, mode: int) -> slice:
        return slice(int(self.starts[mode]), int(self.starts[mode]) + self.task.shape[mode])

    def begin(self, start: Start) -> Array:
        x = np.zeros(self.size)
        rows, _, offset = self.parts(x)
        for mode, *_ in self.task.tied:
            rows[self.place(mode)] = start.factors[mode]
        offset[:] = start.offset
        return x

    def solution(self, x: Array, scaling: Scaling) -> Solution:
        rows, biases, offset = self.parts(x)
        kind, modes = self.task.dtype, range(self.task.order)
        shift = float(offset[0]) if len(offset) else 0.0
        whole = Scaling(offset=scaling.offset + scaling.scale * shift, scale=scaling.scale)
        factors = tuple(rows[self.place(mode)].astype(kind) for mode in modes)
        own = tuple(biases[self.place(mode)].astype(kind) for mode in modes) if len(biases) else None
        return whole.undo(factors, None, own)


class _Cells(Protocol):
    """The known cells: what they weigh, and the loss over them."""

    known: float

    def descend(self, x: Array, gradient: Array, run: Run) -> float:
        """Add the loss's gradient; return the loss."""


class _Listed:
    """Cells that are listed, where nothing is known of the others."""

    def __init__(self, layout: _Layout, values: Array) -> None:
        task = layout.task
        self.layout, self.loss, self.columns = layout, task.loss, task.columns
        self.values, self.weights = values.astype(np.float64), np.ones(len(values))
        self.known = float(len(values))
        self.groups = [np.array(modes, np.int64) for modes in task.tied]
        self.linear, self.slopes = np.empty(len(values)), np.empty(len(values))

    def descend(self, x: Array, gradient: Array, run: Run) -> float:
        rows, biases, offset = self.layout.parts(x)
        G, own, shift = self.layout.parts(gradient)
        starts, n = self.layout.starts, len(self.values)
        data = (self.columns, rows, starts, biases, float(offset.sum()))
        pieces = min(_MOST_PIECES, 1 + n // _PIECE)
        run([partial(stochastic.linear_at, *data, a, b, self.linear) for a, b in ranges(n, pieces)])
        total = self.loss.descend(self.values, self.linear, self.weights, self.slopes)
        given = (self.columns, rows, starts, self.slopes)
        run([partial(stochastic.add_gradients, *given, modes, G, own) for modes in self.groups])
        shift += self.slopes.sum()
        return total


class _Grid:
    """All cells, those that are not listed being zeros; what is left out has no weight."""

    def __init__(self, layout: _Layout, values: Array, zero: float, weight: float) -> None:
        task = layout.task
        self.layout, self.loss = layout, task.loss
        self.along = int(np.argmax(task.shape))
        across = [mode for mode in range(task.order) if mode != self.along]
        self.sizes = np.array([task.shape[mode] for mode in across], np.int64)
        self.starts = np.ascontiguousarray(layout.starts[across])
        columns = np.concatenate([task.columns, task.excluded], axis=1) if task.excluded.size else task.columns
        known = np.concatenate([values, np.full(columns.shape[1] - len(values), np.nan)])
        fibres = np.ravel_multi_index(tuple(columns[across]), tuple(self.sizes.tolist()))
        order = np.argsort(fibres, kind="stable")
        self.n_fibres = math.prod(self.sizes.tolist())
        self.pointers = np.searchsorted(fibres[order], np.arange(self.n_fibres + 1))
        self.places = columns[self.along][order]
        self.values = known[order].astype(np.float64)
        self.zero, self.weight = zero, weight
        self.known = len(values) + weight * task.n_zeros
        self.block = max(1, _BLOCK // task.shape[self.along])

    def descend(self, x: Array, gradient: Array, run: Run) -> float:
        rows, biases, offset = self.layout.parts(x)
        place = self.layout.place(self.along)
        inner = np.ascontiguousarray(rows[place].T)
        pieces = min(_MOST_PIECES, 1 + self.n_fibres * inner.shape[1] // _PIECE)
        parts = [(a, b, np.zeros_like(x), np.zeros_like(inner)) for a, b in ranges(self.n_fibres, pieces)]
        model = (rows, inner, biases, biases[place] if len(biases) else biases, float(offset.sum()))
        total = sum(run([partial(self._pass, *model, *part) for part in parts]))
        for _, _, own, along in parts:
            gradient += own
            self.layout.parts(gradient)[0][place] += along.T
        return float(total)

    def _pass(
        self, rows: Array, inner: Array, biases: Array, along: Array, offset: float, low: int, high: int,
        gradient: Array, D: Array,
    ) -> float:  # fmt: skip
        """Pass over the fibres low..high, a block at a time."""
        G, own, shift = self.layout.parts(gradient)
        own_along = own[self.layout.place(self.along)] if len(own) else own
        K = inner.shape[1]
        linear, truth, weights, slopes = np.empty((4, self.block * K))
        lines = (self.sizes, self.starts, rows, inner)
        listed = (self.pointers, self.places, self.values, self.zero, self.weight)
        total = 0.0
        for first in range(low, high, self.block):
            last = min(first + self.block, high)
            n = (last - first) * K
            grid.fill_fibres(first, last, *lines, biases, along, offset, *listed, linear, truth, weights)
            total += self.loss.descend(truth[:n], linear[:n], weights[:n], slopes[:n])
            shift += grid.spread_fibres(first, last, *lines, slopes, G, D, own, own_along)
        return total


def solve_lbfgs(task: Task, settings: LBFGS, watch: Watch) -> Solution:
    """Fit by quasi-Newton steps."""
    if task.core or task.nonnegative:
        raise InputError('solver="lbfgs" is for CP with factors of any sign. Leave out solver, or try solver="adam".')
    scaling = known_scaling(task)
    values = scaling.apply(task.values, task.dtype)
    layout = _Layout.of(task)
    start = random_start(task, scaling, _START_VARIANCE)
    cells: _Cells = _Listed(layout, values)
    if task.zeros:
        cells = _Grid(layout, values, -scaling.offset / scaling.scale, settings.unlisted_weight * task.zero_weight)
    penalised = layout.size - int(task.has_offset)
    x = layout.begin(start)
    with workers(thread_count(task.threads)) as run:

        def objective(x: Array) -> tuple[float, float, Array]:
            gradient = np.zeros_like(x)
            fit = cells.descend(x, gradient, run)
            kept = x[:penalised]
            gradient[:penalised] += 2.0 * settings.regularization * kept
            return fit, fit + settings.regularization * float(kept @ kept), gradient

        def record(x: Array, fit: float, total: float) -> bool:
            error = task.loss.summary(max(fit, 0.0) / cells.known) * scaling.scale
            solution = partial(layout.solution, x, scaling)
            return watch.step(train_error=error, criterion=total, size=abs(total), solution=solution)

        x = _descend(objective, x, settings.sweeps, record)
    return watch.result(lambda: layout.solution(x, scaling))


def _descend(objective: Objective, x: Array, sweeps: int, record: Callable[[Array, float, float], bool]) -> Array:
    """Return where the objective is least, as far as so many sweeps of some steps lead."""
    S, Y = np.zeros((_MEMORY, len(x))), np.zeros((_MEMORY, len(x)))
    kept, newest, direction = 0, -1, np.empty(len(x))
    fit, total, gradient = objective(x)
    if not (math.isfinite(total) and np.all(np.isfinite(gradient))):
        raise InputError(
            "loss must be finite, with a finite gradient, where a fit begins: linear parts near 0, or near the link of "
            "the mean. Check its value and gradient there, and that they belong to its link."
        )
    for number in range(_STEPS * sweeps):
        slope = find_direction(S, Y, kept, newest, gradient, direction)
        first = 1.0 if kept else _FIRST * min(1.0, 1.0 / math.sqrt(max(-slope, 1e-300)))
        found = _search(objective, x, total, direction, slope, first) if slope < 0 else None
        if found is None and kept:  # the quadratic model may be at fault: begin a new one
            kept = 0
            continue
        if found is None:
            record(x, fit, total)
            break
        to, fit, total, after = found
        step, change = to - x, after - gradient
        if float(step @ change) > 0:
            newest = (newest + 1) % _MEMORY
            S[newest], Y[newest], kept = step, change, min(kept + 1, _MEMORY)
        x, gradient = to, after
        if number % _STEPS == _STEPS - 1 and record(x, fit, total):
            break
    return x


def _search(
    objective: Objective, x: Array, total: float, direction: Array, slope: float, step: float
) -> tuple[Array, float, float, Array] | None:
    """Return a point along the direction where the objective has fallen, its parts and gradient; or None."""
    low, high = 0.0, math.inf
    for _ in range(_TRIES):
        to = x + step * direction
        fit, after, there = objective(to)
        if not after <= total + _FALL * step * slope:
            # The least point of the parabola through what is known, if the objective was finite there.
            high, length = step, step - low
            bend = 2.0 * (after - total - slope * length) if low == 0.0 else math.nan
            share = -slope * length / bend if math.isfinite(bend) and bend > 0 else 0.5
            step = low + length * min(max(share, 0.1), 0.5)
        elif high == math.inf and float(there @ direction) < _FLATTER * slope:
            low, step = step, 2.0 * step
        else:
            return to, fit, after, there
    return None
