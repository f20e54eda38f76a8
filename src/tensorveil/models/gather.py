"""Few predictions from a large model should not cost a copy of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def needed_rows(
    columns: NDArray[np.int32], factors: Sequence[NDArray[Any]]
) -> tuple[NDArray[np.int32], Sequence[NDArray[Any]]]:
    """Give columns and factors for the kernels, which copy the factors: only the rows in use, if they are few."""
    n = columns.shape[1]
    if n * len(factors) >= sum(len(factor) for factor in factors):
        return np.ascontiguousarray(columns), factors
    rows = [factor[column] for factor, column in zip(factors, columns, strict=True)]
    return np.tile(np.arange(n, dtype=np.int32), (len(factors), 1)), rows
