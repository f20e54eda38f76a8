"""Stochastic gradient descent for CP: x ~ offset + sum_m bias_m[i_m] + sum_r prod_m A_m[i_m, r].

One entry changes the rows of all its modes at once, from their old values. For the objective
sum (x - prediction)^2 + lam * sum |row|^2, the gradient with respect to row a of one entry is -2 e h + 2 lam a with
e the error and h the product of the other rows; so with learning rate eta

    a <- (1 - decay) a + step * e * h,      step = 2 eta,  decay = 2 eta lam,

and a bias, whose h is 1, likewise. This is the one place where the factor 2 is accounted for: callers pass step and
decay.

Legend
    row             token of a whole padded row (see kernels/vector.py)
    tile, p         tile of the layout; entry of it (starts[tile] .. starts[tile + 1])
    base, index     tuples of row numbers, one per mode: first rows of the tile, and the rows of an entry
    rows, rest      tuples of vectors: the rows of an entry, and for each the product of all the others (h above)
    keep, gain      1 - decay, and step * error

Everything about an entry, rows and products, lives in registers: it is read once and written once. Threads work on
tiles of one stratum, which share no row in any mode (kernels/tiles.py), so there are no races and no locks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import entries as e
from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.padded import Padded, check_types
from tensorveil.kernels.threads import workers
from tensorveil.kernels.tiles import Tiles

Array = NDArray[Any]


def cp_sgd_pass(
    layout: Tiles,
    factors: Padded,
    biases: tuple[Array, ...] = (),
    offset: float = 0.0,
    step: float = 0.01,
    decay: float = 0.0,
    pass_index: int = 0,
) -> float:
    """Visit every entry once, changing ``factors`` and ``biases`` in place.

    Returns the sum of the squared errors met on the way, each before its own update. The result is a pure function
    of the arguments: threads never share a row.
    """
    check_types(factors, layout.values, biases)
    real = factors.dtype.type
    row = v.wide_token(factors.arrays[0].shape[1], factors.dtype)
    data = (row, layout.coords, layout.values, layout.starts, layout.bases)
    numbers = (real(offset), real(1.0 - decay), real(step))
    total = 0.0
    with workers(layout.threads) as run:
        for stratum in layout.schedule(pass_index):
            tasks = [partial(_visit, *data, tiles, factors.arrays, biases, *numbers) for tiles in stratum]
            total += sum(run(tasks))
    return total


@kernel()
def _visit(
    row: v.Token, coords: Array, values: Array, starts: Array, bases: Array, tiles: Array, factors: tuple[Array, ...],
    biases: tuple[Array, ...], offset: Any, keep: Any, step: Any,
) -> float:  # fmt: skip
    total = 0.0
    for tile in tiles:
        base = e.column(factors, bases, tile)
        for p in range(starts[tile], starts[tile + 1]):
            index = e.shift(base, e.column(factors, coords, p))
            rows = e.load_rows(row, factors, index)
            rest = e.others(rows)
            error = values[p] - e.sum_at(offset, biases, index) - v.total(v.mul(rows[0], rest[0]))
            gain = step * error
            e.store_rows(factors, index, e.blend(keep, rows, gain, rest))
            e.blend_at(keep, biases, index, gain)
            total += np.float64(error) * np.float64(error)
    return total
