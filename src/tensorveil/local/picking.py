"""Which entries of a tensor are reported, drawn at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensorveil.noise import NoiseSource, uniform_below


def pick_entries(rows: int, size: int, count: int, source: NoiseSource) -> NDArray[np.int64]:
    """Pick ``count`` different numbers below ``size`` per row, all sets equally likely (Floyd's algorithm)."""
    out = np.empty((rows, count), dtype=np.int64)
    for k in range(count):
        top = size - count + k
        drawn = uniform_below(top + 1, rows, source)
        taken = (out[:, :k] == drawn[:, None]).any(axis=1)
        out[:, k] = np.where(taken, top, drawn)
    return out
