"""Factor matrices with rows padded to whole vector registers and aligned to cache lines.

Legend
    rank, width     columns of a matrix, and the length of its padded rows (1, 2, 4, or a multiple of 8)
    flat, origins   the one buffer of all matrices, and where each begins in it, in elements

Why padding: a row is then a whole number of vector registers, and kernels need neither masks nor remainders. Padded
columns are 0 and every update keeps them at 0, because products and sums of zeros are zeros. Why one buffer: kernels
for Tucker reach any row of any mode by one offset, which costs less than a tuple of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]

_ALIGN = 64


@dataclass(frozen=True, kw_only=True)
class Padded:
    """Factor matrices ready for the kernels, which update them in place.

    ``arrays[m]`` has shape (size of mode m, padded rank of mode m); the columns beyond ``ranks[m]`` are zero and
    stay zero. All arrays are views of one buffer, ``flat``, and start at its elements ``origins``.
    """

    arrays: tuple[Array, ...]
    ranks: tuple[int, ...]
    flat: Array
    origins: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(a.shape[0] for a in self.arrays)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.arrays[0].dtype

    def views(self) -> tuple[Array, ...]:
        """Return the matrices without their padding, sharing memory."""
        return tuple(a[:, :r] for a, r in zip(self.arrays, self.ranks, strict=True))


def padded_rank(rank: int) -> int:
    """Return the row length used for ``rank`` columns: a power of two up to 8, then a multiple of 8."""
    for small in (1, 2, 4):
        if rank <= small:
            return small
    return -(-rank // 8) * 8


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return zeros whose first element starts a cache line."""
    bytes_ = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(bytes_ + _ALIGN, dtype=np.uint8)
    start = -raw.ctypes.data % _ALIGN
    return raw[start : start + bytes_].view(dtype).reshape(shape)


def pad(factors: Sequence[Array], dtype: DTypeLike | None = None) -> Padded:
    """Copy (size, rank) matrices into padded ones; ``dtype`` defaults to the matrices' own."""
    kind = np.dtype(dtype) if dtype is not None else np.result_type(*factors)
    widths = [padded_rank(f.shape[1]) for f in factors]
    line = _ALIGN // kind.itemsize
    lengths = [-(-f.shape[0] * w // line) * line for f, w in zip(factors, widths, strict=True)]
    origins = [sum(lengths[:m]) for m in range(len(factors))]
    flat = aligned_zeros((sum(lengths),), kind)
    arrays = []
    for matrix, width, origin in zip(factors, widths, origins, strict=True):
        out = flat[origin : origin + matrix.shape[0] * width].reshape(-1, width)
        out[:, : matrix.shape[1]] = matrix
        arrays.append(out)
    return Padded(
        arrays=tuple(arrays), ranks=tuple(int(f.shape[1]) for f in factors), flat=flat, origins=tuple(origins)
    )


def check_types(factors: Padded, values: Array, biases: Sequence[Array]) -> None:
    """Raise unless entries and biases have the factors' type of numbers: kernels do not convert."""
    if values.dtype != factors.dtype:
        raise ValueError(
            f"entries and factors must have the same dtype; got {values.dtype} and {factors.dtype}. "
            "Build the layout with the dtype of the factors."
        )
    if biases and (len(biases) != len(factors.arrays) or any(b.dtype != factors.dtype for b in biases)):
        raise ValueError(
            "biases must be empty or hold one array per mode with the dtype of the factors. "
            "Convert them with astype before the first pass."
        )


def unpad(padded: Padded) -> list[Array]:
    """Copy the matrices out of their padding, as ordinary (size, rank) arrays."""
    return [np.ascontiguousarray(v) for v in padded.views()]
