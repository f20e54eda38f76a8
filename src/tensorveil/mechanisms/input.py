"""Input perturbation: every value gets noise of its own, and a solver that knows the noise does the rest at no cost.

A small share of the budget buys a private mean and spread. The residual is clipped to a few spreads, which is much
narrower than the declared bounds, and the noise is scaled to that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tensorveil.mechanisms.case import Case
from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.mean import private_mean, private_spread
from tensorveil.mechanisms.method import Method
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tradeoffs import (
    BIASES,
    INTERACTIONS,
    SIGNAL,
    bending,
    clipped_noise,
    input_gain,
    input_spreads,
    mean_share,
    parameters,
    shrinkage_error,
    slope,
    sum_bending,
)
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateValues
from tensorveil.solvers.bayes import Bayes, Start, solve_bayes
from tensorveil.solvers.catalogue import MATRIX_SOLVERS
from tensorveil.solvers.task import Baseline, Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor.entries import MemoryEntries

PROOFS = ("docs/guarantees.md#sums", "docs/guarantees.md#input", "docs/guarantees.md#post-processing")
_SPREAD_SHARE, _SLOPE_SHARE = 0.03, 0.01
_LEAST_SLOPE = 0.2
# The slopes of real data differ by this much from that of a Gaussian law.
_SLOPES_DIFFER = 0.1
# Components are lost below the first of these clarities and found above the second.
_LOST, _CLEAR = 0.8, 1.7


@dataclass(frozen=True, kw_only=True)
class InputFit:
    """A model fitted to perturbed values, and what it cost."""

    solution: Solution
    parts: tuple[Part, ...]


def fit_input(data: PrivateValues, form: Form, spend: Spend) -> InputFit:
    """Fit a model to perturbed residuals from a private mean.

    Guarantee: ``spend``, unit value (docs/guarantees.md#input).
    """
    share = mean_share(spend.noise, data.n_entries)
    for_mean, for_spread, for_values = spend.split(share, _SPREAD_SHARE, 1 - share - _SPREAD_SHARE)
    center = private_mean(data, for_mean)
    spread = private_spread(data, center, for_spread)
    parts = (
        for_mean.part("mean", "sum of the values"),
        for_spread.part("spread", "sum of squared deviations from the private mean"),
    )
    solution, more = fit_perturbed(data, form, for_values, np.full(data.n_entries, center), spread)
    solution = replace(solution, offset=solution.offset + center)
    return InputFit(solution=solution, parts=(*parts, *more))


def run_input(data: PrivateValues, form: Form, spend: Spend) -> Outcome:
    """Release a model fitted to perturbed residuals.

    Guarantee: ``spend``, unit value (docs/guarantees.md#input).
    """
    start = fit_input(data, form, spend)
    return Outcome(solution=start.solution, parts=start.parts)


def fit_perturbed(
    data: PrivateValues, form: Form, spend: Spend, baseline: Array, spread: float
) -> tuple[Solution, tuple[Part, ...]]:
    """Perturb clipped residuals from an already private baseline and fit them, their noise variance being known.

    Guarantee: ``spend``, unit value (docs/guarantees.md#input).
    """
    for_slope, for_values = spend.split(_SLOPE_SHARE, 1 - _SLOPE_SHARE)
    limit = min(spread * input_spreads(spend.noise, gain_of_input(spend, data, form)), data.width)
    residual = data.values.reveal() - baseline
    left = clipping_slope(data, residual, spread, limit, for_slope)
    noisy = for_values.values(np.clip(residual, -limit, limit), (-limit, limit))
    task = Task(
        entries=MemoryEntries(columns=data.columns, values=noisy.values / left, shape=data.shape),
        ranks=form.ranks,
        core=form.core,
        baseline="none",
        dtype=np.dtype(np.float64),
        threads=form.threads,
        seed=form.seed,
    )
    parts = (
        for_slope.part("slope of clipping", "sum of residuals times clipped residuals"),
        for_values.part("values", "every value, clipped and perturbed"),
    )
    if form.solver != "bayes":
        return _fit_by_solver(task, form), parts
    return fit_noise_aware(task, noisy.variance / left**2, form, laplace=spend.epsilon is not None), parts


def clipping_slope(data: PrivateValues, residual: Array, spread: float, limit: float, spend: Spend) -> float:
    """Return how much of the signal clipping leaves: the mean of r clip(r), over the square of the spread.

    For Gaussian residuals this is the slope with which clipped values follow the signal (Bussgang 1952), so dividing
    by it undoes, on average, the pull of clipping towards zero. The noisy mean is weighted by its known noise against
    the slope of a Gaussian law: with few entries and a small budget it would be noise alone.

    Guarantee: ``spend``, unit value (docs/guarantees.md#sums).
    """
    everything = np.zeros(data.n_entries, dtype=np.int64)
    products = np.minimum(np.abs(residual), limit) * np.minimum(np.abs(residual), data.width)
    noisy = spend.sums(products, 0.0, limit * data.width, everything, 1)
    whole = data.n_entries * spread**2
    expected, measured, noise = slope(limit / spread), noisy.values[0] / whole, noisy.variance / whole**2
    weight = _SLOPES_DIFFER**2 / (_SLOPES_DIFFER**2 + noise)
    return float(np.clip(expected + weight * (measured - expected), _LEAST_SLOPE, 1.0))


def gain_of_input(spend: Spend, data: PrivateValues, form: Form) -> float:
    """Return what noise on every value adds to predictions, for values within a width of 1."""
    return input_gain(spend.noise, data.n_entries, parameters(data.shape, form.ranks, form.core))


def _fit_by_solver(task: Task, form: Form) -> Solution:
    """Fit perturbed values by a matrix solver that does not know the noise. Post-processing only."""
    kind, solve = MATRIX_SOLVERS[form.solver]
    more = {"estimate_rank": True} if form.estimate_rank else {}
    settings = kind(sweeps=form.sweeps, **more)
    return solve(task, settings, Watch(iterations=settings.sweeps, tol=settings.tol, patience=1))


def fit_noise_aware(task: Task, variance: float, form: Form, *, laplace: bool = False) -> Solution:
    """Fit perturbed values in several ways and keep the one with the best evidence bound. Post-processing only.

    With separate biases the components are free for interactions; without them, components may represent biases better.
    Both are tried from the spectrum of the data, then random starts.
    """
    ways: list[tuple[Baseline, Start]] = [("none", "spectral"), ("biases", "spectral")]
    ways += [("none", "random")] * max(form.restarts - 2, 0)
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


def predict_start_error(case: Case) -> float:
    """Predict the error where the components are found."""
    spreads = input_spreads(case.noise, case.input_gain)
    per_value = clipped_noise(case.input_gain, spreads) + (1 - SIGNAL) * case.parameters / case.n_entries
    return shrinkage_error(SIGNAL, per_value) + bending(spreads)


def allow_for_loss(case: Case, error: float, clear: float) -> float:
    """Predict the error where components may be lost; biases, which are found all the same, remain.

    ``error`` is the error if they are found, which is certain from the clarity ``clear`` on.
    """
    found = min(max(math.log(case.clarity / _LOST) / math.log(clear / _LOST), 0.0), 1.0)
    count = float(sum(case.shape))
    spreads = input_spreads(case.noise, case.input_gain)
    gain = input_gain(case.noise, case.n_entries, count)
    per_value = clipped_noise(gain, spreads) + (1 - BIASES) * count / case.n_entries
    lost = INTERACTIONS + shrinkage_error(BIASES, per_value) + sum_bending(spreads)
    return found * error + (1 - found) * min(lost, SIGNAL)


def predict_error(case: Case) -> float:
    """Predict the error of input perturbation."""
    case = case.part(0.94)  # the rest is for mean, spread and slope
    return allow_for_loss(case, predict_start_error(case), _CLEAR) + case.side_noise


METHOD = Method(
    name="input",
    title="input perturbation",
    unit="value",
    run=run_input,
    proofs=PROOFS,
    expected=predict_error,
    fits_values=True,
)
