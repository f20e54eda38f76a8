"""Stochastic gradients of any loss: draw cells that are not listed, evaluate a CP model, spread gradients over rows.

The loss itself is not here: `linear_at` gives the linear part at a batch of cells, the caller turns it into one number
per cell, and `add_gradients` takes these back to the rows. So one set of kernels serves every loss, a user's own too.
Stratified sampling of listed and unlisted cells and Adam are those of Kolda and Hong (2020).

Legend
    e, m, r         cell of the batch; mode; component
    columns         (order, n) coordinates
    rows, starts    all factors one under the other (rows, R), and where the one of each mode begins; modes that are the
                    same thing begin at the same row
    h, g            products of the other modes' rows; derivative of the loss by the linear part
    table, mask     open addressing: 32 bits of a hash of every listed cell, at a place that other bits choose; 0: free
    G, M, V         gradient, and Adam's running means of it and of its square

A cell that is not listed is taken for a listed one about once in a thousand million times, which costs a sample. Every
sum is made by one thread in the order of the batch: results are the same for every number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.sorting import next_random

Array = NDArray[Any]

# An almost full tensor has cells left that random numbers seldom find: a sample may stay without one.
_TRIES = 64


def build_table(n: int) -> Array:
    """Return an empty table for n cells, at most half full."""
    return np.zeros(max(16, 1 << int(np.ceil(np.log2(2.0 * max(n, 1))))), dtype=np.uint32)


@kernel()
def _hash(columns: Array, e: int) -> np.uint64:
    key = np.uint64(0x2545F4914F6CDD1D)
    for m in range(columns.shape[0]):
        key = next_random(key ^ np.uint64(columns[m, e]))
    return key


@kernel()
def insert_cells(table: Array, columns: Array) -> None:
    """Put cells into the table."""
    mask = np.uint64(len(table) - 1)
    for e in range(columns.shape[1]):
        key = _hash(columns, e)
        mark = np.uint32(key >> np.uint64(32)) | np.uint32(1)
        place = key & mask
        while table[place] != 0 and table[place] != mark:
            place = (place + np.uint64(1)) & mask
        table[place] = mark


@kernel()
def draw_cells(table: Array, shape: Array, seed: np.uint64, low: int, high: int, columns: Array, found: Array) -> None:
    """Fill columns low..high with random cells that are not in the table; found is 0 where there was none."""
    mask = np.uint64(len(table) - 1)
    for e in range(low, high):
        found[e] = 0
        state = next_random(seed ^ np.uint64(e))
        for _ in range(_TRIES):
            for m in range(columns.shape[0]):
                state = next_random(state)
                columns[m, e] = np.int32(((state >> np.uint64(32)) * np.uint64(shape[m])) >> np.uint64(32))
            key = _hash(columns, e)
            mark = np.uint32(key >> np.uint64(32)) | np.uint32(1)
            place = key & mask
            while table[place] != 0 and table[place] != mark:
                place = (place + np.uint64(1)) & mask
            if table[place] == 0:
                found[e] = 1
                break


@kernel()
def pick_cells(columns: Array, values: Array, order: Array, low: int, high: int, out: Array, truth: Array) -> None:
    """Copy the listed cells order[low:high] into the first columns of ``out``."""
    for q in range(low, high):
        p = order[q]
        for m in range(columns.shape[0]):
            out[m, q - low] = columns[m, p]
        truth[q - low] = values[p]


@kernel(fastmath={"contract"})
def linear_at(
    columns: Array, rows: Array, starts: Array, biases: Array, offset: float, low: int, high: int, out: Array
) -> None:
    """Write the linear part at columns low..high; without biases these are empty."""
    R = rows.shape[1]
    h = np.empty(R, rows.dtype)
    for e in range(low, high):
        i = starts[0] + columns[0, e]
        total = offset
        if len(biases):
            total += biases[i]
        for r in range(R):
            h[r] = rows[i, r]
        for m in range(1, columns.shape[0]):
            i = starts[m] + columns[m, e]
            if len(biases):
                total += biases[i]
            for r in range(R):
                h[r] *= rows[i, r]
        for r in range(R):
            total += h[r]
        out[e] = total


@kernel(fastmath={"contract"})
def add_gradients(columns: Array, rows: Array, starts: Array, g: Array, modes: Array, G: Array, bias: Array) -> None:
    """Add g * h to G at the rows of each of ``modes``, and g to the biases, if there are any."""
    R = rows.shape[1]
    h = np.empty(R, rows.dtype)
    for t in range(len(modes)):
        own = modes[t]
        for e in range(columns.shape[1]):
            if g[e] == 0:
                continue
            for r in range(R):
                h[r] = g[e]
            for m in range(columns.shape[0]):
                if m != own:
                    i = starts[m] + columns[m, e]
                    for r in range(R):
                        h[r] *= rows[i, r]
            i = starts[own] + columns[own, e]
            for r in range(R):
                G[i, r] += h[r]
            if len(bias):
                bias[i] += g[e]


@kernel(fastmath={"contract"})
def adam_step(x: Array, G: Array, M: Array, V: Array, rate: float, ridge: float, step: int, lowest: float) -> None:
    """Move flat parameters by Adam (Kingma and Ba 2015), not below ``lowest``; the gradient is 0 afterwards."""
    first, second = 1 - 0.9**step, 1 - 0.999**step
    for k in range(len(x)):
        d = G[k] + ridge * x[k]
        G[k] = 0
        M[k] += 0.1 * (d - M[k])
        V[k] += 0.001 * (d * d - V[k])
        moved = x[k] - rate * (M[k] / first) / (np.sqrt(V[k] / second) + 1e-8)
        x[k] = max(moved, lowest)
