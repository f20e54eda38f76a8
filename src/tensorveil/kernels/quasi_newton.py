"""Directions of limited-memory quasi-Newton descent (Liu and Nocedal 1989), on the parameters that may move.

Legend
    S, Y            (memory, n) last steps, and the changes of the gradient along them; the newest at ``newest``
    g, d            gradient and direction; q while it is being made
    free            0 where a parameter stays at its bound
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]


@kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _dot(x: Array, y: Array, free: Array) -> float:
    total = 0.0
    for k in range(len(x)):
        total += x[k] * y[k] * free[k]
    return total


@kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def find_direction(S: Array, Y: Array, kept: int, newest: int, g: Array, free: Array, d: Array) -> float:
    """Write minus the inverse Hessian's estimate times the gradient; return its product with the gradient.

    A pair whose curvature along the free parameters is not positive is left out, so that the product is negative.
    """
    memory = S.shape[0]
    share, curve = np.zeros(memory), np.zeros(memory)
    scale = 0.0
    for k in range(len(g)):
        d[k] = -g[k] * free[k]
    for back in range(kept):
        j = (newest - back) % memory
        curve[j] = _dot(S[j], Y[j], free)
        square = _dot(Y[j], Y[j], free)
        if curve[j] <= 1e-12 * square:
            curve[j] = 0.0
            continue
        if scale == 0.0:
            scale = curve[j] / square
        share[j] = _dot(S[j], d, free) / curve[j]
        for k in range(len(g)):
            d[k] -= share[j] * Y[j, k] * free[k]
    if scale > 0.0:
        for k in range(len(g)):
            d[k] *= scale
    for back in range(kept - 1, -1, -1):
        j = (newest - back) % memory
        if curve[j] > 0.0:
            add = share[j] - _dot(Y[j], d, free) / curve[j]
            for k in range(len(g)):
                d[k] += add * S[j, k] * free[k]
    return _dot(d, g, free)
