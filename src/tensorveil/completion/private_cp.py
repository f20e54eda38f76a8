"""The private CP estimator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tensorveil.completion.private import PrivateCompletion
from tensorveil.completion.settings import cp_ranks
from tensorveil.models import CPModel
from tensorveil.privacy import Ledger, Unit
from tensorveil.solvers.task import Solution
from tensorveil.tensor import Mode


class PrivateCP(PrivateCompletion[CPModel]):
    """Complete a tensor under differential privacy; what `model_` holds may be published with `guarantee_`.

    Parameters
    ----------
    rank
        Number of components: public, chosen without looking at the data.
    epsilon, delta
        The budget. With delta=0 noise is Laplace and norm-shaped and epsilon is pure; with a delta the planner may
        choose Gaussian noise.
    unit
        "value": neighbours differ in one value, positions (who has rated what) are public. "entry": neighbours differ
        by one entry, positions are private; ``shape`` must be declared, labels are not released. "slice": neighbours
        differ by all entries of one index of the mode ``protect``, such as all that one user did; ``shape`` must be
        declared (for the protected mode, an upper bound) and delta be above 0. Nothing of that mode is released: a
        person's own part is computed from the person's entries, by ``predict_for`` or ``personalise``.
    bounds
        Lowest and highest possible value: declared, never read off the data. Values outside are clipped.
    method
        "auto" lets the planner choose from public quantities; or "mean", "margins", "input", "margins+input",
        "output", "gradient" (unit value), "gram" (unit entry), "biases", "factors" (unit slice).
    ledger, purpose
        A `Ledger` or its path: the fit is charged there before anything is computed, for this purpose.
    sweeps, restarts, threads
        Of the solver: post-processing, as many as one likes.
    shape
        Shape of the tensor; required for units "entry" and "slice".
    random_state
        Seed of starting points. It never seeds noise.
    noise_seed
        For tests and studies only: seeded noise, and a guarantee that says NOT PRIVATE.
    protect
        Unit "slice": name of the protected mode; unit="slice:user" says the same.
    contributions
        Unit "slice": how many entries of one user count in full; by default this follows from the budget.

    Attributes
    ----------
    model_
        The private model.
    guarantee_
        The `Guarantee`: print it for one plain sentence.
    plan_
        What the planner predicted, and what was run.

    Guarantee: (epsilon, delta) differential privacy for ``unit``, within ``bounds`` (docs/guarantees.md).

    Examples
    --------
    >>> import tensorveil as tv
    >>> ratings = tv.synthetic_cp((30, 20, 10), 2, random_state=0).train
    >>> fitted = tv.PrivateCP(rank=2, epsilon=5.0, delta=0.0, unit="value", bounds=(-0.5, 1.5)).fit(ratings)
    >>> fitted.guarantee_.status, fitted.model_.shape
    ('proven', (30, 20, 10))
    """

    def __init__(
        self,
        rank: int,
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
        return cp_ranks(self.rank, shape)

    def _core(self) -> bool:
        return False

    def _model(self, solution: Solution, modes: Sequence[Mode], bounds: tuple[float, float]) -> CPModel:
        return CPModel(
            factors=solution.factors, offset=solution.offset, biases=solution.biases, modes=tuple(modes), bounds=bounds
        )
