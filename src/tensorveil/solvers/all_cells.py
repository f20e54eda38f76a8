"""`als` for CP models of all cells: unlisted zeros in closed form, and non-negative counts.

Squared error, sum over listed cells of (x - m)^2 + unlisted_weight * sum over all others of m^2 + regularization * (sum
of squared factor entries): the objective of Hu, Koren and Volinsky (2008) for tensors of any order. Expected counts,
where the sum over all cells of m is a product of column sums: Poisson deviance with non-negative factors, as in Chi and
Kolda (2012). Both need the unlisted cells only through sums over each factor (kernels/all_cells.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tensorveil.kernels import all_cells
from tensorveil.kernels.rows import Rows, build_all_rows
from tensorveil.kernels.threads import cut_evenly, thread_count, workers
from tensorveil.solvers.task import Array, Scaling, Solution, Task, known_scaling, start_spread
from tensorveil.solvers.watch import Watch

# Conjugate gradients go on from the last sweep's rows, so that a few steps are enough.
_STEPS, _ROUNDS = 3, 2
# More pieces than threads, so that a slow thread holds nobody up.
_PIECES = 8


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
    """Fit by sweeps over the modes."""
    counts = task.nonnegative
    scaling = Scaling(offset=0.0, scale=1.0) if counts else known_scaling(task)
    state = _start(task, settings, scaling)
    sweep = _sweep_counts if counts else _sweep_squares
    judge = _judge_counts if counts else _judge_squares
    known = task.n_entries + task.n_zeros * state.unlisted
    for _ in range(settings.sweeps):
        with workers(thread_count(task.threads)) as run:
            pieces = thread_count(task.threads) * _PIECES
            for mode in range(task.order):
                _balance(state, mode)
                sweep(state, mode, run, pieces)
            loss = judge(state, run, pieces)
        error = task.loss.summary(max(loss, 0.0) / known) * scaling.scale
        solution = partial(_solution, state, scaling)
        if watch.step(train_error=error, criterion=error, size=error, solution=solution):
            break
    return watch.result(partial(_solution, state, scaling))


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
    )


def _balance(state: _State, mode: int) -> None:
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


def _sweep_squares(state: _State, mode: int, run: Callable[[Any], Any], pieces: int) -> None:
    weight = state.unlisted
    gram, sums = weight * state.gram(mode), weight * state.target * state.sums(mode)
    gram[np.diag_indices_from(gram)] += state.ridge
    kind = state.rows.dtype
    system = (gram.astype(kind), sums.astype(kind), _STEPS)
    weights = (1.0 - weight, -weight, weight * state.target)
    cells = _grouped(state, mode)
    run(
        [
            partial(all_cells.squares_rows, low, high, *cells, *weights, *system)
            for low, high in cut_evenly(cells[0], pieces)
        ]
    )


def _sweep_counts(state: _State, mode: int, run: Callable[[Any], Any], pieces: int) -> None:
    weight = state.unlisted
    weights = (1.0 - weight, -weight, weight * state.sums(mode), 0.5 * state.ridge, _ROUNDS)
    cells = _grouped(state, mode)
    run([partial(all_cells.counts_rows, low, high, *cells, *weights) for low, high in cut_evenly(cells[0], pieces)])


def _parts(state: _State, run: Callable[[Any], Any], pieces: int) -> tuple[Array, Array]:
    """Return values (NaN for cells that are left out) and linear parts of the cells that are grouped."""
    mode = state.task.order - 1
    pointers, coords, values, begin, rows, own = _grouped(state, mode)
    out = np.empty(len(values))
    data = (pointers, coords, begin, rows, own, out)
    run([partial(all_cells.linear_parts, low, high, *data) for low, high in cut_evenly(pointers, pieces)])
    return values.astype(np.float64), out


def _judge_squares(state: _State, run: Callable[[Any], Any], pieces: int) -> float:
    """Return the weighted sum of squares over all cells that are known."""
    values, linear = _parts(state, run, pieces)
    total = float(state.gram(None).sum())
    sums = float(np.sum(state.sums(0) * state.factor(0).sum(axis=0, dtype=np.float64)))
    everywhere = total - 2 * state.target * sums + state.task.n_cells * state.target**2
    listed = ~np.isnan(values)
    fit = float(np.sum((values[listed] - linear[listed]) ** 2))
    return fit + state.unlisted * (everywhere - float(np.sum((linear - state.target) ** 2)))


def _judge_counts(state: _State, run: Callable[[Any], Any], pieces: int) -> float:
    """Return the deviance over all cells that are known; a zero has twice its expected count."""
    values, linear = _parts(state, run, pieces)
    listed = ~np.isnan(values)
    fit = float(np.sum(state.task.loss.value(values[listed], linear[listed])))
    everywhere = float(np.sum(state.sums(0) * state.factor(0).sum(axis=0, dtype=np.float64)))
    return fit + 2 * state.unlisted * (everywhere - float(np.sum(linear)))


def _solution(state: _State, scaling: Scaling) -> Solution:
    factors = tuple(state.factor(mode).copy() for mode in range(state.task.order))
    return scaling.undo(factors, None, None)
