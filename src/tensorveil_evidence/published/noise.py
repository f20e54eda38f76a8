"""The papers' noise, drawn in floating point by numpy's generator: for study only, never for a release.

Release noise comes from :mod:`tensorveil.noise`. This folder does not use it, on purpose: the papers drew theirs as
here, and what is drawn here can be drawn again from its seed, and leaks through its low bits (Mironov 2012).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def laplace(rng: np.random.Generator, count: int, scale: float) -> Array:
    """Draw from the density proportional to exp(-|n| / scale)."""
    return rng.laplace(0.0, scale, count)


def uniform_times_exponential(rng: np.random.Generator, count: int, scale: float) -> Array:
    """Draw scale * (u - 1/2) * log(1/u'), u and u' independent and uniform: Guo's recipe for "Laplace" noise.

    It is not Laplace noise. Given u the product is exponential with mean scale * |u - 1/2|; over u its density is
    E1(2 |x| / scale) / scale, E1 the exponential integral: infinite at 0, variance scale^2 / 6 against 2 scale^2.
    """
    signs = rng.random(count) - 0.5
    # 1 - u' is uniform too, and never 0.
    out: Array = scale * signs * -np.log1p(-rng.random(count))
    return out


def uniform_times_exponential_density(x: Array | float, scale: float) -> Array:
    """Return the density of that recipe."""
    from scipy.special import exp1

    out: Array = exp1(2.0 * np.abs(x) / scale) / scale
    return out


def norm_shaped(rng: np.random.Generator, count: int, dimension: int, scale: float) -> Array:
    """Draw rows from the density proportional to exp(-||n||_2 / scale) on R^dimension.

    In polar coordinates the density of the radius is r^(d-1) exp(-r / scale), a Gamma law of shape d, independent of
    the direction, which is uniform on the sphere.
    """
    directions = rng.standard_normal((count, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    radii = rng.gamma(dimension, scale, count)
    out: Array = radii[:, None] * directions
    return out
