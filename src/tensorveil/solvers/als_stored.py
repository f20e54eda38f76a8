"""Alternating least squares for CP on a store: the parts of a mode's order, one after the other, solve their rows.

A part holds whole rows of the mode that it is ordered by, so that it gives their least-squares solutions by itself;
factors and one part are in memory, and the next part while this one is worked on. The solutions are those of
`solve_als` but for the order in which a row's entries are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from tensorveil.kernels.cp_als import cp_als_mode
from tensorveil.kernels.padded import Padded, aligned_zeros, pad
from tensorveil.kernels.rows import Rows
from tensorveil.kernels.tucker_als import tucker_als_mode
from tensorveil.kernels.tucker_core import sum_for_core, tucker_core_over
from tensorveil.solvers.stored_rows import Elsewhere, StoredRows
from tensorveil.solvers.task import Array, Scaling, Task, standard_scaling, start_spread
from tensorveil.tensor.stored import StoredTensor

__all__ = ["Ridge", "SolveRows", "Solved", "StoredFit", "SumForCore", "solve_rows"]


class Ridge(NamedTuple):
    """The penalty on a row, and what comes to it for every entry of the row."""

    base: float
    per_entry: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Solved:
    """Rows of a part, from ``first`` on, and their biases, if there are any; and what they leave of the squares."""

    first: int
    rows: Array
    biases: tuple[Array, ...]
    residual: float


@dataclass(frozen=True, kw_only=True, eq=False)
class SolveRows:
    """Solve the rows of a mode, as `PartWork`; the mode's own factor is not known here, and takes no room."""

    mode: int
    factors: tuple[Array, ...]
    biases: tuple[Array, ...]
    core: Array | None
    ridge: Ridge

    @cached_property
    def _padded(self) -> Padded:
        return pad(self.factors, self.factors[0].dtype)

    def work_on(self, first: int, rows: Rows, threads: int | None) -> tuple[dict[str, float], list[Array]]:
        """Return the rows and their biases."""
        solved = solve_rows(rows, self._padded, self.mode, self.biases, self.ridge, threads, first, self.core)
        return {"residual": solved.residual}, [solved.rows, *solved.biases]


@dataclass(frozen=True, kw_only=True, eq=False)
class SumForCore:
    """Sum what the core's normal equations need over the entries of parts, as `PartWork`."""

    kind: str
    vector: Array | None
    factors: tuple[Array, ...]
    biases: tuple[Array, ...]
    core: Array

    @cached_property
    def _padded(self) -> Padded:
        return pad(self.factors, self.factors[0].dtype)

    def work_on(self, first: int, rows: Rows, threads: int | None) -> tuple[dict[str, float], list[Array]]:
        """Return the sums."""
        return {}, sum_for_core(self.kind, self.vector, first, rows, self.core, self._padded, self.biases, threads)


class StoredFit:
    """What a fit on a store keeps in memory: factors, biases, and one part after the other."""

    def __init__(self, stored: StoredTensor, task: Task) -> None:
        self._task = task
        self._elsewhere: Elsewhere | None = task.elsewhere
        self.scaling: Scaling = standard_scaling(task) if task.elsewhere is None else task.elsewhere.scale(task)
        self._rows = StoredRows(stored, self.scaling, task.dtype)
        rng = np.random.default_rng(task.seed)
        spread = start_spread(task)
        shapes = zip(task.shape, task.ranks, strict=True)
        self.factors: Padded = pad([spread * rng.standard_normal(size) for size in shapes], task.dtype)
        self.core = rng.standard_normal(task.ranks).astype(task.dtype) if task.core else None
        self.biases: tuple[Array, ...] = ()
        if task.baseline == "biases":
            self.biases = tuple(np.zeros(size, task.dtype) for size in task.shape)

    def sweep(self, ridge: Ridge, core_ridge: float, core_steps: int) -> float:
        """Solve the rows of every mode, then the core; return the residual sum of squares."""
        residual = 0.0
        for mode in range(len(self._task.shape)):
            residual = self._solve(mode, ridge)
        if self.core is None:
            return residual
        fewest = int(np.argmin(self._task.shape))
        return tucker_core_over(
            partial(self._ask_for_core, fewest, self.core), fewest, self.core, ridge=core_ridge,
            max_iterations=core_steps,
        )  # fmt: skip

    def _ask_for_core(self, mode: int, core: Array, kind: str, vector: Array | None) -> Iterator[list[Array]]:
        """Yield the sums of every part."""
        if self._elsewhere is None:
            for first, rows in self._rows.read(mode):
                yield sum_for_core(kind, vector, first, rows, core, self.factors, self.biases, self._task.threads)
            return
        factors = tuple(np.ascontiguousarray(view) for view in self.factors.views())
        work = SumForCore(kind=kind, vector=vector, factors=factors, biases=self.biases, core=core)
        for _, _, sums in self._elsewhere.work_on(mode, work, self.scaling, self._task.dtype):
            yield sums

    def _solve(self, mode: int, ridge: Ridge) -> float:
        rows, residual, reached = self.factors.arrays[mode], 0.0, 0
        for solved in self._solve_here(mode, ridge) if self._elsewhere is None else self._solve_elsewhere(mode, ridge):
            own = slice(solved.first, solved.first + len(solved.rows))
            self._clear(mode, reached, own.start)
            reached = own.stop
            rows[own, : solved.rows.shape[1]] = solved.rows
            if self.biases:
                self.biases[mode][own] = solved.biases[0]
            residual += solved.residual
        self._clear(mode, reached, len(rows))
        return residual

    def _solve_here(self, mode: int, ridge: Ridge) -> Iterator[Solved]:
        for first, grouped in self._rows.read(mode):
            yield solve_rows(
                grouped, self.factors, mode, self.biases, ridge, self._task.threads, first=first, core=self.core
            )

    def _solve_elsewhere(self, mode: int, ridge: Ridge) -> Iterator[Solved]:
        assert self._elsewhere is not None
        views = self.factors.views()
        nothing = np.empty((0, self.factors.ranks[mode]), self._task.dtype)
        work = SolveRows(
            mode=mode, core=self.core, ridge=ridge,
            factors=tuple(nothing if m == mode else np.ascontiguousarray(view) for m, view in enumerate(views)),
            biases=tuple(nothing[:, 0] if m == mode else each for m, each in enumerate(self.biases)),
        )  # fmt: skip
        for first, facts, arrays in self._elsewhere.work_on(mode, work, self.scaling, self._task.dtype):
            yield Solved(first=first, rows=arrays[0], biases=tuple(arrays[1:]), residual=facts["residual"])

    def _clear(self, mode: int, first: int, last: int) -> None:
        """Set rows without entries to zero, as their least-squares solutions are."""
        self.factors.arrays[mode][first:last] = 0
        if self.biases:
            self.biases[mode][first:last] = 0


def solve_rows(
    grouped: Rows,
    factors: Padded,
    mode: int,
    biases: Sequence[Array],
    ridge: Ridge,
    threads: int | None,
    first: int = 0,
    core: Array | None = None,
) -> Solved:
    """Solve the rows of a part, given the factors and biases of the other modes; its own are not looked at."""
    count = len(grouped.pointers) - 1
    rows = aligned_zeros((count, factors.arrays[mode].shape[1]), factors.dtype)
    own = tuple(np.zeros(count, factors.dtype) if m == mode else each for m, each in enumerate(biases))
    arrays = tuple(rows if m == mode else each for m, each in enumerate(factors.arrays))
    part = replace(factors, arrays=arrays)
    if core is None:
        residual = cp_als_mode(
            grouped, part, mode, own, ridge=ridge.base, ridge_per_entry=ridge.per_entry, threads=threads
        )
    else:
        residual = tucker_als_mode(
            grouped, core, part, mode, own, ridge=ridge.base, ridge_per_entry=ridge.per_entry, threads=threads
        )
    found = rows[:, : factors.ranks[mode]]
    return Solved(first=first, rows=found, biases=(own[mode],) if own else (), residual=residual)
