"""The entries of a store by the rows of its modes: what alternating solvers ask for, one part after the other.

A part holds whole rows of the mode that it is ordered by, so that whatever belongs to a row follows from its part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from tensorveil.errors import InputError
from tensorveil.kernels.rows import UINT16, Rows
from tensorveil.memory import check_memory
from tensorveil.solvers.task import Array, Scaling, Task
from tensorveil.tensor.stored import Part, StoredTensor

__all__ = ["Elsewhere", "PartWork", "StoredRows", "check_stored_memory", "group_rows", "span_parts"]

_COPIES = 4  # of a part: read, its rows, and those of the next one


class PartWork(Protocol):
    """What is done with the rows of a part, where the part is: a function of them and of what this holds."""

    def work_on(self, first: int, rows: Rows, threads: int | None) -> tuple[Mapping[str, float], list[Array]]:
        """Return numbers, and arrays such as the part's new rows; ``first`` is the number of its first row."""


class Elsewhere(Protocol):
    """Where parts are worked on, if not here."""

    def scale(self, task: Task) -> Scaling:
        """Return how values are seen."""

    def work_on(
        self, mode: int, work: PartWork, scaling: Scaling, dtype: np.dtype[np.floating]
    ) -> Iterator[tuple[int, Mapping[str, float], list[Array]]]:
        """Yield the first row of every part of a mode's order, and what comes of its rows, in their order."""


class StoredRows:
    """The rows of every mode, with values as a solver sees them."""

    def __init__(self, stored: StoredTensor, scaling: Scaling, dtype: np.dtype[np.floating]) -> None:
        self._stored, self._scaling, self._dtype = stored, scaling, dtype

    def read(self, mode: int) -> Iterator[tuple[int, Rows]]:
        """Yield the first row of a part and its rows, each while the next part is read; together they are all rows."""
        size = self._stored.shape[mode]
        parts = self._stored.parts(self._stored.modes[mode].name)
        spans = span_parts(parts, size)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(self._group, mode, parts[0], *spans[0])
            for number, (first, _) in enumerate(spans):
                grouped = waiting.result()
                if number + 1 < len(parts):
                    waiting = pool.submit(self._group, mode, parts[number + 1], *spans[number + 1])
                yield first, grouped

    def _group(self, mode: int, part: Part, first: int, end: int) -> Rows:
        columns, values = self._stored.read_columns(self._stored.modes[mode].name, part)
        scaled = self._scaling.apply(values, self._dtype)
        return group_rows(self._stored.shape, mode, columns, scaled, first, end)


def span_parts(parts: Sequence[Part], size: int) -> list[tuple[int, int]]:
    """Return the rows of every part, from the first to before the last; together they are all rows of a mode.

    Rows without entries belong to the part that comes after them, and the last ones to the last part.
    """
    ends = [*(part.last + 1 for part in parts[:-1]), size]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def group_rows(shape: tuple[int, ...], mode: int, columns: Array, values: Array, first: int, end: int) -> Rows:
    """Return entries by row, which they are sorted by already: rows ``first`` to before ``end`` of a mode."""
    others = tuple(m for m in range(len(shape)) if m != mode)
    small = all(shape[m] <= UINT16 for m in others)
    coords = np.empty((len(others), len(values)), np.uint16 if small else np.int32)
    for k, m in enumerate(others):
        coords[k] = columns[m]
    counts = np.bincount(columns[mode] - first, minlength=end - first)
    return Rows(
        shape=shape, mode=mode, others=others, sorted_by=others[0],
        pointers=np.concatenate([[0], np.cumsum(counts)]), coords=coords, values=values,
    )  # fmt: skip


def check_stored_memory(
    stored: StoredTensor, ranks: tuple[int, ...], dtype: np.dtype[np.floating], *, moments: bool = False
) -> None:
    """Refuse a store that lacks a mode's order, or whose factors and parts would not fit.

    With ``moments`` a row has a matrix of second moments besides.
    """
    missing = [mode.name for mode in stored.modes if mode.name not in stored.orders]
    if missing:
        raise InputError(
            f"store: this fit needs its entries ordered by every mode; {missing[0]!r} is missing. Make it again with "
            f"order={[mode.name for mode in stored.modes]}."
        )
    largest = max((part.rows for parts in stored.orders.values() for part in parts), default=0)
    widths = [rank + 8 + (rank * (rank + 1) // 4 if moments else 0) for rank in ranks]
    factors = sum(size * width for size, width in zip(stored.shape, widths, strict=True)) * dtype.itemsize
    needed = 2 * factors + _COPIES * largest * (4 * stored.order + 8)
    check_memory(needed, "the fit", "Make the store again with a smaller part_rows, or try a smaller rank.")
