"""Directions of limited-memory quasi-Newton descent (Liu and Nocedal 1989).

Legend
    S, Y            (memory, n) last steps, and the changes of the gradient along them; the newest at ``newest``
    g, d            gradient and direction
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]


@kernel(fastmath={"contract", "reassoc"})
def _dot(x: Array, y: Array) -> float:
    total = 0.0
    for k in range(len(x)):
        total += x[k] * y[k]
    return total


@kernel(fastmath={"contract", "reassoc"})
def _add(scale: float, x: Array, y: Array) -> None:
    for k in range(len(x)):
        y[k] += scale * x[k]


@kernel(error_model="numpy")
def find_direction(S: Array, Y: Array, kept: int, newest: int, g: Array, d: Array) -> float:
    """Write minus the inverse Hessian's estimate times the gradient; return its product with the gradient."""
    memory = S.shape[0]
    share, curve = np.zeros(memory), np.zeros(memory)
    for k in range(len(g)):
        d[k] = -g[k]
    for back in range(kept):
        j = (newest - back) % memory
        curve[j] = _dot(S[j], Y[j])
        share[j] = _dot(S[j], d) / curve[j]
        _add(-share[j], Y[j], d)
    if kept:
        scale = curve[newest] / _dot(Y[newest], Y[newest])
        for k in range(len(g)):
            d[k] *= scale
    for back in range(kept - 1, -1, -1):
        j = (newest - back) % memory
        _add(share[j] - _dot(Y[j], d) / curve[j], S[j], d)
    return float(_dot(d, g))
