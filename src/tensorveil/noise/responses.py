"""Randomised answers on a grid 0 .. last: windows (such as k-ary randomised response), two points, kept or noisy.

All draws are exact: chances are multiples of 2**-64, places are uniform integers, Laplace noise is that of `laplace`.
Parameters are given by column (the entry of the tensor that a number belongs to), so that entries may have budgets of
their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tensorveil.noise.basic import uniform_below
from tensorveil.noise.laplace import settle_laplace
from tensorveil.noise.source import NoiseSource

Ints = NDArray[np.int64]
LARGEST_WORD = (1 << 64) - 1


def chances(numerators: Sequence[int]) -> NDArray[np.uint64]:
    """Return numerators over 2**64 as words."""
    return np.array(numerators, dtype=np.uint64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """Answer within a window of ``widths`` points that starts at the index with the given chances, else outside it.

    There are last + width points in all, so ``last`` of them lie outside. Width 1 is k-ary randomised response.
    """

    last: int
    chances: NDArray[np.uint64]
    widths: Ints

    def draw(self, index: Ints, column: Ints, source: NoiseSource) -> Ints:
        """Answer once per index."""
        from tensorveil.kernels import local_draws

        words = source.uniform64(2 * len(index)).reshape(-1, 2)
        out, listed = np.empty(len(index), dtype=np.int64), np.empty(len(index), dtype=np.int64)
        quotients = np.uint64(LARGEST_WORD) // self.widths.astype(np.uint64)
        found = local_draws.window(
            index,
            column,
            words,
            self.last,
            self.chances,
            self.widths,
            quotients,
            np.uint64(LARGEST_WORD // self.last),
            out,
            listed,
        )
        for i in listed[:found].tolist():
            width = int(self.widths[column[i]])
            inside = words[i, 0] < self.chances[column[i]]
            place = int(uniform_below(width if inside else self.last, 1, source)[0])
            start = int(index[i])
            out[i] = start + place if inside else place + (width if place >= start else 0)
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoPoints:
    """Answer 0 or 1: the index is rounded to an end of the grid at random, and the end is reported truly by chance."""

    last: int
    chances: NDArray[np.uint64]

    def draw(self, index: Ints, column: Ints, source: NoiseSource) -> Ints:
        """Answer once per index."""
        from tensorveil.kernels import local_draws

        words = source.uniform64(2 * len(index)).reshape(-1, 2)
        out = np.empty(len(index), dtype=np.int64)
        local_draws.two_points(index, column, words, self.last, self.chances, out)
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class KeepOrLaplace:
    """Answer the index itself with the given chances, else the index plus discrete Laplace noise of its scale."""

    chances: NDArray[np.uint64]
    scales: tuple[Fraction, ...]

    @cached_property
    def _columns(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scales, and -ln((1 + a) / 2) as in `laplace`, by column."""
        wide = np.array([float(scale) for scale in self.scales])
        return wide, -np.log1p(np.expm1(-1 / wide) / 2)

    def draw(self, index: Ints, column: Ints, source: NoiseSource) -> Ints:
        """Answer once per index."""
        from tensorveil.kernels import local_draws

        words = source.uniform64(2 * len(index)).reshape(-1, 2)
        out, listed = np.empty(len(index), dtype=np.int64), np.empty(len(index), dtype=np.int64)
        wide, offsets = self._columns
        found = local_draws.keep_or_laplace(index, column, words, self.chances, wide, offsets, out, listed)
        for i in listed[:found].tolist():
            out[i] = index[i] + settle_laplace(int(words[i, 1]), self.scales[column[i]], source)
        return out
