"""The shape of the residuals: a noisy histogram, and what clipping to an interval would cost.

Bins are on a logarithmic scale on both sides of zero, over the width of the bounds. The noise of a bin is known, so
mass counts where it stands clear of it, and hangs together; beyond, on either side, counts are taken to fall at least
as fast as a power of the residual, or a single noisy count far out would outweigh everything else in the spread.
Residuals of real data are skewed and have heavy tails on one side, so the interval to clip to need not be symmetric.

Of yes and no the shape follows from what is known already: if one in a hundred is a yes here, so many residuals are
large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.deferred import Beside, each, here
from tensorveil.mechanisms.spend import Spend
from tensorveil.privacy.gate import PrivateValues

_PER_OCTAVE, _OCTAVES = 3, 7
# A bin counts from this many standard deviations of its noise on; one that is further than so many bins from the next
# that counts, from the last number on: among dozens of bins there is often one with much noise.
_CLEAR, _NEAR, _CLEAR_APART = 2.5, 2, 5.5
# Beyond, counts per bin fall at least as fast as this power of the residual. Of 1, 1.25, 1.5, 2 and 2.5, spreads of the
# real tensors that are not set aside are off least.
_FALL = 1.25
# Tails that stand out nowhere hold at most this share.
_MOST_IN_TAILS = 0.5
# Residuals further out than `farthest` have this share of the mean square.
_BEYOND = 0.02
# If nothing stands out, or less than this share of the residuals, which are known to be somewhere, they are taken to be
# spread evenly over a share of the width, on both sides.
_LEAST_SEEN, _BLIND = 0.75, 0.3
# An interval must leave this share of the signal.
_LEAST_SLOPE = 0.5
# Usual intervals keep this share of the signal.
_USUALLY_KEPT = 0.9
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
# No chance of a yes or a no is taken to be smaller.
_LEAST_CHANCE = 1e-4


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
    says that nearly all values are at the bounds; ``by_chance`` that no others were seen, and that the shape follows
    from the chances of yes and no.
    """

    edges: Array
    masses: Array
    noise: float = 0.0
    two_valued: bool = False
    by_chance: bool = False

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
        """How far from zero residuals are found, but for a few that hardly count."""
        far = np.maximum(np.abs(self.edges[:-1]), np.abs(self.edges[1:]))
        order = np.argsort(far, kind="stable")
        reached = np.cumsum((self.masses * self.middles**2)[order])
        return float(far[order][np.searchsorted(reached, (1.0 - _BEYOND) * reached[-1])])

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
    def usual_reach(self) -> float:
        """The smallest reach of the intervals that keep most of the signal."""
        kept = [each.reach for each in self._candidates if each.kept >= _USUALLY_KEPT]
        return min(kept, default=self.least_reach)

    @cached_property
    def _candidates(self) -> list[Interval]:
        """Intervals from bin to bin that leave enough of the signal."""
        there = np.flatnonzero(self.masses > 0)
        ends = self.edges[there[0] : there[-1] + 2]
        first, second = np.triu_indices(len(ends), 1)
        found = [each for each in self._intervals(ends[first], ends[second]) if each.slope >= _LEAST_SLOPE]
        return found or [self.interval(float(ends[0]), float(ends[-1]))]


def private_shape(data: PrivateValues, settled: Array | Beside, spend: Spend, *, two_valued: bool = False) -> Shape:
    """Return the shape of the residuals from settled numbers, which are already private.

    Whether values are at the bounds can be seen while all have the same residual there; later it must be told.

    Guarantee: ``spend``, unit value (docs/guarantees.md#counts).
    """
    known = here(settled)
    same = bool(np.max(known) == np.min(known))
    edges = _make_edges_for(known, data.bounds, at_bounds=same)
    bins = each(partial(_find_bins, edges), data.values.reveal(), settled)
    noisy = spend.counts(bins, len(edges) - 1)
    noise = noisy.variance**0.5
    inner = noisy.values[1:-1]
    only_ends = same and inner.max() <= _CLEAR_APART * noise and inner.sum() <= _CLEAR * noise * len(inner) ** 0.5
    masses = _denoise(noisy.values, noise, data.n_entries, edges, ends=only_ends)
    two_valued = two_valued or (same and masses[0] + masses[-1] > _TWO_VALUED)
    if only_ends and two_valued:
        return shape_of_chances(known, data.bounds)
    return Shape(edges=edges, masses=masses, noise=noise / data.n_entries, two_valued=two_valued)


def _find_bins(edges: Array, values: Array, known: Array) -> Array:
    bins: Array = np.clip(np.searchsorted(edges, values - known, side="right") - 1, 0, len(edges) - 2)
    return bins


def shape_of_chances(known: Array, bounds: tuple[float, float]) -> Shape:
    """Return the shape of residuals of yes and no, values at the bounds, which follows from what is known of each."""
    edges = _make_edges_for(known, bounds, at_bounds=bool(np.max(known) == np.min(known)))
    yes = (known - bounds[0]) / (bounds[1] - bounds[0])
    masses = np.zeros(len(edges) - 1)
    for value, chance in ((bounds[0], 1.0 - yes), (bounds[1], yes)):
        bins = np.clip(np.searchsorted(edges, value - known, side="right") - 1, 0, len(masses) - 1)
        masses += np.bincount(bins, np.maximum(chance, _LEAST_CHANCE), minlength=len(masses))
    return Shape(edges=edges, masses=masses / masses.sum(), two_valued=True, by_chance=True)


def _make_edges_for(known: Array, bounds: tuple[float, float], *, at_bounds: bool) -> Array:
    """Return the edges of bins for residuals, none of which is beyond those of the bounds."""
    low, high, width = bounds[0] - float(np.max(known)), bounds[1] - float(np.min(known)), bounds[1] - bounds[0]
    edges = make_edges(width, _PER_OCTAVE, _OCTAVES)
    inner = [low + _AT_BOUND * width, high - _AT_BOUND * width] if at_bounds else [low, high]
    found: Array = np.unique([low, *inner, *edges[(edges > inner[0]) & (edges < inner[1])], high])
    return found


def read_shape(counts: Array, noise: float, n: float, edges: Array) -> Shape:
    """Return the shape that noisy counts of about n residuals tell; ``noise`` is their standard deviation."""
    return Shape(edges=edges, masses=_denoise(counts, noise, n, edges))


def make_edges(width: float, per_octave: int, octaves: int) -> Array:
    """Return edges of bins on a logarithmic scale on both sides of zero, over a width."""
    positive = width * 2.0 ** (-np.arange(per_octave * octaves + 1)[::-1] / per_octave)
    return np.concatenate([-positive[::-1], [0.0], positive])


def _denoise(counts: Array, noise: float, n: float, edges: Array, *, ends: bool = False) -> Array:
    """Return shares that add up to 1, from counts of which only those that stand out of their noise are believed.

    ``ends`` says that nothing is seen but values at the bounds, in bins of their own.
    """
    if counts.max() <= _CLEAR * noise:
        return _spread_blindly(edges)
    first, last = _find_clear(counts, noise, edges, ends=ends)
    counts = fall_off(counts, first, last, edges, _FALL)
    inside = np.arange(first, last + 1)
    outside = float(counts.sum() - counts[inside].sum())
    if counts.sum() < _LEAST_SEEN * n:
        return _spread_blindly(edges)
    masses = counts * min(1.0, _MOST_IN_TAILS * n / max(outside, 1e-300))
    masses[inside] = project(counts[inside], n - min(outside, _MOST_IN_TAILS * n))
    if np.count_nonzero(masses) < 2:  # one bin is as narrow as it gets; a variance of 0 could not be divided by
        at = int(np.argmax(masses))
        masses[max(at - 1, 0) : at + 2] = 1.0
    return np.asarray(masses / masses.sum())


def _find_clear(counts: Array, noise: float, edges: Array, *, ends: bool) -> tuple[int, int]:
    """Return the first and the last bin that count: those that stand out beyond the fullest, and far ones if clear."""
    # Bins that are nearer to zero than the fullest are narrow, and may well be empty.
    fullest = int(np.argmax(counts))
    reached = max(abs(edges[fullest]), abs(edges[fullest + 1]))
    within = np.flatnonzero((edges[:-1] >= -reached) & (edges[1:] <= reached))
    first, last = min(fullest, int(within[0])), max(fullest, int(within[-1]))
    enough = np.full(len(counts), _CLEAR_APART * noise)
    if ends:
        enough[[0, -1]] = _CLEAR * noise
    clear = np.flatnonzero(counts > _CLEAR * noise)
    for place in clear[clear > last]:
        if place - last <= _NEAR or counts[place] > enough[place]:
            last = int(place)
    for place in clear[clear < first][::-1]:
        if first - place <= _NEAR or counts[place] > enough[place]:
            first = int(place)
    return first, last


def fall_off(counts: Array, first: int, last: int, edges: Array, power: float) -> Array:
    """Return counts that beyond the first and the last bin are not negative, and fall as fast as a power or faster."""
    far = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:])) ** power
    kept = counts.copy()
    for tail in (np.arange(last + 1, len(counts)), np.arange(first)[::-1]):
        kept[tail] = np.maximum(kept[tail], 0.0)
        tail = tail[(tail > last) == (edges[tail] >= 0)]  # bins between the last one that stands out and zero stay
        kept[tail] = np.maximum(_fall(counts[tail] * far[tail], far[tail] ** -2.0), 0.0) / far[tail]
    return kept


def _fall(numbers: Array, weights: Array) -> Array:
    """Return the nearest numbers that do not rise, in weighted squares (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for block in zip(numbers.tolist(), weights.tolist(), [1] * len(numbers), strict=True):
        while blocks and blocks[-1][0] < block[0]:
            mean, weight, size = blocks.pop()
            whole = weight + block[1]
            block = ((mean * weight + block[0] * block[1]) / whole, whole, size + block[2])
        blocks.append(block)
    return np.concatenate([np.full(size, mean) for mean, _, size in blocks]) if blocks else numbers


def _spread_blindly(edges: Array) -> Array:
    inside = (edges[:-1] >= _BLIND * edges[0]) & (edges[1:] <= _BLIND * edges[-1])
    if not inside.any():  # zero is not among the residuals that can be
        inside[:] = True
    masses: Array = np.where(inside, np.diff(edges), 0.0)
    return np.asarray(masses / masses.sum())


def project(counts: Array, total: float) -> Array:
    """Return the nearest counts that are not negative and have this total."""
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    last = np.flatnonzero(falling - excess > 0)[-1]
    nearest: Array = np.maximum(counts - excess[last], 0.0)
    return nearest
