"""DLNM_QR: completion by the L2,1 norm with CSVD-QR in place of singular values (Guo 2025, eq. 18 to 23).

Each sweep: one warm step of CSVD-QR on the completed matrix X, X = L D R; columns of D shrunk,
d <- max(|d| - 1/mu, 0) / |d| d; X becomes L D R where nothing is observed and the observed values elsewhere;
mu <- rho mu. The paper's eq. 20 leaves out the factor d on its right-hand side; without it the step is not a shrinkage.

With ``multiplier`` the step is taken of X + Y/mu, as alternating directions have it, and Y <- Y + mu (X - L D R) (eq.
22), which is zero where nothing is observed. With some hundred rows both forms end at the same fit where mu grows fast
enough, and the one with the multiplier is there sooner. Where mu grows slowly it follows the noise in the values, the
more so the larger the noise: docs/published.md#matrix-perturbation has the figures. So it is not the default.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorveil.kernels.thin import orthonormal
from tensorveil.solvers.completed import Completed, open_completed, size_of
from tensorveil.solvers.task import Array, Solution, Task, standard_scaling
from tensorveil.solvers.watch import Watch

# What the first sweep takes off, as a share of the longest column; and the share that no longer matters.
_FIRST, _SETTLED = 0.1, 1e-3


@dataclass(frozen=True, kw_only=True)
class DLNMQR:
    """Settings of DLNM_QR: ``penalty`` is the first mu, on values scaled to unit variance, and ``growth`` is rho.

    The paper prints neither. By default the first sweep shrinks columns by a tenth of the longest. ``multiplier``: with
    eq. 22. ``as_given``: a wide matrix is not transposed for speed; sweeps of the two differ, their limit does
    not where the rank is right.
    """

    sweeps: int = 400
    tol: float = 1e-5
    penalty: float | None = None
    growth: float = 1.1
    multiplier: bool = False
    as_given: bool = False


def solve_dlnm_qr(task: Task, settings: DLNMQR, watch: Watch) -> Solution:
    """Fit a matrix by sweeps of CSVD-QR and shrinkage."""
    scaling = standard_scaling(task)
    values = scaling.apply(task.values, task.dtype)
    with open_completed(task, values, as_given=settings.as_given) as matrix:
        product, _ = matrix.residual_times_b()
        threshold = None if settings.penalty is None else 1.0 / settings.penalty
        for _ in range(settings.sweeps):
            longest = _sweep(matrix, product, threshold)
            if settings.multiplier:
                product, squares = matrix.lagged_times_b(settings.growth)
            else:
                product, squares = matrix.residual_times_b()
            threshold = (longest * _FIRST if threshold is None else threshold) / settings.growth
            error = task.error(squares, scaling)
            # While shrinkage is still being relaxed, a fit that stands still has not converged.
            settled = settings.growth == 1.0 or threshold <= _SETTLED * longest
            if watch.step(
                train_error=error, criterion=error if settled else np.nan, size=size_of(error, scaling),
                solution=lambda: matrix.solution(scaling),
            ):  # fmt: skip
                break
        return watch.result(lambda: matrix.solution(scaling))


def _sweep(matrix: Completed, product: Array, threshold: float | None) -> float:
    """Replace A and B, given S B; return the length of D's longest column before shrinkage."""
    # X B = S B + A, because the columns of B are orthonormal.
    left, _ = orthonormal(product + matrix.a)
    right, triangle = orthonormal(matrix.transposed_times(left))
    # X' L = right T, so D = T': the columns of D are the rows of T.
    lengths = np.linalg.norm(triangle, axis=1)
    longest = float(lengths.max())
    core = triangle.T * shrinkage(lengths, _FIRST * longest if threshold is None else threshold)
    matrix.replace(left @ core.astype(left.dtype), right)
    return longest


def shrinkage(lengths: Array, threshold: float) -> Array:
    """Return the factors by which vectors of these lengths shrink: max(length - threshold, 0) / length."""
    factors: Array = np.maximum(lengths - threshold, 0.0) / np.where(lengths > 0, lengths, 1.0)
    return factors
