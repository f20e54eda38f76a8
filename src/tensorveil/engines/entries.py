"""The entries of a store as the mechanisms of unit "entry" know them: columns and values that are elsewhere.

What a mechanism computes of every entry is kept as functions (`mechanisms/deferred.py`) and sent to the parts; what
comes back is a sum of integers, and gets its noise here. So a mechanism runs on a store as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil import __version__
from tensorveil.engines.engine import Engine, add_over_parts
from tensorveil.engines.task import EntryWork
from tensorveil.mechanisms.deferred import Sums, defer_entries
from tensorveil.privacy.gate import PrivateEntries, check_number
from tensorveil.privacy.private import Private
from tensorveil.tensor.stored import StoredTensor, StoreError

__all__ = ["open_entries"]


@dataclass(frozen=True, eq=False)
class _StoredParts:
    """The parts of a store, as `mechanisms.deferred.Parts`."""

    engine: Engine
    stored: StoredTensor
    mode: str
    shape: tuple[int, ...]
    bounds: tuple[float, float]

    def total(self, sums: Sums | None) -> NDArray[np.int64]:
        """Return the sum over all entries; without anything to sum, how many there are."""
        stored = self.stored
        work = EntryWork(
            version=__version__, names=stored.column_names, axis=stored.axis(self.mode), shape=self.shape,
            bounds=self.bounds, sums=sums,
        )  # fmt: skip
        return add_over_parts(self.engine, stored, self.mode, work, work.size)


def open_entries(
    stored: StoredTensor,
    engine: Engine,
    shape: tuple[int, ...],
    bounds: tuple[float, float],
    size: int,
    *,
    zeros: bool = False,
) -> PrivateEntries:
    """Return the entries of a store as private data, once every part was opened where it will be worked on.

    Every entry lies in one part, because parts share no index of the mode that they are ordered by; whichever mode that
    is does not matter. No sum that will be asked for has more than ``size`` integers.
    """
    mode = next(iter(stored.orders))
    check_number(stored.n_entries)
    engine.check_memory(stored, mode, size)
    parts = _StoredParts(engine, stored, mode, shape, bounds)
    if int(parts.total(None)[0]) != stored.n_entries:
        raise StoreError("unsound")
    columns: Any
    values: Any  # they stand for arrays
    columns, values = defer_entries(parts, stored.order)
    return PrivateEntries(columns=Private(columns), values=Private(values), shape=shape, bounds=bounds, zeros=zeros)
