"""The private Tucker estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorveil.completion.central import CentralCompletion
from tensorveil.completion.settings import tucker_ranks
from tensorveil.models import TuckerModel
from tensorveil.solvers.task import Solution
from tensorveil.tensor import Mode


@dataclass(eq=False, repr=False)
class PrivateTucker(CentralCompletion[TuckerModel]):
    """Complete a tensor by a Tucker model under differential privacy.

    Parameters
    ----------
    rank
        One number for all modes (cut to the size of smaller modes), or one per mode: public, chosen without looking at
        the data.
    **settings
        The keyword arguments of `PrivateSettings` and `CentralSettings`.

    The attributes are those of `PrivateCP`; the model is a `TuckerModel`, whose core is released and perturbed like the
    factors.

    Guarantee: (epsilon, delta) differential privacy for ``unit``, within ``bounds`` (docs/guarantees.md).

    Examples
    --------
    >>> import tensorveil as tv
    >>> ratings = tv.synthetic_cp((30, 20, 10), 2, random_state=0).train
    >>> fitted = tv.PrivateTucker(rank=2, epsilon=5.0, delta=1e-6, unit="value", bounds=(-0.5, 1.5)).fit(ratings)
    >>> fitted.guarantee_.status, fitted.model_.core.shape
    ('proven', (2, 2, 2))
    """

    rank: int | Sequence[int]

    def _ranks(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tucker_ranks(self.rank, shape)

    def _core(self) -> bool:
        return True

    def _model(self, solution: Solution, modes: Sequence[Mode], bounds: tuple[float, float]) -> TuckerModel:
        assert solution.core is not None
        return TuckerModel(
            core=solution.core,
            factors=solution.factors,
            offset=solution.offset,
            biases=solution.biases,
            modes=tuple(modes),
            bounds=bounds,
            remainder=solution.remainder,
        )
