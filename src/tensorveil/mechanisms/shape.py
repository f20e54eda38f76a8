"""The shape of the residuals: a noisy histogram, and what clipping to an interval would cost.

Bins are on a logarithmic scale on both sides of zero, over the width of the bounds. The noise of a bin is known, so
mass counts where it stands clear of it; beyond, on either side, all mass is pooled before it is believed. Residuals of
real data are skewed and have heavy tails on one side, so the interval to clip to need not be symmetric.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.spend import Spend
from tensorveil.privacy.gate import PrivateValues

_PER_OCTAVE, _OCTAVES = 3, 7
# A bin counts from this many standard deviations of its noise on, pooled tails from this many of theirs.
_CLEAR, _POOLED_CLEAR = 3.0, 2.0
# Pooled mass is spread over bins that fall by half each, and over at most so many.
_TAIL_BINS = 5
# If nothing stands out, or less than this share of the residuals, which are known to be somewhere, they are taken to be
# spread evenly over a share of the width, on both sides.
_LEAST_SEEN, _BLIND = 0.75, 0.3
# An interval must leave this share of the signal.
_LEAST_SLOPE = 0.5
# How much of the variance that clipping takes away is signal that is lost. Of 0.3, 0.6 and 1 this has the least error
# on the real tensors that are not set aside.
_LOST = 0.6
# What clipping takes off is known up to this share.
_SHIFTS_DIFFER = 0.3
# Values at a bound are many in counts and in zeros and ones. While they all have the same residual, the outermost bins
# are this share of the width, so that it is known what clipping takes off them.
_AT_BOUND = 2.0**-12
# Values are yes and no if this share of them is at the bounds.
_TWO_VALUED = 0.95


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Where residuals are clipped, and what that does to them.

    ``slope`` is the share of the signal that is left. For Gaussian laws it is the regression coefficient of clipped on
    unclipped residuals, which is also the share of the residuals that are not clipped (Bussgang 1952). If values are 0
    or 1 it is the former; under heavy tails, a small effect is left as large as the latter. It is taken to be between
    the two. ``kept`` is the share of the signal that can be had back by dividing by it; a clipped residual c stands
    for (c - shift) / slope. ``doubt`` is about how far off the shift may be, as a standard deviation. ``square`` is the
    mean square of clipped residuals around the middle of the interval, as a share of that at its ends.
    """

    low: float
    high: float
    slope: float
    shift: float
    kept: float
    doubt: float
    square: float

    @property
    def reach(self) -> float:
        """Width over slope: noise on clipped residuals, in units of unclipped ones, is scaled to it."""
        return (self.high - self.low) / self.slope

    def clip(self, residual: Array) -> Array:
        """Clip residuals."""
        return np.clip(residual, self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Edges of bins and the share of the residuals in each: already private.

    ``noise`` is the standard deviation of the noise that shares had, where it is to be reckoned with. ``two_valued``
    says that values are at the bounds, nearly all of them: yes and no.
    """

    edges: Array
    masses: Array
    noise: float = 0.0
    two_valued: bool = False

    @cached_property
    def middles(self) -> Array:
        """Where a bin's mass is taken to be: the geometric middle, or half of it next to zero."""
        low, high = np.abs(self.edges[:-1]), np.abs(self.edges[1:])
        middles: Array = np.where(np.minimum(low, high) > 0, np.sqrt(low * high), 0.5 * np.maximum(low, high))
        return middles * np.where(self.edges[1:] > 0, 1.0, -1.0)

    @cached_property
    def variance(self) -> float:
        """Variance of the residuals."""
        mean = float(self.masses @ self.middles)
        return float(self.masses @ (self.middles - mean) ** 2)

    @property
    def farthest(self) -> float:
        """How far from zero residuals are found."""
        there = np.flatnonzero(self.masses > 0)
        return float(max(abs(self.edges[there[0]]), abs(self.edges[there[-1] + 1])))

    def interval(self, low: float, high: float) -> Interval:
        """Tell what clipping to an interval does."""
        return self._intervals(np.array([low]), np.array([high]))[0]

    def _intervals(self, lows: Array, highs: Array) -> list[Interval]:
        """Tell what clipping to each of these intervals does."""
        low, high = lows[:, None], highs[:, None]
        clipped = np.clip(self.middles, low, high)
        off = self.middles - clipped
        mean, mean_clipped, mean_off = float(self.masses @ self.middles), clipped @ self.masses, off @ self.masses
        variance = max(self.variance, 1e-300)
        slope = ((self.middles - mean) * (clipped - mean_clipped[:, None])) @ self.masses / variance
        inside = ((self.middles > low) & (self.middles < high)) @ self.masses
        if not self.two_valued:
            slope = np.sqrt(slope * np.maximum(inside, slope))
        kept = np.maximum(1.0 - _LOST * (off**2 @ self.masses - mean_off**2) / variance, 0.0)
        square = (clipped - 0.5 * (low + high)) ** 2 @ self.masses / (0.5 * (highs - lows)) ** 2
        # Noise also hides residuals far out that clipping takes much off.
        hidden = self.noise * np.sqrt(np.sum(off**2, axis=1))
        doubt = np.hypot(_SHIFTS_DIFFER * (np.abs(off) @ self.masses), hidden)
        numbers = zip(
            lows, highs, slope, mean_clipped - slope * mean, kept, doubt, np.minimum(square, 1.0), strict=True
        )  # fmt: skip
        names = ("low", "high", "slope", "shift", "kept", "doubt", "square")
        return [Interval(**dict(zip(names, map(float, each), strict=True))) for each in numbers]

    def best_interval(self, gain: Callable[[Interval], float]) -> Interval:
        """Return the interval with the largest gain."""
        return max(self._candidates, key=gain)

    @cached_property
    def least_reach(self) -> float:
        """The smallest reach of all intervals: noise counts at least as if residuals were spread so far."""
        return min(each.reach for each in self._candidates)

    @cached_property
    def _candidates(self) -> list[Interval]:
        """Intervals from bin to bin that leave enough of the signal."""
        there = np.flatnonzero(self.masses > 0)
        ends = self.edges[there[0] : there[-1] + 2]
        first, second = np.triu_indices(len(ends), 1)
        found = [each for each in self._intervals(ends[first], ends[second]) if each.slope >= _LEAST_SLOPE]
        return found or [self.interval(float(ends[0]), float(ends[-1]))]


def private_shape(data: PrivateValues, known: Array, spend: Spend, *, two_valued: bool = False) -> Shape:
    """Return the shape of the residuals from numbers that are already private.

    Whether values are at the bounds can be seen while all have the same residual there; later it must be told.

    Guarantee: ``spend``, unit value (docs/guarantees.md#counts).
    """
    low, high = data.bounds[0] - float(np.max(known)), data.bounds[1] - float(np.min(known))  # no residual is beyond
    edges = make_edges(data.width, _PER_OCTAVE, _OCTAVES)
    inner = [low, high]
    same = bool(np.max(known) == np.min(known))
    if same:
        inner = [low + _AT_BOUND * data.width, high - _AT_BOUND * data.width]
    edges = np.unique([low, *inner, *edges[(edges > inner[0]) & (edges < inner[1])], high])
    residual = data.values.reveal() - known
    bins = np.clip(np.searchsorted(edges, residual, side="right") - 1, 0, len(edges) - 2)
    noisy = spend.counts(bins, len(edges) - 1)
    noise = noisy.variance**0.5
    masses = _denoise(noisy.values, noise, data.n_entries, edges)
    two_valued = two_valued or (same and masses[0] + masses[-1] > _TWO_VALUED)
    return Shape(edges=edges, masses=masses, noise=noise / data.n_entries, two_valued=two_valued)


def read_shape(counts: Array, noise: float, n: float, edges: Array) -> Shape:
    """Return the shape that noisy counts of about n residuals tell; ``noise`` is their standard deviation."""
    return Shape(edges=edges, masses=_denoise(counts, noise, n, edges))


def make_edges(width: float, per_octave: int, octaves: int) -> Array:
    """Return edges of bins on a logarithmic scale on both sides of zero, over a width."""
    positive = width * 2.0 ** (-np.arange(per_octave * octaves + 1)[::-1] / per_octave)
    return np.concatenate([-positive[::-1], [0.0], positive])


def _denoise(counts: Array, noise: float, n: float, edges: Array) -> Array:
    """Return shares that add up to 1, from counts of which only those that stand out of their noise are believed."""
    clear = np.flatnonzero(counts > _CLEAR * noise)
    if not len(clear):
        return _spread_blindly(edges)
    counts = counts.copy()
    first, last = int(clear[0]), int(clear[-1])
    last = _pool_tail(counts, np.arange(last + 1, len(counts)), noise, last)
    first = _pool_tail(counts, np.arange(first)[::-1], noise, first)
    if counts[first : last + 1].sum() < _LEAST_SEEN * n:
        return _spread_blindly(edges)
    masses = np.zeros(len(counts))
    masses[first : last + 1] = project(counts[first : last + 1], n) / n
    if np.count_nonzero(masses) < 2:  # one bin is as narrow as it gets; a variance of 0 could not be divided by
        at = int(np.argmax(masses))
        masses[max(at - 1, 0) : at + 2] = 1.0
    return np.asarray(masses / masses.sum())


def _spread_blindly(edges: Array) -> Array:
    inside = (edges[:-1] >= _BLIND * edges[0]) & (edges[1:] <= _BLIND * edges[-1])
    if not inside.any():  # zero is not among the residuals that can be
        inside[:] = True
    masses: Array = np.where(inside, np.diff(edges), 0.0)
    return np.asarray(masses / masses.sum())


def _pool_tail(counts: Array, outward: Array, noise: float, end: int) -> int:
    """Put the mass of the farthest tail that is clear as a whole where this tail begins; return the last bin used."""
    for start in range(len(outward) - 1, -1, -1):
        tail = outward[start:]
        mass = float(counts[tail].sum())
        if mass > _POOLED_CLEAR * noise * len(tail) ** 0.5:
            fall = 0.5 ** np.arange(len(tail))
            counts[tail] = mass * fall / fall.sum()
            return int(tail[min(len(tail), _TAIL_BINS) - 1])
    return end


def project(counts: Array, total: float) -> Array:
    """Return the nearest counts that are not negative and have this total."""
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    last = np.flatnonzero(falling - excess > 0)[-1]
    nearest: Array = np.maximum(counts - excess[last], 0.0)
    return nearest
