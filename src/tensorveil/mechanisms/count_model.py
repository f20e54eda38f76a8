"""Expected values of all cells, from noisy tables of few modes: post-processing of what was released.

The model is a sum of products of shares: a cell of component r has the weight of r times its share in every mode. The
table of some modes that follows from it is the same sum over these modes alone, because shares add up to 1, so no table
of all cells is ever made (Kargas, Sidiropoulos and Fu 2018 find a joint distribution by its low-order tables so). How
far components may leave the product of one-way tables is learnt from the noisy tables: more noise is added to a copy of
each, and what is fitted to these is compared with what the added noise leaves independent of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tensorveil.mechanisms.allocation import Modes
from tensorveil.mechanisms.data import Array, Form

# What a component is drawn towards the product of one-way tables by, as a share of the entries. Weak pulls come first:
# components that are all at the base are not parted again.
_PULLS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_STEPS, _LAST_STEPS, _RATE, _APART = 80, 160, 0.15, 0.5
_DECAY, _SQUARES = 0.9, 0.99
_ROUNDS = 4


@dataclass(frozen=True, kw_only=True)
class CountTable:
    """Noisy sums over the cells of some modes, and the variance of the noise on each."""

    modes: Modes
    sums: Array
    noise: float


@dataclass(frozen=True, kw_only=True)
class CountModel:
    """Weights of components, and the share of each that is at every index of every mode."""

    weights: Array
    shares: tuple[Array, ...]

    def table(self, modes: Modes) -> Array:
        """Return what is expected in the cells of some modes."""
        first, *others = (self.shares[mode] for mode in modes)
        if not others:
            return np.asarray(first @ self.weights)
        expected: Array = (first * self.weights) @ multiply_rows(others).T
        return expected.reshape([len(self.shares[mode]) for mode in modes])

    def factors(self, scale: float) -> tuple[Array, ...]:
        """Return the factors of a CP model of the expected values, multiplied by a scale."""
        spread = (self.weights * scale) ** (1.0 / len(self.shares))
        return tuple(share * spread for share in self.shares)


def multiply_rows(factors: Sequence[Array]) -> Array:
    """Return the products of the rows of several factors, the last one's varying fastest (Khatri-Rao)."""
    out = factors[0]
    for factor in factors[1:]:
        out = (out[:, None, :] * factor).reshape(-1, factor.shape[1])
    return out


def merge_ones(tables: Sequence[CountTable], mode: int) -> CountTable:
    """Return the one-way table of a mode from all tables that hold it, weighed by what their noise adds up to."""
    sums, certain = np.zeros(0), 0.0
    for table in tables:
        if mode not in table.modes:
            continue
        others = tuple(place for place, each in enumerate(table.modes) if each != mode)
        weight = 1.0 / (table.noise * math.prod(table.sums.shape[place] for place in others))
        sums = weight * table.sums.sum(axis=others) + (sums if certain else 0.0)
        certain += weight
    return CountTable(modes=(mode,), sums=sums / certain, noise=1.0 / certain)


def multiply_ones(tables: Sequence[CountTable], order: int, chance: float) -> CountModel:
    """Return what one-way tables say if modes are independent; a table of no modes is the total."""
    ones = [merge_ones(tables, mode) for mode in range(order)]
    whole = [table for table in tables if not table.modes]
    weighed = [(float(each.sums.sum()), 1.0 / (each.noise * each.sums.size)) for each in (*ones, *whole)]
    total = max(sum(each * weight for each, weight in weighed) / sum(weight for _, weight in weighed), 1.0)
    shares = tuple(_share_out(one, total, chance)[:, None] for one in ones)
    return CountModel(weights=np.array([total]), shares=shares)


def _share_out(table: CountTable, total: float, chance: float) -> Array:
    """Return positive shares of a total: means given noisy sums, if true ones are spread as an exponential law."""
    from scipy.special import log_ndtr

    usual = total / table.sums.size
    expected = np.maximum(table.sums, 0.0) + 0.1 * usual
    for _ in range(_ROUNDS):
        spread = np.sqrt(table.noise + chance * expected)
        centre = table.sums - spread**2 / usual
        place = centre / spread
        tail = np.exp(-0.5 * place**2 - log_ndtr(place)) / math.sqrt(2.0 * math.pi)
        expected = np.maximum(centre + spread * tail, 1e-9 * usual)
    return np.asarray(expected / expected.sum(), dtype=np.float64)


def fit_counts(tables: Sequence[CountTable], base: CountModel, form: Form, chance: float) -> CountModel | None:
    """Fit components to tables, if they then explain more than the product of one-way tables, the base.

    ``chance`` is the variance of a sum over its expected value, without noise.
    """
    rng, rank = np.random.default_rng(form.seed), min(form.ranks)
    noisier, clearer = [], []
    for table in tables:
        added = rng.normal(0.0, math.sqrt(table.noise), table.sums.shape)
        noisier.append(replace(table, sums=table.sums + added, noise=2.0 * table.noise))
        clearer.append(replace(table, sums=table.sums - added, noise=2.0 * table.noise))
    # A base that knew the tables would know the noise that the clearer ones share with them.
    rival = multiply_ones(noisier, len(base.shares), chance)
    best, found, kept = 0.0, _scatter(rival, rank, rng), None
    for pull in _PULLS:
        found = _descend(found, noisier, rival, pull, chance, min(_STEPS, form.sweeps))
        gain = _compare(found, rival, clearer)
        if gain > best:
            best, kept = gain, (found, pull)
    if kept is None:
        return None
    last = _descend(kept[0], tables, base, kept[1], chance, min(_LAST_STEPS, 2 * form.sweeps))
    # The total is known better than what its tables add up to.
    return replace(last, weights=last.weights * (base.weights[0] / last.weights.sum()))


def _scatter(base: CountModel, rank: int, rng: np.random.Generator) -> CountModel:
    """Return components around the base, none like another."""
    shares = []
    for share in base.shares:
        apart = share * np.exp(_APART * rng.standard_normal((len(share), rank)))
        shares.append(apart / apart.sum(axis=0))
    return CountModel(weights=np.full(rank, base.weights[0] / rank), shares=tuple(shares))


def _compare(found: CountModel, base: CountModel, tables: Sequence[CountTable]) -> float:
    """Return how much more components explain of tables than the base."""
    gain = 0.0
    for table in tables:
        moved = found.table(table.modes) - base.table(table.modes)
        apart = table.sums - base.table(table.modes)
        gain += float(np.sum(moved * (2.0 * apart - moved))) / table.noise
    return gain


def _descend(
    start: CountModel, tables: Sequence[CountTable], base: CountModel, pull: float, chance: float, steps: int
) -> CountModel:
    """Follow the gradient of the tables' likelihood and of the pull, in logarithms, by Adam (Kingma and Ba 2015)."""
    strength = pull * float(base.weights[0]) / len(start.weights)
    logs = [np.log(np.maximum(array, 1e-30)) for array in (*start.shares, start.weights)]
    means, squares = [np.zeros_like(log) for log in logs], [np.zeros_like(log) for log in logs]
    single = [np.ascontiguousarray(table.sums.reshape(len(table.sums), -1), dtype=np.float32) for table in tables]
    for step in range(1, steps + 1):
        slopes = _slope(start, tables, single, base, strength, chance)
        rate = 0.5 * _RATE * (1.0 + math.cos(math.pi * (step - 1) / steps))
        for place, slope in enumerate(slopes):
            means[place] = _DECAY * means[place] + (1 - _DECAY) * slope
            squares[place] = _SQUARES * squares[place] + (1 - _SQUARES) * slope**2
            size = np.sqrt(squares[place] / (1 - _SQUARES**step)) + 1e-7 * float(base.weights[0])
            logs[place] = logs[place] + rate * means[place] / (1 - _DECAY**step) / size
        powers = [np.exp(log - log.max(axis=0)) for log in logs[:-1]]
        start = CountModel(weights=np.exp(logs[-1]), shares=tuple(power / power.sum(axis=0) for power in powers))
    return start


def _slope(
    model: CountModel, tables: Sequence[CountTable], single: Sequence[Array], base: CountModel, strength: float,
    chance: float,
) -> list[Array]:  # fmt: skip
    """Return the gradient by the logarithms of shares and weights."""
    slopes = [strength * (own - share) for own, share in zip(base.shares, model.shares, strict=True)]
    weights, rank = model.weights, len(model.weights)
    of_weights = np.zeros(rank)
    for table, sums in zip(tables, single, strict=True):
        first, *rest = (model.shares[mode].astype(np.float32) for mode in table.modes)
        others = multiply_rows(rest) if rest else np.ones((1, rank), dtype=np.float32)
        expected = (first * weights.astype(np.float32)) @ others.T
        pulls = sums - expected
        expected *= np.float32(chance)
        expected += np.float32(table.noise)
        pulls /= expected
        along = pulls @ others
        of_weights += weights * np.sum(first * along, axis=0, dtype=np.float64)
        by_mode = [along * weights]
        if rest:
            by_mode += _share_gains((pulls.T @ first) * weights, rest)
        for mode, gained in zip(table.modes, by_mode, strict=True):
            share = model.shares[mode]
            slopes[mode] = slopes[mode] + share * (gained - np.sum(share * gained, axis=0))
    return [*slopes, of_weights]


def _share_gains(gained: Array, factors: Sequence[Array]) -> list[Array]:
    """Return the gradient by each factor, from that by the products of their rows."""
    sizes, found = [len(factor) for factor in factors], []
    for place, size in enumerate(sizes):
        before, after = math.prod(sizes[:place]), math.prod(sizes[place + 1 :])
        cube = gained.reshape(before, size, after, -1)
        if before > 1:
            cube = np.einsum("bsar,br->sar", cube, multiply_rows(factors[:place]))[None]
        if after > 1:
            cube = np.einsum("bsar,ar->bsr", cube, multiply_rows(factors[place + 1 :]))[:, :, None]
        found.append(cube.sum(axis=(0, 2)))
    return found
