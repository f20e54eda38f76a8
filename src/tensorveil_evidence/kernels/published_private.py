"""Gradient descent as in Algorithm 2 of Wei, Li, Mao and Wang: one mode's gradients are clipped and get noise.

Entry after entry as in `published`, for CP (an empty core) and Tucker alike. The noisy mode takes its turn after the
other modes and before the core, as C does in print. Or all modes and the core are clipped and get noise, in the order
of the modes: what the paper leaves aside "for the sake of simplicity". Legend: g gradient of the entry's term of the
objective, m clipping constant, n noise vector, row <- row - eta (g / max(1, ||g|| / m) + n).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tensorveil.kernels.padded import Padded
from tensorveil.kernels.tucker import geometry
from tensorveil_evidence.kernels.published import _contract_to, _kron_without, _start_entry, _update

Array = NDArray[Any]


def sgd_published_private(
    columns: Array,
    values: Array,
    order: Array,
    core: Array | None,
    factors: Padded,
    noise: Array,
    mode: int | None,
    clip: float,
    rate: float,
    penalty: float,
    core_penalty: float = 0.0,
) -> float:
    """Visit the entries ``order``, changing ``factors`` and ``core`` in place; noise[p] is for the p-th visit.

    ``mode`` is the noisy one; None: all modes and the core, whose noise then stands side by side in ``noise``.

    Returns the sum of the squared errors met, each before its entry's first update.
    """
    where = geometry(factors, range(len(factors.arrays)))
    model = (factors.flat, where.origins, where.widths, where.ranks)
    modes = len(factors.arrays)
    # Where each mode's noise begins, and the core's; -1 for those that get none.
    firsts = np.full(modes + 1, -1, dtype=np.int64)
    if mode is None:
        turns = np.arange(modes, dtype=np.int64)
        firsts[:] = np.concatenate([[0], np.cumsum(where.ranks)])
    else:
        turns = np.array([m for m in range(modes) if m != mode] + [mode], dtype=np.int64)
        firsts[mode] = 0
    buffer = np.empty(0, factors.dtype) if core is None else np.ascontiguousarray(core).reshape(-1).copy()
    step = 2.0 * rate
    numbers = (float(clip), float(rate), step * penalty, step * core_penalty)
    total = _visit(columns, values, order, buffer, *model, turns, firsts, noise, *numbers)
    if core is not None:
        core[...] = buffer.reshape(core.shape)
    return float(total)


@njit(nogil=True, cache=True)
def _visit(
    columns: Array, values: Array, entries: Array, core: Array, flat: Array, origins: Array, widths: Array,
    ranks: Array, turns: Array, firsts: Array, noise: Array, clip: float, rate: float, decay: float,
    core_decay: float,
) -> float:  # fmt: skip
    modes = len(ranks)
    at, unused = np.empty(modes, dtype=np.int64), np.empty(modes, dtype=np.int64)
    h, outer = np.empty(ranks.max()), np.empty(max(1, len(core)))
    no_bias, no_firsts = np.empty(0, dtype=flat.dtype), np.zeros(modes, dtype=np.int64)
    step, total = 2.0 * rate, 0.0
    for visit in range(len(entries)):
        p = entries[visit]
        _start_entry(columns, p, origins, widths, no_firsts, at, unused)
        for turn in range(modes):
            mode = turns[turn]
            rank = ranks[mode]
            _design(core, flat, at, ranks, mode, outer, h)
            error = values[p] - _dot(flat, at[mode], h, rank)
            if turn == 0:
                total += error * error
            share = 1.0
            if firsts[mode] >= 0:
                share = _kept_share(flat, at[mode], h, rank, step * error / rate, decay / rate, clip)
            _update(flat, at[mode], h, rank, no_bias, 0, 1.0 - share * decay, share * (step * error))
            if firsts[mode] >= 0:
                for k in range(rank):
                    flat[at[mode] + k] -= rate * noise[visit, firsts[mode] + k]
        if len(core) > 0:
            _kron_without(flat, at, ranks, -1, outer)
            gain = step * (values[p] - _dot(core, 0, outer, len(core)))
            share = 1.0
            if firsts[modes] >= 0:
                share = _kept_share(core, 0, outer, len(core), gain / rate, core_decay / rate, clip)
            _update(core, 0, outer, len(core), no_bias, 0, 1.0 - share * core_decay, share * gain)
            if firsts[modes] >= 0:
                for k in range(len(core)):
                    core[k] -= rate * noise[visit, firsts[modes] + k]
    return total


@njit(nogil=True, cache=True)
def _design(core: Array, flat: Array, at: Array, ranks: Array, mode: int, outer: Array, h: Array) -> None:
    """h such that the prediction is h . row of ``mode``."""
    if len(core) > 0:
        _kron_without(flat, at, ranks, mode, outer)
        _contract_to(core, outer, ranks, mode, h)
        return
    for k in range(ranks[mode]):
        h[k] = 1.0
        for m in range(len(ranks)):
            if m != mode:
                h[k] *= flat[at[m] + k]


@njit(nogil=True, cache=True)
def _dot(flat: Array, start: int, h: Array, length: int) -> float:
    total = 0.0
    for k in range(length):
        total += h[k] * flat[start + k]
    return total


@njit(nogil=True, cache=True)
def _kept_share(flat: Array, start: int, h: Array, rank: int, pull: float, shrink: float, clip: float) -> float:
    """Return 1 / max(1, ||g|| / m) for the gradient g = shrink * row - pull * h."""
    squares = 0.0
    for k in range(rank):
        g = shrink * flat[start + k] - pull * h[k]
        squares += g * g
    return 1.0 / max(1.0, math.sqrt(squares) / clip)
