"""A tensor's entries as blocks of columns: all that one pass over the data needs, wherever the data are kept.

`MemoryEntries` holds arrays and gives them as a single block, so that sums over blocks are the sums over the arrays,
bit by bit. Entries that are kept elsewhere, in files or on a cluster, give as many blocks as they are kept in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tensorveil.errors import InputError
from tensorveil.tensor.checks import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Some of the entries: coordinates (order, n), one row per mode, and their n values."""

    columns: IntArray
    values: FloatArray


class Entries(Protocol):
    """Entries that can be passed over block by block, as often as needed and in the same order every time."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of every mode."""

    @property
    def n_entries(self) -> int:
        """Number of entries in all blocks together."""

    def blocks(self, most: int | None = None) -> Iterator[Block]:
        """Pass over the entries in blocks of at most ``most`` entries; by default as they are kept."""

    def load(self) -> MemoryEntries:
        """Return all entries in memory, for work that has to sort or revisit them."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MemoryEntries:
    """Entries in arrays: int32 columns (order, n) and n values.

    >>> columns, values = np.array([[0, 1, 1], [2, 0, 1]]), np.array([4.0, 2.0, 3.0])
    >>> entries = MemoryEntries(columns=columns, values=values, shape=(2, 3))
    >>> entries.n_entries, [block.values.tolist() for block in entries.blocks(2)]
    (3, [[4.0, 2.0], [3.0]])
    """

    columns: IntArray
    values: FloatArray
    shape: tuple[int, ...]

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return len(self.values)

    def blocks(self, most: int | None = None) -> Iterator[Block]:
        """Pass over the entries in blocks of at most ``most`` entries; by default in a single one."""
        if most is None or most >= self.n_entries:
            yield Block(columns=self.columns, values=self.values)
            return
        if most < 1:
            raise InputError(f"most must be at least 1, or None for a single block; got {most}.")
        for start in range(0, self.n_entries, most):
            part = slice(start, start + most)
            yield Block(columns=self.columns[:, part], values=self.values[part])

    def load(self) -> MemoryEntries:
        """Return these entries: they are in memory already."""
        return self


def mean_value(entries: Entries) -> float:
    """Return the mean of the values, in one pass."""
    total = sum(float(np.sum(block.values, dtype=np.float64)) for block in entries.blocks())
    return total / entries.n_entries


def mean_square(entries: Entries, center: float = 0.0) -> float:
    """Return the mean squared distance of the values from ``center``, in one pass."""
    total = 0.0
    for block in entries.blocks():
        total += float(np.sum((block.values.astype(np.float64, copy=False) - center) ** 2))
    return total / entries.n_entries
