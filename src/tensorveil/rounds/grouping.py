"""Entries grouped by owner and sorted, so that floats add up alike whatever order the entries came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError
from tensorveil.privacy.gate import PrivateEntries
from tensorveil.tensor import ObservedTensor
from tensorveil.tensor.keys import linear_keys

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class People:
    """Users and their entries: user ``ids[i]`` owns entries ``pointers[i]`` to ``pointers[i + 1]``.

    ``columns`` holds the released modes only, as int32 (modes, n); ``values`` are clipped to the declared bounds.
    """

    ids: Array
    pointers: Array
    columns: Array
    values: Array

    @property
    def n_users(self) -> int:
        """The number of users."""
        return len(self.ids)

    @property
    def counts(self) -> Array:
        """The number of entries of every user: at least one."""
        return np.diff(self.pointers)

    @property
    def owners(self) -> Array:
        """For every entry, the position of its user."""
        return np.repeat(np.arange(self.n_users), self.counts)

    def between(self, first: int, last: int) -> People:
        """Return users first to last - 1, without copying their entries."""
        low, high = self.pointers[first], self.pointers[last]
        return People(
            ids=self.ids[first:last],
            pointers=self.pointers[first : last + 1] - low,
            columns=self.columns[:, low:high],
            values=self.values[low:high],
        )


def group_private(data: PrivateEntries, protected: int) -> People:
    """Group private entries, as the gate admits them, by their index of the protected mode."""
    columns = data.columns.reveal()
    # The declared size of the protected mode is no limit here: its indices only number the owners.
    largest = int(columns[protected].max(initial=0)) + 1
    shape = tuple(largest if m == protected else size for m, size in enumerate(data.shape))
    return group_entries(columns, data.values.reveal(), shape, protected, data.bounds)


def group_people(tensor: ObservedTensor, protected: int, bounds: tuple[float, float]) -> People:
    """Group a tensor's entries by their index of the protected mode, sorted within each user."""
    return group_entries(tensor.columns, tensor.values, tensor.shape, protected, bounds)


def group_entries(
    columns: Array, values: Array, shape: tuple[int, ...], protected: int, bounds: tuple[float, float]
) -> People:
    """Group (order, n) coordinates and their values, of which there may be none, by index of the protected mode.

    Within each user, entries are sorted by coordinates, and by values where coordinates are equal.
    """
    # Adding zero turns minus zero, which compares equal and has other bits, into zero.
    clipped = np.clip(values.astype(np.float64), *bounds) + 0.0
    released = [m for m in range(len(shape)) if m != protected]
    modes = [protected, *released]
    order = _sort(linear_keys(columns[modes], tuple(shape[m] for m in modes)), clipped)
    owners = columns[protected][order]
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return People(
        ids=owners[starts].astype(np.int64),
        pointers=np.append(starts, len(owners)).astype(np.int64),
        columns=np.ascontiguousarray(columns[released][:, order], dtype=np.int32),
        values=clipped[order],
    )


def _sort(keys: Sequence[Array], values: Array) -> Array:
    """Return the order by keys, the first key first, then by values; sorted entries are left as they are."""
    if len(keys) == 1:
        steps = np.diff(keys[0])
        if np.all(steps > 0):
            return np.arange(len(values))
        order = np.argsort(keys[0], kind="stable")
        if np.all(np.diff(keys[0][order]) > 0):
            return order
    return np.lexsort((values, *keys[::-1]))


def check_group(tensor: ObservedTensor, shape: tuple[int, ...], protected: int) -> None:
    """Refuse a group whose released modes are not those of the recipe; the protected mode may have any size."""
    if tensor.order != len(shape) or any(
        size != declared for m, (size, declared) in enumerate(zip(tensor.shape, shape, strict=True)) if m != protected
    ):
        raise InputError("group must have the shape that the recipe declares, except in the protected mode.")
