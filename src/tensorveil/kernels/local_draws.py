"""Random answers on a public grid, one draw per number; what double precision or one word cannot settle is listed.

The caller settles what is listed with more bits (noise/), so answers follow their law exactly.

Legend
    rows, reach     (n, d) tensors; the greatest length of one
    index           (n,) place of a value on the grid, 0 .. last
    column          (n,) which entry of the tensor it is, hence which parameters it has
    words           (n, k) random 64-bit words; a comparison word < chance is a coin with chance / 2^64
    chances, scales, widths, treads, offsets, quotients   parameters by column
    listed, found   numbers of the draws that are not settled, and how many there are
    verdicts        per draw: SETTLED, AGAIN (rejected: draw anew), DOUBTFUL (more bits needed)
    wide, log       a uniform as an integer plus one half, and its logarithm; E49 .. E51 error bounds as in noise_draws

``quotients`` hold (2^64 - 1) over a bound: a word divided by one is uniform below the bound, unless it comes out as the
bound or more, which is listed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.noise_draws import E49, E50, E51, FEW, UNIT63

Array = NDArray[Any]

SETTLED, AGAIN, DOUBTFUL = 0, 1, 2
UNIT53 = 2.0**-53
HUGE = 1e300  # numbers beyond it count as this one: lengths must not overflow


@kernel(error_model="numpy")
def to_grid(x: Array, low: float, high: float, last: int, words: Array, out: Array) -> None:
    """Write where values stand on the grid 0 .. last, rounded up or down at random.

    Values outside stand at the nearest end, NaN in the middle. Which grid point a value takes does not affect privacy:
    any function from values to the grid would be as private.
    """
    scale = last / (high - low)
    for i in range(len(x)):
        place = (x[i] - low) * scale
        if math.isnan(place):
            place = 0.5 * last
        if place <= 0.0:
            out[i] = 0
        elif place >= last:
            out[i] = last
        else:
            whole = math.floor(place)
            up = np.float64(words[i] >> np.uint64(11)) * UNIT53 < place - whole
            out[i] = min(np.int64(whole) + (1 if up else 0), last)


@kernel(error_model="numpy")
def shorten_rows(rows: Array, reach: float, out: Array) -> None:
    """Write rows, those longer than ``reach`` shortened to it; NaN counts as 0, an infinity as a huge number."""
    for i in range(len(rows)):
        largest = 0.0
        for k in range(rows.shape[1]):
            x = 0.0 if math.isnan(rows[i, k]) else min(max(rows[i, k], -HUGE), HUGE)
            out[i, k] = x
            largest = max(largest, abs(x))
        if largest == 0.0:
            continue
        total = 0.0
        for k in range(rows.shape[1]):
            part = out[i, k] / largest
            total += part * part
        length = math.sqrt(total)
        if largest * length > reach:
            for k in range(rows.shape[1]):
                out[i, k] = out[i, k] / largest * (reach / length)


@kernel(error_model="numpy")
def window(
    index: Array,
    column: Array,
    words: Array,
    last: int,
    chances: Array,
    widths: Array,
    quotients: Array,
    others: int,
    out: Array,
    listed: Array,
) -> int:
    """Write a point of the window that begins at the index, with the chance of the column, else a point outside of it.

    ``quotients`` and ``others`` are (2**64 - 1) over the width and over last: a word over it is uniform below the
    number, unless it comes out too large, which is listed.
    """
    found = 0
    for i in range(len(index)):
        j = column[i]
        width = widths[j]
        inside = words[i, 0] < chances[j]
        bound = np.uint64(width) if inside else np.uint64(last)
        place = np.uint64(0)
        if bound > np.uint64(1):
            place = words[i, 1] // (quotients[j] if inside else others)
        if place >= bound:
            listed[found] = i
            found += 1
            continue
        at = np.int64(place)
        if inside:
            out[i] = index[i] + at
        else:
            out[i] = at if at < index[i] else at + width
    return found


@kernel(error_model="numpy")
def two_points(index: Array, column: Array, words: Array, last: int, chances: Array, out: Array) -> None:
    """Write 0 or 1: the side to which an index is rounded at random, reported truthfully with the column's chance."""
    for i in range(len(index)):
        side = np.float64(words[i, 1] >> np.uint64(11)) * UNIT53 * last < index[i]
        out[i] = np.int64(side == (words[i, 0] < chances[column[i]]))


@kernel(error_model="numpy")
def keep_or_laplace(
    index: Array, column: Array, words: Array, chances: Array, scales: Array, offsets: Array, out: Array, listed: Array
) -> int:
    """Write the index itself with the chance of the column, else the index plus discrete Laplace noise."""
    found = 0
    for i in range(len(index)):
        j = column[i]
        if words[i, 0] < chances[j]:
            out[i] = index[i]
            continue
        w = words[i, 1] >> np.uint64(1)
        wide = np.float64(np.int64(w))
        log = math.log((wide + 0.5) * UNIT63)
        value = scales[j] * (offsets[j] - log)
        error = scales[j] * (1.0 / (wide + 0.5) + E51 - log * E50) + value * E49
        low = np.int64(math.floor(value - error))
        if w < FEW or low != np.int64(math.floor(value + error)):
            listed[found] = i
            found += 1
        else:
            out[i] = index[i] - low if words[i, 1] & np.uint64(1) else index[i] + low
    return found


@kernel(error_model="numpy")
def staircase(
    index: Array,
    column: Array,
    words: Array,
    last: int,
    scales: Array,
    chances: Array,
    treads: Array,
    quotients: Array,
    verdicts: Array,
    out: Array,
) -> int:
    """Write the index plus staircase noise; return how many are not settled.

    Noise: sign times (last * block + place); block is geometric, floor(-ln u * scale); place is uniform on the tread
    0 .. tread - 1 with the chance of the column, else on the rest. Minus zero is rejected.
    """
    left = 0
    for i in range(len(index)):
        j = column[i]
        verdicts[i] = SETTLED
        w = words[i, 0] >> np.uint64(1)
        wide = np.float64(np.int64(w))
        log = math.log((wide + 0.5) * UNIT63)
        value = -scales[j] * log
        error = scales[j] * (1.0 / (wide + 0.5) + E51 - log * E50) + value * E49
        block = np.int64(math.floor(value - error))
        first = words[i, 1] < chances[j]
        bound = np.uint64(treads[j]) if first else np.uint64(last - treads[j])
        place = words[i, 2] // quotients[j, 0 if first else 1]
        if bound == np.uint64(1):
            place = np.uint64(0)
        # A place beyond its bound is drawn anew with block and tread kept: rejecting them too would favour a tread.
        if w < FEW or block != np.int64(math.floor(value + error)) or place >= bound:
            verdicts[i] = DOUBTFUL
        else:
            size = last * block + np.int64(place) + (0 if first else treads[j])
            negative = words[i, 0] & np.uint64(1)
            if negative and size == 0:
                verdicts[i] = AGAIN
            out[i] = index[i] - size if negative else index[i] + size
        if verdicts[i] != SETTLED:
            left += 1
    return left
