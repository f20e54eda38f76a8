"""Labelled tensors: what a classifier learns from, and how to share them out among users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.errors import InputError

__all__ = ["Samples", "share_out", "subset"]

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Tensors of one shape along a leading axis, each with a class; there may be none.

    Parameters
    ----------
    x
        Numbers (n, ...), one tensor per record. NaN counts as 0, an infinity as the largest number of its sign.
    y
        Classes (n,), integers from 0. Others count as the nearest class: an error would tell of a single record.
    classes
        The number of classes; declared, because a class may not occur here.

    >>> Samples(x=[[0.0, 1.0], [1.0, 0.0]], y=[0, 1], classes=2).shape
    (2,)
    """

    x: Any
    y: Any
    classes: int

    def __post_init__(self) -> None:
        x, y = np.asarray(self.x), np.asarray(self.y)
        if x.dtype.kind not in "biuf" or x.ndim < 2:
            raise InputError("x must hold numbers: tensors, stacked along a leading axis.")
        if y.dtype.kind not in "iu" or y.shape != (len(x),):
            raise InputError("y must hold one integer per record of x.")
        if isinstance(self.classes, bool) or not isinstance(self.classes, int | np.integer) or self.classes < 2:
            raise InputError(f"classes must be at least 2; got {self.classes!r}. Try classes=10.")
        if x.dtype.kind == "f" and not np.all(np.isfinite(x)):
            x = np.nan_to_num(x)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", np.clip(y, 0, int(self.classes) - 1).astype(np.int64, copy=False))
        object.__setattr__(self, "classes", int(self.classes))

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one tensor."""
        return tuple(self.x.shape[1:])

    def take(self, index: Any) -> Samples:
        """Return the records at these positions."""
        return Samples(x=self.x[index], y=self.y[index], classes=self.classes)

    def with_x(self, x: Any) -> Samples:
        """Return the same records with other tensors."""
        return Samples(x=x, y=self.y, classes=self.classes)


def share_out(samples: Samples, users: int, seed: int) -> list[Samples]:
    """Share the records out among users, at random and as evenly as possible.

    >>> both = share_out(Samples(x=[[0.0], [1.0], [2.0]], y=[0, 1, 0], classes=2), users=2, seed=0)
    >>> [len(each) for each in both]
    [2, 1]
    """
    if isinstance(users, bool) or not isinstance(users, int) or not 1 <= users <= len(samples):
        raise InputError(f"users must be between 1 and the number of records; got {users!r}. Try users=3.")
    order = np.random.default_rng(seed).permutation(len(samples))
    return [samples.take(np.sort(part)) for part in np.array_split(order, users)]


def subset(samples: Samples, count: int, seed: int) -> Samples:
    """Return ``count`` records picked at random, or all of them if there are no more."""
    if count >= len(samples):
        return samples
    if count < 1:
        raise InputError(f"count must be at least 1; got {count}. Try count=1000.")
    return samples.take(np.sort(np.random.default_rng(seed).permutation(len(samples))[:count]))
