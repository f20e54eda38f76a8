"""The private Tucker estimator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tensorveil.completion.private import PrivateCompletion
from tensorveil.completion.settings import tucker_ranks
from tensorveil.models import TuckerModel
from tensorveil.privacy import Ledger, Unit
from tensorveil.solvers.task import Solution
from tensorveil.tensor import Mode


class PrivateTucker(PrivateCompletion[TuckerModel]):
    """Complete a tensor by a Tucker model under differential privacy.

    Parameters and attributes are those of `PrivateCP`; ``rank`` may be one number per mode, all of them public, and the
    core is released and perturbed like the factors.

    Guarantee: (epsilon, delta) differential privacy for ``unit``, within ``bounds`` (docs/guarantees.md).

    Examples
    --------
    >>> import tensorveil as tv
    >>> ratings = tv.synthetic_cp((30, 20, 10), 2, random_state=0).train
    >>> fitted = tv.PrivateTucker(rank=2, epsilon=5.0, delta=1e-6, unit="value", bounds=(-0.5, 1.5)).fit(ratings)
    >>> fitted.guarantee_.status, fitted.model_.core.shape
    ('proven', (2, 2, 2))
    """

    def __init__(
        self,
        rank: int | Sequence[int],
        *,
        epsilon: float,
        delta: float,
        unit: str | Unit,
        bounds: Sequence[float],
        method: str = "auto",
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
        )
