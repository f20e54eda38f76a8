"""Algorithm 3: descent as published, then noise on the rows of one factor."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tensorveil.completion import settings as rules
from tensorveil.privacy import Guarantee
from tensorveil.solvers.task import Solution, Task
from tensorveil.solvers.watch import Watch
from tensorveil.tensor import ObservedTensor
from tensorveil_evidence.published.claims import output_claim
from tensorveil_evidence.published.descent import DescentSettings, descend
from tensorveil_evidence.published.estimator import PerturbedDescent
from tensorveil_evidence.published.noise import norm_shaped
from tensorveil_evidence.published.parts import find_noisy, sizes_of_parts


@dataclass(kw_only=True, eq=False, repr=False)
class OutputPerturbation(PerturbedDescent):
    """Private output perturbation as printed (Wei, Li, Mao and Wang, Algorithm 3). For study: writes no release.

    Parameters
    ----------
    lipschitz
        L, the Lipschitz constant that the paper supposes; its sensitivity is 2 * passes * L * learning_rate.
    noisy_mode
        The mode (position or name) whose rows get noise of density proportional to exp(-epsilon ||n|| / sensitivity).
        Default: the last one.
    spread
        Divide the budget among all outputs instead, as section 4.4 of the paper suggests: equal parts for the factors
        and the core, which gets noise of the same shape as one vector.

    The other parameters and the attributes are those of `InputPerturbation`, without bounds and clamp.

    Guarantee: none; the claim is epsilon (docs/published.md#output-perturbation).

    Examples
    --------
    >>> import tensorveil as tv
    >>> from tensorveil_evidence.published import OutputPerturbation
    >>> problem = tv.paper_problem(random_state=0)
    >>> fit = OutputPerturbation("cp", 3, epsilon=1.0, lipschitz=0.5, passes=2, random_state=1, verbose=False)
    >>> fit.fit(problem.train).sensitivity_
    0.01
    """

    lipschitz: float
    noisy_mode: int | str = -1
    spread: bool = False

    def _check_own(self, tensor: ObservedTensor) -> None:
        lipschitz = rules.number("lipschitz", self.lipschitz, above=0.0, remedy=1.0)
        self._mode = find_noisy(tensor.modes, self.noisy_mode, self.spread)
        self.sensitivity_ = 2.0 * self.passes * lipschitz * self.learning_rate

    def _solve(self, task: Task, settings: DescentSettings, watch: Watch, noise: np.random.Generator) -> Solution:
        solution = descend(task, settings, watch)
        factors, core = list(solution.factors), solution.core
        modes = range(task.order) if self._mode is None else (self._mode,)
        scale = self.sensitivity_ / self.epsilon * (1 if self._mode is not None else len(sizes_of_parts(task)))
        for mode in modes:
            factors[mode] = factors[mode] + norm_shaped(noise, len(factors[mode]), factors[mode].shape[1], scale)
        if core is not None and self._mode is None:
            core = core + norm_shaped(noise, 1, core.size, scale).reshape(core.shape)
        return replace(solution, factors=tuple(factors), core=core)

    def _guarantee(self) -> Guarantee:
        return output_claim(self.epsilon, self._core(), self.spread)
