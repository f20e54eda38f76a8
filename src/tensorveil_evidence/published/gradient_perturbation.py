"""Algorithm 2: descent as published, with clipped and noisy gradients for one factor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorveil.completion import settings as rules
from tensorveil.privacy import Guarantee
from tensorveil.solvers.task import Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor import ObservedTensor
from tensorveil_evidence.kernels.published_private import sgd_published_private
from tensorveil_evidence.published.claims import gradient_claim
from tensorveil_evidence.published.descent import DescentSettings, record_pass, start
from tensorveil_evidence.published.estimator import PerturbedDescent
from tensorveil_evidence.published.noise import norm_shaped
from tensorveil_evidence.published.parts import find_noisy, sizes_of_parts

CHUNK = 1 << 16  # visits whose noise is drawn at once: bounds the memory, whatever the number of entries


@dataclass(kw_only=True, eq=False, repr=False)
class GradientPerturbation(PerturbedDescent):
    """Private gradient perturbation as printed (Wei, Li, Mao and Wang, Algorithm 2). For study: writes no release.

    For every entry the rows of all modes but one move by their plain gradients; the gradient of the noisy mode's row is
    clipped to norm m, gets noise of density proportional to exp(-epsilon ||n|| / (2 m)), and moves it; for Tucker the
    core moves last, by its plain gradient.

    Parameters
    ----------
    clip_constant
        m, to whose norm the noisy mode's gradients are clipped; the paper's sensitivity is 2 m.
    noisy_mode
        The mode (position or name) on which all budget is spent; it takes its turn last. Default: the last one.
    spread
        Spend the budget in equal parts on all factors and the core instead, each with clipped gradients and noise: the
        general form, which the paper leaves aside "for the sake of simplicity".

    The other parameters and the attributes are those of `InputPerturbation`, without bounds and clamp.

    Guarantee: none; the claim is epsilon, whatever the number of passes (docs/published.md#gradient-perturbation).

    Examples
    --------
    >>> import tensorveil as tv
    >>> from tensorveil_evidence.published import GradientPerturbation
    >>> problem = tv.paper_problem(random_state=0)
    >>> fit = GradientPerturbation("cp", 3, epsilon=1.0, clip_constant=0.01, passes=2, random_state=1, verbose=False)
    >>> fit.fit(problem.train).sensitivity_
    0.02
    """

    clip_constant: float
    noisy_mode: int | str = -1
    spread: bool = False

    def _check_own(self, tensor: ObservedTensor) -> None:
        clip = rules.number("clip_constant", self.clip_constant, above=0.0, remedy=0.01)
        self._mode = find_noisy(tensor.modes, self.noisy_mode, self.spread)
        self.sensitivity_ = 2.0 * clip

    def _solve(
        self, task: Task, settings: DescentSettings, watch: Watch, noise: np.random.Generator
    ) -> Solution:  # fmt: skip
        rng = np.random.default_rng(task.seed)
        state = start(task, rng, settings.start)
        sizes = sizes_of_parts(task) if self._mode is None else (task.ranks[self._mode],)
        scale = self.sensitivity_ * len(sizes) / self.epsilon
        penalties = (settings.learning_rate, settings.regularization, settings.core_regularization)
        for _ in range(settings.sweeps):
            order, total = rng.permutation(len(task.values)), 0.0
            for first in range(0, len(order), CHUNK):
                visits = order[first : first + CHUNK]
                draws = np.concatenate([norm_shaped(noise, len(visits), size, scale) for size in sizes], axis=1)
                data = (task.columns, task.values, visits, state.core, state.factors, draws)
                total += sgd_published_private(*data, self._mode, self.clip_constant, *penalties)
            if record_pass(total, task, state, watch):
                break
        return state.solution()

    def _guarantee(self) -> Guarantee:
        return gradient_claim(self.epsilon, self._core(), self.spread)
