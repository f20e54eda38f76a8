"""Effects from tallies, one after the other: each tally is of what earlier effects leave of the entries themselves.

Residuals are taken at the private entries, so a tally needs no correction for effects that were found before it: only
what it says of its own modes is added, each time weighed against what was known. Post-processing only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from tensorveil.mechanisms.allocation import Modes
from tensorveil.mechanisms.data import Array, Form
from tensorveil.mechanisms.decoder import Effects
from tensorveil.mechanisms.entry_predictions import components_at
from tensorveil.mechanisms.pairs import PairEffect, fit_pairs
from tensorveil.mechanisms.products import find_products
from tensorveil.mechanisms.shape import Interval
from tensorveil.mechanisms.tallies import Tally, estimate_counts

_ROUNDS, _FRESH, _FRESH_SWEEPS, _SWEEPS = 8, (0, 3), 15, 3
# Sums further away than this many standard deviations count as if they were here.
_FAR = 3.0
_STEPS = 20
# Cells of two modes have at most so many times the entries, or so many times fewer, than if modes were independent.
_CROWDED = 10.0
# Cells with a smaller count are taken to be empty.
_LEAST_COUNT = 0.02
# At most so many cells per entry are fitted.
_MOST_PER_ENTRY = 2.0
# Effects that are moved also move the mean: by about this share of the variance.
DRIFT = 0.01
# Where a count is off, the sum is off by effects of about this share of the variance.
_EFFECTS = 0.3


@dataclass(frozen=True, kw_only=True)
class CellValues:
    """Cells, what residuals are there, and the variance of the noise on that."""

    columns: Array
    values: Array
    noise: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Settled:
    """Effects that were found: public, and what is taken off every entry's value."""

    bounds: tuple[float, float]
    offset: float
    biases: tuple[Array, ...]
    pairs: tuple[tuple[Modes, Array], ...]
    products: tuple[Array, ...] | None

    def at(self, columns: Array) -> Array:
        """Return the effects at entries, within the bounds: each a sum of its own numbers in a fixed order."""
        total = np.full(columns.shape[1], self.offset)
        for bias, column in zip(self.biases, columns, strict=True):
            total += bias[column]
        for (one, other), matrix in self.pairs:
            total += matrix[columns[one], columns[other]]
        if self.products is not None:
            total += components_at(columns, self.products)
        within: Array = np.clip(total, *self.bounds)
        return within

    def leave(self, values: Array, columns: Array) -> Array:
        """Return what is left of values."""
        left: Array = values - self.at(columns)
        return left


@dataclass(kw_only=True)
class Known:
    """What was found so far: effects, and how far off each may be (variances; none where nothing was measured)."""

    shape: tuple[int, ...]
    bounds: tuple[float, float]
    n: float
    offset: float
    doubt: float
    biases: list[Array]
    doubts: list[Array | None]
    counts: list[Array | None]
    pairs: dict[Modes, PairEffect] = field(default_factory=dict)
    ratios: dict[Modes, Array] = field(default_factory=dict)
    seen: dict[Modes, tuple[Array, Array]] = field(default_factory=dict)
    products: tuple[Array, ...] | None = None

    @classmethod
    def constant(
        cls, shape: tuple[int, ...], bounds: tuple[float, float], n: float, offset: float, doubt: float
    ) -> Known:
        """Begin with a mean."""
        nothing: list[Array | None] = [None] * len(shape)
        return cls(
            shape=shape, bounds=bounds, n=n, offset=offset, doubt=doubt, biases=[np.zeros(size) for size in shape],
            doubts=list(nothing), counts=list(nothing),
        )  # fmt: skip

    def at(self, columns: Array) -> Array:
        """Return the effects at entries, within the bounds."""
        return self.settled.at(columns)

    @property
    def settled(self) -> Settled:
        """The effects as they are now, which is all that residuals need."""
        return Settled(
            bounds=self.bounds, offset=self.offset, biases=tuple(self.biases), products=self.products,
            pairs=tuple((modes, pair.matrix) for modes, pair in self.pairs.items()),
        )  # fmt: skip

    @property
    def reach(self) -> tuple[float, float]:
        """Bounds of the effects over all cells, observed or not."""
        if self.products is not None:
            return self.bounds
        parts = [*self.biases, *(pair.matrix for pair in self.pairs.values())]
        low = self.offset + sum(float(part.min()) for part in parts)
        high = self.offset + sum(float(part.max()) for part in parts)
        return float(np.clip(low, *self.bounds)), float(np.clip(high, *self.bounds))

    def expect(self, modes: Modes) -> Array:
        """Return the counts to expect in the cells of some modes, as if modes were independent.

        In the cells of all modes, by what tables of two have shown beside that.
        """
        expected: Array = np.array(max(self.n, 1.0))
        for mode in modes:
            counts = self.counts[mode]
            shares = np.ones(self.shape[mode]) if counts is None else np.maximum(counts, 1e-9)
            expected = np.multiply.outer(expected, shares / shares.sum())
        ratios = {pair: ratio for pair, ratio in self.ratios.items() if set(pair) <= set(modes)}
        if ratios:
            for pair, ratio in ratios.items():
                expected *= ratio.reshape([self.shape[mode] if mode in pair else 1 for mode in modes])
            expected *= max(self.n, 1.0) / max(float(expected.sum()), 1e-300)
        return expected

    def take_in(self, tally: Tally, interval: Interval, rest: float, rank: int) -> None:
        """Add what a tally of residuals from all this says."""
        precision, score = self._weigh(tally, interval, rest, rank)
        if len(tally.modes) == 1:
            self._move_bias(tally.modes[0], precision, score, rest)
        else:
            self._move_pair(tally.modes, precision, score, rest, rank)
        self.doubt += DRIFT * rest

    def _weigh(self, tally: Tally, interval: Interval, rest: float, rank: int) -> tuple[Array, Array]:
        """Take in counts and the mean; return how certain a tally is of what is left in its cells, and that times it.

        By itself, so that what it computes on the way is gone when effects are fitted: tables may be large.
        """
        expected = self.expect(tally.modes)
        counts, off = estimate_counts(tally, expected, rank)
        if len(tally.modes) == 1:
            self.counts[tally.modes[0]] = counts
        else:
            before = self.ratios.get(tally.modes, 1.0)
            ratio = before * counts / np.maximum(expected, 1e-9)
            self.ratios[tally.modes] = np.clip(ratio, 1.0 / _CROWDED, _CROWDED)
        mean = self.settle_offset(tally, interval)
        noise = tally.sum_noise / interval.slope**2
        variance = noise + (counts + _EFFECTS * off) * rest + 1e-300
        left = (tally.sums - counts * mean) / interval.slope
        return counts**2 / variance, counts * left / variance

    def settle_offset(self, tally: Tally, interval: Interval) -> float:
        """Take in what a tally says of the mean; return the mean of its sums."""
        mean = float(tally.sums.sum()) / max(self.n, 1.0)
        middle = 0.5 * (interval.low + interval.high)
        found = (mean + middle - interval.shift) / interval.slope
        noise = tally.sum_noise * tally.sums.size / max(self.n, 1.0) ** 2
        doubt = noise / interval.slope**2 + interval.doubt**2 + 1e-300
        self.offset += found * self.doubt / (self.doubt + doubt)
        self.doubt = self.doubt * doubt / (self.doubt + doubt)
        return mean

    def _move_bias(self, mode: int, precision: Array, score: Array, rest: float) -> None:
        prior = self.doubts[mode]
        if prior is None:
            prior = np.full(len(score), find_prior(precision, score, rest))
        spread = 1.0 / (precision + 1.0 / prior)
        self.biases[mode] = self.biases[mode] + score * spread
        self.doubts[mode] = spread

    def _move_pair(self, modes: Modes, precision: Array, score: Array, rest: float, rank: int) -> None:
        """Move both biases and the two-way effect by what is left, each given the others."""
        moved = [np.zeros(self.shape[mode]) for mode in modes]
        spreads = list(moved)
        earlier, before = self.seen.get(modes), self.pairs.get(modes)
        after: Array = np.zeros((1, 1))
        pair, base = None, after if before is None else before.matrix
        for turn in range(_ROUNDS):
            for axis, mode in enumerate(modes):
                others = moved[1 - axis][None, :] if axis == 0 else moved[1 - axis][:, None]
                pull = np.sum(score - precision * (others + after), axis=1 - axis)
                certain = np.sum(precision, axis=1 - axis)
                prior = self.doubts[mode]
                if prior is None:
                    prior = np.full(len(pull), find_prior(certain, pull, rest))
                spreads[axis] = 1.0 / (certain + 1.0 / prior)
                moved[axis] = pull * spreads[axis]
            added = moved[0][:, None] + moved[1][None, :]
            far = _FAR * np.sqrt(precision)
            own = score - precision * (added + after)
            np.clip(own, -far, far, out=own)
            del added, far  # tables may be large
            own += precision * (base + after)
            whole = precision
            if earlier is not None:
                own, whole = own + earlier[1], whole + earlier[0]
            fresh = turn in _FRESH or pair is None
            pair = fit_pairs(whole, own, rank, _FRESH_SWEEPS if fresh else _SWEEPS, None if fresh else pair)
            after = pair.matrix - base
        for axis, mode in enumerate(modes):
            self.biases[mode] = self.biases[mode] + moved[axis]
            self.doubts[mode] = spreads[axis]
        assert pair is not None
        self.pairs[modes], self.seen[modes] = pair, (whole, own)

    def doubtful(self) -> dict[Modes, float]:
        """Return the variance that is left in one-way effects, on average over entries."""
        left: dict[Modes, float] = {}
        for mode, doubt in enumerate(self.doubts):
            if doubt is not None:
                left[(mode,)] = float(self.expect((mode,)) @ doubt) / self.n
        return left

    def copy(self) -> Known:
        """Return a copy that can go another way."""
        return replace(
            self, biases=list(self.biases), doubts=list(self.doubts), counts=list(self.counts), pairs=dict(self.pairs),
            ratios=dict(self.ratios), seen=dict(self.seen),
        )  # fmt: skip

    def take_in_cells(
        self, tally: Tally, interval: Interval, rest: float, rank: int
    ) -> tuple[CellValues, CellValues] | None:
        """Take in what a table of all modes says of every two modes; return what it said of cells before, and besides.

        Whoever fits that takes all cells for equally noisy, so those are left out that would add more noise than they
        tell, and those that are likely to be empty. None are left if it says nothing.
        """
        counts, _ = estimate_counts(tally, self.expect(tally.modes), rank)
        chosen = self._choose_cells(counts, tally.sum_noise / interval.slope**2, rest)
        if not len(chosen):
            return None
        sums = tally.sums.copy()
        before = self._value_cells(counts, sums, chosen, tally, interval)
        for modes in combinations(tally.modes, 2):
            others = tuple(mode for mode in tally.modes if mode not in modes)
            many = math.prod(self.shape[mode] for mode in others)
            added = Tally(
                modes=modes, counts=tally.counts.sum(axis=others), sums=sums.sum(axis=others),
                count_noise=many * tally.count_noise, sum_noise=many * tally.sum_noise,
            )  # fmt: skip
            then = self.copy()
            self.take_in(added, interval, rest, rank)
            moved = self.pairs[modes].matrix + (self.offset - then.offset)
            moved -= then.pairs[modes].matrix if modes in then.pairs else 0.0
            moved += np.add.outer(*(self.biases[mode] - then.biases[mode] for mode in modes))
            sums -= interval.slope * counts * np.expand_dims(moved, others)
        return before, self._value_cells(counts, sums, chosen, tally, interval)

    def _choose_cells(self, counts: Array, noise: float, rest: float) -> Array:
        """Return the cells from whose values, all weighed alike, most can be learnt."""
        falling = np.sort(counts, axis=None)[::-1][: int(_MOST_PER_ENTRY * self.n) + 1]
        falling = falling[: np.count_nonzero(falling > _LEAST_COUNT)]
        if not len(falling):
            return np.zeros(0, dtype=np.int64)
        noises, number = np.cumsum(noise / falling**2), np.arange(1, len(falling) + 1)
        last = int(np.argmax(number**2 / (noises + number * rest)))
        return np.flatnonzero(counts.ravel() >= falling[last])

    def _value_cells(self, counts: Array, sums: Array, chosen: Array, tally: Tally, interval: Interval) -> CellValues:
        some, mean = counts.ravel()[chosen], float(sums.sum()) / self.n
        return CellValues(
            columns=np.stack(np.unravel_index(chosen, counts.shape)).astype(np.int32),
            values=(sums.ravel()[chosen] / some - mean) / interval.slope,
            noise=float(np.mean(tally.sum_noise / (interval.slope * some) ** 2)),
        )

    def effects(self, rest: float) -> Effects:
        """Return the effects as the decoder of unit value has them, to be joined to a model."""
        return Effects(
            offset=self.offset, biases=list(self.biases), pairs=dict(self.pairs), products=self.products, rest=rest
        )

    def find_moves(self, places: Array, form: Form) -> tuple[Array, ...]:
        """Return components that lead from here to what all effects say if modes multiply, at places.

        Two-way effects were measured beside the products that were known then, so that what these say of two modes is
        part of them now.
        """
        pairs, absorbed = dict(self.pairs), []
        if self.products is not None:
            shares = [self.expect((mode,)) / self.n for mode in range(len(self.shape))]
            means = [share @ factor for share, factor in zip(shares, self.products, strict=True)]
            for one, other in combinations(range(len(self.shape)), 2):
                scale = np.prod([mean for k, mean in enumerate(means) if k not in (one, other)], axis=0)
                left, right = self.products[one] * scale, self.products[other]
                left, right = left - shares[one] @ left, right - shares[other] @ right
                pairs[one, other] = append_pair(pairs.get((one, other)), left, right)
                absorbed.append(spread_pair(self.shape, one, other, left, right))
        effects = Effects(offset=self.offset, biases=list(self.biases), pairs=pairs)
        factors, _ = find_products(effects, places, self.bounds, form)
        lists = [factors, *absorbed]
        if self.products is not None:
            first, *others = self.products
            lists.append((-first, *others))
        return tuple(np.concatenate(mode, axis=1) for mode in zip(*lists, strict=True))

    def add_products(self, factors: tuple[Array, ...], share: float) -> None:
        """Go a share of the way that components lead."""
        first, *others = factors
        moved = (share * first, *others)
        before = self.products
        self.products = moved if before is None else tuple(map(_beside, before, moved))

    def draw_positions(self, count: int, seed: int) -> Array:
        """Draw cells as if modes were independent, by the released counts: where entries may be, about."""
        rng = np.random.default_rng(seed)
        columns = [rng.choice(size, count, p=self.expect((mode,)) / self.n) for mode, size in enumerate(self.shape)]
        return np.stack(columns).astype(np.int32)


def append_pair(pair: PairEffect | None, left: Array, right: Array) -> PairEffect:
    """Return a two-way effect with more components."""
    if pair is not None:
        left, right = _beside(pair.left, left), _beside(pair.right, right)
    rank = left.shape[1]
    nothing = np.zeros(rank)
    return PairEffect(left=left, right=right, spread=np.zeros((len(right), rank, rank)), alpha=nothing, beta=nothing)


def spread_pair(shape: tuple[int, ...], one: int, other: int, left: Array, right: Array) -> tuple[Array, ...]:
    """Return the factors of components that are constant along all modes but two."""
    own = {one: left, other: right}
    return tuple(own.get(mode, np.ones((size, left.shape[1]))) for mode, size in enumerate(shape))


def _beside(one: Array, other: Array) -> Array:
    return np.concatenate([one, other], axis=1)


def find_prior(precision: Array, score: Array, rest: float) -> float:
    """Return the variance of effects that were seen with these precisions, by MacKay's fixed point.

    If they do not vary by clearly more than noise and chance explain, they are taken to be absent.
    """
    seen = precision > 0
    count = int(np.count_nonzero(seen))
    excess = float(np.sum(score[seen] ** 2 / precision[seen])) - count
    if not excess > 2.0 * np.sqrt(3.0 * max(count, 1)):
        return 1e-6 * rest + 1e-300
    prior = 0.1 * rest
    for _ in range(_STEPS):
        spread = 1.0 / (precision + 1.0 / prior)
        determined = max(float(np.sum(1.0 - spread / prior)), 1e-3)
        prior = float(np.clip(np.sum((score * spread) ** 2) / determined, 1e-8 * rest, 4.0 * rest))
    return prior
