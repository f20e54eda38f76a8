"""Sums over all integer vectors, by one integral: partition function and variance of norm-shaped noise.

exp(-||z|| / s) = E exp(-||z||**2 V) with V = 1 / (2 s**2 G**2) and G standard Gaussian (V has a Levy law), so a sum
over Z**d factors inside the expectation into d equal theta sums. None of this is used for drawing.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _log_sums(v: Array) -> tuple[Array, Array]:
    """Return ln sum_k exp(-k**2 v) and ln sum_k k**2 exp(-k**2 v), by Poisson summation where v is small."""
    k = np.arange(1, 12)[:, None] ** 2
    small = v < 1
    plain = np.where(small, 1.0, v)
    dual = np.where(small, v, 1.0)
    with np.errstate(under="ignore"):
        direct = np.exp(-k * plain)
        mirrored = np.exp(-k * (math.pi**2 / dual))
        theta = 1 + 2 * direct.sum(axis=0)
        moment = 2 * np.exp(-(k - 1) * plain) * k  # exp(-v) is factored out, because v may be huge
        root = 0.5 * np.log(math.pi / dual)
        theta_dual = 1 + 2 * mirrored.sum(axis=0)
        moment_dual = theta_dual / (2 * dual) - 2 * (k * mirrored).sum(axis=0) * math.pi**2 / dual**2
    log_theta = np.where(small, root + np.log(theta_dual), np.log(theta))
    return log_theta, np.where(small, root + np.log(moment_dual), np.log(moment.sum(axis=0)) - plain)


def _nodes(scale: float, dimension: int) -> tuple[Array, Array, float]:
    """Return V and the log-density at the nodes of the trapezoidal rule in ln G, and their spacing.

    In ln G the integrand is analytic in a strip of half-width pi/4, so the rule's error is below exp(-500).
    """
    y, spacing = np.linspace(-42.0, math.log(math.sqrt(dimension) + 14), 6000, retstep=True)
    with np.errstate(under="ignore"):
        density = y - 0.5 * np.exp(2 * y) + 0.5 * math.log(2 / math.pi)
    return np.exp(-2 * y) / (2 * scale**2), density, float(spacing)


def _log_integral(logs: Array, spacing: float) -> float:
    top = float(logs.max())
    with np.errstate(under="ignore"):
        return top + math.log(float(np.exp(logs - top).sum()) * spacing)


def log_partition(scale: float, dimension: int) -> float:
    """Return ln sum_z exp(-||z|| / scale) over the integer vectors of a dimension."""
    v, density, spacing = _nodes(scale, dimension)
    return _log_integral(density + dimension * _log_sums(v)[0], spacing)


@lru_cache(maxsize=256)
def second_moment(scale: float, dimension: int) -> float:
    """Return the variance of one coordinate of norm-shaped noise."""
    v, density, spacing = _nodes(scale, dimension)
    theta, moment = _log_sums(v)
    above = _log_integral(density + (dimension - 1) * theta + moment, spacing)
    return math.exp(above - _log_integral(density + dimension * theta, spacing))
