"""What a solver asks of a prior that speaks of each row of a mode, or of all together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.coupled import RowSums, SolvedRows
from tensorveil.kernels.posterior import Posterior

Array = NDArray[Any]


class RowPrior(Protocol):
    """A prior of all rows of one mode. ``center`` and ``alpha`` are per component: a mean and a precision."""

    def solve(
        self, sums: RowSums, center: Array, alpha: Array, variance: float, beta: float | None, bias: Array
    ) -> SolvedRows:
        """Return the rows' posterior, given what their entries sum up to and the biases as they were."""

    def learn(self, posterior: Posterior, mode: int, alpha: Array) -> tuple[Array, Array]:
        """Re-estimate the prior from the rows; return the new center and alpha."""

    def evidence(self, posterior: Posterior, mode: int, center: Array, alpha: Array) -> float:
        """Return the expected log density of the rows, with half a unit added for each of their numbers."""

    def rescale(self, scales: Array) -> None:
        """Follow components that were multiplied."""


# Makes the prior of a mode's rows, of which the rank is given.
PriorFactory = Callable[[int], RowPrior]


def solve_biases(sums: RowSums, means: Array, variance: float, beta: float | None, n_rows: int) -> tuple[Array, Array]:
    """Return the biases' means and variances, given the rows' means; zeros without biases."""
    if beta is None:
        return np.zeros(n_rows), np.zeros(n_rows)
    spread = 1.0 / (sums.count / variance + beta)
    return (sums.value - np.einsum("ir,ir->i", sums.design, means)) / variance * spread, spread
