"""What a solver is given and what it gives back, the same for every solver and model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Baseline = Literal["none", "mean", "biases"]
Progress = Callable[["Record"], None]


@dataclass(frozen=True, kw_only=True)
class Task:
    """Entries to fit and the form of the model: CP if ``core`` is False (all ranks equal), else Tucker."""

    columns: Array
    values: Array
    shape: tuple[int, ...]
    ranks: tuple[int, ...]
    core: bool
    baseline: Baseline
    dtype: np.dtype[Any]
    threads: int | None
    seed: int

    @property
    def order(self) -> int:
        """Number of modes."""
        return len(self.shape)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One line of a fit's history. It is computed from the data: a diagnostic, not part of a release."""

    restart: int
    iteration: int
    iterations: int
    seconds: float
    train_rmse: float
    validation_rmse: float | None = None
    bound: float | None = None


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The parts of a fitted model, in the units of the data; ``core`` is None for CP."""

    factors: tuple[Array, ...]
    core: Array | None
    offset: float
    biases: tuple[Array, ...] | None
    noise_variance: float | None = None


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """How the solver sees the values: (x - offset) / scale."""

    offset: float
    scale: float

    def apply(self, values: Array, dtype: np.dtype[Any]) -> Array:
        """Return the values as the solver sees them."""
        if self.offset == 0.0 and self.scale == 1.0:
            return values.astype(dtype, copy=False)
        out: Array = (values - values.dtype.type(self.offset)) / values.dtype.type(self.scale)
        return out.astype(dtype, copy=False)

    def undo(
        self,
        factors: tuple[Array, ...],
        core: Array | None,
        biases: tuple[Array, ...] | None,
        variance: float | None = None,
    ) -> Solution:
        """Return the fitted parts in the units of the data."""
        if core is None:
            share = self.scale ** (1.0 / len(factors))
            factors = tuple(f * f.dtype.type(share) for f in factors)
        else:
            core = core * core.dtype.type(self.scale)
        return Solution(
            factors=factors,
            core=core,
            offset=self.offset,
            biases=None if biases is None else tuple(b * b.dtype.type(self.scale) for b in biases),
            noise_variance=None if variance is None else variance * self.scale**2,
        )


def standard_scaling(task: Task) -> Scaling:
    """Centre and scale to unit variance, so that settings do not depend on the data's units."""
    offset = 0.0 if task.baseline == "none" else float(task.values.mean(dtype=np.float64))
    spread = float(np.sqrt(np.mean((task.values.astype(np.float64, copy=False) - offset) ** 2)))
    return Scaling(offset=offset, scale=spread if spread > 0 else 1.0)


def start_spread(task: Task, target: float = 1.0) -> float:
    """Return the standard deviation of random factors whose model has about variance ``target``."""
    terms = float(np.prod(task.ranks)) if task.core else float(task.ranks[0])
    return float((target / terms) ** (0.5 / task.order))
