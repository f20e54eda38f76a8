"""Bounded sums over people: in pieces that fit into caches, in whole numbers, on as many threads as one likes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.rounds.contract import LIMIT
from tensorveil.rounds.grouping import People

Array = NDArray[Any]
_PIECE = 1 << 14  # entries that are worked on at once: their features stay in cache


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """What a piece of people contributes: numbers per entry (n, width), further numbers per user (users, q).

    Where not entries but something else is added to rows, ``pointers`` and ``columns`` say whose and to which.
    """

    entries: Array
    own: Array
    pointers: Array | None = None
    columns: Array | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Rows that entries are added to: those of some of the released modes, and the scale of every row."""

    modes: tuple[int, ...]
    sizes: tuple[int, ...]
    scales: Array = field(repr=False)

    @property
    def offsets(self) -> Array:
        """Where the rows of each mode begin."""
        return (np.cumsum(self.sizes) - self.sizes).astype(np.int64)

    @property
    def total(self) -> int:
        """How many rows there are."""
        return sum(self.sizes)

    def columns(self, people: People) -> Array:
        """The columns of these modes."""
        return np.ascontiguousarray(people.columns[list(self.modes)])


Work = Callable[[People], Parts]


def pieces(people: People) -> Iterator[People]:
    """Cut people into pieces of a limited number of entries; no user is cut."""
    first = 0
    while first < people.n_users:
        reach = np.searchsorted(people.pointers, people.pointers[first] + _PIECE, side="right") - 1
        last = min(max(int(reach), first + 1), people.n_users)
        yield people.between(first, last)
        first = last


def bounded_sum(
    people: People,
    rows: Rows,
    width: int,
    own: int,
    reach: float,
    parts: Work,
    threads: int | None,
) -> Array:
    """Sum what ``parts`` gives for every user, shortened to length ``reach``, which becomes LIMIT grid steps.

    The result has ``rows.total * width + own`` integers and does not depend on the number of threads.
    """
    from tensorveil.kernels import users as compiled
    from tensorveil.kernels.threads import balanced, thread_count, workers

    size = rows.total * width + own

    def work(first: int, last: int) -> Array:
        out, scratch = np.zeros(size, dtype=np.int64), np.zeros(size)
        for piece in pieces(people.between(first, last)):
            given = parts(piece)
            pointers = piece.pointers if given.pointers is None else given.pointers
            columns = rows.columns(piece) if given.columns is None else given.columns
            most = int(np.diff(pointers).max(initial=0)) * len(rows.modes)
            compiled.add_bounded(
                pointers, columns, rows.offsets, rows.scales, width,
                np.ascontiguousarray(given.entries), np.ascontiguousarray(given.own), LIMIT / reach, LIMIT, scratch,
                np.empty(most, dtype=np.int64), out,
            )  # fmt: skip
        return out

    asked = thread_count(threads)
    with workers(asked) as run:
        found = run([partial(work, a, b) for a, b in balanced(people.pointers, asked)])
    total = np.zeros(size, dtype=np.int64)
    for part in found:
        total += part
    return total


def slice_lengths(people: People, rows: Rows) -> Array:
    """Return for every user the length of its numbers of entries per row, each mode scaled."""
    from tensorveil.kernels import users as compiled

    out = np.empty(people.n_users)
    scratch = np.zeros(rows.total)
    compiled.slice_norms(people.pointers, rows.columns(people), rows.offsets, rows.scales, scratch, out)
    return out


def sums_by_user(people: People, numbers: Array) -> Array:
    """Sum numbers per entry by user."""
    from tensorveil.kernels import users as compiled

    out = np.empty(people.n_users)
    compiled.sum_by_user(people.pointers, numbers, out)
    return out
