"""What the Tucker kernels share: x ~ offset + biases + <core, a (x) b (x) c ...>.

A core of any order is seen as a block of three: first mode (r0), middle modes together (J = their ranks' product),
last mode in vector lanes (L, padded). The heavy loops then know three letters only:

    U_i = sum_j v_j G_ij      T_j = sum_i a_i G_ij      with v = kron of the middle rows, G_ij a vector of L lanes.

Legend
    G               flat buffer (r0, J, L), last mode padded with zeros
    flat, starts    all factor rows in one buffer (kernels/padded.py), and where the rows of an entry begin in it
    origins, widths, ranks   per mode: where its matrix begins, the length of its rows, its rank
    row             token of L lanes

`kron` fills its result from the back, so that it needs no second buffer: what it still reads is never overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorveil.kernels import vector as v
from tensorveil.kernels.compiled import kernel
from tensorveil.kernels.padded import Padded, aligned_zeros

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Where the rows of some modes, in a chosen order, stand in the flat buffer of the factors."""

    origins: Array
    widths: Array
    ranks: Array


def geometry(factors: Padded, modes: Sequence[int]) -> Geometry:
    """Describe the modes in the given order."""
    return Geometry(
        origins=np.array([factors.origins[m] for m in modes], dtype=np.int64),
        widths=np.array([factors.arrays[m].shape[1] for m in modes], dtype=np.int64),
        ranks=np.array([factors.ranks[m] for m in modes], dtype=np.int64),
    )


def pad_core(core: Array, width: int, dtype: np.dtype[Any]) -> Array:
    """Return the core as a flat buffer whose last mode is padded to ``width``."""
    out = aligned_zeros((core.size // core.shape[-1], width), dtype)
    out[:, : core.shape[-1]] = core.reshape(-1, core.shape[-1])
    return out.reshape(-1)


@kernel()
def kron(flat: Array, starts: Array, ranks: Array, first: int, last: int, out: Array) -> int:
    """out = kron of the rows of modes first..last-1 (1 if there are none); returns its length."""
    out[0] = 1
    size = 1
    for m in range(first, last):
        rank = ranks[m]
        for j in range(size - 1, -1, -1):
            x = out[j]
            for k in range(rank - 1, -1, -1):
                out[j * rank + k] = x * flat[starts[m] + k]
        size *= rank
    return size


@kernel()
def contract(row: v.Token, G: Array, r0: int, J: int, L: int, flat: Array, start: int, weights: Array) -> Any:
    """Return sum_i a_i sum_j weights_j G_ij, a vector of L lanes."""
    out = v.zero(row, G)
    for i in range(r0):
        inner = v.zero(row, G)
        for j in range(J):
            inner = v.axpy(weights[j], v.load(row, G, (i * J + j) * L), inner)
        out = v.axpy(flat[start + i], inner, out)
    return out
