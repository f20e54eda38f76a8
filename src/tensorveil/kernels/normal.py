"""Normal equations: symmetric rank-k updates in registers, and an in-place Cholesky solve.

Legend
    R, W            padded rank; lanes of one chunk (R is a multiple of W)
    lane, pair      tokens of one chunk and of two
    H               rows of length R in a flat buffer
    G               (R, R), column j at G[j R : (j + 1) R]; only the chunks from the diagonal downwards are filled
    L               the Cholesky factor, in the place of G and laid out like it
    inverse         (R,) 1 / diagonal of L, or 0 for a column without a pivot

`add_gram` walks over the lower triangle in blocks of W columns by W or 2 W rows. A block stays in registers while all
entries pass, so memory sees each block once per call and not once per entry; two chunks at a time where possible, so
that a number that is spread over all lanes serves twice. `factorise` is right-looking, so that its inner loop runs down
a column, which is contiguous. The padding needs no care: its columns of H are 0, its pivots are ridge or below the
floor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import blocks as b
from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel

Array = NDArray[Any]


@kernel()
def add_gram(lane: v.Token, pair: v.Token, H: Array, count: int, R: int, G: Array) -> None:
    """G += H' H for the first ``count`` rows of length R in the flat buffer H."""
    W = len(lane[0])
    for k in range(0, R, W):
        c = k
        while c + W < R:
            wide = b.zero_block(pair, H)
            for q in range(count):
                wide = b.rank_one(wide, H, q * R + k, v.load(pair, H, q * R + c))
            b.add_block(pair, G, k * R + c, R, wide)
            c += 2 * W
        if c < R:
            block = b.zero_block(lane, H)
            for q in range(count):
                block = b.rank_one(block, H, q * R + k, v.load(lane, H, q * R + c))
            b.add_block(lane, G, k * R + c, R, block)


@kernel()
def factorise(lane: v.Token, G: Array, R: int, inverse: Array) -> None:
    """Replace G by its Cholesky factor; ``inverse`` receives 1 / diagonal, or 0 where G has no further rank."""
    W = len(lane[0])
    largest = G[0]
    for k in range(R):
        largest = max(largest, G[k * R + k])
    floor = largest * (R * np.finfo(G.dtype).eps)
    one = inverse.dtype.type(1)
    for k in range(R):
        pivot = G[k * R + k]
        # A column without a pivot is dropped: its coefficient becomes 0 rather than infinite.
        scale = one / np.sqrt(pivot) if pivot > floor else one - one
        inverse[k] = scale
        first = k - k % W
        for c in range(first, R, W):
            v.store(G, k * R + c, v.scale(scale, v.load(lane, G, k * R + c)))
        for j in range(k + 1, R):
            factor = -G[k * R + j]
            for c in range(j - j % W, R, W):
                v.store(G, j * R + c, v.axpy(factor, v.load(lane, G, k * R + c), v.load(lane, G, j * R + c)))


@kernel()
def solve(lane: v.Token, L: Array, R: int, inverse: Array, x: Array, work: Array) -> None:
    """Solve L L' x = x in place, given :func:`factorise`'s result."""
    W = len(lane[0])
    for k in range(R):
        z = x[k] * inverse[k]
        work[k] = z
        for c in range(k - k % W, R, W):
            v.store(x, c, v.axpy(-z, v.load(lane, L, k * R + c), v.load(lane, x, c)))
    # Lanes of x that are not solved yet are 0, so whole-chunk products need no mask.
    for c in range(0, R, W):
        v.store(x, c, v.zero(lane, x))
    for k in range(R - 1, -1, -1):
        dot = v.zero(lane, x)
        for c in range(k - k % W, R, W):
            dot = v.fma(v.load(lane, L, k * R + c), v.load(lane, x, c), dot)
        x[k] = (work[k] - v.total(dot)) * inverse[k]
