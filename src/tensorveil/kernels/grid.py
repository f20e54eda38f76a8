"""All cells of a CP model, fibre by fibre along one mode: linear parts, and gradients that are spread over the factors.

A block is some fibres with all of their cells, small enough for the cache; the loss is called between `fill_fibres` and
`spread_fibres`, which read only the listed cells and the factors. So no cell is kept that is not listed.

Legend
    f, k, e, r      fibre; cell of a fibre; listed cell; component
    sizes, starts   of the modes across which fibres lie: their lengths, and where their rows begin in ``rows``
    rows            all factors one under the other (rows, R); ``inner`` (R, K) is the factor along the fibres, turned
    pointers        where the listed cells of a fibre begin in ``places`` (their k) and ``values``; NaN: left out
    h, w            product of the rows across; sum of the slopes along the fibre, weighted by the inner factor
    G, D            gradients of ``rows`` and ``inner``
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]


@kernel()
def _decode(f: int, sizes: Array, starts: Array, at: Array) -> None:
    """Write the rows that fibre f crosses."""
    rest = f
    for m in range(len(sizes) - 1, -1, -1):
        at[m] = starts[m] + rest % sizes[m]
        rest //= sizes[m]


@kernel(fastmath={"contract", "reassoc"})
def fill_fibres(
    low: int, high: int, sizes: Array, starts: Array, rows: Array, inner: Array, across: Array, along: Array,
    offset: float, pointers: Array, places: Array, values: Array, zero: float, weight: float,
    linear: Array, truth: Array, weights: Array,
) -> None:  # fmt: skip
    """Write linear parts, values and weights of the cells of fibres low..high; without biases these are empty."""
    R, K = inner.shape
    h, at = np.empty(R), np.empty(len(sizes), np.int64)
    for f in range(low, high):
        _decode(f, sizes, starts, at)
        base = offset
        for r in range(R):
            h[r] = rows[at[0], r]
        for m in range(1, len(sizes)):
            for r in range(R):
                h[r] *= rows[at[m], r]
        if len(across):
            for m in range(len(sizes)):
                base += across[at[m]]
        start = (f - low) * K
        line = linear[start : start + K]
        if len(along):
            for k in range(K):
                line[k] = base + along[k]
        else:
            for k in range(K):
                line[k] = base
        for r in range(0, R - 3, 4):
            a, b, c, d = h[r], h[r + 1], h[r + 2], h[r + 3]
            for k in range(K):
                line[k] += (a * inner[r, k] + b * inner[r + 1, k]) + (c * inner[r + 2, k] + d * inner[r + 3, k])
        for r in range(R - R % 4, R):
            a = h[r]
            for k in range(K):
                line[k] += a * inner[r, k]
        for k in range(start, start + K):
            truth[k] = zero
            weights[k] = weight
        for e in range(pointers[f], pointers[f + 1]):
            k = start + places[e]
            if np.isnan(values[e]):
                weights[k] = 0.0
            else:
                truth[k] = values[e]
                weights[k] = 1.0


@kernel(fastmath={"contract", "reassoc"})
def spread_fibres(
    low: int, high: int, sizes: Array, starts: Array, rows: Array, inner: Array, slopes: Array, G: Array, D: Array,
    across: Array, along: Array,
) -> float:  # fmt: skip
    """Add what the slopes of the cells of fibres low..high make of the gradients; return the sum of the slopes."""
    R, K = inner.shape
    h, w, at = np.empty(R), np.empty(R), np.empty(len(sizes), np.int64)
    total = 0.0
    for f in range(low, high):
        _decode(f, sizes, starts, at)
        line = slopes[(f - low) * K : (f - low + 1) * K]
        for r in range(R):
            h[r] = 1.0
        for m in range(len(sizes)):
            for r in range(R):
                h[r] *= rows[at[m], r]
        for r in range(0, R - 1, 2):
            a, b, s, t = h[r], h[r + 1], 0.0, 0.0
            for k in range(K):
                y = line[k]
                D[r, k] += a * y
                D[r + 1, k] += b * y
                s += y * inner[r, k]
                t += y * inner[r + 1, k]
            w[r], w[r + 1] = s, t
        for r in range(R - R % 2, R):
            a, s = h[r], 0.0
            for k in range(K):
                D[r, k] += a * line[k]
                s += line[k] * inner[r, k]
            w[r] = s
        for m in range(len(sizes)):
            for r in range(R):
                h[r] = w[r]
            for t in range(len(sizes)):
                if t != m:
                    for r in range(R):
                        h[r] *= rows[at[t], r]
            for r in range(R):
                G[at[m], r] += h[r]
        s = 0.0
        for k in range(K):
            s += line[k]
        total += s
        if len(across):
            for m in range(len(sizes)):
                across[at[m]] += s
            for k in range(K):
                along[k] += line[k]
    return total
