"""Fit models to perturbed values whose noise is known. Post-processing only: nothing here sees what is private."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorveil.mechanisms.data import Array, Form
from tensorveil.mechanisms.design import predict_entries
from tensorveil.solvers.bayes import Bayes, Scatter, Start, solve_bayes
from tensorveil.solvers.catalogue import MATRIX_SOLVERS
from tensorveil.solvers.task import Baseline, Record, Solution, Task, standard_scaling
from tensorveil.solvers.watch import Watch
from tensorveil.tensor.entries import MemoryEntries

# Effects that residuals are held against count within so many spreads.
_WEIGHT = 3.0


@dataclass(frozen=True, kw_only=True)
class Perturbed:
    """Where values were perturbed, and the noise that they got: its variance, and how it is spread if not evenly."""

    columns: Array
    shape: tuple[int, ...]
    noise: float
    scatter: Scatter | None = None


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A fit of perturbed values, and its evidence: comparable for the same values, whatever was taken off them.

    Solvers that do not know the noise have none.
    """

    solution: Solution
    evidence: float = -math.inf


def fit_values(perturbed: Perturbed, values: Array, form: Form, *, once: bool = False) -> Fitted:
    """Fit a model to perturbed values; ``once`` from the values' spectrum only, without biases."""
    task = Task(
        entries=MemoryEntries(columns=perturbed.columns, values=values, shape=perturbed.shape),
        ranks=form.ranks,
        core=form.core,
        baseline="none",
        dtype=np.dtype(np.float64),
        threads=form.threads,
        seed=form.seed,
    )
    if form.solver != "bayes":
        return Fitted(solution=_fit_by_solver(task, form))
    return _fit_noise_aware(task, perturbed, form, once=once)


def predict_solution(solution: Solution, columns: Array, threads: int | None) -> Array:
    """Return what a fitted model says at coordinates, without bounds: predictions, if its link is the identity."""
    total = solution.offset + predict_entries(columns, solution.core, solution.factors, threads)
    for bias, column in zip(solution.biases or (), columns, strict=False):
        total = total + bias[column]
    return total if solution.remainder is None else total + solution.remainder[tuple(columns)]


def predict_unseen(solution: Solution, unseen: Array | None, columns: Array) -> Array:
    """Return what a fitted model predicts at coordinates, with what it would say ``unseen``, by cell, added.

    With one thread, for work beside other work.
    """
    total = predict_solution(solution, columns, 1)
    return total if unseen is None else np.asarray(total + unseen[tuple(columns)])


def solution_within(solution: Solution, unseen: Array | None, bounds: tuple[float, float], columns: Array) -> Array:
    """Return predictions, by the link and within bounds, as `predict_unseen` has them on the linear scale."""
    within: Array = np.clip(solution.link.mean(predict_unseen(solution, unseen, columns)), *bounds)
    return within


def weigh(effect: Array, spread: float) -> Array:
    """Return what an effect counts at entries where residuals are held against it: it is cut at some spreads."""
    return np.asarray(np.clip(effect / spread, -_WEIGHT, _WEIGHT))


def weigh_solution(solution: Solution, unseen: Array | None, middle: float, spread: float, columns: Array) -> Array:
    """Return what the predictions of a model count, around their mean, as rows of one number."""
    return weigh(predict_unseen(solution, unseen, columns) - middle, spread)[:, None]


def _fit_by_solver(task: Task, form: Form) -> Solution:
    """Fit by a matrix solver that does not know the noise."""
    kind, solve = MATRIX_SOLVERS[form.solver]
    more = {"estimate_rank": True} if form.estimate_rank else {}
    settings = kind(sweeps=form.sweeps, **more)
    return solve(task, settings, _watch(settings, form))


def _watch(settings: Any, form: Form, restart: int = 0) -> Watch:
    def tell(record: Record) -> None:
        form.tell("sweeps for components", record.iteration, record.iterations)

    return Watch(iterations=settings.sweeps, tol=settings.tol, patience=1, restart=restart, progress=tell)


def _fit_noise_aware(task: Task, perturbed: Perturbed, form: Form, *, once: bool) -> Fitted:
    """Fit in several ways and keep the one with the best evidence bound.

    With separate biases the components are free for interactions; without them, components may represent biases better.
    Both are tried from the spectrum of the data, then random starts.
    """
    ways: list[tuple[Baseline, Start]] = [("none", "spectral"), ("biases", "spectral")]
    ways += [("none", "random")] * max(form.restarts - 2, 0)
    best: Fitted | None = None
    for restart, (baseline, start) in enumerate(ways[: 1 if once else form.restarts]):
        settings = Bayes(
            sweeps=form.sweeps,
            noise_variance=perturbed.noise,
            scatter=perturbed.scatter,
            estimate_rank=form.estimate_rank,
            start=start,
            priors=form.smooth,
        )
        watch = _watch(settings, form, restart)
        turn = replace(task, baseline=baseline, seed=task.seed + restart)
        solution = solve_bayes(turn, settings, watch)
        bound = watch.history[-1].bound
        assert bound is not None
        evidence = bound - task.n_entries * math.log(standard_scaling(turn).scale)  # of the values as they are
        if best is None or evidence > best.evidence:
            best = Fitted(solution=solution, evidence=evidence)
    assert best is not None
    return best
