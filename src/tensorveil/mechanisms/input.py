"""Input perturbation: every value gets noise of its own, and a solver that knows the noise does the rest, for free.

A small share buys a private mean and spread; the residual is clipped to a few spreads, which is much narrower than the
declared bounds, and noise is scaled to that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tensorveil.mechanisms.data import Array, Form, Outcome, PrivateData
from tensorveil.mechanisms.margins import private_margins
from tensorveil.mechanisms.mean import private_mean, private_spread
from tensorveil.mechanisms.spend import Spend
from tensorveil.privacy import Part
from tensorveil.solvers.bayes import Bayes, solve_bayes
from tensorveil.solvers.registry import MATRIX_SOLVERS
from tensorveil.solvers.task import Solution, Task
from tensorveil.solvers.watch import Watch

PROOFS = ("docs/guarantees.md#sums", "docs/guarantees.md#input", "docs/guarantees.md#post-processing")
_SPREAD_SHARE, _MARGINS_SHARE = 0.03, 0.3


@dataclass(frozen=True, kw_only=True)
class Start:
    """A model fitted to perturbed values, with the private center and spread it rests on."""

    center: float
    spread: float
    solution: Solution
    parts: tuple[Part, ...]

    def residuals(self, data: PrivateData, spreads: float) -> tuple[Array, float]:
        """Return the values' deviations from the center, clipped to so many spreads, and that limit: still private."""
        limit = min(spreads * self.spread, data.width)
        return np.clip(data.values - self.center, -limit, limit), limit


def fit_input(data: PrivateData, form: Form, spend: Spend) -> Start:
    """Fit a model to perturbed residuals from a private mean; the model's offset is that mean.

    Guarantee: ``spend``, unit value (docs/guarantees.md#input).
    """
    share = mean_share(spend, data.n_entries)
    for_mean, for_spread, for_values = spend.split(share, _SPREAD_SHARE, 1 - share - _SPREAD_SHARE)
    center = private_mean(data, for_mean)
    spread = private_spread(data, center, for_spread)
    parts = (
        for_mean.part("mean", "sum of the values"),
        for_spread.part("spread", "sum of squared deviations from the private mean"),
    )
    solution, part = _fit_perturbed(data, form, for_values, np.full(data.n_entries, center), spread)
    solution = replace(solution, offset=solution.offset + center)
    return Start(center=center, spread=spread, solution=solution, parts=(*parts, part))


def run_input(data: PrivateData, form: Form, spend: Spend) -> Outcome:
    """Release a model fitted to perturbed residuals.

    Guarantee: ``spend``, unit value (docs/guarantees.md#input).
    """
    start = fit_input(data, form, spend)
    return Outcome(solution=start.solution, parts=start.parts, proofs=PROOFS)


def run_margins_input(data: PrivateData, form: Form, spend: Spend) -> Outcome:
    """Release private biases and a model fitted to the perturbed residuals they leave.

    Guarantee: ``spend``, unit value (docs/guarantees.md#sums, docs/guarantees.md#input).
    """
    for_margins, for_values = spend.split(_MARGINS_SHARE, 1 - _MARGINS_SHARE)
    margins = private_margins(data, for_margins)
    baseline = margins.at(data.columns)
    solution, part = _fit_perturbed(data, form, for_values, baseline, margins.spread)
    solution = replace(solution, offset=solution.offset + margins.offset, biases=margins.biases)
    return Outcome(solution=solution, parts=(*margins.parts, part), proofs=PROOFS)


def _fit_perturbed(
    data: PrivateData, form: Form, spend: Spend, baseline: Array, spread: float
) -> tuple[Solution, Part]:
    """Perturb clipped residuals from an already private baseline and fit them with their noise variance known."""
    limit = clip_limit(spend, spread, data.width)
    residual = np.clip(data.values - baseline, -limit, limit)
    noisy = spend.values(residual, (-limit, limit))
    task = Task(
        columns=data.columns,
        values=noisy.values,
        shape=data.shape,
        ranks=form.ranks,
        core=form.core,
        baseline="none",
        dtype=np.dtype(np.float64),
        threads=form.threads,
        seed=form.seed,
    )
    fit = fit_noise_aware if form.solver == "bayes" else _fit_as_asked
    return fit(task, noisy.variance, form), spend.part("values", "every value, clipped and perturbed")


def mean_share(spend: Spend, n: int) -> float:
    """Give the mean what keeps its noise near half a percent of the bounds' width, within 1 to 30 %."""
    return float(np.clip(280.0 / (spend.laplace_epsilon * n), 0.01, 0.3))


def clip_limit(spend: Spend, spread: float, width: float) -> float:
    """Clip tighter under more noise: 1 spread when it drowns everything, up to 2.5 when there is little."""
    return min(spread * min(1.0 + 0.1 * spend.laplace_epsilon, 2.5), width)


def _fit_as_asked(task: Task, variance: float, form: Form) -> Solution:
    """Fit perturbed values by a matrix solver that does not know of noise. Post-processing only."""
    kind, solve = MATRIX_SOLVERS[form.solver]
    more = {"estimate_rank": True} if form.estimate_rank else {}
    settings = kind(sweeps=form.sweeps, **more)
    return solve(task, settings, Watch(iterations=settings.sweeps, tol=settings.tol, patience=1))


def fit_noise_aware(task: Task, variance: float, form: Form) -> Solution:
    """Fit perturbed values from several starts; the best evidence bound wins. Post-processing only."""
    settings = Bayes(sweeps=form.sweeps, noise_variance=variance, estimate_rank=form.estimate_rank)
    best: tuple[float, Solution] | None = None
    for restart in range(form.restarts):
        watch = Watch(iterations=settings.sweeps, tol=settings.tol, patience=1, restart=restart)
        solution = solve_bayes(replace(task, seed=task.seed + restart), settings, watch)
        bound = watch.history[-1].bound
        assert bound is not None
        if best is None or bound > best[0]:
            best = (bound, solution)
    assert best is not None
    return best[1]
