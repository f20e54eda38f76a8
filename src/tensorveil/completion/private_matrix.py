"""The private estimator of low-rank matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

from tensorveil.completion.central import CentralCompletion
from tensorveil.completion.job import Promise
from tensorveil.completion.matrix import drop_unsupported, start_ranks
from tensorveil.completion.settings import choose
from tensorveil.errors import InputError
from tensorveil.mechanisms.catalogue import METHODS
from tensorveil.mechanisms.data import Form
from tensorveil.mechanisms.planner import Plan
from tensorveil.models import CPModel
from tensorveil.solvers.task import Solution
from tensorveil.tensor import Mode

_PLANNED_RANK = 8


def plan_ranks(rank: int | str, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the rank to plan for: the given one, or an ordinary one if it is still to be found."""
    return start_ranks(rank, _PLANNED_RANK, shape)


@dataclass(eq=False, repr=False)
class PrivateLowRankMatrix(CentralCompletion[CPModel]):
    """Complete a matrix under differential privacy; what `model_` holds may be published with `guarantee_`.

    Parameters
    ----------
    rank
        Number of components, at most the smaller side: public, chosen without looking at the data. Or "auto": found by
        the solver from values that are already perturbed, which costs nothing.
    solver
        How perturbed values are fitted: "bayes" (default) knows the noise and shrinks accordingly. "dlnm_qr", "sor" and
        "altmin" do not, and fit the noise as well; they need a ``method`` that fits perturbed values, which "auto" then
        chooses.
    max_rank
        Where rank="auto" starts from, at most the smaller side.
    **settings
        The keyword arguments of `PrivateSettings` and `CentralSettings`.

    The attributes are those of `PrivateCP`; the model is a `CPModel` of two modes.

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

    rank: int | str
    _: KW_ONLY
    solver: str = "bayes"
    max_rank: int = 32

    @property
    def rank_(self) -> int:
        """The rank of the fitted model: as asked, or as found."""
        return self._fitted().rank

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        return start_ranks(self.rank, self.max_rank, shape)

    def _core(self) -> bool:
        return False

    def _form(self, shape: Sequence[int]) -> Form:
        choose("solver", self.solver, ("bayes", "dlnm_qr", "sor", "altmin"))
        if self.rank == "auto" and self.solver not in ("bayes", "sor"):
            raise InputError(
                f'rank="auto" has no meaning for solver="{self.solver}". Give a number, or try solver="bayes".'
            )
        return replace(super()._form(shape), solver=self.solver, estimate_rank=self.rank == "auto")

    def _plan(self, form: Form, promise: Promise) -> Plan:
        if self.solver == "bayes" and self.rank != "auto":
            return super()._plan(form, promise)
        # A solver fits perturbed values; a rank is found from these, or there is none to find.
        allowed = [
            name
            for name, method in METHODS.items()
            if method.unit == "value" and (method.fits_values or (self.solver == "bayes" and not method.has_rank))
        ]
        if self.solver == "bayes":
            form = replace(form, ranks=plan_ranks("auto", promise.declared.shape))
        if promise.unit.kind != "value" or self.method not in ("auto", *allowed):
            asked = f'rank="{self.rank}"' if self.solver == "bayes" else f'solver="{self.solver}"'
            words = ", ".join(f'"{name}"' for name in allowed)
            raise InputError(f'{asked} needs unit="value" and method "auto" or one of {words}.')
        plan = super()._plan(form, promise)
        if self.method != "auto" or (plan.method in allowed and self.solver == "bayes"):
            return plan
        best = next(found for found in plan.predictions if found.method in allowed)
        return replace(plan, method=best.method, noise=best.noise)

    def _model(self, solution: Solution, modes: Sequence[Mode], bounds: tuple[float, float]) -> CPModel:
        factors = drop_unsupported(solution.factors) if self.rank == "auto" else solution.factors
        return CPModel(
            factors=factors, offset=solution.offset, biases=solution.biases, modes=tuple(modes), bounds=bounds,
            remainder=solution.remainder,
        )  # fmt: skip
