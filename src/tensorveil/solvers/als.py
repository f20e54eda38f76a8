"""Alternating least squares for CP and Tucker: every row (and the core) solved exactly, given everything else.

The objective is sum (x - prediction)^2 + regularization * (sum of squared factor entries), plus
regularization_per_entry * (the same, every row as often as it has entries), for Tucker plus core_regularization * (sum
of squared core entries), on values centred and scaled to unit variance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tensorveil.errors import InputError
from tensorveil.kernels.cp_als import cp_als_mode
from tensorveil.kernels.padded import Padded, pad, unpad
from tensorveil.kernels.rows import Rows, build_all_rows
from tensorveil.kernels.tucker_als import tucker_als_mode
from tensorveil.kernels.tucker_core import tucker_core
from tensorveil.solvers.all_cells import solve_all_cells
from tensorveil.solvers.als_stored import Ridge, StoredFit
from tensorveil.solvers.priors.point import SMALLEST_VARIANCE, PointPriors, solve_point_mode
from tensorveil.solvers.priors.row_prior import PriorFactory
from tensorveil.solvers.task import Array, Scaling, Solution, Task, standard_scaling, start_spread
from tensorveil.solvers.watch import Watch
from tensorveil.tensor.stored import StoredEntries

# Large cores are improved, not solved, in every sweep: the next sweep goes on from there.
_CORE_STEPS = 20


@dataclass(frozen=True, kw_only=True)
class ALS:
    """Settings of alternating least squares."""

    sweeps: int = 50
    tol: float = 1e-4
    regularization: float = 3.0
    regularization_per_entry: float = 0.0
    core_regularization: float = 3.0
    unlisted_weight: float = 1.0
    # By mode: priors that take the place of the penalty; their strength is learnt by evidence.
    priors: Mapping[int, PriorFactory] = field(default_factory=dict)


def solve_als(task: Task, settings: ALS, watch: Watch) -> Solution:
    """Fit by sweeps over the modes (and the core)."""
    if settings.regularization_per_entry and (task.zeros or task.nonnegative or settings.priors):
        raise InputError(
            "regularization_per_entry is for squared error of listed entries, without nonnegative, smooth and side. "
            "Leave it out."
        )
    if task.zeros or task.nonnegative:
        return solve_all_cells(task, settings, watch)
    if isinstance(task.entries, StoredEntries):
        return _solve_stored(StoredFit(task.entries.stored, task), task, settings, watch)
    scaling = standard_scaling(task)
    rows = _group(task, scaling)
    rng = np.random.default_rng(task.seed)
    spread = start_spread(task)
    factors = pad([spread * rng.standard_normal(s) for s in zip(task.shape, task.ranks, strict=True)], task.dtype)
    core = rng.standard_normal(task.ranks).astype(task.dtype) if task.core else None
    biases: tuple[Array, ...] = ()
    if task.baseline == "biases":
        biases = tuple(np.zeros(size, task.dtype) for size in task.shape)
    if settings.priors and task.core:
        raise InputError('smooth and side need solver="bayes" for Tucker. Leave out solver, or try CP.')
    own = PointPriors.start(settings.priors, task.ranks[0], settings.regularization)
    for _ in range(settings.sweeps):
        residual = _sweep(rows, factors, core, biases, settings, task.threads, own)
        own.variance = max(residual / task.n_entries, SMALLEST_VARIANCE)
        error = task.error(residual, scaling)
        if watch.step(
            train_error=error, criterion=error, size=error, solution=lambda: _solution(factors, core, biases, scaling)
        ):
            break
    return watch.result(lambda: _solution(factors, core, biases, scaling))


def _group(task: Task, scaling: Scaling) -> tuple[Rows, ...]:
    """Return the entries by the rows of every mode, with values as the solver sees them.

    They are scaled where they lie, in the order of every mode, rather than before in a copy of their own.
    """
    values = task.values
    if values.dtype != task.dtype:
        return build_all_rows(task.columns, scaling.apply(values, task.dtype), task.shape, threads=task.threads)
    rows = build_all_rows(task.columns, values, task.shape, threads=task.threads)
    for each in rows:
        scaling.apply_in_place(each.values)
    return rows


def _solve_stored(fit: StoredFit, task: Task, settings: ALS, watch: Watch) -> Solution:
    """Fit by the same sweeps on a store."""

    def solution() -> Solution:
        return _solution(fit.factors, fit.core, fit.biases, fit.scaling)

    for _ in range(settings.sweeps):
        ridge = Ridge(settings.regularization, settings.regularization_per_entry)
        residual = fit.sweep(ridge, settings.core_regularization, _CORE_STEPS)
        error = task.error(residual, fit.scaling)
        if watch.step(train_error=error, criterion=error, size=error, solution=solution):
            break
    return watch.result(solution)


def _sweep(
    rows: tuple[Rows, ...],
    factors: Padded,
    core: Array | None,
    biases: tuple[Array, ...],
    settings: ALS,
    threads: int | None,
    own: PointPriors,
) -> float:
    """Solve the rows of every mode, then the core; return the residual sum of squares."""
    residual = 0.0
    ridge, more = settings.regularization, settings.regularization_per_entry
    for mode, grouped in enumerate(rows):
        if mode in own.priors:
            residual = solve_point_mode(grouped, factors, mode, biases, own, threads)
        elif core is None:
            residual = cp_als_mode(
                grouped, factors, mode, biases, ridge=ridge, ridge_per_entry=more, threads=threads
            )  # fmt: skip
        else:
            residual = tucker_als_mode(
                grouped, core, factors, mode, biases, ridge=ridge, ridge_per_entry=more, threads=threads
            )  # fmt: skip
    if core is not None:
        fewest = min(rows, key=lambda grouped: grouped.shape[grouped.mode])
        ridge = settings.core_regularization
        residual = tucker_core(fewest, core, factors, biases, ridge=ridge, threads=threads, max_iterations=_CORE_STEPS)
    return residual


def _solution(factors: Padded, core: Array | None, biases: tuple[Array, ...], scaling: Scaling) -> Solution:
    return scaling.undo(
        tuple(unpad(factors)), None if core is None else core.copy(), tuple(b.copy() for b in biases) or None
    )
