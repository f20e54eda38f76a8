"""Unit "entry": noisy counts and noisy sums over the cells of some modes, and what was there before the noise.

Positions are private, and so is how many entries a cell has. Each entry adds one row to one cell of a table: its
residual, clipped to an already private interval and scaled to [-1, 1], and a fixed weight that counts it. The row's
length is at most sqrt(1 + weight^2), whatever the entry is, so one bound covers count and sum together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from tensorveil.mechanisms.allocation import Modes
from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.deferred import each
from tensorveil.mechanisms.pairs import fit_pairs
from tensorveil.mechanisms.shape import Interval, Shape, make_edges, read_shape
from tensorveil.mechanisms.spend import Spend
from tensorveil.privacy.gate import PrivateEntries

# What counts an entry, where 1 is the longest residual: sums matter more than counts, by about the square of this.
WEIGHT = 0.5
# Guesses count up to this many of their spreads.
FARTHEST = 3.0
_PER_OCTAVE, _OCTAVES = 3, 7
# Components of counts are fitted in so many sweeps, and leave at least this share of what was expected.
_SWEEPS, _LEAST = 15, 0.05


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Noisy counts of the entries in the cells of some modes, and noisy sums of what is left of their residuals.

    Sums are of clipped residuals less the middle of the interval, in units of residuals; noises are variances.
    """

    modes: Modes
    counts: Array
    sums: Array
    count_noise: float
    sum_noise: float


@dataclass(frozen=True, kw_only=True)
class Total:
    """A noisy mean of the values and a noisy number of entries, and the variances of their noise."""

    mean: float
    count: float
    mean_noise: float
    count_noise: float


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The slope of residuals on guesses, and the variance of its noise."""

    slope: float
    noise: float


def private_total(data: PrivateEntries, spend: Spend) -> Total:
    """Return mean and number of the entries, from a noisy sum and a noisy count.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#entry).
    """
    low, high = data.bounds
    middle, half, values = 0.5 * (low + high), 0.5 * (high - low), data.values.reveal()
    rows = each(partial(_count_value, middle, half), values)
    noisy = spend.bounded_rows(rows, each(put_together, values), 1, longest=math.sqrt(2.0))
    total, count = (float(number) for number in noisy.values[0])
    n = max(count, 1.0)
    mean = float(np.clip(middle + half * total / n, low, high))
    return Total(mean=mean, count=count, mean_noise=2.0 * noisy.variance * (half / n) ** 2, count_noise=noisy.variance)


def private_spread(residual: Array, low: float, high: float, width: float, n: float, spend: Spend) -> Shape:
    """Return the shape of about n residuals, none of which is beyond ``low`` or ``high``.

    One entry is in one bin, so adding or removing it moves one count by one.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#crosstabs).
    """
    edges = make_edges(width, _PER_OCTAVE, _OCTAVES)
    edges = np.concatenate([[low], edges[(edges > low) & (edges < high)], [high]])
    bins = each(partial(find_bins, edges), residual)
    noisy = spend.bounded_rows(each(count_once, bins), bins, len(edges) - 1, longest=1.0)
    return read_shape(noisy.values[:, 0], noisy.variance**0.5, n, edges)


def private_tally(
    columns: Array, shape: tuple[int, ...], modes: Modes, residual: Array, interval: Interval, spend: Spend
) -> Tally:
    """Return noisy counts and sums over the cells of some modes of the declared shape.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#crosstabs).
    """
    sizes, cells = tuple(shape[mode] for mode in modes), number_cells(columns, shape, modes)
    middle, half = 0.5 * (interval.low + interval.high), 0.5 * (interval.high - interval.low)
    rows = each(partial(_tally_residual, interval, middle, half), residual)
    noisy = spend.bounded_rows(rows, cells, math.prod(sizes), longest=math.sqrt(1.0 + WEIGHT**2))
    return Tally(
        modes=modes,
        sums=noisy.values[:, 0].reshape(sizes) * half,
        counts=noisy.values[:, 1].reshape(sizes) / WEIGHT,
        sum_noise=noisy.variance * half**2,
        count_noise=noisy.variance / WEIGHT**2,
    )


def private_agreement(residual: Array, guess: Array, limit: float, spread: float, n: float, spend: Spend) -> Agreement:
    """Return how far residuals agree with guesses, from the sums of both's products and of guesses' squares.

    Guesses follow from an entry's position and already private numbers; they count within a few of their ``spread``,
    residuals within ``limit``.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#crosstabs).
    """
    rows = each(partial(_multiply_guess, limit, spread), residual, guess)
    noisy = spend.bounded_rows(rows, each(put_together, residual), 1, longest=math.sqrt(1.0 + WEIGHT**2))
    product, square = (float(number) for number in noisy.values[0])
    seen = max(square / WEIGHT * FARTHEST**2, 0.1 * n) * spread
    scale = FARTHEST * limit / seen
    return Agreement(slope=product * scale, noise=noisy.variance * scale**2)


def number_cells(columns: Array, shape: tuple[int, ...], modes: Modes) -> Array:
    """Return the cell of some modes that each entry is in, numbered row by row."""
    found: Array = each(partial(_number_cells, shape, modes), columns)
    return found


def put_together(numbers: Array) -> Array:
    """Return the one group that all entries are in."""
    return np.zeros(len(numbers), dtype=np.int64)


def count_once(numbers: Array) -> Array:
    """Return a row of one for every entry."""
    return np.ones((len(numbers), 1))


def find_bins(edges: Array, residual: Array) -> Array:
    """Return the bin between edges that each residual is in; the outermost ones have no end."""
    return np.clip(np.searchsorted(edges, residual, side="right") - 1, 0, len(edges) - 2)


def _count_value(middle: float, half: float, values: Array) -> Array:
    return np.stack([(values - middle) / half, np.ones(len(values))], axis=1)


def _tally_residual(interval: Interval, middle: float, half: float, residual: Array) -> Array:
    return np.stack([(interval.clip(residual) - middle) / half, np.full(len(residual), WEIGHT)], axis=1)


def _multiply_guess(limit: float, spread: float, residual: Array, guess: Array) -> Array:
    here = np.clip(guess / spread, -FARTHEST, FARTHEST)
    return np.stack([here * np.clip(residual / limit, -1.0, 1.0) / FARTHEST, WEIGHT * (here / FARTHEST) ** 2], axis=1)


def _number_cells(shape: tuple[int, ...], modes: Modes, columns: Array) -> Array:
    cells = np.zeros(columns.shape[1], dtype=np.int64)
    for mode in modes:
        cells = cells * shape[mode] + columns[mode]
    return cells


def sum_noise(noise: float, *, pure: bool) -> float:
    """Return the variance of the noise on a tally's sums, for an interval of width 1, from that of one number."""
    return noise * (1.5 if pure else 1.0) * (1.0 + WEIGHT**2) / 4.0


def estimate_counts(tally: Tally, expected: Array, rank: int) -> tuple[Array, Array]:
    """Return counts between those that were expected and those that were seen, and how far off they may be.

    In a table of two modes, what is seen beside what was expected is fitted by components first. True counts are then
    taken to vary around that by chance, and by a share that is estimated.
    """
    if expected.ndim == 2:
        certain = 1.0 / (tally.count_noise + expected)
        more = fit_pairs(certain, certain * (tally.counts - expected), rank, _SWEEPS).matrix
        expected = np.maximum(expected + more, _LEAST * expected)
    apart = tally.counts - expected
    excess = float(np.sum(apart**2 - tally.count_noise - expected))
    share = max(excess / max(float(np.sum(expected**2)), 1e-12), 0.0)
    variance = expected + share * expected**2
    weight = variance / (variance + tally.count_noise)
    return np.maximum(expected + weight * apart, 0.0), weight * tally.count_noise
