"""The papers' descent without noise: objectives (6) and (7) of Wei, Li, Mao and Wang (2021), minimised as printed.

One entry after the other in a new random order each pass; for every entry the modes one after the other and then the
core, each at the residual of that moment; a fixed learning rate, and values that are neither centred nor scaled.
`tensorveil.solvers.sgd` minimises the same objectives quickly and well; this is what the papers did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorveil.errors import InputError
from tensorveil.kernels.padded import Padded, pad, unpad
from tensorveil.solvers.task import Array, Solution, Task, start_spread
from tensorveil.solvers.watch import Watch
from tensorveil_evidence.kernels.published import cp_sgd_published, tucker_sgd_published

CORE_REGULARIZATION = 0.0001  # lambda_g of the papers' simulation
STARTS = ("normal", "uniform")


@dataclass(frozen=True, kw_only=True)
class DescentSettings:
    """Settings of the published descent; ``sweeps`` are what the papers call passes. All of them are made."""

    sweeps: int = 100
    tol: float = -1.0
    learning_rate: float = 0.005
    regularization: float = 0.01
    core_regularization: float = CORE_REGULARIZATION
    start: str = "normal"


@dataclass(frozen=True, kw_only=True)
class State:
    """What the passes change in place."""

    factors: Padded
    core: Array | None

    def solution(self) -> Solution:
        """Return a copy of the parts as a solution."""
        core = None if self.core is None else self.core.copy()
        return Solution(factors=tuple(unpad(self.factors)), core=core, offset=0.0, biases=None)


def start(task: Task, rng: np.random.Generator, law: str = "normal") -> State:
    """Draw the random factors, and the core, from which the descent starts; the papers do not print their law.

    "normal": factors from N(0, s^2), s such that predictions have variance 1, and a core from N(0, 1); "uniform": all
    numbers from (0, 1), so that the first predictions are positive, as the scaled values are.
    """
    shapes = list(zip(task.shape, task.ranks, strict=True))
    if law == "uniform":
        factors = [rng.random(shape) for shape in shapes]
        core = rng.random(task.ranks) if task.core else None
    else:
        spread = start_spread(task)
        factors = [spread * rng.standard_normal(shape) for shape in shapes]
        core = rng.standard_normal(task.ranks) if task.core else None
    return State(factors=pad(factors, task.dtype), core=None if core is None else core.astype(task.dtype))


def descend(task: Task, settings: DescentSettings, watch: Watch) -> Solution:
    """Minimise by passes over the entries, each in a new random order."""
    rng = np.random.default_rng(task.seed)
    state = start(task, rng, settings.start)
    step = 2 * settings.learning_rate
    decay, core_decay = step * settings.regularization, step * settings.core_regularization
    for _ in range(settings.sweeps):
        data = (task.columns, task.values, rng.permutation(len(task.values)))
        if state.core is None:
            total = cp_sgd_published(*data, state.factors, step=step, decay=decay)
        else:
            total = tucker_sgd_published(
                *data, state.core, state.factors, step=step, decay=decay, core_decay=core_decay
            )  # fmt: skip
        if record_pass(total, task, state, watch):
            break
    return watch.result(state.solution)


def record_pass(total: float, task: Task, state: State, watch: Watch) -> bool:
    """Record a pass by its sum of squared errors; return True when the descent should stop."""
    if not np.isfinite(total):
        raise InputError(
            "learning_rate must be small enough for the fit to stay finite; it diverged. Try a tenth of learning_rate."
        )
    error = float(np.sqrt(total / len(task.values)))
    return watch.step(train_error=error, criterion=error, size=error, solution=state.solution)
