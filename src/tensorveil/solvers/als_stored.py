"""Alternating least squares for CP on a store: the parts of a mode's order, one after the other, solve their rows.

A part holds whole rows of the mode that it is ordered by, so that it gives their least-squares solutions by itself;
factors and one part are in memory, and the next part while this one is worked on. The solutions are those of
`solve_als` but for the order in which a row's entries are added.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from tensorveil.errors import InputError
from tensorveil.kernels.cp_als import cp_als_mode
from tensorveil.kernels.padded import Padded, pad
from tensorveil.kernels.rows import UINT16, Rows
from tensorveil.memory import check_memory
from tensorveil.solvers.task import Array, Scaling, Task, standard_scaling, start_spread
from tensorveil.tensor.stored import Part, StoredTensor

__all__ = ["StoredFit", "check_stored_memory"]

_COPIES = 4  # of a part: read, its rows, and those of the next one


class StoredFit:
    """What a fit on a store keeps in memory: factors, biases, and one part after the other."""

    def __init__(self, stored: StoredTensor, task: Task) -> None:
        self._stored, self._task = stored, task
        self.scaling: Scaling = standard_scaling(task)
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
        for part, grouped in self._read(mode):
            own = slice(part.first, part.last + 1)
            self._clear(mode, reached, part.first)
            reached = part.last + 1
            arrays = [rows[own] if m == mode else each for m, each in enumerate(self.factors.arrays)]
            biases = tuple(each[own] if m == mode else each for m, each in enumerate(self.biases))
            residual += cp_als_mode(
                grouped, replace(self.factors, arrays=tuple(arrays)), mode, biases, ridge=ridge,
                threads=self._task.threads,
            )  # fmt: skip
        self._clear(mode, reached, len(rows))
        return residual

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
        shape = self._task.shape
        others = tuple(m for m in range(len(shape)) if m != mode)
        small = all(shape[m] <= UINT16 for m in others)
        coords = np.empty((len(others), part.rows), np.uint16 if small else np.int32)
        for k, m in enumerate(others):
            coords[k] = columns[m]
        counts = np.bincount(columns[mode] - part.first, minlength=part.last + 1 - part.first)
        return Rows(
            shape=shape, mode=mode, others=others, sorted_by=others[0],
            pointers=np.concatenate([[0], np.cumsum(counts)]), coords=coords,
            values=self.scaling.apply(values, self._task.dtype),
        )  # fmt: skip


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
