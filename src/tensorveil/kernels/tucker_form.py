"""How Tucker SGD lays out the core, and the sizes its code is compiled for (see :mod:`.tucker_sgd`).

Legend
    first, middle, last   ranks of the first mode, of those between together, and of the shared mode (put last)
    width           middle, padded to whole vectors: length of a row of the matrix
    length          first * width, padded to whole panels: length of one index of the shared mode
    lanes           numbers in a register of 64 bytes
    part, rows, panel   vectors that the inner loops keep in registers: of a middle row, rows of it, of the matrix

Eight vectors at a time: enough for the multiply-adds to overlap, few enough to leave registers for what they read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import vector as v
from tensorveil.kernels.padded import aligned_zeros, padded_rank

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class CoreForm:
    """How a core lies in memory: for every index of the shared mode a matrix, first mode by the modes between.

    Rows of the matrix are padded to ``width`` and the whole of it to ``length``.
    """

    ranks: tuple[int, ...]
    width: int
    length: int
    dtype: np.dtype[Any]
    tokens: tuple[v.Token, ...]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Ranks of the shared mode, of the first and of those between together."""
        return self.ranks[-1], self.ranks[0], int(np.prod(self.ranks[1:-1]))

    def pack(self, core: Array) -> Array:
        """Lay out a core whose last mode is the shared one."""
        last, first, middle = self.sizes
        wide = np.zeros((last, first, self.width), dtype=self.dtype)
        wide[:, :, :middle] = np.moveaxis(core, -1, 0).reshape(last, first, middle)
        out = aligned_zeros((last, self.length), self.dtype)
        out[:, : first * self.width] = wide.reshape(last, -1)
        return out

    def unpack(self, block: Array) -> Array:
        """Return the core that was laid out."""
        last, first, middle = self.sizes
        wide = block[:, : first * self.width].reshape(last, first, self.width)
        return np.moveaxis(wide[:, :, :middle].reshape(last, *self.ranks[:-1]), 0, -1)

    def scratch(self, batch: int) -> tuple[Array, ...]:
        """Return a thread's own arrays, for batches of so many entries, in the order in which SGD names them."""
        (last, first, middle), pad = self.sizes, padded_rank
        sizes = (
            self.length, middle * pad(first), batch * pad(first), batch * self.width, self.width,
            batch * pad(last), batch * self.length,
        )  # fmt: skip
        return tuple(aligned_zeros((size,), self.dtype) for size in sizes)


def core_form(ranks: tuple[int, ...], dtype: np.dtype[Any]) -> CoreForm:
    """Choose the layout and the compile-time sizes.

    Tokens: a row of the first mode (0) and of the shared mode (1); a panel of a middle row (2), several of them (3),
    how many such panels a row has (4); a panel of the matrix (5); the ranks of the shared (6) and the first mode (7).
    """
    width, lanes = padded_rank(int(np.prod(ranks[1:-1]))), 64 // dtype.itemsize
    middle = v.wide_token(width, dtype)
    part = next(k for k in (4, 3, 2, 1) if len(middle) % k == 0)
    rows = _share(ranks[0], 8 // part) if part == len(middle) else 1
    filled = -(-ranks[0] // rows) * rows * width
    panel = _share(-(-filled // lanes), 8)
    tokens = (
        v.wide_token(padded_rank(ranks[0]), dtype), v.wide_token(padded_rank(ranks[-1]), dtype),
        middle[:part], middle[:1] * (part * rows), v.token(1, len(middle) // part), v.token(lanes, panel),
        v.token(1, ranks[-1]), v.token(1, ranks[0]),
    )  # fmt: skip
    length = -(-filled // (lanes * panel)) * lanes * panel
    return CoreForm(ranks=ranks, width=width, length=length, dtype=dtype, tokens=tokens)


def _share(count: int, most: int) -> int:
    """Return how many of ``count`` things to take at once, at most ``most``, so that the last round is nearly full."""
    return -(-count // -(-count // most))
