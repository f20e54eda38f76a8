"""The private estimator of low-rank matrices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tensorveil.completion.matrix import start_ranks, supported
from tensorveil.completion.private import PrivateCompletion
from tensorveil.completion.settings import choose
from tensorveil.errors import InputError
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.planner import Plan
from tensorveil.models import CPModel
from tensorveil.privacy import Budget, Ledger, Unit
from tensorveil.solvers.task import Solution
from tensorveil.tensor import Mode, ObservedTensor

# What fits perturbed values, and may use any solver; and what has no rank to find.
_PERTURBED, _RANKLESS = ("input", "margins+input"), ("mean", "margins")
_PLANNED_RANK = 8


def planned_ranks(rank: int | str, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the rank to plan for: as given, or where it is not known yet an ordinary one."""
    return start_ranks(rank, _PLANNED_RANK, shape)


class PrivateLowRankMatrix(PrivateCompletion[CPModel]):
    """Complete a matrix under differential privacy; what `model_` holds may be published with `guarantee_`.

    Parameters
    ----------
    rank
        Number of components, at most the smaller side: public, chosen without looking at the data. Or "auto": found by
        the solver from values that are already perturbed, which costs nothing.
    solver
        How perturbed values are fitted: "bayes" (default) knows the noise and shrinks accordingly. "dlnm_qr", "sor" and
        "altmin" do not and fit the noise as well; with them ``method`` is "input" ("auto" means that) or
        "margins+input".
    max_rank
        Where rank="auto" starts from, at most the smaller side.

    The other parameters and the attributes are those of `PrivateCP`; the model is a `CPModel` of two modes.

    Guarantee: (epsilon, delta) differential privacy for ``unit``, within ``bounds`` (docs/guarantees.md).

    Examples
    --------
    >>> import numpy as np, tensorveil as tv
    >>> rng = np.random.default_rng(0)
    >>> ratings = tv.ObservedTensor.from_dense(np.clip(3 + rng.normal(size=(60, 2)) @ rng.normal(size=(2, 40)), 1, 5))
    >>> fitted = tv.PrivateLowRankMatrix(2, epsilon=5.0, delta=0.0, unit="value", bounds=(1, 5)).fit(ratings)
    >>> fitted.guarantee_.status, fitted.model_.shape
    ('proven', (60, 40))
    """

    def __init__(
        self,
        rank: int | str,
        *,
        epsilon: float,
        delta: float,
        unit: str | Unit,
        bounds: Sequence[float],
        method: str = "auto",
        solver: str = "bayes",
        max_rank: int = 32,
        ledger: str | os.PathLike[str] | Ledger | None = None,
        purpose: str = "private completion",
        sweeps: int = 100,
        restarts: int = 3,
        shape: Sequence[int] | None = None,
        threads: int | None = None,
        random_state: Any = None,
        noise_seed: int | None = None,
        protect: str | None = None,
        contributions: float | None = None,
    ) -> None:
        self.rank = rank
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.bounds = bounds
        self.method = method
        self.solver = solver
        self.max_rank = max_rank
        self.ledger = ledger
        self.purpose = purpose
        self.sweeps = sweeps
        self.restarts = restarts
        self.shape = shape
        self.threads = threads
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.protect = protect
        self.contributions = contributions

    @property
    def rank_(self) -> int:
        """The rank of the fitted model: as asked, or as found."""
        return self._fitted().rank

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        return start_ranks(self.rank, self.max_rank, shape)

    def _core(self) -> bool:
        return False

    def _slice_rank(self, shape: Sequence[int]) -> int:
        if self.solver != "bayes":
            raise InputError('solver has no meaning for unit="slice", which is fitted in rounds. Leave it out.')
        return planned_ranks(self.rank, shape)[0]

    def _form(self, tensor: ObservedTensor) -> Form:
        choose("solver", self.solver, ("bayes", "dlnm_qr", "sor", "altmin"))
        if self.rank == "auto" and self.solver not in ("bayes", "sor"):
            raise InputError(
                f'rank="auto" has no meaning for solver="{self.solver}". Give a number, or try solver="bayes".'
            )
        return replace(super()._form(tensor), solver=self.solver, estimate_rank=self.rank == "auto")

    def _choose(
        self, tensor: ObservedTensor, form: Form, unit: Unit, budget: Budget, bounds: tuple[float, float]
    ) -> Plan:
        allowed: tuple[str, ...] = _PERTURBED
        if self.solver == "bayes":
            if self.rank != "auto":
                return super()._choose(tensor, form, unit, budget, bounds)
            allowed = (*_PERTURBED, *_RANKLESS)
            form = replace(form, ranks=planned_ranks("auto", tensor.shape))
        asked = f'rank="{self.rank}"' if self.solver == "bayes" else f'solver="{self.solver}"'
        if unit.kind != "value" or self.method not in ("auto", *allowed):
            words = ", ".join(f'"{name}"' for name in allowed)
            raise InputError(f'{asked} needs unit="value" and method "auto" or one of {words}.')
        plan = super()._choose(tensor, form, unit, budget, bounds)
        if self.method != "auto" or (plan.method in allowed and self.solver == "bayes"):
            return plan
        best = next(found for found in plan.predictions if found.method in allowed)
        return replace(plan, method=best.method, noise=best.noise)

    def _model(self, solution: Solution, modes: Sequence[Mode], bounds: tuple[float, float]) -> CPModel:
        factors = supported(solution.factors) if self.rank == "auto" else solution.factors
        return CPModel(
            factors=factors, offset=solution.offset, biases=solution.biases, modes=tuple(modes), bounds=bounds
        )
