"""Unit "entry": counts and sums over the cells of few modes, coarse to fine, each of what the last one left.

Positions are private, so every cell of a table gets noise, whether it has entries or not, and so does how many it has.
What is measured next, and with which share of the budget, follows from the declared shape and from what has been
released, the noisy number of entries among it (docs/guarantees.md#crosstabs).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from tensorveil.mechanisms.allocation import Belief, Crowd, Layout, Modes, split_best
from tensorveil.mechanisms.crosstab_effects import CellValues, Known, components_at, predict_alone
from tensorveil.mechanisms.data import Array, Form, Outcome
from tensorveil.mechanisms.decoder import join, scale_solution
from tensorveil.mechanisms.fitting import Fitted, Perturbed, fit_values
from tensorveil.mechanisms.method import NOT_COMPARED, Method
from tensorveil.mechanisms.shape import Interval
from tensorveil.mechanisms.spend import Spend
from tensorveil.mechanisms.tallies import (
    FARTHEST,
    WEIGHT,
    number_cells,
    private_agreement,
    private_spread,
    private_tally,
    private_total,
    sum_noise,
)
from tensorveil.mechanisms.tradeoffs import parameters
from tensorveil.privacy import Part
from tensorveil.privacy.gate import PrivateEntries
from tensorveil.solvers.task import Solution

# Shares of the budget for the mean, a histogram, the number of every pair of modes (and at most for all), and the level
# of the predictions at the end.
_MEAN, _SHAPE, _PAIR, _MOST_PAIRS, _LEVEL = 0.03, 0.03, 0.015, 0.06, 0.02
# One-way tables get a budget with which their noise is this share of the variance, each at least the second share.
_NOISE_OF_ONE_WAY, _LEAST_ONE_WAY = 0.02, 0.01
# Of what is left after the first histogram, one-way tables leave at least this for others, or take all.
_ENOUGH = 0.3
# Until residuals have been looked at, they are taken to be clipped to this many spreads.
_REACH = 4.0
# Shares of the variance that effects of one mode and of two are taken to have until they are measured.
_ONE_WAY, _TWO_WAY, _OF_MATRIX, _COMPONENTS, _MORE_COMPONENTS = 0.4, 0.4, 0.3, 0.35, 0.6
# Parts of a budget that are tried for tables if the table of all modes comes after them.
DEBUG=False
_PARTS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 0.85, 1.0)
# Two noisy numbers tell how much of what products say is true: this share of the budget, if its noise would be below the
# second number; before, it is taken to be about so far from 0; below the last, products are left out.
_AGREE, _PRODUCT_NOISE, _PRODUCTS_DIFFER, _LEAST_PRODUCT = 0.015, 0.4, 0.7, 0.15
# Products are fitted at so many places, and not if they vary by less than this share of the residuals' variance.
_PLACES, _SMALL_PRODUCT = 40_000, 0.003
# The same numbers tell of components, which are taken to be true up to so much. If they vary by less than the second
# number, as a share of the bounds' width, there are none.
_COMPONENTS_DIFFER, _FLAT = 0.5, 1e-6
# Effects that are moved also move the mean: by about this share of the variance.
_DRIFT = 0.01
# The table of all modes must promise so much more than others, in logarithms of the error under all beliefs together.
_WORTH = 0.75
# Two-way effects of a tensor differ by about this share of the variance, and all together have at most the second.
_PAIRS_DIFFER, _MOST_EFFECTS = 0.12, 0.85
# The clipped residuals whose products tell about pairs lie within this many spreads.
_PRODUCT_REACH = 2.0
# Tables have at most so many cells.
_MOST_CELLS = 4_000_000
# Tables that would get less than this share of a stage are left out.
_LEAST_TABLE = 0.02


def run_crosstabs(data: PrivateEntries, form: Form, spend: Spend) -> Outcome:
    """Release an offset, biases and two-way effects of low rank, as far as each pays.

    Guarantee: ``spend``, unit entry (docs/guarantees.md#crosstabs).
    """
    return _Run(data, form, spend).run()


class _Run:
    """The state of one run: what is left of the budget, what was measured, and what it says."""

    def __init__(self, data: PrivateEntries, form: Form, spend: Spend) -> None:
        self.data, self.form, self.shape = data, form, data.shape
        self.width = data.bounds[1] - data.bounds[0]
        self.pure = spend.epsilon is not None
        self.noise, self.power = spend.noise, 2 if self.pure else 1
        self.rest_of_budget = spend
        # As a share of the whole, less what is kept for the end.
        self.left = 1.0 - _LEVEL
        self.parts: list[Part] = []
        self.notes: list[str] = []
        pairs = combinations(range(len(self.shape)), 2)
        self.everything: Modes = tuple(range(len(self.shape)))
        self.twos: list[Modes] = [two for two in pairs if self.cells_of(two) <= _MOST_CELLS]

    # The budget

    def take(self, share: float, name: str, statistic: str) -> Spend:
        """Take a share of the whole budget from what is left, to spend it on a statistic."""
        self.left = max(self.left - share, 0.0)
        part, self.rest_of_budget = self.rest_of_budget.split(share, self.left + _LEVEL)
        self.parts.append(part.part(name, statistic))
        return part

    def noise_of(self, share: float) -> float:
        """Return the variance of the noise on sums that a share of the budget buys, for residuals of width 1."""
        return sum_noise(self.noise / max(share, 1e-12) ** self.power, pure=self.pure)

    def cells_of(self, modes: Modes) -> int:
        """Return how many cells a table has."""
        return math.prod(self.shape[mode] for mode in modes)

    # The run

    def run(self) -> Outcome:
        """Measure mean, one-way tables, and what pays after them."""
        total = private_total(self.data, self.take(_MEAN, "mean", "sum and number of the entries"))
        self.n = max(total.count, 1.0)
        self.known = Known.constant(self.shape, self.data.bounds, self.n, total.mean, total.mean_noise)
        self.look()
        components = None
        if self.measure_ones():
            self.multiply_effects()
            self.look()
            components = self.measure_further()
        solution = join(self.shape, self.form, self.known.effects(self.spread.variance), components)
        solution = self.settle(solution)
        return Outcome(solution=solution, parts=tuple(self.parts), notes=tuple(self.notes))

    def residual(self) -> Array:
        """Return what is left of the private values."""
        residual: Array = self.data.values.reveal() - self.known.at(self.data.columns.reveal())
        return residual

    def look(self) -> None:
        """Look at the residuals: their shape, and their variance."""
        low, high = self.known.reach
        ends = self.data.bounds[0] - high, self.data.bounds[1] - low  # no residual is beyond
        part = self.take(_SHAPE, "shape", "histogram of the residuals")
        self.spread, _ = private_spread(self.residual(), *ends, self.width, self.n, part)

    def measure_ones(self) -> bool:
        """Measure one-way tables, the smallest first; return whether to go on after them."""
        variance = self.spread.variance
        shares = {mode: self.share_for(mode, variance) for mode in range(len(self.shape))}
        needed = sum(shares.values())
        further = needed < (1 - _ENOUGH) * self.left
        scale = 1.0 if further else self.left / needed
        for mode in sorted(shares, key=lambda mode: self.shape[mode]):
            belief = Belief(effects={(mode,): _ONE_WAY * variance / len(self.shape)}, rest=variance)
            self.measure({(mode,): shares[mode] * scale}, [belief])
        self.notes.append(f"one-way: {[(m, round(s*scale,3)) for m,s in shares.items()]}")
        return further

    def share_for(self, mode: int, variance: float) -> float:
        """Return the share with which the means of a one-way table have little noise."""
        count = self.n / self.shape[mode]
        wanted = self.noise_of(1.0) * _REACH**2 / (_NOISE_OF_ONE_WAY * count**2)
        return float(max(wanted ** (1.0 / self.power), _LEAST_ONE_WAY))

    def measure_further(self) -> Solution | None:
        """Measure one-way and two-way tables, those first that have the fewest cells; at last all cells, if it pays."""
        beliefs = self.believe()
        shares, on_cells = self.split(beliefs)
        self.notes.append(f"further: {[(p, round(s,3)) for p,s in shares.items()]} {on_cells:.3f}")
        for modes in sorted(shares, key=self.cells_of):
            self.measure({modes: shares[modes]}, beliefs)
        if any(len(modes) > 1 for modes in shares):
            self.multiply_effects()
        if not on_cells:
            return None
        if shares:
            self.look()
        return self.measure_cells()

    def measure_cells(self) -> Solution | None:
        """Measure the table of all modes, and fit components to what it says of the cells that have entries."""
        modes, share = self.everything, self.left - _AGREE
        self.filled = self.known.crowding(modes)
        belief = Belief(effects={modes: _COMPONENTS * self.spread.variance}, rest=self.spread.variance)
        interval = self.choose_interval({modes: share}, [belief])
        part = self.take(share, "table of all modes", "counts, and sums of clipped residuals")
        tally = private_tally(self.data.columns.reveal(), self.shape, modes, self.residual(), interval, part)
        alone = self.known.copy()
        rank, variance = max(self.form.ranks), self.spread.variance
        found = alone.take_in_cells(tally, interval, variance, rank)
        if found is None:
            return None
        before, after = (self.fit_cells(values) for values in found)
        best = before if before.evidence > after.evidence else after
        if best is after:
            self.known = alone
        self.known.doubt += _DRIFT * variance
        self.notes.append(f"spent {share:.0%} on the table of all modes: {before.evidence:.0f} {after.evidence:.0f}")
        return self.weigh_components(best.solution)

    def fit_cells(self, cells: CellValues) -> Fitted:
        """Fit components to cells."""
        perturbed = Perturbed(columns=cells.columns, shape=self.shape, noise=cells.noise, laplace=False)
        return fit_values(perturbed, cells.values, self.form)

    def weigh_components(self, solution: Solution) -> Solution:
        """Shrink components as far as the entries disagree with them: two noisy numbers tell."""
        places = self.known.draw_positions(int(np.clip(self.n, 1, _PLACES)), self.form.seed)
        spread = float(np.sqrt(np.mean(predict_alone(places, solution) ** 2)))
        limit = self.spread.farthest
        part = self.take(_AGREE, "components", "sums of residuals times components, and of their squares")
        if spread < _FLAT * self.width:
            return solution
        guess = predict_alone(self.data.columns.reveal(), solution)
        found = private_agreement(self.residual(), guess, limit, spread, self.n, part)
        differ = _COMPONENTS_DIFFER**2
        true = float(np.clip(1.0 + (found.slope - 1.0) * differ / (differ + found.noise), 0.0, 1.2))
        self.notes.append(f"agree {true:.2f}")
        return scale_solution(solution, 0.0, true)

    def agreement_noise(self, limit: float, spread: float) -> float:
        """Return about the noise with which it would be seen how far residuals agree with guesses."""
        return self.noise_of(_AGREE) * (2.0 * FARTHEST * limit / (self.n * spread)) ** 2

    def multiply_effects(self) -> None:
        """Take in what effects say if modes multiply, as far as the entries agree: two noisy numbers tell."""
        columns = self.data.columns.reveal()
        places = self.known.draw_positions(int(np.clip(self.n, 1, _PLACES)), self.form.seed)
        factors = self.known.find_moves(places, self.form)
        beyond = components_at(places, factors)
        spread = float(np.sqrt(np.mean(beyond**2)))
        if spread**2 < _SMALL_PRODUCT * self.spread.variance:
            return
        limit = self.spread.farthest
        if self.agreement_noise(limit, spread) > _PRODUCT_NOISE**2:
            return
        part = self.take(_AGREE, "products", "sums of residuals times products of effects, and of their squares")
        guess = components_at(columns, factors)
        found = private_agreement(self.residual(), guess, limit, spread, self.n, part)
        true = float(np.clip(found.slope * _PRODUCTS_DIFFER**2 / (_PRODUCTS_DIFFER**2 + found.noise), 0.0, 1.0))
        if true < _LEAST_PRODUCT:
            return
        self.known.add_products(factors, true)
        self.known.doubt += 0.05 * spread**2
        self.notes.append(
            f"spent {_AGREE:.1%} on whether effects multiply: about {true:.0%} of what that says is true"
        )

    def settle(self, solution: Solution) -> Solution:
        """Set the mean of the predictions by what is left of the entries, on average."""
        part, columns = self.rest_of_budget, self.data.columns.reveal()
        residual = self.data.values.reveal() - np.clip(predict_alone(columns, solution), *self.data.bounds)
        interval = self.spread.best_interval(lambda reach, kept: kept)
        everything = np.zeros((1, len(residual)), dtype=np.int64)
        tally = private_tally(everything, (1,), (0,), residual, interval, part)
        self.parts.append(part.part("level", "sum and number of the residuals"))
        before = self.known.offset
        self.known.settle_offset(tally, interval)
        return replace(solution, offset=solution.offset + self.known.offset - before)

    # What is expected

    def layout(self) -> Layout:
        """Return what is known about how entries crowd."""
        tables: list[Modes] = [(mode,) for mode in range(len(self.shape))]
        tables += self.twos if len(self.shape) > 2 else []
        return Layout(
            shape=self.shape,
            n_entries=int(self.n),
            crowds={modes: Crowd.of(self.known.expect(modes).ravel()) for modes in tables},
            parameters=parameters(self.shape, self.form.ranks, self.form.core),
        )

    def believe(self) -> list[Belief]:
        """Return what may be expected once one-way effects are known, by a noisy number for every pair of modes.

        These numbers also rise with components, so a second belief takes half of them for that.
        """
        variance = self.spread.variance
        ones = self.known.doubtful()
        if len(self.shape) == 2:
            return [self.believe_components(ones, _OF_MATRIX)]
        effects = self.measure_pairs()
        total = sum(effects.values())
        if total > _MOST_EFFECTS * variance:
            effects = {modes: effect * _MOST_EFFECTS * variance / total for modes, effect in effects.items()}
        halves = {modes: 0.5 * effect for modes, effect in effects.items()}
        return [
            self.believe_components(ones | effects, _COMPONENTS),
            self.believe_components(ones | halves, _MORE_COMPONENTS),
        ]

    def believe_components(self, effects: Mapping[Modes, float], share: float) -> Belief:
        """Return a belief in effects, with a share of what they leave for components."""
        left = max(self.spread.variance - sum(effects.values()), 0.01 * self.spread.variance)
        return Belief(effects={**effects, self.everything: share * left}, rest=(1 - share) * left)

    def measure_pairs(self) -> dict[Modes, float]:
        """Measure how much variance each two-way table would explain, as far as noise lets it be seen."""
        variance = self.spread.variance
        limit = _PRODUCT_REACH * variance**0.5
        slope = max(self.spread.interval(-limit, limit).slope, 0.1)
        usual = _TWO_WAY * variance / len(self.twos)
        share = min(_PAIR, _MOST_PAIRS / len(self.twos))
        residual, effects = self.residual(), {}
        for modes in self.twos:
            part = self.take(share, f"pairs of modes {modes[0]} and {modes[1]}", "products of pairs of residuals")
            cells = number_cells(self.data.columns.reveal(), self.shape, modes)
            noisy = part.entry_products(residual, limit, cells, self.cells_of(modes))
            expected = self.known.expect(modes)
            together = max(float(np.sum(expected * -np.expm1(-expected))), 1.0) * slope**2
            found, noise = float(noisy.values[0]) / together, noisy.variance / together**2
            apart = max(usual, _PAIRS_DIFFER * variance) ** 2
            effect = usual + (found - usual) * apart / (apart + noise)
            effects[modes] = float(np.clip(effect, 0.01 * usual, 0.9 * variance))
        return effects

    # How to split

    def split(self, beliefs: Sequence[Belief]) -> tuple[dict[Modes, float], float]:
        """Split what is left over tables of one mode and of two, and the table of all modes that comes after them.

        What tables explain need not be covered by the noise on cells, so even a small share for them may pay.
        """
        layout, reach = self.layout(), _REACH * self.spread.variance**0.5
        self.filled = self.known.crowding(self.everything)
        best: tuple[float, dict[Modes, float], float] = (-math.inf, {}, 0.0)
        most = self.cells_of(self.everything)
        gains=[]
        for part in _PARTS if most <= _MOST_CELLS and len(self.shape) > 2 else (1.0,):
            budget = self.left - _AGREE - _SHAPE * (0 < part < 1)
            tables = self.split_tables(part * budget, beliefs, layout, reach) if part else {}
            gain, on_cells = 0.0, (1.0 - part) * budget
            for belief in beliefs:
                bought = self.precisions(tables, reach)
                left = max(1.0 - layout.explain(bought, belief) / belief.variance, 0.0)
                if on_cells:
                    bought |= self.precisions({self.everything: on_cells}, reach * left**0.5)
                gain -= math.log(1.0 - min(layout.explain(bought, belief) / belief.variance, 0.999))
            gains.append((part,round(gain,3)))
            gain -= _WORTH * (part < 1)
            if gain > best[0]:
                best = gain, tables, on_cells
        if DEBUG: print(gains)
        return best[1], best[2]

    def split_tables(
        self, budget: float, beliefs: Sequence[Belief], layout: Layout, reach: float
    ) -> dict[Modes, float]:
        """Split a budget over tables of one mode and of two."""
        options: list[Modes] = [*((mode,) for mode in range(len(self.shape))), *self.twos]

        def gain(shares: Array) -> float:
            bought = self.precisions(dict(zip(options, budget * shares, strict=True)), reach)
            return sum(layout.explain(bought, belief) for belief in beliefs)

        sizes = np.sqrt([self.cells_of(modes) for modes in options])
        alone = [np.where(np.arange(len(sizes)) == k, 1.0, 0.02) for k in range(len(sizes))]
        ones = np.where(np.arange(len(sizes)) < len(self.shape), sizes, 1e-3)
        _, shares = split_best(gain, [sizes, ones, *alone])
        kept = {modes: float(share) for modes, share in zip(options, shares, strict=True) if share > _LEAST_TABLE}
        return {modes: budget * share / sum(kept.values()) for modes, share in kept.items()}

    def precisions(self, shares: Mapping[Modes, float], reach: float) -> dict[Modes, float]:
        """Return one over the noise that shares of the budget leave on the sum of a cell with an average count.

        Of single cells it is not known which have entries, unless counts stand out of their noise.
        """
        found = {}
        for modes, share in shares.items():
            noise = self.noise_of(share)
            found[modes] = 1.0 / (noise * reach**2)
            if modes == self.everything:
                filled = self.filled
                varies = filled * (1.0 - filled)
                known = varies / (varies + 4.0 * noise / WEIGHT**2)
                found[modes] *= filled + known * (1.0 - filled)
        return found

    def choose_interval(self, shares: Mapping[Modes, float], beliefs: Sequence[Belief]) -> Interval:
        """Choose where to clip residuals whose sums get these shares."""
        layout = self.layout()

        def gain(reach: float, kept: float) -> float:
            bought = self.precisions(shares, reach)
            return sum(layout.explain(bought, belief, kept, certain=True) for belief in beliefs)

        return self.spread.best_interval(gain)

    def measure(self, shares: Mapping[Modes, float], beliefs: Sequence[Belief]) -> None:
        """Measure tables, each of what is left after the one before it."""
        interval = self.choose_interval(shares, beliefs)
        for modes, share in shares.items():
            part = self.take(share, _name(modes), "counts, and sums of clipped residuals")
            tally = private_tally(self.data.columns.reveal(), self.shape, modes, self.residual(), interval, part)
            self.known.take_in(tally, interval, self.spread.variance, max(self.form.ranks))


def _name(modes: Modes) -> str:
    """Name a table."""
    return f"table of mode{'s' if len(modes) > 1 else ''} {' and '.join(map(str, modes))}"


METHOD = Method(
    name="crosstabs",
    title="private cross-tabulations",
    unit="entry",
    run=run_crosstabs,
    proofs=("docs/guarantees.md#entry", "docs/guarantees.md#post-processing"),
    expected=NOT_COMPARED,
)
