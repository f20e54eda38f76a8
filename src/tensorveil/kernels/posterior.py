"""Gaussian posteriors of all rows of all modes, stacked so that one compiled function serves every order.

Legend
    f, r, t         a row of a mode; its rank; t = r (r + 1) / 2 the length of a packed lower triangle
    mean, second    (rows of all modes, largest rank) and (.., largest t): E[f] and E[ff'], packed row by row
    low, high       row and column of every packed element (numpy's tril_indices), so low >= high

Second moments rather than covariances are kept, because products over modes need exactly these. Packing halves the
memory and the work of the kernels that multiply them elementwise. Where they would fill hundreds of megabytes they are
kept in single precision, and still multiplied and summed in double; whatever needs a temporary goes by blocks of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LARGE: Final = 1 << 28  # bytes of second moments in double precision, above which single precision takes its place
BLOCK: Final = 1 << 16  # rows
WHOLE: Final = 1 << 16  # elements of whole second moments that are unpacked at once


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Moments of every row f of every mode, updated in place.

    Row i of mode m stands at ``starts[m] + i``: ``mean[., :ranks[m]]`` is E[f], ``second[., :t]`` the lower
    triangle of E[ff'] row by row (t = r(r+1)/2), ``bias`` and ``bias_variance`` those of the row's bias.
    """

    shape: tuple[int, ...]
    ranks: tuple[int, ...]
    starts: Array
    mean: Array
    second: Array
    bias: Array
    bias_variance: Array

    def rows(self, mode: int) -> slice:
        """Return where the rows of one mode stand."""
        return slice(int(self.starts[mode]), int(self.starts[mode]) + self.shape[mode])

    def factor(self, mode: int) -> Array:
        """Return the means of one mode's rows, sharing memory."""
        return self.mean[self.rows(mode), : self.ranks[mode]]

    def sums(self, mode: int) -> Array:
        """Return sum over rows of E[f_r], per component."""
        total: Array = self.factor(mode).sum(axis=0)
        return total

    def squares(self, mode: int) -> Array:
        """Return sum over rows of E[f_r^2], per component."""
        diagonal = diagonal_positions(self.ranks[mode])
        total: Array = self.second[self.rows(mode)][:, diagonal].sum(axis=0, dtype=np.float64)
        return total

    def put(self, mode: int, start: Array, components: Array) -> None:
        """Set the means of some components; the rest, and all variances, stay."""
        low, high = np.tril_indices(self.ranks[mode])
        for rows, part in self._blocks(mode):
            before = self.mean[rows][:, low] * self.mean[rows][:, high]
            self.mean[rows, components] = start[part]
            self.second[rows, : len(low)] += self.mean[rows][:, low] * self.mean[rows][:, high] - before

    def moment(self, mode: int) -> Array:
        """Return sum over rows of E[ff']."""
        return unpack_triangle(self.second[self.rows(mode)].sum(axis=0, dtype=np.float64), self.ranks[mode])

    def transform(self, mode: int, matrix: Array) -> None:
        """Multiply one mode's rows by a matrix: f becomes f matrix."""
        rank, rows = self.ranks[mode], self.rows(mode)
        low, high = np.tril_indices(rank)
        self.mean[rows, :rank] = self.factor(mode) @ matrix
        # M' E[ff'] M of many rows is two products with M: the moments are symmetric, and so is what comes out.
        places = np.empty((rank, rank), dtype=np.intp)
        places[low, high] = places[high, low] = np.arange(len(low))
        step = max(1, WHOLE // (rank * rank))
        for first in range(rows.start, rows.stop, step):
            block = slice(first, min(first + step, rows.stop))
            half = self.second[block].take(places, axis=1).reshape(-1, rank) @ matrix
            turned = half.reshape(-1, rank, rank).transpose(0, 2, 1).reshape(-1, rank) @ matrix
            self.second[block, : len(low)] = turned.reshape(-1, rank * rank).take(low * rank + high, axis=1)

    def _blocks(self, mode: int) -> Iterator[tuple[slice, slice]]:
        """Yield blocks of one mode's rows: where they stand in the stacked arrays, and within the mode."""
        first = int(self.starts[mode])
        for low in range(0, self.shape[mode], BLOCK):
            high = min(low + BLOCK, self.shape[mode])
            yield slice(first + low, first + high), slice(low, high)

    def rescale(self, mode: int, scales: Array) -> None:
        """Multiply the components of one mode's rows."""
        rank = self.ranks[mode]
        low, high = np.tril_indices(rank)
        self.mean[self.rows(mode), :rank] *= scales
        self.second[self.rows(mode), : len(low)] *= scales[low] * scales[high]


def random_posterior(
    shape: Sequence[int], ranks: Sequence[int], spread: float, rng: np.random.Generator, *, compact: bool = False
) -> Posterior:
    """Return a start: means around zero in the two largest modes, around a positive value in the others.

    Two modes of random signs tell components apart; random signs in a small mode (days, hours) would cut a component
    to pieces that rarely find together again. ``compact`` allows second moments in single precision, if they are many.
    """
    total, widest = sum(shape), max(ranks)
    starts = np.concatenate([[0], np.cumsum(shape)[:-1]]).astype(np.int64)
    small = np.float32 if compact and 8 * total * triangle(widest) > LARGE else np.float64
    posterior = Posterior(
        shape=tuple(shape),
        ranks=tuple(ranks),
        starts=starts,
        mean=np.zeros((total, widest)),
        second=np.zeros((total, triangle(widest)), dtype=small),
        bias=np.zeros(total),
        bias_variance=np.zeros(total),
    )
    largest = sorted(range(len(shape)), key=lambda m: (-shape[m], m))[:2]
    for mode, rank in enumerate(ranks):
        low, high = np.tril_indices(rank)
        rows = posterior.rows(mode)
        for block, part in posterior._blocks(mode):
            draws = rng.standard_normal((part.stop - part.start, rank))
            posterior.mean[block, :rank] = spread * (draws if mode in largest else 2 + 0.3 * draws)
        for block, _ in posterior._blocks(mode):
            posterior.second[block, : len(low)] = posterior.mean[block][:, low] * posterior.mean[block][:, high]
        posterior.second[rows, diagonal_positions(rank)] += 0.1 * spread**2
    return posterior


def hold_rows(mean: Array, second: Array) -> Posterior:
    """Return the posterior of the rows of one mode alone, of means (rows, R) and second moments (rows, R, R)."""
    size, rank = mean.shape
    low, high = np.tril_indices(rank)
    return Posterior(
        shape=(size,), ranks=(rank,), starts=np.zeros(1, dtype=np.int64), mean=mean, second=second[:, low, high],
        bias=np.zeros(size), bias_variance=np.zeros(size),
    )  # fmt: skip


def unpack_triangle(packed: Array, rank: int) -> Array:
    """Return symmetric matrices from their packed lower triangles, along the last axis."""
    low, high = np.tril_indices(rank)
    out = np.zeros((*packed.shape[:-1], rank, rank))
    out[..., low, high] = packed[..., : len(low)]
    out[..., high, low] = packed[..., : len(low)]
    return out


def triangle(rank: int) -> int:
    """Return how many numbers a symmetric matrix of this size has."""
    return rank * (rank + 1) // 2


def diagonal_positions(rank: int) -> Array:
    """Return where the diagonal stands in the packed lower triangle."""
    steps = np.arange(rank)
    return steps * (steps + 3) // 2
