"""Alternating least squares for CP on a store: the parts of a mode's order, one after the other, solve their rows.

A part holds whole rows of the mode that it is ordered by, so that it gives their least-squares solutions by itself;
factors and one part are in memory, and the next part while this one is worked on. The solutions are those of
`solve_als` but for the order in which a row's entries are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tensorveil.errors import InputError
from tensorveil.kernels.cp_als import cp_als_mode
from tensorveil.kernels.padded import Padded, aligned_zeros, pad
from tensorveil.kernels.rows import UINT16, Rows
from tensorveil.memory import check_memory
from tensorveil.solvers.task import Array, Scaling, Task, standard_scaling, start_spread
from tensorveil.tensor.stored import Part, StoredTensor

__all__ = ["Elsewhere", "Solved", "StoredFit", "check_stored_memory", "group_rows", "solve_rows"]

_COPIES = 4  # of a part: read, its rows, and those of the next one


@dataclass(frozen=True, kw_only=True, eq=False)
class Solved:
    """Rows of a part, from ``first`` on, and their biases, if there are any; and what they leave of the squares."""

    first: int
    rows: Array
    biases: tuple[Array, ...]
    residual: float


class Elsewhere(Protocol):
    """Where parts are worked on, if not here."""

    def scale(self, task: Task) -> Scaling:
        """Return how values are seen."""

    def solve(
        self, mode: int, factors: Padded, biases: tuple[Array, ...], scaling: Scaling, ridge: float
    ) -> Iterator[Solved]:
        """Yield the solved rows of a mode, part by part in the order of the rows."""


class StoredFit:
    """What a fit on a store keeps in memory: factors, biases, and one part after the other."""

    def __init__(self, stored: StoredTensor, task: Task) -> None:
        self._stored, self._task = stored, task
        self._elsewhere: Elsewhere | None = task.elsewhere
        self.scaling: Scaling = standard_scaling(task) if task.elsewhere is None else task.elsewhere.scale(task)
        rng = np.random.default_rng(task.seed)
        spread = start_spread(task)
        shapes = zip(task.shape, task.ranks, strict=True)
        self.factors: Padded = pad([spread * rng.standard_normal(size) for size in shapes], task.dtype)
        self.biases: tuple[Array, ...] = ()
        if task.baseline == "biases":
            self.biases = tuple(np.zeros(size, task.dtype) for size in task.shape)

    def sweep(self, ridge: float) -> float:
        """Solve the rows of every mode; return the residual sum of squares."""
        residual = 0.0
        for mode in range(len(self._task.shape)):
            residual = self._solve(mode, ridge)
        return residual

    def _solve(self, mode: int, ridge: float) -> float:
        rows, residual, reached = self.factors.arrays[mode], 0.0, 0
        if self._elsewhere is None:
            found = self._solve_here(mode, ridge)
        else:
            found = self._elsewhere.solve(mode, self.factors, self.biases, self.scaling, ridge)
        for solved in found:
            own = slice(solved.first, solved.first + len(solved.rows))
            self._clear(mode, reached, own.start)
            reached = own.stop
            rows[own, : solved.rows.shape[1]] = solved.rows
            if self.biases:
                self.biases[mode][own] = solved.biases[0]
            residual += solved.residual
        self._clear(mode, reached, len(rows))
        return residual

    def _solve_here(self, mode: int, ridge: float) -> Iterator[Solved]:
        for part, grouped in self._read(mode):
            yield solve_rows(grouped, self.factors, mode, self.biases, ridge, self._task.threads, first=part.first)

    def _clear(self, mode: int, first: int, last: int) -> None:
        """Set rows without entries to zero, as their least-squares solutions are."""
        self.factors.arrays[mode][first:last] = 0
        if self.biases:
            self.biases[mode][first:last] = 0

    def _read(self, mode: int) -> Iterator[tuple[Part, Rows]]:
        """Yield the parts of a mode's order, each while the next one is being read."""
        parts = self._stored.parts(self._stored.modes[mode].name)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(self._group, mode, parts[0])
            for number, part in enumerate(parts):
                grouped = waiting.result()
                if number + 1 < len(parts):
                    waiting = pool.submit(self._group, mode, parts[number + 1])
                yield part, grouped

    def _group(self, mode: int, part: Part) -> Rows:
        """Return a part's entries by row, which they are sorted by already."""
        columns, values = self._stored.read_columns(self._stored.modes[mode].name, part)
        return group_rows(self._task.shape, mode, part, columns, self.scaling.apply(values, self._task.dtype))


def group_rows(shape: tuple[int, ...], mode: int, part: Part, columns: Array, values: Array) -> Rows:
    """Return a part's entries, with values as the solver sees them, by row, which they are sorted by already."""
    others = tuple(m for m in range(len(shape)) if m != mode)
    small = all(shape[m] <= UINT16 for m in others)
    coords = np.empty((len(others), part.rows), np.uint16 if small else np.int32)
    for k, m in enumerate(others):
        coords[k] = columns[m]
    counts = np.bincount(columns[mode] - part.first, minlength=part.last + 1 - part.first)
    return Rows(
        shape=shape, mode=mode, others=others, sorted_by=others[0],
        pointers=np.concatenate([[0], np.cumsum(counts)]), coords=coords, values=values,
    )  # fmt: skip


def solve_rows(
    grouped: Rows,
    factors: Padded,
    mode: int,
    biases: Sequence[Array],
    ridge: float,
    threads: int | None,
    first: int = 0,
) -> Solved:
    """Solve the rows of a part, given the factors and biases of the other modes; its own are not looked at."""
    count = len(grouped.pointers) - 1
    rows = aligned_zeros((count, factors.arrays[mode].shape[1]), factors.dtype)
    own = tuple(np.zeros(count, factors.dtype) if m == mode else each for m, each in enumerate(biases))
    arrays = tuple(rows if m == mode else each for m, each in enumerate(factors.arrays))
    residual = cp_als_mode(grouped, replace(factors, arrays=arrays), mode, own, ridge=ridge, threads=threads)
    found = rows[:, : factors.ranks[mode]]
    return Solved(first=first, rows=found, biases=(own[mode],) if own else (), residual=residual)


def check_stored_memory(stored: StoredTensor, ranks: tuple[int, ...], dtype: np.dtype[np.floating]) -> None:
    """Refuse a store that lacks a mode's order, or whose factors and parts would not fit."""
    missing = [mode.name for mode in stored.modes if mode.name not in stored.orders]
    if missing:
        raise InputError(
            f"store: this fit needs its entries ordered by every mode; {missing[0]!r} is missing. Make it again with "
            f"order={[mode.name for mode in stored.modes]}."
        )
    largest = max((part.rows for parts in stored.orders.values() for part in parts), default=0)
    factors = sum(size * (rank + 8) for size, rank in zip(stored.shape, ranks, strict=True)) * dtype.itemsize
    needed = 2 * factors + _COPIES * largest * (4 * stored.order + 8)
    check_memory(needed, "the fit", "Make the store again with a smaller part_rows, or try a smaller rank.")
