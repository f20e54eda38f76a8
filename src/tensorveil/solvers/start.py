"""Where fits of any loss begin: a random model around the mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorveil.solvers.task import Array, Scaling, Task, start_spread


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """A model to begin with, as the solver sees the values, and the least value that its parameters may take."""

    factors: list[Array]
    core: Array | None
    offset: float
    lowest: float


def random_start(task: Task, scaling: Scaling, variance: float, *, scaled: float = 1.0) -> Start:
    """Return a random model around the mean, positive where signs are fixed.

    Its linear parts vary by ``variance``, or by ``scaled`` where values are scaled to unit variance.
    """
    rng = np.random.default_rng(task.seed)
    shapes = list(zip(task.shape, task.ranks, strict=True))
    mean = task.mean_known()
    if task.nonnegative:
        terms = float(np.prod(task.ranks)) if task.core else float(task.ranks[0])
        target = float(task.loss.link.linear(np.array([max(mean, 1e-6)]))[0]) / scaling.scale
        size = 2.0 * (max(target, 1e-6) / terms) ** (1.0 / task.order)
        factors = [size * rng.uniform(0.05, 1.0, shape) for shape in shapes]
        core = rng.uniform(0.5, 1.5, task.ranks) if task.core else None
        return Start(factors=factors, core=core, offset=0.0, lowest=0.0)
    offset = float(task.loss.link.linear(np.array([mean]))[0]) if task.has_offset else 0.0
    spread = start_spread(task, scaled if task.loss.scalable else variance)
    factors = [spread * rng.standard_normal(shape) for shape in shapes]
    core = rng.standard_normal(task.ranks) if task.core else None
    return Start(factors=factors, core=core, offset=offset, lowest=-math.inf)
