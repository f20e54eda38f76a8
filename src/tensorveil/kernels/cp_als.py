"""Alternating least squares for CP: solve every row of one mode exactly, given the other modes.

Row i minimises sum_p (y_p - h_p . a - b)^2 + ridge |a|^2 + ridge b^2 over its entries, with h the product of the other
modes' rows, y the value less the offset and the other modes' biases, and b the row's own bias (if biases are used);
ridge = ridge + ridge_per_entry * (number of entries). Rows without entries become 0.

Legend
    R               padded rank: rows are this long everywhere, and what is beyond the rank is 0 and stays 0
    row, lane, pair tokens: a whole row, one chunk of it, two chunks (see kernels/vector.py)
    i, p            row of this mode; entry of the layout (entries of row i are pointers[i] .. pointers[i + 1])
    h, y            design and target of an entry
    H               (BLOCK, R) designs of a block of entries, flat
    G               (R, R) Gram matrix H'H of the row, flat, column by column; lower triangle in whole chunks
    rhs, sums       in registers: sum of y h, and of h; x and s are the same in memory, and then the solutions
    target, squares sums of y and of y^2, in float64 also for float32 entries

Why blocks: a row's designs do not fit the registers, so they are formed for BLOCK entries at a time and stay in the
innermost cache while `add_gram` passes over them once per block of columns. Why pieces: threads own ranges of rows with
about equal numbers of entries and write only those; rows do not depend on who solves them, so results are the same for
every number of threads. The residual is summed per piece in the pieces' order, which depends on the number of threads
in the last digits only.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import entries as e
from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.normal import add_gram, factorise, solve
from tensorveil.kernels.padded import Padded, aligned_zeros, check_types
from tensorveil.kernels.rows import Rows
from tensorveil.kernels.threads import cut_evenly, thread_count, workers

Array = NDArray[Any]

# Products are formed for this many entries at a time: small enough for the innermost cache.
BLOCK = 128
# More pieces than threads, so that a slow thread holds nobody up; rows do not depend on who solves them.
_PIECES = 8


def cp_als_mode(
    rows: Rows,
    factors: Padded,
    mode: int,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
    ridge: float = 1e-3,
    ridge_per_entry: float = 0.0,
    threads: int | None = None,
) -> float:
    """Replace the rows of ``factors.arrays[mode]`` (and ``biases[mode]``) by their least-squares solutions, in place.

    ``rows`` must be grouped by ``mode``. Returns the residual sum of squares after the step, from the normal
    equations: accurate to about the precision of the dtype times the sum of the squared values. Bit-identical for
    every number of threads.
    """
    if rows.mode != mode:
        raise ValueError("rows must be grouped by mode; call build_rows with this mode.")
    check_types(factors, rows.values, biases)
    asked = thread_count(threads)
    real, out = factors.dtype.type, factors.arrays[mode]
    R = out.shape[1]
    tokens = (v.token(min(R, 8), -(-R // 8)), v.narrow_token(R), v.token(min(R, 8), 2))
    others = tuple(factors.arrays[m] for m in rows.others)
    other_biases = tuple(biases[m] for m in rows.others) if biases else ()
    own_bias = biases[mode] if biases else np.empty(0, dtype=factors.dtype)
    numbers = (real(offset), real(ridge), real(ridge_per_entry))
    data = (rows.pointers, rows.coords, rows.values, others, other_biases, out, own_bias)

    def piece(low: int, high: int) -> float:
        scratch = aligned_zeros(((BLOCK + R + 6) * R,), factors.dtype)
        return float(_solve_rows(*tokens, *data, *numbers, low, high, scratch))

    with workers(asked) as run:
        return float(sum(run([partial(piece, a, b) for a, b in cut_evenly(rows.pointers, asked * _PIECES)])))


@kernel()
def _solve_rows(
    row: v.Token, lane: v.Token, pair: v.Token, pointers: Array, coords: Array, values: Array,
    others: tuple[Array, ...], other_biases: tuple[Array, ...], out: Array, own_bias: Array, offset: Any, ridge: Any,
    ridge_per_entry: Any, low: int, high: int, scratch: Array,
) -> float:  # fmt: skip
    R = out.shape[1]
    H, G = scratch[: BLOCK * R], scratch[BLOCK * R : (BLOCK + R) * R]
    rest = scratch[(BLOCK + R) * R :]
    x, s, work = rest[:R], rest[R : 2 * R], rest[2 * R : 6 * R]
    residual = 0.0
    for i in range(low, high):
        start, end = pointers[i], pointers[i + 1]
        G[:] = 0
        rhs, sums = v.zero(row, H), v.zero(row, H)
        target, squares = 0.0, 0.0
        for first in range(start, end, BLOCK):
            last = min(first + BLOCK, end)
            for p in range(first, last):
                index = e.column(others, coords, p)
                h = e.product(e.load_rows(row, others, index))
                y = values[p] - e.sum_at(offset, other_biases, index)
                v.store(H, (p - first) * R, h)
                rhs, sums = v.axpy(y, h, rhs), v.add(sums, h)
                target += y
                squares += np.float64(y) * np.float64(y)
            add_gram(lane, pair, H, last - first, R, G)
        v.store(x, 0, rhs)
        v.store(s, 0, sums)
        weight = ridge + ridge_per_entry * (end - start)
        residual += squares + finish_row(lane, G, R, x, s, target, end - start, weight, work, out[i], own_bias, i)
    return residual


@kernel()
def finish_row(
    lane: v.Token, G: Array, R: int, x: Array, s: Array, target: float, count: int, ridge: Any, work: Array,
    out: Array, own_bias: Array, i: int,
) -> float:  # fmt: skip
    """Solve one row from its sums and write it; return residual sum of squares less the sum of squared targets.

    ``work`` holds [1 / pivots, scratch, right-hand side, kept sums], each of length R.
    """
    inverse, spare, rhs, kept = work[:R], work[R : 2 * R], work[2 * R : 3 * R], work[3 * R : 4 * R]
    for k in range(R):
        G[k * R + k] += ridge
        rhs[k], kept[k] = x[k], s[k]
    factorise(lane, G, R, inverse)
    solve(lane, G, R, inverse, x, spare)
    bias = 0.0
    if len(own_bias) > 0 and count > 0:
        # Bordered system: eliminate the row, solve for the bias, put it back.
        solve(lane, G, R, inverse, s, spare)
        along, across = 0.0, 0.0
        for k in range(R):
            along += np.float64(kept[k]) * np.float64(x[k])
            across += np.float64(kept[k]) * np.float64(s[k])
        bias = (target - along) / max(count + np.float64(ridge) - across, 1e-9 * count)
    gain = bias * (target + np.float64(ridge) * bias)
    for k in range(R):
        solution = np.float64(x[k]) - bias * np.float64(s[k])
        gain += solution * (np.float64(rhs[k]) + np.float64(ridge) * solution)
        out[k] = solution
    if len(own_bias) > 0:
        own_bias[i] = bias
    return -gain
