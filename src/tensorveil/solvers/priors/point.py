"""Priors of their own in alternating least squares: the rows' posterior mean, given point estimates of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.coupled import cp_point_sums
from tensorveil.kernels.padded import Padded
from tensorveil.kernels.posterior import hold_rows
from tensorveil.kernels.rows import Rows
from tensorveil.solvers.priors.row_prior import PriorFactory, RowPrior

Array = NDArray[Any]

SMALLEST_VARIANCE = 1e-10


@dataclass(kw_only=True)
class PointPriors:
    """The priors by mode, with center and precision per component; the variance of residuals; the others' penalty."""

    priors: dict[int, RowPrior]
    center: dict[int, Array]
    alpha: dict[int, Array]
    penalty: float
    variance: float = 1.0

    @staticmethod
    def start(priors: Mapping[int, PriorFactory], rank: int, penalty: float) -> PointPriors:
        """Return priors that know nothing yet."""
        return PointPriors(
            priors={mode: make(rank) for mode, make in priors.items()},
            center={mode: np.zeros(rank) for mode in priors},
            alpha={mode: np.full(rank, max(penalty, SMALLEST_VARIANCE)) for mode in priors},
            penalty=penalty,
        )


def solve_point_mode(
    rows: Rows, factors: Padded, mode: int, biases: tuple[Array, ...], own: PointPriors, threads: int | None
) -> float:
    """Replace the rows of a mode (and its biases), learn their prior; return the residual sum of squares."""
    size, rank = factors.shape[mode], factors.ranks[mode]
    sums, square = cp_point_sums(rows, factors.views(), biases, threads)
    beta = own.penalty / own.variance if biases else None
    old = biases[mode].astype(np.float64) if biases else np.zeros(size)
    f, second, b, _, _ = own.priors[mode].solve(
        sums, center=own.center[mode], alpha=own.alpha[mode], variance=own.variance, beta=beta, bias=old
    )
    own.center[mode], own.alpha[mode] = own.priors[mode].learn(hold_rows(f, second), 0, own.alpha[mode])
    factors.arrays[mode][:, :rank] = f
    if biases:
        biases[mode][:] = b
    residual = square - 2 * b @ sums.value + sums.count @ (b * b) + np.einsum("ir,irs,is->", f, sums.gram, f)
    return float(residual - 2 * np.sum(f * (sums.target - b[:, None] * sums.design)))
