"""Fit models to perturbed values whose noise is known. Post-processing only: nothing here sees what is private."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tensorveil.mechanisms.data import Array, Form
from tensorveil.mechanisms.design import predict_entries
from tensorveil.solvers.bayes import Bayes, Start, solve_bayes
from tensorveil.solvers.catalogue import MATRIX_SOLVERS
from tensorveil.solvers.task import Baseline, Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor.entries import MemoryEntries


@dataclass(frozen=True, kw_only=True)
class Perturbed:
    """Where values were perturbed, and the noise that they got: its variance, and whether it is Laplace."""

    columns: Array
    shape: tuple[int, ...]
    noise: float
    laplace: bool


def fit_values(perturbed: Perturbed, values: Array, form: Form, *, again: bool = False) -> Solution:
    """Fit a model to perturbed values; ``again`` for values that were fitted before, less what was found since."""
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
        return _fit_by_solver(task, form)
    return fit_noise_aware(task, perturbed.noise, form, laplace=perturbed.laplace, again=again)


def predict_solution(solution: Solution, columns: Array, threads: int | None) -> Array:
    """Return what a fitted model predicts at coordinates, without bounds."""
    total = solution.offset + predict_entries(columns, solution.core, solution.factors, threads)
    for bias, column in zip(solution.biases or (), columns, strict=False):
        total = total + bias[column]
    return total


def _fit_by_solver(task: Task, form: Form) -> Solution:
    """Fit by a matrix solver that does not know the noise."""
    kind, solve = MATRIX_SOLVERS[form.solver]
    more = {"estimate_rank": True} if form.estimate_rank else {}
    settings = kind(sweeps=form.sweeps, **more)
    return solve(task, settings, Watch(iterations=settings.sweeps, tol=settings.tol, patience=1))


def fit_noise_aware(task: Task, variance: float, form: Form, *, laplace: bool = False, again: bool = False) -> Solution:
    """Fit in several ways and keep the one with the best evidence bound.

    With separate biases the components are free for interactions; without them, components may represent biases better.
    Both are tried from the spectrum of the data, then random starts. Values that are fitted again have no biases left.
    """
    ways: list[tuple[Baseline, Start]] = [("none", "spectral"), ("biases", "spectral")]
    ways += [("none", "random")] * max(form.restarts - 2, 0)
    if again:
        ways = ways[:1]
    best: tuple[float, Solution] | None = None
    for restart, (baseline, start) in enumerate(ways[: form.restarts]):
        settings = Bayes(
            sweeps=form.sweeps, noise_variance=variance, laplace=laplace, estimate_rank=form.estimate_rank, start=start
        )
        watch = Watch(iterations=settings.sweeps, tol=settings.tol, patience=1, restart=restart)
        solution = solve_bayes(replace(task, baseline=baseline, seed=task.seed + restart), settings, watch)
        bound = watch.history[-1].bound
        assert bound is not None
        if best is None or bound > best[0]:
            best = (bound, solution)
    assert best is not None
    return best[1]
