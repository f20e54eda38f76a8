"""Ridge regression of one user after the other: tile by tile, every number with the bits of the textbook's sums.

A solution must be a function of the user's entries and the public prior alone, to the last bit. So every sum takes its
terms one after the other, in a fixed order, each rounded: over entries in the user's order, over coefficients from the
first to the last. Eight such sums stand side by side (`lanes.py`), which makes no difference to any of them.

Legend
    d, D           number of coefficients; that of columns: room for d and the target, a multiple of 8
    n              entries of the user, or of a chunk of them
    T              entries by lanes: coefficient a of entry 8 q + lane at (q D + a) 8 + lane, zero beyond the last entry
    X              the same by rows, in blocks of eight columns; column d is the target
    prior          (D, D) P, upper triangle, with P mean as column d: what the sums over entries begin with
    a0, b0         where tiles begin: rows, columns
    G, V, B        (D, D) X'X + P; its Cholesky factor U, in G's place; the inverse of U'; the inverse of X'X + P
    s, w           (D,) X'y + P mean; the solution B s

Why the target is a column of X: its products with the other columns are the right-hand side, at the cost of no further
loop. Why tiles: of 8 x 8 sums in registers, each term is one multiplication and one addition, and nothing is stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import lanes as l
from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]

# A division by zero gives no number and no exception: whatever goes wrong for one user is that user's alone, and its
# contribution is left out where it is bounded.
user_kernel = kernel(error_model="numpy")
# Entries whose designs are held at a time, so that they stay in the cache: a multiple of 8.
CHUNK = 256


def lay_out_prior(precision: Array, mean: Array) -> Array:
    """Return the prior as `solve_user` takes it."""
    d = len(mean)
    out = np.zeros((l.pad_width(d + 1), l.pad_width(d + 1)))
    out[:d, :d] = np.tril(precision).T
    for b in range(d):  # number by number: a matrix product may add in another order
        out[:d, d] += precision[:, b] * mean[b]
    return out


@user_kernel
def turn_chunk(D: int, n: int, T: Array, X: Array) -> None:
    """Write by rows what is there by lanes."""
    for q in range((n + 7) // 8):
        for b0 in range(0, D, 8):
            l.put_tile(X, b0 * CHUNK + q * 64, 8, l.turn(l.get_tile(T, (q * D + b0) * 8, 8)))


@user_kernel
def add_gram(D: int, n: int, X: Array, G: Array) -> None:
    """Add X'X to the upper triangle of G, entry by entry."""
    for a0 in range(0, D, 8):
        for b0 in range(a0, D, 8):
            tile = l.get_tile(G, a0 * D + b0, D)
            for p in range(n):
                tile = l.outer_add(tile, X, a0 * CHUNK + p * 8, X, b0 * CHUNK + p * 8)
            l.put_tile(G, a0 * D + b0, D, tile)


@user_kernel
def solve_user(d: int, D: int, G: Array, V: Array, s: Array, w: Array) -> None:
    """Write the inverse of X'X + P over G, and the solution into w."""
    for a in range(D):
        s[a] = G[a * D + d] if a < d else 0.0
    for a in range(d, D):  # what lies beyond the coefficients: a unit matrix, which keeps to itself
        for b in range(a):
            G[b * D + a] = 0.0
        G[a * D + a] = 1.0
    _factor(D, G)
    _invert(D, G, V)
    _multiply(D, V, G)
    for a0 in range(0, D, 8):
        sums = v.zero(l.EIGHT, w)
        for b in range(d):
            sums = l.add(sums, l.multiply(v.load(l.EIGHT, G, b * D + a0), l.fill(s[b])))
        v.store(w, a0, sums)


@user_kernel
def _factor(D: int, G: Array) -> None:
    for a0 in range(0, D, 8):
        for b0 in range(a0, D, 8):
            tile = l.get_tile(G, a0 * D + b0, D)
            for k in range(a0):
                tile = l.outer_subtract(tile, G, k * D + a0, G, k * D + b0)
            tile = l.factor(tile) if b0 == a0 else l.solve(tile, G, a0 * D + a0, D)
            l.put_tile(G, a0 * D + b0, D, tile)


@user_kernel
def _invert(D: int, U: Array, V: Array) -> None:
    for a0 in range(0, D, 8):
        for b0 in range(0, a0 + 8, 8):
            tile = l.unit_tile() if b0 == a0 else l.zero_tile()
            for k in range(b0, a0):
                tile = l.outer_subtract(tile, U, k * D + a0, V, k * D + b0)
            l.put_tile(V, a0 * D + b0, D, l.solve(tile, U, a0 * D + a0, D))


@user_kernel
def _multiply(D: int, V: Array, B: Array) -> None:
    """Write V'V."""
    for a0 in range(0, D, 8):
        for b0 in range(a0, D, 8):
            tile = l.zero_tile()
            for k in range(b0, D):
                tile = l.outer_add(tile, V, k * D + a0, V, k * D + b0)
            l.put_tile(B, a0 * D + b0, D, tile)
            l.put_tile(B, b0 * D + a0, D, l.turn(tile))


@user_kernel
def explain(d: int, at: int, T: Array, w: Array) -> Any:
    """Return what a solution explains of eight entries: those whose coefficients begin at an element of T."""
    explained = v.zero(l.EIGHT, w)
    for a in range(d):
        explained = l.add(explained, l.multiply(l.fill(w[a]), v.load(l.EIGHT, T, at + a * 8)))
    return explained
