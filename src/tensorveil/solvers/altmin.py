"""Alternating minimisation from a spectral start (Jain, Netrapalli and Sanghavi 2013), vectorised.

The left factor starts at the leading left singular vectors of the observed matrix, zeros where nothing is observed;
then the columns and the rows are solved exactly, in turn. ``regularization`` keeps rows with fewer entries than the
rank solvable; as published there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorveil.kernels.cp_als import cp_als_mode
from tensorveil.kernels.padded import Padded, pad, unpad
from tensorveil.kernels.rows import Rows, build_all_rows
from tensorveil.solvers.completed import size_of
from tensorveil.solvers.csvd_qr import csvd_qr
from tensorveil.solvers.task import Array, Scaling, Solution, Task, standard_scaling
from tensorveil.solvers.watch import Watch

# Steps of CSVD-QR for the start: it need not be exact.
_START_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class AltMin:
    """Settings of alternating minimisation."""

    sweeps: int = 100
    tol: float = 1e-5
    regularization: float = 1e-6


def solve_altmin(task: Task, settings: AltMin, watch: Watch) -> Solution:
    """Fit a matrix by exact least squares for columns and rows in turn."""
    scaling = standard_scaling(task)
    values = scaling.apply(task.values, task.dtype)
    rows = build_all_rows(task.columns, values, task.shape, threads=task.threads)
    factors = _spectral_start(rows[0], task)
    biases: tuple[Array, ...] = ()
    if task.baseline == "biases":
        biases = tuple(np.zeros(size, task.dtype) for size in task.shape)
    for _ in range(settings.sweeps):
        residual = 0.0
        for mode in (1, 0):
            residual = cp_als_mode(
                rows[mode], factors, mode, biases, ridge=settings.regularization, threads=task.threads
            )
        error = task.error(residual, scaling)
        size = size_of(error, scaling)
        if watch.step(
            train_error=error, criterion=error, size=size, solution=lambda: _solution(factors, biases, scaling)
        ):
            break
    return watch.result(lambda: _solution(factors, biases, scaling))


def _spectral_start(rows: Rows, task: Task) -> Padded:
    """Return left singular vectors of the observed matrix, scaled to unit mean square, and zeros."""
    from scipy.sparse import csr_array

    m, n = task.shape
    observed = csr_array((rows.values, rows.coords[0], rows.pointers), shape=(m, n))
    left = csvd_qr(observed, task.ranks[0], steps=_START_STEPS).L
    return pad([left * np.sqrt(m), np.zeros((n, task.ranks[0]))], task.dtype)


def _solution(factors: Padded, biases: tuple[Array, ...], scaling: Scaling) -> Solution:
    return scaling.undo(tuple(unpad(factors)), None, tuple(b.copy() for b in biases) or None)
