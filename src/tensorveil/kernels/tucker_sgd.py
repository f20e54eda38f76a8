"""Stochastic gradient descent for Tucker; updates as in :mod:`tensorveil.kernels.cp_sgd`, and for the core

    G <- (1 - core_decay) G + step * e * (a (x) b (x) c ...),

all from the old values. Every thread works on a copy of the core; the copies are averaged after each stratum, weighted
by entries. The core's decay is kept as a running scale, so that an entry touches the core once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import blocks as b
from tensorveil.kernels import entries as e
from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.padded import Padded, aligned_zeros, check_types
from tensorveil.kernels.threads import workers
from tensorveil.kernels.tiles import Tiles
from tensorveil.kernels.tucker import geometry, kron

Array = NDArray[Any]

# Rows of scratch a thread needs.
_ROWS = 12


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
    check_types(factors, layout.values, biases)
    real, order = factors.dtype.type, core.ndim
    widths = [a.shape[1] for a in factors.arrays]
    width = widths[-1]
    row = v.wide_token(width, factors.dtype)
    where = geometry(factors, range(order))
    middle = core.size // core.shape[0] // core.shape[-1]
    panel = _panel(middle, len(row))
    tokens = _tokens(row, panel, -(-middle // panel), core, factors)
    data = (tokens, layout.coords, layout.values, layout.starts, layout.bases)
    model = (factors.arrays, factors.flat, where.origins, where.ranks, biases)
    numbers = (real(offset), real(1.0 - decay), real(step), real(1.0 - core_decay))
    block = aligned_zeros((core.shape[0], -(-middle // panel) * panel, width), factors.dtype)
    inside = block[:, :middle, : core.shape[-1]]
    inside[...] = core.reshape(inside.shape)
    copies = [aligned_zeros(block.shape, factors.dtype) for _ in range(layout.threads)]
    scratch = [aligned_zeros((_ROWS * _scratch_length(block.shape, widths),), factors.dtype) for _ in copies]
    total = 0.0
    with workers(layout.threads) as run:
        for stratum in layout.schedule(pass_index):
            tasks = []
            for tiles, mine, spare in zip(stratum, copies, scratch, strict=True):
                mine[...] = block
                tasks.append(partial(_visit, *data, tiles, *model, mine.reshape(-1), spare, *numbers))
            total += sum(run(tasks))
            _average(block, copies, [int((layout.starts[t + 1] - layout.starts[t]).sum()) for t in stratum])
    core[...] = inside.reshape(core.shape)
    return total


def _scratch_length(shape: tuple[int, ...], widths: list[int]) -> int:
    """Room for one row of scratch: as many chunks as the core has first or middle rows, in whole cache lines."""
    first, middle, last = shape
    return -(-((max(first, middle) + 16) * max(16, last) + widths[0] + widths[1]) // 16) * 16


def _average(block: Array, copies: list[Array], weights: list[int]) -> None:
    """Average the threads' cores, weighted by the entries each has seen."""
    if sum(weights) > 0:
        mixed = sum(w / sum(weights) * c.astype(np.float64) for w, c in zip(weights, copies, strict=True))
        block[...] = mixed


def _tokens(row: v.Token, panel: int, panels: int, core: Array, factors: Padded) -> tuple[v.Token, ...]:
    """Compile-time sizes: last row, panel, panel in wide registers, first row, second row, a chunk, a square, r0,
    number of panels."""
    lanes, chunks, dtype = len(row[0]), len(row) * panel, factors.dtype
    join = next(k for k in (8, 4, 2, 1) if chunks % k == 0 and (k == 1 or k * lanes * dtype.itemsize <= 64))
    first, second = (v.wide_token(a.shape[1], dtype) for a in factors.arrays[:2])
    wide = v.token(lanes * join, chunks // join)
    return (
        row, v.token(lanes, chunks), wide, first, second, v.token(lanes), v.token(lanes, lanes),
        v.token(1, core.shape[0]), v.token(1, panels),
    )  # fmt: skip


def _panel(middle: int, chunks: int) -> int:
    """How many of the middle rows are kept in registers at once: at most eight vectors, with little padding."""
    most = max(1, 8 // chunks)
    rounds = -(-middle // most)
    return -(-middle // rounds)


@kernel(error_model="numpy", fastmath={"contract"})
def _visit(
    tokens: tuple[v.Token, ...], coords: Array, values: Array, starts: Array, bases: Array, tiles: Array,
    factors: tuple[Array, ...], flat: Array, origins: Array, ranks: Array, biases: tuple[Array, ...], G: Array,
    S: Array, offset: Any, keep: Any, step: Any, core_keep: Any,
) -> float:  # fmt: skip
    row, lead, mid, lane = tokens[0], tokens[3], tokens[4], tokens[5]
    order, width0, width1, L = len(factors), _length(lead), _length(mid), _length(row)
    J = len(tokens[8]) * len(tokens[1]) // len(row)
    at, one = np.empty(order, dtype=np.int64), G.dtype.type(1)
    # Scratch S holds, each of length s, rows of this entry (0), the last (1) and the one before (2), whose step the
    # core takes now; then sums. Places are numbers: exchanging arrays would count references, with a memory fence.
    s = len(S) // _ROWS
    S[:] = 0
    S[3 * s], S[4 * s], S[5 * s] = one, one, one
    t0, t1, t2, wa, wv = 0, s, 2 * s, 7 * s, 8 * s
    c1, gain1, gain2 = v.zero(row, G), one - one, one - one
    factor, total = one, 0.0
    for tile in tiles:
        base = e.column(factors, bases, tile)
        for p in range(starts[tile], starts[tile + 1]):
            index = e.shift(base, e.column(factors, coords, p))
            i0, i1 = origins[0] + index[0] * width0, origins[1] + index[1] * width1
            i2 = origins[-1] + index[-1] * L
            k0, k1 = t0 + 3 * s, t1 + 3 * s
            c0, row0 = v.load(row, flat, i2), v.load(lead, flat, i0)
            v.store(S, t0, row0)
            if order == 3:
                v.store(S, k0, v.load(mid, flat, i1))
            elif order > 3:
                for m in range(order):
                    at[m] = origins[m] + (bases[m, tile] + coords[m, p]) * factors[m].shape[1]
                kron(flat, at, ranks, 1, order - 1, S[k0:])
            # The last entry's step is not yet in the core: what it adds to this entry's contractions. Everything that
            # does not need the sweep comes first, because the chain from its result to the new rows is what limits.
            last0 = v.load(lead, S, t1)
            aa, cc = v.total(v.mul(row0, last0)), v.total(v.mul(c0, c1))
            kk = v.total(v.mul(v.load(mid, S, k0), v.load(mid, S, k1))) if order == 3 else _dot(lane, S, k0, k1, J)
            slope = step * factor
            last = slope * gain1
            rest = values[p] - e.sum_at(offset, biases, index) - factor * gain1 * (aa * kk * cc)
            guess, wc = _sweep(tokens, G, S, s, t0, c0, t2, gain2)
            error = rest - factor * guess
            scaled = slope * error
            moved = v.axpy(scaled, v.load(lead, S, wa), v.scale(last * (kk * cc) * error, last0))
            v.store(flat, i0, v.axpy(keep, row0, moved))
            if order == 3:
                turned = v.axpy(scaled, v.load(mid, S, wv), v.scale(last * (aa * cc) * error, v.load(mid, S, k1)))
                v.store(flat, i1, v.axpy(keep, v.load(mid, S, k0), turned))
            elif order > 3:
                for j in range(J):
                    S[wv + j] += gain1 * (aa * cc) * S[k1 + j]
                _update_middle(flat, at, ranks, S[wv:], keep, scaled)
            v.store(flat, i2, v.axpy(keep, c0, v.axpy(scaled, wc, v.scale(last * (aa * kk) * error, c1))))
            gain = step * error
            e.blend_at(keep, biases, index, gain)
            total += np.float64(error) * np.float64(error)
            factor *= core_keep
            c1, gain2, gain1 = c0, gain1, gain / factor
            t0, t1, t2 = t2, t0, t1
            if factor < 1e-3:
                _rescale(G, factor)
                gain1, gain2, factor = gain1 * factor, gain2 * factor, one
    _sweep(tokens, G, S, s, t1, c1, t2, gain2)
    _sweep(tokens, G, S, s, t1, c1, t1, gain1)
    _rescale(G, factor)
    return total


@kernel()
def _rescale(G: Array, factor: Any) -> None:
    for k in range(len(G)):
        G[k] *= factor


@kernel(forceinline=True)
def _length(token: v.Token) -> int:
    return len(token) * len(token[0])


@kernel(forceinline=True)
def _dot(lane: v.Token, S: Array, x: int, y: int, length: int) -> Any:
    """Inner product of two stretches of S over whole chunks; both are 0 beyond their length."""
    dot = v.zero(lane, S)
    for k in range(0, length, len(lane[0])):
        dot = v.fma(v.load(lane, S, x + k), v.load(lane, S, y + k), dot)
    return v.total(dot)


@kernel(forceinline=True)
def _sweep(tokens: tuple[v.Token, ...], G: Array, S: Array, s: int, t: int, c: Any, old: int, gain: Any) -> Any:
    """Add an earlier entry's step to the core and contract the core with this entry's rows, reading it once.

    With a, k the rows at t and t + 3 s in S: G += gain * old_a (x) old_k (x) old_c; then, with T = sum_i a_i G_i,
    the scratch gets wa_i = <G_i, k (x) c> and wv_j = <T_j, c>. Returns <T, k (x) c> and sum_j k_j T_j.
    """
    row, panel, wide, lane, square, r0 = tokens[0], tokens[1], tokens[2], tokens[5], tokens[6], len(tokens[7])
    P, L, W = len(panel) // len(row), _length(row), len(row[0])
    J = P * len(tokens[8])
    k, sums, wa, wv, Qs = t + 3 * s, 6 * s, 7 * s, 8 * s, 9 * s
    wc = v.zero(row, G)
    for block in range(len(tokens[8])):
        j = block * P
        Q = b.regroup(wide, b.rank_one(v.zero(panel, G), S, k + j, c))
        v.store(S, Qs + t + j * L, Q)
        old_Q = v.load(wide, S, Qs + old + j * L)
        T = v.zero(wide, G)
        for i in range(r0):
            where = (i * J + j) * L
            g = v.axpy(gain * v.peek(S, old + i), old_Q, v.load(wide, G, where))
            v.store(G, where, g)
            T = v.axpy(v.peek(S, t + i), g, T)
            part = v.fold(lane, v.mul(g, Q))
            if j > 0:
                part = v.add(part, v.load(lane, S, sums + i * W))
            v.store(S, sums + i * W, part)
        split = b.regroup(panel, T)
        wc = b.weigh(wc, S, k + j, split)
        b.store_dots(S, wv + j, split, c)
    for i in range(0, r0, W):
        v.store(S, wa + i, b.totals(v.load(square, S, sums + i * W)))
    return v.total(v.mul(wc, c)), wc


@kernel()
def _update_middle(flat: Array, at: Array, ranks: Array, wv: Array, keep: Any, gain: Any) -> None:
    """Update the rows of the middle modes from wv, the core contracted with the first and last rows."""
    last = len(ranks) - 1
    old = np.empty((last, ranks.max()), dtype=flat.dtype)
    for m in range(1, last):
        for k in range(ranks[m]):
            old[m, k] = flat[at[m] + k]
            flat[at[m] + k] *= keep
    size = 1
    for m in range(1, last):
        size *= ranks[m]
    for j in range(size):
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
