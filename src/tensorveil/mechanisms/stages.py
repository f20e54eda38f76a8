"""Measure in stages, coarse to fine: one-way tables, two-way tables, values; each of what the last one left.

Before every stage a noisy histogram shows how the residuals are spread, so that they are clipped as tightly as pays;
and once one-way effects are known, a noisy number per pair of modes tells how much variance a two-way table would
explain. What is measured next, and with which share of the budget, follows from what has been released so far: nothing
is assumed of a typical tensor but how variance tends to divide into effects that nobody has measured yet.

Whatever a stage decides is a function of public facts and released numbers, so the parts of the budget add up
(docs/guarantees.md#stages).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from tensorveil.mechanisms.allocation import Belief, Crowd, Layout, Modes, split_best
from tensorveil.mechanisms.cells import Cells, Table
from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.decoder import Effects, fit_effects, gather_values, join, level, scale_solution
from tensorveil.mechanisms.errors import errors_share, private_errors
from tensorveil.mechanisms.fitting import Perturbed, fit_values, predict_solution
from tensorveil.mechanisms.leverage import find_leverages, inflate
from tensorveil.mechanisms.mean import private_mean, run_mean
from tensorveil.mechanisms.products import find_products
from tensorveil.mechanisms.remainders import Remainder, find_remainder
from tensorveil.mechanisms.shape import Interval, Shape, private_shape
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tradeoffs import TYPICAL_SQUARE, parameters, side_share
from tensorveil.noise.windows import window_noise
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateValues
from tensorveil.solvers.bayes import Scatter
from tensorveil.solvers.task import Solution

ONE_WAY, TWO_WAY, VALUES = "one-way tables", "two-way tables", "values"
EVERYTHING = (ONE_WAY, TWO_WAY, VALUES)

# Shares of the budget for the mean, a histogram and the numbers by pair of modes. With few entries the first two get
# more, so that their noise stays below a share of the entries: about so many over their number, for a pure budget.
_MEAN, _SHAPE, _PAIR, _MOST_PAIRS = 0.02, 0.025, 0.01, 0.06
_FEW_MEAN, _FEW_SHAPE, _MOST_MEAN, _MOST_SHAPE = 70.0, 300.0, 0.1, 0.12
# With fewer entries than this, for a pure epsilon of 1, there is nothing to see but the mean.
_TOO_FEW = 1000.0
# How variance divides into effects that were not measured yet: at first, and after one-way tables. Components are a
# share of what two-way effects leave.
_FIRST = {ONE_WAY: 0.4, TWO_WAY: 0.25, VALUES: 0.15}
_FIRST_OF_MATRIX = {ONE_WAY: 0.4, TWO_WAY: 0.0, VALUES: 0.2}
_SECOND_TWO_WAY, _SECOND_VALUES, _SECOND_OF_MATRIX, _THIRD_VALUES = 0.4, 0.35, 0.3, 0.6
# How likely it is that numbers by pair of modes tell of two-way effects alone, and not of components for the half.
_ALONE = 0.7
# At the end the model is scaled: this share of the budget, predictions within so many spreads, and by how much models
# have been seen to be off.
_SCALE, _WEIGHT, _SCALES_DIFFER = 0.015, 3.0, 0.15
# One number tells how much of what products say is true: this share of the budget, if its noise would be below the
# second number; before, it is taken to be about so far from 0; below the last, products are left out.
_PRODUCT, _PRODUCT_NOISE, _PRODUCTS_DIFFER, _LEAST_PRODUCT = 0.015, 0.4, 0.7, 0.15
# Products that vary by less than this share of the residuals' variance are not worth asking for.
_SMALL_PRODUCT = 0.003
# A model that varies by less than this share of the bounds' width is a constant.
_FLAT = 1e-6
# Two-way effects of a tensor differ by about this share of the variance.
_PAIRS_DIFFER = 0.12
# All two-way effects together have at most this share of the variance.
_MOST_EFFECTS = 0.85
# Until residuals have been looked at, they are taken to be clipped to this many spreads.
_REACH = 4.0
# One-way tables get a budget with which their noise is this share of the variance, but at least the second share.
_NOISE_OF_ONE_WAY, _LEAST_ONE_WAY = 0.03, 0.03
# Further stages must promise to explain this share of what one-way tables alone would (what those leave can be seen
# before anything else is spent), and leave a quarter for themselves. Values at once must promise so much more.
_WORTH, _ENOUGH, _AT_ONCE = 0.97, 0.25, 0.05
# Parts of a budget that are tried for two-way tables if values come after them.
_PARTS_FOR_TABLES = (0.0, 0.03, 0.06, 0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 0.85)
# One-way tables have at least this share of their budget together, evenly.
_EVEN = 0.25
# A stage that would get less than this share of what is left is left out, and tables that would get less of a stage.
_LEAST_STAGE, _LEAST_TABLE = 0.02, 0.02
# The clipped residuals whose products tell about pairs lie within this many spreads.
_PRODUCT_REACH = 2.0
# Two-way tables have at most so many cells, and at most as many as there are entries.
_MOST_CELLS = 4_000_000
# What components leave of the values is taken to be at least this share of what there was before.
_LEAST_LEFT = 0.05


def list_tables(shape: tuple[int, ...], n_entries: int) -> tuple[Modes, ...]:
    """Return the one-way and two-way tables that may be measured."""
    order = len(shape)
    ones: list[Modes] = [(mode,) for mode in range(order)]
    if order < 3:
        return tuple(ones)
    most = min(n_entries, _MOST_CELLS)
    twos = [pair for pair in combinations(range(order), 2) if shape[pair[0]] * shape[pair[1]] <= most]
    return (*ones, *twos)


def run_stages(
    data: PrivateValues, form: Form, spend: Spend, allowed: Sequence[str] = EVERYTHING, *, measure_errors: bool = True
) -> Outcome:
    """Measure what is allowed and seems worth it, and release one model of everything, with its errors.

    ``measure_errors`` is False for a model that is only a start: its errors would tell nothing of what becomes of it.

    Guarantee: ``spend``, unit value (docs/guarantees.md#stages).
    """
    if ONE_WAY in allowed and data.n_entries < _TOO_FEW * np.sqrt(spend.noise / 2.0):
        outcome = run_mean(data, form, spend)
        return replace(outcome, notes=("spent all on the mean: entries are too few for more with this budget",))
    return _Run(data, form, spend, tuple(allowed), errors_share(spend, data.n_entries) * measure_errors).run()


class _Run:
    """The state of one run: what is left of the budget, what was measured, and what it says."""

    def __init__(
        self, data: PrivateValues, form: Form, spend: Spend, allowed: tuple[str, ...], for_errors: float
    ) -> None:
        self.data, self.form, self.allowed = data, form, allowed
        self.rank = max(form.ranks)  # of two-way effects
        self.columns, self.shape, self.n = data.columns, data.shape, data.n_entries
        self.cells = {modes: Cells.of(self.columns, self.shape, modes) for modes in list_tables(self.shape, self.n)}
        self.layout = Layout(
            shape=self.shape,
            n_entries=self.n,
            crowds={modes: Crowd.of(cells.counts) for modes, cells in self.cells.items()},
            parameters=parameters(data.shape, form.ranks, form.core),
        )
        self.ones: list[Modes] = [modes for modes in self.cells if len(modes) == 1]
        self.twos: list[Modes] = [modes for modes in self.cells if len(modes) == 2] if TWO_WAY in allowed else []
        self.pairs_share = min(_PAIR * len(self.twos), _MOST_PAIRS)
        self.rest_of_budget = spend
        # As a share of the whole, less what is kept for the end.
        self.left = 1.0 - _SCALE
        # What errors are measured with is put aside first, so that no stage spends it.
        self.for_errors = self.take(for_errors)[0] if for_errors > 0 else None
        self.noise, self.power = spend.noise, 2 if spend.epsilon is not None else 1
        self.pure = spend.epsilon is not None
        self.parts: list[Part] = []
        self.notes: list[str] = []
        self.tables: dict[Modes, Table] = {}
        self.effects = Effects.constant(data.shape, data.middle)
        self.two_valued = False
        self.perturbed: tuple[Array, float] | None = None  # values and the variance of their noise
        self.remainder: Remainder | None = None

    # The budget

    def take(self, *shares: float) -> tuple[Spend, ...]:
        """Take shares of the whole budget from what is left."""
        self.left = max(self.left - sum(shares), 0.0)
        *parts, self.rest_of_budget = self.rest_of_budget.split(*shares, self.left + _SCALE)
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

    @property
    def reach(self) -> float:
        """How far residuals are taken to be clipped before anything is measured of them."""
        return max(_REACH * math.sqrt(self.residuals.variance), self.residuals.least_reach)

    def side_share(self, usual: float, few: float, most: float) -> float:
        """Return the share of a small statistic: more where entries are few."""
        return side_share(self.noise, self.n, pure=self.pure, usual=usual, few=few, most=most)

    # The run

    def run(self) -> Outcome:
        """Measure mean, one-way tables, and what pays after them; then decode."""
        shape_share = self.side_share(_SHAPE, _FEW_SHAPE, _MOST_SHAPE)
        (for_mean,) = self.take(self.side_share(_MEAN, _FEW_MEAN, _MOST_MEAN))
        self.center = private_mean(self.data, for_mean)
        self.doubt = for_mean.noise * (self.data.width / self.n) ** 2  # the variance of its noise
        self.parts.append(for_mean.part("mean", "sum of the values"))
        self.effects = Effects.constant(self.shape, self.center)
        components = None
        self.look(shape_share)
        if ONE_WAY not in self.allowed or (VALUES in self.allowed and self.prefers_values(shape_share)):
            components = self.measure_values(self.believe_at_first())
        elif self.measure_one_way(shape_share):
            self.look(shape_share)
            components = self.measure_further(shape_share)
        solution = self.calibrate(join(self.shape, self.form, self.effects, components))
        errors = None
        if self.for_errors is not None:
            inflation = self.inflate_errors(solution)
            unseen = None if self.remainder is None else self.remainder.unseen
            errors, part = private_errors(
                self.data, solution, self.form.threads, self.for_errors, inflation, beside=unseen
            )
            self.parts.append(part)
        return Outcome(solution=solution, parts=tuple(self.parts), notes=tuple(self.notes), errors=errors)

    def calibrate(self, solution: Solution) -> Solution:
        """Stretch or shrink the model around the mean as the values suggest; then set its mean to the private one.

        What clipping takes off effects is put back by a slope that is known only about. A model that explains nothing
        would be shrunk to the constant. An entry's own perturbed value has no say in what it is compared with.
        """
        raw = predict_solution(solution, self.columns, self.form.threads)
        if self.remainder is not None:
            raw += self.remainder.unseen
        effect = raw - float(np.mean(raw))
        spread = float(np.sqrt(np.mean(effect**2)))
        if spread < _FLAT * self.data.width:
            return replace(solution, offset=solution.offset + level(raw, self.center, self.data.bounds))
        part = self.rest_of_budget
        weights = np.clip(effect / spread, -_WEIGHT, _WEIGHT)
        residual = self.data.values.reveal() - np.clip(raw, *self.data.bounds)
        everything = np.zeros(self.n, dtype=np.int64)
        noisy = part.linear(weights[:, None], residual, self.data.width, everything, 1)
        self.parts.append(part.part("scale", "sum of residuals times predictions"))
        seen = float(weights @ effect)
        found, noise = float(noisy.values[0, 0]) / seen, noisy.variance / seen**2
        stretch = 1.0 + float(np.clip(found * _SCALES_DIFFER**2 / (_SCALES_DIFFER**2 + noise), -1.0, 1.0))
        middle = float(np.mean(raw))
        solution = scale_solution(solution, middle, stretch)
        if self.remainder is not None:
            self.remainder = self.remainder.times(stretch)
        moved = level(middle + stretch * effect, self.center, self.data.bounds)
        return replace(solution, offset=solution.offset + moved)

    def inflate_errors(self, solution: Solution) -> Array | None:
        """Return what residuals must be multiplied by, if the model was fitted to the values themselves."""
        if self.perturbed is None:
            return None
        values, noise = self.perturbed
        left = values - predict_solution(solution, self.columns, self.form.threads)
        if self.remainder is not None:
            left -= self.remainder.unseen
        least = max(_LEAST_LEFT * self.residuals.variance, (_FLAT * self.data.width) ** 2)
        rest = max(float(np.mean(left**2)) - noise, least)
        leverages = find_leverages(self.columns, solution, noise + rest)
        return inflate(leverages, noise, max(float(np.mean((left / (1.0 - leverages)) ** 2)) - noise, rest))

    def look(self, share: float) -> None:
        """Look at the residuals: their shape, and their variance."""
        self.known = np.clip(self.effects.at(self.columns), *self.data.bounds)
        (part,) = self.take(share)
        self.residuals: Shape = private_shape(self.data, self.known, part, two_valued=self.two_valued)
        self.two_valued = self.residuals.two_valued
        self.parts.append(part.part("shape", "histogram of the residuals"))

    def prefers_values(self, shape_share: float) -> bool:
        """Tell whether to perturb all values at once: tables first would cost more than they help.

        They help because what they explain need not be covered by the noise on values.
        """
        reach = self.reach
        budget = self.left - shape_share - self.pairs_share
        needed = sum(self.share_for(modes, _NOISE_OF_ONE_WAY * self.residuals.variance, reach) for modes in self.ones)
        needed = max(needed, _LEAST_ONE_WAY * budget)
        if needed > (1 - _ENOUGH) * budget:
            return False
        at_once, in_stages = 0.0, 0.0
        for belief in self.believe_at_first():
            at_once += self.improve(self.precisions({self.layout.values: self.left}, reach), [belief])
            known = self.precisions(self.split_ones(needed, belief, reach), reach)
            shorter = reach * max(1.0 - self.layout.explain(known, belief) / belief.variance, 0.0) ** 0.5
            options = [*self.twos, self.layout.values]
            more = self.split(options, budget - needed, [belief], shorter, known)
            alone = self.precisions(self.split_ones(self.left, belief, reach), reach)
            stages = known | self.precisions(more, shorter)
            in_stages += max(self.improve(stages, [belief]), self.improve(alone, [belief]))
        return at_once > in_stages + _AT_ONCE

    def measure_one_way(self, shape_share: float) -> bool:
        """Measure one-way tables; return whether to go on after them."""
        variance = self.residuals.variance
        reach = self.reach
        belief = self.believe_first()
        budget = self.left - 2 * shape_share - self.pairs_share - 2 * _PRODUCT
        needed = sum(self.share_for(modes, _NOISE_OF_ONE_WAY * variance, reach) for modes in self.ones)
        first = self.split_ones(max(needed, _LEAST_ONE_WAY * budget), belief, reach) if needed < budget else {}
        alone = self.split_ones(self.left - _PRODUCT, belief, reach)
        shares, further = alone, False
        later = [*self.twos, *([self.layout.values] if VALUES in self.allowed else [])]
        if first and later and budget - sum(first.values()) > _ENOUGH * budget:
            known = self.precisions(first, reach)
            promised = self.layout.explain(self.precisions(alone, reach), belief)
            more = self.split(later, budget - sum(first.values()), [belief], reach, known)
            bought = known | self.precisions(more, reach)
            if self.layout.explain(bought, belief) > _WORTH * promised:
                shares, further = first, True
        self.measure_tables(shares, [belief], ONE_WAY)
        self.tell(ONE_WAY, sum(shares.values()), variance)
        self.multiply_effects()
        return further

    def measure_further(self, shape_share: float) -> Solution | None:
        """Measure two-way tables, values, or first the one and then the other."""
        beliefs = self.believe_later()
        shares, on_values = self.split_further(beliefs, shape_share)
        on_twos, whole = sum(shares.values()), sum(shares.values()) + on_values
        if on_twos > _LEAST_STAGE * whole:
            go_on = on_values > _LEAST_STAGE * whole
            shares = {modes: share for modes, share in shares.items() if share > _LEAST_TABLE * on_twos}
            budget = on_twos if go_on else self.left - _PRODUCT
            shares = {modes: share * budget / sum(shares.values()) for modes, share in shares.items()}
            before = self.residuals.variance
            self.measure_tables(shares, beliefs, TWO_WAY)
            self.tell(TWO_WAY, budget, before)
            self.multiply_effects()
            if not go_on:
                return None
            self.look(shape_share)
            beliefs = [self.believe_components(self.residuals.variance, {}, _SECOND_VALUES)]
        return self.measure_values(beliefs)

    # What is expected

    def believe_first(self) -> Belief:
        """Return what is expected before anything is known but the variance."""
        variance = self.residuals.variance
        usual = _FIRST if len(self.shape) > 2 else _FIRST_OF_MATRIX
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
        return [usual, Belief(effects=nothing | {self.layout.values: signal}, rest=usual.rest)]

    def believe_components(self, variance: float, effects: dict[Modes, float], share: float) -> Belief:
        """Return a belief in effects, with a share of what they leave for components."""
        left = variance - sum(effects.values())
        return Belief(effects=effects | {self.layout.values: share * left}, rest=(1 - share) * left)

    def believe_later(self) -> list[Belief]:
        """Return what may be expected once one-way effects are known, by a noisy number for every pair of modes.

        These numbers also rise with components, so a second belief takes half of them for that.
        """
        variance = self.residuals.variance
        if not self.twos:
            share = _SECOND_VALUES if len(self.shape) > 2 else _SECOND_OF_MATRIX
            return [self.believe_components(variance, {}, share)]
        effects = self.measure_pairs(variance)
        total = sum(effects.values())
        if total > _MOST_EFFECTS * variance:
            effects = {modes: effect * _MOST_EFFECTS * variance / total for modes, effect in effects.items()}
        halves = {modes: 0.5 * effect for modes, effect in effects.items()}
        return [
            replace(self.believe_components(variance, effects, _SECOND_VALUES), weight=_ALONE),
            replace(self.believe_components(variance, halves, _THIRD_VALUES), weight=1.0 - _ALONE),
        ]

    def measure_pairs(self, variance: float) -> dict[Modes, float]:
        """Measure how much variance each two-way table would explain, as far as noise lets it be seen."""
        limit = _PRODUCT_REACH * variance**0.5
        slope = max(self.residuals.interval(-limit, limit).slope, 0.1)
        usual = _SECOND_TWO_WAY * variance / len(self.twos)
        effects: dict[Modes, float] = {}
        residual = self.data.values.reveal() - self.known
        for modes, part in zip(
            self.twos, self.take(*[self.pairs_share / len(self.twos)] * len(self.twos)), strict=True
        ):
            cells = self.cells[modes]
            noisy = part.pair_products(residual, limit, cells.index, cells.counts.astype(np.int64))
            self.parts.append(part.part(f"pairs of modes {modes[0]} and {modes[1]}", "products of pairs of residuals"))
            together = max(float(cells.counts[cells.counts > 1].sum()), 1.0) * slope**2
            found, noise = float(noisy.values[0]) / together, noisy.variance / together**2
            spread = max(usual, _PAIRS_DIFFER * variance) ** 2
            weight = spread / (spread + noise)
            effects[modes] = float(np.clip(usual + weight * (found - usual), 0.01 * usual, 0.9 * variance))
        return effects

    def known_precisions(self) -> dict[Modes, float]:
        """Return the precisions of what was measured."""
        return {modes: float(1.0 / np.max(table.noise)) for modes, table in self.tables.items()}

    def precisions(
        self, shares: dict[Modes, float], reach: float, square: float = TYPICAL_SQUARE
    ) -> dict[Modes, float]:
        """Return the precisions that shares of the budget buy."""
        noises = {
            modes: self.noise_of_values(share, square) if modes == self.layout.values else self.noise_of(share)
            for modes, share in shares.items()
        }
        return {modes: 1.0 / (noise * reach**2) for modes, noise in noises.items()}

    # How to split

    def share_for(self, modes: Modes, noise: float, reach: float) -> float:
        """Return the share with which the means of a table's cells have this noise."""
        count = self.layout.count(modes)
        return float((self.noise * (reach / count) ** 2 / noise) ** (1.0 / self.power))

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
        reach, known = self.reach, self.known_precisions()
        if not self.twos:
            return {}, self.left
        tables = self.split(self.twos, self.left - _PRODUCT, beliefs, reach, known)
        best = self.improve(self.add(known, self.precisions(tables, reach)), beliefs), tables, 0.0
        if VALUES not in self.allowed:
            return tables, 0.0
        for part in _PARTS_FOR_TABLES:
            budget = self.left - (shape_share + _PRODUCT) * (part > 0)
            tables = self.split(self.twos, part * budget, beliefs, reach, known) if part else {}
            measured = self.add(known, self.precisions(tables, reach))
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

    # Measuring

    def choose_interval(self, shares: dict[Modes, float], beliefs: Sequence[Belief]) -> Interval:
        """Choose where to clip residuals whose sums or values get these shares."""
        known = self.known_precisions()

        def gain(interval: Interval) -> float:
            bought = self.precisions(shares, interval.reach, interval.square)
            return self.improve(self.add(known, bought), beliefs, interval.kept, certain=True)

        return self.residuals.best_interval(gain)

    def measure_tables(self, shares: dict[Modes, float], beliefs: Sequence[Belief], name: str) -> None:
        """Measure tables of the clipped residuals, and fit all effects to all tables."""
        interval = self.choose_interval(shares, beliefs)
        clipped = interval.clip(self.data.values.reveal() - self.known)
        noisy = []
        for modes, part in zip(shares, self.take(*shares.values()), strict=True):
            cells = self.cells[modes]
            sums = part.sums(clipped, interval.low, interval.high, cells.index, cells.size)
            self.parts.append(part.part(_name(modes), f"clipped residuals, {name}"))
            noisy.append((cells, sums))
        # The mean of clipped residuals is known from all sums.
        weights = np.array([1.0 / (cells.size * sums.variance) for cells, sums in noisy])
        mean = float(weights @ [sums.values.sum() / self.n for _, sums in noisy] / weights.sum())
        missing = self.settle_mean(mean, 1.0 / (float(weights.sum()) * self.n**2), interval)
        for cells, sums in noisy:
            whole = (sums.values - cells.counts * mean) / interval.slope + cells.counts * missing
            self.tables[cells.modes] = Table(
                cells=cells, sums=whole + cells.sum(self.known), noise=sums.variance / interval.slope**2
            )
        self.effects = self.fit_tables(list(self.tables.values()), self.residuals.variance, self.known + missing)
        self.effects.offset += level(self.effects.at(self.columns), self.center, self.data.bounds)

    def fit_tables(self, tables: Sequence[Table], rest: float, center: Array | None = None) -> Effects:
        """Fit effects to tables, from those that there are."""
        form = self.form
        return fit_effects(
            self.columns, tables, self.effects, rest, self.rank, center, smooth=form.smooth, tell=form.tell
        )

    def multiply_effects(self) -> None:
        """Take in what effects say if modes multiply, as far as the values agree: one noisy number tells."""
        tables, before = list(self.tables.values()), self.effects
        if self.effects.products is not None:  # they were of fewer tables
            self.effects = replace(self.effects, products=None)
            self.effects = self.fit_tables(tables, self.effects.rest)
        effects, bounds = self.effects, self.data.bounds
        factors, beyond = find_products(effects, self.columns, bounds, self.form)
        beyond = beyond - float(np.mean(beyond))
        spread = float(np.sqrt(np.mean(beyond**2)))
        if spread**2 < _SMALL_PRODUCT * effects.rest:
            self.effects = before
            return
        limit = self.residuals.farthest
        weights = np.clip(beyond / spread, -_WEIGHT, _WEIGHT)
        seen = float(weights @ beyond)
        longest = float(np.max(np.abs(weights))) * 2.0 * limit
        if self.noise_of(_PRODUCT) * longest**2 > (_PRODUCT_NOISE * seen) ** 2:
            self.effects = before
            return
        (part,) = self.take(_PRODUCT)
        residual = np.clip(self.data.values.reveal() - np.clip(effects.at(self.columns), *bounds), -limit, limit)
        noisy = part.linear(weights[:, None], residual, limit, np.zeros(self.n, dtype=np.int64), 1)
        self.parts.append(part.part("products", "sum of residuals times products of effects"))
        found, noise = float(noisy.values[0, 0]) / seen, noisy.variance / seen**2
        true = float(np.clip(found * _PRODUCTS_DIFFER**2 / (_PRODUCTS_DIFFER**2 + noise), 0.0, 1.0))
        if true < _LEAST_PRODUCT:
            self.effects = before
            return
        first, *others = factors
        self.effects = replace(effects, products=(true * first, *others))
        rest = max(effects.rest - (true * spread) ** 2, _LEAST_LEFT * effects.rest)
        self.effects = self.fit_tables(tables, rest)
        self.effects.offset += level(self.effects.at(self.columns), self.center, bounds)
        self.notes.append(
            f"spent {_PRODUCT:.1%} on whether effects multiply: about {true:.0%} of what that says is true"
        )

    def settle_mean(self, clipped: float, noise: float, interval: Interval) -> float:
        """Take in what the mean of clipped residuals says about the mean; return what residuals are on average.

        What clipping took off is known from the histogram, about.
        """
        base = float(np.mean(self.known))
        found = base + (clipped - interval.shift) / interval.slope
        doubt = noise / interval.slope**2 + interval.doubt**2 + 1e-300
        self.center += (found - self.center) * self.doubt / (self.doubt + doubt)
        self.center = float(np.clip(self.center, *self.data.bounds))
        self.doubt = self.doubt * doubt / (self.doubt + doubt)
        return self.center - base

    def measure_values(self, beliefs: Sequence[Belief]) -> Solution:
        """Perturb every clipped residual, and fit effects and components to everything."""
        interval = self.choose_interval({self.layout.values: self.left}, beliefs)
        share = self.left
        (part,) = self.take(self.left)
        clipped = interval.clip(self.data.values.reveal() - self.known)
        noisy, window = part.values(clipped, (interval.low, interval.high), interval.square)
        self.parts.append(part.part("values", "every residual, clipped and perturbed"))
        mean = float(np.mean(noisy.values))
        missing = self.settle_mean(mean, noisy.variance / self.n, interval)
        values = (noisy.values - mean) / interval.slope + missing + self.known
        noise = noisy.variance / interval.slope**2
        scatter = None
        if window is not None:
            undone = (window.middle + (noisy.values - window.middle) / window.gain - noisy.values) / interval.slope
            scatter = Scatter(
                inside=window.inside, near=(window.half / interval.slope) ** 2 / 3.0, span=window.span / interval.slope,
                shift=undone, places=self.residuals.middles, masses=self.residuals.masses,
            )  # fmt: skip
        self.perturbed = values, noise
        perturbed = Perturbed(columns=self.columns, shape=self.shape, noise=noise, scatter=scatter)
        before = self.residuals.variance
        fitted = fit_values(perturbed, values - self.known, self.form, once=bool(self.tables))
        base = self.known
        if self.tables:  # components alone may describe everything better than what effects leave
            plain = Effects.constant(self.shape, self.center)
            alone = fit_values(perturbed, values - self.center, self.form, once=True)
            if alone.evidence > fitted.evidence:
                fitted, self.effects, base = alone, plain, np.full(self.n, self.center)
        solution = fitted.solution
        found = predict_solution(solution, self.columns, self.form.threads)
        # Effects are fitted to all that components leave, of tables and of values; then components again.
        rest = max(float(np.mean((values - base - found) ** 2)) - noise, _LEAST_LEFT * before)
        tables = [table.less(found) for table in self.tables.values()]
        tables += gather_values([self.cells[modes] for modes in self.twos or self.ones], values - found, noise)
        self.effects = self.fit_tables(tables, rest)
        solution = fit_values(perturbed, values - self.effects.at(self.columns), self.form, once=True).solution
        found = predict_solution(solution, self.columns, self.form.threads)
        left = values - self.effects.at(self.columns) - found
        self.remainder = find_remainder(perturbed, left, self.form.times)
        if self.remainder is not None:
            solution = replace(solution, remainder=self.remainder.table)
        explained = float(np.var(found)) / max(before, 1e-300)
        self.notes.append(
            f"spent {share:.0%} on perturbed values: components explain about {min(explained, 1.0):.0%} of the rest"
        )
        return solution

    def tell(self, name: str, share: float, before: float) -> None:
        """Note what a stage was for."""
        explained = 1.0 - self.effects.rest / max(before, 1e-300)
        of = "the variance" if name == ONE_WAY else "what was left"
        self.notes.append(f"spent {share:.0%} on {name}: they explain about {max(explained, 0.0):.0%} of {of}")


def _name(modes: Modes) -> str:
    """Name the sums of a table."""
    return f"sums of mode{'s' if len(modes) > 1 else ''} {' and '.join(map(str, modes))}"
