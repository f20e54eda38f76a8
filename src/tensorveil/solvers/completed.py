"""The completed matrix of an iteration, sparse plus low rank: the observed entries where there are any, A B' elsewhere.

X = w S + A B', S the residual at the observed entries. Products with thin matrices cost a pass over the entries; the
matrix itself is never formed. DLNM_QR (w = 1) and SOR (w the relaxation) are both written in these products.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from tensorveil.kernels.padded import aligned_zeros, padded_rank
from tensorveil.kernels.rows import build_rows
from tensorveil.kernels.sparse_residual import Run, residual_times, residual_transposed_times, scatter_copies
from tensorveil.kernels.thin import cross
from tensorveil.kernels.threads import thread_count, workers
from tensorveil.solvers.task import Array, Scaling, Solution, Task


class Completed:
    """Observed entries and a low-rank matrix A B', which the solver replaces; see :func:`open_completed`.

    It starts from A = 0 and B = the first columns of the identity: X holds the observed entries and zeros. A wide
    matrix is transposed, because passes over the entries are fast when the second side is the smaller one: sweeps are
    then those of the transposed matrix. With ``as_given`` it is not.
    """

    def __init__(self, task: Task, values: Array, run: Run, *, as_given: bool = False) -> None:
        self._wide = task.shape[0] < task.shape[1] and not as_given
        columns, shape = (task.columns[::-1], task.shape[::-1]) if self._wide else (task.columns, task.shape)
        self._rows = build_rows(columns, values, shape, 0, threads=task.threads)
        self._residual = np.empty_like(self._rows.values)
        self._multiplier: Array | None = None
        self._run, self._dtype = run, values.dtype
        self._make_room(task.ranks[0])
        np.fill_diagonal(self.b, 1.0)

    def _make_room(self, rank: int) -> None:
        self.rank, width = rank, padded_rank(rank)
        m, n = self._rows.shape
        self._a, self._product, self._basis = (aligned_zeros((m, width), self._dtype) for _ in range(3))
        self._b = aligned_zeros((n, width), self._dtype)
        self._copies = scatter_copies(n, width, self._dtype)

    def keep_columns(self, rank: int) -> None:
        """Drop all but the first columns of A and B."""
        a, b = self.a[:, :rank], self.b[:, :rank]
        self._make_room(rank)
        self.replace(a, b)

    @property
    def a(self) -> Array:
        """The left factor A (m, rank), sharing memory."""
        return self._a[:, : self.rank]

    @property
    def b(self) -> Array:
        """The right factor B (n, rank), sharing memory."""
        return self._b[:, : self.rank]

    def replace(self, a: Array, b: Array) -> None:
        """Take new factors; S follows with :meth:`residual_times_b`."""
        self.a[...] = a
        self.b[...] = b

    def residual_times_b(self) -> tuple[Array, float]:
        """Compute S; return S B, which stays valid until the next call, and the sum of squares of S."""
        squares = residual_times(self._rows, self._a, self._b, self._residual, self._product, self._run)
        return self._product[:, : self.rank], squares

    def lagged_times_b(self, growth: float) -> tuple[Array, float]:
        """Compute S and T <- (T + S) / growth; return (S + T) B and the sum of squares of S. X then holds S + T.

        T = Y / mu is the multiplier of alternating directions, Y <- Y + mu S and mu <- growth mu in one.
        """
        _, squares = self.residual_times_b()
        self._multiplier = (self._residual if self._multiplier is None else self._multiplier + self._residual) / growth
        lagged = replace(self._rows, values=self._rows.values + self._multiplier)
        residual_times(lagged, self._a, self._b, self._residual, self._product, self._run)
        return self._product[:, : self.rank], squares

    def transposed_times(self, basis: Array, weight: float = 1.0) -> Array:
        """Return X' basis = w S' basis + B (A' basis), which stays valid until the next call."""
        self._basis[:, : self.rank] = basis
        product = residual_transposed_times(self._rows, self._residual, self._basis, self._copies, self._run)
        product = product[:, : self.rank]
        if weight != 1.0:
            product *= product.dtype.type(weight)
        product += self.b @ cross(self.a, basis).astype(self._dtype)
        return product

    def solution(self, scaling: Scaling) -> Solution:
        """Return the low-rank matrix in the units of the data, its scale shared by both factors."""
        factors = [self.a, self.b]
        sizes = [np.sqrt(np.mean(f.astype(np.float64) ** 2, axis=0)) for f in factors]
        used = (sizes[0] > 0) & (sizes[1] > 0)
        share = np.sqrt(np.where(used, sizes[1], 1.0) / np.where(used, sizes[0], 1.0)).astype(self._dtype)
        scaled = (self.a * share, self.b / share)
        return scaling.undo(scaled[::-1] if self._wide else scaled, None, None)


def size_of(error: float, scaling: Scaling) -> float:
    """Return what a change of the error is compared with: relative to itself, that of an exact fit falls for ever."""
    return error + 0.01 * scaling.scale


@contextmanager
def open_completed(task: Task, values: Array, *, as_given: bool = False) -> Iterator[Completed]:
    """Yield the completed matrix of a task's entries with these (scaled) values; its threads end with the block."""
    with workers(thread_count(task.threads)) as run:
        yield Completed(task, values, run, as_given=as_given)
