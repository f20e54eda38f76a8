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
from tensorveil.kernels.padded import Padded, aligned_zeros, pad, unpad
from tensorveil.kernels.rows import Rows, build_all_rows
from tensorveil.kernels.threads import cut_evenly, thread_count, workers
from tensorveil.kernels.vector import wide_token
from tensorveil.solvers.start import random_start
from tensorveil.solvers.task import Array, Scaling, Solution, Task, known_scaling
from tensorveil.solvers.watch import Watch

Run = Callable[[Sequence[Callable[[], Any]]], list[Any]]

# Conjugate gradients go on from the last sweep's rows, so that a few steps are enough.
_STEPS, _ROUNDS = 3, 2
# Pieces that threads take one by one; always as many, so that sums do not depend on the number of threads.
_PIECES = 16
# How far the next sweep begins beyond the last: as a share of the last change, and how that share moves.
_AHEAD, _FURTHER, _LESS, _MOST_FURTHER = 0.5, 1.05, 1.5, 1.01
_SMALLEST = 1e-12
# How much linear parts vary at the start.
_START_VARIANCE = 0.1


@dataclass(kw_only=True, eq=False)
class _State:
    """Factors, and the cells grouped by the rows of each mode."""

    task: Task
    groups: tuple[Rows, ...]
    factors: Padded
    unlisted: float
    target: float
    ridge: float
    # What the loss would be if the model said 0 everywhere; of counts, what is lacking to their deviance.
    constant: float

    def sums(self, mode: int) -> Array:
        """Return the sum of the designs of a row over all cells, listed or not."""
        others = (f.sum(axis=0, dtype=np.float64) for m, f in enumerate(self.factors.arrays) if m != mode)
        out: Array = np.prod(list(others), axis=0)
        return out

    def gram(self, mode: int) -> Array:
        """Return the Gram matrix of the designs of a row over all cells."""
        out = np.ones((self.factors.arrays[0].shape[1],) * 2)
        for m, factor in enumerate(self.factors.arrays):
            if m != mode:
                out *= (factor.T @ factor).astype(np.float64)
        return out

    def penalty(self, factors: Sequence[Array]) -> float:
        """Return what these factors cost."""
        return self.ridge * sum(float(np.vdot(factor, factor)) for factor in factors)


def solve_all_cells(task: Task, settings: Any, watch: Watch) -> Solution:
    """Fit by sweeps over the modes, each of which begins a little beyond where the last one led."""
    counts = task.nonnegative
    scaling = Scaling(offset=0.0, scale=1.0) if counts else known_scaling(task)
    state = _start(task, settings, scaling)
    improve = _improve_counts if counts else _improve_squares
    known = task.n_entries + task.n_zeros * state.unlisted
    lead = _Lead(state)
    error = math.nan
    with workers(thread_count(task.threads)) as run:
        for _ in range(settings.sweeps):
            loss = [improve(state, mode, run) for mode in range(task.order)][-1]
            _balance(state)
            kept = lead.keep(loss + state.penalty(state.factors.arrays))
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
    """Where the next sweep begins: beyond the last one, as long as that pays (Ang, Cohen and Gillis 2019)."""

    def __init__(self, state: _State) -> None:
        self.state, self.least, self.plain = state, math.inf, True
        self.best: Array | None = None
        self.before: Array | None = None
        self.share, self.most, self.last = _AHEAD, 1.0, _AHEAD

    def keep(self, total: float) -> bool:
        """Keep what the sweep has led to if the objective fell, else go back; return which."""
        if total < self.least:
            self.least, self.before, self.best = total, self.best, self.state.factors.flat.copy()
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
            flat = self.state.factors.flat
            flat += flat.dtype.type(self.share) * (self.best - self.before)
            if self.state.task.nonnegative:
                for factor in self.state.factors.views():
                    np.maximum(factor, _SMALLEST, out=factor)

    def go_back(self) -> None:
        """Return to the best factors so far."""
        if self.best is not None:
            self.state.factors.flat[...] = self.best


def _start(task: Task, settings: Any, scaling: Scaling) -> _State:
    start = random_start(task, scaling, 1.0, scaled=_START_VARIANCE)
    values = scaling.apply(task.values, task.dtype)
    known = values.astype(np.float64)
    columns = task.columns
    if task.excluded.shape[1]:
        columns = np.concatenate([columns, task.excluded], axis=1)
        values = np.concatenate([values, np.full(task.excluded.shape[1], np.nan, values.dtype)])
    unlisted = settings.unlisted_weight * task.zero_weight if task.zeros else 0.0
    target = -scaling.offset / scaling.scale
    if task.nonnegative:
        constant = float(np.sum(known * np.log(np.where(known > 0, known, 1.0)) - known))
    else:
        constant = float(known @ known) + unlisted * target**2 * task.n_zeros
    return _State(
        task=task,
        groups=build_all_rows(columns, values, task.shape, threads=task.threads),
        factors=pad(start.factors, task.dtype),
        unlisted=unlisted,
        target=target,
        ridge=settings.regularization,
        constant=constant,
    )


def _balance(state: _State) -> None:
    """Give every component the same length in all modes, which changes no prediction and costs the least ridge."""
    lengths = np.sqrt([np.einsum("ir,ir->r", f, f, dtype=np.float64) for f in state.factors.arrays]) + 1e-30
    common = np.exp(np.log(lengths).mean(axis=0))
    for factor, length in zip(state.factors.arrays, lengths, strict=True):
        factor *= (common / length).astype(factor.dtype)


def _grouped(state: _State, mode: int) -> tuple[Any, ...]:
    group, factors = state.groups[mode], state.factors
    begin = np.array([factors.origins[m] for m in group.others], np.int64)
    R = factors.arrays[mode].shape[1]
    return group.pointers, group.coords, group.values, begin, factors.flat, R, factors.origins[mode]


def _run(state: _State, mode: int, run: Run, row: Callable[[int, int], Any]) -> Array:
    """Improve the rows of a mode, piece by piece; return the sum of what the pieces return."""
    pieces = cut_evenly(state.groups[mode].pointers, _PIECES)
    out: Array = np.sum(run([partial(row, low, high) for low, high in pieces]), axis=0)
    return out


def _improve_squares(state: _State, mode: int, run: Run) -> float:
    """Improve the rows of a mode, and return the weighted sum of squares over all cells that are known."""
    weight, factors = state.unlisted, state.factors
    gram, sums = weight * state.gram(mode), weight * state.target * state.sums(mode)
    gram[np.diag_indices_from(gram)] += state.ridge
    kind, R = factors.dtype, gram.shape[0]
    row, cells = wide_token(R, kind), _grouped(state, mode)
    weights = [kind.type(x) for x in (1.0 - weight, -weight, weight * state.target)]
    system = (gram.astype(kind).reshape(-1), sums.astype(kind), _STEPS)

    def piece(low: int, high: int) -> float:
        spare = aligned_zeros((R,), kind)
        return float(all_cells.squares_rows(row, low, high, *cells, *weights, *system, spare))

    return state.constant + float(_run(state, mode, run, piece)) - state.penalty([factors.arrays[mode]])


def _improve_counts(state: _State, mode: int, run: Run) -> float:
    """Improve the rows of a mode, and return the deviance over all cells that are known.

    A zero has twice its expected count.
    """
    weight, rank = state.unlisted, state.factors.ranks[mode]
    base = weight * state.sums(mode)
    data = (*_grouped(state, mode), rank, 1.0 - weight, -weight, base, state.ridge, _ROUNDS)
    fit, logs, both = _run(state, mode, run, lambda low, high: all_cells.counts_rows(low, high, *data))
    everywhere = float(base @ state.factors.arrays[mode].sum(axis=0, dtype=np.float64))
    return 2.0 * float(fit - logs + state.constant + everywhere - weight * both)


def _solution(state: _State, scaling: Scaling) -> Solution:
    return scaling.undo(tuple(unpad(state.factors)), None, None)
