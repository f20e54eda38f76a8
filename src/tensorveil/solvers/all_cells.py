"""`als` for CP models of all cells: unlisted zeros in closed form, and non-negative counts.

Squared error, sum over listed cells of (x - m)^2 + unlisted_weight * sum over all others of m^2 + regularization * (sum
of squared factor entries): the objective of Hu, Koren and Volinsky (2008) for tensors of any order. Expected counts,
where the sum over all cells of m is a product of column sums: Poisson deviance with non-negative factors, as in Chi and
Kolda (2012). Both need the unlisted cells only through sums over each factor (kernels/all_cells.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tensorveil.kernels import all_cells
from tensorveil.kernels.rows import Rows, build_all_rows
from tensorveil.kernels.threads import cut_evenly, thread_count, workers
from tensorveil.solvers.task import Array, Scaling, Solution, Task, known_scaling, start_spread
from tensorveil.solvers.watch import Watch

Run = Callable[[Sequence[Callable[[], Any]]], list[Any]]

# Conjugate gradients go on from the last sweep's rows, so that a few steps are enough.
_STEPS, _ROUNDS = 3, 2
# Pieces that threads take one by one; always as many, so that sums do not depend on the number of threads.
_PIECES = 16
# How far the next sweep begins beyond the last: as a share of the last change, and how that share moves.
_AHEAD, _FURTHER, _LESS, _MOST_FURTHER = 0.5, 1.05, 1.5, 1.01
_SMALLEST = 1e-12


@dataclass(kw_only=True, eq=False)
class _State:
    """Factors one under the other, and the cells grouped by the rows of each mode."""

    task: Task
    groups: tuple[Rows, ...]
    starts: Array
    rows: Array
    unlisted: float
    target: float
    ridge: float
    # What the deviance of counts would have for x log m with a perfect model, less the counts.
    best_logs: float

    def factor(self, mode: int) -> Array:
        """Return a mode's factor."""
        start = int(self.starts[mode])
        return self.rows[start : start + self.task.shape[mode]]

    def sums(self, mode: int) -> Array:
        """Return the sum of the designs of a row over all cells, listed or not."""
        others = (self.factor(m).sum(axis=0, dtype=np.float64) for m in range(self.task.order) if m != mode)
        out: Array = np.prod(list(others), axis=0)
        return out

    def gram(self, mode: int | None) -> Array:
        """Return the Gram matrix of the designs of a row over all cells; of whole cells for None."""
        out = np.ones((self.rows.shape[1],) * 2)
        for m in range(self.task.order):
            if m != mode:
                factor = self.factor(m)
                out *= (factor.T @ factor).astype(np.float64)
        return out


def solve_all_cells(task: Task, settings: Any, watch: Watch) -> Solution:
    """Fit by sweeps over the modes, each of which begins a little beyond where the last one led."""
    counts = task.nonnegative
    scaling = Scaling(offset=0.0, scale=1.0) if counts else known_scaling(task)
    state = _start(task, settings, scaling)
    sweep = _sweep_counts if counts else _sweep_squares
    judge = _judge_counts if counts else _judge_squares
    known = task.n_entries + task.n_zeros * state.unlisted
    lead = _Lead(state)
    error = math.nan
    with workers(thread_count(task.threads)) as run:
        for _ in range(settings.sweeps):
            for mode in range(task.order):
                sweep(state, mode, run)
            _balance(state)
            loss = judge(state, run)
            kept = lead.keep(loss + state.ridge * float(np.vdot(state.rows, state.rows)))
            if kept:
                error = task.loss.summary(max(loss, 0.0) / known) * scaling.scale
            # A sweep that began too far ahead says nothing about convergence.
            judged = error if kept or lead.plain else math.nan
            solution = partial(_solution, state, scaling)
            if watch.step(train_error=error, criterion=judged, size=error, solution=solution):
                break
            lead.go_ahead()
        lead.go_back()
    return watch.result(partial(_solution, state, scaling))


class _Lead:
    """Where the next sweep begins: beyond the last one, as long as that pays (Ang, Cohen, Gillis 2019)."""

    def __init__(self, state: _State) -> None:
        self.state, self.least, self.plain = state, math.inf, True
        self.best: Array | None = None
        self.before: Array | None = None
        self.share, self.most, self.last = _AHEAD, 1.0, _AHEAD

    def keep(self, total: float) -> bool:
        """Keep what the sweep has led to if the objective fell, else go back; return which."""
        if total < self.least:
            self.least, self.before, self.best = total, self.best, self.state.rows.copy()
            if not self.plain:
                self.last, self.most = self.share, min(1.0, _MOST_FURTHER * self.most)
                self.share = min(self.most, _FURTHER * self.share)
            return True
        if not self.plain:
            self.most, self.share = self.last, self.share / _LESS
        self.before = None
        self.go_back()
        return False

    def go_ahead(self) -> None:
        """Begin the next sweep as far ahead as is thought well of; where the last one was, after a failure."""
        self.plain = self.before is None or self.best is None
        if self.before is not None and self.best is not None:
            rows = self.state.rows
            rows += (self.share * (self.best - self.before)).astype(rows.dtype)
            if self.state.task.nonnegative:
                np.maximum(rows, _SMALLEST, out=rows)

    def go_back(self) -> None:
        """Return to the best rows so far."""
        if self.best is not None:
            self.state.rows[...] = self.best


def _start(task: Task, settings: Any, scaling: Scaling) -> _State:
    rng = np.random.default_rng(task.seed)
    shapes = list(zip(task.shape, task.ranks, strict=True))
    if task.nonnegative:
        size = 2.0 * (max(task.mean_known(), 1e-9) / task.ranks[0]) ** (1.0 / task.order)
        factors = [size * rng.uniform(0.05, 1.0, shape) for shape in shapes]
    else:
        spread = start_spread(task, 0.1)
        factors = [spread * rng.standard_normal(shape) for shape in shapes]
    values = scaling.apply(task.values, task.dtype)
    known = values.astype(np.float64)
    columns = task.columns
    if task.excluded.shape[1]:
        columns = np.concatenate([columns, task.excluded], axis=1)
        values = np.concatenate([values, np.full(task.excluded.shape[1], np.nan, values.dtype)])
    return _State(
        task=task,
        groups=build_all_rows(columns, values, task.shape, threads=task.threads),
        starts=np.concatenate([[0], np.cumsum(task.shape)[:-1]]).astype(np.int64),
        rows=np.ascontiguousarray(np.concatenate(factors), dtype=task.dtype),
        unlisted=settings.unlisted_weight * task.zero_weight if task.zeros else 0.0,
        target=-scaling.offset / scaling.scale,
        ridge=settings.regularization,
        best_logs=float(np.sum(known * np.log(np.where(known > 0, known, 1.0)) - known)) if task.nonnegative else 0.0,
    )


def _balance(state: _State) -> None:
    """Give every component the same length in all modes, which changes no prediction and costs the least ridge."""
    modes = range(state.task.order)
    lengths = np.stack([np.sqrt(np.sum(state.factor(m).astype(np.float64) ** 2, axis=0)) for m in modes]) + 1e-30
    common = np.exp(np.log(lengths).mean(axis=0))
    for m in modes:
        state.factor(m)[...] *= (common / lengths[m]).astype(state.rows.dtype)


def _grouped(state: _State, mode: int) -> tuple[Any, ...]:
    group = state.groups[mode]
    begin = state.starts[list(group.others)]
    return group.pointers, group.coords, group.values, begin, state.rows, int(state.starts[mode])


def _sweep_squares(state: _State, mode: int, run: Run) -> None:
    weight = state.unlisted
    gram, sums = weight * state.gram(mode), weight * state.target * state.sums(mode)
    gram[np.diag_indices_from(gram)] += state.ridge
    kind = state.rows.dtype
    cells = _grouped(state, mode)
    data = (*cells, 1.0 - weight, -weight, weight * state.target, gram.astype(kind), sums.astype(kind), _STEPS)
    run([partial(all_cells.squares_rows, low, high, *data) for low, high in cut_evenly(cells[0], _PIECES)])


def _sweep_counts(state: _State, mode: int, run: Run) -> None:
    weight = state.unlisted
    cells = _grouped(state, mode)
    data = (*cells, 1.0 - weight, -weight, weight * state.sums(mode), state.ridge, _ROUNDS)
    run([partial(all_cells.counts_rows, low, high, *data) for low, high in cut_evenly(cells[0], _PIECES)])


def _judge(state: _State, run: Run, kernel: Any, *data: Any) -> Array:
    """Return sums over the cells that are grouped."""
    cells = _grouped(state, state.task.order - 1)
    found = run([partial(kernel, low, high, *cells, *data) for low, high in cut_evenly(cells[0], _PIECES)])
    out: Array = np.sum(found, axis=0)
    return out


def _judge_squares(state: _State, run: Run) -> float:
    """Return the weighted sum of squares over all cells that are known."""
    fit, both = _judge(state, run, all_cells.judge_squares, state.target)
    total = float(state.gram(None).sum())
    sums = float(np.sum(state.sums(0) * state.factor(0).sum(axis=0, dtype=np.float64)))
    everywhere = total - 2 * state.target * sums + state.task.n_cells * state.target**2
    return float(fit + state.unlisted * (everywhere - both))


def _judge_counts(state: _State, run: Run) -> float:
    """Return the deviance over all cells that are known; a zero has twice its expected count."""
    fit, logs, both = _judge(state, run, all_cells.judge_counts)
    everywhere = float(np.sum(state.sums(0) * state.factor(0).sum(axis=0, dtype=np.float64)))
    return float(2 * (fit - logs + state.best_logs + state.unlisted * (everywhere - both)))


def _solution(state: _State, scaling: Scaling) -> Solution:
    factors = tuple(state.factor(mode).copy() for mode in range(state.task.order))
    return scaling.undo(factors, None, None)
