"""The entries of a store as mechanisms know them: values, and in unit "entry" columns, that are elsewhere.

What a mechanism computes of every entry is kept as functions (`mechanisms/deferred.py`) and sent to the parts; what
comes back is a sum of integers, and gets its noise here, or values that got theirs where they are. So a mechanism runs
on a store as it is. In unit "value" positions are public: those are read here, and no value is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil import __version__
from tensorveil.engines.answers import FAILED, UNLIKE
from tensorveil.engines.engine import Engine, add_over_parts, check_code, group_parts, run_safely
from tensorveil.engines.task import AnswerWork, EntryWork, head_of, name_parts, read_answer, run_answers
from tensorveil.mechanisms.deferred import Expression, Sums, defer_entries
from tensorveil.memory import check_memory
from tensorveil.noise.adding import Answering
from tensorveil.noise.keyed import NoiseKey
from tensorveil.privacy.gate import PrivateEntries, PrivateValues, check_number
from tensorveil.privacy.private import Private
from tensorveil.tensor.stored import StoredTensor, StoreError

__all__ = ["open_entries", "open_values"]

# For every entry, here: its cells of all tables, and about so many numbers that are released at it, as measured.
_NUMBERS = 32


@dataclass(frozen=True, eq=False)
class _StoredParts:
    """The parts of a store, as `mechanisms.deferred.Parts`."""

    engine: Engine
    stored: StoredTensor
    mode: str
    shape: tuple[int, ...]
    bounds: tuple[float, float]

    @property
    def n_entries(self) -> int:
        """How many entries there are."""
        return self.stored.n_entries

    def answer(self, law: Answering, numbers: Expression, key: NoiseKey) -> NDArray[np.int64]:
        """Return a randomised answer for every entry's number, in the order of the entries."""
        stored, parts = self.stored, self.stored.parts(self.mode)
        rows = [part.rows for part in parts]
        work = AnswerWork(
            version=__version__, names=stored.column_names, axis=stored.axis(self.mode), shape=self.shape,
            bounds=self.bounds, law=law, numbers=numbers, key=key, total=stored.n_entries,
            starts={
                str(stored.folder / part.file): start
                for part, start in zip(parts, np.cumsum([0, *rows[:-1]]).tolist(), strict=True)
            },
        )  # fmt: skip
        tasks = [name_parts(stored, group) for group in group_parts(parts, 4 * self.engine.workers)]
        found = []
        for answer in run_safely(lambda: self.engine.gather(run_answers, tasks, work)):
            code, answers = read_answer(answer) if answer else (FAILED, np.empty(0, np.int64))
            check_code(code)
            found.append((head_of(answer), answers))
        if len({head for head, _ in found}) > 1:
            check_code(UNLIKE)
        whole = np.concatenate([answers for _, answers in found])
        if len(whole) != stored.n_entries:
            raise StoreError("unsound")
        return whole

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


def _estimate_positions(shape: tuple[int, ...]) -> int:
    """Return about how many bytes an entry takes that is known by its position alone."""
    order = len(shape)
    tables = order + (order * (order - 1) // 2 if order > 2 else 0)
    return 4 * order + 8 * (tables + _NUMBERS)


def open_values(
    stored: StoredTensor, engine: Engine, shape: tuple[int, ...], bounds: tuple[float, float], size: int
) -> PrivateValues:
    """Return the entries of a store in unit "value": positions here, values where they will be worked on.

    The store must be ordered by its first mode: that is the order in which entries have their numbers everywhere.
    """
    mode = stored.modes[0].name
    check_number(stored.n_entries)
    parts = _StoredParts(engine, stored, mode, shape, bounds)
    stored.parts(mode)
    engine.check_memory(stored, mode, size)
    check_memory(
        stored.n_entries * _estimate_positions(shape), "positions and what is released at each of them",
        "In unit \"value\" these are in the memory of the process that fits.",
    )  # fmt: skip
    if int(parts.total(None)[0]) != stored.n_entries:
        raise StoreError("unsound")
    columns: NDArray[np.int32] = np.empty((stored.order, stored.n_entries), np.int32)
    at = 0
    for part in stored.parts(mode):
        columns[:, at : at + part.rows] = stored.read_columns(mode, part)[0]
        at += part.rows
    columns.flags.writeable = False
    values: Any = defer_entries(parts, stored.order)[1]
    return PrivateValues(columns=columns, values=Private(values), shape=shape, bounds=bounds)
