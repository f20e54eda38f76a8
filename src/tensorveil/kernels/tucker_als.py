"""Alternating least squares for Tucker: rows of one mode, given the core and the other modes.

As in :mod:`tensorveil.kernels.cp_als`, but h is the core contracted with the other modes' rows. The contraction
with one of them is done beforehand for all its rows (a table), so that an entry costs J * L, not r0 * J * L; if the
table would be too large, the contraction is redone when the row changes, and entries are sorted so that it seldom does.

Legend (what is not here is as in kernels/cp_als.py)
    first, middle   the mode that is contracted beforehand; the remaining other modes
    R, J            padded rank of the mode that is solved; product of the middle modes' ranks; JL = J R
    core            (rank of first, J R): the core with its axes turned to (first, middle .., mode), last one padded
    table           (rows of first, J R): every row of the first mode times ``core``; empty if it would not fit
    fresh, current  that product for one row only, and which row; source is the table or fresh
    columns         where first and middle modes stand among ``coords``
    flat, origins, widths, ranks   rows of first and middle modes; see kernels/tucker.py
    at, kr          where the rows of an entry begin; Kronecker product of its middle rows
    h               design of the entry: sum_j kr_j source_j, a vector of R lanes
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import entries as e
from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.cp_als import BLOCK, finish_row
from tensorveil.kernels.normal import add_gram
from tensorveil.kernels.padded import Padded, aligned_zeros, check_types
from tensorveil.kernels.rows import Rows
from tensorveil.kernels.threads import cut_evenly, thread_count, workers
from tensorveil.kernels.tucker import geometry, kron, pad_core

Array = NDArray[Any]

_PIECES = 8
_TABLE_BYTES = 128 * 1024 * 1024


def tucker_als_mode(
    rows: Rows,
    core: Array,
    factors: Padded,
    mode: int,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
    ridge: float = 1e-3,
    ridge_per_entry: float = 0.0,
    threads: int | None = None,
    table_bytes: int = _TABLE_BYTES,
) -> float:
    """Replace the rows of ``factors.arrays[mode]`` (and ``biases[mode]``) by their least-squares solutions, in place.

    Arguments and result as for :func:`tensorveil.kernels.cp_als.cp_als_mode`; ``table_bytes`` bounds the table of
    partial contractions and does not change the result's meaning.
    """
    if rows.mode != mode:
        raise ValueError("rows must be grouped by mode; call build_rows with this mode.")
    check_types(factors, rows.values, biases)
    asked, real, out = thread_count(threads), factors.dtype.type, factors.arrays[mode]
    R = out.shape[1]
    tokens = (v.token(min(R, 8), -(-R // 8)), v.narrow_token(R), v.token(min(R, 8), 2))
    first = _first_mode(rows, factors, core, table_bytes)
    middle = [m for m in rows.others if m != first]
    turned = pad_core(np.ascontiguousarray(core.transpose([first, *middle, mode])), R, factors.dtype)
    partial_core = turned.reshape(core.shape[first], -1)
    fits = factors.shape[first] * partial_core[0].nbytes <= table_bytes
    table = factors.views()[first] @ partial_core if fits else np.empty((0, 0), dtype=factors.dtype)
    where = geometry(factors, [first, *middle])
    columns = np.array([rows.others.index(m) for m in (first, *middle)])
    others = tuple(factors.arrays[m] for m in rows.others)
    other_biases = tuple(biases[m] for m in rows.others) if biases else ()
    own_bias = biases[mode] if biases else np.empty(0, dtype=factors.dtype)
    data = (rows.pointers, rows.coords, rows.values, others, other_biases, columns)
    model = (factors.flat, where.origins, where.widths, where.ranks, partial_core, table, out, own_bias)
    numbers = (real(offset), real(ridge), real(ridge_per_entry))

    def piece(low: int, high: int) -> float:
        scratch = aligned_zeros(((BLOCK + R + 6) * R,), factors.dtype)
        return float(_solve_rows(*tokens, *data, *model, *numbers, low, high, scratch))

    with workers(asked) as run:
        return float(sum(run([partial(piece, a, b) for a, b in cut_evenly(rows.pointers, asked * _PIECES)])))


def _first_mode(rows: Rows, factors: Padded, core: Array, table_bytes: int) -> int:
    """Return the mode to contract first: the smallest if its table fits, else the one the entries are sorted by."""
    width = factors.arrays[rows.mode].shape[1]
    smallest = min(rows.others, key=lambda m: factors.shape[m] / core.shape[m])
    inner = core.size // core.shape[smallest] // core.shape[rows.mode] * width
    fits = factors.shape[smallest] * inner * factors.dtype.itemsize <= table_bytes
    return smallest if fits else rows.sorted_by


@kernel()
def _solve_rows(
    row: v.Token, lane: v.Token, pair: v.Token, pointers: Array, coords: Array, values: Array,
    others: tuple[Array, ...], other_biases: tuple[Array, ...], columns: Array, flat: Array, origins: Array,
    widths: Array, ranks: Array, core: Array, table: Array, out: Array, own_bias: Array, offset: Any, ridge: Any,
    ridge_per_entry: Any, low: int, high: int, scratch: Array,
) -> float:  # fmt: skip
    R, JL = out.shape[1], core.shape[1]
    J = JL // R
    H, G = scratch[: BLOCK * R], scratch[BLOCK * R : (BLOCK + R) * R]
    rest = scratch[(BLOCK + R) * R :]
    x, s, work = rest[:R], rest[R : 2 * R], rest[2 * R : 6 * R]
    tabled = table.size > 0
    fresh = np.empty(JL, dtype=flat.dtype)
    source = table.reshape(-1) if tabled else fresh
    kr, at = np.empty(J, dtype=flat.dtype), np.empty(len(ranks), dtype=np.int64)
    current, residual = np.int64(-1), 0.0
    for i in range(low, high):
        start, end = pointers[i], pointers[i + 1]
        G[:] = 0
        rhs, sums = v.zero(row, H), v.zero(row, H)
        target, squares = 0.0, 0.0
        for begin in range(start, end, BLOCK):
            last = min(begin + BLOCK, end)
            for p in range(begin, last):
                for k in range(len(ranks)):
                    at[k] = origins[k] + np.int64(coords[columns[k], p]) * widths[k]
                kron(flat, at, ranks, 1, len(ranks), kr)
                lead = np.int64(coords[columns[0], p])
                if not tabled and lead != current:
                    _contract_first(row, core, flat, at[0], fresh)
                    current = lead
                place = lead * JL if tabled else 0
                h = v.zero(row, H)
                for j in range(J):
                    h = v.axpy(kr[j], v.load(row, source, place + j * R), h)
                y = values[p] - e.sum_at(offset, other_biases, e.column(others, coords, p))
                v.store(H, (p - begin) * R, h)
                rhs, sums = v.axpy(y, h, rhs), v.add(sums, h)
                target += y
                squares += np.float64(y) * np.float64(y)
            add_gram(lane, pair, H, last - begin, R, G)
        v.store(x, 0, rhs)
        v.store(s, 0, sums)
        weight = ridge + ridge_per_entry * (end - start)
        residual += squares + finish_row(lane, G, R, x, s, target, end - start, weight, work, out[i], own_bias, i)
    return residual


@kernel()
def _contract_first(row: v.Token, core: Array, flat: Array, start: int, fresh: Array) -> None:
    """Contract the core with the first mode's row: fresh = sum_i a_i core_i."""
    R = len(row) * len(row[0])
    for j in range(0, len(fresh), R):
        acc = v.zero(row, fresh)
        for i in range(core.shape[0]):
            acc = v.axpy(flat[start + i], v.load(row, core, i * core.shape[1] + j), acc)
        v.store(fresh, j, acc)
