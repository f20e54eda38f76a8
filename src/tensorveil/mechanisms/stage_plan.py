"""How stages are planned: what is left of the budget, what is expected, and what to measure with which share.

Nothing is assumed of a typical tensor but how variance tends to divide into effects that nobody has measured yet. Plans
are functions of public facts and of what has been released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from tensorveil.mechanisms.allocation import Belief, Layout, Modes, split_best
from tensorveil.mechanisms.cells import Cells, Table
from tensorveil.mechanisms.data import Array
from tensorveil.mechanisms.decoder import Effects
from tensorveil.mechanisms.shape import Shape
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tradeoffs import TYPICAL_SQUARE, side_share
from tensorveil.noise.windows import window_noise
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateValues

ONE_WAY, TWO_WAY, VALUES = "one-way tables", "two-way tables", "values"

# How variance divides into effects that were not measured yet: at first, and after one-way tables. Components are a
# share of what two-way effects leave.
_FIRST = {ONE_WAY: 0.4, TWO_WAY: 0.25, VALUES: 0.15}
_FIRST_OF_MATRIX = {ONE_WAY: 0.4, TWO_WAY: 0.0, VALUES: 0.2}
_SECOND_TWO_WAY, _SECOND_VALUES, _SECOND_OF_MATRIX, _THIRD_VALUES = 0.4, 0.35, 0.3, 0.6
# Where a yes is rare, more of the variance is chance and less is signal: about this times the spread, as a share of the
# width. Of what one-way tables leave of yes and no, two-way effects have this share of what is usual.
_SIGNAL_OF_CHANCES, _TWO_WAY_OF_CHANCES = 2.2, 0.3
# How likely it is, over what is usual, that all signal is in components.
_COMPONENTS_ALONE = 0.6
# How likely it is that numbers by pair of modes tell of two-way effects alone, and not of components for the half.
_ALONE = 0.7
# A share of the budget for scaling the model at the end, and one for a number that tells whether effects multiply.
SCALE, PRODUCT = 0.015, 0.015
# Two-way effects of a tensor differ by about this share of the variance.
_PAIRS_DIFFER = 0.12
# All two-way effects together have at most this share of the variance.
_MOST_EFFECTS = 0.85
# Where one-way effects count this many times as much as their sum, they multiply.
_MULTIPLY = 1.2
# What is unknown of one-way effects has at most this share of what they leave.
_MOST_UNKNOWN = 0.5
# Residuals are taken to be clipped to this many spreads, or to so much more than the usual interval if that is less, as
# it is under heavy tails.
_REACH, _CLIPPED = 4.0, 1.3
# Parts of a budget that are tried for two-way tables if values come after them.
_PARTS_FOR_TABLES = (0.0, 0.03, 0.06, 0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 0.85)
# Parts of a budget that are tried for one-way tables before anything else; what follows must
# promise so much of what one-way tables alone do, for what those leave can be seen before anything else is spent.
_PARTS_FOR_ONES, _WORTH = (0.02, 0.04, 0.08, 0.15, 0.3), 0.97
# The same where values are counts or yes and no: one-way tables, multiplied, then say more than if they are added.
WORTH_OF_COUNTS = 1.1
_LEAST_LEFT = 0.05
# They get at most this part. Their noise is clear below this share of the variance.
_MOST_FOR_ONES, _NOISE_OF_ONE_WAY = 0.75, 0.03
# One-way tables have at least this share of their budget together, evenly.
_EVEN = 0.25
# Two-way tables have at most so many cells, and at most as many as there are entries.
_MOST_CELLS = 4_000_000


def list_tables(shape: tuple[int, ...], n_entries: int) -> tuple[Modes, ...]:
    """Return the one-way and two-way tables that may be measured."""
    order = len(shape)
    ones: list[Modes] = [(mode,) for mode in range(order)]
    if order < 3:
        return tuple(ones)
    most = min(n_entries, _MOST_CELLS)
    twos = [pair for pair in combinations(range(order), 2) if shape[pair[0]] * shape[pair[1]] <= most]
    return (*ones, *twos)


class StagePlan:
    """What a run knows and has left, and what it makes of that. Who runs it sets these."""

    data: PrivateValues
    allowed: tuple[str, ...]
    columns: Array
    shape: tuple[int, ...]
    n: int
    cells: dict[Modes, Cells]
    layout: Layout
    ones: list[Modes]
    twos: list[Modes]
    pairs_share: float
    rest_of_budget: Spend
    left: float  # as a share of the whole, less what is kept for the end
    noise: float
    power: int
    pure: bool
    parts: list[Part]
    tables: dict[Modes, Table]
    effects: Effects
    lifted: float  # how much more one-way effects explain because they multiply
    known: Array
    worth: float = _WORTH  # what further stages must promise, over one-way tables alone
    shapes: list[Shape]  # of the residuals, as they were looked at

    @property
    def residuals(self) -> Shape:
        """The shape of the residuals, as it was seen last."""
        return self.shapes[-1]

    # The budget

    def take(self, *shares: float) -> tuple[Spend, ...]:
        """Take shares of the whole budget from what is left."""
        self.left = max(self.left - sum(shares), 0.0)
        *parts, self.rest_of_budget = self.rest_of_budget.split(*shares, self.left + SCALE)
        return tuple(parts)

    def noise_of(self, share: float) -> float:
        """Return the variance of the noise that a share of the budget buys, for a sensitivity of 1."""
        return self.noise / max(share, 1e-12) ** self.power

    def noise_of_values(self, share: float, square: float) -> float:
        """Return the same for single values, which are between ends that are 1 apart."""
        if not self.pure:
            return self.noise_of(share)
        epsilon = max(share, 1e-6) * (2.0 / self.noise) ** 0.5
        return window_noise(float(f"{epsilon:.4g}"), float(f"{square:.3g}"))

    def precisions(
        self, shares: dict[Modes, float], reach: float, square: float = TYPICAL_SQUARE
    ) -> dict[Modes, float]:
        """Return the precisions that shares of the budget buy."""
        noises = {
            modes: self.noise_of_values(share, square) if modes == self.layout.values else self.noise_of(share)
            for modes, share in shares.items()
        }
        return {modes: 1.0 / (noise * reach**2) for modes, noise in noises.items()}

    @property
    def reach(self) -> float:
        """How far residuals are taken to be clipped before anything is measured of them."""
        usual = min(_REACH * math.sqrt(self.residuals.variance), _CLIPPED * self.residuals.usual_reach)
        return max(usual, self.residuals.least_reach)

    def side_share(self, usual: float, few: float, most: float) -> float:
        """Return the share of a small statistic: more where entries are few."""
        return side_share(self.noise, self.n, pure=self.pure, usual=usual, few=few, most=most)

    # What is expected

    def believe_first(self) -> Belief:
        """Return what is expected before anything is known but the variance."""
        variance = self.residuals.variance
        usual = _FIRST if len(self.shape) > 2 else _FIRST_OF_MATRIX
        if self.residuals.by_chance:  # most of the variance is that of chance
            share = min(_SIGNAL_OF_CHANCES * variance**0.5 / self.data.width, 1.0)
            usual = {name: share * part for name, part in usual.items()}
        effects: dict[Modes, float] = {modes: usual[ONE_WAY] * variance / len(self.ones) for modes in self.ones}
        pairs = [modes for modes in self.cells if len(modes) == 2]
        effects |= {modes: usual[TWO_WAY] * variance / len(pairs) for modes in pairs}
        effects[self.layout.values] = usual[VALUES] * variance
        return Belief(effects=effects, rest=variance - sum(effects.values()))

    def believe_at_first(self) -> list[Belief]:
        """Return what is usual, and a tensor whose signal is in components alone."""
        usual = self.believe_first()
        signal = usual.variance - usual.rest
        nothing = dict.fromkeys(self.cells, 0.0)
        alone = Belief(effects=nothing | {self.layout.values: signal}, rest=usual.rest, weight=_COMPONENTS_ALONE)
        return [usual, alone]

    def believe_components(
        self,
        variance: float,
        effects: dict[Modes, float],
        share: float = _SECOND_VALUES,
        ones: dict[Modes, float] | None = None,
    ) -> Belief:
        """Return a belief in effects, with a share of what they leave for components; beside it one-way effects."""
        left = variance - sum(effects.values())
        effects = (ones or {}) | effects | {self.layout.values: share * left}
        return Belief(effects=effects, rest=(1 - share) * left, lifted=self.lifted)

    def believe_later(self, pairs: Mapping[Modes, float]) -> list[Belief]:
        """Return what may be expected once one-way effects are known, by a noisy number for every pair of modes.

        These numbers also rise with components, so a second belief takes half of them for that.
        """
        variance, ones = self.beyond_ones, self.believe_ones()
        if not self.twos:
            share = _SECOND_VALUES if len(self.shape) > 2 else _SECOND_OF_MATRIX
            return [self.believe_components(variance, {}, share, ones)]
        effects = dict(pairs)
        total = sum(effects.values())
        if total > _MOST_EFFECTS * variance:
            effects = {modes: effect * _MOST_EFFECTS * variance / total for modes, effect in effects.items()}
        halves = {modes: 0.5 * effect for modes, effect in effects.items()}
        return [
            replace(self.believe_components(variance, effects, _SECOND_VALUES, ones), weight=_ALONE),
            replace(self.believe_components(variance, halves, _THIRD_VALUES, ones), weight=1.0 - _ALONE),
        ]

    @property
    def beyond_ones(self) -> float:
        """The variance of the residuals that is not unknown of one-way effects."""
        variance = self.residuals.variance
        return variance - min(self.lifted * sum(self.believe_ones().values()), _MOST_UNKNOWN * variance)

    @property
    def unsure(self) -> list[Modes]:
        """The one-way tables that may be measured again: where effects multiply, what they leave open counts more."""
        return self.ones if self.lifted > _MULTIPLY else []

    def believe_ones(self) -> dict[Modes, float]:
        """Return what is still unknown of biases: their variance, given one-way tables."""
        priors = self.effects.priors or [0.0] * len(self.shape)
        rest, most, unknown = self.effects.rest, self.residuals.variance, {}
        for modes in self.unsure:
            counts = self.tables[modes].cells.counts
            counts = counts[counts > 0]
            seen = counts**2 / (self.tables[modes].noise + counts * rest)
            unknown[modes] = float(counts @ (1.0 / (seen + 1.0 / max(min(priors[modes[0]], most), 1e-300)))) / self.n
        share = _MOST_UNKNOWN * most / max(self.lifted * sum(unknown.values()), 1e-300)
        return {modes: min(share, 1.0) * variance for modes, variance in unknown.items()}

    def expect_pair(self) -> tuple[float, float]:
        """Return the variance that a two-way effect is expected to have before it is measured, and by how much it may
        differ."""
        chance = _TWO_WAY_OF_CHANCES if self.residuals.by_chance else 1.0
        usual = chance * _SECOND_TWO_WAY * self.beyond_ones / max(len(self.twos), 1)
        return usual, max(usual, chance * _PAIRS_DIFFER * self.beyond_ones)

    # How to split

    def share_one_way(self, shape_share: float, belief: Belief) -> tuple[dict[Modes, float], bool]:
        """Return the shares of one-way tables, and whether to go on after them.

        Values tell of one-way effects too: if most is for values, only as much is spent at first as brings the most in
        the end. Two-way tables and products are built on one-way effects, which have to be clear for them.
        """
        reach = self.reach
        alone = self.split_ones(self.left - PRODUCT, belief, reach)
        later = [*self.twos, *([self.layout.values] if VALUES in self.allowed else [])]
        if not later:
            return alone, False
        budget = self.left - 2 * shape_share - self.pairs_share - 2 * PRODUCT
        best, first = self.worth * self.improve(self.precisions(alone, reach), [belief]), alone
        clear = self.share_for_clear_ones(reach) / budget
        for part in sorted({*_PARTS_FOR_ONES, clear}):
            if part > _MOST_FOR_ONES:
                continue
            shares = self.split_ones(part * budget, belief, reach)
            known = self.precisions(shares, reach)
            left = max(1.0 - self.layout.explain(known, belief) / belief.variance, _LEAST_LEFT)
            shorter = reach * left**0.5
            others = self.split(later, (1.0 - part) * budget, [belief], shorter, known)
            gain = self.improve(self.add(known, self.precisions(others, shorter)), [belief])
            on_values = others.get(self.layout.values, 0.0) > 0.5 * (1.0 - part) * budget
            if gain > best and (on_values or part >= clear):
                best, first = gain, shares
        return first, first is not alone

    def share_for_clear_ones(self, reach: float) -> float:
        """Return the share with which the noise of one-way means is a small share of the variance."""
        noise = _NOISE_OF_ONE_WAY * self.residuals.variance
        shares = [
            (self.noise * (reach / self.layout.count(modes)) ** 2 / noise) ** (1.0 / self.power) for modes in self.ones
        ]
        return float(sum(shares))

    def split_ones(self, budget: float, belief: Belief, reach: float) -> dict[Modes, float]:
        """Split a budget over the one-way tables."""
        ones = {modes: belief.effects[modes] for modes in self.ones}
        alone = Belief(effects=ones, rest=belief.variance - sum(ones.values()))

        def gain(shares: Array) -> float:
            bought = dict(zip(self.ones, budget * shares, strict=True))
            return self.layout.explain(self.precisions(bought, reach), alone)

        _, shares = split_best(gain, [np.ones(len(self.ones))], least=_EVEN)
        return dict(zip(self.ones, (float(budget * share) for share in shares), strict=True))

    def split(
        self,
        options: Sequence[Modes],
        budget: float,
        beliefs: Sequence[Belief],
        reach: float,
        known: dict[Modes, float],
    ) -> dict[Modes, float]:
        """Split a budget over tables and values, so that the error is small under all beliefs."""

        def gain(shares: Array) -> float:
            precisions = dict(known)
            for modes, more in self.precisions(dict(zip(options, budget * shares, strict=True)), reach).items():
                precisions[modes] = precisions.get(modes, 0.0) + more
            return self.improve(precisions, beliefs)

        _, shares = split_best(gain, self.starts(options))
        return dict(zip(options, (float(budget * share) for share in shares), strict=True))

    def split_further(self, beliefs: Sequence[Belief], shape_share: float) -> tuple[dict[Modes, float], float]:
        """Split what is left over two-way tables and values, which come after them and are of what tables leave.

        What tables explain need not be covered by the noise on values, so even a small share for them may pay.
        """
        reach = self.reach
        options = [*self.unsure, *self.twos]
        if not options:
            return {}, self.left
        tables = self.split(options, self.left - PRODUCT, beliefs, reach, {})
        best = self.improve(self.precisions(tables, reach), beliefs), tables, 0.0
        if VALUES not in self.allowed:
            return tables, 0.0
        for part in _PARTS_FOR_TABLES:
            budget = self.left - (shape_share + PRODUCT) * (part > 0)
            tables = self.split(options, part * budget, beliefs, reach, {}) if part else {}
            measured = self.precisions(tables, reach)
            gain = 0.0
            for belief in beliefs:
                left = max(1.0 - self.layout.explain(measured, belief) / belief.variance, 0.0)
                values = self.precisions({self.layout.values: (1.0 - part) * budget}, reach * left**0.5)
                gain += belief.weight * self.improve(self.add(measured, values), [belief])
            if gain > best[0]:
                best = gain, tables, (1.0 - part) * budget
        return best[1], best[2]

    def add(self, known: dict[Modes, float], more: dict[Modes, float]) -> dict[Modes, float]:
        """Add up precisions."""
        return {modes: known.get(modes, 0.0) + more.get(modes, 0.0) for modes in known | more}

    def improve(
        self, precisions: dict[Modes, float], beliefs: Sequence[Belief], kept: float = 1.0, *, certain: bool = False
    ) -> float:
        """Return how far measurements bring down the error, on a logarithmic scale, on average over beliefs."""
        total = 0.0
        for belief in beliefs:
            explained = self.layout.explain(precisions, belief, kept, certain=certain)
            total -= belief.weight * float(np.log(1.0 - min(explained / belief.variance, 1.0 - 1e-12)))
        return total / sum(belief.weight for belief in beliefs)

    def starts(self, options: Sequence[Modes]) -> list[Array]:
        """Return starts for a split: all tables, all on values, half and half, and every table for itself."""
        on_values = np.array([modes == self.layout.values for modes in options])
        sizes = np.sqrt([self.n / self.layout.count(modes) for modes in options])
        tables = np.where(on_values, 0.0, sizes)
        starts = [np.where(on_values, 1.0, 1e-3)] if on_values.any() else []
        if tables.any():
            tables = tables / tables.sum()
            starts.append(tables + 1e-3)
            if on_values.any():
                starts.append(0.5 * tables + 0.5 * on_values)
            starts += [np.where(np.arange(len(options)) == k, 1.0, 0.02) for k in np.flatnonzero(~on_values)]
        return starts
