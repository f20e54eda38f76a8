"""Predictions at coordinates, and residual sums of squares."""

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

# Squared errors are summed in stretches of fixed length, so that the sum is the same for every number of threads.
_STRETCH = 1 << 16


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


def cp_sse(
    columns: Array,
    values: Array,
    factors: Padded,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
    threads: int | None = None,
) -> float:
    """Return the sum of squared errors over entries, the same for every number of threads."""
    columns, row = np.ascontiguousarray(columns), v.wide_token(factors.arrays[0].shape[1], factors.dtype)
    start = factors.dtype.type(offset)
    n, asked = columns.shape[1], thread_count(threads)
    sums = np.zeros(-(-n // _STRETCH))
    data = (row, columns, values, factors.arrays, biases, start)
    with workers(asked) as run:
        run([partial(_cp_sse, *data, a, b, sums) for a, b in ranges(len(sums), asked)])
    return float(sums.sum())


@kernel()
def _cp_predict(
    row: v.Token, columns: Array, factors: tuple[Array, ...], biases: tuple[Array, ...], offset: Any, low: int,
    high: int, out: Array,
) -> None:  # fmt: skip
    for p in range(low, high):
        index = e.column(factors, columns, p)
        out[p] = e.sum_at(offset, biases, index) + v.total(e.product(e.load_rows(row, factors, index)))


@kernel()
def _cp_sse(
    row: v.Token, columns: Array, values: Array, factors: tuple[Array, ...], biases: tuple[Array, ...], offset: Any,
    low: int, high: int, sums: Array,
) -> None:  # fmt: skip
    n = columns.shape[1]
    for stretch in range(low, high):
        subtotal = 0.0
        for p in range(stretch * _STRETCH, min((stretch + 1) * _STRETCH, n)):
            index = e.column(factors, columns, p)
            guess = e.sum_at(offset, biases, index) + v.total(e.product(e.load_rows(row, factors, index)))
            error = np.float64(values[p]) - np.float64(guess)
            subtotal += error * error
        sums[stretch] = subtotal


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


def tucker_sse(
    columns: Array,
    values: Array,
    core: Array,
    factors: Padded,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
    threads: int | None = None,
) -> float:
    """Return the sum of squared errors over entries, the same for every number of threads."""
    columns, asked = np.ascontiguousarray(columns), thread_count(threads)
    n, task = columns.shape[1], _tucker_task(columns, core, factors, biases, offset)

    def stretch(low: int, high: int) -> float:
        guess = np.empty(high - low, dtype=factors.dtype)
        task(low, high, guess)
        error = np.subtract(values[low:high], guess, dtype=np.float64)
        return float(error @ error)

    with workers(asked) as run:
        return float(sum(run([partial(stretch, a, min(a + _STRETCH, n)) for a in range(0, n, _STRETCH)])))


def _tucker_task(columns: Array, core: Array, padded: Padded, biases: tuple[Array, ...], offset: float) -> Any:
    """A function (low, high, out) that predicts a stretch of entries into out."""
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
    shift = low if len(out) == high - low else 0
    for p in range(low, high):
        for m in range(order):
            at[m] = origins[m] + np.int64(columns[m, p]) * widths[m]
        kron(flat, at, ranks, 1, order - 1, kr)
        w = contract(row, G, r0, J, L, flat, at[0], kr)
        guess = v.total(v.mul(w, v.load(row, flat, at[order - 1])))
        out[p - shift] = guess + e.sum_at(offset, biases, e.column(factors, columns, p))
