"""Expected values of all cells, from noisy tables of few modes: post-processing of what was released.

The model is a sum of products of shares: a cell of component r has the weight of r times its share in every mode. The
table of some modes that follows from it is the same sum over these modes alone, because shares add up to 1, so no table
of all cells is ever made (Kargas, Sidiropoulos and Fu 2018 find a joint distribution by its low-order tables so). How
far components may leave the product of one-way tables, and these a uniform spread, is learnt from the noisy tables:
more noise is added to a copy of each, and what is fitted to these is judged by what the added noise leaves independent
of it. The judge is the likelihood of counts, of which noisy counts give an estimate without bias because it is linear
in them; a gain that noise could have made counts as none.
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
# One-way tables are believed so far, or not at all. A part of every component is spread as they are.
_TRUSTS, _ROOM = (1.0, 0.75, 0.5, 0.25), 0.01
# To a copy of what is noisy, so much more noise is added, as a share of what it has; what is left of the noise in the
# judge is then independent of the copy.
_MORE = 0.5
# A gain must be so many standard deviations of its noise.
_SURE = 1.0
_DECAY, _SQUARES = 0.9, 0.99
_ROUNDS = 4


@dataclass(frozen=True, kw_only=True)
class CountTable:
    """Noisy sums over the cells of some modes, and the variance of the noise on each: one for all, or one by cell."""

    modes: Modes
    sums: Array
    noise: Array | float

    def noise_over(self, places: tuple[int, ...]) -> Array | float:
        """Return the variance of the noise once cells are added up along some of the modes."""
        if isinstance(self.noise, np.ndarray):
            return np.asarray(self.noise.sum(axis=places))
        cells: int = math.prod(self.sums.shape[place] for place in places)
        return float(self.noise) * cells


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
    sums, certain = np.zeros(0), np.zeros(1)
    for table in tables:
        if mode not in table.modes:
            continue
        others = tuple(place for place, each in enumerate(table.modes) if each != mode)
        weight = 1.0 / table.noise_over(others)
        sums = weight * table.sums.sum(axis=others) + (sums if len(sums) else 0.0)
        certain = certain + weight
    noise = 1.0 / certain
    return CountTable(modes=(mode,), sums=sums / certain, noise=noise if len(noise) > 1 else float(noise[0]))


def multiply_ones(tables: Sequence[CountTable], order: int, chance: float) -> CountModel:
    """Return what one-way tables say if modes are independent; a table of no modes is the total."""
    ones = [merge_ones(tables, mode) for mode in range(order)]
    whole = [table for table in tables if not table.modes]
    weighed = [
        (float(each.sums.sum()), 1.0 / float(each.noise_over(tuple(range(each.sums.ndim))))) for each in (*ones, *whole)
    ]
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


def temper_ones(base: CountModel, tables: Sequence[CountTable], chance: float, seed: int) -> tuple[float, ...]:
    """Return for every mode how far its one-way table is to be believed: 1 as it stands, 0 for uniform shares."""
    rng, total, trusts = np.random.default_rng(seed), float(base.weights[0]), []
    for mode, share in enumerate(base.shares):
        table = merge_ones(tables, mode)
        spread = table.noise + chance * total * share[:, 0]
        added = rng.normal(0.0, np.sqrt(_MORE * spread))
        noisier = replace(table, sums=table.sums + added, noise=(1 + _MORE) * table.noise)
        found, judge = _share_out(noisier, total, (1 + _MORE) * chance), table.sums - added / _MORE
        best, kept = 0.0, 0.0
        for trust in _TRUSTS:
            ratio = np.log(_lean(found, trust) * len(found))
            gain = float(judge @ ratio) - _SURE * math.sqrt(float((1 + 1 / _MORE) * spread @ ratio**2))
            if gain > best:
                best, kept = gain, trust
        trusts.append(kept)
    return tuple(trusts)


def lean_ones(base: CountModel, trusts: Sequence[float]) -> CountModel:
    """Return one-way tables as far as they are believed; for the rest shares are uniform."""
    return replace(base, shares=tuple(_lean(each, trust) for each, trust in zip(base.shares, trusts, strict=True)))


def _lean(share: Array, trust: float) -> Array:
    return np.asarray(trust * share + (1.0 - trust) / len(share))


def fit_counts(
    tables: Sequence[CountTable], base: CountModel, form: Form, chance: float, trusts: Sequence[float]
) -> CountModel | None:
    """Fit components to tables, if they then explain more than the product of one-way tables, the base.

    ``chance`` is the variance of a sum over its expected value, without noise; ``trusts`` are those of the base.
    """
    rng, rank = np.random.default_rng(form.seed), min(form.ranks)
    noisier, judges = [], []
    for table in tables:
        added = rng.normal(0.0, np.sqrt(_MORE * table.noise), table.sums.shape)
        noisier.append(replace(table, sums=table.sums + added, noise=(1 + _MORE) * table.noise))
        judges.append(replace(table, sums=table.sums - added / _MORE, noise=(1 + 1 / _MORE) * table.noise))
    # A base that knew the tables would know the noise that the judges share with them.
    rival = lean_ones(multiply_ones(noisier, len(base.shares), chance), trusts)
    best, found, kept = 0.0, _scatter(rival, rank, rng), None
    for pull in _PULLS:
        found = _descend(found, noisier, rival, pull, chance, min(_STEPS, form.sweeps))
        gain = _compare(_leave_room(found, rival), rival, judges)
        if gain > best:
            best, kept = gain, (found, pull)
    if kept is None:
        return None
    last = _leave_room(_descend(kept[0], tables, base, kept[1], chance, min(_LAST_STEPS, 2 * form.sweeps)), base)
    # The total is known better than what its tables add up to.
    return replace(last, weights=last.weights * (base.weights[0] / last.weights.sum()))


def _leave_room(found: CountModel, base: CountModel) -> CountModel:
    """Return components that rule nothing out: a part of each is spread as in the base."""
    shares = (own + _ROOM * (one - own) for own, one in zip(found.shares, base.shares, strict=True))
    return replace(found, shares=tuple(shares))


def _scatter(base: CountModel, rank: int, rng: np.random.Generator) -> CountModel:
    """Return components around the base, none like another."""
    shares = []
    for share in base.shares:
        apart = share * np.exp(_APART * rng.standard_normal((len(share), rank)))
        shares.append(apart / apart.sum(axis=0))
    return CountModel(weights=np.full(rank, base.weights[0] / rank), shares=tuple(shares))


def _compare(found: CountModel, base: CountModel, tables: Sequence[CountTable]) -> float:
    """Return how much more likely components make tables than the base does, less what noise could make of it."""
    gain, noise = 0.0, 0.0
    scale = float(base.weights[0] / found.weights.sum())
    for table in tables:
        if not table.modes:
            continue
        usual = base.table(table.modes)
        ratio = np.log(found.table(table.modes) * scale / usual)
        gain += float(np.sum(table.sums * ratio))
        noise += float(np.sum(table.noise * ratio**2))
    return gain - _SURE * math.sqrt(noise)


def _descend(
    start: CountModel, tables: Sequence[CountTable], base: CountModel, pull: float, chance: float, steps: int
) -> CountModel:
    """Follow the gradient of the tables' likelihood and of the pull, in logarithms, by Adam (Kingma and Ba 2015)."""
    strength = pull * float(base.weights[0]) / len(start.weights)
    logs = [np.log(np.maximum(array, 1e-30)) for array in (*start.shares, start.weights)]
    means, squares = [np.zeros_like(log) for log in logs], [np.zeros_like(log) for log in logs]
    single = [_halve(table) for table in tables]
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


def _halve(table: CountTable) -> tuple[Array, Array]:
    """Return sums and noise in single precision, a row for every index of the first mode."""
    sums = np.ascontiguousarray(table.sums.reshape(len(table.sums), -1), dtype=np.float32)
    noise = np.asarray(table.noise, dtype=np.float32)
    return sums, noise.reshape(sums.shape) if noise.ndim else noise


def _slope(
    model: CountModel, tables: Sequence[CountTable], single: Sequence[tuple[Array, Array]], base: CountModel,
    strength: float, chance: float,
) -> list[Array]:  # fmt: skip
    """Return the gradient by the logarithms of shares and weights."""
    slopes = [strength * (own - share) for own, share in zip(base.shares, model.shares, strict=True)]
    weights, rank = model.weights, len(model.weights)
    of_weights = np.zeros(rank)
    for table, (sums, noise) in zip(tables, single, strict=True):
        first, *rest = (model.shares[mode].astype(np.float32) for mode in table.modes)
        others = multiply_rows(rest) if rest else np.ones((1, rank), dtype=np.float32)
        expected = (first * weights.astype(np.float32)) @ others.T
        pulls = sums - expected
        expected *= np.float32(chance)
        expected += noise
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
