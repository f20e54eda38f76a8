"""The private CP estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorveil.completion.central import CentralCompletion
from tensorveil.completion.settings import cp_ranks
from tensorveil.models import CPModel
from tensorveil.solvers.task import Solution
from tensorveil.tensor import Mode


@dataclass(eq=False, repr=False)
class PrivateCP(CentralCompletion[CPModel]):
    """Complete a tensor under differential privacy; what `model_` holds may be published with `guarantee_`.

    Parameters
    ----------
    rank
        Number of components: public, chosen without looking at the data.
    **settings
        The keyword arguments of `PrivateSettings` and `CentralSettings`.

    Attributes
    ----------
    model_
        The private `CPModel`.
    guarantee_
        The `Guarantee`: print it for one plain sentence.
    estimated_rmse_
        In unit "value": the release's own estimate of its root mean squared error, from a noisy histogram of its
        residuals. It is part of what the budget pays for and may be published; `predict` makes intervals of the same
        histogram.
    plan_
        What the planner guessed before anything was spent, and what was run.
    notes_
        What the method found worth measuring and why, in words: private, and part of the release.
    release_id_
        Names the release in the ledger, from the moment it is charged.

    Guarantee: (epsilon, delta) differential privacy for ``unit``, within ``bounds`` (docs/guarantees.md).

    Examples
    --------
    >>> import tensorveil as tv
    >>> ratings = tv.synthetic_cp((30, 20, 10), 2, random_state=0).train
    >>> fitted = tv.PrivateCP(rank=2, epsilon=5.0, delta=0.0, unit="value", bounds=(-0.5, 1.5)).fit(ratings)
    >>> fitted.guarantee_.status, fitted.model_.shape
    ('proven', (30, 20, 10))
    """

    rank: int

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        return cp_ranks(self.rank, shape)

    def _core(self) -> bool:
        return False

    def _model(self, solution: Solution, modes: Sequence[Mode], bounds: tuple[float, float]) -> CPModel:
        return CPModel(
            factors=solution.factors, offset=solution.offset, biases=solution.biases, modes=tuple(modes), bounds=bounds,
            remainder=solution.remainder,
        )  # fmt: skip
