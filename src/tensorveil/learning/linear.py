"""A linear classifier of directions, which prefers no class where it knows nothing."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Linear"]

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Linear:
    """Predict the class with the highest score; tied classes get their records in equal shares.

    Parameters
    ----------
    weights, offsets
        Arrays (classes, k) and (classes,).
    encode
        Turns tensors into rows first; with None, x holds rows already.

    >>> known = Linear(weights=np.eye(2), offsets=np.zeros(2))
    >>> known.predict([[1.0, 0.0], [0.0, 1.0]]).tolist()
    [0, 1]
    >>> nothing = Linear(weights=np.zeros((2, 1)), offsets=np.zeros(2))
    >>> np.bincount(nothing.predict(np.arange(1000.0)[:, None])).min() > 450
    np.True_
    """

    weights: Array
    offsets: Array
    encode: Callable[[Any], Array] | None = None

    def scores(self, x: ArrayLike) -> Array:
        """Return scores, one column per class."""
        return self._scores(self._rows(x))

    def predict(self, x: ArrayLike) -> NDArray[np.int64]:
        """Return the class of every tensor; among tied classes the choice depends on the tensor alone."""
        rows = self._rows(x)
        scores = self._scores(rows)
        found = np.asarray(scores.argmax(axis=1), dtype=np.int64)
        best = scores == scores.max(axis=1, keepdims=True)
        for at in np.flatnonzero(best.sum(axis=1) > 1).tolist():
            tied = np.flatnonzero(best[at])
            found[at] = tied[zlib.crc32(rows[at].tobytes()) % len(tied)]
        return found

    def _rows(self, x: ArrayLike) -> Array:
        return np.asarray(x, dtype=np.float64) if self.encode is None else self.encode(x)

    def _scores(self, rows: Array) -> Array:
        out: Array = rows @ self.weights.T + self.offsets
        return out
