"""Tables: sums of values over the cells of some modes, which entries belong to a cell being public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tensorveil.mechanisms.allocation import Modes
from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.deferred import Beside, Deferred, beside


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The cells of a table: where each entry falls, and how many fall into each."""

    modes: Modes
    shape: tuple[int, ...]
    index: Array
    counts: Array

    @classmethod
    def of(cls, columns: Array, shape: tuple[int, ...], modes: Modes) -> Cells:
        """Number the cells of some modes, row by row."""
        sizes = tuple(shape[mode] for mode in modes)
        index = _number_cells(modes, sizes, columns)
        counts = np.bincount(index, minlength=int(np.prod(sizes)))
        return cls(modes=modes, shape=sizes, index=index, counts=counts.astype(np.float64))

    def beside(self, values: Array | Deferred) -> Array | Beside:
        """Return where each entry falls, here and where the values are."""
        return beside(values, self.index, partial(_number_cells, self.modes, self.shape))

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.counts)

    def sum(self, numbers: Array) -> Array:
        """Sum numbers, one per entry, over cells."""
        return np.bincount(self.index, numbers, minlength=self.size)


def _number_cells(modes: Modes, sizes: tuple[int, ...], columns: Array) -> Array:
    index = np.zeros(columns.shape[1], dtype=np.int64)
    for mode, size in zip(modes, sizes, strict=True):
        index = index * size + columns[mode]
    return index


@dataclass(frozen=True, kw_only=True)
class Table:
    """Noisy sums of values over cells; ``noise`` is the variance of the noise, one for all cells or one for each."""

    cells: Cells
    sums: Array
    noise: Array | float

    def joined(self, other: Table | None) -> Table:
        """Return one table of two of the same cells, each weighed by its noise, which is the same for all cells."""
        if other is None:
            return self
        own, others = 1.0 / self.noise, 1.0 / other.noise
        sums = (own * self.sums + others * other.sums) / (own + others)
        return Table(cells=self.cells, sums=sums, noise=1.0 / (own + others))

    def less(self, numbers: Array) -> Table:
        """Return the table of what is left when numbers, one per entry, are taken away."""
        return Table(cells=self.cells, sums=self.sums - self.cells.sum(numbers), noise=self.noise)
