"""Bounded working memory for work that goes row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Working arrays of this size stay near the cache; larger ones only cost memory.
CHUNK_BYTES = 1 << 23


def in_chunks(
    values_at: Callable[[NDArray[np.int32]], NDArray[Any]],
    columns: NDArray[np.int32],
    width: int,
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    """Evaluate (order, n) columns piece by piece; ``width`` numbers are held per coordinate."""
    n = columns.shape[1]
    step = max(1, CHUNK_BYTES // (max(1, width) * dtype.itemsize))
    result = np.empty(n, dtype=dtype)
    for start in range(0, n, step):
        result[start : start + step] = values_at(columns[:, start : start + step])
    return result
