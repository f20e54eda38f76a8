"""Stochastic gradient descent exactly as published: one entry after the other, one mode after the other.

For every entry the rows of mode 0, 1, ... (and for Tucker last the core) are updated in turn, each gradient evaluated
at the values then current, so the error is computed anew for every update. Slow by design and strictly sequential; use
float64. ``step`` = 2 eta and ``decay`` = 2 eta lam as in :mod:`tensorveil.kernels.cp_sgd`. A mode's bias, if any, is
updated together with its row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.padded import Padded
from tensorveil.kernels.tucker import geometry

Array = NDArray[Any]


def cp_sgd_published(
    columns: Array,
    values: Array,
    order: Array,
    factors: Padded,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
    step: float = 0.01,
    decay: float = 0.0,
) -> float:
    """Visit the entries ``order`` of (columns, values) one by one, changing ``factors`` and ``biases`` in place.

    Returns the sum of the squared errors met, each before its entry's first update.
    """
    where = geometry(factors, range(len(factors.arrays)))
    model = (factors.flat, where.origins, where.widths, where.ranks)
    flat_bias, firsts = _join(biases, factors)
    numbers = (float(offset), 1.0 - decay, float(step))
    total = _cp_visit(columns, values, order, *model, flat_bias, firsts, *numbers)
    _split(flat_bias, firsts, biases)
    return float(total)


def tucker_sgd_published(
    columns: Array,
    values: Array,
    order: Array,
    core: Array,
    factors: Padded,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
    step: float = 0.01,
    decay: float = 0.0,
    core_decay: float = 0.0,
) -> float:
    """Visit the entries ``order`` one by one, changing ``core``, ``factors`` and ``biases`` in place; see above."""
    where = geometry(factors, range(core.ndim))
    model = (factors.flat, where.origins, where.widths, where.ranks)
    flat_bias, firsts = _join(biases, factors)
    numbers = (float(offset), 1.0 - decay, float(step), 1.0 - core_decay)
    buffer = np.ascontiguousarray(core).reshape(-1).copy()
    total = _tucker_visit(columns, values, order, buffer, *model, flat_bias, firsts, *numbers)
    core[...] = buffer.reshape(core.shape)
    _split(flat_bias, firsts, biases)
    return float(total)


def _join(biases: tuple[Array, ...], factors: Padded) -> tuple[Array, Array]:
    """All biases in one array, and where each mode's start; empty if there are none."""
    if not biases:
        return np.empty(0, dtype=factors.dtype), np.zeros(len(factors.arrays), dtype=np.int64)
    firsts = np.concatenate([[0], np.cumsum([len(b) for b in biases])[:-1]]).astype(np.int64)
    return np.concatenate(biases).astype(factors.dtype), firsts


def _split(flat: Array, firsts: Array, biases: tuple[Array, ...]) -> None:
    for first, bias in zip(firsts.tolist(), biases, strict=False):
        bias[:] = flat[first : first + len(bias)]


@kernel()
def _start_entry(columns: Array, p: int, origins: Array, widths: Array, firsts: Array, at: Array, bat: Array) -> None:
    for m in range(len(at)):
        at[m] = origins[m] + np.int64(columns[m, p]) * widths[m]
        bat[m] = firsts[m] + np.int64(columns[m, p])


@kernel()
def _constant(bias: Array, bat: Array, offset: float) -> float:
    if len(bias) > 0:
        for m in range(len(bat)):
            offset += bias[bat[m]]
    return offset


@kernel()
def _update(flat: Array, start: int, h: Array, rank: int, bias: Array, b: int, keep: float, gain: float) -> None:
    for k in range(rank):
        flat[start + k] = keep * flat[start + k] + gain * h[k]
    if len(bias) > 0:
        bias[b] = keep * bias[b] + gain


@kernel()
def _cp_visit(
    columns: Array, values: Array, entries: Array, flat: Array, origins: Array, widths: Array, ranks: Array,
    bias: Array, firsts: Array, offset: float, keep: float, step: float,
) -> float:  # fmt: skip
    order, rank = len(ranks), ranks[0]
    at, bat = np.empty(order, dtype=np.int64), np.empty(order, dtype=np.int64)
    h = np.empty(rank)
    total = 0.0
    for p in entries:
        _start_entry(columns, p, origins, widths, firsts, at, bat)
        for mode in range(order):
            guess = _constant(bias, bat, offset)
            for k in range(rank):
                h[k] = 1.0
                for m in range(order):
                    if m != mode:
                        h[k] *= flat[at[m] + k]
                guess += h[k] * flat[at[mode] + k]
            error = values[p] - guess
            if mode == 0:
                total += error * error
            _update(flat, at[mode], h, rank, bias, bat[mode], keep, step * error)
    return total


@kernel()
def _tucker_visit(
    columns: Array, values: Array, entries: Array, core: Array, flat: Array, origins: Array, widths: Array,
    ranks: Array, bias: Array, firsts: Array, offset: float, keep: float, step: float, core_keep: float,
) -> float:  # fmt: skip
    order = len(ranks)
    at, bat = np.empty(order, dtype=np.int64), np.empty(order, dtype=np.int64)
    h, outer = np.empty(ranks.max()), np.empty(len(core))
    total = 0.0
    for p in entries:
        _start_entry(columns, p, origins, widths, firsts, at, bat)
        for mode in range(order):
            _kron_without(flat, at, ranks, mode, outer)
            _contract_to(core, outer, ranks, mode, h)
            guess = _constant(bias, bat, offset)
            for k in range(ranks[mode]):
                guess += h[k] * flat[at[mode] + k]
            error = values[p] - guess
            if mode == 0:
                total += error * error
            _update(flat, at[mode], h, ranks[mode], bias, bat[mode], keep, step * error)
        _kron_without(flat, at, ranks, -1, outer)
        guess = _constant(bias, bat, offset)
        for e in range(len(core)):
            guess += core[e] * outer[e]
        gain = step * (values[p] - guess)
        for e in range(len(core)):
            core[e] = core_keep * core[e] + gain * outer[e]
    return total


@kernel()
def _kron_without(flat: Array, at: Array, ranks: Array, mode: int, out: Array) -> None:
    """Kron of all rows over the whole core, with ones in place of the row of ``mode``."""
    out[0] = 1.0
    size = 1
    for m in range(len(ranks)):
        for j in range(size - 1, -1, -1):
            x = out[j]
            for k in range(ranks[m] - 1, -1, -1):
                out[j * ranks[m] + k] = x if m == mode else x * flat[at[m] + k]
        size *= ranks[m]


@kernel()
def _contract_to(core: Array, outer: Array, ranks: Array, mode: int, h: Array) -> None:
    """h[k] = sum of core * outer over the elements whose index in ``mode`` is k."""
    inner = 1
    for m in range(mode + 1, len(ranks)):
        inner *= ranks[m]
    h[: ranks[mode]] = 0.0
    for e in range(len(core)):
        h[(e // inner) % ranks[mode]] += core[e] * outer[e]
