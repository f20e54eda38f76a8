"""Predictions at coordinates.

Legend
    columns         (order, n) coordinates; p one of the n cells
    row             token of a whole padded row (kernels/vector.py)
    index           row numbers of a cell, one per mode
    flat, at        all factor rows in one buffer, and where the rows of a cell begin in it
    G, r0, J, L     the core as (first rank, product of the middle ranks, padded last rank); see kernels/tucker.py
    kr, w           Kronecker product of the middle rows; core contracted with the first and the middle rows

Threads own stretches of cells and write those of ``out``. A prediction does not depend on its neighbours, so results
are the same for every number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import entries as e
from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.padded import Padded, pad
from tensorveil.kernels.threads import ranges, thread_count, workers
from tensorveil.kernels.tucker import contract, geometry, kron, pad_core

Array = NDArray[Any]


def cp_predict(
    columns: Array,
    factors: Padded | Sequence[Array],
    threads: int | None = None,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
) -> Array:
    """Return offset + biases + sum_r prod_m factors[m][i_m, r] at every column of ``columns`` (order, n)."""
    columns, padded = np.ascontiguousarray(columns), factors if isinstance(factors, Padded) else pad(factors)
    row = v.wide_token(padded.arrays[0].shape[1], padded.dtype)
    biases = tuple(np.ascontiguousarray(b, dtype=padded.dtype) for b in biases)
    out = np.empty(columns.shape[1], dtype=padded.dtype)
    start = padded.dtype.type(offset)
    asked = thread_count(threads)
    tasks = [
        partial(_cp_predict, row, columns, padded.arrays, biases, start, a, b, out)
        for a, b in ranges(columns.shape[1], asked)
    ]
    with workers(asked) as run:
        run(tasks)
    return out


@kernel()
def _cp_predict(
    row: v.Token, columns: Array, factors: tuple[Array, ...], biases: tuple[Array, ...], offset: Any, low: int,
    high: int, out: Array,
) -> None:  # fmt: skip
    for p in range(low, high):
        index = e.column(factors, columns, p)
        out[p] = e.sum_at(offset, biases, index) + v.total(e.product(e.load_rows(row, factors, index)))


def tucker_predict(
    columns: Array,
    core: Array,
    factors: Padded | Sequence[Array],
    threads: int | None = None,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
) -> Array:
    """Return offset + biases + <core, kron of the rows> at every column of ``columns`` (order, n)."""
    columns, padded = np.ascontiguousarray(columns), factors if isinstance(factors, Padded) else pad(factors)
    out = np.empty(columns.shape[1], dtype=padded.dtype)
    task, asked = _tucker_task(columns, core, padded, biases, offset), thread_count(threads)
    with workers(asked) as run:
        run([partial(task, a, b, out) for a, b in ranges(len(out), asked)])
    return out


def _tucker_task(columns: Array, core: Array, padded: Padded, biases: tuple[Array, ...], offset: float) -> Any:
    """Return a function (low, high, out) that predicts the cells low .. high - 1 into ``out``."""
    width = padded.arrays[-1].shape[1]
    where = geometry(padded, range(core.ndim))
    buffer = pad_core(core, width, padded.dtype)
    biases = tuple(np.ascontiguousarray(b, dtype=padded.dtype) for b in biases)
    model = (padded.arrays, padded.flat, where.origins, where.widths, where.ranks, buffer, biases)
    row = v.wide_token(width, padded.dtype)
    return partial(_tucker_predict, row, columns, *model, padded.dtype.type(offset))


@kernel()
def _tucker_predict(
    row: v.Token, columns: Array, factors: tuple[Array, ...], flat: Array, origins: Array, widths: Array, ranks: Array,
    G: Array, biases: tuple[Array, ...], offset: Any, low: int, high: int, out: Array,
) -> None:  # fmt: skip
    order, r0, L = len(ranks), ranks[0], widths[-1]
    J = len(G) // (r0 * L)
    at, kr = np.empty(order, dtype=np.int64), np.empty(J, dtype=G.dtype)
    for p in range(low, high):
        for m in range(order):
            at[m] = origins[m] + np.int64(columns[m, p]) * widths[m]
        kron(flat, at, ranks, 1, order - 1, kr)
        w = contract(row, G, r0, J, L, flat, at[0], kr)
        guess = v.total(v.mul(w, v.load(row, flat, at[order - 1])))
        out[p] = guess + e.sum_at(offset, biases, e.column(factors, columns, p))
