"""Stochastic gradient descent for Tucker; updates as in :mod:`tensorveil.kernels.cp_sgd`, and for the core

    G <- (1 - core_decay) G + step * e * (a (x) b (x) c ...),

all from the old values. Every thread works on a copy of the core; the copies are averaged after each stratum, weighted
by entries. The core's decay is kept as a running scale, so that an entry touches the core once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tensorveil.kernels import vector as v
from tensorveil.kernels.padded import Padded
from tensorveil.kernels.threads import workers
from tensorveil.kernels.tiles import Tiles
from tensorveil.kernels.tucker import geometry, kron, pad_core, unpad_core

Array = NDArray[Any]


def tucker_sgd_pass(
    layout: Tiles,
    core: Array,
    factors: Padded,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
    step: float = 0.01,
    decay: float = 0.0,
    core_decay: float = 0.0,
    pass_index: int = 0,
) -> float:
    """Visit every entry once, changing ``core``, ``factors`` and ``biases`` in place.

    Returns the sum of the squared errors met on the way, each before its own update. The result is a pure function
    of the arguments.
    """
    real, order = factors.dtype.type, core.ndim
    width = factors.arrays[-1].shape[1]
    row = v.wide_token(width, factors.dtype)
    where = geometry(factors, range(order))
    data = (row, layout.coords, layout.values, layout.starts, layout.bases)
    model = (factors.arrays, factors.flat, where.origins, where.widths, where.ranks, biases)
    numbers = (real(offset), real(1.0 - decay), real(step), real(1.0 - core_decay))
    buffer, total = pad_core(core, width, factors.dtype), 0.0
    with workers(layout.threads) as run:
        for stratum in layout.schedule(pass_index):
            copies = [buffer.copy() for _ in stratum]
            pairs = zip(stratum, copies, strict=True)
            total += sum(run([partial(_visit, *data, tiles, *model, mine, *numbers) for tiles, mine in pairs]))
            weights = np.array([int((layout.starts[t + 1] - layout.starts[t]).sum()) for t in stratum], dtype=float)
            if weights.sum() > 0:
                mixed = sum(w * c.astype(np.float64) for w, c in zip(weights / weights.sum(), copies, strict=True))
                buffer[:] = mixed
    unpad_core(buffer, core)
    return total


@njit(nogil=True, cache=True)
def _visit(
    row: v.Token, coords: Array, values: Array, starts: Array, bases: Array, tiles: Array, factors: tuple[Array, ...],
    flat: Array, origins: Array, widths: Array, ranks: Array, biases: tuple[Array, ...], G: Array, offset: Any,
    keep: Any, step: Any, core_keep: Any,
) -> float:  # fmt: skip
    order, r0, L = len(ranks), ranks[0], widths[-1]
    J = len(G) // (r0 * L)
    at = np.empty(order, dtype=np.int64)
    kr, wa, wv = np.empty(J, dtype=G.dtype), np.empty(r0, dtype=G.dtype), np.empty(J, dtype=G.dtype)
    one = G.dtype.type(1)
    factor, total = one, 0.0
    for tile in tiles:
        for p in range(starts[tile], starts[tile + 1]):
            for m in range(order):
                at[m] = origins[m] + (bases[m, tile] + coords[m, p]) * widths[m]
            kron(flat, at, ranks, 1, order - 1, kr)
            c = v.load(row, flat, at[order - 1])
            wc = _gradients(row, G, r0, J, L, flat, at[0], kr, c, wa, wv)
            index = v.shift(v.column(factors, bases, tile), v.column(factors, coords, p))
            error = values[p] - v.sum_at(offset, biases, index) - factor * v.total(v.mul(wc, c))
            gain = step * error
            factor *= core_keep
            _add_outer(row, G, r0, J, L, flat, at[0], kr, c, gain / factor)
            scaled = gain * (factor / core_keep)
            v.store(flat, at[order - 1], v.axpy(keep, c, v.scale(scaled, wc)))
            if order > 2:
                _update_middle(flat, at, ranks, wv, keep, scaled)
            for i in range(r0):
                flat[at[0] + i] = keep * flat[at[0] + i] + scaled * wa[i]
            v.blend_at(keep, biases, index, gain)
            total += np.float64(error) * np.float64(error)
            if factor < 1e-3:
                G *= factor
                factor = one
    G *= factor
    return total


@njit(nogil=True, cache=True)
def _gradients(
    row: v.Token, G: Array, r0: int, J: int, L: int, flat: Array, a: int, kr: Array, c: Any, wa: Array, wv: Array
) -> Any:
    """Contract the core with all rows but one: fills wa and wv (middle modes together), returns the last mode's."""
    wc = v.zero(row, G)
    for i in range(r0):
        inner = v.zero(row, G)
        for j in range(J):
            inner = v.axpy(kr[j], v.load(row, G, (i * J + j) * L), inner)
        wa[i] = v.total(v.mul(inner, c))
        wc = v.axpy(flat[a + i], inner, wc)
    for j in range(J):
        inner = v.zero(row, G)
        for i in range(r0):
            inner = v.axpy(flat[a + i], v.load(row, G, (i * J + j) * L), inner)
        wv[j] = v.total(v.mul(inner, c))
    return wc


@njit(nogil=True, cache=True)
def _add_outer(
    row: v.Token, G: Array, r0: int, J: int, L: int, flat: Array, a: int, kr: Array, c: Any, gain: Any
) -> None:
    """G += gain * (a (x) kr (x) c)."""
    for i in range(r0):
        mine = v.scale(gain * flat[a + i], c)
        for j in range(J):
            where = (i * J + j) * L
            v.store(G, where, v.axpy(kr[j], mine, v.load(row, G, where)))


@njit(nogil=True, cache=True)
def _update_middle(flat: Array, at: Array, ranks: Array, wv: Array, keep: Any, gain: Any) -> None:
    """Update the rows of the middle modes from wv, the core contracted with the first and last rows."""
    last = len(ranks) - 1
    if last == 2:
        for k in range(ranks[1]):
            flat[at[1] + k] = keep * flat[at[1] + k] + gain * wv[k]
        return
    old = np.empty((last, ranks.max()), dtype=flat.dtype)
    for m in range(1, last):
        for k in range(ranks[m]):
            old[m, k] = flat[at[m] + k]
            flat[at[m] + k] *= keep
    for j in range(len(wv)):
        for m in range(1, last):
            weight, rest, mine = wv[j] * gain, j, 0
            for other in range(last - 1, 0, -1):
                digit = rest % ranks[other]
                rest //= ranks[other]
                if other == m:
                    mine = digit
                else:
                    weight *= old[other, digit]
            flat[at[m] + mine] += weight
