"""Bounded sums over people: exact integers, computed in pieces that fit into the cache, on any number of threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import LIMIT
from tensorveil.rounds.grouping import People

Array = NDArray[Any]
# Entries worked on at a time, and numbers that belong to users rather than rows: so many that a call costs little
# beside them, so few that they stay in the cache.
_PIECE, _OWN = 1 << 15, 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """What a piece of people contributes.

    Parameters
    ----------
    entries
        Numbers per entry, which are added to the rows of the entry: the first ``width`` of (n, width or more).
    own
        Further numbers per user (users, q), which belong to no row.
    pointers, columns
        Where something other than entries is added to rows: whose it is, and to which rows it is added.
    """

    entries: Array
    own: Array
    pointers: Array | None = None
    columns: Array | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows that entries are added to: those of some of the released modes, each with a scale."""

    modes: tuple[int, ...]
    sizes: tuple[int, ...]
    scales: Array = field(repr=False)

    @property
    def offsets(self) -> Array:
        """Where the rows of each mode begin."""
        return (np.cumsum(self.sizes) - self.sizes).astype(np.int64)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where the rows of each mode stand among all rows."""
        starts = self.offsets.tolist()
        return tuple(slice(start, start + size) for start, size in zip(starts, self.sizes, strict=True))

    @property
    def total(self) -> int:
        """The number of rows of all modes."""
        return sum(self.sizes)

    def columns(self, people: People) -> Array:
        """Return people's columns of these modes."""
        return np.ascontiguousarray(people.columns[list(self.modes)])


Work = Callable[[People], Parts]


def cut_people(people: People, own: int = 0) -> Iterator[People]:
    """Cut people into pieces of a limited number of entries, and of own numbers, without cutting any user in two."""
    first, most = 0, max(_OWN // max(own, 1), 1)
    while first < people.n_users:
        reach = np.searchsorted(people.pointers, people.pointers[first] + _PIECE, side="right") - 1
        last = min(max(int(reach), first + 1), first + most, people.n_users)
        yield people.between(first, last)
        first = last


def sum_bounded(
    people: People,
    rows: Rows,
    width: int,
    own: int,
    reach: float,
    parts: Work,
    threads: int | None,
) -> Array:
    """Sum what ``parts`` returns for every user, each user's whole vector clipped to a norm.

    The result has ``rows.total * width + own`` integers. It depends neither on the number of threads nor on how people
    are cut into pieces, because every user's vector is rounded to integers by itself.

    Parameters
    ----------
    people
        Whose contributions are summed.
    rows
        The rows that entries are added to.
    width
        How many numbers an entry adds to each of its rows.
    own
        How many further numbers a user has that belong to no row.
    reach
        The norm to which a user's vector is clipped; it becomes LIMIT grid steps.
    parts
        Computes the contributions of a piece of people.
    threads
        How many threads to use; None uses all cores.
    """
    from tensorveil.kernels import users as compiled
    from tensorveil.kernels.threads import cut_evenly, thread_count, workers

    size = rows.total * width + own
    per_unit = LIMIT / reach if reach > 0 else math.nan  # no reach, no contribution

    def work(first: int, last: int) -> Array:
        out, places = np.zeros(size, dtype=np.int64), np.full(rows.total, -1, dtype=np.int64)
        for whole in cut_people(people.between(first, last), own):
            for piece, given in _compute(whole, parts):
                pointers = piece.pointers if given.pointers is None else given.pointers
                columns = rows.columns(piece) if given.columns is None else given.columns
                most = min(int(np.diff(pointers).max(initial=0)) * len(rows.modes), rows.total)
                room = most * width + own
                compiled.add_bounded(
                    pointers, columns, rows.offsets, rows.scales, width,
                    np.ascontiguousarray(given.entries), np.ascontiguousarray(given.own), per_unit, LIMIT, places,
                    np.empty(most, dtype=np.int64), np.empty(room), np.empty(room, dtype=np.int64), out,
                )  # fmt: skip
        return out

    asked = thread_count(threads)
    with workers(asked) as run:
        found = run([partial(work, a, b) for a, b in cut_evenly(people.pointers, asked)])
    total = np.zeros(size, dtype=np.int64)
    for part in found:
        total += part
    return total


def _compute(piece: People, parts: Work) -> Iterator[tuple[People, Parts]]:
    """Yield the contributions of a piece: of all people at once, or one by one without those for whom it fails.

    A failure may depend on one user's entries. It must neither show nor take the others' contributions along.
    """
    try:
        with np.errstate(all="ignore"):
            given = parts(piece)
    except Exception:
        if piece.n_users > 1:
            for i in range(piece.n_users):
                yield from _compute(piece.between(i, i + 1), parts)
    else:
        yield piece, given


def measure_slices(people: People, rows: Rows) -> Array:
    """Return the norm of every user's vector of entry counts per row, each row times its scale."""
    from tensorveil.kernels import users as compiled

    out = np.empty(people.n_users)
    scratch = np.zeros(rows.total)
    compiled.slice_norms(people.pointers, rows.columns(people), rows.offsets, rows.scales, scratch, out)
    return out


def sum_by_user(people: People, numbers: Array) -> Array:
    """Sum numbers per entry by user."""
    from tensorveil.kernels import users as compiled

    out = np.empty(people.n_users)
    compiled.sum_by_user(people.pointers, numbers, out)
    return out
