"""Nonlinear successive over-relaxation for matrices (Wen, Yin and Zhang 2012, LMaFit).

Each sweep, on the completed matrix Z = A B' + (1 + alpha) S: A <- orthonormal basis of Z B, B' <- A' Z. The relaxation
alpha grows while the residual falls slowly and is reset, and the sweep undone, when the residual rises. With
``estimate_rank`` the fit starts from too many columns and once, when the diagonal of a pivoted QR factor of Z B falls
off a cliff, keeps those before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorveil.kernels.thin import cross, orthonormal
from tensorveil.solvers.completed import Completed, open_completed, size_of
from tensorveil.solvers.task import Array, Solution, Task, standard_scaling
from tensorveil.solvers.watch import Watch

# A sweep that leaves less than this share of the residual is fast enough without more relaxation.
_FAST = 0.7
# The rank is cut where a drop of the diagonal is so many times the mean of the others, after so many sweeps.
_CLIFF, _SWEEPS_BEFORE = 10.0, 5


@dataclass(frozen=True, kw_only=True)
class SOR:
    """Settings of successive over-relaxation."""

    sweeps: int = 500
    tol: float = 1e-5
    estimate_rank: bool = False


@dataclass(kw_only=True)
class _Relaxation:
    """The over-relaxation alpha and by how much it grows next."""

    alpha: float = 0.0
    increment: float = 1.0

    def reset(self) -> None:
        self.increment = max(0.1 * self.alpha, 0.1 * self.increment)
        self.alpha = 0.0

    def grow(self) -> None:
        self.increment = max(self.increment, 0.25 * self.alpha)
        self.alpha += self.increment


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """The state to return to when a sweep makes things worse."""

    a: Array
    b: Array
    product: Array
    squares: float

    @classmethod
    def of(cls, matrix: Completed) -> _Kept:
        product, squares = matrix.residual_times_b()
        return cls(a=matrix.a.copy(), b=matrix.b.copy(), product=product.copy(), squares=squares)


def solve_sor(task: Task, settings: SOR, watch: Watch) -> Solution:
    """Fit a matrix by over-relaxed sweeps."""
    scaling = standard_scaling(task)
    with open_completed(task, scaling.apply(task.values, task.dtype)) as matrix:
        relaxation, kept = _Relaxation(), _Kept.of(matrix)
        estimating = settings.estimate_rank and matrix.rank > 1
        for sweep in range(settings.sweeps):
            diagonal = _sweep(matrix, kept, 1.0 + relaxation.alpha, pivot=estimating)
            tried = _Kept.of(matrix)
            rank = find_cliff(diagonal) if estimating and sweep >= _SWEEPS_BEFORE else None
            if rank is not None:
                matrix.keep_columns(rank)
                estimating, relaxation, kept = False, _Relaxation(), _Kept.of(matrix)
            elif tried.squares >= kept.squares:
                relaxation.reset()
                matrix.replace(kept.a, kept.b)
                matrix.residual_times_b()
            else:
                if tried.squares > _FAST**2 * kept.squares:
                    relaxation.grow()
                kept = tried
            # The residual that was tried, not the one returned to: an undone sweep does not mean convergence.
            error, now = (task.error(k.squares, scaling) for k in (kept, tried))
            size = size_of(error, scaling)
            if watch.step(train_error=error, criterion=now, size=size, solution=lambda: matrix.solution(scaling)):
                break
        return watch.result(lambda: matrix.solution(scaling))


def _sweep(matrix: Completed, kept: _Kept, weight: float, *, pivot: bool) -> Array:
    """Replace A and B; return the diagonal of the (pivoted) QR factor of Z B = A (B'B) + w S B."""
    gram = cross(matrix.b, matrix.b).astype(kept.product.dtype)
    left, triangle = orthonormal(matrix.a @ gram + kept.product * kept.product.dtype.type(weight))
    if pivot:
        left, triangle = _pivot(left, triangle)
    matrix.replace(left, matrix.transposed_times(left, weight))
    diagonal: Array = np.abs(np.diag(triangle))
    return diagonal


def _pivot(left: Array, triangle: Array) -> tuple[Array, Array]:
    """Turn a QR factorisation into one with column pivoting, whose diagonal falls."""
    from scipy.linalg import qr

    turn, pivoted, _ = qr(triangle, pivoting=True)
    return left @ turn.astype(left.dtype), pivoted


def find_cliff(diagonal: Array) -> int | None:
    """Return how many columns stand before the one drop that is far larger than the others, if there is one."""
    if len(diagonal) < 3:
        return None
    drops = diagonal[:-1] / np.maximum(diagonal[1:], 1e-300)
    largest = int(np.argmax(drops))
    others = float(np.sum(np.delete(drops, largest)))
    return largest + 1 if len(drops) * drops[largest] > _CLIFF * others else None
