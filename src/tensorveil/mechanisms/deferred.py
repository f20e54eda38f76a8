"""Numbers of private entries that are not here: the functions that make them, to be applied where the entries are.

In units "entry" and "value" a mechanism makes a row of every entry, from this entry and public state alone, and buys
noisy sums of such rows. In memory that is done with arrays. Of a store, the same code is given a `Deferred` for values
(in unit "entry" for columns too): `each` then keeps the function instead of applying it, and a sum that is bought is
computed part by part, as integers, wherever the parts are. Noise comes after the total, as ever.

In unit "value" positions are public, so what has been released is known at every entry, here: arrays. Where values are
elsewhere, such an array is one half of a `Beside`; the other is the function of positions that gives the same there.

Nothing that is private is in a `Deferred`: functions and their public arguments are all that it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np

from tensorveil.mechanisms.data import Array
from tensorveil.noise.adding import Answering
from tensorveil.noise.keyed import NoiseKey

__all__ = [
    "Beside",
    "CountSums",
    "Deferred",
    "Expression",
    "Parts",
    "ProductSums",
    "RowSums",
    "StepSums",
    "Sums",
    "add_steps",
    "beside",
    "defer_entries",
    "each",
    "here",
    "put_together",
]


class Sums(Protocol):
    """What the entries of a part contribute to: integers that add up over any parts, in any order."""

    @property
    def size(self) -> int:
        """How many integers there are."""

    def contribute(self, columns: Array, values: Array) -> Array:
        """Return the integers of some entries: a sum over entries, each of which is taken alone."""


class Parts(Protocol):
    """Where the entries are."""

    @property
    def n_entries(self) -> int:
        """How many there are: private in unit "entry"."""

    def total(self, sums: Sums) -> Array:
        """Return the sum over all entries."""

    def answer(self, law: Answering, numbers: Expression, key: NoiseKey) -> Array:
        """Return a randomised answer for every entry's number, in the order of the entries; noise is drawn there."""


@dataclass(frozen=True, eq=False)
class Expression:
    """A function of columns and values, which computes every entry's numbers from this entry alone, to the last bit."""

    function: Callable[..., Array]
    arguments: tuple[Expression, ...] = ()

    def at(self, columns: Array, values: Array) -> Array:
        """Return the numbers of some entries."""
        if not self.arguments:
            return self.function(columns, values)
        return self.function(*(each.at(columns, values) for each in self.arguments))


@dataclass(frozen=True, eq=False, repr=False)
class Deferred:
    """What stands for an array of numbers, one or several for every private entry."""

    expression: Expression
    parts: Parts
    order: int

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        """Refuse to be taken for an array."""
        raise TypeError("these numbers are where the entries are. Apply a function to them: each(function, numbers).")

    def measure_width(self) -> int:
        """Return how many numbers an entry has: seen where there is no entry."""
        found = self.expression.at(np.empty((self.order, 0), np.int32), np.empty(0))
        return int(found.shape[1])


@dataclass(frozen=True, eq=False, repr=False)
class Beside:
    """Numbers that are public or released, one or several for every entry: here, and where the values are."""

    here: Array
    there: Deferred


def beside(values: Array | Deferred, known: Array, function: Callable[[Array], Array]) -> Array | Beside:
    """Return numbers as they stand beside values: the array, or also the function of columns that makes it there.

    The function must compute every entry's numbers from its own indices alone, to the last bit.
    """
    if not isinstance(values, Deferred):
        return known
    columns = Expression(_take_columns)
    return Beside(known, Deferred(Expression(function, (columns,)), values.parts, values.order))


def here(known: Array | Beside) -> Array:
    """Return public or released numbers as an array."""
    return known.here if isinstance(known, Beside) else known


def there(known: Array | Deferred | Beside) -> Array | Deferred:
    """Return numbers as they stand where the values are."""
    return known.there if isinstance(known, Beside) else known


def put_together(columns: Array) -> Array:
    """Return the group of every entry, if there is one."""
    return np.zeros(columns.shape[1], dtype=np.int64)


def each(function: Callable[..., Array], *entries: Any) -> Any:
    """Apply a function to arrays of entries, or keep it where they are `Deferred`.

    The function must compute every entry's numbers from this entry alone. It is sent to where the entries are, so it
    has to be one that can be found there by name; what it needs besides comes with `functools.partial`.
    """
    entries = tuple(there(entry) for entry in entries)
    first = next((entry for entry in entries if isinstance(entry, Deferred)), None)
    if first is None:
        return function(*entries)
    return Deferred(Expression(function, tuple(entry.expression for entry in entries)), first.parts, first.order)


def defer_entries(parts: Parts, order: int) -> tuple[Deferred, Deferred]:
    """Return what stands for the columns and the values of all entries."""
    return Deferred(Expression(_take_columns), parts, order), Deferred(Expression(_take_values), parts, order)


def _take_columns(columns: Array, values: Array) -> Array:
    return columns


def _take_values(columns: Array, values: Array) -> Array:
    return values


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSums:
    """Sums of rows over ``longest``, by group, each row bounded as a whole; as `Spend` computes them in memory.

    With ``times`` every row is multiplied by a number.
    """

    rows: Expression
    groups: Expression
    n_groups: int
    width: int
    per_unit: float
    limit: int
    longest: float
    times: Expression | None = None

    @property
    def size(self) -> int:
        """How many integers there are."""
        return self.n_groups * self.width

    def contribute(self, columns: Array, values: Array) -> Array:
        """Return the sums over some entries."""
        from tensorveil.kernels.bounding import add_bounded_rows

        rows = np.ascontiguousarray(self.rows.at(columns, values), dtype=np.float64)
        times = np.ones(len(rows)) if self.times is None else self.times.at(columns, values)
        out = np.zeros((self.n_groups, self.width), dtype=np.int64)
        add_bounded_rows(rows, times / self.longest, self.groups.at(columns, values), self.per_unit, self.limit, out)
        return out.reshape(-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class CountSums:
    """How many entries fall into each group."""

    groups: Expression
    n_groups: int

    @property
    def size(self) -> int:
        """How many integers there are."""
        return self.n_groups

    def contribute(self, columns: Array, values: Array) -> Array:
        """Return the counts of some entries."""
        return np.bincount(self.groups.at(columns, values), minlength=self.n_groups)[: self.n_groups].astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class ProductSums:
    """Sums of bounded numbers by group, of their squares, and how many there are: all that products of pairs need."""

    numbers: Expression
    groups: Expression
    n_groups: int
    per_unit: float
    limit: int

    @property
    def size(self) -> int:
        """How many integers there are."""
        return 3 * self.n_groups

    def contribute(self, columns: Array, values: Array) -> Array:
        """Return the sums over some entries."""
        from tensorveil.kernels.bounding import gather_entry_products

        numbers, groups = self.numbers.at(columns, values), self.groups.at(columns, values)
        return np.concatenate(gather_entry_products(numbers, groups, self.n_groups, self.per_unit, self.limit))


@dataclass(frozen=True, kw_only=True, eq=False)
class StepSums:
    """Sums of whole numbers by group."""

    steps: Expression
    groups: Expression
    n_groups: int

    @property
    def size(self) -> int:
        """How many integers there are."""
        return self.n_groups

    def contribute(self, columns: Array, values: Array) -> Array:
        """Return the sums over some entries."""
        return _add_steps(self.steps.at(columns, values), self.groups.at(columns, values), self.n_groups)


def add_steps(steps: Any, groups: Any, n_groups: int) -> Array:
    """Return sums of whole numbers by group, of arrays or of what stands for them: without noise, and private."""
    if isinstance(steps, Deferred):
        return steps.parts.total(StepSums(steps=steps.expression, groups=groups.expression, n_groups=n_groups))
    return _add_steps(steps, groups, n_groups)


def _add_steps(steps: Array, groups: Array, n_groups: int) -> Array:
    total = np.zeros(n_groups, dtype=np.int64)
    np.add.at(total, groups, steps)
    return total
