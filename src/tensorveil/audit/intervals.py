"""Confidence bounds on a probability (Clopper and Pearson 1934), exact for any number of draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


def lower_rate(hits: ArrayLike, draws: float, error: float) -> Array:
    """Return what a probability exceeds, except with probability ``error``, given so many hits in independent draws.

    >>> float(lower_rate(0, 100, 0.01)), round(float(lower_rate(100, 100, 0.01)), 4)
    (0.0, 0.955)
    """
    from scipy.special import betaincinv

    k = np.asarray(hits, dtype=np.float64)
    inside = np.maximum(k, 1e-300)
    return np.where(k > 0, betaincinv(inside, np.maximum(draws - k + 1.0, 1e-300), error), 0.0)


def upper_rate(hits: ArrayLike, draws: float, error: float) -> Array:
    """Return what a probability stays below, except with probability ``error``.

    >>> round(float(upper_rate(0, 100, 0.01)), 4), float(upper_rate(100, 100, 0.01))
    (0.045, 1.0)
    """
    from scipy.special import betaincinv

    k = np.asarray(hits, dtype=np.float64)
    left = np.maximum(draws - k, 1e-300)
    return np.where(k < draws, betaincinv(k + 1.0, left, 1.0 - error), 1.0)
