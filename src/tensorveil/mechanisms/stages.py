"""Measure in stages, coarse to fine: one-way tables, two-way tables, values; each of what the last one left.

Before every stage a noisy histogram shows how the residuals are spread, so that they are clipped as tightly as pays; and
once one-way effects are known, a noisy number per pair of modes tells how much variance a two-way table would explain.
What is measured next, and with which share of the budget, follows from what has been released so far: nothing is
assumed of a typical tensor but how variance tends to divide into effects that nobody has measured yet.

Whatever a stage decides is a function of public facts and released numbers, so the parts of the budget add up
(docs/guarantees.md#stages).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tensorveil.mechanisms.allocation import Layout, Modes, split_best
from tensorveil.mechanisms.cells import Cells, Table
from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.decoder import Effects, fit_effects, gather_values, join, level
from tensorveil.mechanisms.fitting import Perturbed, fit_values, predict_solution
from tensorveil.mechanisms.mean import private_mean
from tensorveil.mechanisms.shape import Interval, Shape, private_shape
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tradeoffs import parameters
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateValues
from tensorveil.solvers.task import Solution

ONE_WAY, TWO_WAY, VALUES = "one-way tables", "two-way tables", "values"
EVERYTHING = (ONE_WAY, TWO_WAY, VALUES)

# Shares of the budget for the mean, a histogram and the numbers by pair of modes. With few entries the first two get
# more, so that their noise stays below a share of the entries: about so many over their number, for a pure budget.
_MEAN, _SHAPE, _PAIRS = 0.02, 0.025, 0.03
_FEW_MEAN, _FEW_SHAPE, _MOST_MEAN, _MOST_SHAPE = 200.0, 300.0, 0.25, 0.12
# How variance divides into effects that were not measured yet: at first, and after one-way tables. Components are a
# share of what two-way effects leave.
_FIRST = {ONE_WAY: 0.4, TWO_WAY: 0.25, VALUES: 0.15}
_FIRST_OF_MATRIX = {ONE_WAY: 0.4, TWO_WAY: 0.0, VALUES: 0.2}
_SECOND_TWO_WAY, _SECOND_VALUES, _SECOND_OF_MATRIX = 0.4, 0.35, 0.3
# Until residuals have been looked at, they are taken to be clipped to this many spreads.
_REACH = 4.0
# One-way tables get a budget with which their noise is this share of the variance, but at least the second share.
_NOISE_OF_ONE_WAY, _LEAST_ONE_WAY = 0.03, 0.06
# Further stages must promise to explain this much more than one-way tables alone, and leave a quarter for themselves.
_WORTH, _ENOUGH = 1.02, 0.25
# One-way tables have at least this share of their budget together, evenly.
_EVEN = 0.25
# A stage that would get less than this share of what is left is left out, and tables that would get less of a stage.
_LEAST_STAGE, _LEAST_TABLE = 0.1, 0.02
# Perturbed values are as good as if their noise were this much wider: solvers do not get all out of them.
_VALUES_WIDER = 1.2
# The clipped residuals whose products tell about pairs lie within this many spreads.
_PRODUCT_REACH = 2.0
# Two-way tables have at most so many cells, and at most as many as there are entries.
_MOST_CELLS = 4_000_000
# After values were fitted, effects are fitted to them too, and components again.
_TURNS = 2


def list_tables(shape: tuple[int, ...], n_entries: int) -> tuple[Modes, ...]:
    """Return the one-way and two-way tables that may be measured."""
    order = len(shape)
    ones: list[Modes] = [(mode,) for mode in range(order)]
    if order < 3:
        return tuple(ones)
    most = min(n_entries, _MOST_CELLS)
    twos = [pair for pair in combinations(range(order), 2) if shape[pair[0]] * shape[pair[1]] <= most]
    return (*ones, *twos)


def run_stages(data: PrivateValues, form: Form, spend: Spend, allowed: Sequence[str] = EVERYTHING) -> Outcome:
    """Measure what is allowed and seems worth it, and release one model of everything.

    Guarantee: ``spend``, unit value (docs/guarantees.md#stages).
    """
    return _Run(data, form, spend, tuple(allowed)).run()


@dataclass(frozen=True, kw_only=True)
class _Beliefs:
    """What is expected of the residuals: variance by effect, and what no effect explains."""

    effects: dict[Modes, float]
    rest: float


class _Run:
    """The state of one run: what is left of the budget, what was measured, and what it says."""

    def __init__(self, data: PrivateValues, form: Form, spend: Spend, allowed: tuple[str, ...]) -> None:
        self.data, self.form, self.allowed = data, form, allowed
        self.columns, self.shape, self.n = data.columns, data.shape, data.n_entries
        self.layout = Layout(
            shape=data.shape,
            n_entries=data.n_entries,
            tables=list_tables(data.shape, data.n_entries),
            parameters=parameters(data.shape, form.ranks, form.core),
        )
        self.ones = [modes for modes in self.layout.tables if len(modes) == 1]
        self.twos = [modes for modes in self.layout.tables if len(modes) == 2] if TWO_WAY in allowed else []
        self.rest_of_budget: Spend | None = spend
        self.left = 1.0  # as a share of the whole
        self.noise, self.power = spend.noise, 2 if spend.epsilon is not None else 1
        self.pure = spend.epsilon is not None
        self.parts: list[Part] = []
        self.notes: list[str] = []
        self.tables: dict[Modes, Table] = {}
        self.effects = Effects.constant(data.shape, data.middle)

    # The budget

    def take(self, *shares: float) -> tuple[Spend, ...]:
        """Take shares of the whole budget from what is left; all that is left if that is what they come to."""
        assert self.rest_of_budget is not None
        remains = self.left - sum(shares)
        if remains > 1e-9:
            *parts, self.rest_of_budget = self.rest_of_budget.split(*shares, remains)
            self.left = remains
            return tuple(parts)
        parts = list(self.rest_of_budget.split(*shares))
        self.rest_of_budget, self.left = None, 0.0
        return tuple(parts)

    def noise_of(self, share: float) -> float:
        """Return the variance of the noise that a share of the budget buys, for a sensitivity of 1."""
        return self.noise / max(share, 1e-12) ** self.power

    def side_share(self, usual: float, few: float, most: float) -> float:
        """Return the share of a small statistic: more where entries are few."""
        needed = few / self.n * np.sqrt(self.noise / 2.0)
        if not self.pure:
            needed = needed**2
        return float(min(max(usual, needed), most))

    # The run

    def run(self) -> Outcome:
        """Measure mean, one-way tables, and what pays after them; then decode."""
        shape_share = self.side_share(_SHAPE, _FEW_SHAPE, _MOST_SHAPE)
        mean_share = self.side_share(_MEAN, _FEW_MEAN, _MOST_MEAN)
        (for_mean,) = self.take(mean_share)
        self.center = private_mean(self.data, for_mean)
        self.parts.append(for_mean.part("mean", "sum of the values"))
        self.effects = Effects.constant(self.shape, self.center)
        components = None
        if ONE_WAY in self.allowed:
            self.look(shape_share)
            further = False
            if self.prefers_mean(mean_share):
                self.measure_mean_again(mean_share)
            else:
                further = self.measure_one_way(shape_share)
        else:
            further = True
        if further:
            self.look(shape_share)
            components = self.measure_further(shape_share)
        offset = self.effects.offset
        if components is None:
            offset += level(self.effects.at(self.columns), self.center, self.data.bounds)
        self.effects.offset = offset
        solution = join(self.shape, self.form, self.effects, components)
        return Outcome(solution=solution, parts=tuple(self.parts), notes=tuple(self.notes))

    def look(self, share: float) -> None:
        """Look at the residuals: their shape, and their variance."""
        self.known = np.clip(self.effects.at(self.columns), *self.data.bounds)
        (part,) = self.take(share)
        self.residuals: Shape = private_shape(self.data, self.known, part)
        self.parts.append(part.part("shape", "histogram of the residuals"))

    def prefers_mean(self, mean_share: float) -> bool:
        """Tell whether the mean gains more from what is left than one-way tables whose effects stand out of noise."""
        variance = self.residuals.variance
        reach, beliefs, promised = _REACH * variance**0.5, self.first_beliefs(variance), 0.0
        for modes, share in self.split_ones(self.left, beliefs, reach).items():
            noise = self.noise_of(share) * (reach * self.layout.cells(modes) / self.n) ** 2
            effect = beliefs.effects[modes]
            promised += effect * effect / (effect + noise) if effect > noise else 0.0
        now, more = (self.noise_of(share) * (self.data.width / self.n) ** 2 for share in (mean_share, self.left))
        return promised < now - now * more / (now + more)

    def measure_mean_again(self, mean_share: float) -> None:
        """Spend what is left on the mean."""
        share, before = self.left, self.noise_of(mean_share)
        (part,) = self.take(share)
        again, noise = private_mean(self.data, part), self.noise_of(share)
        self.parts.append(part.part("mean again", "sum of the values"))
        self.center = (self.center * noise + again * before) / (noise + before)
        self.effects = Effects.constant(self.shape, self.center)
        self.notes.append(f"spent {share:.0%} on the mean: the budget is too small for tables")

    def measure_one_way(self, shape_share: float) -> bool:
        """Measure one-way tables; return whether to go on after them."""
        variance = self.residuals.variance
        reach = _REACH * variance**0.5
        beliefs = self.first_beliefs(variance)
        budget = self.left - 2 * shape_share - (_PAIRS if self.twos else 0.0)
        needed = sum(self.share_for(modes, _NOISE_OF_ONE_WAY * variance, reach) for modes in self.ones)
        first = self.split_ones(max(needed, _LEAST_ONE_WAY * budget), beliefs, reach) if needed < budget else {}
        alone = self.split_ones(self.left, beliefs, reach)
        shares, further = alone, False
        later = [*self.twos, *([self.layout.values] if VALUES in self.allowed else [])]
        if first and later and budget - sum(first.values()) > _ENOUGH * budget:
            known = self.precisions(first, reach)
            promised = self.layout.explain(self.precisions(alone, reach), beliefs.effects, beliefs.rest)
            more, _ = self.split(later, budget - sum(first.values()), beliefs, reach, known)
            if more > _WORTH * promised:
                shares, further = first, True
        before = variance
        self.measure_tables(shares, beliefs, ONE_WAY)
        self.tell(ONE_WAY, sum(shares.values()), before)
        return further

    def measure_further(self, shape_share: float) -> Solution | None:
        """Measure two-way tables, values, or first the one and then the other."""
        beliefs = self.later_beliefs()
        reach = _REACH * self.residuals.variance**0.5
        options = [*self.twos, *([self.layout.values] if VALUES in self.allowed else [])]
        both = bool(self.twos) and VALUES in self.allowed
        _, shares = self.split(options, self.left - shape_share * both, beliefs, reach, self.known_precisions())
        on_values = shares.pop(self.layout.values, 0.0)
        on_twos, whole = sum(shares.values()), sum(shares.values()) + on_values
        if on_twos > _LEAST_STAGE * whole:
            go_on = on_values > _LEAST_STAGE * whole
            shares = {modes: share for modes, share in shares.items() if share > _LEAST_TABLE * on_twos}
            budget = on_twos if go_on else self.left
            shares = {modes: share * budget / sum(shares.values()) for modes, share in shares.items()}
            before = self.residuals.variance
            self.measure_tables(shares, beliefs, TWO_WAY)
            self.tell(TWO_WAY, budget, before)
            if not go_on:
                return None
            self.look(shape_share)
            beliefs = _Beliefs(
                effects={self.layout.values: _SECOND_VALUES * self.residuals.variance},
                rest=(1 - _SECOND_VALUES) * self.residuals.variance,
            )
        return self.measure_values(beliefs)

    # What is expected

    def first_beliefs(self, variance: float) -> _Beliefs:
        """Return what is expected before anything is known but the variance."""
        usual = _FIRST if len(self.shape) > 2 else _FIRST_OF_MATRIX
        effects = {modes: usual[ONE_WAY] * variance / len(self.ones) for modes in self.ones}
        pairs = [modes for modes in self.layout.tables if len(modes) == 2]
        effects |= {modes: usual[TWO_WAY] * variance / len(pairs) for modes in pairs}
        effects[self.layout.values] = usual[VALUES] * variance
        return _Beliefs(effects=effects, rest=(1 - sum(usual.values())) * variance)

    def later_beliefs(self) -> _Beliefs:
        """Return what is expected once one-way effects are known, by a noisy number for every pair of modes."""
        variance = self.residuals.variance
        if not self.twos:
            share = _SECOND_VALUES if len(self.shape) > 2 else _SECOND_OF_MATRIX
            return _Beliefs(effects={self.layout.values: share * variance}, rest=(1 - share) * variance)
        limit = _PRODUCT_REACH * variance**0.5
        slope = max(self.residuals.interval(-limit, limit).slope, 0.1)
        usual = _SECOND_TWO_WAY * variance / len(self.twos)
        effects: dict[Modes, float] = {}
        residual = self.data.values.reveal() - self.known
        for modes, part in zip(self.twos, self.take(*[_PAIRS / len(self.twos)] * len(self.twos)), strict=True):
            cells = Cells.of(self.columns, self.shape, modes)
            noisy = part.pair_products(residual, limit, cells.index, cells.counts.astype(np.int64))
            self.parts.append(part.part(f"pairs of modes {modes[0]} and {modes[1]}", "products of pairs of residuals"))
            together = max(float(cells.counts[cells.counts > 1].sum()), 1.0) * slope**2
            found, noise = float(noisy.values[0]) / together, noisy.variance / together**2
            weight = usual**2 / (usual**2 + noise)
            effects[modes] = float(np.clip(usual + weight * (found - usual), 0.01 * usual, 0.9 * variance))
        total = sum(effects.values())
        if total > 0.85 * variance:
            effects = {modes: effect * 0.85 * variance / total for modes, effect in effects.items()}
            total = 0.85 * variance
        effects[self.layout.values] = _SECOND_VALUES * (variance - total)
        return _Beliefs(effects=effects, rest=(1 - _SECOND_VALUES) * (variance - total))

    def known_precisions(self) -> dict[Modes, float]:
        """Return the precisions of what was measured."""
        return {modes: float(1.0 / np.max(table.noise)) for modes, table in self.tables.items()}

    def precisions(self, shares: dict[Modes, float], reach: float) -> dict[Modes, float]:
        """Return the precisions that shares of the budget buy."""
        return {
            modes: 1.0 / (self.noise_of(share) * (reach * (_VALUES_WIDER if modes == self.layout.values else 1)) ** 2)
            for modes, share in shares.items()
        }

    # How to split

    def share_for(self, modes: Modes, noise: float, reach: float) -> float:
        """Return the share with which the means of a table's cells have this noise."""
        count = self.n / self.layout.cells(modes)
        return float((self.noise * (reach / count) ** 2 / noise) ** (1.0 / self.power))

    def split_ones(self, budget: float, beliefs: _Beliefs, reach: float) -> dict[Modes, float]:
        """Split a budget over the one-way tables."""
        ones = {modes: beliefs.effects[modes] for modes in self.ones}
        rest = beliefs.rest + sum(beliefs.effects.values()) - sum(ones.values())

        def gain(shares: Array) -> float:
            bought = dict(zip(self.ones, budget * shares, strict=True))
            return self.layout.explain(self.precisions(bought, reach), ones, rest)

        _, shares = split_best(gain, [np.ones(len(self.ones))], least=_EVEN)
        return dict(zip(self.ones, (float(budget * share) for share in shares), strict=True))

    def split(
        self, options: Sequence[Modes], budget: float, beliefs: _Beliefs, reach: float, known: dict[Modes, float]
    ) -> tuple[float, dict[Modes, float]]:
        """Split a budget over tables and values; return also what they would explain, with what is known."""

        def gain(shares: Array) -> float:
            precisions = dict(known)
            for modes, more in self.precisions(dict(zip(options, budget * shares, strict=True)), reach).items():
                precisions[modes] = precisions.get(modes, 0.0) + more
            return self.layout.explain(precisions, beliefs.effects, beliefs.rest)

        value, shares = split_best(gain, self.starts(options))
        return value, dict(zip(options, (float(budget * share) for share in shares), strict=True))

    def starts(self, options: Sequence[Modes]) -> list[Array]:
        """Return starts for a split: all tables, all on values, half and half, and every table for itself."""
        on_values = np.array([modes == self.layout.values for modes in options])
        sizes = np.sqrt([self.layout.cells(modes) for modes in options])
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

    def choose_interval(self, shares: dict[Modes, float], beliefs: _Beliefs) -> Interval:
        """Choose where to clip residuals whose sums or values get these shares."""
        known = self.known_precisions()

        def gain(reach: float, kept: float) -> float:
            precisions = dict(known)
            for modes, share in shares.items():
                precisions[modes] = precisions.get(modes, 0.0) + 1.0 / (self.noise_of(share) * reach**2)
            return self.layout.explain(precisions, beliefs.effects, beliefs.rest, kept)

        return self.residuals.best_interval(gain)

    def measure_tables(self, shares: dict[Modes, float], beliefs: _Beliefs, name: str) -> None:
        """Measure tables of the clipped residuals, and fit all effects to all tables."""
        interval = self.choose_interval(shares, beliefs)
        clipped = interval.clip(self.data.values.reveal() - self.known)
        noisy = []
        for modes, part in zip(shares, self.take(*shares.values()), strict=True):
            cells = Cells.of(self.columns, self.shape, modes)
            sums = part.sums(clipped, interval.low, interval.high, cells.index, cells.size)
            among = " and ".join(map(str, modes))
            self.parts.append(part.part(f"sums of mode{'s' * (len(modes) > 1)} {among}", f"clipped residuals, {name}"))
            noisy.append((cells, sums))
        # The mean of clipped residuals is known from all sums; that of unclipped ones from the private mean.
        weights = np.array([1.0 / (cells.size * sums.variance) for cells, sums in noisy])
        mean = float(weights @ [sums.values.sum() / self.n for _, sums in noisy] / weights.sum())
        missing = self.center - float(np.mean(self.known))
        for cells, sums in noisy:
            whole = (sums.values - cells.counts * mean) / interval.slope + cells.counts * missing
            self.tables[cells.modes] = Table(
                cells=cells, sums=whole + cells.sum(self.known), noise=sums.variance / interval.slope**2
            )
        self.effects = fit_effects(
            self.columns, list(self.tables.values()), self.effects, self.residuals.variance, max(self.form.ranks),
            center=self.known + missing,
        )  # fmt: skip
        self.effects.offset += level(self.effects.at(self.columns), self.center, self.data.bounds)

    def measure_values(self, beliefs: _Beliefs) -> Solution:
        """Perturb every clipped residual, and fit effects and components to everything."""
        interval = self.choose_interval({self.layout.values: self.left}, beliefs)
        share = self.left
        (part,) = self.take(self.left)
        clipped = interval.clip(self.data.values.reveal() - self.known)
        noisy = part.values(clipped, (interval.low, interval.high))
        self.parts.append(part.part("values", "every residual, clipped and perturbed"))
        missing = self.center - float(np.mean(self.known))
        values = (noisy.values - np.mean(noisy.values)) / interval.slope + missing + self.known
        noise = noisy.variance / interval.slope**2
        perturbed = Perturbed(columns=self.columns, shape=self.shape, noise=noise, laplace=self.pure)
        before, base = self.residuals.variance, self.known
        for turn in range(_TURNS):
            solution = fit_values(perturbed, values - base, self.form, again=turn > 0)
            found = predict_solution(solution, self.columns, self.form.threads)
            if turn + 1 < _TURNS:
                rest = max(float(np.mean((values - base - found) ** 2)) - noise, 0.05 * before)
                tables = [table.less(found) for table in self.tables.values()]
                wanted = self.twos or self.ones
                tables += gather_values(self.columns, self.shape, values - found, noise, wanted)
                self.effects = fit_effects(self.columns, tables, self.effects, rest, max(self.form.ranks))
                base = self.effects.at(self.columns)
        raw = self.effects.at(self.columns) + found
        self.effects.offset += level(raw, self.center, self.data.bounds)
        explained = float(np.var(found)) / max(before, 1e-300)
        self.notes.append(
            f"spent {share:.0%} on perturbed values: components explain about {min(explained, 1.0):.0%} of what was left"
        )
        return solution

    def tell(self, name: str, share: float, before: float) -> None:
        """Note what a stage was for."""
        explained = 1.0 - self.effects.rest / max(before, 1e-300)
        of = "the variance" if name == ONE_WAY else "what was left"
        self.notes.append(f"spent {share:.0%} on {name}: they explain about {max(explained, 0.0):.0%} of {of}")
